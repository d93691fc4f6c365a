#include "stored_tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "phasor/core/check.h"
#include "phasor/core/parallel.h"

namespace phasor {

static_assert(std::endian::native == std::endian::little, "bytes are used as they lie in the file");

// ---- types ----

namespace {

struct TypeRow {
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<TypeRow, 17> kTypes{{{"BOOL", 1},
                                          {"U8", 1},
                                          {"I8", 1},
                                          {"F8_E5M2", 1},
                                          {"F8_E4M3", 1},
                                          {"F8_E8M0", 1},
                                          {"I16", 2},
                                          {"U16", 2},
                                          {"F16", 2},
                                          {"BF16", 2},
                                          {"I32", 4},
                                          {"U32", 4},
                                          {"F32", 4},
                                          {"C64", 8},
                                          {"F64", 8},
                                          {"I64", 8},
                                          {"U64", 8}}};
static_assert(static_cast<std::size_t>(StoredType::u64) + 1 == kTypes.size());

const TypeRow& row(StoredType type) { return kTypes.at(static_cast<std::size_t>(type)); }

}  // namespace

std::string_view type_name(StoredType type) { return row(type).name; }

std::int64_t type_bytes(StoredType type) { return row(type).bytes; }

std::optional<StoredType> find_type(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &TypeRow::name);
  if (found == kTypes.end()) return std::nullopt;
  return static_cast<StoredType>(found - kTypes.begin());
}

std::string known_types() {
  std::string names;
  for (const TypeRow& type : kTypes) names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

std::optional<std::int64_t> byte_count(StoredType type, std::span<const std::int64_t> shape) {
  std::int64_t count = type_bytes(type);
  for (const std::int64_t size : shape)  // also an empty tensor's other sizes must have a countable product
    if (size < 0 || __builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count)) return std::nullopt;
  return std::ranges::find(shape, 0) == shape.end() ? count : 0;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  constexpr std::size_t kMost = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(shape.size(), kMost); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() > kMost ? ", ...]" : "]");
}

std::int64_t element_count(const StoredTensor& tensor) {
  return static_cast<std::int64_t>(tensor.bytes.size()) / type_bytes(tensor.type);
}

// ---- values ----

namespace {

void convert(std::span<const float> from, std::span<float> to) { std::ranges::copy(from, to.begin()); }
void convert(std::span<const double> from, std::span<float> to) {
  std::ranges::transform(from, to.begin(), [](double value) { return static_cast<float>(value); });
}

// Bytes of a file are not aligned, so they pass through a block that is.
template <class T>
void read_as(std::span<const std::byte> bytes, std::span<float> values) {
  constexpr std::int64_t kTask = 1 << 16;
  constexpr std::size_t kBlock = 2048;
  const auto tasks = (static_cast<std::int64_t>(values.size()) + kTask - 1) / kTask;
  parallel_for(tasks, [&](std::int64_t task) {
    alignas(64) std::array<T, kBlock> block;
    const auto first = static_cast<std::size_t>(task * kTask);
    const std::size_t last = std::min(first + kTask, values.size());
    for (std::size_t i = first; i < last; i += kBlock) {
      const std::size_t count = std::min(kBlock, last - i);
      std::memcpy(block.data(), bytes.data() + i * sizeof(T), count * sizeof(T));
      convert(std::span<const T>(block.data(), count), values.subspan(i, count));
    }
  });
}

}  // namespace

void read_floats(const StoredTensor& tensor, std::span<float> values) {
  PHASOR_CHECK(byte_count(tensor.type, tensor.shape) == static_cast<std::int64_t>(tensor.bytes.size()), "read_floats",
               "tensor ", tensor.name, ": ", tensor.bytes.size(), " bytes, expected those of shape ",
               shape_text(tensor.shape), " of ", type_name(tensor.type));
  PHASOR_CHECK(static_cast<std::int64_t>(values.size()) == element_count(tensor), "read_floats",
               "values: ", values.size(), " elements, expected ", element_count(tensor), " as tensor ", tensor.name,
               " has");
  switch (tensor.type) {
    case StoredType::f32:
      return read_as<float>(tensor.bytes, values);
    case StoredType::bf16:
      return read_as<bf16>(tensor.bytes, values);
    case StoredType::f16:
      return read_as<f16>(tensor.bytes, values);
    case StoredType::f64:
      return read_as<double>(tensor.bytes, values);
    default:
      fail("read_floats", "tensor ", tensor.name, ": of type ", type_name(tensor.type),
           ", expected F32, BF16, F16 or F64");
  }
}

// ---- by name ----

void StoredTensors::set_tensors(std::string source, std::vector<StoredTensor> tensors) {
  source_ = std::move(source);
  tensors_ = std::move(tensors);
  std::ranges::sort(tensors_, {}, &StoredTensor::name);
}

void StoredTensors::read_values(const StoredTensor& tensor, std::span<float> values) const {
  const bool floating = tensor.type == StoredType::f32 || tensor.type == StoredType::bf16 ||
                        tensor.type == StoredType::f16 || tensor.type == StoredType::f64;
  PHASOR_CHECK(floating, "StoredTensors", source_, ": ", tensor.name, " of type ", type_name(tensor.type),
               ", expected F32, BF16, F16 or F64");
  read_floats(tensor, values);
}

const StoredTensor* StoredTensors::find(std::string_view name) const& {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &StoredTensor::name);
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const StoredTensor& StoredTensors::at(std::string_view name) const& {
  const StoredTensor* found = find(name);
  PHASOR_CHECK(found != nullptr, "StoredTensors", source_, ": has no tensor \"", name, "\" among its ", tensors_.size(),
               ", expected one");
  return *found;
}

}  // namespace phasor
