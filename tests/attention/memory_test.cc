// Memory grows with the length, not with its square: a program of its own, since it looks at the process.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "phasor/attention/attention.h"
#include "phasor/core/random.h"
#include "support/sanitized.h"

namespace phasor {
namespace {

std::int64_t peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// The weights of these queries and keys would fill 34 GB. The eight tensors that the caller has are 512 MiB. A window
// keeps the test short; what is allocated does not depend on it.
TEST(Memory, ForwardAndBackwardOf32768TokensStayWithinAGibibyte) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep memory of their own";
  const Shape<4> shape{1, 8, 32768, 64};
  Tensor<float, 4> q(shape), k(shape), v(shape), out(shape), grad_out(shape), grad_q(shape), grad_k(shape),
      grad_v(shape);
  Tensor<float, 4> softmax({1, 8, 32768, 2});
  std::uint64_t seed = 0;
  for (Tensor<float, 4>* x : {&q, &k, &v, &grad_out}) Philox(seed++).fill_uniform({x->data(), 1 << 20}, -1.0f, 1.0f);
  const AttentionOptions options{.causal = true, .window = 256};
  attention_forward(q.view(), k.view(), v.view(), {.out = out.view(), .softmax = softmax.view()}, options);
  attention_backward(q.view(), k.view(), v.view(),
                     {.out = out.view(), .softmax = softmax.view(), .grad_out = grad_out.view()},
                     {.q = grad_q.view(), .k = grad_k.view(), .v = grad_v.view()}, options);
  EXPECT_GT(peak_mebibytes(), 512);  // or it was not measured
  EXPECT_LE(peak_mebibytes(), 1024);
}

}  // namespace
}  // namespace phasor
