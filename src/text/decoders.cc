#include <array>
#include <optional>
#include <utility>

#include "bytes_as_characters.h"
#include "decoder.h"
#include "pre_tokenizer.h"
#include "read_by_type.h"
#include "read_pattern.h"
#include "utf8.h"

namespace phasor::text {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

void fuse(Decoded& decoded) {
  std::string all;
  for (const std::string& token : decoded.tokens) all += token;
  decoded.tokens.assign(1, std::move(all));
}

Decoder read_sequence(FieldReader& reader) {
  std::vector<Decoder> all;
  for (FieldReader& each : reader.objects("decoders")) all.push_back(read_decoder(each));
  return [all](Decoded& decoded) {
    for (const Decoder& each : all) each(decoded);
  };
}

Decoder read_fuse(FieldReader&) { return fuse; }

// A token that is not made of the letters for bytes alone is text as it stands.
Decoder read_byte_level(FieldReader& reader) {
  bool add_space = false, trim_offsets = false, use_regex = true;  // of encoding
  reader("add_prefix_space", add_space);
  reader("trim_offsets", trim_offsets);
  reader.since("use_regex", use_regex, true);
  return [](Decoded& decoded) {
    std::string bytes;
    for (const std::string& token : decoded.tokens) {
      const std::size_t before = bytes.size();
      for (std::size_t at = 0; at < token.size();) {
        if (ByteLetters::get().append_byte(bytes, next_character(token, at))) continue;
        bytes.resize(before);
        bytes += token;
        break;
      }
    }
    decoded.tokens.assign(1, is_utf8(bytes) ? std::move(bytes) : replace_broken(bytes));
  };
}

// The byte of <0xE2>.
std::optional<char> byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  // The Rust package reads the two digits as a number, which may begin with a plus.
  for (std::size_t i = token[3] == '+' ? 4 : 3; i < 5; i++) {
    const char digit = token[i];
    const int here = digit >= '0' && digit <= '9'   ? digit - '0'
                     : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                     : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                    : -1;
    if (here < 0) return std::nullopt;
    value = value * 16 + here;
  }
  return static_cast<char>(value);
}

// A row of bytes that is not UTF-8 is one U+FFFD for each byte.
std::string text_of_bytes(const std::string& bytes, bool is_stream) {
  if (is_utf8(bytes)) return bytes;
  if (is_stream) return replace_broken(bytes);
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i++) text += kReplacement;
  return text;
}

Decoder read_byte_fallback(FieldReader&) {
  return [](Decoded& decoded) {
    std::vector<std::string> tokens;
    std::string bytes;
    const auto flush = [&] {
      if (!bytes.empty()) tokens.push_back(text_of_bytes(bytes, decoded.is_stream));
      bytes.clear();
    };
    for (std::string& token : decoded.tokens) {
      if (const std::optional<char> byte = byte_of(token)) {
        bytes += *byte;
        continue;
      }
      flush();
      tokens.push_back(std::move(token));
    }
    flush();
    decoded.tokens = std::move(tokens);
  };
}

Decoder read_strip(FieldReader& reader) {
  std::string content;
  std::uint64_t start = 0, stop = 0;
  reader("content", content);
  reader("start", start);
  reader("stop", stop);
  if (content.empty() || character_length(content[0]) != content.size()) reader.refuse_key("content", "one character");
  return [=](Decoded& decoded) {
    for (std::string& token : decoded.tokens) {
      std::size_t begin = 0, end = token.size();
      for (std::uint64_t i = 0; i < start && token.compare(begin, content.size(), content) == 0; i++)
        begin += content.size();
      for (std::uint64_t i = 0; i < stop && end > begin && std::string_view(token).substr(0, end).ends_with(content);
           i++)
        end -= content.size();
      token = token.substr(begin, end - begin);
    }
  };
}

Decoder read_replace(FieldReader& reader) {
  const Pattern pattern = read_pattern(reader);
  std::string content;
  reader("content", content);
  return [=](Decoded& decoded) {
    for (std::string& token : decoded.tokens) {
      std::string out;
      for_each_part(pattern, token, [&](std::size_t begin, std::size_t end, bool is_match) {
        if (is_match)
          out += content;
        else
          out.append(token, begin, end - begin);
      });
      token = std::move(out);
    }
  };
}

Decoder read_metaspace(FieldReader& reader) {
  const Metaspace settings = read_metaspace_fields(reader);
  return [settings](Decoded& decoded) {
    // The first token has no space that was not in the text.
    const bool drops = settings.prepend != Metaspace::Prepend::never;
    for (std::size_t i = 0; i < decoded.tokens.size(); i++)
      replace_all(decoded.tokens[i], settings.replacement, i == 0 && drops ? "" : " ");
  };
}

// What English has between tokens that words do not.
void clean_up(std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules{{{" .", "."},
                                                                                  {" ?", "?"},
                                                                                  {" !", "!"},
                                                                                  {" ,", ","},
                                                                                  {" ' ", "'"},
                                                                                  {" n't", "n't"},
                                                                                  {" 'm", "'m"},
                                                                                  {" do not", " don't"},
                                                                                  {" 's", "'s"},
                                                                                  {" 've", "'ve"},
                                                                                  {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

Decoder read_word_piece(FieldReader& reader) {
  std::string prefix;
  bool cleanup = true;
  reader("prefix", prefix);
  reader("cleanup", cleanup);
  return [=](Decoded& decoded) {
    for (std::size_t i = 0; i < decoded.tokens.size(); i++) {
      std::string& token = decoded.tokens[i];
      if (i > 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (cleanup) clean_up(token);
    }
  };
}

Decoder read_bpe(FieldReader& reader) {
  std::string suffix;
  reader("suffix", suffix);
  if (suffix.empty()) reader.refuse_key("suffix", "a text that is not empty");
  return [suffix](Decoded& decoded) {
    for (std::size_t i = 0; i < decoded.tokens.size(); i++)
      replace_all(decoded.tokens[i], suffix, i + 1 == decoded.tokens.size() ? "" : " ");
  };
}

const Readers<Decoder>& readers() {
  static const Readers<Decoder> all{
      {"Sequence", read_sequence},   {"Fuse", read_fuse},       {"ByteLevel", read_byte_level},
      {"Strip", read_strip},         {"Replace", read_replace}, {"ByteFallback", read_byte_fallback},
      {"Metaspace", read_metaspace}, {"BPEDecoder", read_bpe},  {"WordPiece", read_word_piece},
  };
  return all;
}

}  // namespace

Decoder read_decoder(FieldReader reader) { return read_by_type(reader, readers()); }

}  // namespace phasor::text
