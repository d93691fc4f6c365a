#include "model.h"
#include "read_by_type.h"

namespace phasor::text {

void Model::read_vocabulary(FieldReader& reader, const char* key) {
  // Ids may have gaps, but an id alone must not ask for much memory.
  constexpr std::uint64_t kLargestGap = 1 << 20;
  const Json* tokens = reader.find(key);
  if (tokens == nullptr || !tokens->is_object()) reader.refuse_key(key, "an object of tokens and their ids");
  for (const auto& [token, id] : tokens->items()) {
    const std::string path = std::string(key) + "." + json_text(token);
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= tokens->size() + kLargestGap)
      reader.refuse_part(path, json_text(id), "an id, less than " + std::to_string(tokens->size() + kLargestGap));
    if (!vocabulary_.add(token, id.get<std::int32_t>()))
      reader.refuse_part(path, json_text(id), "an id that no other token has");
  }
}

std::int32_t Model::byte_token(char byte) const {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string token = "<0x00>";
  token[3] = kDigits[static_cast<unsigned char>(byte) >> 4];
  token[4] = kDigits[static_cast<unsigned char>(byte) & 15];
  return vocabulary_.find(token);
}

// Files of before 2021 have models without a type. The keys that only one kind has tell which it is.
std::shared_ptr<const Model> read_model(FieldReader reader) {
  static const Readers<std::shared_ptr<const Model>> readers{
      {"BPE", read_bpe}, {"WordPiece", read_word_piece}, {"Unigram", read_unigram}};
  if (reader.find("type") != nullptr) return read_by_type(reader, readers);
  const Json* vocabulary = reader.find("vocab");
  const char* type = reader.find("merges") != nullptr                     ? "BPE"
                     : reader.find("max_input_chars_per_word") != nullptr ? "WordPiece"
                     : vocabulary != nullptr && vocabulary->is_array()    ? "Unigram"
                                                                          : nullptr;
  if (type == nullptr) reader.refuse_key("type", "BPE, Unigram or WordPiece");
  std::shared_ptr<const Model> model = readers.at(type)(reader);
  reader.finish();
  return model;
}

}  // namespace phasor::text
