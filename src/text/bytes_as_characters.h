// GPT-2's letters for bytes: each byte is a printable character of its own, so that a vocabulary of any bytes is text.
// https://github.com/openai/gpt-2/blob/master/src/encoder.py, bytes_to_unicode
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "utf8.h"

namespace phasor::text {

class ByteLetters {
 public:
  static const ByteLetters& get() {
    static const ByteLetters letters;
    return letters;
  }

  void append_letters(std::string& text, std::string_view bytes) const {
    for (const char byte : bytes) {
      const Letter& letter = letters_[static_cast<unsigned char>(byte)];
      text.append(letter.bytes.data(), letter.length);
    }
  }
  // Whether it is one of the letters; then its byte is put behind `bytes`.
  bool append_byte(std::string& bytes, char32_t letter) const {
    if (letter >= bytes_.size() || bytes_[letter] < 0) return false;
    bytes += static_cast<char>(bytes_[letter]);
    return true;
  }

 private:
  struct Letter {
    std::array<char, 2> bytes;
    std::uint8_t length;
  };

  // Printable bytes stand for themselves, the others for U+0100 and up.
  ByteLetters() {
    bytes_.fill(-1);
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; byte++) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t code = printable ? byte : next++;
      bytes_[code] = static_cast<std::int16_t>(byte);
      const std::string text = character_text(code);
      letters_[byte] = {{text[0], text.size() > 1 ? text[1] : '\0'}, static_cast<std::uint8_t>(text.size())};
    }
  }

  std::array<Letter, 256> letters_{};
  std::array<std::int16_t, 0x180> bytes_{};
};

}  // namespace phasor::text
