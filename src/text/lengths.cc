#include "lengths.h"

#include <algorithm>

#include "phasor/core/check.h"

namespace phasor::text {
namespace {

constexpr std::uint64_t kLongest = std::uint64_t{1} << 31;

void cut_to(std::vector<std::int32_t>& ids, std::size_t count, Truncation::Side side) {
  if (count >= ids.size()) return;
  if (side == Truncation::Side::left)
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(count));
  else
    ids.resize(count);
}

void check_length(FieldReader& reader, const char* key, std::uint64_t length) {
  if (length > kLongest) reader.refuse_key(key, "at most " + std::to_string(kLongest));
}

}  // namespace

constexpr auto enum_words(Truncation::Strategy) {
  return EnumWords<Truncation::Strategy, 3>{{{Truncation::Strategy::longest_first, "LongestFirst"},
                                             {Truncation::Strategy::only_first, "OnlyFirst"},
                                             {Truncation::Strategy::only_second, "OnlySecond"}}};
}

constexpr auto enum_words(Truncation::Side) {
  return EnumWords<Truncation::Side, 2>{{{Truncation::Side::left, "Left"}, {Truncation::Side::right, "Right"}}};
}

void Truncation::cut(std::vector<std::int32_t>& first, std::vector<std::int32_t>* second, std::size_t added) const {
  PHASOR_CHECK(longest >= added, "Tokenizer::encode", "truncation.max_length: ", longest, ", expected room for the ",
               added, " special tokens");
  const std::size_t limit = static_cast<std::size_t>(longest) - added;
  const std::size_t total = first.size() + (second == nullptr ? 0 : second->size());
  if (total <= limit) return;
  if (limit == 0) {
    first.clear();
    if (second != nullptr) second->clear();
  } else if (strategy == Strategy::longest_first && second != nullptr) {
    // The shorter one stays whole while it leaves the longer one at least as much; else both get half.
    const bool first_is_short = first.size() <= second->size();
    std::size_t shorter = std::min(first.size(), second->size());
    std::size_t longer = shorter > limit ? shorter : std::max(shorter, limit - shorter);
    if (shorter + longer > limit) {
      shorter = limit / 2;
      longer = shorter + limit % 2;
    }
    cut_to(first, first_is_short ? shorter : longer, side);
    cut_to(*second, first_is_short ? longer : shorter, side);
  } else if (strategy == Strategy::longest_first) {
    cut_to(first, limit, side);
  } else {
    std::vector<std::int32_t>* target = strategy == Strategy::only_first ? &first : second;
    PHASOR_CHECK(target != nullptr, "Tokenizer::encode",
                 "truncation.strategy: OnlySecond, expected two texts, given one of ", first.size(),
                 " tokens, more than ", limit);
    PHASOR_CHECK(target->size() > total - limit, "Tokenizer::encode", "truncation: ", total,
                 " tokens, expected at most ", limit, " when one text alone is cut");
    cut_to(*target, target->size() - (total - limit), side);
  }
}

void Padding::pad(std::span<EncodedText> encodings) const {
  std::size_t length = static_cast<std::size_t>(fixed.value_or(0));
  for (const EncodedText& each : encodings)
    if (!fixed) length = std::max(length, each.ids.size());
  if (multiple_of > 0) length += (multiple_of - length % multiple_of) % multiple_of;
  for (EncodedText& each : encodings) {
    if (each.ids.size() >= length) continue;
    const std::size_t count = length - each.ids.size();
    const auto put = [&](std::vector<std::int32_t>& list, std::int32_t value) {
      list.insert(is_left ? list.begin() : list.end(), count, value);
    };
    put(each.ids, id);
    put(each.type_ids, type_id);
    put(each.attention_mask, 0);
  }
}

std::optional<Truncation> read_truncation(FieldReader& reader) {
  if (reader.find("truncation") == nullptr) return std::nullopt;
  FieldReader object = reader.object("truncation");
  Truncation made;
  std::uint64_t stride = 0;
  object.since("direction", made.side, Truncation::Side::right);
  object("max_length", made.longest);
  object("strategy", made.strategy);
  object("stride", stride);
  check_length(object, "max_length", made.longest);
  if (stride != 0) object.refuse_key("stride", "0: what is cut off is not returned");
  object.finish();
  return made;
}

std::optional<Padding> read_padding(FieldReader& reader) {
  if (reader.find("padding") == nullptr) return std::nullopt;
  FieldReader object = reader.object("padding");
  Padding made;
  std::optional<std::uint64_t> multiple;
  std::uint64_t id = 0, type_id = 0;
  std::string token, direction;
  const Json* strategy = object.find("strategy");
  if (strategy != nullptr && strategy->is_object()) {
    FieldReader fixed = object.object("strategy");
    fixed("Fixed", made.fixed.emplace());
    check_length(fixed, "Fixed", *made.fixed);
    fixed.finish();
  } else if (strategy == nullptr || *strategy != "BatchLongest") {
    object.refuse_key("strategy", "BatchLongest, or {\"Fixed\": length}");
  }
  object("direction", direction);
  if (direction != "Left" && direction != "Right") object.refuse_key("direction", "Left or Right");
  object("pad_to_multiple_of", multiple);
  object("pad_id", id);
  object("pad_type_id", type_id);
  object("pad_token", token);  // the id says which
  made.multiple_of = multiple.value_or(0);
  check_length(object, "pad_to_multiple_of", made.multiple_of);
  check_length(object, "pad_id", id + 1);
  check_length(object, "pad_type_id", type_id + 1);
  object.finish();
  made.is_left = direction == "Left";
  made.id = static_cast<std::int32_t>(id);
  made.type_id = static_cast<std::int32_t>(type_id);
  return made;
}

}  // namespace phasor::text
