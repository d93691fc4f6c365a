// A fixture: a comparison as it might be found. Its numbers are made up, and say nothing about any encoding.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "report/comparison.h"

namespace phasor::report {

struct MadeUpEncoding {
  const char* name;
  const char* score;
  double at_training_length, lost_per_doubling;  // accuracy, and about which share of it
  int attends;                                   // how many tokens back
};

inline constexpr MadeUpEncoding kMadeUp[] = {{"none", "dot", 0.55, 0.13, 0},       {"learned", "dot", 0.93, 0.0, 1},
                                             {"sinusoidal", "dot", 0.91, 0.27, 1}, {"rope", "dot", 0.985, 0.24, 1},
                                             {"rope+ntk", "dot", 0.97, 0.13, 1},   {"rope+yarn", "dot", 0.98, 0.09, 1},
                                             {"alibi", "dot", 0.96, 0.02, 2},      {"t5", "dot", 0.97, 0.06, 3},
                                             {"w2-rope", "w2", 0.975, 0.21, 1},    {"w2-alibi", "w2", 0.965, 0.03, 2}};

// The same on every machine: a hash of the place, from -0.5 to 0.5.
inline double made_up_noise(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a + 1) * 0x9E3779B97F4A7C15u ^ (b + 1) * 0xC2B2AE3D27D4EB4Fu;
  x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9u;
  x ^= x >> 29;
  return static_cast<double>(x >> 11) * 0x1p-53 - 0.5;
}

inline Run made_up_run(std::size_t encoding, std::int64_t seed, double ease) {
  Run run{.seed = seed, .learning_rate = 0.003};
  for (std::int64_t step = 10; step <= 600; step += 10) {
    const double learned = std::exp(-static_cast<double>(step) / (260.0 - 150.0 * ease));
    const double loss = 4.16 * learned + 1.4 * (1.0 - ease) + 0.04;
    const double noise =
        made_up_noise(encoding * 100 + static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(step));
    run.losses.push_back({step, loss * (1.0 + 0.12 * noise)});
    if (step % 50 == 0) run.losses.back().validation_loss = loss * (1.03 + 0.03 * noise);
  }
  return run;
}

inline AttentionMap made_up_attention(std::int64_t head, int back, std::int64_t tokens) {
  AttentionMap map{.layer = head / 2, .head = head % 2, .queries = tokens, .keys = tokens};
  const double reach = head % 2 == 0 ? 1.5 : 12.0;
  for (std::int64_t query = 0; query < tokens; query++) {
    std::vector<double> row;
    double sum = 0.0;
    for (std::int64_t key = 0; key < tokens; key++) {
      const double off = std::fabs(static_cast<double>(query - key) - back * (1.0 + static_cast<double>(head)));
      row.push_back(key <= query ? std::exp(-off / reach) + (key % 9 == 4 ? 0.15 : 0.01) : 0.0);
      sum += row.back();
    }
    for (const double weight : row) map.weights.push_back(weight / sum);
  }
  return map;
}

inline EncodingResult made_up_encoding(std::size_t i, const Settings& settings) {
  const MadeUpEncoding& made_up = kMadeUp[i];
  const std::string name = made_up.name;
  EncodingResult result{.name = name, .attention_score = made_up.score};
  if (name.starts_with("rope+")) result.trained_as = "rope";
  result.parameters = 812'544 + (name == "learned" ? 8'192 : 0) + (result.attention_score == "w2" ? 131'072 : 0);
  result.tokens_per_second =
      41'200.0 - 700.0 * static_cast<double>(i) - (result.attention_score == "w2" ? 9'000.0 : 0.0);
  result.peak_memory_bytes = 96'000'000 + static_cast<std::int64_t>(i) * 1'300'000;
  if (!result.trained_as)
    for (const std::int64_t seed : settings.seeds)
      result.runs.push_back(made_up_run(i, seed, made_up.at_training_length));
  ScoresByPosition by_position;
  for (const std::int64_t length : settings.eval_lengths) {
    LengthScore score{.length = length};
    const double doublings = std::log2(static_cast<double>(length) / static_cast<double>(settings.length));
    if (name == "learned" && length > settings.length) {
      score.not_possible = "its table ends at position 127";
    } else {
      for (const std::int64_t seed : settings.seeds)
        score.by_seed.push_back(made_up.at_training_length * std::exp(-1.6 * made_up.lost_per_doubling * doublings) +
                                0.05 * made_up_noise(i, static_cast<std::uint64_t>(seed * length)));
      by_position = {.length = length};
      for (std::int64_t position = 4; position < length; position += 4) {
        const double beyond =
            std::max(0.0, std::log2(static_cast<double>(position) / static_cast<double>(settings.length)));
        by_position.scores.push_back(
            {position, made_up.at_training_length * std::exp(-1.9 * made_up.lost_per_doubling * beyond) +
                           0.06 * made_up_noise(i + 50, static_cast<std::uint64_t>(position))});
      }
    }
    result.scores.push_back(score);
  }
  result.by_position = by_position;
  for (std::int64_t head = 0; head < 4; head++)
    result.attention.push_back(made_up_attention(head, made_up.attends, 48));
  return result;
}

inline Comparison made_up_comparison() {
  Comparison comparison;
  Settings& settings = comparison.settings;
  settings.task = "recall (made-up numbers)";
  settings.chance = 1.0 / 64.0;
  settings.model = {.layers = 4, .width = 128, .heads = 4, .kv_heads = 4, .ffn = 352, .vocabulary = 64};
  settings.length = 128;
  settings.eval_lengths = {128, 256, 512, 1024};
  settings.seeds = {1, 2, 3};
  settings.batch = 16;
  settings.budget_seconds = 15.0;
  settings.learning_rates = {0.001, 0.003};
  settings.command =
      "phasor compare --task recall --length 128 --eval-lengths 128,256,512,1024 --seeds 3 --budget-seconds 15";
  settings.machine = "a made-up CPU with 2 cores, AVX2";
  settings.date = "2000-01-01";
  settings.version = "0.0.0";
  for (int i = 0; i < 48; i++) comparison.sample.push_back(std::string(1, static_cast<char>('a' + i % 26)));
  for (std::size_t i = 0; i < std::size(kMadeUp); i++) comparison.encodings.push_back(made_up_encoding(i, settings));
  return comparison;
}

}  // namespace phasor::report
