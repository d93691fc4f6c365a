#include "attention_case.h"

#include <algorithm>
#include <utility>

#include "phasor/position/alibi.h"
#include "phasor/position/encoding.h"
#include "phasor/position/rope.h"

namespace phasor::bench {
namespace {

void use_bias(CaseOptions& to, RelativeBias bias) {
  to.bias = std::move(bias);
  to.options.relative_bias = to.bias;
}

// The distances -reach .. reach have a number each; those beyond share the ends.
void use_learned_bias(CaseOptions& to, const AttentionShape& shape, std::int64_t reach) {
  use_bias(to, {random_tensor<float, 2>({shape.heads, 2 * reach + 1}, 5), -reach});
}

void use_alibi(CaseOptions& to, const AttentionShape& shape) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(shape.tokens);
  const Placement placement{.queries = positions.view(), .shape = {.heads = shape.heads, .head_dim = shape.channels}};
  use_bias(to, *lower(AlibiConfig{.causal = shape.causal}, {}, placement).bias);
}

void use_rotation(CaseOptions& to, const AttentionShape& shape) {
  const Tensor<std::int64_t, 3> positions = consecutive_positions(shape.tokens);
  to.rotation = rotary_table({.head_dim = shape.channels}, positions.view());
  to.options.q_rotary = to.options.k_rotary = to.rotation;
}

// A few keys less, no multiple of any block: nearly the work of the plain case, with an edge.
void use_key_lengths(CaseOptions& to, const AttentionShape& shape) {
  to.key_lengths.assign(static_cast<std::size_t>(shape.batch), shape.tokens - 7);
  to.options.key_lengths = to.key_lengths;
}

double visible_pairs(std::int64_t tokens, const AttentionOptions& options) {
  const std::int64_t length = options.key_lengths.empty() ? tokens : options.key_lengths.front();
  double pairs = 0.0;
  for (std::int64_t p = 0; p < tokens; p++) {
    const std::int64_t first = std::max<std::int64_t>(0, p - options.window.left + 1);
    const std::int64_t end = options.causal ? std::min(length, p + 1) : length;
    pairs += static_cast<double>(std::max<std::int64_t>(0, end - first));
  }
  return pairs;
}

}  // namespace

// Known when compiling: cases are registered before main, in no certain order of files.
constinit const Feature kPlain{"", [](CaseOptions&, const AttentionShape&) {}};
constinit const Feature kWithAlibi{"/alibi", use_alibi};
constinit const Feature kRotation{"/rotation", use_rotation};
constinit const Feature kKeyLengths{"/key_lengths", use_key_lengths};
constinit const Feature kWindow{"/window_1024",
                                [](CaseOptions& to, const AttentionShape&) { to.options.window = 1024; }};
constinit const Feature kDropout{
    "/dropout", [](CaseOptions& to, const AttentionShape&) { to.options.dropout = 0.1, to.options.seed = 1; }};
constinit const Feature kLearnedBias{"/learned_bias", [](CaseOptions& to, const AttentionShape& shape) {
                                       use_learned_bias(to, shape, shape.tokens - 1);
                                     }};
constinit const Feature kLearnedBiasClamped{
    "/learned_bias_128", [](CaseOptions& to, const AttentionShape& shape) { use_learned_bias(to, shape, 128); }};

std::string shape_name(const AttentionShape& shape) {
  const std::string batch = shape.batch == 1 ? "" : "B" + std::to_string(shape.batch) + "/";
  const std::string groups = shape.key_heads == shape.heads ? "" : "-" + std::to_string(shape.key_heads);
  return batch + "H" + std::to_string(shape.heads) + groups + "/S" + std::to_string(shape.tokens) + "/D" +
         std::to_string(shape.channels) + (shape.causal ? "/causal" : "/full");
}

double forward_operations(const AttentionShape& shape, const AttentionOptions& options, std::int64_t channels) {
  return 4.0 * static_cast<double>(shape.batch * shape.heads * channels) * visible_pairs(shape.tokens, options);
}

void AttentionCase::fill(CaseOptions& to) const {
  to.options.causal = shape.causal;
  feature.use(to, shape);
}

std::string AttentionCase::name(const std::string& pass) const { return pass + shape_name(shape) + feature.name; }

std::string AttentionCase::plain_name(const std::string& pass) const {
  return feature.use == kPlain.use || has_window() ? "" : pass + shape_name(shape);
}

std::vector<AttentionShape> odd_shapes() {
  return {{.batch = 32, .tokens = 197},     {.batch = 32, .tokens = 577},
          {.tokens = 1024, .channels = 40}, {.tokens = 1024, .channels = 80},
          {.tokens = 1024, .channels = 96}, {.batch = 64, .heads = 12, .key_heads = 12, .tokens = 128}};
}

}  // namespace phasor::bench
