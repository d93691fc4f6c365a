// The table of attention's options: one row for each member of AttentionOptions. What lists the options reads it here:
// the Python keywords and their signatures, torch's operators, messages, and the table in docs/python.md. So a new
// option is a member of AttentionOptions and a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>

#include "phasor/attention/attention.h"
#include "phasor/attention/w2.h"

namespace phasor {

// The type of an option as documents name it, from the type of its member.
template <class Member>
inline constexpr const char* kOptionType = nullptr;
template <>
inline constexpr const char* kOptionType<bool> = "bool";
template <>
inline constexpr const char* kOptionType<double> = "float";
template <>
inline constexpr const char* kOptionType<std::optional<double>> = "float";
template <>
inline constexpr const char* kOptionType<std::uint64_t> = "int";
template <>
inline constexpr const char* kOptionType<Window> = "int or (left, right)";
template <>
inline constexpr const char* kOptionType<SpanInput<std::int64_t>> = "integers";
template <>
inline constexpr const char* kOptionType<SpanInput<float>> = "float32 array";
template <>
inline constexpr const char* kOptionType<TensorInput<float, 3>> = "float32 array";
template <>
inline constexpr const char* kOptionType<MaskInput> = "bool or float32 array";
template <>
inline constexpr const char* kOptionType<std::optional<BlockMask>> = "BlockMask";
template <>
inline constexpr const char* kOptionType<std::optional<RelativeBiasView>> = "RelativeBias";
template <>
inline constexpr const char* kOptionType<std::optional<RotaryView>> = "RotaryTable";
template <>
inline constexpr const char* kOptionType<std::optional<Precision>> = "str";

struct NoGradient {};

// `gradient` returns the option's member of AttentionGradients or W2Gradients, if it has one.
template <class Member, class Gradient>
struct OptionRow {
  const char *name, *gradient_name;
  Member AttentionOptions::*member;
  Gradient gradient;
  const char* shape;  // empty for numbers
  const char* doc;

