// Results for two sets of keys, merged: those for all keys.
#include "phasor/attention/merge.h"

#include <limits>

#include "attention/tensors.h"
#include "phasor/core/parallel.h"
#include "support/every_target.h"
#include "support/expect_error.h"

namespace phasor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Sizes kSizes{.batch = 2, .heads = 4, .groups = 2, .queries = 70, .keys = 150, .width = 16, .value_width = 24};

PartialAttention<const float> part(const Tensors& t) { return {t.out.view(), t.lse.view()}; }

// Attention of t's queries to its keys first .. first + count - 1 alone, where they are.
void attend(Tensors& t, std::int64_t first, std::int64_t count, bool causal, Tensors& result) {
  const std::int64_t offset[] = {t.k.shape()[2] - t.q.shape()[2] - first};
  attention_forward(t.q.view(), t.k.view().slice(2, first, count), t.v.view().slice(2, first, count),
                    {result.out.view(), result.lse.view()}, {.query_offsets = offset, .causal = causal});
}

TEST(Merge, SplitKeysEqualWholeKeys) {
  for (const bool causal : {false, true})
    for (const std::int64_t split : {0, 1, 77, 149, 150})
      on_every_target([&] {
        Tensors whole(kSizes), first(kSizes), second(kSizes);
        whole.forward({.causal = causal});
        attend(whole, 0, split, causal, first);
        attend(whole, split, 150 - split, causal, second);
        merge_attention<float>(part(first), part(second), {first.out.view(), first.lse.view()});
        expect_near(first.out, whole.out, 1e-6f);
        expect_near(first.lse, whole.lse, 1e-6f);
      });
}

TEST(Merge, QueriesWithoutKeys) {
  Tensors a(kSizes), b(kSizes);
  std::fill(a.lse.begin(), a.lse.end(), -kInfinity);
  std::fill(a.out.begin(), a.out.end(), NAN);  // has no share
  std::fill(b.lse.begin(), b.lse.end(), -kInfinity);
  std::fill(b.out.begin(), b.out.end(), 3.0f);
  b.lse(0, 0, 0) = 1.0f;
  merge_attention<float>(part(a), part(b), {a.out.view(), a.lse.view()});
  EXPECT_EQ(a.out(0, 0, 0, 0), 3.0f);
  EXPECT_EQ(a.lse(0, 0, 0), 1.0f);
  EXPECT_EQ(a.out(0, 0, 1, 0), 0.0f);
  EXPECT_EQ(a.lse(0, 0, 1), -kInfinity);
}

// loss = out . g + lse . h, by one number of a.
double loss(const Tensors& a, const Tensors& b, const Tensors& g) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.lse.size(); i++) {
    const double x = a.lse.data()[i], y = b.lse.data()[i], lse = std::log(std::exp(x) + std::exp(y));
    sum += lse * static_cast<double>(g.lse.data()[i]);
    const std::int64_t channels = a.out.shape()[3];
    for (std::int64_t e = i * channels; e < (i + 1) * channels; e++)
      sum += static_cast<double>(g.grad_out.data()[e]) *
             (std::exp(x - lse) * a.out.data()[e] + std::exp(y - lse) * b.out.data()[e]);
  }
  return sum;
}

TEST(Merge, BackwardIsTheDerivative) {
  const Sizes small{.queries = 3, .keys = 4, .value_width = 5};
  Tensors a(small), b(small), merged(small), g(small), grad_a(small), grad_b(small);
  Philox(8).fill_normal(a.out), Philox(9).fill_normal(b.out);
  Philox(10).fill_normal(a.lse), Philox(11).fill_normal(b.lse), Philox(12).fill_normal(g.lse);
  merge_attention<float>(part(a), part(b), {merged.out.view(), merged.lse.view()});
  merge_attention_backward<float>(part(a), part(b), part(merged), {g.grad_out.view(), g.lse.view()},
                                  {grad_a.out.view(), grad_a.lse.view()}, {grad_b.out.view(), grad_b.lse.view()});
  const auto expect_derivative = [&](float& number, float given) {
    const float before = number, step = 1e-2f;
    number = before + step;
    const double above = loss(a, b, g);
    const float up = number;
    number = before - step;
    const double below = loss(a, b, g);
    EXPECT_NEAR(given, (above - below) / (static_cast<double>(up) - number), 2e-4);  // the step's square
    number = before;
  };
  for (std::int64_t i = 0; i < a.lse.size(); i++) expect_derivative(a.lse.data()[i], grad_a.lse.data()[i]);
  for (std::int64_t i = 0; i < b.lse.size(); i++) expect_derivative(b.lse.data()[i], grad_b.lse.data()[i]);
  for (std::int64_t i = 0; i < a.out.size(); i++) expect_derivative(a.out.data()[i], grad_a.out.data()[i]);
}

TEST(Merge, SixteenBits) {
  const Sizes small{.queries = 3, .keys = 4, .value_width = 5};
  Tensors a(small), b(small), merged(small);
  Tensor<bf16, 4> narrow_a(a.out.shape()), narrow_b(a.out.shape()), narrow(a.out.shape());
  for (std::int64_t i = 0; i < narrow.size(); i++) {
    narrow_a.data()[i] = bf16(Philox(1).normal(static_cast<std::uint64_t>(i)));
    narrow_b.data()[i] = bf16(Philox(2).normal(static_cast<std::uint64_t>(i)));
    a.out.data()[i] = static_cast<float>(narrow_a.data()[i]), b.out.data()[i] = static_cast<float>(narrow_b.data()[i]);
  }
  Tensor<float, 3> lse(a.lse.shape());
  merge_attention<float>(part(a), part(b), {merged.out.view(), merged.lse.view()});
  merge_attention<bf16>({std::as_const(narrow_a).view(), std::as_const(a.lse).view()},
                        {std::as_const(narrow_b).view(), std::as_const(b.lse).view()}, {narrow.view(), lse.view()});
  for (std::int64_t i = 0; i < narrow.size(); i++) EXPECT_EQ(narrow.data()[i].bits, bf16(merged.out.data()[i]).bits);
}

TEST(Merge, Errors) {
  Tensors a(kSizes), b({.batch = 2, .heads = 4, .groups = 2, .queries = 71, .keys = 150, .value_width = 24});
  EXPECT_ERROR(merge_attention<float>(part(a), part(b), {a.out.view(), a.lse.view()}), "[merge_attention]",
               "out2: shape [2, 4, 71, 24]", "[2, 4, 70, 24]");
}

}  // namespace
}  // namespace phasor
