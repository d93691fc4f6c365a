#include "report/line_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "report/frame.h"
#include "report/markup.h"

namespace phasor::report {
namespace {

constexpr Plot kPlot{kLeft, kTop, 462, 290};
constexpr std::size_t kColours = 10, kDashes = 4, kMarkers = 5;  // the style sheet has a class for each
constexpr std::size_t kMostMarked = 20;                          // points of a series that each get a marker
constexpr std::size_t kHovers = 24;                              // places of a longer series that tell their value

struct Range {
  double low = std::numeric_limits<double>::quiet_NaN(), high = low;

  void include(double value, const Axis& axis) {
    if (!std::isfinite(value) || (axis.log && value <= 0.0)) return;
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
};

Range x_range(const LineChart& chart) {
  Range range;
  for (const Series& series : chart.series)
    for (const Point& point : series.points) range.include(point.x, chart.x);
  for (const Mark& mark : chart.x_marks) range.include(mark.value, chart.x);
  return range;
}

Range y_range(const LineChart& chart) {
  Range range;
  for (const Series& series : chart.series)
    for (const Point& point : series.points)
      for (const double value : {point.y, point.low.value_or(point.y), point.high.value_or(point.y)})
        range.include(value, chart.y);
  for (const Mark& mark : chart.y_marks) range.include(mark.value, chart.y);
  return range;
}

struct Scales {
  Scale x, y;

