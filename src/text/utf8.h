// UTF-8: characters of valid text, and text from any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace phasor::text {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_ascii(std::string_view bytes);

// Each longest part that begins a character but does not complete it, and each byte that begins none, becomes U+FFFD:
// the practice that Unicode recommends (chapter 3, "U+FFFD Substitution of Maximal Subparts").
std::string replace_broken(std::string_view bytes);
// Whether replace_broken would change nothing.
bool is_utf8(std::string_view bytes);

void append_character(std::string& text, char32_t code);
std::string character_text(char32_t code);

// Bytes of the character that begins with this byte, in valid text.
inline std::size_t character_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at text[at], in valid text; moves `at` behind it.
inline char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const std::size_t length = character_length(text[at]);
  char32_t code = byte(0);
  if (length == 2) code = (code & 0x1F) << 6 | (byte(1) & 0x3F);
  if (length == 3) code = (code & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  if (length == 4) code = (code & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  at += length;
  return code;
}

// Where the character before text[at] begins, at > 0.
inline std::size_t previous_character(std::string_view text, std::size_t at) {
  do at--;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

}  // namespace phasor::text
