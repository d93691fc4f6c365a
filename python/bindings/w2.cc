#include "phasor/attention/w2.h"

#include "arrays.h"
#include "module.h"
#include "options.h"
#include "phasor/attention/sigma.h"

namespace phasor::python {
namespace {

// Two arrays that are the streams of q, k, v, out or a gradient.
struct StreamArrays {
  Array mean, spread;

  template <class T>
  W2Streams<T> view() const {
    return {mean.view<T, 4>(), spread.view<T, 4>()};
  }
};

// Python has the logs of variances of q and k, the C++ functions take standard deviations, in float.
template <class T>
class Deviations {
 public:
  explicit Deviations(const StreamArrays& streams)
      : mean_(streams.mean.view<const T, 4>()),
        log_variance_(streams.spread.view<const T, 4>()),
        sigma_(log_variance_.shape) {}

  W2Gaussians<const T> computed() {
    sigma_forward(log_variance_, sigma_.view());
    return {mean_, std::as_const(sigma_).view()};
  }
  const Tensor<float, 4>& sigma() const { return sigma_; }

 private:
  TensorView<const T, 4> mean_, log_variance_;
  Tensor<float, 4> sigma_;
};

// Gradients of a Gaussian's mean and sigma, where the latter ends as that of the log variance: in float in the same
// memory, in 16 bits rounded once from memory of its own.
template <class T>
class DeviationGradients {
 public:
  explicit DeviationGradients(const StreamArrays& streams)
      : mean_(streams.mean.view<T, 4>()), log_variance_(streams.spread.view<T, 4>()) {
    if constexpr (!std::is_same_v<T, float>) sigma_ = Tensor<float, 4>(log_variance_.shape);
  }

  W2Gaussians<T> view() { return {mean_, of_sigma()}; }
  void finish(const Tensor<float, 4>& sigma) {
    if constexpr (std::is_same_v<T, float>)
      sigma_backward(sigma.view(), log_variance_);
    else
      sigma_backward(sigma.view(), std::as_const(sigma_).view(), log_variance_);
  }

 private:
  TensorView<float, 4> of_sigma() {
    if constexpr (std::is_same_v<T, float>)
      return log_variance_;
    else
      return sigma_.view();
  }

