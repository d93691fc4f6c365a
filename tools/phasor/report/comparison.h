// What `phasor compare` found: the same small model trained with each encoding, scored at its training length and
// beyond. It is kept as results.json and shown as a page and as a table in the terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "table.h"

namespace phasor::report {

struct ModelSize {
  std::int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0;
};

struct Settings {
  std::string task;                 // "recall", or the name of a text
  std::string metric = "accuracy";  // what the score is: "accuracy", "loss"
  bool higher_is_better = true;
  std::optional<double> chance = {};  // the score of guessing
  ModelSize model = {};
  std::int64_t length = 0;  // in training, in tokens
  std::vector<std::int64_t> eval_lengths = {};
  std::vector<std::int64_t> seeds = {};
  std::int64_t batch = 0;                  // sequences of a step
  std::optional<std::int64_t> steps = {};  // of a training, when it is steps that are limited
  std::optional<double> budget_seconds = {};
  std::vector<double> learning_rates = {};  // those tried
  std::string command, machine, date, version;
};

struct LossPoint {
  std::int64_t step = 0;
  double train_loss = 0.0;
  std::optional<double> validation_loss = {};
};

// One training.
struct Run {
  std::int64_t seed = 0;
  double learning_rate = 0.0;
  std::vector<LossPoint> losses = {};
  std::optional<std::string> diverged = {};  // when it did: the loss or gradient was not finite
};

struct LengthScore {
  std::int64_t length = 0;
  std::vector<double> by_seed = {};
  std::optional<std::string> not_possible = {};  // the reason, where there can be no score
};

struct PositionScore {
  std::int64_t position = 0;
  double score = 0.0;  // mean over seeds and sequences
};

struct ScoresByPosition {
  std::int64_t length = 0;                 // of the sequences: the longest one that is possible
  std::vector<PositionScore> scores = {};  // at the positions that count
};

// The weights of one head for the sample, [queries, keys] row by row. results.json has four decimals of them.
struct AttentionMap {
  std::int64_t layer = 0, head = 0, queries = 0, keys = 0;
  std::vector<double> weights = {};
};

struct EncodingResult {
  std::string name;                            // "rope+yarn"
  std::string attention_score = "dot";         // "dot" or "w2"
  std::optional<std::string> trained_as = {};  // a scaling at inference: whose training it shares
  std::int64_t parameters = 0;
  double tokens_per_second = 0.0;  // in training
  std::int64_t peak_memory_bytes = 0;
  std::vector<Run> runs = {};  // one a seed; none when it shares another's
  std::vector<LengthScore> scores = {};
  std::optional<ScoresByPosition> by_position = {};
  std::vector<AttentionMap> attention = {};
};

// A number that is not finite, as of a training that diverged, is null in results.json.
struct Comparison {
  Settings settings;
  std::vector<std::string> sample = {};  // the tokens whose attention is shown, as text; may be empty
  std::vector<EncodingResult> encodings = {};
};

// results.json. Reading is strict: a missing, unknown or ill-typed key is an error that names `file` and the key, as is
// a list of the wrong length or a name given twice.
std::string to_json(const Comparison& comparison);
Comparison read_comparison(std::string_view json, std::string_view file);
Comparison load_comparison(const std::string& file);

// Over seeds. The deviation is that of a sample (n - 1); of fewer than two seeds there is none.
struct Spread {
  double mean = 0.0;
  std::optional<double> deviation = {};
};
Spread spread(const std::vector<double>& by_seed);

// As the tables write them: 0.860, 97.
std::string score_text(double score);
std::string megabytes_text(std::int64_t bytes);

// The score at a length, or nullptr.
const LengthScore* score_at(const EncodingResult& encoding, std::int64_t length);

// Indices of the encodings, best first: by the mean score at the longest length, then at the next shorter one, and so
// on. No score comes after any score.
std::vector<std::size_t> ranking(const Comparison& comparison);

tool::Table ranking_table(const Comparison& comparison);  // for the terminal
// What +- means, and why scores are missing.
std::vector<std::string> ranking_notes(const Comparison& comparison);

std::string comparison_page(const Comparison& comparison);

}  // namespace phasor::report
