// RoPE in the forms of papers, courses and other code bases. All use the one implementation in rope.h; kernels use its
// compact tables.
#pragma once

#include <complex>
#include <cstdint>

#include "phasor/position/plan.h"
#include "phasor/position/rope.h"

namespace phasor {

// cos, sin of shape (seq_len, head_dim/2) for adjacent pairs.
AdjacentTable generate_rope_embeddings(std::int64_t seq_len, std::int64_t head_dim, double base = 10000.0);

// LLaMA's complex form for adjacent pairs: entry (t, i) is exp(j t theta^(-2i/dim)), [end, dim/2].
Tensor<std::complex<float>, 2> precompute_freqs_cis(std::int64_t dim, std::int64_t end, double theta = 10000.0);

// Full-width tables, [B, T, R]: each channel has the angle of its pair.
struct WideTable {
  Tensor<float, 3> cos, sin;
};

// What Hugging Face's rotary embeddings (Qwen3RotaryEmbedding and its like) return for position_ids [B, T], and
// MiniMind's precompute_freqs_cis for 0 .. T - 1.
WideTable wide_table(const RopeConfig& config, TensorView<const std::int64_t, 2> position_ids);

// The same from a table.
WideTable full_width(const HalfTable& table);      // cat(angles, angles)
WideTable full_width(const AdjacentTable& table);  // repeat_interleave(angles, 2)

// (x1, x2) -> (-x2, x1) by halves of the last dimension.
Tensor<float, 4> rotate_half(TensorView<const float, 4> x);

// x cos + rotate_half(x) sin for x [B, H, T, D]. It takes a half-split table only: an adjacent one does not compile.
Tensor<float, 4> apply_rotary_pos_emb(TensorView<const float, 4> x, const HalfTable& table);

// The block-diagonal matrix [D, D] by which row (b, t) of a table rotates a head of D channels.
Tensor<float, 2> rotation_matrix(const RotaryView& table, std::int64_t b, std::int64_t t, std::int64_t head_dim);

}  // namespace phasor
