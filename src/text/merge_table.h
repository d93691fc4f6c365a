// Merges of BPE: for two tokens side by side, how early they merge and into which token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace phasor::text {

class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;
    std::int32_t id;
  };

  explicit MergeTable(std::size_t count) {
    std::size_t slots = 16;
    while (slots < count * 2) slots *= 2;
    slots_.resize(slots);
  }
  // False if the pair is there already.
  bool add(std::int32_t left, std::int32_t right, Merge merge) {
    Slot& slot = slots_[place(key_of(left, right))];
    if (slot.key != kFree) return false;
    slot = {key_of(left, right), merge};
    return true;
  }
  const Merge* find(std::int32_t left, std::int32_t right) const {
    const Slot& slot = slots_[place(key_of(left, right))];
    return slot.key == kFree ? nullptr : &slot.merge;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge{};
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  // Of the pair, or the free slot where it belongs.
  std::size_t place(std::uint64_t key) const {
    const std::uint64_t hash = key * 0x9E3779B97F4A7C15u;
    std::size_t at = (hash ^ hash >> 32) & (slots_.size() - 1);
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_{};
};

}  // namespace phasor::text
