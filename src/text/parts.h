// What a tokenizer is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "added_tokens.h"
#include "decoder.h"
#include "lengths.h"
#include "model.h"
#include "normalizer.h"
#include "pieces.h"
#include "post_processor.h"
#include "pre_tokenizer.h"
#include "word_cache.h"

namespace phasor {

class TokenizerParts {
 public:
  // The object that a tokenizer.json is, without its nulls.
  explicit TokenizerParts(FieldReader& reader);

  // The ids of a text, without special tokens around it. No added token is found at the plain places, which are sorted.
  std::vector<std::int32_t> tokenize(std::string_view text, std::span<const std::size_t> plain = {}) const;
  // See Tokenizer. The result is valid UTF-8 but for the marks.
  std::string mark_control_tokens(std::string_view text, std::string_view chat) const;
  static constexpr char kMark = '\xFF';
  // Cut, with special tokens. Takes the ids.
  EncodedText assemble(std::vector<std::int32_t> first, std::vector<std::int32_t>* second, bool add_special_tokens,
                       const text::Lengths& lengths) const;
  const text::Lengths& lengths() const { return lengths_; }  // that the file asks for

  // The text that decoders get for a token; none if there is no such token, or if it is special and those are skipped.
  std::optional<std::string_view> token_text(std::int32_t id, bool skip_special_tokens) const;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens, bool is_stream) const;

  const text::AddedTokens& added() const { return *added_; }
  const text::Vocabulary& vocabulary() const { return model_->vocabulary(); }

 private:
  // What encoding writes to. A call takes one and gives it back.
  struct Memory {
    text::Pieces pieces{};
    text::ModelMemory model{};
    text::WordCache cache{};
  };
  std::unique_ptr<Memory> take_memory() const;
  void give_back(std::unique_ptr<Memory> memory) const;

  void refuse_special(std::string_view text, std::span<const std::int32_t> ids) const;
  void tokenize_section(std::string_view text, bool at_start, Memory& memory, std::vector<std::int32_t>& ids) const;
  void tokenize_pieces(std::string_view text, bool at_start, Memory& memory, std::vector<std::int32_t>& ids) const;

  std::shared_ptr<const text::Model> model_{};
  text::Normalizer normalizer_{};
  text::PreTokenizer pre_tokenizer_{};
  text::Template template_{};
  text::Decoder decoder_{};
  text::Lengths lengths_{};
  std::unique_ptr<const text::AddedTokens> added_{};
  mutable std::mutex mutex_{};
  mutable std::vector<std::unique_ptr<Memory>> memories_{};
};

}  // namespace phasor
