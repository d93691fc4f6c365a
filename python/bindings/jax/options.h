// AttentionOptions and the gradients of options from the arguments of a call from XLA, by the table of options. An
// option is read by the C++ type of its member, so a new one needs nothing here; phasor/jax/_forms.py names the
// operands and attributes alike.
#pragma once

#include <string>

#include "arguments.h"
#include "phasor/attention/option_table.h"

namespace phasor::jax {

class OptionReader {
 public:
  OptionReader(const Arguments& arguments, Place& place) : arguments_(arguments), place_(place) {}

  AttentionOptions options();

  // Views of the results grad_<option>, where there are any.
  template <class Gradients>
  void set_gradients(Gradients& gradients) {
    for_each_learned_option([&](const auto& row) { set_gradient(row.gradient_name, row.gradient(gradients)); });
  }

 private:
  void read(const std::string& name, bool& value) { value = arguments_.number<bool>(name).value_or(value); }
  void read(const std::string& name, double& value) { value = arguments_.number<double>(name).value_or(value); }
  void read(const std::string& name, std::optional<double>& value) { value = arguments_.number<double>(name); }
  void read(const std::string& name, std::uint64_t& value);
  void read(const std::string& name, Window& value);
  void read(const std::string& name, SpanInput<std::int64_t>& value);
  void read(const std::string& name, SpanInput<float>& value);
  void read(const std::string& name, TensorInput<float, 3>& value);
  void read(const std::string& name, MaskInput& value);
  void read(const std::string& name, std::optional<BlockMask>& value);
  void read(const std::string& name, std::optional<RelativeBiasView>& value);
  void read(const std::string& name, std::optional<RotaryView>& value);
  void read(const std::string& name, std::optional<Precision>& value) {
    if (const auto text = arguments_.text(name)) value = precision_from_name(*text);
  }
  // Elements that share an option of which there is a gradient have one each.
  template <class T, int Rank>
  TensorView<T, Rank> batched(const std::string& name, const xla::Buffer& buffer) {
    return place_.batched<T, Rank>(buffer, arguments_.result("grad_" + name) != nullptr);
  }

  template <int Rank>
  void set_gradient(const std::string& name, TensorView<float, Rank>& view) {
    const xla::Buffer* buffer = arguments_.result(name);
    if (!buffer) return;
    if constexpr (Rank >= 3)
      view = place_.batched<float, Rank>(*buffer);
    else
      view = place_.shared<float, Rank>(*buffer);
  }
  void set_gradient(const std::string& name, RotaryGradient& gradient);

  const Arguments& arguments_;
  Place& place_;
};

}  // namespace phasor::jax
