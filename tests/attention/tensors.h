// The tensors of one call of attention, for tests that look at a single behaviour.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "phasor/attention/attention.h"
#include "phasor/core/random.h"

namespace phasor {

struct Sizes {
  std::int64_t batch = 1, heads = 1, groups = 1, queries = 1, keys = 1, width = 8, value_width = 8;
};

struct Tensors {
  Tensor<float, 4> q, k, v, out, softmax, weights, grad_out, grad_q, grad_k, grad_v;
  Tensor<float, 3> lse;

  explicit Tensors(const Sizes& s)
      : q({s.batch, s.heads, s.queries, s.width}),
        k({s.batch, s.groups, s.keys, s.width}),
        v({s.batch, s.groups, s.keys, s.value_width}),
        out({s.batch, s.heads, s.queries, s.value_width}),
        softmax({s.batch, s.heads, s.queries, 2}),
        weights({s.batch, s.heads, s.queries, s.keys}),
        grad_out(out.shape()),
        grad_q(q.shape()),
        grad_k(k.shape()),
        grad_v(v.shape()),
        lse({s.batch, s.heads, s.queries}) {
    Philox(1).fill_normal(q);
    Philox(2).fill_normal(k);
    Philox(3).fill_normal(v);
    Philox(4).fill_normal(grad_out);
  }

  void forward(const AttentionOptions& options = {}) {
    for (Tensor<float, 4>* tensor : {&out, &softmax, &weights}) std::fill(tensor->begin(), tensor->end(), NAN);
    std::fill(lse.begin(), lse.end(), NAN);
    attention_forward(q.view(), k.view(), v.view(), {out.view(), lse.view(), softmax.view(), weights.view()}, options);
  }
  void backward(const AttentionOptions& options = {}) {
    for (Tensor<float, 4>* tensor : {&grad_q, &grad_k, &grad_v}) std::fill(tensor->begin(), tensor->end(), NAN);
    attention_backward(q.view(), k.view(), v.view(), result(),
                       {.q = grad_q.view(), .k = grad_k.view(), .v = grad_v.view()}, options);
  }
  void run(const AttentionOptions& options = {}) {
    forward(options);
    backward(options);
  }
  AttentionBackwardInput<float> result() const { return {out.view(), softmax.view(), grad_out.view(), {}}; }

  // Keys first .. last of every head and sequence, and their values.
  void set_keys(std::int64_t first, std::int64_t last, float value) {
    for (Tensor<float, 4>* tensor : {&k, &v})
      for (std::int64_t b = 0; b < k.shape()[0]; b++)
        for (std::int64_t g = 0; g < k.shape()[1]; g++)
          for (std::int64_t j = first; j <= last; j++) std::fill_n(&(*tensor)(b, g, j, 0), tensor->shape()[3], value);
  }
};

template <int Rank>
bool same_bits(const Tensor<float, Rank>& a, const Tensor<float, Rank>& b) {
  return a.shape() == b.shape() && (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

template <int Rank>
void expect_near(const Tensor<float, Rank>& a, const Tensor<float, Rank>& b, float allowed) {
  ASSERT_EQ(a.shape(), b.shape());
  for (std::int64_t i = 0; i < a.size(); i++) ASSERT_NEAR(a.data()[i], b.data()[i], allowed) << "element " << i;
}

template <int Rank>
void expect_all(const Tensor<float, Rank>& tensor, float value) {
  for (std::int64_t i = 0; i < tensor.size(); i++) ASSERT_EQ(tensor.data()[i], value) << "element " << i;
}

}  // namespace phasor
