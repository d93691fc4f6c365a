// After a first step, layers allocate nothing: a program of its own, since it counts every operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "phasor/core/parallel.h"
#include "phasor/layers/block.h"
#include "phasor/layers/dropout.h"
#include "phasor/layers/embedding.h"
#include "phasor/layers/feed_forward.h"
#include "phasor/layers/linear.h"
#include "phasor/layers/loss.h"
#include "phasor/layers/norm.h"
#include "phasor/layers/positions.h"
#include "phasor/position/encoding.h"

namespace {

std::atomic<int> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
  allocations++;
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
// Not inlined: where g++ sees only one half of a pair it warns of a mismatch.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace phasor {
namespace {

// A model of everything but attention, one training step a call.
class Model {
 public:
  Model() { plan_.add = Tensor<float, 3>({1, 170, 48}); }

  void step() {
    const TensorView<float, 3> tokens{x_.data(), {2, 170, 48}};
    embedding_.forward(tokens_.view(), tokens);
    add_positions(plan_, tokens);
    rms_.forward(x_.view(), a_.view(), &rms_saved_);
    swiglu_.forward(a_.view(), b_.view(), &swiglu_saved_, workspace_);
    dropout({.rate = 0.1, .seed = 1}, b_.view(), b_.view());
    layer_norm_.forward(b_.view(), c_.view(), &layer_saved_);
    gelu_.forward(c_.view(), d_.view(), &gelu_saved_, workspace_);
    head_.forward(d_.view(), logits_.view());
    cross_entropy(logits_.view(), targets_, {.grad_logits = logits_.view()}, workspace_);
    head_.backward(d_.view(), logits_.view(), grad_.view());
    gelu_.backward(gelu_saved_, grad_.view(), grad_.view(), workspace_);
    layer_norm_.backward(layer_saved_, grad_.view(), grad_.view(), workspace_);
    dropout({.rate = 0.1, .seed = 1}, grad_.view(), grad_.view());
    swiglu_.backward(swiglu_saved_, grad_.view(), grad_.view(), workspace_);
    rms_.backward(rms_saved_, grad_.view(), grad_.view(), workspace_);
    const TensorView<const float, 3> grad{grad_.data(), {2, 170, 48}};
    add_positions_backward(plan_, grad, plan_gradient_);
    embedding_.backward(tokens_.view(), grad);
  }

 private:
  InitialValues initial_{1};
  Embedding embedding_{50, 48, initial_};
  RmsNorm rms_{48};
  FeedForward swiglu_{{48, 400}, initial_};
  LayerNorm layer_norm_{48};
  FeedForward gelu_{{48, 400, Activation::gelu, false, true}, initial_};
  Linear head_{48, 50, true, initial_};
  PositionPlan plan_;
  PlanGradient plan_gradient_;
  NormSaved rms_saved_, layer_saved_;
  FeedForward::Saved swiglu_saved_;
  FeedForward::Saved gelu_saved_;
  Workspace workspace_;
  Tensor<std::int32_t, 2> tokens_{{2, 170}};
  std::vector<std::int32_t> targets_ = std::vector<std::int32_t>(340, 3);
  Tensor<float, 2> x_{{340, 48}}, a_{{340, 48}}, b_{{340, 48}}, c_{{340, 48}}, d_{{340, 48}}, grad_{{340, 48}};
  Tensor<float, 2> logits_{{340, 50}};
};

// On one thread, since which thread runs a task, and so needs memory first, is chance.
TEST(Layers, ASecondStepAllocatesNothing) {
  set_num_threads(1);
  Model model;
  int before = allocations;
  model.step();
  EXPECT_GT(allocations, before);  // or nothing is counted
  model.step();                    // blocks of the workspace are made one
  before = allocations;
  model.step();
  EXPECT_EQ(allocations, before);
  set_num_threads(0);
}

// Two blocks that share a workspace; everything that a step may need is there.
template <class Layer>
class Stack {
 public:
  explicit Stack(const Encoding& encoding) {
    const EncodingConfig config = encoding.defaults(kShape);
    const Tensor<std::int64_t, 3> positions = consecutive_positions(kTokens);
    plan_ = lower(config, parameters(config, kShape), {.queries = positions.view(), .shape = kShape});
  }

  void step() {
    const AttentionOptions options{.causal = true, .mask = std::as_const(mask_).view(), .seed = 3};
    first_.forward(of(x_), plan_, options, of(middle_), &first_saved_, workspace_);
    second_.forward(of(middle_), plan_, options, of(y_), &second_saved_, workspace_);
    second_.backward(second_saved_, of(y_), of(grad_), &plan_gradient_, workspace_);
    first_.backward(first_saved_, of(grad_), of(y_), &plan_gradient_, workspace_);
  }

 private:
  static constexpr std::int64_t kTokens = 150, kChannels = 48;
  static constexpr ModelShape kShape{.heads = 4, .head_dim = 12, .model_dim = kChannels, .max_length = 200};
  using Pair = std::array<Tensor<float, 3>, 2>;

  static Streams of(Pair& pair) { return {pair[0].view(), Layer::kGaussian ? pair[1].view() : TensorView<float, 3>()}; }
  static Pair pair() { return {Tensor<float, 3>({2, kTokens, kChannels}), Tensor<float, 3>({2, kTokens, kChannels})}; }

  InitialValues initial_{1};
  BlockConfig config_{.hidden_size = kChannels,
                      .num_attention_heads = 4,
                      .num_key_value_heads = 2,
                      .intermediate_size = 96,
                      .qk_norm = !Layer::kGaussian,
                      .attention_dropout = 0.1};
  Layer first_{config_, initial_}, second_{config_, initial_};
  PositionPlan plan_;
  PlanGradient plan_gradient_;
  typename Layer::Saved first_saved_, second_saved_;
  Workspace workspace_;
  Tensor<float, 4> mask_{{2, 1, 1, kTokens}};
  Pair x_ = pair(), middle_ = pair(), y_ = pair(), grad_ = pair();
};

template <class Layer>
void expect_no_allocation() {
  set_num_threads(1);
  for (const Encoding& encoding : encodings()) {
    SCOPED_TRACE(encoding.name);
    Stack<Layer> stack(encoding);
    int before = allocations;
    stack.step();
    EXPECT_GT(allocations, before);
    before = allocations;
    stack.step();
    EXPECT_EQ(allocations, before);
  }
  set_num_threads(0);
}

TEST(Blocks, ASecondStepAllocatesNothing) { expect_no_allocation<Block>(); }
TEST(W2Blocks, ASecondStepAllocatesNothing) { expect_no_allocation<W2Block>(); }

}  // namespace
}  // namespace phasor
