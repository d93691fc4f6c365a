#include "multiply.h"

#include <algorithm>

#include "blocking.h"
#include "few_rows.h"
#include "kernels.h"
#include "phasor/core/parallel.h"
#include "scratch/scratch.h"

namespace phasor::products {
namespace {

using detail::Arena;

// Depth that a task packs where b is stored by rows: eight tasks for each slice. A multiple of every depth_unit.
constexpr std::int64_t kPackedDepth = 64;

void check(const Product& product) {
  const auto& [a, b, c, accumulate, bias, precision] = product;
  PHASOR_CHECK(a.shape[1] == b.shape[0] && c.shape == Shape<2>({a.shape[0], b.shape[1]}), "multiply",
               "shapes: ", shape_text(a.shape), " by ", shape_text(b.shape), " into ", shape_text(c.shape),
               ", expected [M, K] by [K, N] into [M, N]");
  const auto stored = [](const Operand& x) { return is_contiguous_along(x, 0) || is_contiguous_along(x, 1); };
  PHASOR_CHECK(stored(a) && stored(b) && c.has_contiguous_rows(), "multiply",
               "strides: none is 1, expected contiguous rows or columns, and contiguous rows of the result");
  PHASOR_CHECK(bias.empty() || static_cast<std::int64_t>(bias.size()) == c.shape[1], "multiply", "bias: ", bias.size(),
               " elements, expected ", c.shape[1]);
}

// The product of a depth of 0. The operands may have no memory, not even an address.
void add_bias_only(const Product& product) {
  for (std::int64_t i = 0; i < product.rows(); i++)
    for (std::int64_t j = 0; j < product.columns(); j++) {
      const float before = product.accumulate ? product.c(i, j) : 0.0f;
      product.c(i, j) = before + (product.bias.empty() ? 0.0f : product.bias[static_cast<std::size_t>(j)]);
    }
}

// One parallel region after the other: it packs a part of b, unless tasks do, then multiplies with it, block by block.
class PackedProduct {
 public:
  explicit PackedProduct(const Product& product)
      : product_(product), kernels_(kernels_for(product)), blocking_(choose_blocking(product, kernels_)) {}

  void run() const {
    for_each_part({0, product_.depth()}, blocking_.region_depth, [&](const Range& depth) {
      for_each_part({0, product_.columns()}, blocking_.region_columns,
                    [&](const Range& columns) { run_region(columns, depth); });
    });
  }

 private:
  void run_region(const Range& columns, const Range& depth) const {
    Arena arena;
    const PackedOperand b = blocking_.shares_b ? pack_shared_b(columns, depth, arena) : PackedOperand{};
    const Range rows{0, product_.rows()};
    const std::int64_t row_blocks = ceil_div(rows.count, blocking_.block_rows);
    parallel_for(row_blocks * ceil_div(columns.count, blocking_.block_columns), [&](std::int64_t i) {
      const Block block{part_of(rows, blocking_.block_rows, i % row_blocks),
                        part_of(columns, blocking_.block_columns, i / row_blocks)};
      multiply_block(block, depth, b);
    });
  }

  // Each task reads b in the order of its memory: a part of the depth for all columns, or a unit of columns for the
  // whole depth.
  PackedOperand pack_shared_b(const Range& columns, const Range& depth, Arena& arena) const {
    const std::int64_t unit = kernels_.column_unit;
    const PackedOperand packed{allocate(arena, columns.count, unit, depth.count), columns.first, depth};
    if (is_contiguous_along(product_.b, 1))
      parallel_for(ceil_div(depth.count, kPackedDepth), [&](std::int64_t i) {
        kernels_.pack_b(product_.b, columns, part_of(depth, kPackedDepth, i), packed);
      });
    else
      parallel_for(ceil_div(columns.count, unit),
                   [&](std::int64_t i) { kernels_.pack_b(product_.b, part_of(columns, unit, i), depth, packed); });
    return packed;
  }

  // One slice of the depth after the other. What no other task uses is packed here.
  void multiply_block(const Block& block, const Range& depth, const PackedOperand& shared_b) const {
    const bool packs_a = blocking_.packs_a, packs_b = !blocking_.shares_b;
    const std::int64_t most = std::min(depth.count, kDepthSlice);
    Arena arena;
    std::byte* own_a = packs_a ? allocate(arena, block.rows.count, kernels_.row_unit, most) : nullptr;
    std::byte* own_b = packs_b ? allocate(arena, block.columns.count, kernels_.column_unit, most) : nullptr;
    for_each_part(depth, kDepthSlice, [&](const Range& slice) {
      const PackedOperand a{own_a, block.rows.first, slice};
      const PackedOperand b = packs_b ? PackedOperand{own_b, block.columns.first, slice} : shared_b;
      if (packs_a) kernels_.pack_a(product_.a, block.rows, slice, a);
      if (packs_b) kernels_.pack_b(product_.b, block.columns, slice, b);
      kernels_.multiply_block(product_, block, slice, a, b);
    });
  }

  // Memory for rows or columns in units of the given size.
  std::byte* allocate(Arena& arena, std::int64_t count, std::int64_t unit, std::int64_t depth) const {
    const std::int64_t elements = round_up(count, unit) * round_up(depth, kernels_.depth_unit);
    const std::int64_t floats = ceil_div(elements * kernels_.packed_bytes, sizeof(float));
    return reinterpret_cast<std::byte*>(arena.take(static_cast<std::size_t>(floats)));
  }

  const Product& product_;
  const Kernels kernels_;
  const Blocking blocking_;
};

// Kernels of floats read a as it is stored, so an a of bf16 is widened first.
void multiply_packed(const Product& product) {
  if (!product.a.is_bf16 || kernels_for(product).takes_bf16_a) return PackedProduct(product).run();
  const bool by_rows = is_contiguous_along(product.a, 1);
  const TensorView<const bf16, 2> a = product.a.view<bf16>(), lines = by_rows ? a : a.transposed(0, 1);
  Arena arena;
  const TensorView<float, 2> wide(arena.take(static_cast<std::size_t>(a.size())), lines.shape);
  const auto length = static_cast<std::size_t>(lines.shape[1]);
  parallel_for(lines.shape[0],
               [&](std::int64_t i) { convert(std::span(lines[i].data, length), std::span(wide[i].data, length)); });
  Product widened = product;
  widened.a = by_rows ? wide : wide.transposed(0, 1);
  PackedProduct(widened).run();
}

}  // namespace

void multiply(std::span<const Product> products) {
  for (const Product& product : products) check(product);
  if (std::ranges::all_of(products, has_few_rows)) return multiply_few_rows(products);
  for (const Product& product : products) {
    if (product.c.size() == 0) continue;
    if (product.depth() == 0)
      add_bias_only(product);
    else if (has_few_rows(product))
      multiply_few_rows({&product, 1});
    else
      multiply_packed(product);
  }
}

void multiply(const Product& product) { multiply(std::span(&product, 1)); }

}  // namespace phasor::products
