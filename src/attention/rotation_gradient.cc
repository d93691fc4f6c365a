#include "rotation_gradient.h"

#include <algorithm>

#include "job.h"
#include "row_blocks.h"
#include "rows.h"

namespace phasor::detail {
namespace {

// Sums of one row of the table.
struct TableSums {
  List<double> cos, sin;
  explicit TableSums(std::int64_t pairs) : cos(static_cast<std::size_t>(pairs)), sin(static_cast<std::size_t>(pairs)) {}
};

void add_row(Pairing pairing, const float* x, const float* gradient, TableSums& sums) {
  const std::size_t pairs = sums.cos.size(), step = pairing == Pairing::half ? 1 : 2;
  const std::size_t other = pairing == Pairing::half ? pairs : 1;
  for (std::size_t i = 0; i < pairs; i++) {
    const double a = x[i * step], b = x[i * step + other], g = gradient[i * step], h = gradient[i * step + other];
    if (g == 0 && h == 0) continue;  // a hidden key may have NaN
    sums.cos[i] += g * a + h * b;
    sums.sin[i] += h * a - g * b;
  }
}

// The range of indices that share index i of a dimension of the table.
std::pair<std::int64_t, std::int64_t> sharing(std::int64_t table_size, std::int64_t size, std::int64_t i) {
  return table_size == 1 ? std::pair{std::int64_t{0}, size} : std::pair{i, i + 1};
}

void store_row(const TableSums& sums, const RotaryGradient& to, std::int64_t b, std::int64_t h, std::int64_t t) {
  for (std::size_t i = 0; i < sums.cos.size(); i++) {
    if (to.cos.data) to.cos(b, h, t, static_cast<std::int64_t>(i)) = static_cast<float>(sums.cos[i]);
    if (to.sin.data) to.sin(b, h, t, static_cast<std::int64_t>(i)) = static_cast<float>(sums.sin[i]);
  }
}

// A tensor rotated, as floats.
Scratch rotated(const AnyView& x, const RotaryView& table) {
  Scratch result(x.shape);
  for_row_blocks(x.shape, [&](const RowBlock& block) {
    read_rows(x, block.b, block.h, block.first, block.count, table, result.row(block.b, block.h, block.first),
              result.channels());
  });
  return result;
}

// One of q and k: what the kernel is given in its place, and the gradient that it gives back.
class RotatedTensor {
 public:
  RotatedTensor(std::optional<RotaryView>& rotation, AnyView& x, const RotaryGradient& wanted, AnyOutput& gradient)
      : wanted_(wanted), x_(x), output_(gradient) {
    if (!wanted.is_wanted()) return;
    table_ = rotation;
    rotated_ = rotated(x, *rotation);
    gradient_ = Scratch(x.shape);
    x = rotated_.view();
    gradient = gradient_.view();
    rotation.reset();
  }

  void finish() {
    if (!table_) return;
    rotation_gradient(x_, *table_, gradient_, wanted_);
    for_row_blocks(x_.shape, [&](const RowBlock& block) {
      const auto [b, h, first, count, index] = block;
      float* rows = gradient_.row(b, h, first);
      rotate_back(table_, b, h, first, count, x_.shape[3], rows, gradient_.channels());
      write_rows(output_, b, h, first, count, rows, gradient_.channels());
    });
  }

 private:
  RotaryGradient wanted_;
  AnyView x_;
  AnyOutput output_;
  std::optional<RotaryView> table_;
  Scratch rotated_, gradient_;
};

}  // namespace

void rotation_gradient(const AnyView& x, const RotaryView& table, const Scratch& gradient, const RotaryGradient& to) {
  const auto [batches, heads, tokens, pairs] = table.cos.shape;
  run_tasks(batches * heads * tokens, 8 * element_count(x.shape), [&](std::int64_t task) {
    const std::int64_t t = task % table.cos.shape[2], h = task / table.cos.shape[2] % table.cos.shape[1];
    const std::int64_t b = task / table.cos.shape[2] / table.cos.shape[1];
    TableSums sums(table.pairs());
    Arena arena;
    float* row = arena.take(static_cast<std::size_t>(x.shape[3]));
    const auto [first_b, end_b] = sharing(table.cos.shape[0], x.shape[0], b);
    const auto [first_h, end_h] = sharing(table.cos.shape[1], x.shape[1], h);
    for (std::int64_t i = first_b; i < end_b && t < x.shape[2]; i++)
      for (std::int64_t j = first_h; j < end_h; j++) {
        read_rows(x, i, j, t, 1, {}, row, x.shape[3]);
        add_row(table.pairing, row, gradient.row(i, j, t), sums);
      }
    store_row(sums, to, b, h, t);
  });
}

void backward_with_tables(const AttentionCall& call, const BackwardInput& input, const BackwardOutput& output) {
  if (!output.q_rotary.is_wanted() && !output.k_rotary.is_wanted()) return backward(call, input, output);
  AttentionCall rotated_call = call;
  BackwardOutput of_kernel = output;
  AttentionOptions& options = rotated_call.options;
  RotatedTensor q(options.q_rotary, rotated_call.q, output.q_rotary, of_kernel.q);
  RotatedTensor k(options.k_rotary, rotated_call.k, output.k_rotary, of_kernel.k);
  backward(rotated_call, input, of_kernel);
  q.finish();
  k.finish();
}

}  // namespace phasor::detail
