#include "phasor/attention/merge.h"

#include <cmath>
#include <limits>

#include "call.h"
#include "check_shapes.h"
#include "row_blocks.h"
#include "rows.h"

namespace phasor {
namespace {

using detail::AnyOutput, detail::AnyView;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Number>
void check_part(const char* function, const char* out_name, const char* lse_name, const AnyView& out,
                const TensorView<Number, 3>& lse, const Shape<4>& shape) {
  detail::check_shape(function, out_name, out.shape, shape, "[B, H, T, E]");
  detail::check_data(function, out_name, out.data, out.shape);
  detail::check_rows(function, out_name, out.shape, out.strides);
  detail::check_shape(function, lse_name, lse.shape, {shape[0], shape[1], shape[2]}, "[B, H, T]");
  detail::check_data(function, lse_name, lse.data, lse.shape);
}

AnyView as_input(const AnyOutput& x) {
  AnyView view;
  view.data = x.data, view.type = x.type, view.shape = x.shape, view.strides = x.strides;
  return view;
}

// The shares of both in a row, and its log-sum-exp.
struct Shares {
  double a = 0, b = 0, lse = -kInfinity;

  Shares(float lse_a, float lse_b) {
    if (std::isnan(lse_a) || std::isnan(lse_b)) {
      a = b = lse = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    const double largest = std::max(lse_a, lse_b);
    if (largest == -kInfinity) return;
    const double of_a = std::exp(lse_a - largest), of_b = std::exp(lse_b - largest);
    a = of_a / (of_a + of_b), b = of_b / (of_a + of_b);
    lse = largest + std::log(of_a + of_b);
  }
};

// A share of 0 hides what it is the share of.
float product(double share, float x) { return share == 0 ? 0.0f : static_cast<float>(share * static_cast<double>(x)); }

// Rows of a task, as floats.
class Rows {
 public:
  Rows(const AnyView& x, const detail::RowBlock& block, detail::Arena& arena)
      : channels_(x.shape[3]), first_(block.first), rows_(take(x, arena)) {
    detail::read_rows(x, block.b, block.h, block.first, block.count, {}, rows_, channels_);
  }
  float* operator[](std::int64_t i) const { return rows_ + (i - first_) * channels_; }

 private:
  static float* take(const AnyView& x, detail::Arena& arena) {
    return arena.take(static_cast<std::size_t>(detail::kRowsOfABlock * x.shape[3]));
  }
  std::int64_t channels_, first_;
  float* rows_;
};

}  // namespace

template <Element T>
void merge_attention(const PartialAttention<const T>& a, const PartialAttention<const T>& b,
                     const PartialAttention<T>& merged) {
  constexpr const char* kName = "merge_attention";
  check_part(kName, "out", "lse", a.out, a.lse, a.out.shape);
  check_part(kName, "out2", "lse2", b.out, b.lse, a.out.shape);
  check_part(kName, "merged out", "merged lse", as_input(AnyOutput(merged.out)), merged.lse, a.out.shape);
  detail::for_row_blocks(a.out.shape, [&](const detail::RowBlock& block) {
    const auto [n, h, first, count, index] = block;
    detail::Arena arena;
    const Rows of_a(a.out, block, arena), of_b(b.out, block, arena);
    for (std::int64_t i = first; i < first + count; i++) {
      const Shares shares(a.lse(n, h, i), b.lse(n, h, i));
      for (std::int64_t e = 0; e < a.out.shape[3]; e++)
        of_a[i][e] = product(shares.a, of_a[i][e]) + product(shares.b, of_b[i][e]);
      merged.lse(n, h, i) = static_cast<float>(shares.lse);
    }
    detail::write_rows(merged.out, n, h, first, count, of_a[first], a.out.shape[3]);
  });
}

// d out_a = share g,   d lse_a = share (g . (out_a - out) + g_lse).
template <Element T>
void merge_attention_backward(const PartialAttention<const T>& a, const PartialAttention<const T>& b,
                              const PartialAttention<const T>& merged, const PartialAttention<const T>& grad,
                              const PartialAttention<T>& grad_a, const PartialAttention<T>& grad_b) {
  constexpr const char* kName = "merge_attention_backward";
  check_part(kName, "out", "lse", a.out, a.lse, a.out.shape);
  check_part(kName, "out2", "lse2", b.out, b.lse, a.out.shape);
  check_part(kName, "merged out", "merged lse", merged.out, merged.lse, a.out.shape);
  check_part(kName, "grad_out", "grad_lse", grad.out, grad.lse.data ? grad.lse : merged.lse, a.out.shape);
  check_part(kName, "gradient of out", "gradient of lse", as_input(AnyOutput(grad_a.out)), grad_a.lse, a.out.shape);
  check_part(kName, "gradient of out2", "gradient of lse2", as_input(AnyOutput(grad_b.out)), grad_b.lse, a.out.shape);
  const std::int64_t channels = a.out.shape[3];
  detail::for_row_blocks(a.out.shape, [&](const detail::RowBlock& block) {
    const auto [n, h, first, count, index] = block;
    detail::Arena arena;
    const Rows of_a(a.out, block, arena), of_b(b.out, block, arena), whole(merged.out, block, arena),
        g(grad.out, block, arena);
    const auto part = [&, n = n, h = h](double share, const Rows& own, std::int64_t i, const TensorView<float, 3>& to) {
      double dot = grad.lse.data ? grad.lse(n, h, i) : 0.0f;
      for (std::int64_t e = 0; e < channels; e++) {
        dot += static_cast<double>(g[i][e]) * (static_cast<double>(own[i][e]) - whole[i][e]);
        own[i][e] = product(share, g[i][e]);
      }
      to(n, h, i) = share == 0 ? 0.0f : static_cast<float>(share * dot);
    };
    for (std::int64_t i = first; i < first + count; i++) {
      const Shares shares(a.lse(n, h, i), b.lse(n, h, i));
      part(shares.a, of_a, i, grad_a.lse);
      part(shares.b, of_b, i, grad_b.lse);
    }
    detail::write_rows(grad_a.out, n, h, first, count, of_a[first], channels);
    detail::write_rows(grad_b.out, n, h, first, count, of_b[first], channels);
  });
}

// For the element types that kernels convert.
#define PHASOR_INSTANTIATE(T)                                                                                \
  template void merge_attention(const PartialAttention<const T>&, const PartialAttention<const T>&,          \
                                const PartialAttention<T>&);                                                 \
  template void merge_attention_backward(const PartialAttention<const T>&, const PartialAttention<const T>&, \
                                         const PartialAttention<const T>&, const PartialAttention<const T>&, \
                                         const PartialAttention<T>&, const PartialAttention<T>&)
PHASOR_INSTANTIATE(float);
PHASOR_INSTANTIATE(bf16);
PHASOR_INSTANTIATE(f16);
#undef PHASOR_INSTANTIATE

}  // namespace phasor
