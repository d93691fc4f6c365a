#include "job.h"

#include <algorithm>

namespace phasor::detail {
namespace {

std::int64_t blocks_of(std::int64_t queries, std::int64_t size) { return (queries + size - 1) / size; }

// How many blocks of queries read each key.
std::int64_t readers_of(const AttentionCall& call, std::int64_t queries_of_a_block) {
  return call.group() * blocks_of(call.queries, queries_of_a_block);
}

}  // namespace

Job::Job(const AttentionCall& attention, std::int64_t queries_of_a_block, NarrowUse use)
    : call(&attention),
      k(attention.k, attention.options.k_rotary, attention.is_narrow ? 1 : readers_of(attention, queries_of_a_block)),
      v(attention.v, {}, attention.is_narrow ? 1 : readers_of(attention, queries_of_a_block)) {
  const std::int64_t readers = readers_of(attention, queries_of_a_block);
  if (attention.second_v) second_v.emplace(*attention.second_v, std::nullopt, attention.is_narrow ? 1 : readers);
  if (!attention.is_narrow) return;
  const auto source = [&](const AnyView& x, const std::optional<RotaryView>& rotation, NarrowLayout layout) {
    return NarrowSource(x, rotation, layout, readers);
  };
  const bool is_backward = use == NarrowUse::backward;
  narrow.emplace(NarrowJob{source(attention.k, attention.options.k_rotary, NarrowLayout::rows),
                           source(attention.v, {}, is_backward ? NarrowLayout::rows : NarrowLayout::columns),
                           {},
                           {}});
  if (attention.second_v) narrow->second_v = source(*attention.second_v, {}, NarrowLayout::columns);
  if (is_backward) narrow->k_columns = source(attention.k, attention.options.k_rotary, NarrowLayout::columns);
}

void run_tasks(std::int64_t count, std::int64_t multiplications, TaskRef task) {
  constexpr std::int64_t kWorthThreads = 1 << 18;
  if (multiplications >= kWorthThreads) {
    parallel_for(count, task);
  } else {
    for (std::int64_t i = 0; i < count; i++) task(i);
  }
}

std::int64_t multiplications_of(const AttentionCall& call) {
  std::int64_t pairs = 0;
  for (const Sequence& sequence : call.sequences) pairs += sequence.queries * sequence.keys;
  return call.heads * pairs * (call.channels + call.value_channels * (call.second_v ? 2 : 1));
}

List<QueryBlock> query_blocks(const Sequence& sequence, std::int64_t head, std::int64_t queries_of_a_block) {
  List<QueryBlock> blocks;
  for (std::int64_t i = blocks_of(sequence.queries, queries_of_a_block) - 1; i >= 0; i--) {
    const std::int64_t first = i * queries_of_a_block;
    blocks.push_back({.sequence = &sequence,
                      .head = head,
                      .first = sequence.first_query + first,
                      .count = std::min(queries_of_a_block, sequence.queries - first)});
  }
  return blocks;
}

}  // namespace phasor::detail
