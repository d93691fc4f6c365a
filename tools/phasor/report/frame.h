// The frame that line charts and heat maps share: ticks with labels, the names of the axes, marked values.
#pragma once

#include <string>
#include <string_view>

#include "report/axis.h"

namespace phasor::report {

// Where the data lies in a picture, in SVG units.
struct Plot {
  double left, top, width, height;

  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

// Room around a plot, enough for labels at the size used on phones.
inline constexpr double kLeft = 68, kTop = 38, kRight = 30, kBottom = 62;

std::string svg_text(double x, double y, std::string_view kind, std::string_view anchor, std::string_view text);
std::string svg_line(double x1, double y1, double x2, double y2, std::string_view kind);

// Tick labels, and grid lines unless the plot is filled by a picture.
std::string frame(const Plot& plot, const Axis& x, const Scale& x_scale, const Axis& y, const Scale& y_scale,
                  bool grid);

// The whole picture around the content, at most as wide on the page as its own width.
std::string svg(const Plot& plot, std::string_view kind, std::string_view title, std::string_view content);

}  // namespace phasor::report
