#include "report/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "table.h"

namespace phasor::report {
namespace {

constexpr int kTicks = 5;  // about as many, so that labels stay apart at phone width

// 1, 2 or 5 times a power of ten.
double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0})
    if (rough <= step * power * (1.0 + 1e-9)) return step * power;
  return 10.0 * power;
}

// The next 1, 2 or 5 times a power of ten, up or down.
double round_power(double value, bool up) {
  const double above = round_step(value);
  if (up || above <= value * (1.0 + 1e-9)) return above;
  return 1.0 / round_step(1.0 / value);  // 1, 2, 5 are 1, 1/5, 1/2 of a power of ten
}

std::vector<double> linear_ticks(double first, double last) {
  const double step = round_step((last - first) / kTicks);
  std::vector<double> ticks;
  // Multiples of the step, so that 0 is 0 and not 1e-17.
  for (double n = std::ceil(first / step - 1e-6); n <= last / step + 1e-6; n++)
    ticks.push_back(n * step + 0.0);  // not -0
  return ticks;
}

// Decades; thinned when there are many, with 2 and 5 between when there are few.
std::vector<double> log_ticks(double first, double last) {
  const double low = std::log10(first), high = std::log10(last);
  const bool few = high - low < 2.6;
  const double every = std::max(1.0, std::ceil((high - low) / (kTicks + 2.0)));
  std::vector<double> ticks;
  for (double n = std::floor(low / every) * every; n <= high + 1e-9; n += every)
    for (const double times : {1.0, 2.0, 5.0}) {
      const double tick = times * std::pow(10.0, n);
      const bool inside = tick >= first * (1.0 - 1e-9) && tick <= last * (1.0 + 1e-9);
      if (inside && (times == 1.0 || few)) ticks.push_back(tick);
    }
  return ticks;
}

std::string power_of_ten(int exponent) {
  static const std::vector<std::string> digits{"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (const char c : std::to_string(std::abs(exponent))) text += digits[static_cast<std::size_t>(c - '0')];
  return text;
}

struct Ends {
  double first, last;
};

// The ends of an axis: those that are given, else those of the data; never equal, never NaN.
Ends ends_of(const Axis& axis, double low, double high) {
  Ends ends{axis.first.value_or(low), axis.last.value_or(high)};
  if (axis.log && !(ends.first > 0.0))
    ends.first = std::isfinite(ends.last) && ends.last > 0.0 ? ends.last / 10.0 : 1.0;
  if (!std::isfinite(ends.first)) ends.first = std::isfinite(ends.last) ? ends.last - 1.0 : 0.0;
  if (!std::isfinite(ends.last)) ends.last = axis.log ? ends.first * 10.0 : ends.first + 1.0;
  if (ends.last > ends.first) return ends;
  if (axis.log) return {ends.first / 2.0, ends.first * 2.0};
  const double pad = ends.first == 0.0 ? 1.0 : std::fabs(ends.first) * 0.1;
  return {ends.first - pad, ends.first + pad};
}

}  // namespace

Scale::Scale(const Axis& axis, double low, double high, double first_pixel, double last_pixel)
    : log_(axis.log), first_(0.0), last_(1.0), first_pixel_(first_pixel), last_pixel_(last_pixel), ticks_(axis.ticks) {
  const Ends ends = ends_of(axis, low, high);
  first_ = ends.first;
  last_ = ends.last;
  if (!ticks_.empty()) return;
  if (log_) {
    if (!axis.first) first_ = round_power(first_, false);
    if (!axis.last) last_ = round_power(last_, true);
  } else {  // out to a tick or half of one, so that the data does not touch the frame
    const double half = round_step((last_ - first_) / kTicks) / 2.0;
    if (!axis.first) first_ = std::floor(first_ / half + 1e-6) * half;
    if (!axis.last) last_ = std::ceil(last_ / half - 1e-6) * half;
  }
  ticks_ = log_ ? log_ticks(first_, last_) : linear_ticks(first_, last_);
}

bool Scale::can_show(double value) const { return std::isfinite(value) && (!log_ || value > 0.0); }

double Scale::place(double value) const {
  if (!log_) return (value - first_) / (last_ - first_);
  return (std::log(value) - std::log(first_)) / (std::log(last_) - std::log(first_));  // a quotient might overflow
}

double Scale::pixel(double value) const {
  return first_pixel_ + std::clamp(place(value), 0.0, 1.0) * (last_pixel_ - first_pixel_);
}

std::string Scale::tick_text(double tick) const {
  const auto is_long = [](double value) { return value > 9e3 || value < 2e-3; };
  const double exponent = log_ ? std::log10(tick) : 0.5;
  const bool decade = std::fabs(exponent - std::round(exponent)) < 1e-9 && std::fabs(exponent) > 2.5;
  if (decade && std::ranges::any_of(ticks_, is_long)) return power_of_ten(static_cast<int>(std::lround(exponent)));
  return number_text(tick, 6);
}

std::string number_text(double value, int digits) {
  constexpr double kLargestCounted = 1e15;
  if (std::isnan(value)) return "–";
  const bool whole = value == std::round(value);
  if (std::fabs(value) >= 1000.0 && std::fabs(value) < kLargestCounted && (whole || std::fabs(value) >= 1e4))
    return tool::count(std::llround(value));
  return tool::number(value + 0.0, digits);  // not -0
}

}  // namespace phasor::report
