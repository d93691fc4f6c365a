#include "report/numbers.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace phasor::report {
namespace {

// At most `most` of `count` indices, evenly spread, first and last among them.
std::vector<std::size_t> spread_indices(std::size_t count, std::size_t most) {
  std::vector<std::size_t> indices;
  const std::size_t chosen = std::min(count, most);
  for (std::size_t i = 0; i < chosen; i++) indices.push_back(chosen == 1 ? 0 : i * (count - 1) / (chosen - 1));
  return indices;
}

std::string spread_text(const Point& point) {
  std::string text = number_text(point.y);
  if (!point.low || !point.high || *point.low == *point.high) return text;
  return text + " (" + number_text(*point.low) + " to " + number_text(*point.high) + ")";
}

}  // namespace

TextTable numbers_of(const LineChart& chart) {
  constexpr std::size_t kMostRows = 17;
  std::set<double> all;
  std::vector<std::map<double, Point>> by_x(chart.series.size());
  TextTable table{{">" + chart.x.label}, {}};
  for (std::size_t i = 0; i < chart.series.size(); i++) {
    table.headings.push_back(">" + chart.series[i].name);
    for (const Point& point : chart.series[i].points) {
      all.insert(point.x);
      by_x[i].insert({point.x, point});
    }
  }
  const std::vector<double> xs(all.begin(), all.end());
  for (const std::size_t index : spread_indices(xs.size(), kMostRows)) {
    std::vector<std::string> row{number_text(xs[index])};
    for (const auto& points : by_x) {
      const auto found = points.find(xs[index]);
      row.push_back(found == points.end() ? "" : spread_text(found->second));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

TextTable numbers_of(const HeatMap& map) {
  constexpr std::size_t kMost = 9;
  const std::vector<std::size_t> columns = spread_indices(map.values.columns, kMost);
  TextTable table{{">" + map.y.label + " \\ " + map.x.label}, {}};
  for (const std::size_t column : columns) table.headings.push_back(">" + std::to_string(column));
  for (const std::size_t row : spread_indices(map.values.rows, kMost)) {
    std::vector<std::string> cells{std::to_string(row)};
    for (const std::size_t column : columns) cells.push_back(number_text(map.values(row, column), 3));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Figure figure_of(std::string id, std::string text, const LineChart& chart) {
  return {std::move(id), chart.title, std::move(text), line_chart(chart), numbers_of(chart)};
}

Figure figure_of(std::string id, std::string text, const HeatMap& map) {
  return {std::move(id), map.title, std::move(text), heat_map(map), numbers_of(map)};
}

}  // namespace phasor::report
