// Attention of few queries over many keys, as in generation. Its time is that of reading the keys and values once, so a
// task reads a chunk of them for all queries that share them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "call.h"

namespace phasor::detail {

// The queries that read one key head of one sequence, its slots: slot z * queries + i is query i of the group's head z.
struct DecodeGroup {
  const Sequence* sequence = nullptr;
  std::int64_t key_head = 0, slots = 0;
  std::int64_t begin = 0, end = 0;     // the keys that some slot sees
  std::int64_t chunk = 0;              // keys of a chunk
  std::int64_t chunks = 0;             // at least one, maybe empty: a task must write the results
  float* partials = nullptr;           // [chunks][DecodeJob::partial_size(slots)]
  std::atomic<std::int64_t> to_do{0};  // chunks; the task that finishes the last one merges them

  std::int64_t position(std::int64_t slot) const { return sequence->offset + slot % sequence->queries; }
  std::int64_t head(std::int64_t slot) const {
    return key_head * (slots / sequence->queries) + slot / sequence->queries;
  }
};

// Softmax over the keys of one chunk: for each slot the largest score, the sum of 2^(score - max), and the sum of the
// values with these weights.
struct DecodePartial {
  float* max;     // [slots]
  float* sum;     // [slots]
  float* values;  // [slots][value_stride]
};

struct DecodeJob {
  // The keys of a chunk. The split depends on the shape, not on threads, so the sums do not depend on the number of
  // threads. 512 keys of 128 channels are 512 KiB of floats to read for a few KiB of partial results. Long caches,
  // which have tasks for many threads, have chunks of up to 2048: the first keys of a chunk are not prefetched.
  static std::int64_t chunk(std::int64_t keys) {
    constexpr std::int64_t kLeast = 512, kMost = 2048, kTasks = 16;
    return std::clamp(keys / kTasks / kLeast * kLeast, kLeast, kMost);
  }

  const AttentionCall* call = nullptr;
  const ForwardOutput* output = nullptr;

  // Whole vectors on every target, and whole cache lines.
  static std::int64_t padded(std::int64_t floats) { return (floats + 15) / 16 * 16; }
  std::int64_t value_stride() const { return padded(call->value_channels); }
  std::int64_t partial_size(std::int64_t slots) const { return 2 * padded(slots) + slots * value_stride(); }
  DecodePartial partial(const DecodeGroup& group, std::int64_t chunk) const {
    float* memory = group.partials + chunk * partial_size(group.slots);
    const std::int64_t slots = padded(group.slots);
    return {memory, memory + slots, memory + 2 * slots};
  }
};

// Whether decode() is to compute this call: few queries, no backward pass to come, and nothing that needs a whole row
// of weights.
bool is_decode(const AttentionCall& call, const ForwardOutput& output);
void decode(const AttentionCall& call, const ForwardOutput& output);

}  // namespace phasor::detail
