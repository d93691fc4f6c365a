// Byte pair encoding (Sennrich, Haddow, Birch 2016): a piece begins as its characters, and the pair that stands
// earliest in the list of merges is merged, the leftmost one first, until none is left.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "merge_table.h"
#include "model.h"
#include "utf8.h"

namespace phasor::text {
namespace {

struct Settings {
  std::optional<std::string> unk_token{}, prefix{}, suffix{};
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

class Bpe : public Model {
 public:
  explicit Bpe(FieldReader& reader);
  void encode(std::string_view piece, std::vector<std::int32_t>& ids, ModelMemory& memory) const override;

 private:
  void read_merges(FieldReader& reader);
  void add_merge(FieldReader& reader, std::size_t index, std::uint32_t rank, std::string_view left,
                 std::string_view right);

  std::int32_t character_token(std::string_view piece, std::size_t begin, std::size_t end) const;
  void split(std::string_view piece, std::vector<std::int32_t>& ids) const;
  bool split_to_bytes(std::string_view text, std::vector<std::int32_t>& ids) const;
  std::int32_t unknown_token() const;
  void merge(ModelMemory& memory) const;

  Settings settings_{};
  std::int32_t unknown_ = kNoToken;
  std::array<std::int32_t, 0x800> tokens_of_letters_{};  // of characters of one or two bytes
  MergeTable merges_{0};
};

Bpe::Bpe(FieldReader& reader) {
  std::optional<double> dropout;
  reader("dropout", dropout);
  if (dropout.value_or(0.0) != 0.0) reader.refuse_key("dropout", "none: ids would be random");
  reader("unk_token", settings_.unk_token);
  reader("continuing_subword_prefix", settings_.prefix);
  reader("end_of_word_suffix", settings_.suffix);
  reader.since("fuse_unk", settings_.fuse_unk, false);
  reader.since("byte_fallback", settings_.byte_fallback, false);
  reader.since("ignore_merges", settings_.ignore_merges, false);
  read_vocabulary(reader, "vocab");
  if (settings_.unk_token) unknown_ = vocabulary_.find(*settings_.unk_token);
  for (char32_t code = 0; code < tokens_of_letters_.size(); code++)
    tokens_of_letters_[code] = vocabulary_.find(character_text(code));
  read_merges(reader);
}

// ["a b", ...] or [["a", "b"], ...].
void Bpe::read_merges(FieldReader& reader) {
  const Json* list = reader.find("merges");
  if (list == nullptr || !list->is_array()) reader.refuse_key("merges", "a list");
  merges_ = MergeTable(list->size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < list->size(); i++) {
    const Json& merge = (*list)[i];
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const std::size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        reader.refuse_part("merges[" + std::to_string(i) + "]", json_text(merge),
                           "two tokens with a space between them");
      add_merge(reader, i, rank++, text.substr(0, space), text.substr(space + 1));
    } else {
      if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
        reader.refuse_part("merges[" + std::to_string(i) + "]", json_text(merge), "two tokens");
      add_merge(reader, i, rank++, merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    }
  }
}

void Bpe::add_merge(FieldReader& reader, std::size_t index, std::uint32_t rank, std::string_view left,
                    std::string_view right) {
  const auto refuse = [&](std::string_view token, const char* expected) {
    reader.refuse_part("merges[" + std::to_string(index) + "]", json_text(std::string(token)), expected);
  };
  const auto id_of = [&](std::string_view token) {
    const std::int32_t id = vocabulary_.find(token);
    if (id == kNoToken) refuse(token, "a token of the vocabulary");
    return id;
  };
  const std::size_t prefix = settings_.prefix ? settings_.prefix->size() : 0;
  if (right.size() < prefix) refuse(right, "a token that begins with continuing_subword_prefix");
  const std::int32_t merged = id_of(std::string(left) + std::string(right.substr(prefix)));
  if (!merges_.add(id_of(left), id_of(right), {rank, merged})) refuse(right, "each pair of tokens once");
}

std::int32_t Bpe::character_token(std::string_view piece, std::size_t begin, std::size_t end) const {
  const std::string_view character = piece.substr(begin, end - begin);
  const bool has_prefix = begin > 0 && settings_.prefix, has_suffix = end == piece.size() && settings_.suffix;
  if (has_prefix || has_suffix)
    return vocabulary_.find((has_prefix ? *settings_.prefix : "") + std::string(character) +
                            (has_suffix ? *settings_.suffix : ""));
  if (character.size() > 2) return vocabulary_.find(character);
  std::size_t at = 0;
  return tokens_of_letters_[next_character(character, at)];
}

bool Bpe::split_to_bytes(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  for (const char byte : text) {
    ids.push_back(byte_token(byte));
    if (ids.back() != kNoToken) continue;
    ids.resize(before);
    return false;
  }
  return true;
}

std::int32_t Bpe::unknown_token() const {
  if (unknown_ == kNoToken)
    fail("Tokenizer::encode", "text: a character without a token, and unk_token, \"", *settings_.unk_token,
         "\", is not in the vocabulary, expected a token for it");
  return unknown_;
}

// The tokens of the characters. A character without one gives its bytes, or the unknown token, or, where there is
// neither, nothing. As in the Rust package, bytes come before an unknown token that was waiting to be fused.
void Bpe::split(std::string_view piece, std::vector<std::int32_t>& ids) const {
  bool unknown_waits = false;
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::size_t end = begin + character_length(piece[begin]);
    const std::int32_t id = character_token(piece, begin, end);
    if (id != kNoToken) {
      if (unknown_waits) ids.push_back(unknown_);
      unknown_waits = false;
      ids.push_back(id);
    } else {
      const bool has_prefix = begin > 0 && settings_.prefix, has_suffix = end == piece.size() && settings_.suffix;
      const std::string text = (has_prefix ? *settings_.prefix : "") + std::string(piece.substr(begin, end - begin)) +
                               (has_suffix ? *settings_.suffix : "");
      if (!(settings_.byte_fallback && split_to_bytes(text, ids)) && settings_.unk_token) {
        if (unknown_waits && !settings_.fuse_unk) ids.push_back(unknown_);
        unknown_waits = unknown_token() != kNoToken;
      }
    }
    begin = end;
  }
  if (unknown_waits) ids.push_back(unknown_);
}

void Bpe::merge(ModelMemory& memory) const {
  auto& symbols = memory.symbols;
  auto& queue = memory.merges;
  const auto& ids = memory.ids;
  symbols.clear();
  queue.clear();
  const auto count = static_cast<std::int32_t>(ids.size());
  for (std::int32_t i = 0; i < count; i++)
    symbols.push_back({ids[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1, false});
  const auto symbol = [&](std::int32_t i) -> ModelMemory::Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  const auto find = [&](std::int32_t left) { return merges_.find(symbol(left).id, symbol(symbol(left).next).id); };
  for (std::int32_t i = 0; i + 1 < count; i++)
    if (const MergeTable::Merge* found = find(i)) queue.push_back({found->rank, i, found->id});
  std::ranges::make_heap(queue, std::greater<>());
  const auto push = [&](std::int32_t left) {
    if (left < 0 || symbol(left).next < 0) return;
    if (const MergeTable::Merge* found = find(left)) {
      queue.push_back({found->rank, left, found->id});
      std::ranges::push_heap(queue, std::greater<>());
    }
  };
  while (!queue.empty()) {
    std::ranges::pop_heap(queue, std::greater<>());
    const ModelMemory::Merge top = queue.back();
    queue.pop_back();
    ModelMemory::Symbol& left = symbol(top.at);
    if (left.merged || left.next < 0) continue;
    // Its neighbours may have changed since it was put into the queue.
    const MergeTable::Merge* found = find(top.at);
    if (found == nullptr || found->id != top.id) continue;
    ModelMemory::Symbol& right = symbol(left.next);
    left.id = top.id;
    right.merged = true;
    left.next = right.next;
    if (left.next >= 0) symbol(left.next).previous = top.at;
    push(left.previous);
    push(top.at);
  }
}

void Bpe::encode(std::string_view piece, std::vector<std::int32_t>& ids, ModelMemory& memory) const {
  if (settings_.ignore_merges) {
    if (const std::int32_t whole = vocabulary_.find(piece); whole != kNoToken) return ids.push_back(whole);
  }
  memory.ids.clear();
  split(piece, memory.ids);
  merge(memory);
  for (const ModelMemory::Symbol& symbol : memory.symbols)
    if (!symbol.merged) ids.push_back(symbol.id);
}

}  // namespace

std::shared_ptr<const Model> read_bpe(FieldReader& reader) { return std::make_shared<const Bpe>(reader); }

}  // namespace phasor::text
