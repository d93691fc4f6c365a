// Attention layers and transformer blocks in plain double loops: the specification. Weights go by the names that
// list_weights gives.
#pragma once

#include <map>
#include <string>

#include "phasor/layers/attention_projections.h"
#include "reference/attention.h"
#include "reference/layers.h"
#include "reference/w2.h"

namespace phasor::reference {

using WeightValues = std::map<std::string, Values>;

// [B * T, C] for each stream; the second has no rows where there is one stream.
struct StreamRows {
  Matrix mu{0, 0}, log_sigma{0, 0};
};

// A layer's sizes, and all of a call but q, k and v.
struct LayerCall {
  AttentionHeads heads;
  double eps = 1e-6;  // of all norms
  Problem<double> attention;
};

// The call that a layer makes of a caller's options and plan, with B sequences of `queries` and `keys` tokens.
inline LayerCall layer_call(const AttentionHeads& heads, AttentionOptions options, const PositionPlan& plan,
                            std::int64_t batch, std::int64_t queries, std::int64_t keys) {
  const Tensor<float, 4> q({batch, heads.heads, queries, heads.head_dim});
  const Tensor<float, 4> k({batch, heads.key_heads, keys, heads.head_dim});
  options.scale = plan.score_scale;
  if (plan.rotate_q) options.q_rotary = *plan.rotate_q;
  if (plan.rotate_q) options.k_rotary = plan.rotate_k ? *plan.rotate_k : *plan.rotate_q;
  if (plan.bias) options.relative_bias = *plan.bias;
  return {.heads = heads, .attention = problem<double>(q.view(), k.view(), k.view(), options)};
}

// Rows [B * T, H * D] as heads [B, H, T, D], and back.
inline Array<double, 4> to_heads(const Matrix& rows, std::int64_t batch, std::int64_t heads) {
  const auto all = static_cast<std::int64_t>(rows.rows), width = static_cast<std::int64_t>(rows.columns);
  Array<double, 4> result({batch, heads, all / batch, width / heads});
  const auto [b_count, h_count, t_count, d_count] = result.shape;
  std::size_t from = 0;
  for (std::int64_t b = 0; b < b_count; b++)
    for (std::int64_t t = 0; t < t_count; t++)
      for (std::int64_t h = 0; h < h_count; h++)
        for (std::int64_t d = 0; d < d_count; d++) result.row(b, h, t)[d] = rows.values[from++];
  return result;
}

inline Matrix to_rows(const Array<double, 4>& heads) {
  const auto [b_count, h_count, t_count, d_count] = heads.shape;
  Matrix result(static_cast<std::size_t>(b_count * t_count), static_cast<std::size_t>(h_count * d_count));
  std::size_t to = 0;
  for (std::int64_t b = 0; b < b_count; b++)
    for (std::int64_t t = 0; t < t_count; t++)
      for (std::int64_t h = 0; h < h_count; h++)
        for (std::int64_t d = 0; d < d_count; d++) result.values[to++] = heads.row(b, h, t)[d];
  return result;
}

inline Matrix project(const WeightValues& weights, const std::string& name, const Matrix& x) {
  const Values& weight = weights.at(name + ".weight");
  const auto bias = weights.find(name + ".bias");
  return linear(x, weight, bias == weights.end() ? Values() : bias->second, weight.size() / x.columns);
}

// Each head is a row; without a weight of this name there is no norm.
inline Matrix norm_heads(const WeightValues& weights, const std::string& name, const LayerCall& call, Matrix rows) {
  const auto weight = weights.find(name + ".weight");
  if (weight == weights.end()) return rows;
  const auto width = static_cast<std::size_t>(call.heads.head_dim);
  Values normed = rms_norm(Matrix(rows.values.size() / width, width, rows.values), weight->second, call.eps).values;
  return {rows.rows, rows.columns, std::move(normed)};
}

struct LayerResult {
  Matrix y{0, 0};
  Array<double, 4> weights;  // softmax(scores), after dropout
};

// `prefix` is empty or ends with a dot.
inline LayerResult attention_layer(const WeightValues& weights, const std::string& prefix, const LayerCall& call,
                                   const Matrix& query, const Matrix& key, const Matrix& value) {
  Problem<double> p = call.attention;
  const std::int64_t batch = p.batch();
  const auto rows = [&](const char* name, const Matrix& x) {
    return norm_heads(weights, prefix + name + "_norm", call, project(weights, prefix + name + "_proj", x));
  };
  p.q = to_heads(rows("q", query), batch, call.heads.heads);
  p.k = to_heads(rows("k", key), batch, call.heads.key_heads);
  p.v = to_heads(rows("v", value), batch, call.heads.key_heads);
  const Result<double> result = forward(p);
  return {project(weights, prefix + "o_proj", to_rows(result.out)), result.weights};
}

struct W2LayerResult {
  StreamRows y;
  Array<double, 4> weights;
};

inline W2LayerResult w2_attention_layer(const WeightValues& weights, const std::string& prefix, const LayerCall& call,
                                        const StreamRows& x) {
  const auto heads = [&](const char* name, const Matrix& rows, std::int64_t count) {
    return to_heads(project(weights, prefix + name, rows), call.attention.batch(), count);
  };
  const std::int64_t h = call.heads.heads, g = call.heads.key_heads;
  W2Problem<double> w{call.attention, heads("q_log_sigma", x.log_sigma, h), heads("k_log_sigma", x.log_sigma, g),
                      heads("v_log_sigma", x.log_sigma, g), weights.at(prefix + "tau")[0]};
  w.means.scale = 1;
  w.means.q = heads("q_mu", x.mu, h);
  w.means.k = heads("k_mu", x.mu, g);
  w.means.v = heads("v_mu", x.mu, g);
  const W2Result<double> result = w2_forward(w);
  return {{project(weights, prefix + "o_mu", to_rows(result.mu.out)),
           project(weights, prefix + "o_log_sigma", to_rows(result.log_sigma))},
          result.mu.weights};
}

inline Matrix sum(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.values.size(); i++) a.values[i] += b.values[i];
  return a;
}

