#include "report/heat_map.h"

#include <cmath>

#include "report/frame.h"
#include "report/markup.h"

namespace phasor::report {
namespace {

struct Ends {
  double low, high;
};

Ends ends_of_data(const HeatMap& map) {
  double low = std::nan(""), high = std::nan("");
  for (const double value : map.values.values) {
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
  if (std::isnan(low)) low = high = 0.0;
  return {low, high};
}

Ends ends_of(const HeatMap& map) {
  const Ends data = ends_of_data(map);
  return {map.low.value_or(data.low), map.high.value_or(data.high)};
}

std::string picture_address(const Matrix& matrix, ColourMap colours, const Ends& ends) {
  return "data:image/png;base64," + base64(png(matrix, colours, ends.low, ends.high));
}

std::string least_and_most(const HeatMap& map, std::size_t row) {
  const auto at = [&](std::size_t column) { return map.values(row, column); };
  std::optional<std::size_t> least, most;
  for (std::size_t column = 0; column < map.values.columns; column++) {
    if (std::isnan(at(column))) continue;
    if (!least || at(column) < at(*least)) least = column;
    if (!most || at(column) > at(*most)) most = column;
  }
  const std::string text = map.y.label + " " + number_text(static_cast<double>(row));
  if (!least) return text + ": no value";
  const auto place = [&](std::size_t column) {
    return number_text(at(column), 3) + " at " + map.x.label + " " + number_text(static_cast<double>(column));
  };
  return text + ": from " + place(*least) + " to " + place(*most);
}

// A strip over every row that tells about it.
std::string strips(const HeatMap& map, const Plot& plot) {
  const double height = plot.height / static_cast<double>(map.values.rows);
  std::string content;
  for (std::size_t row = 0; row < map.values.rows; row++)
    content += element(
        "rect",
        {{"class", "strip"},
         {"x", coordinate(plot.left)},
         {"y", coordinate(plot.top + static_cast<double>(row) * height)},
         {"width", coordinate(plot.width)},
         {"height", coordinate(height)}},
        element("title", {}, escape(row < map.row_titles.size() ? map.row_titles[row] : least_and_most(map, row))));
  return content;
}

// Index i is the middle of its cell, and ticks are whole.
Scale index_scale(Axis axis, std::size_t count, double first_pixel, double last_pixel) {
  axis.first = -0.5;
  axis.last = static_cast<double>(count) - 0.5;
  Scale scale(axis, 0.0, 0.0, first_pixel, last_pixel);
  if (!axis.ticks.empty()) return scale;
  for (const double tick : scale.ticks())
    if (tick == std::round(tick)) axis.ticks.push_back(tick);
  return {axis, 0.0, 0.0, first_pixel, last_pixel};
}

}  // namespace

std::string heat_map_picture(const HeatMap& map) {
  const Plot plot{kLeft, kTop, map.width, map.height};
  const Scale x = index_scale(map.x, map.values.columns, plot.left, plot.right());
  const Scale y = index_scale(map.y, map.values.rows, plot.top, plot.bottom());
  const std::string image = element("image", {{"href", picture_address(map.values, map.colours, ends_of(map))},
                                              {"x", coordinate(plot.left)},
                                              {"y", coordinate(plot.top)},
                                              {"width", coordinate(plot.width)},
                                              {"height", coordinate(plot.height)},
                                              {"preserveAspectRatio", "none"}});
  return svg(plot, "heat", map.title, image + strips(map, plot) + frame(plot, map.x, x, map.y, y, false));
}

std::string colour_bar(const HeatMap& map) {
  constexpr std::size_t kSteps = 128;
  Matrix ramp{1, kSteps, {}};
  for (std::size_t i = 0; i < kSteps; i++) ramp.values.push_back(static_cast<double>(i));
  const Ends ends = ends_of(map), data = ends_of_data(map);
  const std::string low = (data.low < ends.low ? "≤ " : "") + number_text(ends.low, 3);
  const std::string high = (data.high > ends.high ? "≥ " : "") + number_text(ends.high, 3);
  const std::string bar = element(
      "img", {{"class", "bar"}, {"alt", "colour scale"}, {"src", picture_address(ramp, map.colours, {0, kSteps - 1})}});
  return element("div", {{"class", "legend"}},
                 element("span", {{"class", "item"}}, escape(low) + bar + escape(high)) +
                     element("span", {{"class", "item"}}, escape(map.value_label)));
}

std::string heat_map(const HeatMap& map) { return heat_map_picture(map) + colour_bar(map); }

}  // namespace phasor::report
