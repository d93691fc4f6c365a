// The numbers of a picture as a text table, thinned to what people read, and figures made of both.
#pragma once

#include <string>

#include "report/heat_map.h"
#include "report/line_chart.h"
#include "report/page.h"

namespace phasor::report {

TextTable numbers_of(const LineChart& chart);
TextTable numbers_of(const HeatMap& map);

// The title of a picture is the title of its figure.
Figure figure_of(std::string id, std::string text, const LineChart& chart);
Figure figure_of(std::string id, std::string text, const HeatMap& map);

}  // namespace phasor::report
