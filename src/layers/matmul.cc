#include "matmul.h"

#include <algorithm>

#include "matmul_kernels.h"
#include "phasor/core/parallel.h"
#include "simd/amx.h"
#include "scratch/scratch.h"

namespace phasor::detail {
namespace {

// Blocks of c, one task each: rows in tiles, columns in whole panels. The bits of c depend only on how the depth is
// split, not on the blocks.
constexpr std::int64_t kBlockRows = 192, kBlockColumns = 256;
// A task that packs its rows of a has fewer rows, and as many columns as leave enough tasks for all threads.
constexpr std::int64_t kTasksOfAThread = 5;
// Few rows, as in decoding: the time is that of reading b, so a task has about so many floats of it.
constexpr std::int64_t kFewRows = 4, kFewRowsFloats = std::int64_t{1} << 15;
// For products smaller than this in one dimension, splitting floats into tiles costs more than it gains.
constexpr std::int64_t kLeastOfTiles = 64;
// Products this small are not worth waking a thread.
constexpr std::int64_t kSmall = std::int64_t{1} << 17;

// Floats of b that are packed at once, in whole slices of the depth. For weight gradients, pack one depth slice at a
// time: b is a batch, so it is large, and packed data should still be in cache when it is used.
constexpr std::int64_t kSharedFloats = std::int64_t{1} << 20;
// Depth steps that one task packs.
constexpr std::int64_t kPackedSteps = 64;

std::int64_t parts(std::int64_t count, std::int64_t part) { return (count + part - 1) / part; }

// Block size, a multiple of the unit, that gives ceil(count / part) nearly equal blocks.
std::int64_t even_part(std::int64_t count, std::int64_t part, std::int64_t unit) {
  return parts(parts(count, parts(count, part)), unit) * unit;
}

void check_operands(const MatmulJob& job) {
  const TensorView<const float, 2>&a = job.a, &b = job.b;
  PHASOR_CHECK(a.shape[1] == b.shape[0] && job.c.shape == Shape<2>({a.shape[0], b.shape[1]}), "matmul",
               "shapes: ", shape_text(a.shape), " by ", shape_text(b.shape), " into ", shape_text(job.c.shape),
               ", expected [M, K] by [K, N] into [M, N]");
  const auto stored = [](const TensorView<const float, 2>& x) {
    return is_contiguous_along(x, 0) || is_contiguous_along(x, 1);
  };
  PHASOR_CHECK(stored(a) && stored(b) && job.c.has_contiguous_rows(), "matmul",
               "strides: none is 1, expected contiguous rows or columns, and contiguous rows of the result");
}

// A depth of 0. The operands may have no memory then, not even an address.
void add_bias_only(const MatmulJob& job) {
  for (std::int64_t i = 0; i < job.c.shape[0]; i++)
    for (std::int64_t j = 0; j < job.c.shape[1]; j++)
      job.c(i, j) = (job.into == Into::add ? job.c(i, j) : 0.0f) + (job.bias ? job.bias[j] : 0.0f);
}

std::int64_t multiplications(const MatmulJob& job) { return job.c.shape[0] * job.c.shape[1] * job.depth(); }

bool has_few_rows(const MatmulJob& job) {
  return multiplications(job) > 0 && job.c.shape[0] <= kFewRows && is_contiguous_along(job.b, 0) &&
         is_contiguous_along(job.a, 1);
}

// Columns of c that a task makes; the kernel makes four at once.
std::int64_t few_rows_width(const MatmulJob& job) {
  return std::max<std::int64_t>(4, kFewRowsFloats / std::max<std::int64_t>(1, job.depth()) / 4 * 4);
}

// The tasks of all jobs, one job after the other.
void multiply_few_rows(std::span<const MatmulJob> jobs) {
  const auto tasks_of = [](const MatmulJob& job) { return parts(job.c.shape[1], few_rows_width(job)); };
  std::int64_t tasks = 0, work = 0;
  for (const MatmulJob& job : jobs) tasks += tasks_of(job), work += multiplications(job);
  const auto kernel = fma_kernels().multiply_few_rows;
  const auto task = [&](std::int64_t i) {
    const MatmulJob* job = jobs.data();
    for (; i >= tasks_of(*job); job++) i -= tasks_of(*job);
    const std::int64_t width = few_rows_width(*job), first = i * width;
    kernel(*job, {0, job->c.shape[0], first, std::min(width, job->c.shape[1] - first)});
  };
  if (work > kSmall) return parallel_for(tasks, task);
  for (std::int64_t i = 0; i < tasks; i++) task(i);
}

// b is packed by all threads, then used by all. Where one block has all rows of c, as with few tokens, a task packs its
// columns of b for itself, and uses them while in cache; so it does with its rows of a, where these are packed at all.
class PackedProduct {
 public:
  PackedProduct(const MatmulJob& job, const MatmulKernels& kernels, bool small)
      : job_(job), kernels_(kernels), packs_a_(kernels.always_packs_rows || !is_contiguous_along(job.a, 1)) {
    const auto [rows, columns] = job.c.shape;
    const std::int64_t usual = packs_a_ ? kernels.packed_rows : kBlockRows;
    block_.rows = small || rows <= kBlockRows ? rows : even_part(rows, usual, kernels.rows);
    block_.columns = small ? columns : kBlockColumns;
    shares_b_ = rows > block_.rows;
    const auto tasks = [&, rows = rows, columns = columns](std::int64_t width) {
      return parts(rows, block_.rows) * parts(columns, width);
    };
    while (packs_a_ && block_.columns < columns && tasks(2 * block_.columns) >= kTasksOfAThread * num_threads())
      block_.columns *= 2;
  }

