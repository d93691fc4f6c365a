#include "blocking.h"

#include <algorithm>

#include "phasor/core/parallel.h"

namespace phasor::products {
namespace {

// A block of c. 192 rows are whole tiles of 6 rows and of 32 (AMX), and a slice of them is 384 KiB, so it stays in the
// second-level cache for all columns of the block. 256 columns are whole panels of every target.
constexpr std::int64_t kBlockRows = 192, kBlockColumns = 256;

// With five tasks for each thread, the thread that ends last works about a fifth longer than the others at most.
constexpr std::int64_t kTasksPerThread = 5;

// Elements of b that are packed for all tasks at once: 4 MiB of floats, which stay in the last-level cache.
constexpr std::int64_t kSharedElements = std::int64_t{1} << 20;

// Block size that gives ceil(count / largest) nearly equal blocks of whole units.
std::int64_t even_block_size(std::int64_t count, std::int64_t largest, std::int64_t unit) {
  const std::int64_t blocks = ceil_div(count, largest);
  return round_up(ceil_div(count, blocks), unit);
}

std::int64_t choose_block_rows(std::int64_t rows, bool packs_a, const Kernels& kernels) {
  if (rows <= kBlockRows) return rows;
  return even_block_size(rows, packs_a ? kernels.packed_rows : kBlockRows, kernels.row_unit);
}

// A task packs its rows of a again for each block of columns. So its blocks are as wide as leaves enough tasks.
std::int64_t choose_block_columns(std::int64_t columns, bool packs_a, std::int64_t row_blocks) {
  std::int64_t width = kBlockColumns;
  if (!packs_a) return width;
  const std::int64_t least_tasks = kTasksPerThread * num_threads();
  while (width < columns && row_blocks * ceil_div(columns, 2 * width) >= least_tasks) width *= 2;
  return width;
}

// For weight gradients, pack one depth slice at a time: there b is a batch, which is large, and a is packed too. On
// AMX, which always packs a, this holds for all products.
std::int64_t choose_region_depth(std::int64_t region_columns, bool packs_a) {
  if (packs_a) return kDepthSlice;
  const std::int64_t slices = kSharedElements / region_columns / kDepthSlice;
  return std::max(slices, std::int64_t{1}) * kDepthSlice;
}

}  // namespace

Blocking choose_blocking(const Product& product, const Kernels& kernels) {
  const std::int64_t rows = product.rows(), columns = product.columns();
  const bool packs_a = kernels.always_packs_a || !is_contiguous_along(product.a, 1);
  Blocking blocking{.packs_a = packs_a, .block_rows = rows, .block_columns = columns};
  if (product.multiplications() > kSmallProduct) {
    blocking.block_rows = choose_block_rows(rows, packs_a, kernels);
    blocking.block_columns = choose_block_columns(columns, packs_a, ceil_div(rows, blocking.block_rows));
  }
  // With one block of rows, each column of b has one user. The task packs it, and uses it while it is in its cache.
  blocking.shares_b = rows > blocking.block_rows;
  blocking.region_columns = blocking.shares_b ? std::min(columns, kSharedElements / kDepthSlice) : columns;
  blocking.region_depth = choose_region_depth(blocking.region_columns, packs_a);
  return blocking;
}

}  // namespace phasor::products
