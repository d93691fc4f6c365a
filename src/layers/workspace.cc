#include "phasor/layers/workspace.h"

namespace phasor {
namespace {

constexpr std::int64_t kLine = 16;                      // floats of a cache line
constexpr std::int64_t kLeast = std::int64_t{1} << 18;  // floats of a block

}  // namespace

// One cache line of padding follows each piece, so that pieces with a power-of-two size do not start at the same page
// offset.
float* Workspace::take_floats(std::int64_t count) {
  const std::int64_t whole = (count + kLine - 1) / kLine * kLine + kLine;
  while (block_ < blocks_.size() && used_ + whole > blocks_[block_].size()) block_++, used_ = 0;
  if (block_ == blocks_.size()) {
    blocks_.push_back(Tensor<float, 1>({std::max(whole, kLeast)}));
    used_ = 0;
  }
  float* memory = blocks_[block_].data() + used_;
  used_ += whole;
  return memory;
}

// When everything is free, blocks that were added are merged into one that is large enough for all.
void Workspace::return_to(std::size_t block, std::int64_t used) {
  block_ = block;
  used_ = used;
  if (block != 0 || used != 0 || blocks_.size() <= 1) return;
  std::int64_t total = 0;
  for (const auto& each : blocks_) total += each.size();
  blocks_.clear();
  blocks_.push_back(Tensor<float, 1>({total}));
}

}  // namespace phasor
