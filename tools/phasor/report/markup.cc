#include "report/markup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "phasor/core/check.h"

namespace phasor::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the character at the start of `text`, or 0 when it is none that XML 1.0 may hold.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : lead == '\n' || lead == '\t' ? 1 : 0;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  std::uint32_t code = lead & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; i++) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  const bool allowed = code >= kSmallest[length] && code <= 0x10FFFF && !surrogate && (code & 0xFFFE) != 0xFFFE;
  return allowed ? length : 0;
}

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

// Elements that HTML knows to be empty. All others get an end tag, which an HTML parser needs.
bool is_void(std::string_view name) {
  constexpr std::array<std::string_view, 4> kVoid{"br", "hr", "img", "meta"};
  return std::ranges::find(kVoid, name) != kVoid.end();
}

}  // namespace

std::string escape(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const std::string_view special = entity(text[0]);
    if (length == 0)
      result += kReplacement;
    else
      result += special.empty() ? text.substr(0, length) : special;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::string coordinate(double value) {
  PHASOR_CHECK(std::isfinite(value), "coordinate", "value: ", value, ", expected a finite number");
  std::array<char, 64> digits{};
  std::snprintf(digits.data(), digits.size(), "%.2f", std::clamp(value, -1e9, 1e9));
  std::string text = digits.data();
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string element(std::string_view name, Attributes attributes, std::string_view content) {
  std::string text = "<" + std::string(name);
  for (const auto& [key, value] : attributes) text += " " + std::string(key) + "=\"" + escape(value) + "\"";
  if (is_void(name)) return text + "/>";
  return text + ">" + std::string(content) + "</" + std::string(name) + ">";
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; j++)
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; j++) text += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

}  // namespace phasor::report
