// What Unicode says of characters, by utf8proc: classes, lower case, normal forms, grapheme clusters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace phasor::text {

bool is_space(char32_t code);              // White_Space
bool is_punctuation(char32_t code);        // P*, and the symbols of ASCII
bool is_numeric(char32_t code);            // N*
bool is_mark(char32_t code);               // M*
bool is_nonspacing_mark(char32_t code);    // Mn
bool is_control_or_format(char32_t code);  // Cc, Cf, Co
// \w of UTS 18, Annex C: alphabetic, marks, decimal digits, connector punctuation, joiners.
bool is_word(char32_t code);

void append_lower(std::string& text, char32_t code);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view text, NormalForm form);

// The end of the extended grapheme cluster that begins at text[at].
std::size_t grapheme_end(std::string_view text, std::size_t at);

}  // namespace phasor::text
