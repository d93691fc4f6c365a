// Unigram (Kudo 2018): the tokens whose scores, log probabilities, have the largest sum, found by Viterbi's algorithm.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "model.h"
#include "trie.h"
#include "utf8.h"

namespace phasor::text {
namespace {

class Unigram : public Model {
 public:
  explicit Unigram(FieldReader& reader);
  void encode(std::string_view piece, std::vector<std::int32_t>& ids, ModelMemory& memory) const override;

 private:
  void read_scores(FieldReader& reader);
  void find_ways(std::string_view piece, std::vector<ModelMemory::Step>& steps) const;
  void put(std::string_view text, std::int32_t id, std::vector<std::int32_t>& ids) const;
  std::int32_t unknown() const {
    PHASOR_CHECK(unknown_ != kNoToken, "Tokenizer::encode",
                 "text: a character without a token, and unk_id is not given, expected a token for it");
    return unknown_;
  }

  std::vector<double> scores_{};
  double unknown_score_ = 0.0;
  std::int32_t unknown_ = kNoToken;
  bool byte_fallback_ = false;
  Trie trie_{};
};

Unigram::Unigram(FieldReader& reader) {
  read_scores(reader);
  std::optional<std::uint64_t> unk_id;
  reader("unk_id", unk_id);
  reader.since("byte_fallback", byte_fallback_, false);
  if (unk_id && *unk_id >= vocabulary_.size()) reader.refuse_key("unk_id", "an id of the vocabulary");
  if (unk_id) unknown_ = static_cast<std::int32_t>(*unk_id);
  constexpr double kPenalty = 10.0;  // of SentencePiece
  unknown_score_ = (scores_.empty() ? 0.0 : *std::ranges::min_element(scores_)) - kPenalty;
  std::vector<Trie::Entry> entries;
  for (std::int32_t id = 0; id <= vocabulary_.largest_id(); id++)
    if (const auto token = vocabulary_.token(id); !token->empty()) entries.push_back({*token, id});
  trie_ = Trie(std::move(entries));
}

// [["token", score], ...]; the place is the id.
void Unigram::read_scores(FieldReader& reader) {
  const Json* list = reader.find("vocab");
  if (list == nullptr || !list->is_array()) reader.refuse_key("vocab", "a list");
  for (std::size_t i = 0; i < list->size(); i++) {
    const Json& entry = (*list)[i];
    const std::string path = "vocab[" + std::to_string(i) + "]";
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      reader.refuse_part(path, json_text(entry), "a token and its score");
    scores_.push_back(entry[1].get<double>());
    if (!vocabulary_.add(entry[0].get_ref<const std::string&>(), static_cast<std::int32_t>(i)))
      reader.refuse_part(path, json_text(entry), "each token once");
  }
}

// For the end of each character, the best way to it.
void Unigram::find_ways(std::string_view piece, std::vector<ModelMemory::Step>& steps) const {
  steps.assign(piece.size() + 1, {});
  for (std::size_t begin = 0; begin < piece.size();) {
    const double so_far = steps[begin].score;
    const std::size_t character = character_length(piece[begin]);
    bool has_single = false;
    const auto offer = [&](std::size_t end, double score, std::int32_t id) {
      ModelMemory::Step& step = steps[end];
      if (step.begin < 0 || score > step.score) step = {score, static_cast<std::int64_t>(begin), id};
    };
    trie_.prefixes(piece.substr(begin), [&](std::size_t length, std::int32_t id) {
      has_single = has_single || length == character;
      offer(begin + length, scores_[static_cast<std::size_t>(id)] + so_far, id);
    });
    if (!has_single) offer(begin + character, unknown_score_ + so_far, unknown());
    begin += character;
  }
}

void Unigram::put(std::string_view text, std::int32_t id, std::vector<std::int32_t>& ids) const {
  if (id != unknown_) return ids.push_back(id);
  // Unknown characters side by side are one text. Should it be a token after all, it is that token.
  const std::int32_t token = vocabulary_.find(text);
  if (token != kNoToken) return ids.push_back(token);
  const std::size_t before = ids.size();
  for (std::size_t i = 0; byte_fallback_ && i < text.size(); i++) ids.push_back(byte_token(text[i]));
  const bool has_all = ids.size() > before &&
                       std::find(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), kNoToken) == ids.end();
  if (has_all) return;
  ids.resize(before);
  ids.push_back(unknown_);
}

void Unigram::encode(std::string_view piece, std::vector<std::int32_t>& ids, ModelMemory& memory) const {
  find_ways(piece, memory.steps);
  std::vector<std::int32_t>& ends = memory.ids;  // of tokens, the last one first
  ends.clear();
  for (std::int64_t end = static_cast<std::int64_t>(piece.size()); end > 0;) {
    ends.push_back(static_cast<std::int32_t>(end));
    end = memory.steps[static_cast<std::size_t>(end)].begin;
  }
  std::size_t begin = 0;
  for (std::size_t i = ends.size(); i-- > 0;) {
    const auto end = static_cast<std::size_t>(ends[i]);
    const std::int32_t id = memory.steps[end].id;
    const bool fused = id == unknown_ && i > 0 && memory.steps[static_cast<std::size_t>(ends[i - 1])].id == unknown_;
    if (fused) continue;
    put(piece.substr(begin, end - begin), id, ids);
    begin = end;
  }
}

}  // namespace

std::shared_ptr<const Model> read_unigram(FieldReader& reader) { return std::make_shared<const Unigram>(reader); }

}  // namespace phasor::text
