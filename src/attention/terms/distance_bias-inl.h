// A number for each head and distance from query to key, added to the score: a table [H, span] (T5, learned relative
// biases), or -slope[h] |distance| (ALiBi). -infinity hides the key.
#ifndef PHASOR_ATTENTION_TERMS_DISTANCE_BIAS_H_
#define PHASOR_ATTENTION_TERMS_DISTANCE_BIAS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base2.h"
#include "call.h"
#include "check_shapes.h"
#include "terms/gradient_sums.h"

namespace phasor::detail {

// bias(distance) of one head.
class BiasByDistance {
 public:
  BiasByDistance(const AttentionCall& call, std::int64_t head) {
    const AttentionOptions& o = call.options;
    if (o.relative_bias) {
      const auto& table = o.relative_bias->table;
      table_ = table.data + head * table.strides[0];
      first_ = o.relative_bias->first_distance, span_ = table.shape[1];
    } else {
      slope_ = o.alibi_slopes[static_cast<std::size_t>(head)];
    }
  }

  float operator()(std::int64_t distance) const {
    if (!table_) return bounded_bias(-slope_ * static_cast<float>(std::abs(distance)));
    return bounded_bias(table_[column(distance)]);
  }
  // The column of the table that a distance reads.
  std::int64_t column(std::int64_t distance) const { return std::clamp<std::int64_t>(distance - first_, 0, span_ - 1); }
  bool has_table() const { return table_ != nullptr; }

 private:
  const float* table_ = nullptr;
  std::int64_t first_ = 0, span_ = 0;
  float slope_ = 0.0f;
};

struct DistanceBiasOption {
  static bool is_given(const AttentionCall& call) {
    return call.options.relative_bias || !call.options.alibi_slopes.empty();
  }

  static void check(const char* function, const AttentionCall& call) {
    const AttentionOptions& o = call.options;
    if (!o.alibi_slopes.empty()) {
      PHASOR_CHECK(!o.relative_bias, function, "alibi_slopes: given beside relative_bias, expected one of them");
      PHASOR_CHECK(static_cast<std::int64_t>(o.alibi_slopes.size()) == call.heads, function,
                   "alibi_slopes: ", o.alibi_slopes.size(), " numbers, expected ", call.heads,
                   ", one for each head of q");
    }
    if (!o.relative_bias) return;
    const auto& table = o.relative_bias->table;
    PHASOR_CHECK(table.shape[0] == call.heads && table.shape[1] >= 1, function, "relative_bias: shape ",
                 shape_text(table.shape), ", expected ", call.heads, " heads and at least one distance");
    check_rows(function, "relative_bias", table.shape, table.strides);
    check_positions(function, o.relative_bias->first_distance);
  }

  static void list_inputs(const AttentionCall& call, List<Extent>& inputs) {
    const AttentionOptions& o = call.options;
    if (o.relative_bias) inputs.push_back(extent("relative_bias", o.relative_bias->table));
    inputs.push_back(extent("alibi_slopes", as_tensor(o.alibi_slopes)));
  }

  static void check_gradient(const char* function, const AttentionCall& call, const BackwardOutput& output,
                             List<Extent>& outputs) {
    const std::optional<RelativeBiasView>& table = call.options.relative_bias;
    check_option_gradient(function, "grad_relative_bias", output.relative_bias, table ? table->table.data : nullptr,
                          table ? table->table.shape : Shape<2>{}, outputs);
    const auto slopes = as_tensor(call.options.alibi_slopes);
    check_option_gradient(function, "grad_alibi_slopes", output.alibi_slopes, slopes.data, slopes.shape, outputs);
  }
  // Columns are those of the table, or one of slopes.
  static TensorView<float, 3> gradient(const BackwardOutput& output) {
    return output.relative_bias.data ? by_head(output.relative_bias) : by_head(output.alibi_slopes);
  }
};
using DistanceBiasSums = GradientSums<DistanceBiasOption>;

}  // namespace phasor::detail
#endif

#if defined(PHASOR_ATTENTION_TERMS_DISTANCE_BIAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_TERMS_DISTANCE_BIAS_INL_H_
#undef PHASOR_ATTENTION_TERMS_DISTANCE_BIAS_INL_H_
#else
#define PHASOR_ATTENTION_TERMS_DISTANCE_BIAS_INL_H_
#endif

