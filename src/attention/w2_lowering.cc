#include "w2_lowering.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rows.h"
#include "scratch/scratch.h"
#include "w2_rows.h"

namespace phasor::detail {

namespace {

Shape<4> with_channels(const Shape<4>& shape, std::int64_t channels) {
  return {shape[0], shape[1], shape[2], channels};
}

// Rows first .. end - 1 of the means, rotated, and of sigma, into rows that are `stride` apart.
void read_gaussians(const StreamsView& streams, const std::optional<RotaryView>& rotation, std::int64_t b,
                    std::int64_t h, std::int64_t first, std::int64_t end, float* to, std::int64_t stride) {
  const std::int64_t channels = streams.mu.shape[3];
  read_rows(streams.mu, b, h, first, end - first, rotation, to, stride);
  read_rows(streams.log_sigma, b, h, first, end - first, {}, to + channels, stride);
  sigma_of_rows(end - first, channels, to + channels, stride);
}

// Keys that are in some sequence and within its length; the others become 0. Those may be memory that was never
// written, and their NaN must not reach a score.
void read_keys(const W2Problem& problem, const RowBlock& block, const Scratch& k) {
  const AttentionOptions& options = problem.means.options;
  const bool ragged = !options.query_starts.empty() || !options.key_starts.empty();
  std::span<const Sequence> sequences = problem.means.sequences;
  if (!ragged) sequences = sequences.subspan(static_cast<std::size_t>(block.b), 1);
  const std::int64_t end = block.first + block.count;
  std::int64_t at = block.first;
  const auto clear_until = [&](std::int64_t key) {
    std::fill_n(k.row(block.b, block.h, at), (key - at) * k.channels(), 0.0f);
  };
  const auto begin =
      std::ranges::partition_point(sequences, [&](const Sequence& s) { return s.first_key + s.keys <= block.first; });
  for (auto s = begin; s != sequences.end() && s->first_key < end; s++) {
    const std::int64_t low = std::max(s->first_key, at), high = std::min(s->first_key + s->keys, end);
    if (low >= high) continue;
    clear_until(low);
    read_gaussians(problem.k, options.k_rotary, block.b, block.h, low, high, k.row(block.b, block.h, low),
                   k.channels());
    at = high;
  }
  clear_until(end);
}

// Rows of some keys of a batch entry and key head, about kSampled of them, evenly spaced.
List<float> sample_keys(const W2Problem& problem, std::int64_t b, std::int64_t g) {
  constexpr std::int64_t kSampled = 128;
  std::int64_t keys = 0;
  for (const Sequence& s : problem.means.sequences) keys += s.batch == b ? s.keys : 0;
  const std::int64_t step = std::max<std::int64_t>(1, keys / kSampled), channels = problem.stream_channels();
  List<float> rows;
  for (const Sequence& s : problem.means.sequences) {
    if (s.batch != b) continue;
    for (std::int64_t j = s.first_key; j < s.first_key + s.keys; j += step) {
      rows.resize(rows.size() + static_cast<std::size_t>(channels));
      read_gaussians(problem.k, problem.means.options.k_rotary, b, g, j, j + 1, &rows.back() - (channels - 1),
                     channels);
    }
  }
  return rows;
}

// The largest channel; infinite for a row with NaN.
float magnitude(const float* row, std::int64_t channels) {
  float largest = 0;
  for (std::int64_t c = 0; c < channels; c++)
    largest = std::isnan(row[c]) ? std::numeric_limits<float>::infinity() : std::max(largest, std::fabs(row[c]));
  return largest;
}

// Drops the rows that are much larger than the lower quartile. A mask may hide keys that hold anything: these must not
// reach the queries that do not see them.
void keep_usual_rows(List<float>& rows, std::int64_t channels) {
  constexpr float kMuchLarger = 16.0f;
  const auto width = static_cast<std::ptrdiff_t>(channels);
  const std::size_t count = rows.size() / static_cast<std::size_t>(channels);
  if (count == 0) return;
  List<float> magnitudes(count);
  for (std::size_t i = 0; i < count; i++)
    magnitudes[i] = magnitude(&rows[i * static_cast<std::size_t>(channels)], channels);
  List<float> sorted = magnitudes;
  const auto quartile = sorted.begin() + static_cast<std::ptrdiff_t>(count / 4);
  std::ranges::nth_element(sorted, quartile);
  const float most = std::min(kMuchLarger * *quartile, 1e15f);  // the squares of 1e15 are far from the largest float
  auto end = rows.begin(), row = rows.begin();
  for (std::size_t i = 0; i < count; i++, row += width)
    if (magnitudes[i] <= most) end = end == row ? row + width : std::copy_n(row, width, end);
  rows.erase(end, rows.end());
}

// middle = the mean of the rows, or 0 without rows.
void mean_of_rows(const List<float>& rows, std::int64_t channels, float* middle) {
  const auto width = static_cast<std::size_t>(channels), count = rows.size() / width;
  for (std::size_t at = 0; at < rows.size(); at++) middle[at % width] += rows[at];
  for (std::size_t c = 0; c < width && count > 0; c++) middle[c] /= static_cast<float>(count);
}

// Numbers of bf16 minus the middle are bf16 again, so that nothing is rounded, where the middle is bf16 and neither is
// more than twice the other (Sterbenz). Channels of the means that have other numbers, as those around 0, keep them:
// their middle is 0.
void make_differences_exact(const List<float>& rows, std::int64_t channels, std::int64_t means, float* middle) {
  for (std::int64_t c = 0; c < means; c++) {
    const auto rounded = static_cast<float>(bf16(middle[c]));
    bool exact = true;
    for (std::size_t at = static_cast<std::size_t>(c); at < rows.size(); at += static_cast<std::size_t>(channels)) {
      const float x = rows[at] * std::copysign(1.0f, rounded), y = std::fabs(rounded);
      exact = exact && x >= y / 2 && x <= 2 * y;
    }
    middle[c] = exact ? rounded : 0.0f;
  }
}

// c of each batch entry and key head [B, G, 1, 2D]. Any c is right, and one near the mean of the keys keeps products
// small. Reading all keys for it would take as long as lowering them, so it is the mean of a sample.
ScratchZeros<float, 4> middle_keys(const W2Problem& problem) {
  const AttentionCall& call = problem.means;
  const std::int64_t channels = problem.stream_channels();
  ScratchZeros<float, 4> result({call.batch, call.key_heads, 1, channels});
  parallel_for(call.batch * call.key_heads, [&](std::int64_t task) {
    const std::int64_t b = task / call.key_heads, g = task % call.key_heads;
    List<float> rows = sample_keys(problem, b, g);
    keep_usual_rows(rows, channels);
    float* middle = &result(b, g, 0, 0);
    mean_of_rows(rows, channels, middle);
    if (problem.is_narrow) make_differences_exact(rows, channels, problem.means.channels, middle);
  });
  return result;
}

// A number that may exceed the range of float; the result is finite.
float rounded(double x) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(x, -kMost, kMost));
}

