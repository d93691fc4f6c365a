// A factor for each query, [B or 1, H or 1, T], by which its products with all keys are multiplied, before softcap and
// biases: a temperature by position, scalable softmax (arXiv 2501.19399). It is applied to q, so tiles do not see it.
#ifndef PHASOR_ATTENTION_TERMS_QUERY_SCALE_H_
#define PHASOR_ATTENTION_TERMS_QUERY_SCALE_H_

#include <cstdint>

#include "call.h"
#include "check_shapes.h"
#include "terms/gradient_sums.h"

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
    const TensorView<const float, 3>& scale = call.options.query_scale;
    check_option_gradient(function, "grad_query_scale", output.query_scale, scale.data, scale.shape, outputs);
  }
  static TensorView<float, 3> gradient(const BackwardOutput& output) { return output.query_scale; }

  // Of a head and a row of q; 1 if the option is not given.
  static float at(const AttentionCall& call, const Sequence& sequence, std::int64_t head, std::int64_t query) {
    const TensorView<const float, 3>& scale = call.options.query_scale;
    if (!scale.data) return 1.0f;
    return scale(scale.shape[0] == 1 ? 0 : sequence.batch, scale.shape[1] == 1 ? 0 : head, query);
  }
};

using QueryScaleSums = GradientSums<QueryScaleOption>;

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
    sums_.row(head)[query] += sum;
  }

 private:
  const detail::AttentionCall& call_;
  detail::QueryScaleSums& sums_;
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
