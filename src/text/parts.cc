#include "parts.h"

#include <algorithm>
#include <utility>

#include "phasor/core/check.h"
#include "utf8.h"

namespace phasor {

using namespace text;

namespace {

constexpr const char* kEncode = "Tokenizer::encode";

}  // namespace

TokenizerParts::TokenizerParts(FieldReader& reader) {
  std::string version;
  reader.since("version", version, {"1.0"});
  if (version != "1.0") reader.refuse_key("version", "1.0");
  model_ = read_model(reader.object("model"));
  if (reader.find("normalizer") != nullptr) normalizer_ = read_normalizer(reader.object("normalizer"));
  if (reader.find("pre_tokenizer") != nullptr) pre_tokenizer_ = read_pre_tokenizer(reader.object("pre_tokenizer"));
  if (reader.find("post_processor") != nullptr) template_ = read_post_processor(reader.object("post_processor"));
  if (reader.find("decoder") != nullptr) decoder_ = read_decoder(reader.object("decoder"));
  lengths_ = {read_truncation(reader), read_padding(reader)};
  added_ = std::make_unique<const AddedTokens>(reader, vocabulary(), normalizer_);
  for (const auto* pieces : {&template_.single, &template_.pair})
    for (const TemplatePiece& piece : *pieces)
      for (const std::int32_t id : piece.ids)
        if (!token_text(id, false)) reader.refuse_part("post_processor", std::to_string(id), "ids of tokens");
  reader.finish();
}

std::unique_ptr<TokenizerParts::Memory> TokenizerParts::take_memory() const {
  const std::lock_guard lock(mutex_);
  if (memories_.empty()) return std::make_unique<Memory>();
  std::unique_ptr<Memory> memory = std::move(memories_.back());
  memories_.pop_back();
  return memory;
}

void TokenizerParts::give_back(std::unique_ptr<Memory> memory) const {
  const std::lock_guard lock(mutex_);
  memories_.push_back(std::move(memory));
}

std::vector<std::int32_t> TokenizerParts::tokenize(std::string_view text, std::span<const std::size_t> plain) const {
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  PHASOR_CHECK(text.size() <= kLargest, kEncode, "text: ", text.size(), " bytes, expected at most ", kLargest);
  std::string repaired;
  if (!is_utf8(text)) text = repaired = replace_broken(text);
  std::unique_ptr<Memory> memory = take_memory();
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  added_->plain().split(text, plain, [&](std::size_t begin, std::size_t end, const AddedToken* token) {
    if (token != nullptr) {
      ids.push_back(token->id);
      return;
    }
    const std::size_t before = ids.size();
    const std::string_view section = text.substr(begin, end - begin);
    tokenize_section(section, begin == 0, *memory, ids);
    if (!plain.empty()) refuse_special(section, std::span(ids).subspan(before));
  });
  give_back(std::move(memory));
  return ids;
}

namespace {

// Special tokens, and added ones that a template of chats writes; not a mere space, which it writes as text.
bool is_control(const AddedToken& token, std::string_view chat) {
  const bool space = token.content.find_first_not_of(" \t\n\r") == std::string::npos;
  return token.special || (!space && chat.find(token.content) != std::string_view::npos);
}

}  // namespace

// Models, too, may know the text of a special token: those of kind Unigram do.
void TokenizerParts::refuse_special(std::string_view text, std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    const AddedToken* token = added_->find(id);
    PHASOR_CHECK(token == nullptr || !token->special || text.find(token->content) == std::string_view::npos, kEncode,
                 "text: spells the special token ", token->content,
                 ", which this tokenizer's model knows, expected none");
  }
}

