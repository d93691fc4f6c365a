#include "phasor/training/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "adamw.h"
#include "check_settings.h"
#include "phasor/core/check.h"
#include "phasor/core/parallel.h"

namespace phasor {
namespace {

constexpr std::int64_t kPartElements = std::int64_t{1} << 15;

// A row or column is as good as a vector.
bool is_matrix(const Weight& weight) {
  return std::ranges::count_if(weight.shape(), [](std::int64_t size) { return size > 1; }) > 1;
}

// Eight sums at once, so that the compiler can keep them in vectors; the order is fixed.
double sum_of_squares(const float* values, std::int64_t count) {
  constexpr std::int64_t kTogether = 8;
  std::array<double, kTogether> sums{};
  std::int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether)
    for (std::int64_t j = 0; j < kTogether; j++) {
      const double value = values[i + j];
      sums[static_cast<std::size_t>(j)] += value * value;
    }
  for (; i < count; i++) sums[0] += static_cast<double>(values[i]) * values[i];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

AdamW::AdamW(NamedWeights weights, const AdamWConfig& config) : weights_(std::move(weights)), config_(config) {
  detail::check_adamw("AdamW", config, detail::own_name);
  for (std::size_t w = 0; w < weights_.size(); w++) {
    const std::int64_t size = weights_[w].weight->size();
    moments_.push_back({weights_[w].name, Tensor<float, 1>({size}), Tensor<float, 1>({size})});
    for (std::int64_t first = 0; first < size; first += kPartElements)
      parts_.push_back({w, first, std::min(kPartElements, size - first)});
    weights_[w].weight->gradient();  // made now: threads ask for it later
  }
}

void AdamW::step(double learning_rate, double gradient_scale) {
  PHASOR_CHECK(learning_rate >= 0.0 && std::isfinite(learning_rate), "AdamW", "learning_rate: ", learning_rate,
               ", expected 0 or more");
  steps_done_++;
  const auto t = static_cast<double>(steps_done_);
  detail::AdamWStep step{
      .keep = 1.0f,
      .gradient_scale = static_cast<float>(gradient_scale),
      .from_gradient = static_cast<float>(1.0 - config_.beta1),
      .beta2 = static_cast<float>(config_.beta2),
      .from_square = static_cast<float>(1.0 - config_.beta2),
      .step_size = static_cast<float>(learning_rate / (1.0 - std::pow(config_.beta1, t))),
      .root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(config_.beta2, t))),
      .eps = static_cast<float>(config_.eps),
  };
  const auto decayed = static_cast<float>(1.0 - learning_rate * config_.weight_decay);
  parallel_for(static_cast<std::int64_t>(parts_.size()), [&](std::int64_t task) {
    const Part& part = parts_[static_cast<std::size_t>(task)];
    Weight& weight = *weights_[part.weight].weight;
    Moments& moments = moments_[part.weight];
    detail::AdamWStep of_weight = step;
    of_weight.keep = is_matrix(weight) ? decayed : 1.0f;
    detail::adamw_part(of_weight, {weight.value().data() + part.first, weight.gradient().data() + part.first,
                                   moments.mean.data() + part.first, moments.square.data() + part.first, part.count});
  });
}

double AdamW::gradient_norm() const {
  std::vector<double> sums(parts_.size());
  parallel_for(static_cast<std::int64_t>(parts_.size()), [&](std::int64_t task) {
    const auto i = static_cast<std::size_t>(task);
    const Part& part = parts_[i];
    sums[i] = sum_of_squares(weights_[part.weight].weight->gradient().data() + part.first, part.count);
  });
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

void AdamW::restore(std::int64_t steps_done, std::vector<Moments> moments) {
  PHASOR_CHECK(steps_done >= 0, "AdamW", "steps_done: ", steps_done, ", expected 0 or more");
  PHASOR_CHECK(moments.size() == moments_.size(), "AdamW", "moments: of ", moments.size(), " weights, expected ",
               moments_.size());
  for (std::size_t w = 0; w < moments.size(); w++)
    PHASOR_CHECK(moments[w].name == moments_[w].name && moments[w].mean.shape() == moments_[w].mean.shape() &&
                     moments[w].square.shape() == moments_[w].square.shape(),
                 "AdamW", "moments: of weight ", moments[w].name, " with ", moments[w].mean.size(), " and ",
                 moments[w].square.size(), " elements, expected ", moments_[w].name, " with ", moments_[w].mean.size());
  steps_done_ = steps_done;
  moments_ = std::move(moments);
}

double clip_scale(double norm, double max_norm) {
  PHASOR_CHECK(max_norm >= 0.0, "clip_scale", "max_norm: ", max_norm, ", expected 0 or more");
  constexpr double kTorchEps = 1e-6;
  return max_norm == 0.0 ? 1.0 : std::min(1.0, max_norm / (norm + kTorchEps));
}

}  // namespace phasor
