// WordPiece as BERT has it: from the left, the longest token that fits, time after time; a word that this does not
// cover is the unknown token.
#include <utility>

#include "model.h"
#include "trie.h"
#include "utf8.h"

namespace phasor::text {
namespace {

class WordPiece : public Model {
 public:
  explicit WordPiece(FieldReader& reader) {
    std::string prefix;
    reader("unk_token", unk_token_);
    reader("continuing_subword_prefix", prefix);
    reader("max_input_chars_per_word", longest_);
    read_vocabulary(reader, "vocab");
    unknown_ = vocabulary_.find(unk_token_);
    std::vector<Trie::Entry> first, later;
    for (std::int32_t id = 0; id <= vocabulary_.largest_id(); id++) {
      const auto token = vocabulary_.token(id);
      if (!token) continue;
      if (!token->empty()) first.push_back({*token, id});
      if (token->starts_with(prefix) && token->size() > prefix.size())
        later.push_back({token->substr(prefix.size()), id});
    }
    first_ = Trie(std::move(first));
    later_ = Trie(std::move(later));
  }

  void encode(std::string_view piece, std::vector<std::int32_t>& ids, ModelMemory&) const override {
    const std::size_t before = ids.size();
    std::uint64_t characters = 0;
    for (const char byte : piece) characters += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    bool covered = characters <= longest_;
    for (std::size_t at = 0; covered && at < piece.size();) {
      const auto found = (at == 0 ? first_ : later_).longest(piece.substr(at));
      covered = found.has_value();
      if (!covered) break;
      ids.push_back(found->second);
      at += found->first;
    }
    if (covered) return;
    if (unknown_ == kNoToken)
      fail("Tokenizer::encode", "text: a word without tokens, and unk_token, \"", unk_token_,
           "\", is not in the vocabulary, expected a token for it");
    ids.resize(before);
    ids.push_back(unknown_);
  }

 private:
  std::string unk_token_{};
  std::int32_t unknown_ = kNoToken;
  std::uint64_t longest_ = 0;
  Trie first_{}, later_{};  // tokens that begin a word, and those that continue it, without their prefix
};

}  // namespace

std::shared_ptr<const Model> read_word_piece(FieldReader& reader) { return std::make_shared<const WordPiece>(reader); }

}  // namespace phasor::text
