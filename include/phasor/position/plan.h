// A position encoding as attention and layers see it: tables of numbers, never its name.
//
// Encodings act in three places, so each lowers to one of three primitives:
//   add     a table added to the token embeddings              (learned, sinusoidal)
//   rotate  cosines and sines that rotate pairs of q and k     (RoPE and its scalings)
//   bias    a number per head and distance, added to the score (ALiBi, T5 buckets, learned relative)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "phasor/core/input.h"
#include "phasor/core/tensor.h"

namespace phasor {

// Which two channels of a head of R rotated channels form pair i.
enum class Pairing {
  half,      // (i, i + R/2): GPT-NeoX, Hugging Face's Llama, Qwen, Gemma, Mistral
  adjacent,  // (2i, 2i + 1): RoFormer, GPT-J, Meta's LLaMA, Cohere, DeepSeek, GLM
};

std::string_view pairing_name(Pairing pairing);  // "half", "adjacent"

// Cosine and sine of every token and pair, [B, T, R/2] with B = 1 when all sequences share positions. The
// pairing is part of the type: a function for one pairing does not accept a table of the other. The
// attention factor of YaRN and LongRoPE is already multiplied in.
template <Pairing P>
struct RotaryTable {
  static constexpr Pairing pairing = P;
  Tensor<float, 3> cos, sin;
};

using HalfTable = RotaryTable<Pairing::half>;
using AdjacentTable = RotaryTable<Pairing::adjacent>;
using AnyRotaryTable = std::variant<HalfTable, AdjacentTable>;

// A table of either pairing, as kernels read it. A table that has a name is borrowed, a temporary is owned.
struct RotaryView {
  TensorInput<float, 4> cos, sin;  // [B or 1, H or 1, T, R/2]
  Pairing pairing = Pairing::half;

  RotaryView(TensorInput<float, 4> cosines, TensorInput<float, 4> sines, Pairing pairs)
      : cos(std::move(cosines)), sin(std::move(sines)), pairing(pairs) {}
  // One table for all heads, [B or 1, T, R/2].
  RotaryView(const TensorInput<float, 3>& cosines, const TensorInput<float, 3>& sines, Pairing pairs)
      : RotaryView(for_all_heads(cosines), for_all_heads(sines), pairs) {}
  template <Pairing P>
  RotaryView(const RotaryTable<P>& table) : RotaryView(table.cos, table.sin, P) {}
  template <Pairing P>
  RotaryView(RotaryTable<P>&& table) : RotaryView(std::move(table.cos), std::move(table.sin), P) {}
  template <Pairing P>
  RotaryView(const RotaryTable<P>&&) = delete;
  RotaryView(const AnyRotaryTable& table)
      : RotaryView(std::visit([](const auto& t) { return RotaryView(t); }, table)) {}
  RotaryView(AnyRotaryTable&& table)
      : RotaryView(std::visit([](auto& t) { return RotaryView(std::move(t)); }, table)) {}
  RotaryView(const AnyRotaryTable&&) = delete;

  std::int64_t pairs() const { return cos.shape[3]; }
  std::int64_t tokens() const { return cos.shape[2]; }

 private:
  static TensorInput<float, 4> for_all_heads(const TensorInput<float, 3>& x) {
    return x.viewed_as<4>(
        {x.data, {x.shape[0], 1, x.shape[1], x.shape[2]}, {x.strides[0], 0, x.strides[1], x.strides[2]}});
  }
};

// bias(h, distance) = table[h, clamp(distance - first_distance, 0, span - 1)], where the distance is the key's
// position minus the query's.
struct RelativeBias {
  Tensor<float, 2> table;  // [H, span]
  std::int64_t first_distance = 0;
};

// A bias table as kernels read it. A table that has a name is borrowed, a temporary is owned.
struct RelativeBiasView {
  TensorInput<float, 2> table;  // [H, span]
  std::int64_t first_distance = 0;

  RelativeBiasView(TensorInput<float, 2> values, std::int64_t first)
      : table(std::move(values)), first_distance(first) {}
  RelativeBiasView(const RelativeBias& bias) : RelativeBiasView(bias.table, bias.first_distance) {}
  RelativeBiasView(RelativeBias&& bias) : RelativeBiasView(std::move(bias.table), bias.first_distance) {}
  RelativeBiasView(const RelativeBias&&) = delete;
};

struct PositionPlan {
  std::optional<Tensor<float, 3>> add;  // [B or 1, T, C]
  std::optional<AnyRotaryTable> rotate_q;
  std::optional<AnyRotaryTable> rotate_k;  // only if keys have other positions than queries
  std::optional<RelativeBias> bias;
  std::optional<double> score_scale;  // what q.k is multiplied by; 1/sqrt(D) when not given. T5 has 1

  // The table that rotates the keys, or nullptr.
  const AnyRotaryTable* key_rotation() const& { return rotate_k ? &*rotate_k : rotate_q ? &*rotate_q : nullptr; }
  const AnyRotaryTable* key_rotation() const&& = delete;
};

// A plan given to a layer, which keeps it for the backward pass. A plan that has a name is borrowed, a temporary is
// owned; {} is a plan without positions.
class PlanInput {
 public:
  PlanInput() : PlanInput(kNoPositions) {}
  PlanInput(const PositionPlan& plan) : plan_(std::shared_ptr<const void>(), &plan) {}  // owns nothing
  PlanInput(PositionPlan&& plan) : plan_(std::make_shared<const PositionPlan>(std::move(plan))) {}
  PlanInput(const PositionPlan&&) = delete;

  const PositionPlan& operator*() const { return *plan_; }
  const PositionPlan* operator->() const { return plan_.get(); }

 private:
  static const PositionPlan kNoPositions;

  std::shared_ptr<const PositionPlan> plan_;
};

// The gradient of the loss by a plan's tables: layers add to it, lower_backward reads it.
struct PlanGradient {
  std::optional<Tensor<float, 3>> add;   // shaped as plan.add
  std::optional<Tensor<float, 2>> bias;  // shaped as plan.bias->table
};

// Positions may be negative; none may be further than 2^40 from 0, where an angle in double is right to 1e-4.
void check_positions(const char* function, std::int64_t position);

// Positions first, first + 1, ... of one sequence, [1, 1, T].
Tensor<std::int64_t, 3> consecutive_positions(std::int64_t count, std::int64_t first = 0);

}  // namespace phasor
