// Attention in plain loops: the specification that kernels are tested against. With Real = double it says what is
// right; with Real = float it is the plain float implementation whose error a kernel's error is measured by.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "phasor/attention/attention.h"
#include "phasor/core/random.h"

namespace phasor::reference {

// Of float and double; another Real brings its own.
using std::exp, std::log, std::tanh;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Numbers in row-major order. A dimension of size 1 is read at every index: this is how masks broadcast.
template <class Number, int Rank>
struct Array {
  Shape<Rank> shape{};
  std::vector<Number> values;

  Array() = default;
  explicit Array(const Shape<Rank>& sizes) : shape(sizes), values(static_cast<std::size_t>(element_count(sizes))) {}

  template <class... Index>
  requires(sizeof...(Index) == Rank) std::size_t offset(Index... index)
  const {
    const Shape<Rank> at{static_cast<std::int64_t>(index)...};
    std::int64_t result = 0;
    for (std::size_t i = 0; i < Rank; i++) result = result * shape[i] + (shape[i] == 1 ? 0 : at[i]);
    return static_cast<std::size_t>(result);
  }
  template <class... Index>
  Number& operator()(Index... index) {
    return values[offset(index...)];
  }
  template <class... Index>
  const Number& operator()(Index... index) const {
    return values[offset(index...)];
  }
  // The last dimension, at an index of the others.
  template <class... Index>
  Number* row(Index... index) {
    return values.data() + offset(index..., 0);
  }
  template <class... Index>
  const Number* row(Index... index) const {
    return values.data() + offset(index..., 0);
  }
};

template <class Number, class T, int Rank>
Array<Number, Rank> read(const TensorView<T, Rank>& view) {
  Array<Number, Rank> result(view.shape);
  Shape<Rank> at{};
  for (Number& value : result.values) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < Rank; i++) offset += at[i] * view.strides[i];
    value = static_cast<Number>(static_cast<float>(view.data[offset]));
    for (std::size_t i = Rank; i-- > 0 && ++at[i] == view.shape[i];) at[i] = 0;
  }
  return result;
}

template <class Number, class T, int Rank>
std::optional<Array<Number, Rank>> read_if_present(const TensorView<T, Rank>& view) {
  if (view.data == nullptr) return std::nullopt;
  return read<Number>(view);
}

template <class Number>
std::optional<Array<Number, 1>> read_list(std::span<const float> list) {
  if (list.empty()) return std::nullopt;
  return read<Number>(TensorView<const float, 1>(list.data(), {static_cast<std::int64_t>(list.size())}));
}

// Queries and keys that belong together: all of batch entry b, or one sequence of a ragged batch.
struct Sequence {
  std::int64_t first_query, queries, first_key, keys;
  std::int64_t offset;   // the position of its first query
  std::int64_t visible;  // how many of its keys there are to see
};

template <class Real>
struct Rotary {
  Array<Real, 4> cos, sin;
  Pairing pairing = Pairing::half;
};

// What a kernel rounds to bf16 when it multiplies in bf16. The exact reference rounds nothing.
enum class Narrow { nothing, operands };
template <class Real>
Real rounded(Narrow narrow, Real x) {
  if constexpr (std::is_same_v<Real, float>)
    return narrow == Narrow::operands ? static_cast<float>(bf16(x)) : x;
  else
    return x;
}

// One call of attention, with every number in Real.
template <class Real>
struct Problem {
  Array<Real, 4> q, k, v;
  Real scale = 1, softcap = 0;
  bool causal = false;
  Window window;
  bool ragged = false;
  std::vector<Sequence> sequences;
  std::optional<Array<std::uint8_t, 4>> visible;
  std::optional<BlockMask> block_mask;
  std::optional<Array<Real, 4>> mask;
  std::optional<Array<Real, 3>> key_bias, query_scale;
  std::optional<Array<Real, 2>> relative_bias;
  std::int64_t first_distance = 0;
  std::optional<Rotary<Real>> q_rotary, k_rotary;
  std::optional<Array<Real, 1>> alibi_slopes, sinks;
  double dropout = 0;
  std::uint64_t seed = 0;
  Narrow narrow = Narrow::nothing;

