#include "report/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "phasor/core/check.h"

namespace phasor::report {
namespace {

// Index 0 of the palette is transparent: no value.
constexpr int kColours = 255;

// Lightness, chroma and hue (in turns of 360) of OKLab, Ottosson 2020, "A perceptual color space for image processing".
struct Oklch {
  double lightness, chroma, hue;
};

using Rgba = std::array<std::uint8_t, 4>;

double srgb_of_linear(double value) {
  const double v = std::clamp(value, 0.0, 1.0);
  return v <= 0.0031308 ? 12.92 * v : 1.055 * std::pow(v, 1.0 / 2.4) - 0.055;
}

Rgba srgb(const Oklch& colour) {
  const double angle = colour.hue * std::numbers::pi / 180.0;
  const double a = colour.chroma * std::cos(angle), b = colour.chroma * std::sin(angle);
  const double l = std::pow(colour.lightness + 0.3963377774 * a + 0.2158037573 * b, 3.0);
  const double m = std::pow(colour.lightness - 0.1055613458 * a - 0.0638541728 * b, 3.0);
  const double s = std::pow(colour.lightness - 0.0894841775 * a - 1.2914855480 * b, 3.0);
  const auto byte = [](double linear) {
    return static_cast<std::uint8_t>(std::lround(255.0 * srgb_of_linear(linear)));
  };
  return {byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s), 255};
}

Oklch sequential(double t) { return {0.26 + 0.70 * t, 0.10 + 0.05 * t * t, 278.0 - 172.0 * t}; }

Oklch diverging(double t) {
  const double from_middle = std::fabs(2.0 * t - 1.0);
  return {0.97 - 0.47 * from_middle, 0.15 * from_middle, t < 0.5 ? 252.0 : 45.0};
}

std::vector<Rgba> palette(ColourMap map) {
  std::vector<Rgba> colours{{0, 0, 0, 0}};
  for (int i = 0; i < kColours; i++) {
    const double t = static_cast<double>(i) / (kColours - 1);
    colours.push_back(srgb(map == ColourMap::sequential ? sequential(t) : diverging(t)));
  }
  return colours;
}

std::vector<std::uint8_t> indices(const Matrix& matrix, double low, double high) {
  const double range = high > low ? high - low : 1.0;
  std::vector<std::uint8_t> result;
  result.reserve(matrix.values.size());
  for (const double value : matrix.values) {
    const double t = std::clamp((value - low) / range, 0.0, 1.0);
    result.push_back(std::isnan(value) ? std::uint8_t{0}
                                       : static_cast<std::uint8_t>(1 + std::lround(t * (kColours - 1))));
  }
  return result;
}

}  // namespace

std::string png(const Matrix& matrix, ColourMap map, double low, double high) {
  PHASOR_CHECK(matrix.rows >= 1 && matrix.columns >= 1 && matrix.values.size() == matrix.rows * matrix.columns, "png",
               "matrix: ", matrix.rows, " x ", matrix.columns, " with ", matrix.values.size(),
               " values, expected at least one row and column, and a value for each cell");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(matrix.columns);
  image.height = static_cast<png_uint_32>(matrix.rows);
  image.format = PNG_FORMAT_RGBA_COLORMAP;
  const std::vector<Rgba> colours = palette(map);
  image.colormap_entries = static_cast<png_uint_32>(colours.size());
  const std::vector<std::uint8_t> pixels = indices(matrix, low, high);
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  const bool written = png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, colours.data()) != 0;
  PHASOR_CHECK(written, "png", "libpng: ", image.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace phasor::report
