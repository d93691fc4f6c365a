#include "phasor/text/tokenizer.h"

#include <iterator>
#include <utility>

#include "parts.h"
#include "phasor/core/check.h"
#include "phasor/core/mapped_file.h"
#include "phasor/core/parallel.h"

namespace phasor {
namespace {

constexpr const char* kName = "Tokenizer::from_file";

// A null is a key that is not given. A vocabulary has none.
void drop_nulls(Json& value) {
  if (value.is_array())
    for (Json& each : value) drop_nulls(each);
  if (!value.is_object()) return;
  for (auto at = value.begin(); at != value.end();) {
    if (at.key() != "vocab") drop_nulls(*at);
    at = at->is_null() ? value.erase(at) : std::next(at);
  }
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerParts> parts)
    : parts_(std::move(parts)), lengths_(parts_, &parts_->lengths()) {}

Tokenizer Tokenizer::from_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return from_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path.string());
}

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view name) {
  Json object = parse_json_object(json, kName, name);
  drop_nulls(object);
  FieldReader reader(object, kName, std::string(name));
  return Tokenizer(std::make_shared<const TokenizerParts>(reader));
}

Tokenizer Tokenizer::cut_at(std::optional<std::int64_t> longest) const {
  PHASOR_CHECK(!longest || *longest >= 1, "Tokenizer::cut_at", "longest: ", longest.value_or(0),
               ", expected at least 1");
  text::Lengths lengths;
  if (longest) {
    lengths.truncation = parts_->lengths().truncation.value_or(text::Truncation{});  // for the side
    lengths.truncation->strategy = text::Truncation::Strategy::longest_first;
    lengths.truncation->longest = static_cast<std::uint64_t>(*longest);
  }
  Tokenizer cut = *this;
  cut.lengths_ = std::make_shared<const text::Lengths>(lengths);
  return cut;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  EncodedText encoding = parts_->assemble(parts_->tokenize(text), nullptr, add_special_tokens, *lengths_);
  lengths_->pad({&encoding, 1});
  return std::move(encoding.ids);
}

std::string Tokenizer::mark_control_tokens(std::string_view text, std::string_view chat) const {
  return parts_->mark_control_tokens(text, chat);
}

std::vector<std::int32_t> Tokenizer::encode_marked(std::string_view text) const {
  std::string without;
  std::vector<std::size_t> marks;
  for (const char c : text)
    if (c == TokenizerParts::kMark)
      marks.push_back(without.size());
    else
      without += c;
  return parts_->assemble(parts_->tokenize(without, marks), nullptr, false, *lengths_).ids;
}

EncodedText Tokenizer::encode_pair(std::string_view first, std::string_view second, bool add_special_tokens) const {
  std::vector<std::int32_t> of_second = parts_->tokenize(second);
  EncodedText encoding = parts_->assemble(parts_->tokenize(first), &of_second, add_special_tokens, *lengths_);
  lengths_->pad({&encoding, 1});
  return encoding;
}

std::vector<EncodedText> Tokenizer::encode_batch(std::span<const std::string> texts, bool add_special_tokens) const {
  std::vector<EncodedText> encodings(texts.size());
  parallel_for(static_cast<std::int64_t>(texts.size()), [&](std::int64_t index) {
    const auto i = static_cast<std::size_t>(index);
    encodings[i] = parts_->assemble(parts_->tokenize(texts[i]), nullptr, add_special_tokens, *lengths_);
  });
  lengths_->pad(encodings);
  return encodings;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  return parts_->decode(ids, skip_special_tokens, false);
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(parts_->vocabulary().size() + parts_->added().not_in_model());
}

std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view token) const {
  if (const text::AddedToken* added = parts_->added().find(token)) return added->id;
  const std::int32_t id = parts_->vocabulary().find(token);
  return id == text::kNoToken ? std::nullopt : std::optional(id);
}

std::optional<std::string> Tokenizer::id_to_token(std::int32_t id) const {
  const std::optional<std::string_view> token = parts_->token_text(id, false);
  return token ? std::optional<std::string>(*token) : std::nullopt;
}

}  // namespace phasor
