// Tokenizers from tokenizer.json, the file of Hugging Face's tokenizers: the same ids and the same text as that
// package.
//
//   const Tokenizer tokenizer = Tokenizer::from_file("SmolLM2-135M/tokenizer.json");
//   const std::vector<std::int32_t> ids = tokenizer.encode("Hello, world");
//   const std::string text = tokenizer.decode(ids);
//
// A file that asks for what is not here is refused, with the file and the key; docs/text.md lists both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace phasor {

// What a text, or a pair of texts, becomes. type_ids say which text a token belongs to, as the file's template numbers
// them; attention_mask is 0 for padding, which a file may ask for.
struct EncodedText {
  std::vector<std::int32_t> ids{}, type_ids{}, attention_mask{};
};

class ChatTemplate;
class TokenizerParts;
namespace text {
struct Lengths;
}

// Texts are UTF-8 of at most 1 GiB. Bytes that are not UTF-8 are read as U+FFFD, one for each longest part that begins
// a character, as Python's errors="replace" does. A tokenizer does not change: several threads may use it at once, and
// a copy shares it.
class Tokenizer {
 public:
  static Tokenizer from_file(const std::filesystem::path& path);
  // `name` stands for the file in errors.
  static Tokenizer from_json(std::string_view json, std::string_view name);

  // The same, whatever the file says of lengths: texts are not padded, and have at most `longest` tokens, special ones
  // included. They are cut on the side that the file names, or else on the right.
  Tokenizer cut_at(std::optional<std::int64_t> longest) const;

  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens = true) const;
  EncodedText encode_pair(std::string_view first, std::string_view second, bool add_special_tokens = true) const;
  // Texts side by side on all threads. Padding to the longest, if the file asks for it, is done here.
  std::vector<EncodedText> encode_batch(std::span<const std::string> texts, bool add_special_tokens = true) const;

  // An id without a token gives no text: models often have a few ids more than their tokenizer.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;

  // Tokens of the model and added ones.
  std::int64_t vocab_size() const;
  std::optional<std::int32_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(std::int32_t id) const;

 private:
  friend class ChatTemplate;
  friend class StreamDecoder;
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts);
  // The text with a mark, a byte that is not UTF-8, before each control token in it: a special token, or an added one
  // that the template of a chat writes. encode_marked takes the marks away, and finds no added token where one was.
  std::string mark_control_tokens(std::string_view text, std::string_view chat) const;
  std::vector<std::int32_t> encode_marked(std::string_view text) const;
  std::shared_ptr<const TokenizerParts> parts_;
  std::shared_ptr<const text::Lengths> lengths_;
};

// Text of tokens that come one after another. What is returned, put together, is decode() of all ids, and each part is
// whole characters: a character is returned with the token that completes it. Where byte tokens (<0xE2>) do not make
// UTF-8, decode() shows every byte of their row as U+FFFD, and this only those that belong to no character.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens = true);
  std::string put(std::int32_t id);
  // What is still held back: half a character becomes U+FFFD. Then it begins anew.
  std::string finish();

 private:
  std::string decode_window() const;

  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::vector<std::int32_t> window_{};  // tokens that still matter: those of the last part returned, and later ones
  std::size_t context_ = 0;             // how many those of the last part are
  std::size_t returned_ = 0;            // bytes of their text that were returned
};

}  // namespace phasor
