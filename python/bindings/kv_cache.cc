#include "phasor/attention/kv_cache.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "any_cache.h"
#include "module.h"

namespace phasor::python {

void bind_kv_cache(nb::module_& module) {
  using nb::arg;
  using Bound = AnyCache<KvCache, KvCacheConfig>;
  nb::class_<Bound> bound(module, "KVCache");
  bound.def(
      "__init__",
      [](Bound* self, std::int64_t batch, std::int64_t key_heads, std::int64_t capacity, std::int64_t channels,
         std::int64_t value_channels, const std::string& dtype, bool rotated) {
        new (self) Bound("KVCache",
                         {batch, key_heads, capacity, channels, value_channels,
                          rotated ? CachedKeys::rotated : CachedKeys::unrotated},
                         dtype);
      },
      arg("batch"), arg("key_heads"), arg("capacity"), arg("channels"), arg("value_channels") = 0,
      arg("dtype") = "float32", arg("rotated") = true);
  bind_cache(bound);
  const auto view = [](nb::handle self, const auto& part) {
    return nb::cast<const Bound&>(self).visit([&](const auto& cache) { return numpy_view(part(cache), self); });
  };
  bound.def_prop_ro("capacity", [](const Bound& cache) { return cache.config().capacity; })
      .def_prop_ro("keys", [=](nb::handle self) { return view(self, [](const auto& cache) { return cache.keys(); }); })
      .def_prop_ro("values",
                   [=](nb::handle self) { return view(self, [](const auto& cache) { return cache.values(); }); });
}

}  // namespace phasor::python