  bool can_show(const Point& point) const { return x.can_show(point.x) && y.can_show(point.y); }
  std::string at(double px, double py) const { return coordinate(px) + " " + coordinate(py); }
  std::string at(const Point& point) const { return at(x.pixel(point.x), y.pixel(point.y)); }
};

// Stretches of points that can be shown, one after the other.
std::vector<std::vector<Point>> stretches(const Series& series, const Scales& scales) {
  std::vector<std::vector<Point>> result;
  bool open = false;
  for (const Point& point : series.points) {
    const bool shown = scales.can_show(point);
    if (shown && !open) result.emplace_back();
    if (shown) result.back().push_back(point);
    open = shown;
  }
  return result;
}

std::string line_path(const std::vector<Point>& points, const Scales& scales, bool steps) {
  constexpr double kAlone = 3;  // half of the dash that a point without neighbours gets
  if (points.size() == 1) {
    const double x = scales.x.pixel(points[0].x), y = scales.y.pixel(points[0].y);
    return "M" + scales.at(x - kAlone, y) + "L" + scales.at(x + kAlone, y);
  }
  std::string path = "M" + scales.at(points[0]);
  for (std::size_t i = 1; i < points.size(); i++) {
    if (steps)
      path += "H" + coordinate(scales.x.pixel(points[i].x)) + "V" + coordinate(scales.y.pixel(points[i].y));
    else
      path += "L" + scales.at(points[i]);
  }
  return path;
}

// Around the spread: along the upper ends, back along the lower ones.
std::string band_path(const std::vector<Point>& points, const Scales& scales) {
  const auto pixel = [&](double value, double otherwise) {
    return scales.y.pixel(scales.y.can_show(value) ? value : otherwise);
  };
  std::string path;
  for (const Point& p : points)
    path += (path.empty() ? "M" : "L") + scales.at(scales.x.pixel(p.x), pixel(p.high.value_or(p.y), p.y));
  for (std::size_t i = points.size(); i-- > 0;)
    path += "L" + scales.at(scales.x.pixel(points[i].x), pixel(points[i].low.value_or(points[i].y), points[i].y));
  return path + "Z";
}

std::string marker_path(double x, double y, std::size_t kind) {
  constexpr double r = 4.2;
  const auto path = [&](std::initializer_list<std::pair<double, double>> corners) {
    std::string text;
    for (const auto& [dx, dy] : corners)
      text += (text.empty() ? "M" : "L") + coordinate(x + dx) + " " + coordinate(y + dy);
    return text + "Z";
  };
  switch (kind) {
    case 0: {
      const std::string radius = coordinate(r), half = "a" + radius + " " + radius + " 0 1 0 ";
      return "M" + coordinate(x - r) + " " + coordinate(y) + half + coordinate(2 * r) + " 0" + half +
             coordinate(-2 * r) + " 0Z";
    }
    case 1:
      return path({{-r, -r}, {r, -r}, {r, r}, {-r, r}});
    case 2:
      return path({{0, -1.2 * r}, {1.2 * r, r}, {-1.2 * r, r}});
    case 3:
      return path({{0, -1.4 * r}, {1.4 * r, 0}, {0, 1.4 * r}, {-1.4 * r, 0}});
    default:
      return path({{-1.2 * r, -r}, {1.2 * r, -r}, {0, 1.2 * r}});
  }
}

struct Style {
  std::size_t colour, dash, marker;
};

Style style_of(std::size_t i) { return {i % kColours, (i + i / kColours) % kDashes, (i + i / kColours) % kMarkers}; }

std::string series_class(const Style& style) {
  return "series c" + std::to_string(style.colour) + " d" + std::to_string(style.dash);
}

std::string hover_text(const Series& series, const Point& point, const LineChart& chart) {
  std::string text = series.name + "\n" + chart.x.label + " " + number_text(point.x) + "\n" + chart.y.label + " " +
                     number_text(point.y);
  if (point.low && point.high) text += " (" + number_text(*point.low) + " to " + number_text(*point.high) + ")";
  return text;
}

// Markers on the points of a short series; unseen spots that tell the value on a long one.
std::string points_of(const Series& series, const Style& style, const LineChart& chart, const Scales& scales) {
  const bool marked = series.points.size() <= kMostMarked && !chart.steps;
  const std::size_t every = marked ? 1 : (series.points.size() + kHovers - 1) / kHovers;
  std::string content;
  for (std::size_t i = 0; i < series.points.size(); i += every) {
    const Point& point = series.points[i];
    if (!scales.can_show(point)) continue;
    const double x = scales.x.pixel(point.x), y = scales.y.pixel(point.y);
    const std::string title = element("title", {}, escape(hover_text(series, point, chart)));
    if (marked)
      content += element("path", {{"class", "marker"}, {"d", marker_path(x, y, style.marker)}}, title);
    else
      content +=
          element("circle", {{"class", "spot"}, {"cx", coordinate(x)}, {"cy", coordinate(y)}, {"r", "8"}}, title);
  }
  return content;
}

std::string series_group(const Series& series, std::size_t place, const LineChart& chart, const Scales& scales) {
  const Style style = style_of(series.style.value_or(place));
  const bool spread = std::ranges::any_of(series.points, [](const Point& p) { return p.low && p.high; });
  std::string content = element("title", {}, escape(series.name));
  for (const std::vector<Point>& points : stretches(series, scales)) {
    if (spread) content += element("path", {{"class", "band"}, {"d", band_path(points, scales)}});
    content += element("path", {{"class", "line"}, {"d", line_path(points, scales, chart.steps)}});
  }
  return element("g", {{"class", series_class(style)}}, content + points_of(series, style, chart, scales));
}

// Whether the points within `reach` right of a place (left of it: negative) lie in the upper half.
bool crowded_above(const LineChart& chart, const Scales& scales, double x, double reach) {
  double sum = 0.0, count = 0.0;
  for (const Series& series : chart.series)
    for (const Point& point : series.points) {
      if (!scales.can_show(point)) continue;
      const double away = (scales.x.pixel(point.x) - x) / reach;
      if (away < 0.0 || away > 1.0) continue;
      sum += scales.y.pixel(point.y);
      count++;
    }
  return count > 0.0 && sum / count < kPlot.top + kPlot.height / 2;
}

// The text stands beside its line, on the side with more room, away from the data.
std::string marks(const LineChart& chart, const Scales& scales) {
  constexpr double kReach = 130;  // about as long as the text is
  std::string content;
  for (const Mark& mark : chart.x_marks) {
    const double x = scales.x.pixel(mark.value);
    const bool left_half = x < kPlot.left + kPlot.width / 2;
    content += svg_line(x, kPlot.top, x, kPlot.bottom(), "mark");
    const double y =
        crowded_above(chart, scales, x, left_half ? kReach : -kReach) ? kPlot.bottom() - 30 : kPlot.top + 12;
    content += svg_text(x + (left_half ? 7 : -7), y, "note", left_half ? "start" : "end", mark.text);
  }
  for (const Mark& mark : chart.y_marks) {
    const double y = scales.y.pixel(mark.value);
    content += svg_line(kPlot.left, y, kPlot.right(), y, "mark");
    content += svg_text(kPlot.right() - 4, y - 7, "note", "end", mark.text);
  }
  return content;
}

// A sample of the line with its marker, and the name. It wraps as text does.
std::string legend(const LineChart& chart) {
  std::string items;
  for (std::size_t i = 0; i < chart.series.size(); i++) {
    const Series& series = chart.series[i];
    const Style style = style_of(series.style.value_or(i));
    std::string sample = element("path", {{"class", "line"}, {"d", "M1 7L33 7"}});
    if (series.points.size() <= kMostMarked && !chart.steps)
      sample += element("path", {{"class", "marker"}, {"d", marker_path(17, 7, style.marker)}});
    items += element(
        "span", {{"class", "item"}},
        element("svg", {{"viewBox", "0 0 34 14"}, {"class", "key " + series_class(style)}, {"aria-hidden", "true"}},
                sample) +
            escape(series.name));
  }
  return element("div", {{"class", "legend"}}, items);
}

}  // namespace

std::string line_chart(const LineChart& chart) {
  const Range xs = x_range(chart), ys = y_range(chart);
  Axis x_axis = chart.x;  // a line fills its width; a few named values stand off the frame
  if (!x_axis.first && std::isfinite(xs.low)) x_axis.first = xs.low;
  if (!x_axis.last && std::isfinite(xs.high)) x_axis.last = xs.high;
  const double inset = chart.x.ticks.empty() ? 0.0 : 26.0;
  const Scales scales{Scale(x_axis, xs.low, xs.high, kPlot.left + inset, kPlot.right() - inset),
                      Scale(chart.y, ys.low, ys.high, kPlot.bottom(), kPlot.top)};
  std::string content = frame(kPlot, chart.x, scales.x, chart.y, scales.y, true);
  for (std::size_t i = 0; i < chart.series.size(); i++) content += series_group(chart.series[i], i, chart, scales);
  content += marks(chart, scales);
  const std::string picture = svg(kPlot, "chart", chart.title, content);
  return chart.series.size() > 1 ? picture + legend(chart) : picture;
}

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> result;
  for (std::size_t bin = 0; bin < most; bin++) {
    const std::size_t first = bin * points.size() / most, end = (bin + 1) * points.size() / most;
    const auto mean = [&](const auto& part) {
      double sum = 0.0;
      for (std::size_t i = first; i < end; i++) sum += part(points[i]);
      return sum / static_cast<double>(end - first);
    };
    Point point{mean([](const Point& p) { return p.x; }), mean([](const Point& p) { return p.y; })};
    if (points[first].low) point.low = mean([](const Point& p) { return p.low.value_or(p.y); });
    if (points[first].high) point.high = mean([](const Point& p) { return p.high.value_or(p.y); });
    result.push_back(point);
  }
  return result;
}

}  // namespace phasor::report
