// Biases by relative position with trainable values.
#pragma once

#include <cstdint>
#include <string_view>

namespace phasor {

// T5 (Raffel et al. 2019, arXiv 1910.10683): a table [buckets, H]; small distances have a bucket each, larger ones
// share buckets that grow logarithmically up to max_distance. Scores are not divided by sqrt(D).
struct T5Config {
  static constexpr std::string_view kEncoding = "t5";
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;
  bool bidirectional = true;  // false: keys after the query share bucket 0 (decoder)
};

// The bucket of distance key - query.
std::int64_t t5_bucket(std::int64_t distance, const T5Config& config);

// A trainable number for each head and distance from -max_distance to max_distance, [H, 2 max_distance + 1]; distances
// beyond take the end's value (Shaw, Uszkoreit, Vaswani 2018, arXiv 1803.02155, clip likewise).
struct RelativeConfig {
  static constexpr std::string_view kEncoding = "relative";
  std::int64_t max_distance = 128;
};

}  // namespace phasor
