#include "phasor/models/prompt_cache.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "phasor/models/safetensors.h"
#include "phasor/models/transformer_json.h"

namespace phasor {
namespace {

constexpr const char *kSave = "save_prompt_cache", *kLoad = "load_prompt_cache";
constexpr const char* kFormat = "phasor prompt cache 1";
// In the order of the enums.
constexpr std::array<std::string_view, 4> kStorages{"float", "bf16", "f16", "int8"};
constexpr std::array<std::string_view, 2> kKeys{"rotated", "unrotated"};

// 64 bits of FNV-1a (Fowler, Noll, Vo).
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) value_ = (value_ ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ull;
  }
  std::string text() const { return std::to_string(value_); }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

// Settings, numbers from all parts of every weight, and the whole embeddings of the prompt's tokens: the files of two
// trainings differ there, also where only the embeddings of a few tokens were trained.
std::string fingerprint(Transformer& model, std::span<const std::int32_t> tokens) {
  constexpr std::int64_t kNumbers = 64;
  Hash hash;
  const std::string settings = transformer_to_json(model.config());
  hash.add(std::as_bytes(std::span(settings)));
  for (const NamedWeight& each : model.weights()) {
    const Weight& weight = *each.weight;
    const std::int64_t step = std::max<std::int64_t>(1, weight.size() / kNumbers);
    weight.visit([&](const auto& values) {
      for (std::int64_t i = weight.size() - 1; i >= 0; i -= step)
        hash.add(std::as_bytes(std::span(values.data + i, 1)));
      if (!each.name.ends_with("embedding.weight") || each.name.starts_with("type_")) return;
      for (const std::int32_t token : tokens)
        hash.add(std::as_bytes(std::span(&values(token, 0), static_cast<std::size_t>(values.shape[1]))));
    });
  }
  return hash.text();
}

// The rows of all layers, and of the second stream of Gaussian tokens after those of the first.
std::vector<std::vector<std::span<const std::byte>>> rows_of(const Transformer::Cache& cache) {
  std::vector<std::vector<std::span<const std::byte>>> rows;
  for (const LayerCache& layer : cache.layers()) {
    rows.push_back(layer.mu.stored_rows(0));
    if (layer.log_sigma) rows.push_back(layer.log_sigma->stored_rows(0));
  }
  return rows;
}

std::string layer_name(std::size_t i) { return "rows." + std::to_string(i); }

template <std::size_t N>
std::size_t word_of(const std::array<std::string_view, N>& words, const TensorMetadata& metadata, const char* key,
                    const std::string& source) {
  const auto found = metadata.find(key);
  const auto* word = std::ranges::find(words, found == metadata.end() ? "" : std::string_view(found->second));
  PHASOR_CHECK(word != words.end(), kLoad, source, ": ", key, ": ", found == metadata.end() ? "missing" : found->second,
               ", expected a word that save_prompt_cache wrote");
  return static_cast<std::size_t>(word - words.begin());
}

std::vector<std::int32_t> read_tokens(const TensorFile& file, const Transformer& model, const std::string& source) {
  const StoredTensor& stored = file.at("tokens");
  PHASOR_CHECK(stored.type == StoredType::i32, kLoad, source, ": tokens: of ", type_name(stored.type),
               ", expected I32");
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(element_count(stored)));
  if (!tokens.empty()) std::memcpy(tokens.data(), stored.bytes.data(), stored.bytes.size());
  const std::int64_t vocabulary = model.config().vocab_size;
  for (const std::int32_t token : tokens)
    PHASOR_CHECK(token >= 0 && token < vocabulary, kLoad, source, ": tokens: ", token, ", expected 0 to ",
                 vocabulary - 1, ", the model's");
  return tokens;
}

// Every layer has the bytes of so many tokens: memory is taken for what the file has, not for what it says.
void check_rows(const TensorFile& file, const Transformer& model, const LayerCacheConfig& one_token, std::int64_t count,
                const std::string& source) {
  Transformer::Cache cache = model.make_cache(one_token);
  const auto layers = cache.replace_rows(1);
  for (std::size_t i = 0; i < layers.size(); i++) {
    std::size_t expected = 0;
    for (const std::span<std::byte> rows : layers[i]) expected += rows.size() * static_cast<std::size_t>(count);
    const std::size_t found = file.at(layer_name(i)).bytes.size();
    PHASOR_CHECK(found == expected, kLoad, source, ": ", layer_name(i), ": ", found, " bytes, expected ", expected);
  }
}

}  // namespace

