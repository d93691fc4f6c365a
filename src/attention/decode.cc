#include "decode.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode.cc"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <span>

#include "decode-inl.h"
#include "rows.h"
#include "scores-inl.h"
#include "scratch/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Keys or values of one key head of one sequence. Rows of whole vectors are read in place. Others, and keys that are
// not rotated yet, are copied block by block to rows of floats, with zeros up to a whole vector.
class DecodeRows {
 public:
  DecodeRows(const detail::AnyView& x, const std::optional<RotaryView>& rotation, const detail::DecodeGroup& group,
             detail::Arena& arena)
      : x_(x), rotation_(rotation), group_(group), stride_(detail::DecodeJob::padded(x.shape[3])) {
    if (!rotation && x.shape[3] % static_cast<int64_t>(kLanes) == 0) return;
    const size_t size = kDecodeKeys * static_cast<size_t>(stride_);
    copy_ = arena.take(size);
    std::memset(copy_, 0, size * sizeof(float));
  }

  // Calls body(TypedRows) with the rows of keys first .. first + count - 1 of the sequence.
  template <class Body>
  void With(int64_t first, size_t count, const Body& body) const {
    if (copy_) {
      detail::read_rows(x_, group_.sequence->batch, group_.key_head, group_.sequence->first_key + first,
                        static_cast<int64_t>(count), rotation_, copy_, stride_);
      return body(TypedRows<float>{copy_, stride_});
    }
    const auto typed = [&]<class T>(const T* data) {
      const T* rows[kDecodeKeys];
      ForRuns(first, count, [&](int64_t offset, int64_t at, int64_t n) {
        if (!x_.pages) return body(TypedRows<T>{data + offset, x_.strides[2]});
        for (int64_t i = 0; i < n; i++) rows[at + i] = data + offset + i * x_.strides[2];
      });
      if (x_.pages) body(ListedRows<T>{rows, 0});
    };
    switch (x_.type) {
      case detail::ElementType::float32:
        return typed(reinterpret_cast<const float*>(x_.data));
      case detail::ElementType::bfloat16:
        return typed(reinterpret_cast<const bf16*>(x_.data));
      case detail::ElementType::float16:
        return typed(reinterpret_cast<const f16*>(x_.data));
      case detail::ElementType::int8:
        return typed(reinterpret_cast<const int8_t*>(x_.data));
    }
  }

  // The factors of rows that With gives as whole numbers, with zeros up to a whole vector, or none; valid until the
  // next call.
  const float* Scales(int64_t first, size_t count) {
    if (copy_ || x_.type != detail::ElementType::int8) return nullptr;
    x_.for_scaled_runs(
        group_.sequence->batch, group_.key_head, group_.sequence->first_key + first, static_cast<int64_t>(count),
        [&](int64_t, const float* scales, int64_t at, int64_t n) { std::copy_n(scales, n, scales_ + at); });
    std::fill_n(scales_ + count, (kLanes - count % kLanes) % kLanes, 0.0f);
    return scales_;
  }

  // Where they are; valid until the next call.
  std::span<const detail::RowsInMemory> InMemory(int64_t first, size_t count) {
    runs_.clear();
    ForRuns(first, count, [&](int64_t offset, int64_t, int64_t n) { runs_.emplace_back(x_, offset, n); });
    return runs_;
  }

 private:
  template <class Body>
  void ForRuns(int64_t first, size_t count, const Body& body) const {
    x_.for_runs(group_.sequence->batch, group_.key_head, group_.sequence->first_key + first,
                static_cast<int64_t>(count), body);
  }

  const detail::AnyView& x_;
  const std::optional<RotaryView> rotation_;
  const detail::DecodeGroup& group_;
  const int64_t stride_;
  float* copy_ = nullptr;
  HWY_ALIGN float scales_[kDecodeKeys];
  detail::List<detail::RowsInMemory> runs_;
};

