#include "compare/comparison_folder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "files/atomic_file.h"
#include "phasor/core/check.h"
#include "table.h"

namespace phasor::tool {
namespace {

namespace fs = std::filesystem;
using report::Comparison;
using report::EncodingResult;

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ",") + number(static_cast<double>(value));
  return text;
}

std::string size_text(const report::ModelSize& size) {
  return list_text(
      std::vector<std::int64_t>{size.layers, size.width, size.heads, size.kv_heads, size.ffn, size.vocabulary});
}

// What must be the same, by the name it has in the file.
std::vector<std::pair<const char*, std::string>> fixed_settings(const report::Settings& settings) {
  return {{"task", settings.task},
          {"model", size_text(settings.model)},
          {"length", std::to_string(settings.length)},
          {"eval_lengths", list_text(settings.eval_lengths)},
          {"seeds", list_text(settings.seeds)},
          {"batch", std::to_string(settings.batch)},
          {"budget_seconds", settings.budget_seconds ? number(*settings.budget_seconds) : "none"},
          {"steps", settings.budget_seconds ? "by budget" : std::to_string(settings.steps.value_or(0))},
          {"learning_rates", list_text(settings.learning_rates)},
          {"version", settings.version}};
}

void check_same(const std::string& place, const report::Settings& found, const report::Settings& wanted) {
  const auto has = fixed_settings(found), expected = fixed_settings(wanted);
  for (std::size_t i = 0; i < has.size(); i++)
    PHASOR_CHECK(has[i] == expected[i], "compare", place, " with ", has[i].first, " ", has[i].second, ", expected ",
                 expected[i].second, " as asked for now, or another folder");
}

// What merging relies on.
void check_results(const std::string& file, const Comparison& found) {
  const auto check = [&](bool holds, const std::string& what) { PHASOR_CHECK(holds, "compare", file, ": ", what); };
  check(!found.encodings.empty(), "no encodings, expected the trained one first");
  check(found.encodings.front().runs.size() == 1,
        std::to_string(found.encodings.front().runs.size()) + " runs of the trained encoding, expected 1");
  for (const EncodingResult& encoding : found.encodings) {
    std::vector<std::int64_t> lengths;
    for (const report::LengthScore& score : encoding.scores) lengths.push_back(score.length);
    check(lengths == found.settings.eval_lengths, "scores of " + encoding.name + " at lengths " + list_text(lengths) +
                                                      ", expected " + list_text(found.settings.eval_lengths));
  }
}

// Before anything is written to it.
FolderLock locked(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder / "trials", error);
  PHASOR_CHECK(!error, "compare", "--out: ", folder.string(), " cannot be made (", error.message(),
               "), expected a folder that can be written to");
  return FolderLock::inside(folder);
}

double final_validation_loss(const EncodingResult& trained) {
  double loss = std::numeric_limits<double>::infinity();
  if (trained.runs.front().diverged) return loss;
  for (const report::LossPoint& point : trained.runs.front().losses) loss = point.validation_loss.value_or(loss);
  return loss;
}

const EncodingResult* find(const Comparison& trial, const std::string& name) {
  const auto found = std::ranges::find(trial.encodings, name, &EncodingResult::name);
  return found == trial.encodings.end() ? nullptr : &*found;
}

// Positions that count differ from seed to seed: each has the mean of the seeds that have it.
std::optional<report::ScoresByPosition> mean_by_position(const std::vector<const EncodingResult*>& seeds) {
  struct Sum {
    double score = 0.0, seeds = 0.0;
  };
  std::map<std::int64_t, Sum> sums;
  for (const EncodingResult* seed : seeds) {
    if (!seed->by_position) return std::nullopt;  // it diverged
    for (const report::PositionScore& at : seed->by_position->scores) {
      sums[at.position].score += at.score;
      sums[at.position].seeds += 1.0;
    }
  }
  report::ScoresByPosition mean{.length = seeds.front()->by_position->length};
  for (const auto& [position, sum] : sums) mean.scores.push_back({position, sum.score / sum.seeds});
  return mean;
}

