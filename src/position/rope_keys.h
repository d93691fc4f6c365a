// The settings of a scaling as a table of names: one place for "is it given", reading and writing.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <variant>

#include "phasor/position/rope.h"

namespace phasor {

using RopeMember = std::variant<std::optional<double> RopeScaling::*, std::optional<std::int64_t> RopeScaling::*,
                                std::optional<bool> RopeScaling::*, std::vector<double> RopeScaling::*>;

struct RopeKey {
  std::string_view name;
  RopeMember member;
};

inline const std::array<RopeKey, 13> kRopeKeys{{
    {"factor", &RopeScaling::factor},
    {"original_max_position_embeddings", &RopeScaling::original_max_position_embeddings},
    {"attention_factor", &RopeScaling::attention_factor},
    {"beta_fast", &RopeScaling::beta_fast},
    {"beta_slow", &RopeScaling::beta_slow},
    {"mscale", &RopeScaling::mscale},
    {"mscale_all_dim", &RopeScaling::mscale_all_dim},
    {"truncate", &RopeScaling::truncate},
    {"clamp_to_pairs", &RopeScaling::clamp_to_pairs},
    {"low_freq_factor", &RopeScaling::low_freq_factor},
    {"high_freq_factor", &RopeScaling::high_freq_factor},
    {"short_factor", &RopeScaling::short_factor},
    {"long_factor", &RopeScaling::long_factor},
}};

template <class T>
bool is_given(const std::optional<T>& value) {
  return value.has_value();
}
inline bool is_given(const std::vector<double>& list) { return !list.empty(); }

inline bool is_given(const RopeScaling& scaling, const RopeKey& key) {
  return std::visit([&](auto member) { return is_given(scaling.*member); }, key.member);
}

}  // namespace phasor
