// The normalizer of SentencePiece models: precompiled_charsmap is, in base64, the size of a double array (four bytes,
// little end first), the double array of Darts-clone, and the replacements, each with a byte 0 at its end. The array's
// values are places among the replacements. https://github.com/google/sentencepiece, src/normalizer.cc
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

#include "characters.h"
#include "normalizer.h"
#include "utf8.h"

namespace phasor::text {
namespace {

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i + padding < text.size(); i++) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 == 1) bytes += static_cast<char>(bits >> 4);
    if (i % 4 == 2) bytes += static_cast<char>(bits >> 2);
    if (i % 4 == 3) bytes += static_cast<char>(bits);
  }
  return bytes;
}

[[noreturn]] void broken() {
  fail("Tokenizer", "precompiled_charsmap: broken, expected a double array and its replacements");
}

class Charsmap {
 public:
  explicit Charsmap(const std::string& bytes) {
    std::uint32_t size = 0;
    if (bytes.size() < 4) throw std::invalid_argument("less than 4 bytes");
    std::memcpy(&size, bytes.data(), 4);
    if (size == 0 || size % 4 != 0 || size > bytes.size() - 4) throw std::invalid_argument("a wrong size of its array");
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes.data() + 4, size);
    replacements_ = bytes.substr(4 + size);
    if (!is_utf8(replacements_)) throw std::invalid_argument("replacements that are not UTF-8");
  }

  // What replaces the shortest beginning of `part` that is in the table.
  std::optional<std::string_view> find(std::string_view part) const {
    std::size_t node = offset(unit(0));
    for (const char each : part) {
      const auto byte = static_cast<unsigned char>(each);
      if (byte == 0) return std::nullopt;
      node ^= byte;
      const std::uint32_t found = unit(node);
      if ((found & 0x800000FFu) != byte) return std::nullopt;
      node ^= offset(found);
      if ((found >> 8 & 1) != 0) return replacement(unit(node) & 0x7FFFFFFFu);
    }
    return std::nullopt;
  }

 private:
  static std::size_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
  std::uint32_t unit(std::size_t at) const {
    if (at >= units_.size()) broken();
    return units_[at];
  }
  std::optional<std::string_view> replacement(std::size_t at) const {
    if (at > replacements_.size()) broken();
    const std::string_view rest = std::string_view(replacements_).substr(at);
    const std::string_view found = rest.substr(0, rest.find('\0'));
    if (!is_utf8(found)) broken();
    return found;
  }

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

// As in the Rust package: a grapheme cluster of less than six bytes is replaced as a whole where the table has a
// beginning of it; otherwise its characters are, each by itself.
void replace_all(const Charsmap& map, Section& section) {
  const std::string_view text = section.text;
  std::string out;
  out.reserve(text.size());
  const auto put = [&](std::string_view part, const std::optional<std::string_view>& replacement) {
    out += replacement.value_or(part);
    if (out.empty()) section.at_start = false;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view cluster = text.substr(at, grapheme_end(text, at) - at);
    at += cluster.size();
    if (cluster.size() < 6) {
      if (const auto whole = map.find(cluster)) {
        put(cluster, whole);
        continue;
      }
    }
    for (std::size_t in = 0; in < cluster.size();) {
      const std::string_view character = cluster.substr(in, character_length(cluster[in]));
      in += character.size();
      put(character, map.find(character));
    }
  }
  section.text = std::move(out);
}

}  // namespace

Normalizer read_charsmap(FieldReader& reader) {
  std::string text;
  reader("precompiled_charsmap", text);
  const std::optional<std::string> bytes = from_base64(text);
  if (!bytes) reader.refuse_key("precompiled_charsmap", "base64");
  try {
    return [map = std::make_shared<const Charsmap>(*bytes)](Section& section) { replace_all(*map, section); };
  } catch (const std::invalid_argument& error) {
    reader.refuse_key("precompiled_charsmap", std::string("a table of SentencePiece, which has not ") + error.what());
  }
}

}  // namespace phasor::text
