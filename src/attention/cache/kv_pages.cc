// Attention to keys in pages: the call of attention to keys in place, but with a table of pages in its views.
#include <algorithm>

#include "cache/cache_rows.h"
#include "call.h"
#include "check_shapes.h"
#include "phasor/attention/paged_kv_cache.h"
#include "phasor/core/check.h"

namespace phasor {
namespace {

constexpr const char* kFunction = "attention_forward";

// A KvPages, or the pages of a cache.
struct AnyPages {
  detail::AnyView keys, values;
  TensorView<const std::int32_t, 2> block_table;
  std::span<const std::int64_t> lengths;

  template <class T>
  explicit AnyPages(const KvPages<T>& pages)
      : keys(pages.keys), values(pages.values), block_table(pages.block_table), lengths(pages.lengths) {
    keys.scales = pages.key_scales, values.scales = pages.value_scales;
  }
  explicit AnyPages(const PagedKvCache& cache)
      : keys(detail::any_view(cache.key_rows())),
        values(detail::any_view(cache.value_rows())),
        block_table(cache.block_table()),
        lengths(cache.lengths()) {}
};

void check_scales(const char* name, const detail::AnyView& x) {
  const bool is_int8 = x.type == detail::ElementType::int8;
  PHASOR_CHECK(is_int8 || !x.scales.data, kFunction, name, ": given with pages of floating point, expected none");
  if (!is_int8) return;
  detail::check_shape(kFunction, name, x.scales.shape, {x.shape[0], x.shape[1], x.shape[2]}, "[pages, G, page size]");
  detail::check_data(kFunction, name, x.scales.data, x.scales.shape);
  detail::check_rows(kFunction, name, x.scales.shape, x.scales.strides);
}

// The memory, and a number of tokens for each row of the table.
void check_pages(const AnyPages& pages) {
  const Shape<4>&keys = pages.keys.shape, &values = pages.values.shape;
  for (const auto& [name, x] : {std::pair{"keys", &pages.keys}, {"values", &pages.values}}) {
    detail::check_data(kFunction, name, x->data, x->shape);
    detail::check_rows(kFunction, name, x->shape, x->strides);
  }
  PHASOR_CHECK(keys[2] >= 1, kFunction, "keys: shape ", shape_text(keys), ", expected pages of at least one token");
  PHASOR_CHECK(std::equal(keys.begin(), keys.end() - 1, values.begin()), kFunction, "values: shape ",
               shape_text(values), ", expected [pages, G, page size] as keys of shape ", shape_text(keys), " has");
  check_scales("key_scales", pages.keys);
  check_scales("value_scales", pages.values);
  const Shape<2>& table = pages.block_table.shape;
  detail::check_data(kFunction, "block_table", pages.block_table.data, table);
  PHASOR_CHECK(pages.lengths.size() == static_cast<std::size_t>(table[0]), kFunction, "lengths: ", pages.lengths.size(),
               " numbers, expected ", table[0], ", one for each row of block_table of shape ", shape_text(table));
}

// The pages of a sequence, as many as its tokens are in.
void copy_row(const AnyPages& pages, std::int64_t s, std::int64_t used, std::int32_t* to) {
  const TensorView<const std::int32_t, 2>& table = pages.block_table;
  PHASOR_CHECK(used <= table.shape[1], kFunction, "block_table: shape ", shape_text(table.shape), ", expected ", used,
               " pages of ", pages.keys.shape[2], " tokens for the ", pages.lengths[static_cast<std::size_t>(s)],
               " of sequence ", s);
  for (std::int64_t i = 0; i < used; i++) {
    to[i] = table(s, i);
    PHASOR_CHECK(to[i] >= 0 && to[i] < pages.keys.shape[0], kFunction, "block_table: ", to[i], " as page ", i,
                 " of sequence ", s, ", expected 0 to ", pages.keys.shape[0] - 1);
  }
}

// The rows of pages, as the kernels see them: [n, S] tokens with S the longest length, or, for ragged queries, all in
// one row, of which sequence s has those from starts[s] on.
struct PagedRows {
  detail::List<std::int32_t> pages;  // those never read are 0
  detail::PageTable table;
  detail::List<std::int64_t> starts;  // n + 1
  std::int64_t batch = 0, keys = 0;

  PagedRows(const AnyPages& given, bool ragged) {
    const std::int64_t sequences = given.block_table.shape[0], size = given.keys.shape[2];
    table.page_size = size, table.pool = given.keys.shape[0];
    std::int64_t longest = 0, total = 0;
    detail::List<std::int64_t> used;
    for (const std::int64_t length : given.lengths) {
      PHASOR_CHECK(length >= 0, kFunction, "lengths: ", length, ", expected at least 0");
      used.push_back((length + size - 1) / size);
      starts.push_back(total * size);
      total += used.back(), longest = std::max(longest, length);
    }
    starts.push_back(total * size);
    const std::int64_t row = (longest + size - 1) / size;
    batch = ragged ? 1 : sequences, keys = ragged ? total * size : longest;
    table.pages_of_a_sequence = ragged ? total : row;
    pages.resize(static_cast<std::size_t>(ragged ? total : sequences * row));
    table.pages = pages.data();
    for (std::int64_t s = 0; s < sequences; s++) {
      const auto at = static_cast<std::size_t>(s);
      copy_row(given, s, used[at], pages.data() + (ragged ? starts[at] / size : s * row));
    }
  }

  PagedRows(const PagedRows&) = delete;