// One chunk of the keys of a group.
class DecodeChunk {
 public:
  DecodeChunk(const detail::DecodeJob& job, const detail::DecodeGroup& group, int64_t chunk)
      : call_(*job.call),
        group_(group),
        begin_(group.begin + chunk * group.chunk),
        end_(std::min(group.end, begin_ + group.chunk)),
        partial_(job.partial(group, chunk)),
        block_(KeysInBlock(call_.k.element_size() * call_.channels + call_.v.element_size() * call_.value_channels)),
        slots_(static_cast<size_t>(group.slots)),
        q_stride_(static_cast<size_t>(detail::DecodeJob::padded(call_.channels))),
        value_stride_(static_cast<size_t>(job.value_stride())),
        terms_(call_, *group.sequence, 0, Pass::forward, arena_),
        k_(call_.k, call_.options.k_rotary, group, arena_),
        v_(call_.v, std::nullopt, group, arena_),
        q_(arena_.take(slots_ * q_stride_)),
        scores_(arena_.take(slots_ * kDecodeKeys)),
        sums_(arena_.take(slots_ * kLanes)),
        factors_(arena_.take(slots_)) {}

  void Run() {
    for (int64_t s = 0; s < group_.slots; s++)
      places_.push_back({group_.head(s), QueryOf(s), group_.position(s), 0, 0});
    if (begin_ < end_) ReadQueries();
    Attend(false);
    if (HasNaN()) Attend(true);
  }

 private:
  static size_t WholeVectors(int64_t channels) {
    return (static_cast<size_t>(channels) + kLanes - 1) / kLanes * kLanes;
  }

  void ReadQueries() {
    const detail::Sequence& sequence = *group_.sequence;
    const size_t size = slots_ * q_stride_;
    std::memset(q_, 0, size * sizeof(float));
    for (int64_t s = 0; s < group_.slots; s += sequence.queries)
      detail::read_rows(call_.q, sequence.batch, group_.head(s), sequence.first_query, sequence.queries,
                        call_.options.q_rotary, q_ + s * static_cast<int64_t>(q_stride_),
                        static_cast<int64_t>(q_stride_));
    for (int64_t s = 0; s < group_.slots; s++) {
      const float factor = terms_.softcap().QueryFactor() * terms_.query_scale().At(group_.head(s), QueryOf(s));
      float* row = q_ + s * static_cast<int64_t>(q_stride_);
      for (size_t c = 0; c < q_stride_; c++) row[c] *= factor;
    }
  }

  size_t KeysFrom(int64_t first) const {
    return static_cast<size_t>(std::clamp<int64_t>(end_ - first, 0, static_cast<int64_t>(block_)));
  }

