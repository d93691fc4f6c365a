// Values of flags, checked as they are typed: what does not fit is an error, never another value.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>

namespace phasor::tool {

// For CLI::Option::check: a whole number of this range.
template <class Integer = std::int64_t>
auto whole_number(std::type_identity_t<Integer> least = std::numeric_limits<Integer>::min(),
                  std::type_identity_t<Integer> most = std::numeric_limits<Integer>::max()) {
  return [=](const std::string& text) -> std::string {
    Integer value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most) return "";
    const bool any = least == std::numeric_limits<Integer>::min();
    return text + ", expected a whole number " + (any ? "of at most " : "from " + std::to_string(least) + " to ") +
           std::to_string(most);
  };
}

// For CLI::Option::check: a number for which `fits` holds, which `expected` says in words.
template <class Fits>
auto real_number(const char* expected, const Fits& fits) {
  return [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool whole = !text.empty() && end == text.c_str() + text.size();
    return whole && fits(value) ? "" : text + ", expected " + expected;
  };
}
inline auto real_number() {
  return real_number("a number", [](double) { return true; });
}

}  // namespace phasor::tool
