// AttentionOptions from keyword arguments, by the table of options (option_table.h). What is left out or None keeps its
// default. An option is converted by the C++ type of its member, so a new one needs nothing here.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "arrays.h"
#include "phasor/attention/option_table.h"

namespace phasor::python {

// A rotation from a RotaryTable, an object with cos, sin ([T, R/2], [B, T, R/2] or [B, H, T, R/2]) and pairing; nothing
// when it is None.
class RotationArgument {
 public:
  RotationArgument(const char* function, const char* name, nb::handle table);
  const std::optional<RotaryView>& view() const { return view_; }

 private:
  nb::object cos_object_, sin_object_;  // these hold the memory
  std::optional<Array> cos_, sin_;
  std::optional<RotaryView> view_;
};

// Holds the memory that `value` looks at. q: the queries of the call.
class OptionArguments {
 public:
  OptionArguments(const char* function, const nb::kwargs& arguments, const Array& q);
  OptionArguments(const OptionArguments&) = delete;
  OptionArguments& operator=(const OptionArguments&) = delete;

  AttentionOptions value;

 private:
  void read(const char* name, nb::handle object, bool& result);
  void read(const char* name, nb::handle object, double& result);
  void read(const char* name, nb::handle object, std::optional<double>& result);
  void read(const char* name, nb::handle object, std::uint64_t& result);
  void read(const char* name, nb::handle object, Window& result);
  void read(const char* name, nb::handle object, SpanInput<std::int64_t>& result);
  void read(const char* name, nb::handle object, SpanInput<float>& result);
  void read(const char* name, nb::handle object, TensorInput<float, 3>& result);
  void read(const char* name, nb::handle object, MaskInput& result);
  void read(const char* name, nb::handle object, std::optional<BlockMask>& result);
  void read(const char* name, nb::handle object, std::optional<RelativeBiasView>& result);
  void read(const char* name, nb::handle object, std::optional<RotaryView>& result);
  void read(const char* name, nb::handle object, std::optional<Precision>& result);
  const Array& hold(const char* name, nb::handle object) { return arrays_.emplace_back(function_, name, object); }
  void complete(bool has_seed);

  const char* function_;
  bool has_sequences_;
  std::deque<Array> arrays_;
  std::deque<RotationArgument> rotations_;
};

// Memory for the gradients of options, by the names of the options: {"mask": array, ...}. That of a RotaryTable is an
// object with cos and sin, of which one may be None.
class GradientArguments {
 public:
  GradientArguments(const char* function, const nb::dict& arguments);

  // Those of AttentionGradients or W2Gradients.
  template <class Gradients>
  void set(Gradients& gradients) const {
    std::size_t next = 0;
    for_each_learned_option([&](const auto& row) { set_view(given_[next++], row.gradient(gradients)); });
  }

 private:
  // The array of an option, or those of cos and sin.
  struct Given {
    std::optional<Array> array, cos, sin;
  };

  template <int Rank>
  static void set_view(const Given& given, TensorView<float, Rank>& view) {
    if (given.array) view = given.array->view<float, Rank>(Rank == 2 ? 2 : 1);  // leading dimensions may be left out
  }
  static void set_view(const Given& given, RotaryGradient& view);

  std::vector<Given> given_;  // one for each option that has a gradient
};

// The table: (name, type, shape, default, has a gradient, documentation) of each option.
nb::list option_rows();

}  // namespace phasor::python
