// Generation: a causal model reads a prompt and continues it, token by token, with a cache.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "phasor/models/sampling.h"
#include "phasor/models/transformer.h"

namespace phasor {

struct GenerateOptions {
  std::int64_t max_tokens = 100;  // that are written; prompt and text must fit the model's longest()
  Sampling sampling{};
  std::vector<std::int32_t> stop_tokens{};  // each ends the text, and is its last token
  std::optional<CacheStorage> storage{};    // the model's suitable_storage()
  std::int64_t first_draw = 0;              // of sampling: tokens of the text that were drawn in earlier calls
};

// Returns the new tokens. on_token, if given, is called with each one, and ends the text by returning false.
std::vector<std::int32_t> generate(const Transformer& model, std::span<const std::int32_t> prompt,
                                   const GenerateOptions& options, Workspace& workspace,
                                   const std::function<bool(std::int32_t)>& on_token = {});

// What generate refuses before any work: no prompt, or texts longer than the model's positions encode.
void check_generate(const Transformer& model, std::int64_t prompt_length, const GenerateOptions& options);

// A cache for a prompt of this many tokens and the text after it.
Transformer::Cache generation_cache(const Transformer& model, std::int64_t prompt_length,
                                    const GenerateOptions& options);

// Adds tokens to a text whose last `unread` tokens (at least one) are not in the cache yet, and the others are.
void continue_text(const Transformer& model, std::int64_t unread, Transformer::Cache& cache,
                   const GenerateOptions& options, std::vector<std::int32_t>& text, Workspace& workspace,
                   const std::function<bool(std::int32_t)>& on_token = {});

// Several prompts at once, each with a length of its own: a step reads the weights once for all of them. Texts are
// those of one prompt alone. on_token gets the number of the prompt too; false ends that text.
std::vector<std::vector<std::int32_t>> generate_batch(
    const Transformer& model, std::span<const std::vector<std::int32_t>> prompts, const GenerateOptions& options,
    Workspace& workspace, const std::function<bool(std::size_t, std::int32_t)>& on_token = {});

}  // namespace phasor
