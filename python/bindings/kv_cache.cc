#include "phasor/attention/kv_cache.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "any_cache.h"
#include "module.h"

namespace phasor::python {

void bind_kv_cache(nb::module_& module) {
  using nb::arg;
  using Bound = BoundCache<KvCache, KvCacheConfig>;
  nb::class_<Bound> bound(module, "KVCache");
  bound.def(
      "__init__",
      [](Bound* self, std::int64_t batch, std::int64_t key_heads, std::int64_t capacity, std::int64_t channels,
         std::int64_t value_channels, const std::string& dtype, bool rotated) {
        new (self) Bound("KVCache",
                         {.batch = batch,
                          .key_heads = key_heads,
                          .capacity = capacity,
                          .channels = channels,
                          .value_channels = value_channels,
                          .keys = rotated ? CachedKeys::rotated : CachedKeys::unrotated},
                         dtype);
      },
      arg("batch"), arg("key_heads"), arg("capacity"), arg("channels"), arg("value_channels") = 0,
      arg("dtype") = "float32", arg("rotated") = true);
  bind_cache(bound);
  bound.def_prop_ro("capacity", [](const Bound& cache) { return cache.config().capacity; })
      .def_prop_ro("keys", view_of<Bound>([]<class T>(const KvCache& cache, T) { return cache.keys<T>(); }))
      .def_prop_ro("values", view_of<Bound>([]<class T>(const KvCache& cache, T) { return cache.values<T>(); }))
      .def_prop_ro("key_scales", scales_of<Bound>([](const KvCache& cache) { return cache.key_scales(); }))
      .def_prop_ro("value_scales", scales_of<Bound>([](const KvCache& cache) { return cache.value_scales(); }));
}

}  // namespace phasor::python
