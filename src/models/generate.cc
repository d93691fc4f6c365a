#include "phasor/models/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "phasor/core/random.h"

namespace phasor {
namespace {

constexpr const char* kName = "generate";

void check(const Sampling& sampling) {
  PHASOR_CHECK(std::isfinite(sampling.temperature) && sampling.temperature >= 0, kName,
               "temperature: ", sampling.temperature, ", expected 0 or more");
  PHASOR_CHECK(sampling.top_k >= 0, kName, "top_k: ", sampling.top_k, ", expected 0 (all) or more");
  PHASOR_CHECK(sampling.top_p > 0 && sampling.top_p <= 1, kName, "top_p: ", sampling.top_p,
               ", expected above 0 and at most 1");
}

// Tokens from the likeliest down, as many as top_k lets in.
std::vector<std::int32_t> likeliest(std::span<const float> logits, std::int64_t top_k) {
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto kept = top_k == 0 ? tokens.size() : std::min(tokens.size(), static_cast<std::size_t>(top_k));
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float la = logits[static_cast<std::size_t>(a)], lb = logits[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(kept), tokens.end(), likelier);
  tokens.resize(kept);
  return tokens;
}

}  // namespace

std::int32_t sample_token(std::span<const float> logits, const Sampling& sampling, std::uint64_t draw) {
  check(sampling);
  PHASOR_CHECK(!logits.empty() && std::ranges::none_of(logits, [](float l) { return std::isnan(l); }), kName,
               "logits: ", logits.empty() ? "none" : "NaN among them", ", expected numbers");
  if (sampling.temperature == 0) return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  const std::vector<std::int32_t> tokens = likeliest(logits, sampling.top_k);
  std::vector<double> cumulative;
  double sum = 0;
  for (const std::int32_t token : tokens) {
    const double below =
        static_cast<double>(logits[static_cast<std::size_t>(token)]) - logits[static_cast<std::size_t>(tokens[0])];
    cumulative.push_back(sum += std::exp(below / sampling.temperature));
  }
  // The fewest of the likeliest that reach top_p; at least one.
  const auto enough = std::ranges::lower_bound(cumulative, sampling.top_p * sum);
  const double total = enough == cumulative.end() ? sum : *enough;
  const double point = static_cast<double>(Philox(sampling.seed).uniform(draw)) * total;
  const auto chosen = std::ranges::upper_bound(cumulative, point) - cumulative.begin();
  return tokens[std::min(static_cast<std::size_t>(chosen), tokens.size() - 1)];
}

std::vector<std::int32_t> generate(const Transformer& model, std::span<const std::int32_t> prompt,
                                   const GenerateOptions& options, Workspace& workspace,
                                   const std::function<bool(std::int32_t)>& on_token) {
  check(options.sampling);
  PHASOR_CHECK(!prompt.empty(), kName, "prompt: no tokens, expected at least one");
  PHASOR_CHECK(options.new_tokens >= 0, kName, "new_tokens: ", options.new_tokens, ", expected 0 or more");
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t capacity = length + options.new_tokens;
  Transformer::Cache cache = model.make_cache({.capacity = capacity,
                                               .storage = options.storage.value_or(model.suitable_storage()),
                                               .keys = model.suitable_keys(capacity)});
  Tensor<float, 2> logits({1, model.config().vocab_size});
  std::vector<std::int32_t> written;
  TensorView<const std::int32_t, 2> next(prompt.data(), {1, length});
  while (static_cast<std::int64_t>(written.size()) < options.new_tokens) {
    model.decode(next, cache, logits.view(), workspace);
    const std::span<const float> row(logits.data(), static_cast<std::size_t>(logits.size()));
    written.push_back(sample_token(row, options.sampling, written.size()));
    if (on_token && !on_token(written.back())) break;
    if (options.stop_token == written.back()) break;
    next = {&written.back(), {1, 1}};
  }
  return written;
}

}  // namespace phasor