// -norm / 2 as channels of a row, which the other side's ones multiply, and the ones for its norm.
void store_norm(const W2Problem& problem, double norm, float* norms, float* ones) {
  constexpr double kMostNarrow = 0x1.fep127;  // of bf16
  double rest = problem.is_narrow ? std::clamp(-norm / 2, -kMostNarrow, kMostNarrow) : -norm / 2;
  for (std::int64_t part = 0; part < problem.norm_channels(); part++) {
    ones[part] = 1;
    norms[part] = rounded(rest);
    if (problem.is_narrow) norms[part] = static_cast<float>(bf16(norms[part]));
    rest -= norms[part];
  }
}

// k~, and its norm as a channel or in the key bias.
void lower_keys(const W2Problem& problem, const ScratchZeros<float, 4>& middle, W2Lowered& lowered) {
  const Scratch& k = lowered.k;
  const std::int64_t channels = problem.stream_channels();
  for_row_blocks(k.view().shape, [&](const RowBlock& block) {
    const auto [b, g, first, count, index] = block;
    read_keys(problem, block, k);
    subtract_from_rows(&middle(b, g, 0, 0), count, channels, k.row(b, g, first), k.channels());
    if (problem.is_narrow) round_rows_to_bf16(count, channels, k.row(b, g, first), k.channels());
    for (std::int64_t j = first; j < first + count; j++) {
      float* row = k.row(b, g, j);
      const double norm = dot(row, row, channels);
      if (problem.has_whole_scores()) {
        store_norm(problem, norm, row + channels + problem.norm_channels(), row + channels);
      } else {
        lowered.key_bias(b, g, j) = rounded(-problem.t * norm);
        if (problem.sums_rows) row[channels] = 1;
      }
    }
  });
}

// q~ of a block, in rows that are `stride` apart.
void read_queries(const W2Problem& problem, const ScratchZeros<float, 4>& middle, const RowBlock& block, float* rows,
                  std::int64_t stride) {
  const auto [b, h, first, count, index] = block;
  read_gaussians(problem.q, problem.means.options.q_rotary, b, h, first, first + count, rows, stride);
  subtract_from_rows(&middle(b, h / problem.means.group(), 0, 0), count, problem.stream_channels(), rows, stride);
  if (problem.is_narrow) round_rows_to_bf16(count, problem.stream_channels(), rows, stride);
}

void lower_queries(const W2Problem& problem, W2Lowered& lowered) {
  const Scratch& q = lowered.q;
  const std::int64_t channels = problem.stream_channels();
  for_row_blocks(q.view().shape, [&](const RowBlock& block) {
    const auto [b, h, first, count, index] = block;
    read_queries(problem, lowered.middle, block, q.row(b, h, first), q.channels());
    if (lowered.query_terms.empty() && !problem.has_whole_scores() && !problem.sums_rows) return;
    for (std::int64_t i = first; i < first + count; i++) {
      float* row = q.row(b, h, i);
      const double norm = dot(row, row, channels);
      if (problem.has_whole_scores()) {
        store_norm(problem, norm, row + channels, row + channels + problem.norm_channels());
      } else {
        if (!lowered.query_terms.empty()) lowered.query_terms(b, h, i) = problem.t * norm;
        if (problem.sums_rows) row[channels] = 0;
      }
    }
  });
}