// A mean over the seeds that went well would be one over chosen seeds: where one has no score, there is none.
void add_score(report::LengthScore& sum, const report::LengthScore& one) {
  if (!sum.not_possible) sum.not_possible = one.not_possible;
  sum.by_seed.insert(sum.by_seed.end(), one.by_seed.begin(), one.by_seed.end());
  if (sum.not_possible) sum.by_seed.clear();
}

// Adds what another seed found to the first one's result.
void add_seed(EncodingResult& sum, const EncodingResult& one) {
  sum.runs.insert(sum.runs.end(), one.runs.begin(), one.runs.end());
  for (std::size_t i = 0; i < sum.scores.size(); i++) add_score(sum.scores[i], one.scores[i]);
  sum.tokens_per_second += one.tokens_per_second;
  sum.peak_memory_bytes = std::max(sum.peak_memory_bytes, one.peak_memory_bytes);
}

EncodingResult mean_of_seeds(const std::vector<const EncodingResult*>& seeds) {
  EncodingResult sum = *seeds.front();
  for (std::size_t s = 1; s < seeds.size(); s++) add_seed(sum, *seeds[s]);
  sum.tokens_per_second /= static_cast<double>(seeds.size());
  sum.by_position = mean_by_position(seeds);
  return sum;
}

// Of the trials that trained or scored `name`, those of its best rate.
std::vector<const Comparison*> best_rate(const std::string& name, const std::vector<Comparison>& trials) {
  std::map<double, std::vector<const Comparison*>> by_rate;
  for (const Comparison& trial : trials)
    if (find(trial, name)) by_rate[trial.settings.learning_rates.front()].push_back(&trial);
  PHASOR_CHECK(!by_rate.empty(), "compare", name, ": no trial of it, expected one");
  const auto loss = [](const std::vector<const Comparison*>& of_rate) {
    double sum = 0.0;
    for (const Comparison* trial : of_rate) sum += final_validation_loss(trial->encodings.front());
    return std::isfinite(sum) ? sum : std::numeric_limits<double>::infinity();  // not a number: it diverged
  };
  return std::ranges::min_element(by_rate, {}, [&](const auto& each) { return loss(each.second); })->second;
}

}  // namespace

ComparisonFolder::ComparisonFolder(fs::path folder) : folder_(std::move(folder)), lock_(locked(folder_)) {}

std::optional<report::Settings> ComparisonFolder::begun() const {
  const fs::path file = folder_ / "settings.json";
  if (!fs::exists(file)) return std::nullopt;
  return report::load_comparison(file.string()).settings;
}

report::Settings ComparisonFolder::settle(const report::Settings& wanted) const {
  if (const std::optional<report::Settings> before = begun()) {
    check_same("--out: " + folder_.string() + " has a comparison", *before, wanted);
    report::Settings settled = *before;
    settled.command = wanted.command;  // it may name encodings that were added later
    return settled;
  }
  write_file(folder_ / "settings.json", report::to_json({.settings = wanted}));
  return wanted;
}

std::optional<Comparison> ComparisonFolder::trial(const std::string& trial, const report::Settings& settings) const {
  const fs::path file = folder_ / "trials" / (trial + ".json");
  if (!fs::exists(file)) return std::nullopt;
  Comparison found = report::load_comparison(file.string());
  check_same(file.string() + ": a trial", found.settings, settings);
  check_results(file.string(), found);
  return found;
}

void ComparisonFolder::add_trial(const std::string& trial, const Comparison& found) const {
  write_file(folder_ / "trials" / (trial + ".json"), report::to_json(found));
}

std::string ComparisonFolder::write_report(const Comparison& comparison) const {
  write_file(folder_ / "results.json", report::to_json(comparison));
  write_file(folder_ / "report.html", report::comparison_page(comparison));
  return (folder_ / "report.html").string();
}

Comparison merge_trials(const report::Settings& settings, const std::vector<std::string>& names,
                        const std::vector<Comparison>& trials) {
  Comparison merged{.settings = settings, .sample = trials.front().sample};
  for (const std::string& name : names) {
    std::vector<const EncodingResult*> seeds;
    for (const Comparison* trial : best_rate(name, trials)) seeds.push_back(find(*trial, name));
    merged.encodings.push_back(mean_of_seeds(seeds));
  }
  return merged;
}

}  // namespace phasor::tool