  std::int64_t batch() const { return q.shape[0]; }
  std::int64_t heads() const { return q.shape[1]; }
  std::int64_t queries() const { return q.shape[2]; }
  std::int64_t keys() const { return k.shape[2]; }
  std::int64_t width() const { return q.shape[3]; }
  std::int64_t value_width() const { return v.shape[3]; }
  std::int64_t group(std::int64_t head) const { return head / (heads() / k.shape[1]); }
};

inline std::vector<Sequence> sequences(const Shape<4>& q, const Shape<4>& k, const AttentionOptions& options) {
  std::vector<Sequence> result;
  if (options.query_starts.empty()) {
    for (std::int64_t b = 0; b < q[0]; b++) result.push_back({0, q[2], 0, k[2], 0, 0});
  } else {
    const auto &query = options.query_starts, &key = options.key_starts;
    for (std::size_t s = 0; s + 1 < query.size(); s++)
      result.push_back({query[s], query[s + 1] - query[s], key[s], key[s + 1] - key[s], 0, 0});
  }
  for (std::size_t s = 0; s < result.size(); s++) {
    const auto& offsets = options.query_offsets;
    result[s].offset = offsets.empty()       ? result[s].keys - result[s].queries
                       : offsets.size() == 1 ? offsets[0]
                                             : offsets[s];
    result[s].visible = options.key_lengths.empty() ? result[s].keys : options.key_lengths[s];
  }
  return result;
}

template <class Real>
std::optional<Rotary<Real>> read_rotary(const std::optional<RotaryView>& table) {
  if (!table) return std::nullopt;
  return Rotary<Real>{read<Real>(table->cos), read<Real>(table->sin), table->pairing};
}

template <class Real, class T>
Problem<Real> problem(TensorView<const T, 4> q, TensorView<const T, 4> k, TensorView<const T, 4> v,
                      const AttentionOptions& options) {
  Problem<Real> p;
  p.q = read<Real>(q);
  p.k = read<Real>(k);
  p.v = read<Real>(v);
  p.scale = static_cast<Real>(options.scale.value_or(1 / std::sqrt(static_cast<double>(q.shape[3]))));
  p.softcap = static_cast<Real>(options.softcap);
  p.causal = options.causal;
  p.window = options.window;
  p.ragged = !options.query_starts.empty();
  p.sequences = sequences(q.shape, k.shape, options);
  p.visible = read_if_present<std::uint8_t>(options.mask.visible);
  p.block_mask = options.block_mask;
  p.mask = read_if_present<Real>(options.mask.added);
  p.key_bias = read_if_present<Real>(options.key_bias);
  p.query_scale = read_if_present<Real>(options.query_scale);
  if (options.relative_bias) {
    p.relative_bias = read<Real>(options.relative_bias->table);
    p.first_distance = options.relative_bias->first_distance;
  }
  p.q_rotary = read_rotary<Real>(options.q_rotary);
  p.k_rotary = read_rotary<Real>(options.k_rotary);
  p.alibi_slopes = read_list<Real>(options.alibi_slopes);
  p.sinks = read_list<Real>(options.sinks);
  p.dropout = options.dropout;
  p.seed = options.seed;
  return p;
}

// Rotates the rows of x in place by their tokens' angles; the transpose is what gradients go back through.
template <class Real>
void rotate(Array<Real, 4>& x, const std::optional<Rotary<Real>>& table, bool transpose) {
  if (!table) return;
  const std::int64_t pairs = table->cos.shape[3];
  for (std::int64_t b = 0; b < x.shape[0]; b++)
    for (std::int64_t h = 0; h < x.shape[1]; h++)
      for (std::int64_t t = 0; t < x.shape[2]; t++)
        for (std::int64_t i = 0; i < pairs; i++) {
          const bool half = table->pairing == Pairing::half;
          Real& first = x(b, h, t, half ? i : 2 * i);
          Real& second = x(b, h, t, half ? i + pairs : 2 * i + 1);
          const Real c = table->cos(b, h, t, i), s = transpose ? -table->sin(b, h, t, i) : table->sin(b, h, t, i);
          const Real rotated = first * c - second * s;
          second = first * s + second * c;
          first = rotated;
        }
}

