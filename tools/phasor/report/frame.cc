#include "report/frame.h"

#include "report/markup.h"

namespace phasor::report {

std::string svg_text(double x, double y, std::string_view kind, std::string_view anchor, std::string_view text) {
  return element(
      "text",
      {{"x", coordinate(x)}, {"y", coordinate(y)}, {"class", std::string(kind)}, {"text-anchor", std::string(anchor)}},
      escape(text));
}

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view kind) {
  return element("line", {{"x1", coordinate(x1)},
                          {"y1", coordinate(y1)},
                          {"x2", coordinate(x2)},
                          {"y2", coordinate(y2)},
                          {"class", std::string(kind)}});
}

std::string frame(const Plot& plot, const Axis& x, const Scale& x_scale, const Axis& y, const Scale& y_scale,
                  bool grid) {
  constexpr double kTick = 5;
  std::string content;
  for (const double tick : y_scale.ticks()) {
    const double at = y_scale.pixel(tick);
    content += grid ? svg_line(plot.left, at, plot.right(), at, "grid")
                    : svg_line(plot.left - kTick, at, plot.left, at, "tick");
    content += svg_text(plot.left - 9, at, "middle", "end", y_scale.tick_text(tick));
  }
  for (const double tick : x_scale.ticks()) {
    const double at = x_scale.pixel(tick);
    content += svg_line(at, plot.bottom(), at, plot.bottom() + kTick, "tick");
    content += svg_text(at, plot.bottom() + 23, "", "middle", x_scale.tick_text(tick));
  }
  if (grid) content += svg_line(plot.left, plot.bottom(), plot.right(), plot.bottom(), "tick");
  content += svg_text(4, 20, "name", "start", y.label);
  content += svg_text(plot.left + plot.width / 2, plot.bottom() + 52, "name", "middle", x.label);
  return content;
}

std::string svg(const Plot& plot, std::string_view kind, std::string_view title, std::string_view content) {
  constexpr double kNarrow = 400;  // shrinks less on a phone, so its text grows less
  const std::string width = coordinate(plot.right() + kRight), height = coordinate(plot.bottom() + kBottom);
  return element("svg",
                 {{"xmlns", "http://www.w3.org/2000/svg"},
                  {"viewBox", "0 0 " + width + " " + height},
                  {"style", "max-width:" + width + "px"},
                  {"class", std::string(kind) + (plot.width < kNarrow ? " narrow" : "")},
                  {"role", "img"},
                  {"aria-label", std::string(title)}},
                 content);
}

}  // namespace phasor::report
