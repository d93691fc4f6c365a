#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "report/axis.h"
#include "report/comparison.h"

namespace phasor::report {
namespace {

// Larger is better, whatever the score; least of all where there is none.
double merit(const Comparison& comparison, const EncodingResult& encoding, std::int64_t length) {
  const LengthScore* score = score_at(encoding, length);
  if (score == nullptr || score->not_possible) return -std::numeric_limits<double>::infinity();
  const double mean = spread(score->by_seed).mean;
  if (std::isnan(mean)) return std::numeric_limits<double>::lowest();
  return comparison.settings.higher_is_better ? mean : -mean;
}

std::string score_cell(const EncodingResult& encoding, std::int64_t length) {
  const LengthScore* score = score_at(encoding, length);
  if (score == nullptr || score->not_possible) return "-";
  const Spread found = spread(score->by_seed);
  const std::string mean = score_text(found.mean);
  return found.deviation ? mean + " +-" + score_text(*found.deviation) : mean;
}

std::vector<std::int64_t> longest_first(std::vector<std::int64_t> lengths) {
  std::ranges::sort(lengths, std::greater<>());
  return lengths;
}

}  // namespace

std::string score_text(double score) {
  if (std::isnan(score)) return "not a number";
  constexpr double kLongInFront = 100.0;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), std::fabs(score) < kLongInFront ? "%.3f" : "%.4g", score);
  return text.data();
}

std::string megabytes_text(std::int64_t bytes) {
  constexpr double kMega = 1e6;
  return tool::count(std::llround(static_cast<double>(bytes) / kMega));
}

Spread spread(const std::vector<double>& by_seed) {
  const auto count = static_cast<double>(by_seed.size());
  if (by_seed.empty()) return {.mean = std::numeric_limits<double>::quiet_NaN()};
  Spread found{.mean = std::accumulate(by_seed.begin(), by_seed.end(), 0.0) / count};
  if (by_seed.size() < 2) return found;
  double squares = 0.0;
  for (const double score : by_seed) squares += (score - found.mean) * (score - found.mean);
  found.deviation = std::sqrt(squares / (count - 1.0));
  return found;
}

const LengthScore* score_at(const EncodingResult& encoding, std::int64_t length) {
  const auto found = std::ranges::find(encoding.scores, length, &LengthScore::length);
  return found == encoding.scores.end() ? nullptr : &*found;
}

std::vector<std::size_t> ranking(const Comparison& comparison) {
  std::vector<std::size_t> order(comparison.encodings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<std::int64_t> lengths = longest_first(comparison.settings.eval_lengths);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    for (const std::int64_t length : lengths) {
      const double of_a = merit(comparison, comparison.encodings[a], length);
      const double of_b = merit(comparison, comparison.encodings[b], length);
      if (of_a != of_b) return of_a > of_b;
    }
    return false;
  });
  return order;
}

tool::Table ranking_table(const Comparison& comparison) {
  std::vector<std::string> headings{">rank", "encoding", "scores"};
  for (const std::int64_t length : comparison.settings.eval_lengths)
    headings.push_back((headings.size() == 3 ? ">" + tool::printable(comparison.settings.metric) + " at " : ">at ") +
                       tool::count(length));
  for (const char* heading : {">parameters", ">tokens/s", ">peak MB"}) headings.emplace_back(heading);
  tool::Table table(headings);
  std::size_t rank = 0;
  for (const std::size_t i : ranking(comparison)) {
    const EncodingResult& encoding = comparison.encodings[i];
    std::vector<std::string> row{std::to_string(++rank), tool::printable(encoding.name), encoding.attention_score};
    for (const std::int64_t length : comparison.settings.eval_lengths) row.push_back(score_cell(encoding, length));
    row.push_back(tool::count(encoding.parameters));
    row.push_back(number_text(std::round(encoding.tokens_per_second)));
    row.push_back(megabytes_text(encoding.peak_memory_bytes));
    table.add(row);
  }
  return table;
}

std::vector<std::string> ranking_notes(const Comparison& comparison) {
  std::vector<std::string> notes;
  if (comparison.settings.seeds.size() > 1)
    notes.push_back("mean +- sample standard deviation over " + std::to_string(comparison.settings.seeds.size()) +
                    " seeds");
  for (const EncodingResult& encoding : comparison.encodings) {
    std::string lengths, reason;
    for (const LengthScore& score : encoding.scores) {
      if (!score.not_possible) continue;
      lengths += (lengths.empty() ? "" : ", ") + tool::count(score.length);
      reason = *score.not_possible;
    }
    if (!lengths.empty()) notes.push_back(encoding.name + " at " + lengths + ": not possible, " + reason);
    if (encoding.trained_as) notes.push_back(encoding.name + ": the model trained as " + *encoding.trained_as);
  }
  return notes;
}

}  // namespace phasor::report
