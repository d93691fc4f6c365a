#include "phasor/attention/w2.h"

#include "arrays.h"
#include "module.h"
#include "options.h"

namespace phasor::python {
namespace {

// Two arrays that are the streams of q, k, v, out or a gradient.
struct StreamArrays {
  Array mu, log_sigma;

  template <class T>
  W2Streams<T> view() const {
    return {mu.view<T, 4>(), log_sigma.view<T, 4>()};
  }
};

void forward(nb::handle q_mu, nb::handle k_mu, nb::handle v_mu, nb::handle q_log_sigma, nb::handle k_log_sigma,
             nb::handle v_log_sigma, nb::handle out_mu, nb::handle out_log_sigma, nb::handle lse_object,
             nb::handle softmax_object, nb::handle weights_object, double tau, double eps, const nb::kwargs& options) {
  static constexpr const char* kName = "w2_attention_forward";
  const auto written = [](const char* name, nb::handle object) { return Array(kName, name, object, Access::write); };
  const StreamArrays q{{kName, "q_mu", q_mu}, {kName, "q_log_sigma", q_log_sigma}},
      k{{kName, "k_mu", k_mu}, {kName, "k_log_sigma", k_log_sigma}},
      v{{kName, "v_mu", v_mu}, {kName, "v_log_sigma", v_log_sigma}},
      out{written("out_mu", out_mu), written("out_log_sigma", out_log_sigma)};
  const Array lse = written("lse", lse_object), softmax = written("softmax", softmax_object),
              weights = written("weights", weights_object);
  const OptionArguments arguments(kName, options, q.mu);
  q.mu.visit([&]<class T>(T) {
    const auto q_view = q.view<const T>(), k_view = k.view<const T>(), v_view = v.view<const T>();
    const W2Output<T> output{out.view<T>(), lse.optional_view<float, 3>(), softmax.optional_view<float, 4>(),
                             weights.optional_view<float, 4>()};
    const nb::gil_scoped_release released;
    w2_attention_forward(q_view, k_view, v_view, {tau, eps}, output, arguments.value);
  });
}

double backward(nb::handle q_mu, nb::handle k_mu, nb::handle v_mu, nb::handle q_log_sigma, nb::handle k_log_sigma,
                nb::handle v_log_sigma, nb::handle out_mu, nb::handle out_log_sigma, nb::handle softmax_object,
                nb::handle grad_out_mu, nb::handle grad_out_log_sigma, nb::handle grad_lse_object, nb::handle grad_q_mu,
                nb::handle grad_k_mu, nb::handle grad_v_mu, nb::handle grad_q_log_sigma, nb::handle grad_k_log_sigma,
                nb::handle grad_v_log_sigma, const nb::dict& option_gradients, double tau, double eps,
                const nb::kwargs& options) {
  static constexpr const char* kName = "w2_attention_backward";
  const auto written = [](const char* name, nb::handle object) { return Array(kName, name, object, Access::write); };
  const StreamArrays q{{kName, "q_mu", q_mu}, {kName, "q_log_sigma", q_log_sigma}},
      k{{kName, "k_mu", k_mu}, {kName, "k_log_sigma", k_log_sigma}},
      v{{kName, "v_mu", v_mu}, {kName, "v_log_sigma", v_log_sigma}},
      out{{kName, "out_mu", out_mu}, {kName, "out_log_sigma", out_log_sigma}},
      grad_out{{kName, "grad_out_mu", grad_out_mu}, {kName, "grad_out_log_sigma", grad_out_log_sigma}},
      grad_q{written("grad_q_mu", grad_q_mu), written("grad_q_log_sigma", grad_q_log_sigma)},
      grad_k{written("grad_k_mu", grad_k_mu), written("grad_k_log_sigma", grad_k_log_sigma)},
      grad_v{written("grad_v_mu", grad_v_mu), written("grad_v_log_sigma", grad_v_log_sigma)};
  const Array softmax(kName, "softmax", softmax_object), grad_lse(kName, "grad_lse", grad_lse_object);
  const GradientArguments others(kName, option_gradients);
  const OptionArguments arguments(kName, options, q.mu);
  double grad_tau = 0;
  q.mu.visit([&]<class T>(T) {
    const auto q_view = q.view<const T>(), k_view = k.view<const T>(), v_view = v.view<const T>();
    const W2BackwardInput<T> input{out.view<const T>(), softmax.view<const float, 4>(), grad_out.view<const T>(),
                                   grad_lse.optional_view<const float, 3>()};
    W2Gradients<T> gradients{grad_q.view<T>(), grad_k.view<T>(), grad_v.view<T>(), &grad_tau};
    others.set(gradients);
    const nb::gil_scoped_release released;
    w2_attention_backward(q_view, k_view, v_view, {tau, eps}, input, gradients, arguments.value);
  });
  return grad_tau;
}

void check(nb::handle q_mu, nb::handle k_mu, nb::handle v_mu, nb::handle q_log_sigma, nb::handle k_log_sigma,
           nb::handle v_log_sigma, double tau, double eps, const nb::kwargs& options) {
  static constexpr const char* kName = "check_w2_attention";
  const StreamArrays q{{kName, "q_mu", q_mu}, {kName, "q_log_sigma", q_log_sigma}},
      k{{kName, "k_mu", k_mu}, {kName, "k_log_sigma", k_log_sigma}},
      v{{kName, "v_mu", v_mu}, {kName, "v_log_sigma", v_log_sigma}};
  const OptionArguments arguments(kName, options, q.mu);
  check_w2_attention(q.view<const float>(), k.view<const float>(), v.view<const float>(), {tau, eps}, arguments.value);
}

}  // namespace

void bind_w2(nb::module_& module) {
  using nb::arg;
  module.def("w2_attention_forward", &forward, array_arg("q_mu"), array_arg("k_mu"), array_arg("v_mu"),
             array_arg("q_log_sigma"), array_arg("k_log_sigma"), array_arg("v_log_sigma"), array_arg("out_mu"),
             array_arg("out_log_sigma"), array_arg("lse"), array_arg("softmax"), array_arg("weights"), nb::kw_only(),
             arg("tau") = 1.0, arg("eps") = kTauEps, arg("options"));
  module.def("w2_attention_backward", &backward, array_arg("q_mu"), array_arg("k_mu"), array_arg("v_mu"),
             array_arg("q_log_sigma"), array_arg("k_log_sigma"), array_arg("v_log_sigma"), array_arg("out_mu"),
             array_arg("out_log_sigma"), array_arg("softmax"), array_arg("grad_out_mu"),
             array_arg("grad_out_log_sigma"), array_arg("grad_lse"), array_arg("grad_q_mu"), array_arg("grad_k_mu"),
             array_arg("grad_v_mu"), array_arg("grad_q_log_sigma"), array_arg("grad_k_log_sigma"),
             array_arg("grad_v_log_sigma"), arg("option_gradients"), nb::kw_only(), arg("tau") = 1.0,
             arg("eps") = kTauEps, arg("options"));
  module.def("check_w2_attention", &check, array_arg("q_mu"), array_arg("k_mu"), array_arg("v_mu"),
             array_arg("q_log_sigma"), array_arg("k_log_sigma"), array_arg("v_log_sigma"), nb::kw_only(),
             arg("tau") = 1.0, arg("eps") = kTauEps, arg("options"));
}

}  // namespace phasor::python