// Places in normalised text are not those in the text: a token that is found there is refused.
std::string TokenizerParts::mark_control_tokens(std::string_view text, std::string_view chat) const {
  const std::string repaired = replace_broken(text);
  Section section{repaired, true};
  if (normalizer_) normalizer_(section);
  added_->normalized().split(section.text, {}, [&](std::size_t, std::size_t, const AddedToken* token) {
    PHASOR_CHECK(token == nullptr || !is_control(*token, chat), kEncode, "text: spells the special token ",
                 token->content, ", which this tokenizer finds in normalised text, expected none");
  });
  std::string marked;
  for (std::size_t i = 0; i < repaired.size(); i++) {
    const auto control = [&](const AddedToken& token) { return is_control(token, chat); };
    if (added_->plain().begins_with(std::string_view(repaired).substr(i), control)) marked += kMark;
    marked += repaired[i];
  }
  return marked;
}

// Between added tokens that are looked for in the text as it is given.
void TokenizerParts::tokenize_section(std::string_view text, bool at_start, Memory& memory,
                                      std::vector<std::int32_t>& ids) const {
  Section section;
  section.at_start = at_start;
  if (normalizer_) {
    section.text = text;
    normalizer_(section);
    text = section.text;
  }
  added_->normalized().split(text, {}, [&](std::size_t begin, std::size_t end, const AddedToken* token) {
    if (token != nullptr)
      ids.push_back(token->id);
    else
      tokenize_pieces(text.substr(begin, end - begin), section.at_start && begin == 0, memory, ids);
  });
}

void TokenizerParts::tokenize_pieces(std::string_view text, bool at_start, Memory& memory,
                                     std::vector<std::int32_t>& ids) const {
  memory.pieces.assign(text, at_start);
  if (pre_tokenizer_) pre_tokenizer_(memory.pieces);
  for (const Piece& each : memory.pieces.all()) {
    const std::string_view piece = memory.pieces.text_of(each);
    const std::uint64_t hash = hash_text(piece);
    const std::span<const std::int32_t> known = memory.cache.find(piece, hash);
    if (!known.empty()) {
      ids.insert(ids.end(), known.begin(), known.end());
      continue;
    }
    const std::size_t before = ids.size();
    model_->encode(piece, ids, memory.model);
    memory.cache.keep(piece, hash, std::span(ids).subspan(before));
  }
}

EncodedText TokenizerParts::assemble(std::vector<std::int32_t> first, std::vector<std::int32_t>* second,
                                     bool add_special_tokens, const Lengths& lengths) const {
  const bool is_pair = second != nullptr;
  if (lengths.truncation) lengths.truncation->cut(first, second, add_special_tokens ? template_.added(is_pair) : 0);
  EncodedText encoding;
  for (const TemplatePiece& piece : is_pair ? template_.pair : template_.single) {
    if (piece.text < 0 && !add_special_tokens) continue;
    const std::vector<std::int32_t>& ids = piece.text < 0 ? piece.ids : piece.text == 0 ? first : *second;
    encoding.ids.insert(encoding.ids.end(), ids.begin(), ids.end());
    encoding.type_ids.insert(encoding.type_ids.end(), ids.size(), piece.type_id);
  }
  encoding.attention_mask.assign(encoding.ids.size(), 1);
  return encoding;
}

std::optional<std::string_view> TokenizerParts::token_text(std::int32_t id, bool skip_special_tokens) const {
  const AddedToken* added = added_->find(id);
  if (added == nullptr) return vocabulary().token(id);
  // A special token that normalisation changes is text for the package: it compares texts.
  if (skip_special_tokens) {
    const AddedToken* same = added_->find(added->form);
    if (same != nullptr && same->special) return std::nullopt;
  }
  return added->form;
}

std::string TokenizerParts::decode(std::span<const std::int32_t> ids, bool skip_special_tokens, bool is_stream) const {
  Decoded decoded;
  decoded.is_stream = is_stream;
  for (const std::int32_t id : ids)
    if (const auto token = token_text(id, skip_special_tokens)) decoded.tokens.emplace_back(*token);
  if (decoder_ && !decoded.tokens.empty()) decoder_(decoded);
  std::string text;
  for (std::size_t i = 0; i < decoded.tokens.size(); i++) {
    if (i > 0 && !decoder_) text += ' ';
    text += decoded.tokens[i];
  }
  return text;
}

}  // namespace phasor
