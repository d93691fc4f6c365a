#include "phasor/models/generate.h"

#include <algorithm>

#include "phasor/core/check.h"

namespace phasor {
namespace {

constexpr const char* kName = "generate";

void check_length(const Transformer& model, std::int64_t prompt, std::int64_t more) {
  PHASOR_CHECK(prompt >= 1, kName, "prompt: no tokens, expected at least one");
  PHASOR_CHECK(more >= 0, kName, "max_tokens: ", more, ", expected 0 or more");
  const std::optional<std::int64_t> longest = model.config().longest();
  PHASOR_CHECK(!longest || prompt <= *longest, kName, "prompt: ", prompt, " tokens, expected at most ",
               longest.value_or(0), ", the longest text that the model's positions encode");
  // The last token is not read.
  PHASOR_CHECK(!longest || more <= *longest - prompt + 1, kName, "max_tokens: ", more, " after a prompt of ", prompt,
               " tokens, expected at most ", longest.value_or(0) - prompt + 1,
               ": the model's positions encode texts of ", longest.value_or(0));
}

}  // namespace

void continue_text(const Transformer& model, std::int64_t unread, Transformer::Cache& cache,
                   const GenerateOptions& options, std::vector<std::int32_t>& text, Workspace& workspace,
                   const std::function<bool(std::int32_t)>& on_token) {
  check_sampling(options.sampling, kName);
  Tensor<float, 2> logits({1, model.config().vocab_size});
  for (std::int64_t count = 0; count < options.max_tokens; count++) {
    model.decode({&*(text.end() - unread), {1, unread}}, cache, logits.view(), workspace);
    const std::span<const float> row(logits.data(), static_cast<std::size_t>(logits.size()));
    text.push_back(sample_token(row, text, options.sampling, static_cast<std::uint64_t>(count)));
    unread = 1;
    if (on_token && !on_token(text.back())) break;
    if (std::ranges::count(options.stop_tokens, text.back()) > 0) break;
  }
}

std::vector<std::int32_t> generate(const Transformer& model, std::span<const std::int32_t> prompt,
                                   const GenerateOptions& options, Workspace& workspace,
                                   const std::function<bool(std::int32_t)>& on_token) {
  check_sampling(options.sampling, kName);
  const std::int64_t length = std::ssize(prompt);
  check_length(model, length, options.max_tokens);
  const std::int64_t capacity = length + options.max_tokens;
  Transformer::Cache cache = model.make_cache({.capacity = capacity,
                                               .storage = options.storage.value_or(model.suitable_storage()),
                                               .keys = model.suitable_keys(capacity)});
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  continue_text(model, length, cache, options, text, workspace, on_token);
  return {text.begin() + length, text.end()};
}

}  // namespace phasor