// Only the terms of the log-sum-exps, where the kernel reads q itself.
void measure_queries(const W2Problem& problem, W2Lowered& lowered) {
  const std::int64_t channels = problem.stream_channels();
  for_row_blocks(problem.means.q.shape, [&](const RowBlock& block) {
    Arena arena;
    float* rows = arena.take(static_cast<std::size_t>(kRowsOfABlock * channels));
    read_queries(problem, lowered.middle, block, rows, channels);
    for (std::int64_t i = 0; i < block.count; i++)
      lowered.query_terms(block.b, block.h, block.first + i) =
          problem.t * dot(rows + i * channels, rows + i * channels, channels);
  });
}

// The call of the kernel on k~ where q and v are read as two streams.
AttentionCall streamed_call(const char* function, const W2Problem& problem, const W2Lowered& lowered,
                            const AttentionOptions& options) {
  AttentionCall call = make_call(function, problem.q.mu, problem.k.mu, problem.v.mu, options, kMeans);
  call.second_q = problem.q.log_sigma;
  call.middle = lowered.middle.view();
  call.k = lowered.k.view();
  call.channels = problem.stream_channels();
  call.second_v = problem.v.log_sigma;
  return call;
}

}  // namespace

Scratch side_by_side(const StreamsView& streams) {
  Scratch result(with_channels(streams.mu.shape, 2 * streams.mu.shape[3]));
  for_row_blocks(result.view().shape, [&](const RowBlock& block) {
    const auto [b, h, first, count, index] = block;
    float* rows = result.row(b, h, first);
    read_rows(streams.mu, b, h, first, count, {}, rows, result.channels());
    read_rows(streams.log_sigma, b, h, first, count, {}, rows + streams.mu.shape[3], result.channels());
  });
  return result;
}

void differentiate_sigma(const AnyView& log_sigma, const RowBlock& block, const Scratch& gradient) {
  const auto [b, h, first, count, index] = block;
  const std::int64_t channels = log_sigma.shape[3];
  Arena arena;
  float* sigma = arena.take(static_cast<std::size_t>(kRowsOfABlock * channels));
  read_rows(log_sigma, b, h, first, count, {}, sigma, channels);
  sigma_of_rows(count, channels, sigma, channels);
  for (std::int64_t i = 0; i < count; i++)
    multiply_by_half(sigma + i * channels, channels, gradient.row(b, h, first + i) + channels);
}

void split_block(const Scratch& rows, const RowBlock& block, const StreamsOutput& streams) {
  const auto [b, h, first, count, index] = block;
  const float* from = rows.row(b, h, first);
  write_rows(streams.mu, b, h, first, count, from, rows.channels());
  write_rows(streams.log_sigma, b, h, first, count, from + streams.mu.shape[3], rows.channels());
}

void split(const Scratch& rows, const StreamsOutput& streams) {
  for_row_blocks(rows.view().shape, [&](const RowBlock& block) { split_block(rows, block, streams); });
}

W2Lowered lower(const char* function, const W2Problem& problem, bool with_query_terms, StreamLayout layout) {
  const AttentionCall& means = problem.means;
  W2Lowered lowered;
  const bool whole = problem.has_whole_scores(), streamed = layout == StreamLayout::apart;
  lowered.k = Scratch(with_channels(means.k.shape, problem.lowered_channels()));
  if (!whole) lowered.key_bias = ScratchZeros<float, 3>({means.batch, means.key_heads, means.keys});
  if (with_query_terms && !whole)
    lowered.query_terms = ScratchZeros<double, 3>({means.batch, means.heads, means.queries});
  lowered.middle = middle_keys(problem);
  lower_keys(problem, lowered.middle, lowered);

  AttentionOptions options = means.options;
  options.scale = 2 * problem.t;
  options.precision = problem.is_narrow ? Precision::bf16 : Precision::float32;
  if (!whole) options.key_bias = std::as_const(lowered.key_bias).view();
  options.k_rotary.reset();
  if (streamed && !whole) {
    if (with_query_terms) measure_queries(problem, lowered);
    lowered.call = streamed_call(function, problem, lowered, options);
    return lowered;
  }
  lowered.q = Scratch(with_channels(means.q.shape, problem.lowered_channels()));
  lower_queries(problem, lowered);
  if (!streamed) lowered.v = side_by_side(problem.v);
  options.q_rotary.reset();
  const AnyView v = streamed ? problem.v.mu : AnyView(lowered.v.view());
  lowered.call = make_call(function, lowered.q.view(), lowered.k.view(), v, options);
  if (streamed) lowered.call.second_v = problem.v.log_sigma;
  return lowered;
}

}  // namespace phasor::detail
