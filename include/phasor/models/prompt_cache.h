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
#include <functional>
#include <span>
#include <vector>

#include "phasor/models/generate.h"
#include "phasor/models/transformer.h"

namespace phasor {

struct PromptCache {
  std::vector<std::int32_t> tokens;
  Transformer::Cache cache;  // of one sequence
};

// `cache` has read these tokens, as its only sequence. The file is replaced at once.
void save_prompt_cache(const std::filesystem::path& path, Transformer& model, std::span<const std::int32_t> tokens,
                       const Transformer::Cache& cache);

// With room for `capacity` tokens in all, or as many as the file has, and numbers stored as in the file.
PromptCache load_prompt_cache(const std::filesystem::path& path, Transformer& model, std::int64_t capacity);

// generate with such a file: tokens at the beginning of the prompt that are in it are not read again. Then it has the
// whole prompt. A file that is not there is made.
std::vector<std::int32_t> generate_cached(const std::filesystem::path& path, Transformer& model,
                                          std::span<const std::int32_t> prompt, const GenerateOptions& options,
                                          Workspace& workspace, const std::function<bool(std::int32_t)>& on_token = {});

}  // namespace phasor
