// All bad input is refused in one way: std::invalid_argument with the text
//   [function] name: what was given, what was expected
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace phasor {

// A shape as text, [2, 8, 64], for messages.
template <std::size_t Rank>
struct ShapeText {
  const std::array<std::int64_t, Rank>& shape;

  friend std::ostream& operator<<(std::ostream& out, const ShapeText& text) {
    out << '[';
    for (std::size_t i = 0; i < Rank; i++) out << (i ? ", " : "") << text.shape[i];
    return out << ']';
  }
};

template <std::size_t Rank>
ShapeText<Rank> shape_text(const std::array<std::int64_t, Rank>& shape) {
  return {shape};
}

// The shortest digits that identify a number: 0.7, not 0.69999999999999996.
inline void append(std::ostringstream& text, double value) {
  char digits[32];
  text << std::string_view(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}
template <class Part>
void append(std::ostringstream& text, const Part& part) {
  text << part;
}

template <class... Parts>
[[noreturn]] void fail(const char* function, const Parts&... parts) {
  std::ostringstream text;
  text << '[' << function << "] ";
  (append(text, parts), ...);
  throw std::invalid_argument(text.str());
}

}  // namespace phasor

// The message is made only if the condition is false.
#define PHASOR_CHECK(condition, function, ...) \
  do {                                         \
    if (!(condition)) [[unlikely]]             \
      ::phasor::fail(function, __VA_ARGS__);   \
  } while (false)
