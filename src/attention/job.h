// Data that the tasks of one call share, and the blocks of queries of the call.
#pragma once

#include <cstdint>
#include <optional>

#include "call.h"
#include "keys.h"
#include "narrow_keys.h"
#include "phasor/core/parallel.h"

namespace phasor::detail {

constexpr std::int64_t kMostQueriesOfABlock = 128;

// What products of pairs read of the keys.
struct NarrowJob {
  NarrowSource k;
  NarrowSource v;                         // forward: by columns
  std::optional<NarrowSource> k_columns;  // backward
  std::optional<NarrowSource> second_v;   // forward, by columns
};
enum class NarrowUse { forward, backward };

struct Job {
  const AttentionCall* call = nullptr;
  KeySource k, v;
  std::optional<KeySource> second_v;
  std::optional<NarrowJob> narrow;  // if the call multiplies in bf16; floats are then read block by block, if at all

  Job(const AttentionCall& attention, std::int64_t queries_of_a_block, NarrowUse use);
};

// parallel_for, but on the calling thread if all tasks together are hardly more work than waking another thread: about
// `multiplications` multiplications.
void run_tasks(std::int64_t count, std::int64_t multiplications, TaskRef task);

// Those of one pass over the keys: q.k and weight * v.
std::int64_t multiplications_of(const AttentionCall& call);

// The blocks of a head of a sequence, from the last: under a causal mask that is the one with most work.
List<QueryBlock> query_blocks(const Sequence& sequence, std::int64_t head, std::int64_t queries_of_a_block);

}  // namespace phasor::detail
