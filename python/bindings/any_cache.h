// What caches with and without pages have in common.
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

inline CacheStorage storage_of(const char* function, const char* name, const std::string& dtype) {
  if (dtype == "float32") return CacheStorage::float32;
  if (dtype == "bfloat16") return CacheStorage::bf16;
  if (dtype == "float16") return CacheStorage::f16;
  if (dtype == "int8") return CacheStorage::int8;
  fail_type_error(function, name, ": ", dtype, ", expected float32, float16, bfloat16 or int8");
}

template <class Cache, class Config>
class BoundCache {
 public:
  // `name`, as Python calls it, outlives the cache.
  BoundCache(const char* name, Config config, const std::string& dtype)
      : append_name_(std::string(name) + ".append"),
        attention_name_(std::string(name) + ".attention"),
        cache_((config.storage = storage_of(name, "dtype", dtype), config)),
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
    cache_.append(k_rows, v_rows, rotation.view(), counts);
  }

  void attend(nb::handle q_object, nb::handle out_object, nb::handle lse_object, nb::handle weights_object,
              const nb::kwargs& options) const {
    const char* name = attention_name_.c_str();
    const Array q(name, "q", q_object), out(name, "out", out_object, Access::write),
        lse(name, "lse", lse_object, Access::write), weights(name, "weights", weights_object, Access::write);
    const OptionArguments arguments(name, options, q);
    const AttentionOptions given = options_of_cache(arguments, options);
    q.visit([&]<class T>(T) {
      const auto q_view = q.view<const T, 4>();
      const AttentionOutput<T> output{
          out.view<T, 4>(), lse.optional_view<float, 3>(), {}, weights.optional_view<float, 4>()};
      const nb::gil_scoped_release released;
      attention_forward(q_view, cache_, output, given);
    });
  }

  void truncate(std::int64_t b, std::int64_t length) { cache_.truncate(b, length); }
  void clear() { cache_.clear(); }
  std::vector<std::int64_t> lengths() const { return {cache_.lengths().begin(), cache_.lengths().end()}; }
  const Config& config() const { return cache_.config(); }
  const std::string& dtype() const { return dtype_; }
  const Cache& cache() const { return cache_; }
  Cache& cache() { return cache_; }

  // body(T()) with T the type of the elements.
  template <class Body>
  nb::object visit(const Body& body) const {
    switch (config().storage) {
      case CacheStorage::bf16:
        return body(bf16{});
      case CacheStorage::f16:
        return body(f16{});
      case CacheStorage::int8:
        return body(std::int8_t{});
      case CacheStorage::float32:
        break;
    }
    return body(float{});
  }

 private:
  std::string append_name_, attention_name_;
  Cache cache_;
  std::string dtype_;
};

// A view of memory that `owner` holds; bfloat16 as its bits, uint16.
template <class T, int Rank>
nb::object numpy_view(TensorView<const T, Rank> view, nb::handle owner) {
  std::array<std::size_t, Rank> shape;
  for (std::size_t i = 0; i < Rank; i++) shape[i] = static_cast<std::size_t>(view.shape[i]);
  nb::dlpack::dtype dtype = nb::dtype<float>();
  if (std::is_same_v<T, f16>) dtype.bits = 16;
  if (std::is_same_v<T, bf16>) dtype = nb::dtype<std::uint16_t>();
  if (std::is_same_v<T, std::int8_t>) dtype = nb::dtype<std::int8_t>();
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(view.data, Rank, shape.data(), owner, view.strides.data(), dtype));
}

// What part(cache, T()) gives of a cache with elements T, as an array of its memory.
template <class Bound, class Part>
auto view_of(const Part& part) {
  return [part](nb::handle self) {
    const auto& bound = nb::cast<const Bound&>(self);
    return bound.visit([&](auto element) { return numpy_view(part(bound.cache(), element), self); });
  };
}

// The same of scales, None if there are none.
template <class Bound, class Part>
auto scales_of(const Part& part) {
  return [part](nb::handle self) {
    const auto& bound = nb::cast<const Bound&>(self);
    return bound.config().storage == CacheStorage::int8 ? numpy_view(part(bound.cache()), self) : nb::none();
  };
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
