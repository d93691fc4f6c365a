// A matrix in colours: SVG around an embedded PNG, with a colour bar in HTML.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/axis.h"
#include "report/png.h"

namespace phasor::report {

struct HeatMap {
  std::string title;
  Matrix values;  // row 0 at the top
  Axis x, y;      // columns and rows, counted from 0
  std::string value_label = {};
  ColourMap colours = ColourMap::sequential;
  std::optional<double> low = {}, high = {};  // what the first and last colour mean; otherwise the ends of the data
  double width = 462, height = 290;           // of the picture within its axes
  std::vector<std::string> row_titles = {};   // shown when hovering; otherwise where the row is least and most
};

// The picture without the bar, for several side by side under one bar.
std::string heat_map_picture(const HeatMap& map);
std::string colour_bar(const HeatMap& map);

std::string heat_map(const HeatMap& map);

}  // namespace phasor::report
