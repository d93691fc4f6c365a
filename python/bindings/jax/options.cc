#include "options.h"

#include <utility>

namespace phasor::jax {

AttentionOptions OptionReader::options() {
  AttentionOptions value;
  for_each_option([&](const auto& row) { read(row.name, value.*row.member); });
  if (value.key_starts.empty()) value.key_starts = value.query_starts;
  // Dropout depends on the number of the sequence in its batch, and a ragged batch has one.
  if (value.dropout != 0 || !value.query_starts.empty()) place_.refuse_folding();
  return value;
}

// 32 or 64 bits, the higher ones first as in JAX's keys.
void OptionReader::read(const std::string& name, std::uint64_t& value) {
  const xla::Buffer* buffer = arguments_.operand(name);
  if (!buffer) return;
  const auto words = place_.shared<const std::uint32_t, 1>(*buffer);
  PHASOR_CHECK(words.shape[0] == 1 || words.shape[0] == 2, arguments_.function(), name, ": ", words.shape[0],
               " words, expected 1 or 2");
  value = 0;
  for (std::int64_t i = 0; i < words.shape[0]; i++) value = value << 32 | words(i);
}

void OptionReader::read(const std::string& name, Window& value) {
  value.left = arguments_.number<std::int64_t>(name + "_left").value_or(value.left);
  value.right = arguments_.number<std::int64_t>(name + "_right").value_or(value.right);
}

void OptionReader::read(const std::string& name, SpanInput<std::int64_t>& value) {
  if (const xla::Buffer* buffer = arguments_.operand(name)) value = place_.integers(name.c_str(), *buffer);
}

void OptionReader::read(const std::string& name, SpanInput<float>& value) {
  const xla::Buffer* buffer = arguments_.operand(name);
  if (!buffer) return;
  const auto view = place_.shared<const float, 1>(*buffer);
  value = std::span(view.data, static_cast<std::size_t>(view.shape[0]));
}

void OptionReader::read(const std::string& name, TensorInput<float, 3>& value) {
  if (const xla::Buffer* buffer = arguments_.operand(name)) value = batched<const float, 3>(name, *buffer);
}

void OptionReader::read(const std::string& name, MaskInput& value) {
  const xla::Buffer* buffer = arguments_.operand(name);
  if (!buffer) return;
  if (buffer->type == xla::DataType::boolean)
    value.visible = batched<const bool, 4>(name, *buffer);
  else
    value.added = batched<const float, 4>(name, *buffer);
}

// Bits are pairs of 32: without its option for 64-bit types, JAX has no others.
void OptionReader::read(const std::string& name, std::optional<BlockMask>& value) {
  const xla::Buffer *blocks = arguments_.operand(name + "_blocks"), *bits = arguments_.operand(name + "_bits");
  if (!blocks || !bits) return;
  value.emplace();
  value->blocks = place_.batched<const std::int32_t, 4>(*blocks, false);
  const auto halves = place_.shared<const std::uint32_t, 3>(*bits);
  PHASOR_CHECK(reinterpret_cast<std::uintptr_t>(halves.data) % alignof(std::uint64_t) == 0, arguments_.function(), name,
               ": bits at an odd address, expected one of 8 bytes");
  value->bits =
      TensorView<const std::uint64_t, 3>(static_cast<const std::uint64_t*>(static_cast<const void*>(halves.data)),
                                         {halves.shape[0], halves.shape[1], halves.shape[2] / 2});
  value->query_block = arguments_.number<std::int64_t>(name + "_query_block").value_or(value->query_block);
  value->key_block = arguments_.number<std::int64_t>(name + "_key_block").value_or(value->key_block);
}

void OptionReader::read(const std::string& name, std::optional<RelativeBiasView>& value) {
  if (const xla::Buffer* table = arguments_.operand(name))
    value.emplace(place_.shared<const float, 2>(*table),
                  arguments_.number<std::int64_t>(name + "_first_distance").value_or(0));
}

void OptionReader::read(const std::string& name, std::optional<RotaryView>& value) {
  const xla::Buffer *cos = arguments_.operand(name + "_cos"), *sin = arguments_.operand(name + "_sin");
  if (!cos || !sin) return;
  const bool own_rows = arguments_.result("grad_" + name + "_cos") || arguments_.result("grad_" + name + "_sin");
  const Pairing pairing = arguments_.text(name + "_pairing") == "adjacent" ? Pairing::adjacent : Pairing::half;
  value.emplace(place_.batched<const float, 4>(*cos, own_rows), place_.batched<const float, 4>(*sin, own_rows),
                pairing);
}

void OptionReader::set_gradient(const std::string& name, RotaryGradient& gradient) {
  set_gradient(name + "_cos", gradient.cos);
  set_gradient(name + "_sin", gradient.sin);
}

}  // namespace phasor::jax
