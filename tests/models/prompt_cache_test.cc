#include "phasor/models/prompt_cache.h"

#include <gtest/gtest.h>

#include <utility>

#include "models/model_cases.h"
#include "phasor/models/generate.h"
#include "phasor/models/safetensors.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

const std::vector<std::int32_t> kPrompt{3, 1, 4, 1, 5, 9, 2, 6};

Transformer::Cache read_prompt(const Transformer& model, CacheStorage storage) {
  Transformer::Cache cache =
      model.make_cache({.capacity = std::ssize(kPrompt), .storage = storage, .keys = model.suitable_keys(30)});
  Tensor<float, 2> logits({1, model.config().vocab_size});
  Workspace workspace;
  model.decode({kPrompt.data(), {1, std::ssize(kPrompt)}}, cache, logits.view(), workspace);
  return cache;
}

// The text after a saved prompt and one more token is that after the whole prompt, for each way to store numbers.
TEST(PromptCache, TextGoesOnAsIfThePromptWereReadAgain) {
  const TemporaryFolder folder;
  for (ModelCase& each : model_cases())
    for (const CacheStorage storage : {CacheStorage::float32, CacheStorage::bf16, CacheStorage::int8}) {
      if (each.config.score == Score::w2 && storage != CacheStorage::float32) continue;
      SCOPED_TRACE(each.name);
      Transformer model(each.config, 9);
      for (const NamedWeight& weight : model.weights())
        if (weight.weight->shape().size() == 2)
          for (float& value : weight.weight->value()) value *= 12.0f;
      save_prompt_cache(folder.path() / "prompt", model, kPrompt, read_prompt(model, storage));
      PromptCache loaded = load_prompt_cache(folder.path() / "prompt", model, 30);
      EXPECT_EQ(loaded.tokens, kPrompt);
      Workspace workspace;
      std::vector<std::int32_t> text = loaded.tokens;
      text.push_back(7);
      const GenerateOptions options{.max_tokens = 12, .storage = storage};
      const std::vector<std::int32_t> expected = generate(model, text, options, workspace);
      continue_text(model, 1, loaded.cache, options, text, workspace);
      EXPECT_EQ(std::vector<std::int32_t>(text.end() - 12, text.end()), expected);
    }
}

// Without a file, with one of the same prompt, of the beginning of a longer one, of another end, and of a longer one.
TEST(PromptCache, OnlyNewTokensAreRead) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "prompt";
  Transformer model(small_config(RopeConfig{.head_dim = 6}, Score::dot), 9);
  for (const NamedWeight& weight : model.weights())
    if (weight.weight->shape().size() == 2)
      for (float& value : weight.weight->value()) value *= 12.0f;
  const GenerateOptions options{.max_tokens = 9};
  Workspace workspace;
  for (const std::vector<std::int32_t>& prompt :
       {kPrompt, kPrompt, std::vector<std::int32_t>{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, {3, 1, 4, 7, 7}, {3, 1}, {8}}) {
    EXPECT_EQ(generate_cached(path, model, prompt, options, workspace), generate(model, prompt, options, workspace));
    EXPECT_EQ(load_prompt_cache(path, model, 30).tokens, prompt);
  }
  const GenerateOptions bf16{.max_tokens = 9, .storage = CacheStorage::bf16};
  EXPECT_ERROR(generate_cached(path, model, kPrompt, bf16, workspace), "of a cache that stores keys otherwise");
}

TEST(PromptCache, WhatDoesNotFitIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "prompt";
  const TransformerConfig config = model_cases()[0].config;
  Transformer model(config, 1), other(config, 2);
  const Transformer::Cache cache = read_prompt(model, CacheStorage::float32);
  save_prompt_cache(path, model, kPrompt, cache);
  EXPECT_ERROR(load_prompt_cache(path, other, 30), path.string(), "of another model",
               "expected one that this model wrote");
  EXPECT_EQ(load_prompt_cache(path, model, 3).cache.capacity(), 8);
  EXPECT_ERROR(save_prompt_cache(path, model, std::span(kPrompt).first(5), cache), "tokens: 5",
               "expected those of one sequence that the cache has read, 8");
  EXPECT_ERROR(load_prompt_cache(folder.path() / "none", model, 30), "none");
  // One number in the embedding of one token of the prompt, as a training of a few tokens changes it.
  for (const NamedWeight& each : model.weights())
    if (each.name == "embedding.weight") {
      float& number = each.weight->value()[static_cast<std::size_t>(kPrompt[2] * config.hidden_size + 1)];
      const float before = std::exchange(number, 1.0f);
      EXPECT_ERROR(load_prompt_cache(path, model, 30), "of another model");
      number = before;
    }
  const TensorFile file(path);
  const auto replace = [&](const char* name, StoredTensor by) {
    std::vector<StoredTensor> tensors(file.tensors().begin(), file.tensors().end());
    for (StoredTensor& tensor : tensors)
      if (tensor.name == name) tensor = by;
    save_tensors(folder.path() / "hostile", tensors, file.metadata());
  };
  std::vector<std::int32_t> tokens = kPrompt;
  replace("rows.0", {"rows.0", StoredType::u8, {5}, file.at("rows.0").bytes.first(5)});
  EXPECT_ERROR(load_prompt_cache(folder.path() / "hostile", model, 30), "rows.0: 5 bytes", "expected 768");
  tokens[3] = 29;
  replace("tokens", {"tokens", StoredType::i32, {8}, std::as_bytes(std::span(tokens))});
  EXPECT_ERROR(load_prompt_cache(folder.path() / "hostile", model, 30), "tokens: 29", "expected 0 to 28");
  save_tensors(path, {}, {{"format", "another"}});
  EXPECT_ERROR(load_prompt_cache(path, model, 30), "not a prompt cache");
}

}  // namespace
}  // namespace phasor
