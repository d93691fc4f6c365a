#include "phasor/models/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "phasor/core/check.h"
#include "phasor/core/random.h"

namespace phasor {
namespace {

constexpr const char* kName = "sample_token";

// A token's logit is changed once, however often the token is in the text. In float, as in transformers.
std::vector<float> penalised(std::span<const float> logits, std::span<const std::int32_t> text, float penalty) {
  std::vector<float> changed(logits.begin(), logits.end());
  for (const std::int32_t token : text) {
    const auto i = static_cast<std::size_t>(token);
    PHASOR_CHECK(token >= 0 && i < logits.size(), kName, "text: token ", token, ", expected 0 to ", logits.size() - 1);
    changed[i] = logits[i] < 0 ? logits[i] * penalty : logits[i] / penalty;
  }
  return changed;
}

// Tokens from the likeliest down, sorted as far as they are asked for.
class Likeliest {
 public:
  explicit Likeliest(std::span<const float> logits) : logits_(logits), tokens_(logits.size()) {
    std::iota(tokens_.begin(), tokens_.end(), 0);
  }

  std::int32_t operator[](std::size_t rank) {
    if (rank >= sorted_) sort(std::max(rank + 1, 8 * sorted_));
    return tokens_[rank];
  }

 private:
  void sort(std::size_t count) {
    const auto likelier = [&](std::int32_t a, std::int32_t b) {
      const float la = logits_[static_cast<std::size_t>(a)], lb = logits_[static_cast<std::size_t>(b)];
      return la != lb ? la > lb : a < b;
    };
    count = std::min(count, tokens_.size());
    const auto at = [&](std::size_t rank) { return tokens_.begin() + static_cast<std::ptrdiff_t>(rank); };
    std::partial_sort(at(sorted_), at(count), tokens_.end(), likelier);
    sorted_ = count;
  }

  std::span<const float> logits_;
  std::vector<std::int32_t> tokens_;
  std::size_t sorted_ = 0;
};

std::int32_t draw_token(std::span<const float> logits, const Sampling& sampling, std::uint64_t draw) {
  Likeliest tokens(logits);
  const double largest = *std::ranges::max_element(logits);
  const auto weight = [&](float logit) {
    return std::exp((static_cast<double>(logit) - largest) / sampling.temperature);
  };
  const auto weight_at = [&](std::size_t rank) { return weight(logits[static_cast<std::size_t>(tokens[rank])]); };
  const std::size_t kept =
      sampling.top_k == 0 ? logits.size() : std::min(logits.size(), static_cast<std::size_t>(sampling.top_k));
  double sum = 0;
  if (kept == logits.size())
    for (const float logit : logits) sum += weight(logit);
  else
    for (std::size_t rank = 0; rank < kept; rank++) sum += weight_at(rank);
  // Where the chosen tokens end: the fewest that reach top_p, without those below min_p; at least one.
  const double uniform = static_cast<double>(Philox(sampling.seed).uniform(draw));
  std::vector<double> cumulative{weight_at(0)};
  const bool all = sampling.top_p == 1 && sampling.min_p == 0;
  while (cumulative.size() < kept && cumulative.back() < (all ? uniform : sampling.top_p) * sum) {
    const double next = weight_at(cumulative.size());
    if (next < sampling.min_p) break;
    cumulative.push_back(cumulative.back() + next);
  }
  const double point = uniform * (all ? sum : cumulative.back());
  const auto chosen = std::ranges::upper_bound(cumulative, point) - cumulative.begin();
  return tokens[std::min(static_cast<std::size_t>(chosen), cumulative.size() - 1)];
}

}  // namespace

void check_sampling(const Sampling& sampling, const char* function) {
  PHASOR_CHECK(std::isfinite(sampling.temperature) && sampling.temperature >= 0, function,
               "temperature: ", sampling.temperature, ", expected 0 or more");
  PHASOR_CHECK(sampling.top_k >= 0, function, "top_k: ", sampling.top_k, ", expected 0 (all) or more");
  PHASOR_CHECK(sampling.top_p > 0 && sampling.top_p <= 1, function, "top_p: ", sampling.top_p,
               ", expected above 0 and at most 1");
  PHASOR_CHECK(sampling.min_p >= 0 && sampling.min_p <= 1, function, "min_p: ", sampling.min_p, ", expected 0 to 1");
  PHASOR_CHECK(std::isfinite(sampling.repetition_penalty) && sampling.repetition_penalty > 0, function,
               "repetition_penalty: ", sampling.repetition_penalty, ", expected above 0");
}

std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> text, const Sampling& sampling,
                          std::uint64_t draw) {
  check_sampling(sampling, kName);
  const bool numbers = std::ranges::none_of(logits, [](float l) { return std::isnan(l); });
  PHASOR_CHECK(!logits.empty() && numbers, kName, "logits: ", numbers ? "none" : "NaN among them",
               ", expected numbers");
  std::vector<float> changed;
  if (sampling.repetition_penalty != 1)
    logits = changed = penalised(logits, text, static_cast<float>(sampling.repetition_penalty));
  if (sampling.temperature == 0) return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  return draw_token(logits, sampling, draw);
}

}  // namespace phasor
