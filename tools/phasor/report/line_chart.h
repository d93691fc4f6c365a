// Lines over a plane, as SVG with its legend in HTML.
//
// Colours come from the page's style sheet by class, so a chart follows light and dark. Text is laid out to stay apart
// at twice the usual size, which the style sheet uses at phone width and in print.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/axis.h"

namespace phasor::report {

struct Point {
  double x, y;                                // a y that the axis cannot show leaves a gap
  std::optional<double> low = {}, high = {};  // of the spread around y
};

struct Series {
  std::string name;
  std::vector<Point> points;
  std::optional<std::size_t> style = {};  // colour, dash and marker; by default its place among the series
};

// A line across the chart at a value worth knowing.
struct Mark {
  double value;
  std::string text;
};

struct LineChart {
  std::string title;  // what readers of the screen hear
  Axis x, y;
  std::vector<Series> series;
  std::vector<Mark> x_marks = {}, y_marks = {};
  bool steps = false;  // constant from a point to the next
};

std::string line_chart(const LineChart& chart);

// At most `most` points, each the mean of as many neighbours as it takes.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most);

}  // namespace phasor::report
