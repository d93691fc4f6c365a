#include <algorithm>

#include "backward.h"
#include "job.h"
#include "rows.h"

namespace phasor::detail {
namespace {

// Kernels write whole vectors, 16 floats at most.
constexpr std::int64_t kWidest = 16;
constexpr std::int64_t kRowsOfATask = 256;

std::int64_t whole_vectors(std::int64_t channels) { return (channels + kWidest - 1) / kWidest * kWidest; }

}  // namespace

GradientRows::GradientRows(const AnyOutput& out, std::int64_t chunks)
    : out_(out), in_place_(out.type == ElementType::float32 && out.shape[3] % kWidest == 0) {
  const auto [batch, heads, rows, channels] = out.shape;
  const std::int64_t own = in_place_ ? chunks - 1 : chunks;
  scratch_ = Scratch({own * batch, heads, rows, whole_vectors(channels)});
  for (std::int64_t c = 0; c < own; c++) others_.push_back(scratch_.view().slice(0, c * batch, batch));
  if (in_place_) {
    first_ = out.as<float>();
  } else {
    first_ = others_.front();
    others_.erase(others_.begin());
  }
  clear();
}

void GradientRows::clear() {
  const auto [batch, heads, rows, channels] = out_.shape;
  const auto chunks = static_cast<std::int64_t>(others_.size()) + 1;
  run_tasks(chunks * batch * heads, chunks * element_count(out_.shape), [&](std::int64_t task) {
    const std::int64_t chunk = task / out_.shape[1] / out_.shape[0];
    const std::int64_t b = task / out_.shape[1] % out_.shape[0], g = task % out_.shape[1];
    const std::int64_t width = chunk == 0 ? first_.shape[3] : others_.front().shape[3];
    for (std::int64_t j = 0; j < out_.shape[2]; j++) std::fill_n(row(chunk, b, g, j), width, 0.0f);
  });
}

void GradientRows::finish_rows(const std::optional<RotaryView>& rotation, std::int64_t b, std::int64_t g,
                               std::int64_t first, std::int64_t count) {
  const std::int64_t channels = out_.shape[3];
  for (std::size_t c = 0; c < others_.size(); c++)
    for (std::int64_t j = first; j < first + count; j++) {
      float* sum = row(0, b, g, j);
      const float* other = row(static_cast<std::int64_t>(c) + 1, b, g, j);
      for (std::int64_t i = 0; i < channels; i++) sum[i] += other[i];
    }
  rotate_back(rotation, b, g, first, count, channels, row(0, b, g, first), stride(0));
  if (!in_place_) write_rows(out_, b, g, first, count, row(0, b, g, first), stride(0));
}

void GradientRows::finish(const std::optional<RotaryView>& rotation) {
  if (in_place_ && others_.empty() && !rotation) return;
  const auto [batch, heads, rows, channels] = out_.shape;
  const std::int64_t blocks = (rows + kRowsOfATask - 1) / kRowsOfATask;
  run_tasks(batch * heads * blocks, element_count(out_.shape), [&](std::int64_t task) {
    const std::int64_t first = task % blocks * kRowsOfATask, head = task / blocks;
    finish_rows(rotation, head / out_.shape[1], head % out_.shape[1], first,
                std::min(kRowsOfATask, out_.shape[2] - first));
  });
}

}  // namespace phasor::detail