  void run() const {
    const auto [rows, columns] = job_.c.shape;
    const std::int64_t width = shares_b_ ? std::min(columns, kSharedFloats / kMatmulDepth) : columns;
    const std::int64_t parts_of_depth = packs_a_ ? 1 : std::max(kSharedFloats / width / kMatmulDepth, std::int64_t{1});
    for_each_part({0, job_.depth()}, parts_of_depth * kMatmulDepth,
                  [&, rows = rows, columns = columns](const MatmulSteps& steps) {
                    for (std::int64_t column = 0; column < columns; column += width)
                      multiply({0, rows, column, std::min(width, columns - column)}, steps);
                  });
  }

 private:
  // Calls body with at most this many steps at a time, in order.
  template <class Body>
  static void for_each_part(const MatmulSteps& steps, std::int64_t most, const Body& body) {
    for (std::int64_t done = 0; done < steps.count; done += most)
      body(MatmulSteps{steps.first + done, std::min(most, steps.count - done)});
  }

  // Memory for this many rows or columns, in units of that size.
  float* take(Arena& arena, std::int64_t count, std::int64_t unit, std::int64_t steps) const {
    const std::int64_t elements = parts(count, unit) * unit * parts(steps, kernels_.steps) * kernels_.steps;
    return arena.take(static_cast<std::size_t>(parts(elements * kernels_.bytes, sizeof(float))));
  }

  // Memory is read in its own order: some steps of all columns, or all steps of some columns.
  PackedOperand pack_b(const MatmulPart& whole, Arena& arena) const {
    const auto [first, columns, steps] = whole;
    const std::int64_t unit = kernels_.columns;
    const PackedOperand b{take(arena, columns, unit, steps.count), first, steps};
    const bool by_steps = is_contiguous_along(job_.b, 1);
    parallel_for(by_steps ? parts(steps.count, kPackedSteps) : parts(columns, unit), [&](std::int64_t i) {
      MatmulPart part = whole;
      if (by_steps)
        part.steps = {part.steps.first + i * kPackedSteps, std::min(kPackedSteps, part.steps.count - i * kPackedSteps)};
      else
        part.first += i * unit, part.count = std::min(unit, part.count - i * unit);
      kernels_.pack_columns(job_, part, b);
    });
    return b;
  }

  void multiply(const MatmulBlock& all, const MatmulSteps& steps) const {
    Arena arena;
    const PackedOperand b = shares_b_ ? pack_b({all.first_column, all.columns, steps}, arena) : PackedOperand{};
    const std::int64_t down = parts(all.rows, block_.rows);
    parallel_for(down * parts(all.columns, block_.columns), [&](std::int64_t i) {
      const std::int64_t row = i % down * block_.rows, column = i / down * block_.columns;
      multiply_block({all.first_row + row, std::min(block_.rows, all.rows - row), all.first_column + column,
                      std::min(block_.columns, all.columns - column)},
                     steps, b);
    });
  }

  void multiply_block(const MatmulBlock& block, const MatmulSteps& steps, const PackedOperand& shared_b) const {
    Arena arena;
    const std::int64_t depth = std::min(steps.count, kMatmulDepth);
    float* own_a = packs_a_ ? take(arena, block.rows, kernels_.rows, depth) : nullptr;
    float* own_b = shares_b_ ? nullptr : take(arena, block.columns, kernels_.columns, depth);
    for_each_part(steps, kMatmulDepth, [&](const MatmulSteps& part) {
      const PackedOperand a{own_a, block.first_row, part};
      const PackedOperand b = shares_b_ ? shared_b : PackedOperand{own_b, block.first_column, part};
      if (packs_a_) kernels_.pack_rows(job_, {block.first_row, block.rows, part}, a);
      if (!shares_b_) kernels_.pack_columns(job_, {block.first_column, block.columns, part}, b);
      kernels_.multiply_block(job_, block, part, a, b);
    });
  }

  const MatmulJob& job_;
  const MatmulKernels kernels_;
  bool packs_a_, shares_b_ = false;
  MatmulBlock block_;  // the size of one
};

MatmulKernels kernels_for(const MatmulJob& job) {
  const std::int64_t least = std::min({job.c.shape[0], job.c.shape[1], job.depth()});
  return uses_amx() && least >= kLeastOfTiles ? amx_kernels() : fma_kernels();
}

void multiply(const MatmulJob& job) {
  if (job.c.size() == 0) return;
  if (job.depth() == 0) return add_bias_only(job);
  if (has_few_rows(job)) return multiply_few_rows({&job, 1});
  PackedProduct(job, kernels_for(job), multiplications(job) <= kSmall).run();
}

}  // namespace

void matmul(std::span<const MatmulJob> jobs) {
  for (const MatmulJob& job : jobs) check_operands(job);
  if (std::ranges::all_of(jobs, has_few_rows)) return multiply_few_rows(jobs);
  for (const MatmulJob& job : jobs) multiply(job);
}

void matmul(TensorView<const float, 2> a, TensorView<const float, 2> b, TensorView<float, 2> c, Into into,
            std::span<const float> bias) {
  const MatmulJob job{a, b, c, into, bias.empty() ? nullptr : bias.data()};
  matmul({&job, 1});
}

}  // namespace phasor::detail
