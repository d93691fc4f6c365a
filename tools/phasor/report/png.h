// A matrix as a PNG picture: one pixel a cell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace phasor::report {

// Row-major numbers; NaN where there is no value.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values = {};

  double operator()(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

// Both are even in lightness as the eye sees it, and keep their order for the colour-blind and in grey print.
enum class ColourMap {
  sequential,  // from dark blue over teal to light yellow
  diverging,   // blue, white in the middle, orange
};

// The bytes of a PNG file. `low` and below has the first colour, `high` and above the last, NaN is transparent.
std::string png(const Matrix& matrix, ColourMap map, double low, double high);

}  // namespace phasor::report