  TensorView<T, 4> mean_, log_variance_;
  Tensor<float, 4> sigma_;
};

void forward(nb::handle q_mu, nb::handle k_mu, nb::handle v_mu, nb::handle q_log_sigma, nb::handle k_log_sigma,
             nb::handle v_log_sigma, nb::handle out_mu, nb::handle out_log_sigma, nb::handle lse_object,
             nb::handle weights_object, double tau, double eps, const nb::kwargs& options) {
  static constexpr const char* kName = "w2_attention_forward";
  const StreamArrays q{{kName, "q_mu", q_mu}, {kName, "q_log_sigma", q_log_sigma}},
      k{{kName, "k_mu", k_mu}, {kName, "k_log_sigma", k_log_sigma}},
      v{{kName, "v_mu", v_mu}, {kName, "v_log_sigma", v_log_sigma}},
      out{{kName, "out_mu", out_mu, Access::write}, {kName, "out_log_sigma", out_log_sigma, Access::write}};
  const Array lse(kName, "lse", lse_object, Access::write), weights(kName, "weights", weights_object, Access::write);
  const OptionArguments arguments(kName, options);
  q.mean.visit([&]<class T>(T) {
    Deviations<T> q_sigma(q), k_sigma(k);
    const auto v_view = v.view<const T>();
    const W2Output<T> output{out.view<T>(), lse.optional_view<float, 3>(), weights.optional_view<float, 4>()};
    const nb::gil_scoped_release released;
    w2_attention_forward(q_sigma.computed(), k_sigma.computed(), v_view, {tau, eps}, output, arguments.value);
  });
}

double backward(nb::handle q_mu, nb::handle k_mu, nb::handle v_mu, nb::handle q_log_sigma, nb::handle k_log_sigma,
                nb::handle v_log_sigma, nb::handle out_mu, nb::handle out_log_sigma, nb::handle lse_object,
                nb::handle grad_out_mu, nb::handle grad_out_log_sigma, nb::handle grad_lse_object, nb::handle grad_q_mu,
                nb::handle grad_k_mu, nb::handle grad_v_mu, nb::handle grad_q_log_sigma, nb::handle grad_k_log_sigma,
                nb::handle grad_v_log_sigma, double tau, double eps, nb::handle grad_mask_object,
                nb::handle grad_key_bias_object, nb::handle grad_relative_bias_object, nb::handle grad_sinks_object,
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
  const Array lse(kName, "lse", lse_object), grad_lse(kName, "grad_lse", grad_lse_object),
      grad_mask = written("grad_mask", grad_mask_object),
      grad_key_bias = written("grad_key_bias", grad_key_bias_object),
      grad_relative_bias = written("grad_relative_bias", grad_relative_bias_object),
      grad_sinks = written("grad_sinks", grad_sinks_object);
  const OptionArguments arguments(kName, options);
  double grad_tau = 0;
  q.mean.visit([&]<class T>(T) {
    Deviations<T> q_sigma(q), k_sigma(k);
    const auto v_view = v.view<const T>();
    const W2Result<T> result{out.view<const T>(), lse.view<const float, 3>(), grad_out.view<const T>(),
                             grad_lse.optional_view<const float, 3>()};
    DeviationGradients<T> to_q(grad_q), to_k(grad_k);
    const W2Gradients<T> gradients{to_q.view(),
                                   to_k.view(),
                                   grad_v.view<T>(),
                                   &grad_tau,
                                   grad_mask.optional_view<float, 4>(1),
                                   grad_key_bias.optional_view<float, 3>(1),
                                   grad_relative_bias.optional_view<float, 2>(),
                                   grad_sinks.optional_view<float, 1>()};
    const nb::gil_scoped_release released;
    w2_attention_backward(q_sigma.computed(), k_sigma.computed(), v_view, {tau, eps}, result, gradients,
                          arguments.value);
    to_q.finish(q_sigma.sigma());
    to_k.finish(k_sigma.sigma());
  });
  return grad_tau;
}

}  // namespace

void bind_w2(nb::module_& module) {
  using nb::arg;
  module.def("w2_attention_forward", &forward, array_arg("q_mu"), array_arg("k_mu"), array_arg("v_mu"),
             array_arg("q_log_sigma"), array_arg("k_log_sigma"), array_arg("v_log_sigma"), array_arg("out_mu"),
             array_arg("out_log_sigma"), array_arg("lse"), array_arg("weights"), nb::kw_only(), arg("tau") = 1.0,
             arg("eps") = kTauEps, arg("options"));
  module.def("w2_attention_backward", &backward, array_arg("q_mu"), array_arg("k_mu"), array_arg("v_mu"),
             array_arg("q_log_sigma"), array_arg("k_log_sigma"), array_arg("v_log_sigma"), array_arg("out_mu"),
             array_arg("out_log_sigma"), array_arg("lse"), array_arg("grad_out_mu"), array_arg("grad_out_log_sigma"),
             array_arg("grad_lse"), array_arg("grad_q_mu"), array_arg("grad_k_mu"), array_arg("grad_v_mu"),
             array_arg("grad_q_log_sigma"), array_arg("grad_k_log_sigma"), array_arg("grad_v_log_sigma"), nb::kw_only(),
             arg("tau") = 1.0, arg("eps") = kTauEps, array_arg("grad_mask") = nb::none(),
             array_arg("grad_key_bias") = nb::none(), array_arg("grad_relative_bias") = nb::none(),
             array_arg("grad_sinks") = nb::none(), arg("options"));
}

}  // namespace phasor::python
