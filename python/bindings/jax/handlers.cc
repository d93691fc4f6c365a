// The functions that XLA calls for phasor.jax, and the module's function that gives them to jax.ffi.
#include <new>
#include <stdexcept>

#include "../module.h"
#include "arguments.h"
#include "options.h"
#include "phasor/attention/w2.h"

namespace phasor::jax {
namespace {

namespace nb = nanobind;

// Memory [B, H, T, D], or [B, T, H, D] with the attribute tokens_first.
template <class T>
TensorView<T, 4> tokens(const Arguments& arguments, Place& place, std::string_view name) {
  TensorView<T, 4> view = place.batched<T, 4>(arguments.required(name));
  return arguments.number<bool>("tokens_first").value_or(false) ? view.transposed(1, 2) : view;
}

template <class T, int Rank>
TensorView<T, Rank> optional_tensor(const xla::Buffer* buffer, Place& place) {
  return buffer ? place.batched<T, Rank>(*buffer) : TensorView<T, Rank>();
}

struct Forward {
  static constexpr const char *kName = "attention", *kQueries = "q";

  template <class T>
  static void run(const Arguments& arguments, Place& place) {
    const auto q = tokens<const T>(arguments, place, "q"), k = tokens<const T>(arguments, place, "k"),
               v = tokens<const T>(arguments, place, "v");
    const AttentionOutput<T> output{tokens<T>(arguments, place, "out"),
                                    optional_tensor<float, 3>(arguments.result("lse"), place),
                                    optional_tensor<float, 4>(arguments.result("softmax"), place),
                                    optional_tensor<float, 4>(arguments.result("weights"), place)};
    const AttentionOptions options = OptionReader(arguments, place).options();
    if (place.possible()) attention_forward(q, k, v, output, options);
  }
};

struct Backward {
  static constexpr const char *kName = "attention", *kQueries = "q";

  template <class T>
  static void run(const Arguments& arguments, Place& place) {
    const auto q = tokens<const T>(arguments, place, "q"), k = tokens<const T>(arguments, place, "k"),
               v = tokens<const T>(arguments, place, "v");
    const AttentionBackwardInput<T> input{tokens<const T>(arguments, place, "out"),
                                          place.batched<const float, 4>(arguments.required("softmax")),
                                          tokens<const T>(arguments, place, "grad_out"),
                                          optional_tensor<const float, 3>(arguments.operand("grad_lse"), place)};
    AttentionGradients<T> gradients{tokens<T>(arguments, place, "grad_q"), tokens<T>(arguments, place, "grad_k"),
                                    tokens<T>(arguments, place, "grad_v")};
    OptionReader reader(arguments, place);
    const AttentionOptions options = reader.options();
    reader.set_gradients(gradients);
    if (place.possible()) attention_backward(q, k, v, input, gradients, options);
  }
};

template <class T>
W2Streams<T> streams(const Arguments& arguments, Place& place, const std::string& name) {
  return {tokens<T>(arguments, place, name + "_mu"), tokens<T>(arguments, place, name + "_log_sigma")};
}

W2Temperature temperature(const Arguments& arguments, Place& place) {
  const double value = place.shared<const float, 1>(arguments.required("tau"))(0);
  return {value, arguments.number<double>("eps").value_or(kTauEps)};
}

struct W2Forward {
  static constexpr const char *kName = "w2_attention", *kQueries = "q_mu";

  template <class T>
  static void run(const Arguments& arguments, Place& place) {
    const auto q = streams<const T>(arguments, place, "q"), k = streams<const T>(arguments, place, "k"),
               v = streams<const T>(arguments, place, "v");
    const W2Output<T> output{streams<T>(arguments, place, "out"),
                             optional_tensor<float, 3>(arguments.result("lse"), place),
                             optional_tensor<float, 4>(arguments.result("softmax"), place),
                             optional_tensor<float, 4>(arguments.result("weights"), place)};
    const W2Temperature tau = temperature(arguments, place);
    const AttentionOptions options = OptionReader(arguments, place).options();
    if (place.possible()) w2_attention_forward(q, k, v, tau, output, options);
  }
};

struct W2Backward {
  static constexpr const char *kName = "w2_attention", *kQueries = "q_mu";

