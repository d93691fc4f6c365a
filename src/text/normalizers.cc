#include <optional>
#include <utility>
#include <vector>

#include "bytes_as_characters.h"
#include "characters.h"
#include "normalizer.h"
#include "read_by_type.h"
#include "read_pattern.h"
#include "utf8.h"

namespace phasor::text {
namespace {

// A normalizer that looks at characters one by one: each(code, out) puts what the character becomes behind `out`.
template <class Each>
Normalizer each_character(const Each& each) {
  return [each](Section& section) {
    std::string out;
    out.reserve(section.text.size());
    for (std::size_t at = 0; at < section.text.size();) {
      const bool first = at == 0;
      each(next_character(section.text, at), out);
      if (first && out.empty()) section.at_start = false;
    }
    section.text = std::move(out);
  };
}

Normalizer read_sequence(FieldReader& reader) {
  std::vector<Normalizer> all;
  for (FieldReader& each : reader.objects("normalizers")) all.push_back(read_normalizer(each));
  return [all](Section& section) {
    for (const Normalizer& each : all) each(section);
  };
}

template <NormalForm form>
Normalizer read_normal_form(FieldReader&) {
  return [](Section& section) { section.text = normal_form(section.text, form); };
}

Normalizer read_lowercase(FieldReader&) {
  return each_character([](char32_t code, std::string& out) { append_lower(out, code); });
}

Normalizer read_strip_accents(FieldReader&) {
  return each_character([](char32_t code, std::string& out) {
    if (!is_mark(code)) append_character(out, code);
  });
}

Normalizer read_strip(FieldReader& reader) {
  bool left = false, right = false;
  reader("strip_left", left);
  reader("strip_right", right);
  return [left, right](Section& section) {
    std::string& text = section.text;
    std::size_t begin = 0, end = text.size();
    for (std::size_t at = 0; left && at < end && is_space(next_character(text, at)); begin = at) continue;
    for (std::size_t at = end; right && at > begin; end = at) {
      std::size_t next = at = previous_character(text, at);
      if (!is_space(next_character(text, next))) break;
    }
    section.at_start = section.at_start && begin == 0;
    text = text.substr(begin, end - begin);
  };
}

// The blocks that BERT calls Chinese.
bool is_chinese(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

void clean_character(char32_t code, std::string& out) {
  const bool blank = code == '\t' || code == '\n' || code == '\r';
  if (!blank && (code == 0 || code == 0xFFFD || is_control_or_format(code))) return;
  if (is_space(code))
    out += ' ';
  else
    append_character(out, code);
}

void space_chinese(char32_t code, std::string& out) {
  const bool chinese = is_chinese(code);
  if (chinese) out += ' ';
  append_character(out, code);
  if (chinese) out += ' ';
}

Normalizer read_bert(FieldReader& reader) {
  bool clean = true, chinese = true, lowercase = true;
  std::optional<bool> accents;
  reader("clean_text", clean);
  reader("handle_chinese_chars", chinese);
  reader("strip_accents", accents);
  reader("lowercase", lowercase);
  std::vector<Normalizer> steps;
  if (clean) steps.push_back(each_character(clean_character));
  if (chinese) steps.push_back(each_character(space_chinese));
  if (accents.value_or(lowercase)) {
    steps.push_back(read_normal_form<NormalForm::nfd>(reader));
    steps.push_back(each_character([](char32_t code, std::string& out) {
      if (!is_nonspacing_mark(code)) append_character(out, code);
    }));
  }
  if (lowercase) steps.push_back(read_lowercase(reader));
  return [steps](Section& section) {
    for (const Normalizer& step : steps) step(section);
  };
}

Normalizer read_replace(FieldReader& reader) {
  const Pattern pattern = read_pattern(reader);
  std::string content;
  reader("content", content);
  return [pattern, content](Section& section) {
    std::string out;
    for_each_part(pattern, section.text, [&](std::size_t begin, std::size_t end, bool is_match) {
      // What replaces several characters counts as coming from the last one.
      if (is_match && begin == 0 && end > 0 && (content.empty() || end > character_length(section.text[0])))
        section.at_start = false;
      if (is_match)
        out += content;
      else
        out.append(section.text, begin, end - begin);
    });
    section.text = std::move(out);
  };
}

Normalizer read_prepend(FieldReader& reader) {
  std::string prefix;
  reader("prepend", prefix);
  return [prefix](Section& section) {
    if (!section.text.empty()) section.text.insert(0, prefix);
  };
}

// https://github.com/google/sentencepiece: the normalization that NMT models were trained with.
void nmt_character(char32_t code, std::string& out) {
  const bool dropped = (code >= 0x01 && code <= 0x08) || code == 0x0B || (code >= 0x0E && code <= 0x1F) ||
                       code == 0x7F || code == 0x8F || code == 0x9F;
  if (dropped) return;
  const bool space = code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D || code == 0x1680 ||
                     (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
                     code == 0xFEFF || code == 0xFFFD;
  append_character(out, space ? ' ' : code);
}

Normalizer read_nmt(FieldReader&) { return each_character(nmt_character); }

Normalizer read_byte_level(FieldReader&) {
  return [](Section& section) {
    std::string out;
    ByteLetters::get().append_letters(out, section.text);
    section.text = std::move(out);
  };
}

const Readers<Normalizer>& readers() {
  static const Readers<Normalizer> all{
      {"Sequence", read_sequence},
      {"NFC", read_normal_form<NormalForm::nfc>},
      {"NFD", read_normal_form<NormalForm::nfd>},
      {"NFKC", read_normal_form<NormalForm::nfkc>},
      {"NFKD", read_normal_form<NormalForm::nfkd>},
      {"Lowercase", read_lowercase},
      {"StripAccents", read_strip_accents},
      {"Strip", read_strip},
      {"BertNormalizer", read_bert},
      {"Replace", read_replace},
      {"Prepend", read_prepend},
      {"Precompiled", read_charsmap},
      {"Nmt", read_nmt},
      {"ByteLevel", read_byte_level},
  };
  return all;
}

}  // namespace

Normalizer read_normalizer(FieldReader reader) { return read_by_type(reader, readers()); }

}  // namespace phasor::text
