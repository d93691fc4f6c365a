// The cases of the attention benchmarks: shapes, features, inputs, and how their work is counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "phasor/attention/attention.h"
#include "random_tensor.h"

namespace phasor::bench {

// As many queries as keys; `channels` of q, k and v.
struct AttentionShape {
  std::int64_t batch = 1, heads = 8, key_heads = 8, tokens = 2048, channels = 64;
  bool causal = false;

  Shape<4> queries() const { return {batch, heads, tokens, channels}; }
  Shape<4> keys() const { return {batch, key_heads, tokens, channels}; }
};

// "H8/S2048/D64/causal", with what differs from the usual: "B32/H8/...", "H32-8/..." for 32 query and 8 key heads.
std::string shape_name(const AttentionShape& shape);

// Floating-point operations of a forward pass: two products over `channels` for each (query, key) pair that is not
// masked. A backward pass has five, so forward + backward is 3.5 times as much, the recomputed scores included.
double forward_operations(const AttentionShape& shape, const AttentionOptions& options, std::int64_t channels);
constexpr double kForwardAndBackward = 3.5;

// Options of a case, and the memory they refer to.
struct CaseOptions {
  AttentionOptions options;
  RelativeBias bias;
  AnyRotaryTable rotation;
  std::vector<std::int64_t> key_lengths;
};

// Something that a case has besides its shape.
struct Feature {
  const char* name;
  void (*use)(CaseOptions&, const AttentionShape&);
};
extern const Feature kPlain, kWithAlibi, kRotation, kKeyLengths, kWindow, kDropout;
extern const Feature kLearnedBias;         // a number for every distance
extern const Feature kLearnedBiasClamped;  // for those up to 128; the others share the ends

struct AttentionCase {
  AttentionShape shape;
  Feature feature = kPlain;

  bool has_window() const { return feature.use == kWindow.use; }
  void fill(CaseOptions& to) const;
  std::string name(const std::string& pass) const;
  // The case without the feature, to be shown beside it. None for a window, which is another amount of work.
  std::string plain_name(const std::string& pass) const;
};

template <class T>
struct AttentionInputs {
  Tensor<T, 4> q, k, v;
  explicit AttentionInputs(const AttentionShape& shape)
      : q(random_tensor<T, 4>(shape.queries(), 1)),
        k(random_tensor<T, 4>(shape.keys(), 2)),
        v(random_tensor<T, 4>(shape.keys(), 3)) {}
};

// Lengths of vision transformers, head sizes that are no multiple of a vector or a block, many short sequences.
std::vector<AttentionShape> odd_shapes();

}  // namespace phasor::bench
