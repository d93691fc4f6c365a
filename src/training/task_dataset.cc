#include <algorithm>

#include "draw.h"
#include "phasor/core/check.h"
#include "phasor/training/dataset.h"

namespace phasor {
namespace {

// Whether a row belongs to the validation split: one in eight, by its own tokens (FNV-1a, mixed), whatever the seed. So
// no row is ever in both splits, however short it is.
bool is_held_out(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::int32_t token : tokens) hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x100000001b3u;
  hash = (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15u;
  return hash >> 61 == 0;
}

class TaskDataset : public Dataset {
 public:
  TaskDataset(const Task& task, const TaskConfig& config) : task_(task), config_(config) {
    constexpr std::int64_t kMost = 1 << 20;
    PHASOR_CHECK(config.symbols >= 2 && config.symbols <= kMost, "task_dataset", "symbols: ", config.symbols,
                 ", expected 2 to ", kMost);
    PHASOR_CHECK(config.distance >= 0 && config.distance <= kMost, "task_dataset", "distance: ", config.distance,
                 ", expected 0 to ", kMost);
  }

  std::int64_t vocabulary() const override { return config_.symbols + (task_.separator ? 1 : 0); }
  bool exact_match() const override { return true; }
  bool next_token() const override { return task_.next_token; }

 private:
  void check_length(std::int64_t length) const override {
    PHASOR_CHECK(length >= task_.shortest(config_), "fill", "batch: rows of ", length, " tokens, expected at least ",
                 task_.shortest(config_), " for task ", task_.name);
  }

  void fill_row(std::int64_t row, Split split, std::span<std::int32_t> tokens,
                std::span<std::int32_t> targets) const override {
    constexpr std::uint64_t kMostAttempts = 10'000;  // one in eight fits: more are never needed but for tiny rows
    for (std::uint64_t attempt = 0; attempt < kMostAttempts; attempt++) {
      Draw draw(config_.seed, split, row, attempt);
      std::ranges::fill(targets, kNoTarget);
      task_.fill(config_, draw, tokens, targets);
      if (is_held_out(tokens) == (split == Split::validation)) return;
    }
    fail("fill", "batch: rows of ", tokens.size(), " tokens of ", config_.symbols,
         " symbols, expected longer ones: task ", task_.name, " has too few different rows for two splits");
  }

  const Task& task_;
  TaskConfig config_;
};

}  // namespace

std::unique_ptr<Dataset> task_dataset(std::string_view name, const TaskConfig& config) {
  return std::make_unique<TaskDataset>(task(name), config);
}

}  // namespace phasor