  // The next keys and values are prefetched while these are processed.
  void Attend(bool carefully) {
    std::fill_n(partial_.max, slots_, -detail::kInfinity);
    std::fill_n(sums_, slots_ * kLanes, 0.0f);
    std::fill_n(partial_.values, slots_ * value_stride_, 0.0f);
    const size_t channels = WholeVectors(call_.channels), value_channels = WholeVectors(call_.value_channels);
    const int64_t steps = ScoreSteps(slots_, block_) + ValueSteps(slots_, value_channels, block_);
    for (int64_t first = begin_, next = first; first < end_; first = next) {
      next = first + static_cast<int64_t>(block_);
      const size_t keys = KeysFrom(first);
      if (terms_.has_block_mask() && !MaySee(first, keys)) continue;
      detail::DecodeAhead ahead(Ahead(next), steps);
      k_.With(first, keys, [&](const auto& k) { DotScores(slots_, channels, q_, q_stride_, keys, k, ahead, scores_); });
      const float *key_scales = k_.Scales(first, keys), *value_scales = v_.Scales(first, keys);
      for (size_t s = 0; s < slots_; s++) {
        float* row = scores_ + s * kDecodeKeys;
        if (key_scales) ScaleScores(keys, key_scales, row);
        terms_.ScoreRow(PlaceOf(s, first, keys), row);
        factors_[s] = SoftmaxRow(keys, row, partial_.max[s], sums_ + s * kLanes);
        if (value_scales) ScaleWeights(keys, value_scales, row);
      }
      v_.With(first, keys, [&](const auto& v) {
        if (carefully)
          AddValuesCarefully(slots_, value_channels, keys, scores_, v, factors_, partial_.values, value_stride_);
        else
          AddValues(slots_, value_channels, keys, scores_, v, ahead, factors_, partial_.values, value_stride_);
      });
    }
    const FloatTag d;
    for (size_t s = 0; s < slots_; s++)
      partial_.sum[s] = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, sums_ + s * kLanes)));
  }

  detail::RowsToFetch Ahead(int64_t next) {
    const size_t keys = KeysFrom(next);
    return {k_.InMemory(next, keys), v_.InMemory(next, keys)};
  }

  // Whether some slot may see one of the keys.
  bool MaySee(int64_t first, size_t keys) const {
    for (size_t s = 0; s < slots_; s++)
      if (terms_.MaySee(PlaceOf(s, first, keys))) return true;
    return false;
  }

  // The row of q of a slot.
  int64_t QueryOf(int64_t slot) const { return group_.sequence->first_query + slot % group_.sequence->queries; }

  RowPlace PlaceOf(size_t slot, int64_t first, size_t keys) const {
    RowPlace place = places_[slot];
    place.first_key = first, place.keys = keys;
    return place;
  }

  bool HasNaN() const {
    const FloatTag d;
    FloatVec sum = hn::Zero(d);
    for (size_t s = 0; s < slots_; s++)
      for (size_t c = 0; c < WholeVectors(call_.value_channels); c += kLanes)
        sum = hn::Add(sum, hn::LoadU(d, partial_.values + s * value_stride_ + c));
    return !hn::AllFalse(d, hn::IsNaN(sum));
  }

  const detail::AttentionCall& call_;
  const detail::DecodeGroup& group_;
  const int64_t begin_, end_;
  const detail::DecodePartial partial_;
  const size_t block_;  // keys between two updates of the largest score
  const size_t slots_, q_stride_, value_stride_;
  detail::Arena arena_;
  const ScoreTerms terms_;
  DecodeRows k_, v_;
  detail::List<RowPlace> places_;  // of the slots
  float* q_;                       // [slots][q_stride], rotated, times QueryFactor
  float* scores_;                  // [slots][kDecodeKeys]: scores, then weights
  float* sums_;                    // [slots][kLanes]: to be added over the lanes
  float* factors_;                 // [slots]
};

// forward() gives each query of a head a lane of a panel. Measured for 1 to 32 queries of AVX-512, AVX2 and SSE4 each,
// its panels are faster if they are at least about a third full, however many heads share their keys.
int64_t MostDecodeQueries() { return static_cast<int64_t>(std::max<size_t>(1, kPanel / 4)); }

