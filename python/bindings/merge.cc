#include "phasor/attention/merge.h"

#include <type_traits>

#include "arrays.h"
#include "module.h"

namespace phasor::python {
namespace {

// out and lse of one of the results.
struct PartArrays {
  Array out, lse;

  template <class T>
  PartialAttention<T> view() const {
    using Number = std::conditional_t<std::is_const_v<T>, const float, float>;
    return {out.view<T, 4>(), lse.optional_view<Number, 3>()};
  }
};

void merge(nb::handle out, nb::handle lse, nb::handle out2, nb::handle lse2, nb::handle merged_out,
           nb::handle merged_lse) {
  static constexpr const char* kName = "merge_attention";
  const PartArrays a{{kName, "out", out}, {kName, "lse", lse}}, b{{kName, "out2", out2}, {kName, "lse2", lse2}},
      merged{{kName, "merged_out", merged_out, Access::write}, {kName, "merged_lse", merged_lse, Access::write}};
  a.out.visit([&]<class T>(T) {
    const auto a_view = a.view<const T>(), b_view = b.view<const T>();
    const auto merged_view = merged.view<T>();
    const nb::gil_scoped_release released;
    merge_attention<T>(a_view, b_view, merged_view);
  });
}

void merge_backward(nb::handle out, nb::handle lse, nb::handle out2, nb::handle lse2, nb::handle merged_out,
                    nb::handle merged_lse, nb::handle grad_out, nb::handle grad_lse, nb::handle result_out,
                    nb::handle result_lse, nb::handle result_out2, nb::handle result_lse2) {
  static constexpr const char* kName = "merge_attention_backward";
  const PartArrays a{{kName, "out", out}, {kName, "lse", lse}}, b{{kName, "out2", out2}, {kName, "lse2", lse2}},
      merged{{kName, "merged_out", merged_out}, {kName, "merged_lse", merged_lse}},
      grad{{kName, "grad_out", grad_out}, {kName, "grad_lse", grad_lse}},
      grad_a{{kName, "result_out", result_out, Access::write}, {kName, "result_lse", result_lse, Access::write}},
      grad_b{{kName, "result_out2", result_out2, Access::write}, {kName, "result_lse2", result_lse2, Access::write}};
  a.out.visit([&]<class T>(T) {
    const auto a_view = a.view<const T>(), b_view = b.view<const T>(), merged_view = merged.view<const T>(),
               grad_view = grad.view<const T>();
    const auto grad_a_view = grad_a.view<T>(), grad_b_view = grad_b.view<T>();
    const nb::gil_scoped_release released;
    merge_attention_backward<T>(a_view, b_view, merged_view, grad_view, grad_a_view, grad_b_view);
  });
}

}  // namespace

void bind_merge(nb::module_& module) {
  module.def("merge_attention", &merge, array_arg("out"), array_arg("lse"), array_arg("out2"), array_arg("lse2"),
             array_arg("merged_out"), array_arg("merged_lse"));
  module.def("merge_attention_backward", &merge_backward, array_arg("out"), array_arg("lse"), array_arg("out2"),
             array_arg("lse2"), array_arg("merged_out"), array_arg("merged_lse"), array_arg("grad_out"),
             array_arg("grad_lse"), array_arg("result_out"), array_arg("result_lse"), array_arg("result_out2"),
             array_arg("result_lse2"));
}

}  // namespace phasor::python
