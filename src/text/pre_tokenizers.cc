#include <optional>
#include <utility>
#include <vector>

#include "bytes_as_characters.h"
#include "characters.h"
#include "pre_tokenizer.h"
#include "read_by_type.h"
#include "read_pattern.h"
#include "utf8.h"

namespace phasor::text {

constexpr auto enum_words(SplitBehavior) {
  return EnumWords<SplitBehavior, 5>{{{SplitBehavior::removed, "Removed"},
                                      {SplitBehavior::isolated, "Isolated"},
                                      {SplitBehavior::merged_with_previous, "MergedWithPrevious"},
                                      {SplitBehavior::merged_with_next, "MergedWithNext"},
                                      {SplitBehavior::contiguous, "Contiguous"}}};
}

constexpr auto enum_words(Metaspace::Prepend) {
  return EnumWords<Metaspace::Prepend, 3>{{{Metaspace::Prepend::always, "always"},
                                           {Metaspace::Prepend::first, "first"},
                                           {Metaspace::Prepend::never, "never"}}};
}

namespace {

// Splits at characters of a class: each of them is a match.
template <class IsMatch>
void split_at(Pieces& pieces, SplitBehavior behavior, const IsMatch& is_match) {
  pieces.split(behavior, [&](std::string_view text, const auto& part) {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (!is_match(next_character(text, at))) continue;
      if (done < begin) part(done, begin, false);
      part(begin, at, true);
      done = at;
    }
    if (done < text.size()) part(done, text.size(), false);
  });
}

PreTokenizer read_sequence(FieldReader& reader) {
  std::vector<PreTokenizer> all;
  for (FieldReader& each : reader.objects("pretokenizers")) all.push_back(read_pre_tokenizer(each));
  return [all](Pieces& pieces) {
    for (const PreTokenizer& each : all) each(pieces);
  };
}

PreTokenizer read_split(FieldReader& reader) {
  const Pattern pattern = read_pattern(reader);
  SplitBehavior behavior{};
  bool invert = false;
  reader("behavior", behavior);
  reader("invert", invert);
  return [=](Pieces& pieces) {
    pieces.split(behavior, [&](std::string_view text, const auto& part) {
      for_each_part(pattern, text,
                    [&](std::size_t begin, std::size_t end, bool is_match) { part(begin, end, is_match != invert); });
    });
  };
}

PreTokenizer read_byte_level(FieldReader& reader) {
  bool add_space = false, trim_offsets = false, use_regex = true;
  reader("add_prefix_space", add_space);
  reader("trim_offsets", trim_offsets);  // of offsets, which are not given
  reader.since("use_regex", use_regex, true);
  std::optional<Pattern> words;
  if (use_regex)
    words.emplace(pcre2_syntax(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"));
  return [add_space, words](Pieces& pieces) {
    if (add_space)
      pieces.rewrite([](std::string_view text, const Piece&, std::string& out) {
        if (text.front() != ' ') out += ' ';
        out += text;
      });
    if (words)
      pieces.split(SplitBehavior::isolated,
                   [&](std::string_view text, const auto& part) { for_each_part(*words, text, part); });
    pieces.rewrite(
        [](std::string_view text, const Piece&, std::string& out) { ByteLetters::get().append_letters(out, text); });
  };
}

void replace_spaces(std::string_view text, const std::string& replacement, std::string& out) {
  for (const char byte : text) {
    if (byte == ' ')
      out += replacement;
    else
      out += byte;
  }
}

PreTokenizer read_metaspace(FieldReader& reader) {
  const Metaspace settings = read_metaspace_fields(reader);
  return [settings](Pieces& pieces) {
    pieces.rewrite([&](std::string_view text, const Piece& piece, std::string& out) {
      const bool wanted = settings.prepend == Metaspace::Prepend::always ||
                          (settings.prepend == Metaspace::Prepend::first && piece.at_start);
      if (wanted && text.front() != ' ' && !text.starts_with(settings.replacement)) out += settings.replacement;
      replace_spaces(text, settings.replacement, out);
    });
    if (!settings.split) return;
    pieces.split(SplitBehavior::merged_with_next, [&](std::string_view text, const auto& part) {
      std::size_t done = 0;
      for (std::size_t at = 0; (at = text.find(settings.replacement, at)) != std::string_view::npos;) {
        if (done < at) part(done, at, false);
        done = at + settings.replacement.size();
        part(at, done, true);
        at = done;
      }
      if (done < text.size()) part(done, text.size(), false);
    });
  };
}

PreTokenizer read_bert(FieldReader&) {
  return [](Pieces& pieces) {
    split_at(pieces, SplitBehavior::removed, is_space);
    split_at(pieces, SplitBehavior::isolated, is_punctuation);
  };
}

PreTokenizer read_whitespace_split(FieldReader&) {
  return [](Pieces& pieces) { split_at(pieces, SplitBehavior::removed, is_space); };
}

// \w+|[^\w\s]+
PreTokenizer read_whitespace(FieldReader&) {
  enum class Kind { space, word, other };
  const auto kind_of = [](char32_t code) {
    return is_word(code) ? Kind::word : is_space(code) ? Kind::space : Kind::other;
  };
  return [kind_of](Pieces& pieces) {
    pieces.split(SplitBehavior::removed, [&](std::string_view text, const auto& part) {
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const Kind kind = kind_of(next_character(text, at));
        for (std::size_t next = at; next < text.size() && kind_of(next_character(text, next)) == kind;) at = next;
        part(begin, at, kind == Kind::space);
      }
    });
  };
}

PreTokenizer read_digits(FieldReader& reader) {
  bool individual = false;
  reader("individual_digits", individual);
  const SplitBehavior behavior = individual ? SplitBehavior::isolated : SplitBehavior::contiguous;
  return [behavior](Pieces& pieces) { split_at(pieces, behavior, is_numeric); };
}

PreTokenizer read_punctuation(FieldReader& reader) {
  SplitBehavior behavior{};
  reader.since("behavior", behavior, SplitBehavior::isolated);
  return [behavior](Pieces& pieces) { split_at(pieces, behavior, is_punctuation); };
}

const Readers<PreTokenizer>& readers() {
  static const Readers<PreTokenizer> all{
      {"Sequence", read_sequence},
      {"Split", read_split},
      {"ByteLevel", read_byte_level},
      {"Metaspace", read_metaspace},
      {"BertPreTokenizer", read_bert},
      {"Whitespace", read_whitespace},
      {"WhitespaceSplit", read_whitespace_split},
      {"Digits", read_digits},
      {"Punctuation", read_punctuation},
  };
  return all;
}

}  // namespace

Metaspace read_metaspace_fields(FieldReader& reader) {
  Metaspace settings;
  std::optional<bool> add_space, split;
  std::optional<std::string> written_before;  // by old versions: the replacement again
  reader("replacement", settings.replacement);
  if (settings.replacement.empty() || character_length(settings.replacement[0]) != settings.replacement.size())
    reader.refuse_key("replacement", "one character");
  reader.since("prepend_scheme", settings.prepend, Metaspace::Prepend::always);
  reader("add_prefix_space", add_space);
  reader("split", split);
  reader("str_rep", written_before);
  if (written_before && *written_before != settings.replacement) reader.refuse_key("str_rep", "the replacement");
  settings.split = split.value_or(true);
  if (!add_space.value_or(true) && settings.prepend != Metaspace::Prepend::never)
    reader.refuse_key("add_prefix_space", "true, or never as prepend_scheme");
  return settings;
}

PreTokenizer read_pre_tokenizer(FieldReader reader) { return read_by_type(reader, readers()); }

}  // namespace phasor::text
