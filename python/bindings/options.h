// AttentionOptions from keyword arguments: scale, causal, window_left, ... as _phasor.pyi lists them. What is left out
// or None keeps its default.
#pragma once

#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "arrays.h"
#include "phasor/attention/attention.h"

namespace phasor::python {

// A rotation from its arrays [T, R/2] or [B, T, R/2]; nothing when both are None.
class RotationArgument {
 public:
  RotationArgument(const char* function, const char* cos_name, nb::handle cos, const char* sin_name, nb::handle sin,
                   nb::handle pairing);
  const std::optional<RotaryView>& view() const { return view_; }

 private:
  Array cos_, sin_;  // hold the memory
  std::optional<RotaryView> view_;
};

// Holds the memory that `value` looks at.
class OptionArguments {
 public:
  OptionArguments(const char* function, const nb::kwargs& arguments);
  OptionArguments(const OptionArguments&) = delete;
  OptionArguments& operator=(const OptionArguments&) = delete;

  AttentionOptions value;

 private:
  nb::handle given(std::size_t slot) const { return given_[slot]; }
  void read_places();
  void read_tables();
  const Array& hold(std::size_t slot);
  template <class Number>
  Number number(std::size_t slot, Number otherwise) const;

  const char* function_;
  std::vector<nb::handle> given_;  // one for each name, or none
  std::vector<std::int64_t> query_offsets_, key_lengths_, query_starts_, key_starts_;
  std::deque<Array> arrays_;
  std::deque<RotationArgument> rotations_;
};

}  // namespace phasor::python
