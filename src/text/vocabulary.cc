#include "vocabulary.h"

#include <cstring>

namespace phasor::text {

// Eight bytes at a time: multiply, and fold the high half of the product onto the low one.
std::uint64_t hash_text(std::string_view text) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;
  std::uint64_t hash = text.size() * kOdd;
  const auto mix = [&](std::uint64_t value) {
    hash = (hash ^ value) * kOdd;
    hash ^= hash >> 32;
  };
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t value;
    std::memcpy(&value, text.data() + at, 8);
    mix(value);
  }
  std::uint64_t rest = 0;
  if (at < text.size()) {
    std::memcpy(&rest, text.data() + at, text.size() - at);
    mix(rest);
  }
  return hash * kOdd ^ hash >> 29;
}

std::size_t Vocabulary::slot_of(std::string_view token, std::uint64_t hash) const {
  const auto part = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.token == kNoToken) return at;
    if (slot.hash == part && bytes_of(tokens_[static_cast<std::size_t>(slot.token)]) == token) return at;
  }
}

void Vocabulary::grow() {
  slots_.assign(slots_.empty() ? 16 : slots_.size() * 2, {});
  for (std::size_t i = 0; i < tokens_.size(); i++) {
    const std::uint64_t hash = hash_text(bytes_of(tokens_[i]));
    slots_[slot_of(bytes_of(tokens_[i]), hash)] = {static_cast<std::uint32_t>(hash >> 32),
                                                   static_cast<std::int32_t>(i)};
  }
}

bool Vocabulary::add(std::string_view token, std::int32_t id) {
  const auto index = static_cast<std::size_t>(id);
  if (find(token) != kNoToken || (index < by_id_.size() && by_id_[index] != kNoToken)) return false;
  if (tokens_.size() * 2 >= slots_.size()) grow();
  const std::uint64_t hash = hash_text(token);
  const auto number = static_cast<std::int32_t>(tokens_.size());
  slots_[slot_of(token, hash)] = {static_cast<std::uint32_t>(hash >> 32), number};
  tokens_.push_back({bytes_.size(), static_cast<std::uint32_t>(token.size()), id});
  bytes_ += token;
  if (index >= by_id_.size()) by_id_.resize(index + 1, kNoToken);
  by_id_[index] = number;
  return true;
}

std::int32_t Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return kNoToken;
  const Slot& slot = slots_[slot_of(token, hash_text(token))];
  return slot.token == kNoToken ? kNoToken : tokens_[static_cast<std::size_t>(slot.token)].id;
}

std::optional<std::string_view> Vocabulary::token(std::int32_t id) const {
  if (id < 0 || id > largest_id()) return std::nullopt;
  const std::int32_t number = by_id_[static_cast<std::size_t>(id)];
  if (number == kNoToken) return std::nullopt;
  return bytes_of(tokens_[static_cast<std::size_t>(number)]);
}

}  // namespace phasor::text
