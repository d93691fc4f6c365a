#include "phasor/attention/attention.h"

#include "arrays.h"
#include "module.h"
#include "options.h"

namespace phasor::python {
namespace {

void forward(nb::handle q_object, nb::handle k_object, nb::handle v_object, nb::handle out_object,
             nb::handle lse_object, nb::handle weights_object, const nb::kwargs& options) {
  static constexpr const char* kName = "attention_forward";
  const Array q(kName, "q", q_object), k(kName, "k", k_object), v(kName, "v", v_object);
  const Array out(kName, "out", out_object, Access::write), lse(kName, "lse", lse_object, Access::write),
      weights(kName, "weights", weights_object, Access::write);
  const OptionArguments arguments(kName, options);
  q.visit([&]<class T>(T) {
    const auto q_view = q.view<const T, 4>(), k_view = k.view<const T, 4>(), v_view = v.view<const T, 4>();
    const AttentionOutput<T> output{out.view<T, 4>(), lse.optional_view<float, 3>(), weights.optional_view<float, 4>()};
    const nb::gil_scoped_release released;
    attention_forward(q_view, k_view, v_view, output, arguments.value);
  });
}

void backward(nb::handle q_object, nb::handle k_object, nb::handle v_object, nb::handle out_object,
              nb::handle lse_object, nb::handle grad_out_object, nb::handle grad_lse_object, nb::handle grad_q_object,
              nb::handle grad_k_object, nb::handle grad_v_object, nb::handle grad_mask_object,
              nb::handle grad_key_bias_object, nb::handle grad_relative_bias_object, nb::handle grad_sinks_object,
              const nb::kwargs& options) {
  static constexpr const char* kName = "attention_backward";
  const auto written = [](const char* name, nb::handle object) { return Array(kName, name, object, Access::write); };
  const Array q(kName, "q", q_object), k(kName, "k", k_object), v(kName, "v", v_object), out(kName, "out", out_object),
      lse(kName, "lse", lse_object), grad_out(kName, "grad_out", grad_out_object),
      grad_lse(kName, "grad_lse", grad_lse_object);
  const Array grad_q = written("grad_q", grad_q_object), grad_k = written("grad_k", grad_k_object),
              grad_v = written("grad_v", grad_v_object), grad_mask = written("grad_mask", grad_mask_object),
              grad_key_bias = written("grad_key_bias", grad_key_bias_object),
              grad_relative_bias = written("grad_relative_bias", grad_relative_bias_object),
              grad_sinks = written("grad_sinks", grad_sinks_object);
  const OptionArguments arguments(kName, options);
  q.visit([&]<class T>(T) {
    const auto q_view = q.view<const T, 4>(), k_view = k.view<const T, 4>(), v_view = v.view<const T, 4>();
    const AttentionResult<T> result{out.view<const T, 4>(), lse.view<const float, 3>(), grad_out.view<const T, 4>(),
                                    grad_lse.optional_view<const float, 3>()};
    const AttentionGradients<T> gradients{grad_q.view<T, 4>(),
                                          grad_k.view<T, 4>(),
                                          grad_v.view<T, 4>(),
                                          grad_mask.optional_view<float, 4>(1),
                                          grad_key_bias.optional_view<float, 3>(1),
                                          grad_relative_bias.optional_view<float, 2>(),
                                          grad_sinks.optional_view<float, 1>()};
    const nb::gil_scoped_release released;
    attention_backward(q_view, k_view, v_view, result, gradients, arguments.value);
  });
}

}  // namespace

void bind_attention(nb::module_& module) {
  module.def("attention_forward", &forward, array_arg("q"), array_arg("k"), array_arg("v"), array_arg("out"),
             array_arg("lse"), array_arg("weights"), nb::arg("options"));
  module.def("attention_backward", &backward, array_arg("q"), array_arg("k"), array_arg("v"), array_arg("out"),
             array_arg("lse"), array_arg("grad_out"), array_arg("grad_lse"), array_arg("grad_q"), array_arg("grad_k"),
             array_arg("grad_v"), nb::kw_only(), array_arg("grad_mask") = nb::none(),
             array_arg("grad_key_bias") = nb::none(), array_arg("grad_relative_bias") = nb::none(),
             array_arg("grad_sinks") = nb::none(), nb::arg("options"));
}

}  // namespace phasor::python
