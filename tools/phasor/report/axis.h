// An axis: what it shows, and where its ticks stand.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace phasor::report {

struct Axis {
  std::string label = {};
  bool log = false;                             // values of 0 and below are not drawn
  std::optional<double> first = {}, last = {};  // ends; otherwise those of the data, moved out to a tick
  std::vector<double> ticks = {};               // at these values only; otherwise round numbers
};

// Values of an axis to pixels, linearly or by their logarithm.
class Scale {
 public:
  // `low` and `high` are the ends of the data; NaN when there is none.
  Scale(const Axis& axis, double low, double high, double first_pixel, double last_pixel);

  bool can_show(double value) const;  // finite, and positive on a log axis
  double pixel(double value) const;   // within the ends of the axis
  const std::vector<double>& ticks() const { return ticks_; }
  std::string tick_text(double tick) const;

 private:
  double place(double value) const;

  bool log_;
  double first_, last_, first_pixel_, last_pixel_;
  std::vector<double> ticks_;
};

// A number for people: 0.0123, 4.5, 12,300, 1.2e-05.
std::string number_text(double value, int digits = 4);

}  // namespace phasor::report
