#include "phasor/position/forms.h"

#include "phasor/core/check.h"
#include "phasor/position/rotary.h"

namespace phasor {
namespace {

// Channels of pair i of `pairs`.
struct Channels {
  std::int64_t first, second;
};
Channels channels_of(Pairing pairing, std::int64_t i, std::int64_t pairs) {
  return pairing == Pairing::half ? Channels{i, i + pairs} : Channels{2 * i, 2 * i + 1};
}

Tensor<float, 3> widen(const Tensor<float, 3>& narrow, Pairing pairing) {
  const auto [batch, tokens, pairs] = narrow.shape();
  Tensor<float, 3> wide({batch, tokens, 2 * pairs});
  for (std::int64_t row = 0; row < batch * tokens; row++)
    for (std::int64_t i = 0; i < pairs; i++) {
      const Channels channels = channels_of(pairing, i, pairs);
      const float value = narrow.data()[row * pairs + i];
      wide.data()[row * 2 * pairs + channels.first] = value;
      wide.data()[row * 2 * pairs + channels.second] = value;
    }
  return wide;
}

template <Pairing P>
WideTable widen(const RotaryTable<P>& table) {
  return {widen(table.cos, P), widen(table.sin, P)};
}

}  // namespace

AdjacentTable generate_rope_embeddings(std::int64_t seq_len, std::int64_t head_dim, double base) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(seq_len);
  return adjacent_table({.head_dim = head_dim, .theta = base, .pairing = Pairing::adjacent}, positions.view());
}

Tensor<std::complex<float>, 2> precompute_freqs_cis(std::int64_t dim, std::int64_t end, double theta) {
  const AdjacentTable table = generate_rope_embeddings(end, dim, theta);
  Tensor<std::complex<float>, 2> result({end, dim / 2});
  for (std::int64_t i = 0; i < result.size(); i++) result.data()[i] = {table.cos.data()[i], table.sin.data()[i]};
  return result;
}

WideTable wide_table(const RopeConfig& config, TensorView<const std::int64_t, 2> position_ids) {
  const auto [batch, tokens] = position_ids.shape;
  const TensorView<const std::int64_t, 3> positions(position_ids.data, {1, batch, tokens},
                                                    {0, position_ids.strides[0], position_ids.strides[1]});
  return std::visit([](const auto& table) { return full_width(table); }, rotary_table(config, positions));
}

WideTable full_width(const HalfTable& table) { return widen(table); }
WideTable full_width(const AdjacentTable& table) { return widen(table); }

Tensor<float, 4> rotate_half(TensorView<const float, 4> x) {
  const auto [batch, heads, tokens, channels] = x.shape;
  PHASOR_CHECK(channels % 2 == 0, "rotate_half", "x: last dimension ", channels, ", expected an even number");
  Tensor<float, 4> result(x.shape);
  const std::int64_t half = channels / 2;
  for (std::int64_t b = 0; b < batch; b++)
    for (std::int64_t h = 0; h < heads; h++)
      for (std::int64_t t = 0; t < tokens; t++)
        for (std::int64_t i = 0; i < half; i++) {
          result(b, h, t, i) = -x(b, h, t, i + half);
          result(b, h, t, i + half) = x(b, h, t, i);
        }
  return result;
}

Tensor<float, 4> apply_rotary_pos_emb(TensorView<const float, 4> x, const HalfTable& table) {
  Tensor<float, 4> result(x.shape);
  apply_rotary(x, table, result.view());
  return result;
}

Tensor<float, 2> rotation_matrix(const RotaryView& table, std::int64_t b, std::int64_t t, std::int64_t head_dim) {
  PHASOR_CHECK(b >= 0 && b < table.cos.shape[0] && t >= 0 && t < table.tokens(), "rotation_matrix", "row: (", b, ", ",
               t, "), expected within a table of shape ", shape_text(table.cos.shape));
  PHASOR_CHECK(head_dim >= 2 * table.pairs(), "rotation_matrix", "head_dim: ", head_dim, ", expected at least ",
               2 * table.pairs(), ", which the table rotates");
  Tensor<float, 2> matrix({head_dim, head_dim});
  for (std::int64_t c = 2 * table.pairs(); c < head_dim; c++) matrix(c, c) = 1.0f;
  for (std::int64_t i = 0; i < table.pairs(); i++) {
    const auto [first, second] = channels_of(table.pairing, i, table.pairs());
    const float cos = table.cos(b, 0, t, i), sin = table.sin(b, 0, t, i);
    matrix(first, first) = cos;
    matrix(first, second) = -sin;
    matrix(second, first) = sin;
    matrix(second, second) = cos;
  }
  return matrix;
}

}  // namespace phasor