  static constexpr bool has_gradient = !std::is_same_v<Gradient, NoGradient>;
  static constexpr const char* type = kOptionType<Member>;
  static_assert(type != nullptr, "an option of a new type needs a name for it above");
};
template <class Member, class Gradient>
constexpr OptionRow<Member, Gradient> option_row(const char* name, const char* gradient_name,
                                                 Member AttentionOptions::*member, Gradient gradient, const char* shape,
                                                 const char* doc) {
  return {name, gradient_name, member, gradient, shape, doc};
}

#define PHASOR_OPTION(name, shape, doc) option_row(#name, "", &AttentionOptions::name, NoGradient(), shape, doc)
#define PHASOR_LEARNED_OPTION(name, shape, doc) \
  option_row(                                   \
      #name, "grad_" #name, &AttentionOptions::name, [](auto& all) -> auto& { return all.name; }, shape, doc)

// In the order of AttentionOptions. Arrays are right-aligned with their shapes: leading dimensions may be left out.
inline constexpr std::tuple kOptionTable{
    PHASOR_OPTION(scale, "", "what q.k is multiplied by; when not given, 1/sqrt(D), in w2_attention 1"),
    PHASOR_LEARNED_OPTION(query_scale, "[B or 1, H or 1, T]", "one more factor of q_i.k_j, for each query"),
    PHASOR_OPTION(
        query_offsets, "[1] or [B]",
        "query i of sequence b is at p = query_offsets[b] + i; S - T when not given: the last query is at the "
        "position of the last key"),
    PHASOR_OPTION(causal, "", "a query at p sees the keys j <= p"),
    PHASOR_OPTION(
        window, "",
        "a query at p sees the keys p - left < j < p + right; one number is left: it counts keys to the left, "
        "the query's own included"),
    PHASOR_OPTION(key_lengths, "[B]", "how many keys of each sequence count; changes no position"),
    PHASOR_OPTION(query_starts, "[n + 1]",
                  "n sequences in a batch of 1: where the queries of each begin, and where the last ends; offsets, "
                  "lengths, causal and window apply within each"),
    PHASOR_OPTION(key_starts, "[n + 1]", "the same for keys; query_starts when not given"),
    PHASOR_LEARNED_OPTION(mask, "[B or 1, H or 1, T or 1, S or 1]",
                          "bool: true where the query may see the key; float32: added to the score"),
    PHASOR_OPTION(block_mask, "", "skips blocks of queries and keys that it hides; made by make_block_mask"),
    PHASOR_LEARNED_OPTION(key_bias, "[B or 1, H or G or 1, S]", "added to the scores of a key"),
    PHASOR_LEARNED_OPTION(relative_bias, "[H, span]",
                          "added by distance j - p (T5, learned relative); a table alone, [H, 2 n + 1], is for the "
                          "distances -n .. n"),
    PHASOR_LEARNED_OPTION(alibi_slopes, "[H]", "adds -slope |j - p|; not beside relative_bias"),
    PHASOR_LEARNED_OPTION(q_rotary, "[T, R/2], [B or 1, T, R/2] or [B or 1, H or 1, T, R/2]", "row i rotates q_i"),
    PHASOR_LEARNED_OPTION(k_rotary, "[S, R/2], [B or 1, S, R/2] or [B or 1, G or 1, S, R/2]",
                          "row j rotates k_j; of the pairing of q_rotary"),
    PHASOR_OPTION(softcap, "", "c > 0: scaled scores become c tanh(score / c), before biases and masks"),
    PHASOR_LEARNED_OPTION(sinks, "[H]", "one more score in each softmax, with value 0"),
    PHASOR_OPTION(
        dropout, "",
        "in [0, 1): the probability that a weight is dropped; the others are multiplied by 1 / (1 - dropout)"),
    PHASOR_OPTION(seed, "", "0 .. 2^64 - 1: determines which weights are dropped"),
    PHASOR_OPTION(
        precision, "",
        "of products: \"storage\" multiplies bf16 arrays in bf16 where the CPU has instructions for it, \"float\" does "
        "not, \"bf16\" rounds float arrays too; that of set_precision when not given"),
};
#undef PHASOR_OPTION
#undef PHASOR_LEARNED_OPTION

// Calls visit(row) for each option.
template <class Visit>
constexpr void for_each_option(const Visit& visit) {
  std::apply([&](const auto&... rows) { (visit(rows), ...); }, kOptionTable);
}

// Calls visit(row) for each option that has a gradient.
template <class Visit>
constexpr void for_each_learned_option(const Visit& visit) {
  for_each_option([&](const auto& row) {
    if constexpr (std::remove_cvref_t<decltype(row)>::has_gradient) visit(row);
  });
}

// No member is without a row: there are as many rows as names below, and as many names as members, or this does not
// compile.
namespace detail {

inline auto members_of(const AttentionOptions& options) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = options;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t);
}
inline auto members_of(const AttentionGradients<float>& gradients) {
  const auto& [q, k, v, a, b, c, d, e, f, g, h] = gradients;
  return std::tie(a, b, c, d, e, f, g, h);
}
inline auto members_of(const W2Gradients<float>& gradients) {
  const auto& [q, k, v, tau, a, b, c, d, e, f, g, h] = gradients;
  return std::tie(a, b, c, d, e, f, g, h);
}

constexpr std::size_t count_learned_options() {
  std::size_t count = 0;
  for_each_learned_option([&](const auto&) { count++; });
  return count;
}

static_assert(std::tuple_size_v<decltype(members_of(AttentionOptions()))> == std::tuple_size_v<decltype(kOptionTable)>,
              "a member of AttentionOptions has no row");
static_assert(std::tuple_size_v<decltype(members_of(AttentionGradients<float>()))> == count_learned_options() &&
                  std::tuple_size_v<decltype(members_of(W2Gradients<float>()))> == count_learned_options(),
              "a gradient has no row, or an option with one is not in AttentionGradients and W2Gradients");

}  // namespace detail

}  // namespace phasor