void RunDecodeChunk(const detail::DecodeJob& job, const detail::DecodeGroup& group, int64_t chunk) {
  DecodeChunk(job, group, chunk).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <utility>
#include <vector>

#include "job.h"
#include "keys.h"
#include "simd/dispatch.h"

namespace phasor::detail {
namespace {

HWY_EXPORT(MostDecodeQueries);
HWY_EXPORT(RunDecodeChunk);

struct DecodeTask {
  DecodeGroup* group;
  std::int64_t chunk;
};

List<DecodeGroup> make_groups(const AttentionCall& call) {
  List<DecodeGroup> groups(call.sequences.size() * static_cast<std::size_t>(call.key_heads));
  std::size_t i = 0;
  for (const Sequence& sequence : call.sequences)
    for (std::int64_t key_head = 0; key_head < call.key_heads; key_head++) {
      DecodeGroup& group = groups[i++];
      group.sequence = &sequence;
      group.key_head = key_head;
      group.slots = call.group() * sequence.queries;
      group.begin = call.first_seen(sequence.offset);
      group.end = std::max(group.begin, call.end_seen(sequence, sequence.offset + sequence.queries - 1));
      const std::int64_t keys = group.end - group.begin;
      group.chunk = DecodeJob::chunk(keys);
      group.chunks = std::max<std::int64_t>(1, (keys + group.chunk - 1) / group.chunk);
      group.to_do = group.chunks;
    }
  return groups;
}

// Keys in place: all chunks of a head in turn, because hardware prefetches from one to the next. Keys in pages: all
// heads of a chunk in turn, because pages have the keys of all heads. Partial results are in memory of the arena.
List<DecodeTask> make_tasks(const DecodeJob& job, List<DecodeGroup>& groups, Arena& arena) {
  List<DecodeTask> tasks;
  const auto heads = static_cast<std::size_t>(job.call->key_heads);
  for (std::size_t first = 0; first < groups.size(); first += heads) {
    const std::span<DecodeGroup> of_sequence(&groups[first], heads);
    if (of_sequence[0].slots == 0) continue;
    for (DecodeGroup& group : of_sequence) {
      group.partials = arena.take(static_cast<std::size_t>(group.chunks * job.partial_size(group.slots)));
      for (std::int64_t chunk = 0; chunk < group.chunks; chunk++) tasks.push_back({&group, chunk});
    }
    if (!job.call->k.pages) continue;
    const auto first_task = tasks.end() - of_sequence[0].chunks * job.call->key_heads;
    std::ranges::sort(first_task, tasks.end(), {},
                      [](const DecodeTask& task) { return std::pair(task.chunk, task.group->key_head); });
  }
  return tasks;
}

// Divides by the sum and stores the end of softmax.
void finish_slot(const DecodeJob& job, const DecodeGroup& group, std::int64_t slot, double max, double sum,
                 std::span<float> values) {
  const SoftmaxEnd end = end_softmax(*job.call, group.head(slot), max, sum);
  for (float& value : values) value *= end.factor;
  end.store(*job.output, group.sequence->batch, group.head(slot),
            group.sequence->first_query + slot % group.sequence->queries);
}

// Sums over the chunks in order, all relative to the largest score of any chunk: exact except for rounding. The values
// of the first chunk become the result.
void merge_slot(const DecodeJob& job, const DecodeGroup& group, std::int64_t slot) {
  const auto channels = static_cast<std::size_t>(job.value_stride());
  const auto values_of = [&](std::int64_t chunk) {
    return std::span(job.partial(group, chunk).values + slot * job.value_stride(), channels);
  };
  float max = -kInfinity;
  for (std::int64_t chunk = 0; chunk < group.chunks; chunk++) max = std::max(max, job.partial(group, chunk).max[slot]);
  double sum = 0;
  const std::span<float> result = values_of(0);
  for (std::int64_t chunk = 0; chunk < group.chunks; chunk++) {
    const DecodePartial partial = job.partial(group, chunk);
    const float factor = max == -kInfinity ? 1.0f : std::exp2(partial.max[slot] - max);
    sum += static_cast<double>(factor) * partial.sum[slot];
    const std::span<const float> values = values_of(chunk);
    for (std::size_t c = 0; c < channels; c++) result[c] = factor * values[c] + (chunk == 0 ? 0.0f : result[c]);
  }
  finish_slot(job, group, slot, max, sum, result);
}

void merge(const DecodeJob& job, const DecodeGroup& group) {
  for (std::int64_t slot = 0; slot < group.slots; slot++) merge_slot(job, group, slot);
  const Sequence& sequence = *group.sequence;
  const float* rows = job.partial(group, 0).values;
  for (std::int64_t slot = 0; slot < group.slots; slot += sequence.queries)
    write_rows(job.output->out, sequence.batch, group.head(slot), sequence.first_query, sequence.queries,
               rows + slot * job.value_stride(), job.value_stride());
}

}  // namespace

bool is_decode(const AttentionCall& call, const ForwardOutput& output) {
  // A backward pass will compute the scores again, by tiles. They must be the same bits, or a rounding of a large score
  // would be an error of its weight.
  if (output.softmax.data) return false;
  if (call.second_v || call.options.dropout > 0 || output.weights.data) return false;
  const std::int64_t most = PHASOR_DISPATCH(MostDecodeQueries)();
  return std::ranges::all_of(call.sequences, [&](const Sequence& s) { return s.queries <= most; });
}

void decode(const AttentionCall& call, const ForwardOutput& output) {
  const DecodeJob job{&call, &output};
  List<DecodeGroup> groups = make_groups(call);
  Arena arena;
  const List<DecodeTask> tasks = make_tasks(job, groups, arena);
  run_tasks(static_cast<std::int64_t>(tasks.size()), multiplications_of(call), [&](std::int64_t i) {
    const DecodeTask& task = tasks[static_cast<std::size_t>(i)];
    PHASOR_DISPATCH(RunDecodeChunk)(job, *task.group, task.chunk);
    if (task.group->to_do.fetch_sub(1, std::memory_order_acq_rel) == 1) merge(job, *task.group);
  });
}

}  // namespace phasor::detail
#endif  // HWY_ONCE
