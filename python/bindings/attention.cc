#include "phasor/attention/attention.h"

#include <nanobind/stl/pair.h>

#include <utility>

#include "arrays.h"
#include "module.h"
#include "options.h"

namespace phasor::python {
namespace {

void forward(nb::handle q_object, nb::handle k_object, nb::handle v_object, nb::handle out_object,
             nb::handle lse_object, nb::handle softmax_object, nb::handle weights_object, const nb::kwargs& options) {
  static constexpr const char* kName = "attention_forward";
  const auto written = [](const char* name, nb::handle object) { return Array(kName, name, object, Access::write); };
  const Array q(kName, "q", q_object), k(kName, "k", k_object), v(kName, "v", v_object);
  const Array out = written("out", out_object), lse = written("lse", lse_object),
              softmax = written("softmax", softmax_object), weights = written("weights", weights_object);
  const OptionArguments arguments(kName, options, q);
  q.visit([&]<class T>(T) {
    const auto q_view = q.view<const T, 4>(), k_view = k.view<const T, 4>(), v_view = v.view<const T, 4>();
    const AttentionOutput<T> output{out.view<T, 4>(), lse.optional_view<float, 3>(), softmax.optional_view<float, 4>(),
                                    weights.optional_view<float, 4>()};
    const nb::gil_scoped_release released;
    attention_forward(q_view, k_view, v_view, output, arguments.value);
  });
}

void backward(nb::handle q_object, nb::handle k_object, nb::handle v_object, nb::handle out_object,
              nb::handle softmax_object, nb::handle grad_out_object, nb::handle grad_lse_object,
              nb::handle grad_q_object, nb::handle grad_k_object, nb::handle grad_v_object,
              const nb::dict& option_gradients, const nb::kwargs& options) {
  static constexpr const char* kName = "attention_backward";
  const Array q(kName, "q", q_object), k(kName, "k", k_object), v(kName, "v", v_object), out(kName, "out", out_object),
      softmax(kName, "softmax", softmax_object), grad_out(kName, "grad_out", grad_out_object),
      grad_lse(kName, "grad_lse", grad_lse_object), grad_q(kName, "grad_q", grad_q_object, Access::write),
      grad_k(kName, "grad_k", grad_k_object, Access::write), grad_v(kName, "grad_v", grad_v_object, Access::write);
  const GradientArguments others(kName, option_gradients);
  const OptionArguments arguments(kName, options, q);
  q.visit([&]<class T>(T) {
    const auto q_view = q.view<const T, 4>(), k_view = k.view<const T, 4>(), v_view = v.view<const T, 4>();
    const AttentionBackwardInput<T> input{out.view<const T, 4>(), softmax.view<const float, 4>(),
                                          grad_out.view<const T, 4>(), grad_lse.optional_view<const float, 3>()};
    AttentionGradients<T> gradients{grad_q.view<T, 4>(), grad_k.view<T, 4>(), grad_v.view<T, 4>()};
    others.set(gradients);
    const nb::gil_scoped_release released;
    attention_backward(q_view, k_view, v_view, input, gradients, arguments.value);
  });
}

void check(nb::handle q_object, nb::handle k_object, nb::handle v_object, const nb::kwargs& options) {
  static constexpr const char* kName = "check_attention";
  const Array q(kName, "q", q_object), k(kName, "k", k_object), v(kName, "v", v_object);
  const OptionArguments arguments(kName, options, q);
  check_attention(q.view<const float, 4>(), k.view<const float, 4>(), v.view<const float, 4>(), arguments.value);
}

// The map of blocks and the bits of partial ones.
std::pair<nb::object, nb::object> block_mask(nb::handle visible, std::int64_t query_block, std::int64_t key_block) {
  const Array mask("make_block_mask", "visible", visible);
  BlockMask made = make_block_mask(mask.view<const bool, 4>(2), query_block, key_block);
  return {to_numpy(made.blocks), to_numpy(made.bits)};
}

}  // namespace

void bind_attention(nb::module_& module) {
  module.def("attention_forward", &forward, array_arg("q"), array_arg("k"), array_arg("v"), array_arg("out"),
             array_arg("lse"), array_arg("softmax"), array_arg("weights"), nb::arg("options"));
  module.def("attention_backward", &backward, array_arg("q"), array_arg("k"), array_arg("v"), array_arg("out"),
             array_arg("softmax"), array_arg("grad_out"), array_arg("grad_lse"), array_arg("grad_q"),
             array_arg("grad_k"), array_arg("grad_v"), nb::arg("option_gradients"), nb::arg("options"));
  module.def("check_attention", &check, array_arg("q"), array_arg("k"), array_arg("v"), nb::arg("options"));
  module.def("attention_options", &option_rows);
  module.def("make_block_mask", &block_mask, array_arg("visible"), nb::arg("query_block") = 128,
             nb::arg("key_block") = 128);
}

}  // namespace phasor::python
