#include "utf8.h"

#include <cstring>

namespace phasor::text {
namespace {

// The bytes at `at` that are a character, or, if they are none, that one U+FFFD stands for.
struct Sequence {
  std::size_t length;
  bool valid;
};

// Table 3-7 of the Unicode standard: the second byte has narrower bounds after some first bytes, so that there are no
// overlong forms, no surrogates and nothing above U+10FFFF.
Sequence sequence_at(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; i++) {
    if (at + i == bytes.size()) return {i, false};
    const bool fits = i == 1 ? byte(1) >= low && byte(1) <= high : (byte(i) & 0xC0) == 0x80;
    if (!fits) return {i, false};
  }
  return {length, true};
}

// The first place from `at` on that has no valid character.
std::size_t valid_until(std::string_view bytes, std::size_t at) {
  while (at < bytes.size()) {
    if (at + 8 <= bytes.size()) {
      std::uint64_t eight;
      std::memcpy(&eight, bytes.data() + at, 8);
      if ((eight & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const Sequence sequence = sequence_at(bytes, at);
    if (!sequence.valid) return at;
    at += sequence.length;
  }
  return at;
}

}  // namespace

bool is_ascii(std::string_view bytes) {
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, bytes.data() + at, 8);
    if ((eight & 0x8080808080808080u) != 0) return false;
  }
  for (; at < bytes.size(); at++)
    if (static_cast<unsigned char>(bytes[at]) >= 0x80) return false;
  return true;
}

bool is_utf8(std::string_view bytes) { return valid_until(bytes, 0) == bytes.size(); }

std::string replace_broken(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::size_t end = valid_until(bytes, at);
    text += bytes.substr(at, end - at);
    at = end;
    if (at == bytes.size()) break;
    text += kReplacement;
    at += sequence_at(bytes, at).length;
  }
  return text;
}

void append_character(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::string character_text(char32_t code) {
  std::string text;
  append_character(text, code);
  return text;
}

}  // namespace phasor::text
