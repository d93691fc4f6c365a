#include "phasor/attention/paged_kv_cache.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "any_cache.h"
#include "module.h"

namespace phasor::python {
namespace {

using Bound = BoundCache<PagedKvCache, PagedKvCacheConfig>;

// int32 as it is; int64, which torch makes, copied. A number that int32 cannot have is -1: no page.
class BlockTable {
 public:
  BlockTable(const char* function, nb::handle object) : array_(function, "block_table", object) {
    if (array_.type() == ElementType::int32) {
      view_ = array_.view<const std::int32_t, 2>();
      return;
    }
    const auto wide = array_.view<const std::int64_t, 2>();
    copy_ = Tensor<std::int32_t, 2>(wide.shape);
    for (std::int64_t s = 0; s < wide.shape[0]; s++)
      for (std::int64_t i = 0; i < wide.shape[1]; i++)
        copy_(s, i) = wide(s, i) == static_cast<std::int32_t>(wide(s, i)) ? static_cast<std::int32_t>(wide(s, i)) : -1;
    view_ = std::as_const(copy_).view();
  }
  const TensorView<const std::int32_t, 2>& view() const { return view_; }

 private:
  Array array_;
  Tensor<std::int32_t, 2> copy_;
  TensorView<const std::int32_t, 2> view_;
};

void attend(nb::handle q_object, nb::handle keys_object, nb::handle values_object, nb::handle table_object,
            nb::handle lengths_object, nb::handle key_scales_object, nb::handle value_scales_object,
            nb::handle out_object, nb::handle lse_object, nb::handle weights_object, const nb::kwargs& options) {
  static constexpr const char* kName = "paged_attention";
  const Array q(kName, "q", q_object), keys(kName, "keys", keys_object), values(kName, "values", values_object),
      key_scales(kName, "key_scales", key_scales_object), value_scales(kName, "value_scales", value_scales_object),
      out(kName, "out", out_object, Access::write), lse(kName, "lse", lse_object, Access::write),
      weights(kName, "weights", weights_object, Access::write);
  const BlockTable table(kName, table_object);
  const std::vector<std::int64_t> lengths = integers(kName, "lengths", lengths_object);
  const OptionArguments arguments(kName, options, q);
  const AttentionOptions given = options_of_cache(arguments, options);
  const auto attend_to = [&]<class T>(T) {
    const KvPages<T> pages{keys.view<const T, 4>(),
                           values.view<const T, 4>(),
                           table.view(),
                           lengths,
                           key_scales.optional_view<const float, 3>(),
                           value_scales.optional_view<const float, 3>()};
    q.visit([&]<class U>(U) {
      const auto q_view = q.view<const U, 4>();
      const AttentionOutput<U> output{
          out.view<U, 4>(), lse.optional_view<float, 3>(), {}, weights.optional_view<float, 4>()};
      const nb::gil_scoped_release released;
      attention_forward(q_view, pages, output, given);
    });
  };
  if (keys.type() == ElementType::int8)
    attend_to(std::int8_t{});
  else
    keys.visit(attend_to);
}

// Page i of sequence s, rows as long as the longest sequence needs; -1 where there is none.
std::vector<std::vector<std::int32_t>> block_table(const Bound& bound) {
  const PagedKvCache& cache = bound.cache();
  const TensorView<const std::int32_t, 2> table = cache.block_table();
  const std::int64_t size = cache.config().page_size;
  const auto pages_of = [&](std::int64_t tokens) { return (tokens + size - 1) / size; };
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int64_t s = 0; s < cache.config().batch; s++) {
    rows.emplace_back(static_cast<std::size_t>(pages_of(cache.longest())), -1);
    for (std::int64_t i = 0; i < pages_of(cache.lengths()[static_cast<std::size_t>(s)]); i++)
      rows.back()[static_cast<std::size_t>(i)] = table(s, i);
  }
  return rows;
}

}  // namespace

void bind_paged_kv_cache(nb::module_& module) {
  using nb::arg;
  nb::class_<Bound> bound(module, "PagedKVCache");
  bound.def(
      "__init__",
      [](Bound* self, std::int64_t batch, std::int64_t key_heads, std::int64_t pages, std::int64_t page_size,
         std::int64_t channels, std::int64_t value_channels, const std::string& dtype, bool rotated) {
        new (self) Bound("PagedKVCache",
                         {.batch = batch,
                          .key_heads = key_heads,
                          .pages = pages,
                          .page_size = page_size,
                          .channels = channels,
                          .value_channels = value_channels,
                          .keys = rotated ? CachedKeys::rotated : CachedKeys::unrotated},
                         dtype);
      },
      arg("batch"), arg("key_heads"), arg("pages"), arg("page_size"), arg("channels"), arg("value_channels") = 0,
      arg("dtype") = "float32", arg("rotated") = true);
  bind_cache(bound);
  bound
      .def(
          "share",
          [](Bound& self, std::int64_t from, std::int64_t to, std::int64_t length) {
            self.cache().share(from, to, length);
          },
          arg("source"), arg("to"), arg("length"))
      .def_prop_ro("pages", [](const Bound& cache) { return cache.config().pages; })
      .def_prop_ro("page_size", [](const Bound& cache) { return cache.config().page_size; })
      .def_prop_ro("free_pages", [](const Bound& self) { return self.cache().free_pages(); })
      .def_prop_ro("block_table", &block_table)
      .def_prop_ro("keys", view_of<Bound>([]<class T>(const PagedKvCache& cache, T) { return cache.pages<T>().keys; }))
      .def_prop_ro("values",
                   view_of<Bound>([]<class T>(const PagedKvCache& cache, T) { return cache.pages<T>().values; }))
      .def_prop_ro("key_scales",
                   scales_of<Bound>([](const PagedKvCache& cache) { return cache.pages<std::int8_t>().key_scales; }))
      .def_prop_ro("value_scales",
                   scales_of<Bound>([](const PagedKvCache& cache) { return cache.pages<std::int8_t>().value_scales; }));
  module.def("paged_attention", &attend, array_arg("q"), array_arg("keys"), array_arg("values"),
             array_arg("block_table"), arg("lengths"), array_arg("key_scales"), array_arg("value_scales"),
             array_arg("out"), array_arg("lse"), array_arg("weights"), arg("options"));
}

}  // namespace phasor::python