#include "scratch/scratch.h"
#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The biases of a block of queries by "lag": bias(j - p) = biases[p - first_position + last_key - j], so that lanes,
// which are consecutive queries, read consecutive numbers.
class DistanceBias {
 public:
  // Memory for blocks of up to `queries` queries of the sequence.
  DistanceBias(const detail::AttentionCall& call, const detail::Sequence& sequence, int64_t queries,
               detail::Arena& arena)
      : call_(call) {
    if (detail::DistanceBiasOption::is_given(call))
      memory_ = arena.take(static_cast<size_t>(sequence.keys + queries) + kPanel);
  }

  // For a block of queries that see the keys seen_begin .. seen_end - 1.
  void Load(const detail::QueryBlock& block, int64_t seen_begin, int64_t seen_end) {
    biases_ = nullptr;
    first_position_ = block.position();
    last_key_ = seen_end - 1;
    if (!memory_ || seen_end <= seen_begin) return;
    const size_t count = static_cast<size_t>(seen_end - seen_begin + block.count) + kPanel;
    const detail::BiasByDistance bias(call_, block.head);
    for (size_t lag = 0; lag < count; lag++) memory_[lag] = bias(DistanceOf(static_cast<int64_t>(lag)));
    biases_ = memory_;
    hides_ = std::find(memory_, memory_ + count, -detail::kInfinity) != memory_ + count;
  }
  explicit operator bool() const { return biases_ != nullptr; }
  bool hides() const { return *this && hides_; }

  int64_t DistanceOf(int64_t lag) const { return last_key_ - first_position_ - lag; }
  int64_t LagOf(const QueryPanel& panel, int64_t key) const {
    return panel.position - first_position_ + last_key_ - key;
  }

  // Added to row i and vector v of a tile that begins with key `first` and vector `first_vector` of the panel, while
  // its products are still in registers. Without a bias it reads zeros.
  class Rows {
   public:
    Rows(const DistanceBias& term, const QueryPanel& panel, int64_t first, size_t first_vector) {
      if (!term) return;
      data_ = term.biases_ + term.LagOf(panel, first) + static_cast<int64_t>(first_vector * kLanes);
      step_ = 1;
    }
    HWY_INLINE FloatVec Bias(size_t i, size_t v) const { return hn::LoadU(FloatTag(), data_ + v * kLanes - i * step_); }
    HWY_INLINE FloatVec operator()(size_t i, size_t v, FloatVec score) const {
      return MulAddOnce(FloatTag(), Bias(i, v), detail::kLog2E, score);
    }

   private:
    alignas(64) static constexpr float kZeros[kPanel] = {};
    const float* data_ = kZeros;
    size_t step_ = 0;
  };

  // A bias of -infinity hides the key whatever its score was, NaN included. Lanes without a query have later positions
  // and may see keys that no query sees: these are hidden too.
  HWY_NOINLINE void Hide(const TilePlace& place, float* HWY_RESTRICT tile) const {
    const FloatTag d;
    const Rows rows(*this, place.panel, place.first_key, 0);
    const FloatVec hidden = hn::Set(d, -detail::kInfinity),
                   last = hn::Set(d, static_cast<float>(place.panel.count - 1));
    for (size_t v = 0; v < place.panel.vectors; v++) {
      const auto unused = hn::Gt(hn::Iota(d, static_cast<float>(v * kLanes)), last);
      for (size_t i = 0; i < place.rows; i++) {
        float* at = tile + i * kPanel + v * kLanes;
        const auto hides = hn::Or(unused, hn::Eq(rows.Bias(i, v), hidden));
        hn::StoreU(hn::IfThenElse(hides, hidden, hn::LoadU(d, at)), d, at);
      }
    }
  }

  void ApplyRow(const RowPlace& place, float* HWY_RESTRICT row) const {
    if (!memory_) return;
    const detail::BiasByDistance bias(call_, place.head);
    HWY_ALIGN float biases[kDecodeKeys] = {};
    const int64_t distance = place.first_key - place.position;
    for (size_t j = 0; j < place.keys; j++) biases[j] = bias(distance + static_cast<int64_t>(j));
    AddToRow(place.keys, biases, row);
  }

