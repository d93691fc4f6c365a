#include "phasor/attention/kv_cache.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <variant>
#include <vector>

#include "arrays.h"
#include "module.h"
#include "options.h"

namespace phasor::python {
namespace {

// A cache of any element type.
class Cache {
 public:
  Cache(const KvCacheConfig& config, const std::string& dtype) : cache_(make(config, dtype)), dtype_(dtype) {}

  void append(nb::handle k_object, nb::handle v_object, nb::handle rotation_object, nb::handle counts_object) {
    static constexpr const char* kName = "KVCache.append";
    const Array k(kName, "k", k_object), v(kName, "v", v_object);
    const RotationArgument rotation(kName, "rotation", rotation_object);
    const std::vector<std::int64_t> counts = integers(kName, "counts", counts_object);
    PHASOR_CHECK(counts_object.is_none() || !counts.empty() || config().batch == 0, kName,
                 "counts: no numbers, expected one for each sequence");
    const auto rows = [](const Array& x) { return x.visit([&]<class T>(T) { return KvRows(x.view<const T, 4>()); }); };
    const KvRows k_rows = rows(k), v_rows = rows(v);
    const nb::gil_scoped_release released;
    std::visit([&](auto& cache) { cache.append(k_rows, v_rows, rotation.view(), counts); }, cache_);
  }

  void attend(nb::handle q_object, nb::handle out_object, nb::handle lse_object, nb::handle weights_object,
              const nb::kwargs& options) const {
    static constexpr const char* kName = "KVCache.attention";
    const Array q(kName, "q", q_object), out(kName, "out", out_object, Access::write),
        lse(kName, "lse", lse_object, Access::write), weights(kName, "weights", weights_object, Access::write);
    const OptionArguments arguments(kName, options, q);
    const auto call = [&]<class T>(T, const auto& cache) {
      const auto q_view = q.view<const T, 4>();
      const AttentionOutput<T> output{
          out.view<T, 4>(), lse.optional_view<float, 3>(), {}, weights.optional_view<float, 4>()};
      const nb::gil_scoped_release released;
      attention_forward(q_view, cache, output, arguments.value);
    };
    std::visit(
        [&]<class T>(const KvCache<T>& cache) {
          if (q.type() == ElementType::float32) return call(float{}, cache);
          if (q.type() != kElementType<T>) q.fail_type(kElementType<T>);
          call(T{}, cache);
        },
        cache_);
  }

  void truncate(std::int64_t b, std::int64_t length) {
    std::visit([&](auto& cache) { cache.truncate(b, length); }, cache_);
  }
  void clear() {
    std::visit([](auto& cache) { cache.clear(); }, cache_);
  }
  std::vector<std::int64_t> lengths() const {
    return std::visit([](const auto& cache) { return to_vector(cache.lengths()); }, cache_);
  }
  const KvCacheConfig& config() const {
    return std::visit([](const auto& cache) -> const KvCacheConfig& { return cache.config(); }, cache_);
  }
  const std::string& dtype() const { return dtype_; }

  // Views of the memory; bfloat16 as its bits, uint16.
  nb::object keys(nb::handle owner) const {
    return std::visit([&](const auto& cache) { return numpy_view(cache.keys(), owner); }, cache_);
  }
  nb::object values(nb::handle owner) const {
    return std::visit([&](const auto& cache) { return numpy_view(cache.values(), owner); }, cache_);
  }

 private:
  using AnyCache = std::variant<KvCache<float>, KvCache<bf16>, KvCache<f16>>;

  static AnyCache make(const KvCacheConfig& config, const std::string& dtype) {
    if (dtype == "float32") return KvCache<float>(config);
    if (dtype == "bfloat16") return KvCache<bf16>(config);
    if (dtype == "float16") return KvCache<f16>(config);
    throw nb::type_error(("[KVCache] dtype: " + dtype + ", expected float32, float16 or bfloat16").c_str());
  }

  static std::vector<std::int64_t> to_vector(std::span<const std::int64_t> numbers) {
    return {numbers.begin(), numbers.end()};
  }

  template <class T>
  static nb::object numpy_view(TensorView<const T, 4> view, nb::handle owner) {
    std::array<std::size_t, 4> shape;
    for (std::size_t i = 0; i < 4; i++) shape[i] = static_cast<std::size_t>(view.shape[i]);
    nb::dlpack::dtype dtype = nb::dtype<float>();
    if (std::is_same_v<T, f16>) dtype.bits = 16;
    if (std::is_same_v<T, bf16>) dtype = nb::dtype<std::uint16_t>();
    return nb::cast(nb::ndarray<nb::numpy, nb::ro>(view.data, 4, shape.data(), owner, view.strides.data(), dtype));
  }

  AnyCache cache_;
  std::string dtype_;
};

}  // namespace

void bind_kv_cache(nb::module_& module) {
  using nb::arg;
  nb::class_<Cache>(module, "KVCache")
      .def(
          "__init__",
          [](Cache* self, std::int64_t batch, std::int64_t key_heads, std::int64_t capacity, std::int64_t channels,
             std::int64_t value_channels, const std::string& dtype, bool rotated) {
            new (self) Cache({batch, key_heads, capacity, channels, value_channels,
                              rotated ? CachedKeys::rotated : CachedKeys::unrotated},
                             dtype);
          },
          arg("batch"), arg("key_heads"), arg("capacity"), arg("channels"), arg("value_channels") = 0,
          arg("dtype") = "float32", arg("rotated") = true)
      .def("append", &Cache::append, array_arg("k"), array_arg("v"), array_arg("rotation") = nb::none(),
           arg("counts").none() = nb::none())
      .def("attention", &Cache::attend, array_arg("q"), array_arg("out"), array_arg("lse"), array_arg("weights"),
           arg("options"))
      .def("truncate", &Cache::truncate, arg("b"), arg("length"))
      .def("clear", &Cache::clear)
      .def_prop_ro("lengths", &Cache::lengths)
      .def_prop_ro("dtype", &Cache::dtype)
      .def_prop_ro("batch", [](const Cache& cache) { return cache.config().batch; })
      .def_prop_ro("key_heads", [](const Cache& cache) { return cache.config().key_heads; })
      .def_prop_ro("capacity", [](const Cache& cache) { return cache.config().capacity; })
      .def_prop_ro("channels", [](const Cache& cache) { return cache.config().channels; })
      .def_prop_ro("value_channels", [](const Cache& cache) { return cache.config().value_channels; })
      .def_prop_ro("keys", [](nb::handle self) { return nb::cast<const Cache&>(self).keys(self); })
      .def_prop_ro("values", [](nb::handle self) { return nb::cast<const Cache&>(self).values(self); });
}

}  // namespace phasor::python
