#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "cos_sin.h"
#include "phasor/core/parallel.h"
#include "phasor/position/rope.h"
#include "rope_internal.h"

namespace phasor {
namespace {

// The axis of each pair.
std::vector<std::int64_t> axis_of_pair(const RopeConfig& config, std::int64_t pairs) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(pairs), 0);
  const auto& sections = config.sections;
  for (std::int64_t i = 0; i < pairs; i++) {
    std::int64_t& axis = axes[static_cast<std::size_t>(i)];
    switch (config.axes) {
      case AxisLayout::single:
        break;
      case AxisLayout::chunked:
        for (std::int64_t end = sections[0]; i >= end; end += sections[static_cast<std::size_t>(axis)]) axis++;
        break;
      case AxisLayout::interleaved:
        if (i < 3 * sections[static_cast<std::size_t>(i % 3)]) axis = i % 3;
        break;
      case AxisLayout::axial:
      case AxisLayout::alternating:
        axis = i < pairs / 2 ? 0 : 1;
        break;
    }
  }
  return axes;
}

struct CosSinTable {
  Tensor<float, 3> cos, sin;
};

// One token's angles; float32 rounds as Hugging Face's arithmetic does.
void fill_angles(const RopeConfig& config, std::span<const double> inv_freq, std::span<const std::int64_t> axes,
                 const TensorView<const std::int64_t, 3>& positions, std::int64_t b, std::int64_t t,
                 std::span<double> angles) {
  std::array<double, 3> position{};
  for (std::int64_t axis = 0; axis < positions.shape[0]; axis++)
    position[static_cast<std::size_t>(axis)] = static_cast<double>(positions(axis, b, t));
  const auto position_of = [&](std::size_t i) { return position[static_cast<std::size_t>(axes[i])]; };
  if (config.angles == Angles::exact) {
    for (std::size_t i = 0; i < angles.size(); i++) angles[i] = position_of(i) * inv_freq[i];
  } else {
    for (std::size_t i = 0; i < angles.size(); i++)
      angles[i] = static_cast<float>(position_of(i)) * static_cast<float>(inv_freq[i]);
  }
}

CosSinTable compute_table(const RopeConfig& config, TensorView<const std::int64_t, 3> positions, std::int64_t length) {
  PHASOR_CHECK(length >= 0, "rotary_table", "length: ", length, ", expected 0 or more");
  PHASOR_CHECK(positions.shape[0] == axis_count(config), "rotary_table", "positions: shape ",
               shape_text(positions.shape), ", expected ", axis_count(config), " axes first");
  const RopeFrequencies frequencies = rope_frequencies(config, length);
  const auto pairs = static_cast<std::int64_t>(frequencies.inv_freq.size());
  const std::vector<std::int64_t> axes = axis_of_pair(config, pairs);
  const std::int64_t batch = positions.shape[1], tokens = positions.shape[2];
  CosSinTable table{Tensor<float, 3>({batch, tokens, pairs}), Tensor<float, 3>({batch, tokens, pairs})};

  const bool exact = config.angles == Angles::exact;
  constexpr std::int64_t kRows = 64;
  parallel_for((batch * tokens + kRows - 1) / kRows, [&](std::int64_t block) {
    std::vector<double> angles(static_cast<std::size_t>(pairs));
    const std::int64_t end = std::min(batch * tokens, (block + 1) * kRows);
    for (std::int64_t row = block * kRows; row < end; row++) {
      fill_angles(config, frequencies.inv_freq, axes, positions, row / tokens, row % tokens, angles);
      float* cos = table.cos.data() + row * pairs;
      float* sin = table.sin.data() + row * pairs;
      cos_sin(angles, exact ? frequencies.attention_factor : 1.0, cos, sin);
      if (exact) continue;
      for (std::int64_t i = 0; i < pairs; i++) {  // Hugging Face rounds before it multiplies
        cos[i] *= static_cast<float>(frequencies.attention_factor);
        sin[i] *= static_cast<float>(frequencies.attention_factor);
      }
    }
  });
  return table;
}

template <Pairing P>
RotaryTable<P> typed_table(const RopeConfig& config, TensorView<const std::int64_t, 3> positions,
                           const char* function) {
  PHASOR_CHECK(config.pairing == P, function, "config.pairing: ", pairing_name(config.pairing), ", expected ",
               pairing_name(P));
  CosSinTable table = compute_table(config, positions, context_length(positions));
  return {std::move(table.cos), std::move(table.sin)};
}

}  // namespace

std::int64_t context_length(TensorView<const std::int64_t, 3> positions) {
  std::int64_t longest = 0;
  for (std::int64_t a = 0; a < positions.shape[0]; a++)
    for (std::int64_t b = 0; b < positions.shape[1]; b++)
      for (std::int64_t t = 0; t < positions.shape[2]; t++) {
        check_positions("rotary_table", positions(a, b, t));
        longest = std::max(longest, positions(a, b, t) + 1);
      }
  return longest;
}

AnyRotaryTable rotary_table(const RopeConfig& config, const TensorInput<std::int64_t, 3>& positions,
                            std::optional<std::int64_t> length) {
  const std::int64_t longest = context_length(positions);
  CosSinTable table = compute_table(config, positions, length.value_or(longest));
  if (config.pairing == Pairing::half) return HalfTable{std::move(table.cos), std::move(table.sin)};
  return AdjacentTable{std::move(table.cos), std::move(table.sin)};
}

HalfTable half_table(const RopeConfig& config, const TensorInput<std::int64_t, 3>& positions) {
  return typed_table<Pairing::half>(config, positions, "half_table");
}

AdjacentTable adjacent_table(const RopeConfig& config, const TensorInput<std::int64_t, 3>& positions) {
  return typed_table<Pairing::adjacent>(config, positions, "adjacent_table");
}

}  // namespace phasor