 private:
  const detail::AttentionCall& call_;
  float* memory_ = nullptr;
  const float* biases_ = nullptr;
  bool hides_ = false;  // some of them are -infinity
  int64_t first_position_ = 0, last_key_ = 0;
};

// The sum of the gradients of scores along diagonals.
class DistanceBiasGradient {
 public:
  DistanceBiasGradient(const detail::AttentionCall& call, const detail::Sequence& sequence, int64_t queries,
                       const DistanceBias& term, detail::DistanceBiasSums& sums, detail::Arena& arena)
      : call_(call), term_(term), sums_(sums) {
    if (sums.values.empty()) return;
    size_ = static_cast<size_t>(sequence.keys + queries) + 3 * kPanel;
    diagonals_ = arena.take(size_);
    float* skew = arena.take((kMostKeys + 1) * kSkewStride);
    std::fill_n(skew, (kMostKeys + 1) * kSkewStride, 0.0f);
    skew_ = skew + kSkewStride;  // zeros before the first row too
  }
  explicit operator bool() const { return diagonals_ != nullptr; }

  void BeginBlock() { std::fill_n(diagonals_, size_, 0.0f); }

  void Add(const TilePlace& place, const float* HWY_RESTRICT gradient) {
    const FloatTag d;
    for (size_t i = 0; i < place.rows; i++)
      for (size_t v = 0; v < kVectors; v++) {  // lanes without queries add nothing
        const bool used = v < place.panel.vectors;
        const FloatVec g = used ? hn::LoadU(d, gradient + i * kPanel + v * kLanes) : hn::Zero(d);
        hn::StoreU(g, d, skew_ + i * kSkewStride + v * kLanes);
      }
    AddDiagonals(place.rows, diagonals_ + term_.LagOf(place.panel, place.first_key));
  }

  // Of a block whose queries see this many keys.
  void EndBlock(const detail::QueryBlock& block, int64_t keys_seen) {
    const detail::BiasByDistance bias(call_, block.head);
    double* sums = sums_.row(block.head);
    for (int64_t lag = 0; lag < std::max<int64_t>(0, keys_seen) + block.count; lag++) {
      const int64_t distance = term_.DistanceOf(lag);
      if (bias.has_table())
        sums[bias.column(distance)] += static_cast<double>(diagonals_[lag]);
      else
        sums[0] -= static_cast<double>(std::abs(distance)) * static_cast<double>(diagonals_[lag]);
    }
  }

 private:
  // Rows of a tile side by side with a panel of zeros between them: diagonals can then be read as vectors.
  static constexpr size_t kSkewStride = 2 * kPanel;

  // sums[lane - row] += skew[row][lane]. Each vector of sums is computed in registers from the rows that cross it, so
  // no sum is stored and read again one float later.
  HWY_NOINLINE void AddDiagonals(size_t rows, float* HWY_RESTRICT sums) const {
    const FloatTag d;
    const auto n = static_cast<ptrdiff_t>(rows), lanes = static_cast<ptrdiff_t>(kLanes);
    const auto panel = static_cast<ptrdiff_t>(kPanel), step = static_cast<ptrdiff_t>(kSkewStride) + 1;
    for (ptrdiff_t u = 1 - n; u < panel; u += lanes) {
      const ptrdiff_t begin = std::max<ptrdiff_t>(0, 1 - lanes - u), end = std::min(n, panel - u);
      FloatVec s0 = hn::LoadU(d, sums + u), s1 = hn::Zero(d), s2 = s1, s3 = s1;
      const float* from = skew_ + u + begin * step;
      ptrdiff_t row = begin;
      for (; row + 4 <= end; row += 4, from += 4 * step) {
        s0 = hn::Add(s0, hn::LoadU(d, from));
        s1 = hn::Add(s1, hn::LoadU(d, from + step));
        s2 = hn::Add(s2, hn::LoadU(d, from + 2 * step));
        s3 = hn::Add(s3, hn::LoadU(d, from + 3 * step));
      }
      for (; row < end; row++, from += step) s0 = hn::Add(s0, hn::LoadU(d, from));
      hn::StoreU(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), d, sums + u);
    }
  }

  const detail::AttentionCall& call_;
  const DistanceBias& term_;
  detail::DistanceBiasSums& sums_;
  size_t size_ = 0;
  float* diagonals_ = nullptr;  // by lag
  float* skew_ = nullptr;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
