#include "options.h"

#include <algorithm>
#include <array>
#include <string>

namespace phasor::python {
namespace {

constexpr std::array kNames{
    "scale",          "causal",     "window_left", "window_right", "query_offsets", "key_lengths",
    "query_starts",   "key_starts", "visible",     "mask",         "key_bias",      "relative_bias",
    "q_cos",          "q_sin",      "k_cos",       "k_sin",        "pairing",       "softcap",
    "first_distance", "sinks",      "dropout",     "seed",
};

consteval std::size_t slot(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); i++)
    if (kNames[i] == name) return i;
  throw "no such option";
}

std::vector<nb::handle> by_name(const char* function, const nb::kwargs& arguments) {
  std::vector<nb::handle> given(kNames.size(), nb::handle(Py_None));
  for (const auto& [key, value] : arguments) {
    const std::string_view name = nb::borrow<nb::str>(key).c_str();
    const auto* found = std::ranges::find(kNames, name);
    if (found == kNames.end())
      throw nb::type_error(("[" + std::string(function) + "] " + std::string(name) + ": not an option").c_str());
    given[static_cast<std::size_t>(found - kNames.begin())] = value;
  }
  return given;
}

}  // namespace

RotationArgument::RotationArgument(const char* function, const char* cos_name, nb::handle cos, const char* sin_name,
                                   nb::handle sin, nb::handle pairing)
    : cos_(function, cos_name, cos), sin_(function, sin_name, sin) {
  PHASOR_CHECK(cos_.given() == sin_.given(), function, cos_.given() ? sin_name : cos_name,
               ": not given, expected it beside ", cos_.given() ? cos_name : sin_name);
  if (!cos_.given()) return;
  view_.emplace(cos_.view<const float, 3>(2), sin_.view<const float, 3>(2), pairing_of(function, pairing));
}

template <class Number>
Number OptionArguments::number(std::size_t slot, Number otherwise) const {
  if (given(slot).is_none()) return otherwise;
  Number result{};
  if (!nb::try_cast(given(slot), result)) {
    const char* expected = std::is_same_v<Number, double> ? "a number" : "a whole number of 64 bits";
    throw nb::type_error(("[" + std::string(function_) + "] " + kNames[slot] + ": " + nb::repr(given(slot)).c_str() +
                          ", expected " + expected)
                             .c_str());
  }
  return result;
}

const Array& OptionArguments::hold(std::size_t slot) {
  return arrays_.emplace_back(function_, kNames[slot], given(slot));
}

OptionArguments::OptionArguments(const char* function, const nb::kwargs& arguments)
    : function_(function), given_(by_name(function, arguments)) {
  if (!given(slot("scale")).is_none()) value.scale = number(slot("scale"), 0.0);
  value.softcap = number(slot("softcap"), 0.0);
  value.dropout = {number(slot("dropout"), 0.0), number(slot("seed"), std::uint64_t{0})};
  read_places();
  read_tables();
}

void OptionArguments::read_places() {
  value.causal = nb::cast<bool>(nb::bool_(given(slot("causal"))));
  value.window = {number(slot("window_left"), Window::kUnbounded), number(slot("window_right"), Window::kUnbounded)};
  value.query_offsets = query_offsets_ = integers(function_, "query_offsets", given(slot("query_offsets")));
  value.key_lengths = key_lengths_ = integers(function_, "key_lengths", given(slot("key_lengths")));
  value.query_starts = query_starts_ = integers(function_, "query_starts", given(slot("query_starts")));
  value.key_starts = key_starts_ = integers(function_, "key_starts", given(slot("key_starts")));
}

void OptionArguments::read_tables() {
  value.visible = hold(slot("visible")).optional_view<const bool, 4>(1);
  value.mask = hold(slot("mask")).optional_view<const float, 4>(1);
  value.key_bias = hold(slot("key_bias")).optional_view<const float, 3>(1);
  const Array& bias = hold(slot("relative_bias"));
  if (bias.given())
    value.relative_bias.emplace(bias.view<const float, 2>(), number(slot("first_distance"), std::int64_t{0}));
  const auto sinks = hold(slot("sinks")).optional_view<const float, 1>();
  value.sinks = std::span(sinks.data, static_cast<std::size_t>(sinks.data ? sinks.shape[0] : 0));
  const nb::handle pairing = given(slot("pairing"));
  value.rotate_q =
      rotations_.emplace_back(function_, "q_cos", given(slot("q_cos")), "q_sin", given(slot("q_sin")), pairing).view();
  value.rotate_k =
      rotations_.emplace_back(function_, "k_cos", given(slot("k_cos")), "k_sin", given(slot("k_sin")), pairing).view();
}

}  // namespace phasor::python
