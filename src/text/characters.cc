#include "characters.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "utf8.h"

namespace phasor::text {
namespace {

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool is_letter(utf8proc_category_t in) { return in >= UTF8PROC_CATEGORY_LU && in <= UTF8PROC_CATEGORY_LO; }
bool is_mark_category(utf8proc_category_t in) { return in >= UTF8PROC_CATEGORY_MN && in <= UTF8PROC_CATEGORY_ME; }

// Characters whose class Unicode has changed. The Rust package keeps the old one, and vocabularies were made with it.
constexpr char32_t kCanadianChiSign = 0x166D;                                  // a symbol now
constexpr char32_t kHanunooPamudpod = 0x1734;                                  // a spacing mark now
constexpr char32_t kMongolianBaluda = 0x1885, kMongolianThreeBaluda = 0x1886;  // nonspacing marks now
constexpr char32_t kVedicArdhavisarga = 0x1CF2, kVedicRotated = 0x1CF3;        // letters now

}  // namespace

bool is_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_punctuation(char32_t code) {
  if (code < 0x80)
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
  const utf8proc_category_t in = category(code);
  if (code == kCanadianChiSign) return true;
  return in >= UTF8PROC_CATEGORY_PC && in <= UTF8PROC_CATEGORY_PO;
}

bool is_numeric(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  const utf8proc_category_t in = category(code);
  return in >= UTF8PROC_CATEGORY_ND && in <= UTF8PROC_CATEGORY_NO;
}

bool is_mark(char32_t code) {
  if (code == kVedicArdhavisarga || code == kVedicRotated) return true;
  return code >= 0x300 && is_mark_category(category(code));
}

bool is_nonspacing_mark(char32_t code) {
  if (code == kHanunooPamudpod) return true;
  if (code == kMongolianBaluda || code == kMongolianThreeBaluda) return false;
  return code >= 0x300 && category(code) == UTF8PROC_CATEGORY_MN;
}

bool is_control_or_format(char32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7F;
  const utf8proc_category_t in = category(code);
  return in == UTF8PROC_CATEGORY_CC || in == UTF8PROC_CATEGORY_CF || in == UTF8PROC_CATEGORY_CO;
}

bool is_word(char32_t code) {
  if (code < 0x80)
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9') || code == '_';
  const utf8proc_category_t in = category(code);
  if (is_letter(in) || is_mark_category(in) || in == UTF8PROC_CATEGORY_ND || in == UTF8PROC_CATEGORY_NL ||
      in == UTF8PROC_CATEGORY_PC)
    return true;
  // Circled and squared letters are symbols that are alphabetic; zero-width joiners are in \w by name.
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189) || code == 0x200C ||
         code == 0x200D;
}

void append_lower(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code);
  } else if (code == 0x130) {
    text += "i\xCC\x87";  // the one letter whose full lower case is two characters
  } else {
    append_character(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  }
}

std::string normal_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool composed = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const int options =
      UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(options));
  if (size < 0) throw std::bad_alloc();  // the text is valid, so memory is all that can be missing
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(size)};
}

std::size_t grapheme_end(std::string_view text, std::size_t at) {
  utf8proc_int32_t state = 0;
  char32_t last = next_character(text, at);
  while (at < text.size()) {
    std::size_t next = at;
    const char32_t code = next_character(text, next);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last), static_cast<utf8proc_int32_t>(code),
                                         &state))
      break;
    last = code;
    at = next;
  }
  return at;
}

}  // namespace phasor::text