void save_prompt_cache(const std::filesystem::path& path, Transformer& model, std::span<const std::int32_t> tokens,
                       const Transformer::Cache& cache) {
  PHASOR_CHECK(cache.lengths().size() == 1 && cache.length() == std::ssize(tokens), kSave, "tokens: ", tokens.size(),
               ", expected those of one sequence that the cache has read, ", cache.length());
  const KvCacheConfig& stored = cache.layers().front().mu.config();
  PHASOR_CHECK(!cache.layers().front().states, kSave, "cache: with an encoder's states, expected one without");
  std::vector<std::vector<std::byte>> bytes;
  for (const auto& layer : rows_of(cache)) {
    std::vector<std::byte>& all = bytes.emplace_back();
    for (const std::span<const std::byte> rows : layer) all.insert(all.end(), rows.begin(), rows.end());
  }
  std::vector<StoredTensor> tensors{{"tokens", StoredType::i32, {std::ssize(tokens)}, std::as_bytes(tokens)}};
  for (std::size_t i = 0; i < bytes.size(); i++)
    tensors.push_back({layer_name(i), StoredType::u8, {std::ssize(bytes[i])}, bytes[i]});
  save_tensors(path, tensors,
               {{"format", kFormat},
                {"model", fingerprint(model, tokens)},
                {"storage", std::string(kStorages[static_cast<std::size_t>(stored.storage)])},
                {"keys", std::string(kKeys[static_cast<std::size_t>(stored.keys)])}});
}

PromptCache load_prompt_cache(const std::filesystem::path& path, Transformer& model, std::int64_t capacity) {
  const TensorFile file(path);
  const TensorMetadata& metadata = file.metadata();
  const auto is = [&](const char* key, const std::string& value) {
    const auto found = metadata.find(key);
    return found != metadata.end() && found->second == value;
  };
  PHASOR_CHECK(is("format", kFormat), kLoad, path.string(), ": not a prompt cache, expected a file of ", kSave);
  const std::vector<std::int32_t> tokens = read_tokens(file, model, path.string());
  const std::int64_t count = std::ssize(tokens);
  PHASOR_CHECK(is("model", fingerprint(model, tokens)), kLoad, path.string(),
               ": of another model, or of the same in another precision, expected one that this model wrote");
  const auto storage = static_cast<CacheStorage>(word_of(kStorages, metadata, "storage", path.string()));
  const auto keys = static_cast<CachedKeys>(word_of(kKeys, metadata, "keys", path.string()));
  check_rows(file, model, {.capacity = 1, .storage = storage, .keys = keys}, count, path.string());
  PromptCache result{tokens,
                     model.make_cache({.capacity = std::max(capacity, count), .storage = storage, .keys = keys})};
  const auto layers = result.cache.replace_rows(count);
  for (std::size_t i = 0; i < layers.size(); i++) {
    std::span<const std::byte> from = file.at(layer_name(i)).bytes;
    for (const std::span<std::byte> rows : layers[i]) {
      std::ranges::copy(from.first(rows.size()), rows.begin());
      from = from.subspan(rows.size());
    }
  }
  return result;
}

std::vector<std::int32_t> generate_cached(const std::filesystem::path& path, Transformer& model,
                                          std::span<const std::int32_t> prompt, const GenerateOptions& options,
                                          Workspace& workspace, const std::function<bool(std::int32_t)>& on_token) {
  const std::int64_t length = std::ssize(prompt);
  check_generate(model, length, options);
  const std::int64_t capacity = length + options.max_tokens;
  const LayerCacheConfig config{.capacity = capacity,
                                .storage = options.storage.value_or(model.suitable_storage()),
                                .keys = model.suitable_keys(capacity)};
  PromptCache read{{}, model.make_cache(config)};
  if (std::filesystem::exists(path)) {
    PromptCache stored = load_prompt_cache(path, model, capacity);
    const KvCacheConfig& found = stored.cache.layers().front().mu.config();
    PHASOR_CHECK(found.storage == config.storage && found.keys == config.keys, kLoad, path.string(),
                 ": of a cache that stores keys otherwise, expected one made with the same options and lengths");
    read = std::move(stored);
  }
  const auto [differs, _] = std::ranges::mismatch(read.tokens, prompt);
  // The last token is read in any case: it gives the first logits.
  const std::int64_t shared = std::min<std::int64_t>(differs - read.tokens.begin(), length - 1);
  read.cache.truncate(shared);
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  continue_text(model, length - shared, read.cache, options, text, workspace, on_token);
  if (read.cache.length() >= length) {
    read.cache.truncate(length);
    save_prompt_cache(path, model, prompt, read.cache);
  }
  return {text.begin() + length, text.end()};
}

}  // namespace phasor
