#include <algorithm>
#include <utility>

#include "phasor/core/check.h"
#include "phasor/training/dataset.h"

namespace phasor {
namespace {

constexpr const char* kName = "TokenText";

std::int64_t count(const std::vector<std::int32_t>& tokens) { return static_cast<std::int64_t>(tokens.size()); }

}  // namespace

TokenText::TokenText(std::vector<std::int32_t> tokens, const TokenTextConfig& config)
    : tokens_(std::move(tokens)), prefix_(config.prefix) {
  PHASOR_CHECK(!tokens_.empty(), kName, "tokens: none, expected some");
  for (const auto* list : {&tokens_, &prefix_})
    for (const std::int32_t token : *list) PHASOR_CHECK(token >= 0, kName, "tokens: ", token, ", expected 0 or more");
}

std::int64_t TokenText::vocabulary() const {
  const std::int32_t largest = *std::ranges::max_element(tokens_);
  return std::int64_t{1} + (prefix_.empty() ? largest : std::max(largest, *std::ranges::max_element(prefix_)));
}

std::int64_t TokenText::step(std::int64_t length) const { return length - count(prefix_); }

// Without a prefix the last target of a row is the first token of the next one.
std::int64_t TokenText::rows(std::int64_t length) const {
  return step(length) < 1 ? 0 : (count(tokens_) - (prefix_.empty() ? 1 : 0)) / step(length);
}

void TokenText::check_length(std::int64_t length) const {
  PHASOR_CHECK(rows(length) >= 1, kName, "length: ", length, " with a text of ", count(tokens_), " tokens and ",
               count(prefix_), " before it, expected a length that the text fills");
}

void TokenText::fill_row(std::int64_t row, Split, std::span<std::int32_t> tokens,
                         std::span<std::int32_t> targets) const {
  const auto length = static_cast<std::int64_t>(tokens.size());
  const std::int64_t first = row % rows(length) * step(length);
  // Token i of the row, and of what follows it; what stands before the text of a row is no target.
  const auto token = [&](std::int64_t i) {
    const std::int64_t of_text = i - count(prefix_);
    return of_text < 0 ? prefix_[static_cast<std::size_t>(i)] : tokens_[static_cast<std::size_t>(first + of_text)];
  };
  for (std::int64_t i = 0; i < length; i++) {
    const bool follows = i + 1 >= count(prefix_) && (prefix_.empty() || i + 1 < length);
    tokens[static_cast<std::size_t>(i)] = token(i);
    targets[static_cast<std::size_t>(i)] = follows ? token(i + 1) : kNoTarget;
  }
}

}  // namespace phasor
