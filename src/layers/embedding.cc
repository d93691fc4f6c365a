#include "phasor/layers/embedding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "elementwise.h"
#include "phasor/core/parallel.h"
#include "row_tasks.h"

namespace phasor {
namespace {

constexpr const char* kLayer = "Embedding";

void copy_row(std::span<const float> from, std::span<float> to) { std::ranges::copy(from, to.begin()); }
void copy_row(std::span<const bf16> from, std::span<float> to) { convert(from, to); }
void copy_row(std::span<const f16> from, std::span<float> to) { convert(from, to); }

template <class T>
void copy_rows(const TensorView<const T, 2>& table, float scale, TensorView<const std::int32_t, 2> tokens,
               TensorView<float, 3> y, Into into) {
  const std::int64_t length = tokens.shape[1], width = table.shape[1];
  const auto count_of_row = static_cast<std::size_t>(width);
  const auto add = detail::row_adder();
  detail::for_each_rows(tokens.size(), width, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> apart(into == Into::add ? count_of_row : 0);
    for (std::int64_t n = first; n < first + count; n++) {
      const std::int64_t b = n / length, t = n % length;
      const std::span<float> row(&y(b, t, 0), count_of_row);
      const std::span<float> read = into == Into::add ? std::span(apart) : row;
      copy_row(std::span(table[tokens(b, t)].data, count_of_row), read);
      if (scale != 1.0f) std::ranges::transform(read, read.begin(), [&](float value) { return scale * value; });
      if (into == Into::add) add(apart.data(), row.data(), width);
    }
  });
}

}  // namespace

Embedding::Embedding(std::int64_t vocabulary, std::int64_t channels, InitialValues& initial, double scale)
    : scale_(static_cast<float>(scale)) {
  PHASOR_CHECK(vocabulary > 0 && channels > 0, kLayer, "vocabulary, channels: ", vocabulary, ", ", channels,
               ", expected above 0");
  PHASOR_CHECK(std::isfinite(scale), kLayer, "scale: ", scale, ", expected a finite number");
  weight_ = initial.normal_weight("weight", {vocabulary, channels}, initial.init() == Init::normal ? 0.02f : 1.0f);
}

void Embedding::list_weights(std::string_view prefix, NamedWeights& weights) { list_weight(prefix, weight_, weights); }

void Embedding::check(TensorView<const std::int32_t, 2> tokens, const char* name, TensorView<const float, 3> y) const {
  const Shape<3> expected{tokens.shape[0], tokens.shape[1], channels()};
  PHASOR_CHECK(y.shape == expected, kLayer, name, ": ", shape_text(y.shape), ", expected ", shape_text(expected));
  PHASOR_CHECK(y.has_contiguous_rows(), kLayer, name, ": last stride ", y.strides[2], ", expected 1");
  for (std::int64_t b = 0; b < tokens.shape[0]; b++)
    for (std::int64_t t = 0; t < tokens.shape[1]; t++)
      PHASOR_CHECK(tokens(b, t) >= 0 && tokens(b, t) < vocabulary(), kLayer, "tokens: ", tokens(b, t), " at [", b, ", ",
                   t, "], expected 0 to ", vocabulary() - 1);
}

void Embedding::forward(TensorView<const std::int32_t, 2> tokens, TensorView<float, 3> y, Into into) const {
  check(tokens, "y", y);
  weight_.visit([&](const auto& table) { copy_rows(table, scale_, tokens, y, into); });
}

// A task has some channels of all tokens, so the order of each sum is fixed.
void Embedding::backward(TensorView<const std::int32_t, 2> tokens, TensorView<const float, 3> grad_y) {
  check(tokens, "grad_y", grad_y);
  constexpr std::int64_t kStripe = 128;
  const TensorView<float, 2> gradient = weight_.gradient_matrix();
  const std::int64_t width = channels();
  const auto add = detail::row_adder();
  parallel_for((width + kStripe - 1) / kStripe, [&](std::int64_t task) {
    const std::int64_t first = task * kStripe, count = std::min(kStripe, width - first);
    std::array<float, kStripe> scaled{};
    for (std::int64_t b = 0; b < tokens.shape[0]; b++)
      for (std::int64_t t = 0; t < tokens.shape[1]; t++) {
        const float* from = &grad_y(b, t, first);
        std::transform(from, from + count, scaled.begin(), [&](float value) { return scale_ * value; });
        add(scaled.data(), &gradient(tokens(b, t), first), count);
      }
  });
}

}  // namespace phasor
