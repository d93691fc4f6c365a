#include "text_model.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "files/atomic_file.h"
#include "phasor/core/check.h"
#include "phasor/models/text_files.h"
#include "phasor/training/checkpoint.h"

namespace phasor::tool {
namespace {

constexpr std::array<std::pair<std::string_view, CacheStorage>, 4> kStorages{{{"float", CacheStorage::float32},
                                                                              {"bf16", CacheStorage::bf16},
                                                                              {"f16", CacheStorage::f16},
                                                                              {"int8", CacheStorage::int8}}};

std::variant<Transformer, EncoderDecoder> load(const std::string& folder, bool ours, Precision precision) {
  if (!ours && EncoderDecoder::is_in(folder)) return EncoderDecoder::from_pretrained(folder, precision);
  if (!ours) return Transformer::from_pretrained(folder, precision);
  Transformer model = load_model(folder);
  if (precision == Precision::bf16) model.round_to_bf16();
  return model;
}

// For CLI::Option::check: one of the known words.
auto one_of(std::vector<std::string> known, const std::string& expected) {
  return [known = std::move(known), expected](const std::string& text) -> std::string {
    return std::ranges::count(known, text) == 1 ? "" : text + ", expected " + expected;
  };
}

}  // namespace

bool is_trained_here(const std::string& folder) {
  PHASOR_CHECK(std::filesystem::is_directory(readable_folder(folder)), "load", folder,
               ": no such folder, expected one with a model");
  return std::filesystem::exists(readable_folder(folder) / "training.json");
}

std::optional<CacheStorage> TextModelOptions::storage() const {
  if (!cache) return std::nullopt;
  return std::ranges::find(kStorages, *cache, &std::pair<std::string_view, CacheStorage>::first)->second;
}

void add_weight_options(CLI::App& command, WeightOptions& options, const char* about_folder) {
  command.add_option("folder", options.folder, about_folder)->required();
  command
      .add_option("--precision", options.precision,
                  "Weights: storage (as the files have them), float, or bf16 (rounded)")
      ->capture_default_str()
      ->check(one_of({"storage", "float", "bf16"}, "storage, float or bf16"));
}

void add_text_model_options(CLI::App& command, TextModelOptions& options, const char* about_cache) {
  add_weight_options(command, options, "Folder of a model of Hugging Face, or one written by phasor train");
  command.add_option("--cache", options.cache, about_cache)
      ->check(one_of({"float", "bf16", "f16", "int8"}, "float, bf16, f16 or int8"));
}

TextModel::TextModel(const TextModelOptions& options)
    : ours(is_trained_here(options.folder)),
      model(load(options.folder, ours, precision_from_name(options.precision))),
      folder(options.folder) {}

Transformer& TextModel::transformer(const char* command) {
  auto* found = std::get_if<Transformer>(&model);
  PHASOR_CHECK(found != nullptr, command, folder, ": a model of an encoder and a decoder, expected one of a decoder");
  return *found;
}

const TransformerConfig& TextModel::writer() const {
  const auto* pair = std::get_if<EncoderDecoder>(&model);
  return pair != nullptr ? pair->decoder().config() : std::get<Transformer>(model).config();
}

void TextModel::read_tokenizer(const char* flag) {
  constexpr std::int64_t kBytes = 256;
  const std::int64_t vocabulary = writer().vocab_size;
  PHASOR_CHECK(!ours || vocabulary == kBytes, "load", flag, ": text for a model of ", vocabulary,
               " tokens, expected one of bytes (256)");
  if (!ours) tokenizer = load_tokenizer(folder, writer());
}

std::vector<std::int32_t> TextModel::encode(std::string_view text, bool add_special_tokens) const {
  if (tokenizer) return tokenizer->encode(text, add_special_tokens);
  std::vector<std::int32_t> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

}  // namespace phasor::tool
