#include "report/png.h"

#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace phasor::report {
namespace {

struct Pixel {
  std::uint8_t red, green, blue, alpha;

  double grey() const { return 0.2126 * red + 0.7152 * green + 0.0722 * blue; }
  bool operator==(const Pixel&) const = default;
};

// What libpng itself reads from the bytes.
std::vector<Pixel> pixels_of(const std::string& bytes, unsigned width, unsigned height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0) << image.message;
  EXPECT_EQ(image.width, width);
  EXPECT_EQ(image.height, height);
  image.format = PNG_FORMAT_RGBA;
  std::vector<Pixel> pixels(static_cast<std::size_t>(image.width) * image.height);
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0) << image.message;
  return pixels;
}

TEST(Png, SequentialColoursGrowLighterStepByStep) {
  Matrix ramp{1, 255, {}};
  for (int i = 0; i < 255; i++) ramp.values.push_back(i);
  const auto pixels = pixels_of(png(ramp, ColourMap::sequential, 0, 254), 255, 1);
  for (std::size_t i = 5; i < pixels.size(); i++) EXPECT_GT(pixels[i].grey(), pixels[i - 5].grey()) << i;
  EXPECT_LT(pixels[0].grey(), 50);
  EXPECT_GT(pixels[254].grey(), 225);
}

TEST(Png, DivergingColoursAreLightestInTheMiddle) {
  const auto pixels = pixels_of(png({1, 3, {-1, 0, 1}}, ColourMap::diverging, -1, 1), 3, 1);
  EXPECT_GT(pixels[0].blue, pixels[0].red);
  EXPECT_GT(pixels[2].red, pixels[2].blue);
  EXPECT_GT(pixels[1].grey(), 235);
  EXPECT_NEAR(pixels[0].grey(), pixels[2].grey(), 25);
}

TEST(Png, RowsAndColumnsKeepTheirPlace) {
  const auto pixels = pixels_of(png({2, 2, {0, 1, 1, 1}}, ColourMap::sequential, 0, 1), 2, 2);
  EXPECT_NE(pixels[0], pixels[1]);
  EXPECT_EQ(pixels[1], pixels[2]);
  EXPECT_EQ(pixels[2], pixels[3]);
}

TEST(Png, NoValueIsTransparentAndEndsAreKept) {
  const auto pixels = pixels_of(png({1, 4, {std::nan(""), -INFINITY, 0, INFINITY}}, ColourMap::sequential, 0, 1), 4, 1);
  EXPECT_EQ(pixels[0].alpha, 0);
  EXPECT_EQ(pixels[1], pixels[2]);
  EXPECT_EQ(pixels[3].alpha, 255);
  EXPECT_NE(pixels[3], pixels[2]);
}

}  // namespace
}  // namespace phasor::report