  template <class T>
  static void run(const Arguments& arguments, Place& place) {
    const auto q = streams<const T>(arguments, place, "q"), k = streams<const T>(arguments, place, "k"),
               v = streams<const T>(arguments, place, "v");
    const W2BackwardInput<T> input{streams<const T>(arguments, place, "out"),
                                   place.batched<const float, 4>(arguments.required("softmax")),
                                   streams<const T>(arguments, place, "grad_out"),
                                   optional_tensor<const float, 3>(arguments.operand("grad_lse"), place)};
    W2Gradients<T> gradients{streams<T>(arguments, place, "grad_q"), streams<T>(arguments, place, "grad_k"),
                             streams<T>(arguments, place, "grad_v")};
    double grad_tau = 0;
    TensorView<float, 1> result;
    if (const xla::Buffer* wanted = arguments.result("grad_tau")) {
      gradients.tau = &grad_tau;
      result = place.shared<float, 1>(*wanted);
    }
    const W2Temperature tau = temperature(arguments, place);
    OptionReader reader(arguments, place);
    const AttentionOptions options = reader.options();
    reader.set_gradients(gradients);
    if (!place.possible()) return;
    w2_attention_backward(q, k, v, tau, input, gradients, options);
    if (result.data) result(0) = static_cast<float>(grad_tau);
  }
};

// f(T()) with T the type of the queries.
template <class Function>
void visit(const Arguments& arguments, const Function& f) {
  const xla::DataType type = arguments.queries().type;
  PHASOR_CHECK(type == xla::DataType::float32 || type == xla::DataType::float16 || type == xla::DataType::bfloat16,
               arguments.function(), "q: XLA's type ", static_cast<int>(type),
               ", expected float32, bfloat16 or float16");
  if (type == xla::DataType::float32) return f(float{});
  if (type == xla::DataType::float16) return f(f16{});
  f(bf16{});
}

template <class Function>
void run(const xla::Call& call) {
  const Arguments arguments(Function::kName, call, Function::kQueries);
  visit(arguments, [&]<class T>(T) {
    if (arguments.elements() > 1) {
      Place all(arguments, Place::kFolded);
      Function::template run<T>(arguments, all);
      if (all.possible()) return;
    }
    for (std::int64_t element = 0; element < arguments.elements(); element++) {
      Place one(arguments, element);
      Function::template run<T>(arguments, one);
    }
  });
}

xla::Error* error(const xla::Call& call, xla::ErrorCode code, const char* message) {
  xla::ErrorArguments arguments{sizeof(xla::ErrorArguments), nullptr, message, code};
  return call.api->create_error(&arguments);
}

// XLA asks for the version when a handler is registered. Minor versions append members to structs, which a handler that
// checks their sizes need not know: so it is as new as XLA. Before 0.2, XLA does not tell its own.
void tell_version(const xla::Call& call, xla::Metadata& metadata) {
  metadata.version.major = xla::kMajorVersion;
  metadata.version.minor = call.api && call.api->version.major == xla::kMajorVersion ? call.api->version.minor : 1;
  metadata.traits = 0;
}

template <class Function>
xla::Error* handle(xla::Call* call) noexcept {
  if (call->extension && call->extension->type == xla::ExtensionType::metadata) {
    tell_version(*call, *reinterpret_cast<xla::MetadataExtension*>(call->extension)->metadata);
    return nullptr;
  }
  if (!xla::is_known(*call))
    return error(*call, xla::ErrorCode::internal, "phasor.jax: a call of an XLA that is newer than phasor knows");
  try {
    run<Function>(*call);
  } catch (const std::invalid_argument& failure) {
    return error(*call, xla::ErrorCode::invalid_argument, failure.what());
  } catch (const std::bad_alloc&) {
    return error(*call, xla::ErrorCode::resource_exhausted, "phasor.jax: no memory");
  } catch (const std::exception& failure) {
    return error(*call, xla::ErrorCode::internal, failure.what());
  }
  return nullptr;
}

nb::capsule capsule(xla::Handler* handler) {
  return nb::capsule(reinterpret_cast<void*>(handler), "xla._CUSTOM_CALL_TARGET");
}

nb::dict handlers() {
  nb::dict result;
  result["attention_forward"] = capsule(&handle<Forward>);
  result["attention_backward"] = capsule(&handle<Backward>);
  result["w2_attention_forward"] = capsule(&handle<W2Forward>);
  result["w2_attention_backward"] = capsule(&handle<W2Backward>);
  return result;
}

}  // namespace
}  // namespace phasor::jax

namespace phasor::python {

void bind_jax(nanobind::module_& module) { module.def("jax_handlers", &jax::handlers); }

}  // namespace phasor::python