inline Matrix norm_rows(const WeightValues& weights, const std::string& name, const LayerCall& call, const Matrix& x) {
  return rms_norm(x, weights.at(name + ".weight"), call.eps);
}

// x + swiglu(norm(x)).
inline Matrix feed_forward(const WeightValues& weights, const std::string& norm, const std::string& ffn,
                           const LayerCall& call, const Matrix& x) {
  return sum(x, swiglu(norm_rows(weights, norm, call, x), weights.at(ffn + ".gate_proj.weight"),
                       weights.at(ffn + ".up_proj.weight"), weights.at(ffn + ".down_proj.weight")));
}

inline Matrix block(const WeightValues& weights, const LayerCall& call, const Matrix& x) {
  const Matrix normed = norm_rows(weights, "attention_norm", call, x);
  const Matrix middle = sum(x, attention_layer(weights, "attention.", call, normed, normed, normed).y);
  return feed_forward(weights, "ffn_norm", "ffn", call, middle);
}

inline StreamRows w2_block(const WeightValues& weights, const LayerCall& call, const StreamRows& x) {
  const StreamRows normed{norm_rows(weights, "attention_norm_mu", call, x.mu),
                          norm_rows(weights, "attention_norm_log_sigma", call, x.log_sigma)};
  const StreamRows attended = w2_attention_layer(weights, "attention.", call, normed).y;
  return {feed_forward(weights, "ffn_norm_mu", "ffn.mu", call, sum(x.mu, attended.mu)),
          feed_forward(weights, "ffn_norm_log_sigma", "ffn.log_sigma", call, sum(x.log_sigma, attended.log_sigma))};
}

}  // namespace phasor::reference
