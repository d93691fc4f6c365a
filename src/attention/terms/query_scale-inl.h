// A factor for each query, [B or 1, H or 1, T], by which its products with all keys are multiplied, before softcap and
// biases: a temperature by position, scalable softmax (arXiv 2501.19399). It is applied to q, so tiles do not see it.
#ifndef PHASOR_ATTENTION_TERMS_QUERY_SCALE_H_
#define PHASOR_ATTENTION_TERMS_QUERY_SCALE_H_

#include <cstdint>

#include "call.h"
#include "check_shapes.h"

namespace phasor::detail {

struct QueryScaleOption {
  static void check(const char* function, const AttentionCall& call) {
    const TensorView<const float, 3>& scale = call.options.query_scale;
    if (!scale.data) return;
    const Shape<3>& shape = scale.shape;
    PHASOR_CHECK((shape[0] == 1 || shape[0] == call.batch) && (shape[1] == 1 || shape[1] == call.heads) &&
                     shape[2] == call.queries,
                 function, "query_scale: shape ", shape_text(shape), ", expected [", call.batch, " or 1, ", call.heads,
                 " or 1, ", call.queries, "] = [B or 1, H or 1, T]");
  }

  static void list_inputs(const AttentionCall& call, List<Extent>& inputs) {
    inputs.push_back(extent("query_scale", call.options.query_scale));
  }

  static void check_gradient(const char* function, const AttentionCall& call, const BackwardOutput& output,
                             List<Extent>& outputs) {
    if (!output.query_scale.data) return;
    const TensorView<const float, 3>& scale = call.options.query_scale;
    PHASOR_CHECK(scale.data, function, "grad_query_scale: given without query_scale, expected both");
    check_shape(function, "grad_query_scale", output.query_scale.shape, scale.shape, "the shape of query_scale");
    check_distinct(function, "grad_query_scale", output.query_scale.shape, output.query_scale.strides);
    outputs.push_back(extent("grad_query_scale", output.query_scale));
  }

  // Of a head and a row of q; 1 if the option is not given.
  static float at(const AttentionCall& call, const Sequence& sequence, std::int64_t head, std::int64_t query) {
    const TensorView<const float, 3>& scale = call.options.query_scale;
    if (!scale.data) return 1.0f;
    return scale(scale.shape[0] == 1 ? 0 : sequence.batch, scale.shape[1] == 1 ? 0 : head, query);
  }
};

// The gradient of the heads of one key head, summed by one task of the backward pass.
struct QueryScaleSums {
  List<double> values;    // [rows][T of the tensor]
  std::int64_t rows = 1;  // one for each head of the group, or one for all

  void prepare(const AttentionCall& call, const BackwardOutput& output) {
    if (!output.query_scale.data) return;
    if (output.query_scale.shape[1] == call.heads) rows = call.group();
    values.resize(static_cast<std::size_t>(rows * call.queries));
  }

  double& at(const AttentionCall& call, std::int64_t head, std::int64_t query) {
    return values[static_cast<std::size_t>((head % rows) * call.queries + query)];
  }

  template <class Tasks>
  static void reduce(const AttentionCall& call, const Tasks& tasks, const BackwardOutput& output) {
    const TensorView<float, 3>& gradient = output.query_scale;
    if (!gradient.data || gradient.size() == 0) return;
    ScratchZeros<double, 3> sums(gradient.shape);
    for (const auto& task : tasks) {
      const std::int64_t b = gradient.shape[0] == 1 ? 0 : task.sequence->batch;
      const QueryScaleSums& own = std::get<QueryScaleSums>(task.sums);
      for (std::int64_t row = 0; row < own.rows; row++) {
        double* to = &sums(b, gradient.shape[1] == 1 ? 0 : task.key_head * call.group() + row, 0);
        const double* from = own.values.data() + row * call.queries;
        for (std::int64_t i = 0; i < call.queries; i++) to[i] += from[i];
      }
    }
    for (std::int64_t b = 0; b < gradient.shape[0]; b++)
      for (std::int64_t h = 0; h < gradient.shape[1]; h++)
        for (std::int64_t i = 0; i < gradient.shape[2]; i++) gradient(b, h, i) = static_cast<float>(sums(b, h, i));
  }
};

}  // namespace phasor::detail
#endif

#if defined(PHASOR_ATTENTION_TERMS_QUERY_SCALE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_ATTENTION_TERMS_QUERY_SCALE_INL_H_
#undef PHASOR_ATTENTION_TERMS_QUERY_SCALE_INL_H_
#else
#define PHASOR_ATTENTION_TERMS_QUERY_SCALE_INL_H_
#endif

#include <algorithm>

#include "tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

class QueryScale {
 public:
  QueryScale(const detail::AttentionCall& call, const detail::Sequence& sequence) : call_(call), sequence_(sequence) {}

  void Load(const detail::QueryBlock& block) { head_ = block.head; }
  explicit operator bool() const { return call_.options.query_scale.data != nullptr; }

  // Of a row of q of the loaded head, or of any head.
  float At(int64_t query) const { return At(head_, query); }
  float At(int64_t head, int64_t query) const { return detail::QueryScaleOption::at(call_, sequence_, head, query); }

  // panel [channels][kPanel] of the rows of q from `first` on.
  void ScalePanel(int64_t first, int64_t count, size_t channels, float* HWY_RESTRICT panel) const {
    const FloatTag d;
    HWY_ALIGN float factors[kPanel] = {};
    for (int64_t z = 0; z < std::min(count, static_cast<int64_t>(kPanel)); z++) factors[z] = At(first + z);
    for (size_t c = 0; c < channels; c++)
      for (size_t v = 0; v < kPanel; v += kLanes) {
        float* at = panel + c * kPanel + v;
        hn::StoreU(hn::Mul(hn::LoadU(d, factors + v), hn::LoadU(d, at)), d, at);
      }
  }

 private:
  const detail::AttentionCall& call_;
  const detail::Sequence& sequence_;
  int64_t head_ = 0;
};

// With g = sum_j dS_j k_j, the gradient of q before its factors, that of the factor is scale q . g.
class QueryScaleGradient {
 public:
  QueryScaleGradient(const detail::AttentionCall& call, detail::QueryScaleSums& sums) : call_(call), sums_(sums) {}
  explicit operator bool() const { return !sums_.values.empty(); }

  // q: a row as it was multiplied; gradient: scale g.
  void Add(int64_t head, int64_t query, const float* HWY_RESTRICT q, const float* HWY_RESTRICT gradient) {
    double sum = 0;
    for (int64_t c = 0; c < call_.channels; c++) sum += static_cast<double>(q[c]) * static_cast<double>(gradient[c]);
    sums_.at(call_, head, query) += sum;
  }

 private:
  const detail::AttentionCall& call_;
  detail::QueryScaleSums& sums_;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