// q or k as they are multiplied.
template <class Real>
Array<Real, 4> operand(const Problem<Real>& p, const Array<Real, 4>& x, const std::optional<Rotary<Real>>& table) {
  Array<Real, 4> result = x;
  rotate(result, table, false);
  for (Real& value : result.values) value = rounded(p.narrow, value);
  return result;
}

// A key that a query sees.
template <class Real>
struct Seen {
  std::int64_t key;       // in the whole tensor
  std::int64_t distance;  // the key's position minus the query's
  Real score;
  Real slope;  // of the score by the dot product
  Real by_query_scale = 0;
};

// Which head of the key bias belongs to head h of q: it has those of q, those of k, or one for all.
template <class Real>
std::int64_t bias_head(const Problem<Real>& p, std::int64_t h) {
  return p.key_bias->shape[1] == p.heads() ? h : p.group(h);
}

// Where the bias table holds this distance.
template <class Real>
std::int64_t bias_column(const Problem<Real>& p, std::int64_t distance) {
  return std::clamp<std::int64_t>(distance - p.first_distance, 0, p.relative_bias->shape[1] - 1);
}

// What is added by distance: a table's number, or ALiBi's.
template <class Real>
Real distance_bias(const Problem<Real>& p, std::int64_t h, std::int64_t distance) {
  if (p.relative_bias) return (*p.relative_bias)(h, bias_column(p, distance));
  if (p.alibi_slopes) return -(*p.alibi_slopes)(h)*Real(static_cast<float>(std::abs(distance)));
  return 0;
}

// Whether a mask of blocks lets query i see a key.
inline bool sees(const BlockMask& mask, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t key) {
  const std::int64_t row = i / mask.query_block, column = key / mask.key_block;
  const std::int32_t block =
      mask.blocks(mask.blocks.shape[0] == 1 ? 0 : b, mask.blocks.shape[1] == 1 ? 0 : h, row, column);
  if (block < 0) return block == BlockMask::kFull;
  const std::int64_t bit = key % mask.key_block;
  return (mask.bits(block, i % mask.query_block, bit / 64) >> (bit % 64)) & 1;
}

// Hidden by `visible`, or by -infinity in the mask or in a bias.
template <class Real>
bool is_masked(const Problem<Real>& p, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t key,
               std::int64_t distance) {
  return (p.visible && !(*p.visible)(b, h, i, key)) || (p.block_mask && !sees(*p.block_mask, b, h, i, key)) ||
         (p.mask && (*p.mask)(b, h, i, key) == kMasked) ||
         (p.key_bias && (*p.key_bias)(b, bias_head(p, h), key) == kMasked) || distance_bias(p, h, distance) == kMasked;
}

// scale, softcap, biases, mask: in this order. q and k are rotated already.
template <class Real>
Seen<Real> score(const Problem<Real>& p, const Array<Real, 4>& q, const Array<Real, 4>& k, std::int64_t b,
                 std::int64_t h, std::int64_t i, std::int64_t key, std::int64_t distance) {
  const Real *q_row = q.row(b, h, i), *k_row = k.row(b, p.group(h), key);
  Real dot = 0;
  for (std::int64_t d = 0; d < p.width(); d++) dot += q_row[d] * k_row[d];
  const Real factor = p.query_scale ? (*p.query_scale)(b, h, i) : Real(1);
  Seen<Real> seen{key, distance, dot * p.scale * factor, p.scale * factor, dot * p.scale};
  if (p.softcap > 0) {
    const Real t = tanh(seen.score / p.softcap);
    seen.score = p.softcap * t;
    seen.slope *= 1 - t * t;
    seen.by_query_scale *= 1 - t * t;
  }
  if (p.key_bias) seen.score += (*p.key_bias)(b, bias_head(p, h), key);
  seen.score += distance_bias(p, h, distance);
  if (p.mask) seen.score += (*p.mask)(b, h, i, key);
  return seen;
}

