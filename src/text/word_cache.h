// The ids of short pieces that were seen before: most words of a text are a few hundred.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "vocabulary.h"

namespace phasor::text {

// Each hash has one slot; a new piece takes the place of an old one.
class WordCache {
 public:
  // The ids of a piece, or an empty span.
  std::span<const std::int32_t> find(std::string_view piece, std::uint64_t hash) const {
    const Slot& slot = slots_[hash % kSlots];
    if (slot.length != piece.size() || std::memcmp(slot.piece.data(), piece.data(), piece.size()) != 0) return {};
    return {slot.ids.data(), slot.count};
  }
  void keep(std::string_view piece, std::uint64_t hash, std::span<const std::int32_t> ids) {
    if (piece.size() > kLongest || ids.size() > kMostIds) return;
    Slot& slot = slots_[hash % kSlots];
    slot.length = static_cast<std::uint8_t>(piece.size());
    slot.count = static_cast<std::uint8_t>(ids.size());
    std::memcpy(slot.piece.data(), piece.data(), piece.size());
    std::memcpy(slot.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr std::size_t kSlots = 1 << 14, kLongest = 38, kMostIds = 6;
  struct Slot {
    std::uint8_t length = 0, count = 0;
    std::array<char, kLongest> piece{};
    std::array<std::int32_t, kMostIds> ids{};
  };
  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

}  // namespace phasor::text
