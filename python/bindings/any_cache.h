// A cache of any element type: what caches with and without pages have in common.
#pragma once

#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "arrays.h"
#include "options.h"
#include "phasor/attention/kv_cache.h"

namespace phasor::python {

// The options of a call to a cache, which has keys of its own: query_starts alone does not mean key_starts too.
inline AttentionOptions options_of_cache(const OptionArguments& arguments, const nb::kwargs& options) {
  AttentionOptions result = arguments.value;
  if (!options.contains("key_starts") || nb::object(options["key_starts"]).is_none()) result.key_starts = {};
  return result;
}

template <template <Element> class Cache, class Config>
class AnyCache {
 public:
  // `name`, as Python calls it, outlives the cache.
  AnyCache(const char* name, const Config& config, const std::string& dtype)
      : append_name_(std::string(name) + ".append"),
        attention_name_(std::string(name) + ".attention"),
        cache_(make(name, config, dtype)),
        dtype_(dtype) {}

  void append(nb::handle k_object, nb::handle v_object, nb::handle rotation_object, nb::handle counts_object) {
    const char* name = append_name_.c_str();
    const Array k(name, "k", k_object), v(name, "v", v_object);
    const RotationArgument rotation(name, "rotation", rotation_object);
    const std::vector<std::int64_t> counts = integers(name, "counts", counts_object);
    PHASOR_CHECK(counts_object.is_none() || !counts.empty() || config().batch == 0, name,
                 "counts: no numbers, expected one for each sequence");
    const auto rows = [](const Array& x) { return x.visit([&]<class T>(T) { return KvRows(x.view<const T, 4>()); }); };
    const KvRows k_rows = rows(k), v_rows = rows(v);
    const nb::gil_scoped_release released;
    visit([&](auto& cache) { cache.append(k_rows, v_rows, rotation.view(), counts); });
  }

  void attend(nb::handle q_object, nb::handle out_object, nb::handle lse_object, nb::handle weights_object,
              const nb::kwargs& options) const {
    const char* name = attention_name_.c_str();
    const Array q(name, "q", q_object), out(name, "out", out_object, Access::write),
        lse(name, "lse", lse_object, Access::write), weights(name, "weights", weights_object, Access::write);
    const OptionArguments arguments(name, options, q);
    const AttentionOptions given = options_of_cache(arguments, options);
    const auto call = [&]<class T>(T, const auto& cache) {
      const auto q_view = q.view<const T, 4>();
      const AttentionOutput<T> output{
          out.view<T, 4>(), lse.optional_view<float, 3>(), {}, weights.optional_view<float, 4>()};
      const nb::gil_scoped_release released;
      attention_forward(q_view, cache, output, given);
    };
    visit([&]<class T>(const Cache<T>& cache) {
      if (q.type() == ElementType::float32) return call(float{}, cache);
      if (q.type() != kElementType<T>) q.fail_type(kElementType<T>);
      call(T{}, cache);
    });
  }

  void truncate(std::int64_t b, std::int64_t length) {
    visit([&](auto& cache) { cache.truncate(b, length); });
  }
  void clear() {
    visit([](auto& cache) { cache.clear(); });
  }
  std::vector<std::int64_t> lengths() const {
    return visit([](const auto& cache) {
      const std::span<const std::int64_t> lengths = cache.lengths();
      return std::vector<std::int64_t>(lengths.begin(), lengths.end());
    });
  }
  const Config& config() const {
    return visit([](const auto& cache) -> const Config& { return cache.config(); });
  }
  const std::string& dtype() const { return dtype_; }

  template <class Body>
  decltype(auto) visit(const Body& body) const {
    return std::visit(body, cache_);
  }
  template <class Body>
  decltype(auto) visit(const Body& body) {
    return std::visit(body, cache_);
  }

 private:
  using Caches = std::variant<Cache<float>, Cache<bf16>, Cache<f16>>;

  static Caches make(const char* name, const Config& config, const std::string& dtype) {
    if (dtype == "float32") return Cache<float>(config);
    if (dtype == "bfloat16") return Cache<bf16>(config);
    if (dtype == "float16") return Cache<f16>(config);
    const std::string message = "[" + std::string(name) + "] dtype: " + dtype;
    throw nb::type_error((message + ", expected float32, float16 or bfloat16").c_str());
  }

  std::string append_name_, attention_name_;
  Caches cache_;
  std::string dtype_;
};

// A view of memory that `owner` holds; bfloat16 as its bits, uint16.
template <class T>
nb::object numpy_view(TensorView<const T, 4> view, nb::handle owner) {
  std::array<std::size_t, 4> shape;
  for (std::size_t i = 0; i < 4; i++) shape[i] = static_cast<std::size_t>(view.shape[i]);
  nb::dlpack::dtype dtype = nb::dtype<float>();
  if (std::is_same_v<T, f16>) dtype.bits = 16;
  if (std::is_same_v<T, bf16>) dtype = nb::dtype<std::uint16_t>();
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(view.data, 4, shape.data(), owner, view.strides.data(), dtype));
}

// The methods of all caches.
template <class Bound>
void bind_cache(nb::class_<Bound>& bound) {
  using nb::arg;
  bound
      .def("append", &Bound::append, array_arg("k"), array_arg("v"), array_arg("rotation") = nb::none(),
           arg("counts").none() = nb::none())
      .def("attention", &Bound::attend, array_arg("q"), array_arg("out"), array_arg("lse"), array_arg("weights"),
           arg("options"))
      .def("truncate", &Bound::truncate, arg("b"), arg("length"))
      .def("clear", &Bound::clear)
      .def_prop_ro("lengths", &Bound::lengths)
      .def_prop_ro("dtype", &Bound::dtype)
      .def_prop_ro("batch", [](const Bound& cache) { return cache.config().batch; })
      .def_prop_ro("key_heads", [](const Bound& cache) { return cache.config().key_heads; })
      .def_prop_ro("channels", [](const Bound& cache) { return cache.config().channels; })
      .def_prop_ro("value_channels", [](const Bound& cache) { return cache.config().value_channels; });
}

}  // namespace phasor::python
