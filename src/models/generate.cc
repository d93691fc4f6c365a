#include "phasor/models/generate.h"

#include <algorithm>

#include "phasor/core/check.h"

namespace phasor {
namespace {

constexpr const char* kName = "generate";

void check_length(const Transformer& model, std::int64_t prompt, std::int64_t more) {
  PHASOR_CHECK(prompt >= 1, kName, "prompt: no tokens, expected at least one");
  constexpr std::int64_t kMost = INT32_MAX;
  PHASOR_CHECK(more >= 0 && more <= kMost, kName, "max_tokens: ", more, ", expected 0 to ", kMost);
  const std::optional<std::int64_t> longest = model.config().longest();
  PHASOR_CHECK(!longest || prompt <= *longest, kName, "prompt: ", prompt, " tokens, expected at most ",
               longest.value_or(0), ", the longest text that the model's positions encode");
  // The last token is not read.
  PHASOR_CHECK(!longest || more <= *longest - prompt + 1, kName, "max_tokens: ", more, " after a prompt of ", prompt,
               " tokens, expected at most ", longest.value_or(0) - prompt + 1,
               ": the model's positions encode texts of ", longest.value_or(0));
}

}  // namespace

void check_generate(const Transformer& model, std::int64_t prompt_length, const GenerateOptions& options) {
  check_sampling(options.sampling, kName);
  check_length(model, prompt_length, options.max_tokens);
}

Transformer::Cache generation_cache(const Transformer& model, std::int64_t prompt_length,
                                    const GenerateOptions& options) {
  check_generate(model, prompt_length, options);
  const std::int64_t capacity = prompt_length + options.max_tokens;
  return model.make_cache({.capacity = capacity,
                           .storage = options.storage.value_or(model.suitable_storage()),
                           .keys = model.suitable_keys(capacity)});
}

void continue_text(const Transformer& model, std::int64_t unread, Transformer::Cache& cache,
                   const GenerateOptions& options, std::vector<std::int32_t>& text, Workspace& workspace,
                   const std::function<bool(std::int32_t)>& on_token) {
  check_sampling(options.sampling, kName);
  Tensor<float, 2> logits({1, model.config().vocab_size});
  for (std::int64_t count = 0; count < options.max_tokens; count++) {
    model.decode({&*(text.end() - unread), {1, unread}}, cache, logits.view(), workspace);
    const std::span<const float> row(logits.data(), static_cast<std::size_t>(logits.size()));
    const auto draw = static_cast<std::uint64_t>(options.first_draw + count);
    text.push_back(sample_token(row, text, options.sampling, draw));
    unread = 1;
    if (on_token && !on_token(text.back())) break;
    if (std::ranges::count(options.stop_tokens, text.back()) > 0) break;
  }
}

std::vector<std::int32_t> generate(const Transformer& model, std::span<const std::int32_t> prompt,
                                   const GenerateOptions& options, Workspace& workspace,
                                   const std::function<bool(std::int32_t)>& on_token) {
  const std::int64_t length = std::ssize(prompt);
  Transformer::Cache cache = generation_cache(model, length, options);
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  continue_text(model, length, cache, options, text, workspace, on_token);
  return {text.begin() + length, text.end()};
}

namespace {

// Texts that are written together.
class Batch {
 public:
  Batch(const Transformer& model, std::span<const std::vector<std::int32_t>> prompts, const GenerateOptions& options)
      : model_(model),
        options_(options),
        texts_(prompts.begin(), prompts.end()),
        unread_(prompts.size()),
        logits_({std::ssize(prompts), model.config().vocab_size}) {
    std::int64_t capacity = 0;
    for (std::size_t b = 0; b < texts_.size(); b++) {
      unread_[b] = std::ssize(texts_[b]);
      capacity = std::max(capacity, unread_[b] + options.max_tokens);
    }
    cache_ = model.make_cache({.batch = std::ssize(texts_),
                               .capacity = capacity,
                               .storage = options.storage.value_or(model.suitable_storage())});
  }

  // Reads what is new in each text and adds a token to those that go on. Returns whether any does.
  bool step(std::int64_t count, Workspace& workspace, const std::function<bool(std::size_t, std::int32_t)>& on_token) {
    read_new_tokens(workspace);
    bool any = false;
    for (std::size_t b = 0; b < texts_.size(); b++) {
      if (unread_[b] == 0) continue;
      std::vector<std::int32_t>& text = texts_[b];
      const std::span row(&logits_(static_cast<std::int64_t>(b), 0), static_cast<std::size_t>(logits_.shape()[1]));
      text.push_back(sample_token(row, text, options_.sampling, static_cast<std::uint64_t>(count)));
      const bool told = on_token && !on_token(b, text.back());
      unread_[b] = told || std::ranges::count(options_.stop_tokens, text.back()) > 0 ? 0 : 1;
      any = any || unread_[b] > 0;
    }
    return any;
  }

  std::vector<std::vector<std::int32_t>>& texts() { return texts_; }

 private:
  void read_new_tokens(Workspace& workspace) {
    const std::int64_t batch = std::ssize(texts_), most = *std::ranges::max_element(unread_);
    Tensor<std::int32_t, 2> tokens({batch, most});  // the rest of a row is padding
    for (std::int64_t b = 0; b < batch; b++) {
      const auto i = static_cast<std::size_t>(b);
      std::copy(texts_[i].end() - unread_[i], texts_[i].end(), &tokens(b, 0));
    }
    model_.decode(tokens.view(), cache_, logits_.view(), workspace, unread_);
  }

  const Transformer& model_;
  const GenerateOptions& options_;
  std::vector<std::vector<std::int32_t>> texts_;
  std::vector<std::int64_t> unread_;  // tokens of each text that the cache lacks; 0: the text has ended
  Transformer::Cache cache_;
  Tensor<float, 2> logits_;
};

}  // namespace

std::vector<std::vector<std::int32_t>> generate_batch(const Transformer& model,
                                                      std::span<const std::vector<std::int32_t>> prompts,
                                                      const GenerateOptions& options, Workspace& workspace,
                                                      const std::function<bool(std::size_t, std::int32_t)>& on_token) {
  std::int64_t longest = 0;
  for (const std::vector<std::int32_t>& prompt : prompts) {
    check_generate(model, std::ssize(prompt), options);
    longest = std::max<std::int64_t>(longest, std::ssize(prompt));
  }
  std::vector<std::vector<std::int32_t>> written;
  // Angles that follow the length of a text differ from text to text.
  if (model.suitable_keys(longest + options.max_tokens) == CachedKeys::unrotated) {
    for (std::size_t b = 0; b < prompts.size(); b++)
      written.push_back(generate(model, prompts[b], options, workspace,
                                 [&](std::int32_t token) { return !on_token || on_token(b, token); }));
    return written;
  }
  if (prompts.empty()) return written;
  Batch batch(model, prompts, options);
  for (std::int64_t count = 0; count < options.max_tokens; count++)
    if (!batch.step(count, workspace, on_token)) break;
  for (std::size_t b = 0; b < prompts.size(); b++)
    written.emplace_back(batch.texts()[b].begin() + std::ssize(prompts[b]), batch.texts()[b].end());
  return written;
}

}  // namespace phasor
