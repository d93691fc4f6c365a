// Truncation and padding, where a tokenizer.json asks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "json/fields.h"
#include "phasor/text/tokenizer.h"

namespace phasor::text {

struct Truncation {
  enum class Strategy { longest_first, only_first, only_second };
  enum class Side { left, right };
  Side side = Side::right;  // where tokens are cut off
  Strategy strategy = Strategy::longest_first;
  std::uint64_t longest = 0;

  // Cuts the texts, which `added` special tokens will join.
  void cut(std::vector<std::int32_t>& first, std::vector<std::int32_t>* second, std::size_t added) const;
};

struct Padding {
  std::optional<std::uint64_t> fixed{};  // none: to the longest of a batch
  std::uint64_t multiple_of = 0;
  bool is_left = false;
  std::int32_t id = 0, type_id = 0;

  void pad(std::span<EncodedText> encodings) const;
};

// How long texts become: what a tokenizer.json asks for, or its user.
struct Lengths {
  std::optional<Truncation> truncation{};
  std::optional<Padding> padding{};

  void pad(std::span<EncodedText> encodings) const {
    if (padding) padding->pad(encodings);
  }
};

std::optional<Truncation> read_truncation(FieldReader& reader);
std::optional<Padding> read_padding(FieldReader& reader);

}  // namespace phasor::text