  detail::AnyView view(const detail::AnyView& pool) const {
    detail::AnyView x = pool;
    x.shape = {batch, x.shape[1], keys, x.shape[3]};
    x.pages = &table;
    return x;
  }
};

void check_lengths(std::span<const std::int64_t> given, std::span<const std::int64_t> lengths) {
  for (std::size_t s = 0; s < std::min(given.size(), lengths.size()); s++)
    PHASOR_CHECK(given[s] <= lengths[s], kFunction, "key_lengths: ", given[s], " for sequence ", s,
                 ", expected at most ", lengths[s], ", the tokens it has");
}

// Ragged queries: what has an axis of keys would be read at the rows of pages.
template <class T>
void check_ragged(const AttentionOptions& o, const AttentionOutput<T>& output, std::int64_t sequences) {
  PHASOR_CHECK(o.query_starts.size() == static_cast<std::size_t>(sequences) + 1, kFunction,
               "query_starts: ", o.query_starts.size(), " numbers, expected ", sequences + 1, ": block_table has ",
               sequences, " sequences");
  for (const auto& [name, given] : {std::pair{"mask", o.mask.visible.data || o.mask.added.data},
                                    {"block_mask", o.block_mask.has_value()},
                                    {"key_bias", o.key_bias.data != nullptr},
                                    {"k_rotary", o.k_rotary.has_value()},
                                    {"dropout", o.dropout > 0},
                                    {"weights", output.weights.data != nullptr}})
    PHASOR_CHECK(!given, kFunction, name, ": given with keys in pages and query_starts, expected without one of them");
}

template <class T>
void forward(const TensorView<const T, 4>& q, const AnyPages& pages, const AttentionOutput<T>& output,
             const AttentionOptions& options) {
  PHASOR_CHECK(options.key_starts.empty(), kFunction, "key_starts: given with keys in pages, expected block_table");
  check_pages(pages);
  const bool ragged = !options.query_starts.empty();
  const std::int64_t sequences = pages.block_table.shape[0];
  if (ragged)
    check_ragged(options, output, sequences);
  else
    PHASOR_CHECK(sequences == q.shape[0], kFunction, "block_table: shape ", shape_text(pages.block_table.shape),
                 ", expected ", q.shape[0], " sequences as q of shape ", shape_text(q.shape), " has");
  check_lengths(options.key_lengths, pages.lengths);
  const PagedRows rows(pages, ragged);
  AttentionOptions filled = options;
  detail::List<std::int64_t> offsets;
  for (std::size_t s = 0; s < pages.lengths.size(); s++)
    offsets.push_back(pages.lengths[s] - (ragged ? options.query_starts[s + 1] - options.query_starts[s] : q.shape[2]));
  if (options.key_lengths.empty()) filled.key_lengths = pages.lengths;
  if (options.query_offsets.empty()) filled.query_offsets = offsets;
  if (ragged) filled.key_starts = rows.starts;
  const detail::TensorNames names{.k = "keys", .v = "values"};
  const detail::AttentionCall call =
      detail::make_call(kFunction, q, rows.view(pages.keys), rows.view(pages.values), filled, names);
  const detail::ForwardOutput any{output.out, output.lse, output.softmax, output.weights};
  detail::check_forward(kFunction, call, any);
  detail::forward(call, any);
}

template <class T>
void forward(const TensorView<const T, 4>& q, const PagedKvCache& cache, const AttentionOutput<T>& output,
             const AttentionOptions& options) {
  PHASOR_CHECK(!options.k_rotary || cache.config().keys == CachedKeys::unrotated, kFunction,
               "k_rotary: given with a cache of rotated keys, expected none");
  forward(q, AnyPages(cache), output, options);
}

}  // namespace

template <CacheElement T>
void attention_forward(TensorView<const float, 4> q, const KvPages<T>& pages, const AttentionOutput<float>& output,
                       const AttentionOptions& options) {
  forward(q, AnyPages(pages), output, options);
}
template <CacheElement T>
void attention_forward(TensorView<const bf16, 4> q, const KvPages<T>& pages, const AttentionOutput<bf16>& output,
                       const AttentionOptions& options) {
  forward(q, AnyPages(pages), output, options);
}
template <CacheElement T>
void attention_forward(TensorView<const f16, 4> q, const KvPages<T>& pages, const AttentionOutput<f16>& output,
                       const AttentionOptions& options) {
  forward(q, AnyPages(pages), output, options);
}
void attention_forward(TensorView<const float, 4> q, const PagedKvCache& cache, const AttentionOutput<float>& output,
                       const AttentionOptions& options) {
  forward(q, cache, output, options);
}
void attention_forward(TensorView<const bf16, 4> q, const PagedKvCache& cache, const AttentionOutput<bf16>& output,
                       const AttentionOptions& options) {
  forward(q, cache, output, options);
}
void attention_forward(TensorView<const f16, 4> q, const PagedKvCache& cache, const AttentionOutput<f16>& output,
                       const AttentionOptions& options) {
  forward(q, cache, output, options);
}

#define PHASOR_INSTANTIATE(U, T)                                                                           \
  template void attention_forward<T>(TensorView<const U, 4>, const KvPages<T>&, const AttentionOutput<U>&, \
                                     const AttentionOptions&)
#define PHASOR_INSTANTIATE_QUERIES(T) \
  PHASOR_INSTANTIATE(float, T);       \
  PHASOR_INSTANTIATE(bf16, T);        \
  PHASOR_INSTANTIATE(f16, T)
PHASOR_INSTANTIATE_QUERIES(float);
PHASOR_INSTANTIATE_QUERIES(bf16);
PHASOR_INSTANTIATE_QUERIES(f16);
PHASOR_INSTANTIATE_QUERIES(std::int8_t);
#undef PHASOR_INSTANTIATE_QUERIES
#undef PHASOR_INSTANTIATE

}  // namespace phasor
