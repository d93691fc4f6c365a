// The tasks, a row of the registry each.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "draw.h"
#include "phasor/core/check.h"
#include "phasor/training/dataset.h"

namespace phasor {
namespace {

std::int32_t symbol(const TaskConfig& config, Draw& draw) {
  return static_cast<std::int32_t>(draw.below(config.symbols));
}

std::int64_t all_symbols(const TaskConfig& config) { return config.symbols; }

std::int32_t separator(const TaskConfig& config) { return static_cast<std::int32_t>(config.symbols); }

// Tokens one after the other, of which the last may stand in the targets alone. An answer is the target of the token
// before it.
class Writer {
 public:
  Writer(std::span<std::int32_t> tokens, std::span<std::int32_t> targets) : tokens_(tokens), targets_(targets) {}

  void put(std::int32_t token) {
    if (at_ < tokens_.size()) tokens_[at_] = token;
    at_++;
  }
  void put_answer(std::int32_t token) {
    targets_[at_ - 1] = token;
    put(token);
  }

 private:
  std::span<std::int32_t> tokens_, targets_;
  std::size_t at_ = 0;
};

// ---- copy, reverse: T/2 symbols, the separator, the symbols again ----

template <bool Reversed>
void fill_repeat(const TaskConfig& config, Draw& draw, std::span<std::int32_t> tokens,
                 std::span<std::int32_t> targets) {
  std::vector<std::int32_t> symbols(tokens.size() / 2);
  std::ranges::generate(symbols, [&] { return symbol(config, draw); });
  Writer writer(tokens, targets);
  for (const std::int32_t token : symbols) writer.put(token);
  writer.put(separator(config));
  if (Reversed) std::ranges::reverse(symbols);
  for (const std::int32_t token : symbols) writer.put_answer(token);
}

// ---- recall: the lower half of the symbols are keys, the upper half values ----

std::int64_t recall_values(const TaskConfig& config) { return config.symbols - config.symbols / 2; }

void fill_recall(const TaskConfig& config, Draw& draw, std::span<std::int32_t> tokens,
                 std::span<std::int32_t> targets) {
  std::vector<std::int32_t> keys(static_cast<std::size_t>(config.symbols / 2));
  for (std::size_t i = 0; i < keys.size(); i++) keys[i] = static_cast<std::int32_t>(i);
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs(std::min(tokens.size() / 4, keys.size()));
  Writer writer(tokens, targets);
  for (std::size_t i = 0; i < pairs.size(); i++) {  // the first keys of a random order
    std::swap(keys[i], keys[i + static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(keys.size() - i)))]);
    const std::int64_t values = recall_values(config);
    pairs[i] = {keys[i], static_cast<std::int32_t>(config.symbols - values + draw.below(values))};
    writer.put(pairs[i].first);
    writer.put(pairs[i].second);
  }
  writer.put(separator(config));
  for (std::size_t i = 0; i < (tokens.size() - 2 * pairs.size()) / 2; i++) {
    const auto& [key, value] = pairs[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(pairs.size())))];
    writer.put(key);
    writer.put_answer(value);
  }
}

// ---- induction, ago: random symbols, and questions about the past ----

void fill_induction(const TaskConfig& config, Draw& draw, std::span<std::int32_t> tokens,
                    std::span<std::int32_t> targets) {
  std::ranges::generate(tokens, [&] { return symbol(config, draw); });
  std::vector<std::int64_t> last(static_cast<std::size_t>(config.symbols), -1);  // where each symbol stood last
  for (std::size_t t = 0; t < tokens.size(); t++) {
    std::int64_t& before = last[static_cast<std::size_t>(tokens[t])];
    if (before >= 0) targets[t] = tokens[static_cast<std::size_t>(before + 1)];
    before = static_cast<std::int64_t>(t);
  }
}

void fill_ago(const TaskConfig& config, Draw& draw, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
  std::ranges::generate(tokens, [&] { return symbol(config, draw); });
  const auto distance = static_cast<std::size_t>(config.distance);
  for (std::size_t t = distance; t < tokens.size(); t++) targets[t] = tokens[t - distance];
}

constexpr Task kCopy{
    .name = "copy",
    .about = "symbols, a separator, and the same symbols again",
    .example_tokens = "a b c | a b",
    .example_targets = ". . . a b c",
    .separator = true,
    .next_token = true,
    .shortest = [](const TaskConfig&) -> std::int64_t { return 2; },
    .answers = all_symbols,
    .fill = fill_repeat<false>,
};

constexpr Task kReverse{
    .name = "reverse",
    .about = "symbols, a separator, and the symbols from the last to the first",
    .example_tokens = "a b c | c b",
    .example_targets = ". . . c b a",
    .separator = true,
    .next_token = true,
    .shortest = [](const TaskConfig&) -> std::int64_t { return 2; },
    .answers = all_symbols,
    .fill = fill_repeat<true>,
};

constexpr Task kRecall{
    .name = "recall",
    .about =
        "pairs of a key and a value, a separator, then keys at random, each followed by its value (associative recall)",
    .example_tokens = "a x b y | b y a",
    .example_targets = ". . . . . y . x",
    .separator = true,
    .next_token = true,
    .shortest = [](const TaskConfig&) -> std::int64_t { return 4; },
    .answers = recall_values,
    .fill = fill_recall,
};

constexpr Task kInduction{
    .name = "induction",
    .about = "at each symbol that stood there before: what followed it the last time",
    .example_tokens = "a b c a b a",
    .example_targets = ". . . b c b",
    .separator = false,
    .next_token = false,
    .shortest = [](const TaskConfig&) -> std::int64_t { return 2; },
    .answers = all_symbols,
    .fill = fill_induction,
};

constexpr Task kAgo{
    .name = "ago",
    .about = "at each symbol: what stood k tokens ago (k is `distance`; 2 in the example)",
    .example_tokens = "a b c d e",
    .example_targets = ". . a b c",
    .separator = false,
    .next_token = false,
    .shortest = [](const TaskConfig& config) -> std::int64_t { return config.distance + 1; },
    .answers = all_symbols,
    .fill = fill_ago,
};

}  // namespace

std::span<const Task> tasks() {
  static constexpr std::array rows{kCopy, kReverse, kRecall, kInduction, kAgo};
  return rows;
}

const Task& task(std::string_view name) {
  std::string known;
  for (const Task& row : tasks()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  fail("task", "name: \"", name, "\", expected one of ", known);
}

}  // namespace phasor