// The keys that query i of batch entry b sees, with their scores.
template <class Real>
std::vector<Seen<Real>> seen_keys(const Problem<Real>& p, const Array<Real, 4>& q, const Array<Real, 4>& k,
                                  std::int64_t b, std::int64_t h, std::int64_t i) {
  std::vector<Seen<Real>> result;
  for (std::size_t s = 0; s < p.sequences.size(); s++) {
    const Sequence& sequence = p.sequences[s];
    const std::int64_t query = i - sequence.first_query;
    if (p.ragged ? query < 0 || query >= sequence.queries : static_cast<std::int64_t>(s) != b) continue;
    for (std::int64_t j = 0; j < sequence.visible; j++) {
      // An unbounded window is the largest integer: compared with a distance it cannot overflow.
      const std::int64_t distance = j - (sequence.offset + query), key = sequence.first_key + j;
      if (p.causal && distance > 0) continue;
      if (distance <= -p.window.left || distance >= p.window.right) continue;
      if (!is_masked(p, b, h, i, key, distance)) result.push_back(score(p, q, k, b, h, i, key, distance));
    }
  }
  return result;
}

// What weight (b, h, i, key) is multiplied by: 0 if dropped, else 1 / (1 - rate).
template <class Real>
Real dropout_factor(const Problem<Real>& p, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t key) {
  if (p.dropout == 0) return 1;
  const Philox random(p.seed, static_cast<std::uint64_t>(b * p.heads() + h));
  const std::uint64_t counter = (static_cast<std::uint64_t>(i) << 32) | static_cast<std::uint64_t>(key >> 2);
  const bool dropped = random.block(counter)[key & 3] < static_cast<std::uint32_t>(p.dropout * 0x1p32);
  return dropped ? 0 : static_cast<Real>(1 / (1 - p.dropout));
}

template <class Real>
struct Result {
  Array<Real, 4> out;
  Array<Real, 3> lse;
  Array<Real, 4> weights;
};

// The largest score of a row, the sink's included, and the sum of exp(score - largest). They are kept apart: log(sum)
// would be lost beside a largest score of -1e9.
template <class Real>
struct RowSoftmax {
  Real largest, sum = 0;

  RowSoftmax(const Problem<Real>& p, const std::vector<Seen<Real>>& seen, std::int64_t h)
      : largest(p.sinks ? (*p.sinks)(h) : Real(kMasked)) {
    for (const Seen<Real>& s : seen) largest = std::max(largest, s.score);
    if (is_empty()) return;
    if (p.sinks) sum += weighted((*p.sinks)(h));
    for (const Seen<Real>& s : seen) sum += weighted(s.score);
  }

  bool is_empty() const { return largest == Real(kMasked); }
  Real weighted(Real score) const { return exp(score - largest); }
  Real weight(Real score) const { return weighted(score) / sum; }
  Real lse() const { return is_empty() ? largest : largest + log(sum); }
};

// One query of one head.
template <class Real>
void forward_row(const Problem<Real>& p, const std::vector<Seen<Real>>& seen, std::int64_t b, std::int64_t h,
                 std::int64_t i, Result<Real>& result) {
  const RowSoftmax<Real> softmax(p, seen, h);
  result.lse(b, h, i) = softmax.lse();
  if (softmax.is_empty()) return;
  Real* out = result.out.row(b, h, i);
  for (const Seen<Real>& s : seen) {
    const Real factor = dropout_factor(p, b, h, i, s.key);
    result.weights(b, h, i, s.key) = softmax.weight(s.score) * factor;
    const Real weight = p.narrow == Narrow::nothing
                            ? result.weights(b, h, i, s.key)
                            : rounded(p.narrow, softmax.weighted(s.score) * factor) / softmax.sum;
    const Real* v = p.v.row(b, p.group(h), s.key);
    for (std::int64_t e = 0; e < p.value_width(); e++) out[e] += weight * v[e];
  }
}

template <class Real>
Result<Real> forward(const Problem<Real>& p) {
  const Array<Real, 4> q = operand(p, p.q, p.q_rotary), k = operand(p, p.k, p.k_rotary);
  Result<Real> result{Array<Real, 4>({p.batch(), p.heads(), p.queries(), p.value_width()}),
                      Array<Real, 3>({p.batch(), p.heads(), p.queries()}),
                      Array<Real, 4>({p.batch(), p.heads(), p.queries(), p.keys()})};
  for (std::int64_t b = 0; b < p.batch(); b++)
    for (std::int64_t h = 0; h < p.heads(); h++)
      for (std::int64_t i = 0; i < p.queries(); i++) forward_row(p, seen_keys(p, q, k, b, h, i), b, h, i, result);
  return result;
}

}  // namespace phasor::reference
