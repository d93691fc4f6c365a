// Models: the ids of a piece of text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "json/fields.h"
#include "vocabulary.h"

namespace phasor::text {

// Memory that a model writes to while it encodes. It is kept from piece to piece.
struct ModelMemory {
  struct Symbol {  // of BPE: a part of the word; parts are a list, since merging takes them out
    std::int32_t id;
    std::int32_t previous, next;  // -1: none
    bool merged;                  // into its left neighbour
  };
  struct Merge {
    std::uint32_t rank;
    std::int32_t at;  // the left symbol
    std::int32_t id;
    bool operator>(const Merge& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  struct Step {  // of Unigram: the best way to the end of a character
    double score = 0.0;
    std::int64_t begin = -1;  // where its last token begins; -1: no way yet
    std::int32_t id = 0;
  };
  std::vector<Symbol> symbols{};
  std::vector<Merge> merges{};
  std::vector<Step> steps{};
  std::vector<std::int32_t> ids{};
};

class Model {
 public:
  virtual ~Model() = default;
  // Puts the ids of a piece, which is not empty, behind `ids`. Throws if the text has what the model has no token for,
  // not even one for unknown text.
  virtual void encode(std::string_view piece, std::vector<std::int32_t>& ids, ModelMemory& memory) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  // The tokens of an object {"token": id, ...} under this key.
  void read_vocabulary(FieldReader& reader, const char* key);
  // The id of the token for one byte, <0xE2>.
  std::int32_t byte_token(char byte) const;

  Vocabulary vocabulary_{};
};

// The model that an object of tokenizer.json describes.
std::shared_ptr<const Model> read_model(FieldReader reader);

std::shared_ptr<const Model> read_bpe(FieldReader& reader);
std::shared_ptr<const Model> read_word_piece(FieldReader& reader);
std::shared_ptr<const Model> read_unigram(FieldReader& reader);

}  // namespace phasor::text
