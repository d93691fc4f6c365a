// A prompt that has been read, in a file: the keys and values of its tokens, so that a long prompt is read once.
//
//   save_prompt_cache("system.cache", model, tokens, cache);
//   Transformer::Cache cache = load_prompt_cache("system.cache", model, capacity).cache;
//
// The file is a safetensors file. It fits the model that wrote it only: another one is refused, by its settings and by
// some of its weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "phasor/models/transformer.h"

namespace phasor {

struct PromptCache {
  std::vector<std::int32_t> tokens;
  Transformer::Cache cache;  // of one sequence
};

// `cache` has read these tokens, as its only sequence. The file is replaced at once.
void save_prompt_cache(const std::filesystem::path& path, Transformer& model, std::span<const std::int32_t> tokens,
                       const Transformer::Cache& cache);

// `capacity` tokens in all, with numbers stored as in the file.
PromptCache load_prompt_cache(const std::filesystem::path& path, Transformer& model, std::int64_t capacity);

}  // namespace phasor
