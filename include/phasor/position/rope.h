// Rotary position embedding (Su et al., "RoFormer", arXiv 2104.09864) and its context extensions.
//
//   angle(position, i) = position * inv_freq[i],   inv_freq[i] = theta^(-2i/R),   i = 0 .. R/2 - 1
//   (a, b) -> (a cos - b sin, a sin + b cos)        for every pair (a, b) of a head's R rotated channels
//
// A scaling changes inv_freq, and may multiply cos and sin by an attention factor; rope_types() lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phasor/position/plan.h"

namespace phasor {

// The settings of a scaling under Hugging Face's names. Each type uses some of them: see rope_types().
struct RopeScaling {
  std::string type = "default";
  std::optional<double> factor = {};
  std::optional<std::int64_t> original_max_position_embeddings = {};
  std::optional<double> attention_factor = {};
  std::optional<double> beta_fast = {}, beta_slow = {};               // yarn: 32, 1
  std::optional<double> mscale = {}, mscale_all_dim = {};             // yarn, as DeepSeek has it
  std::optional<bool> truncate = {};                                  // yarn: true
  std::optional<bool> clamp_to_pairs = {};                            // yarn, as MiniMind has it: false
  std::optional<double> low_freq_factor = {}, high_freq_factor = {};  // llama3
  std::vector<double> short_factor = {}, long_factor = {};            // longrope: one for each pair
};

// The settings that are given, by name, each as JSON text.
std::vector<std::pair<std::string_view, std::string>> given_settings(const RopeScaling& scaling);

// How the pairs of a head share the axes of a position (time, height, width).
enum class AxisLayout {
  single,       // one axis
  chunked,      // M-RoPE of Qwen2-VL: consecutive sections of pairs; the frequency index continues
  interleaved,  // M-RoPE of Qwen3-VL: axes alternate t h w t h w ..., the other pairs are t
  axial,        // 2-D, Qwen-VL's vision tower: first half height, second half width; the frequency index restarts
  alternating,  // 2-D, Pixtral: first half height with the even frequencies, second half width with the odd
};

enum class Angles {
  exact,    // in double: right to 1e-6 at position 1,048,575
  float32,  // Hugging Face's arithmetic, for parity at long positions, where its angles are off by up to 3e-2
};

struct RopeConfig {
  static constexpr std::string_view kEncoding = "rope";

  std::int64_t head_dim = 0;
  double theta = 10000.0;
  std::int64_t rotary_dim = 0;  // R, the first channels of a head; 0: all of them
  Pairing pairing = Pairing::half;
  RopeScaling scaling = {};
  std::int64_t max_position_embeddings = 0;  // dynamic and longrope need it
  AxisLayout axes = AxisLayout::single;
  std::vector<std::int64_t> sections = {};  // pairs of each axis, for chunked and interleaved
  Angles angles = Angles::exact;
  // DeepSeek's models multiply the score scale by (0.1 mscale_all_dim ln(factor) + 1)^2 as well.
  bool scores_follow_mscale = false;
};

// Refuses odd sizes, NaN, and missing or invalid settings. The text names the setting.
void validate(const RopeConfig& config);

struct RopeFrequencies {
  std::vector<double> inv_freq;   // of each pair; 0 leaves the pair as it is
  double attention_factor = 1.0;  // multiplies cos and sin
};

// Frequencies for a context of `length` tokens. Only dynamic and longrope depend on the length, and nothing is
// remembered between calls: keys rotated for an earlier, shorter length keep the frequencies of that length. If the
// context may outgrow the trained length, cache unrotated keys and rotate them on read.
RopeFrequencies rope_frequencies(const RopeConfig& config, std::int64_t length = 0);

// The number of position axes that the layout reads: 1, 2 or 3.
std::int64_t axis_count(const RopeConfig& config);

// The score scale for heads of this size: 1/sqrt(D), times DeepSeek's correction.
double rope_score_scale(const RopeConfig& config, std::int64_t head_dim);

// The table for tokens at `positions` [axes, B, T]. The length for dynamic and longrope is the largest position + 1,
// unless it is given.
AnyRotaryTable rotary_table(const RopeConfig& config, const TensorInput<std::int64_t, 3>& positions,
                            std::optional<std::int64_t> length = std::nullopt);

// The same with the pairing known at compile time; a config of the other pairing is an error.
HalfTable half_table(const RopeConfig& config, const TensorInput<std::int64_t, 3>& positions);
AdjacentTable adjacent_table(const RopeConfig& config, const TensorInput<std::int64_t, 3>& positions);

// One row for each scaling. The readers of configs, the command line and the documentation use this list.
struct RopeType {
  std::string_view name;
  std::string_view formula;
  std::string_view source;
  bool in_hugging_face;  // may appear in a Hugging Face config
  std::span<const std::string_view> required, optional;
  void (*check)(const RopeConfig&);
  RopeFrequencies (*frequencies)(const RopeConfig&, std::int64_t length);
};

std::span<const RopeType> rope_types();
const RopeType& rope_type(std::string_view name);

// Bloc97's NTK-aware base: theta * s^(d/(d-2)), as the rope type "ntk" uses it.
double ntk_aware_theta(double theta, double factor, std::int64_t rotary_dim);

}  // namespace phasor
