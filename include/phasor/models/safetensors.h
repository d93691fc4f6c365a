// Weights in files: the safetensors format (huggingface.co/docs/safetensors), read and written.
//
//   const TensorFolder model("checkpoint");          // model.safetensors, or the shards of its index
//   const StoredTensor& head = model.at("lm_head.weight");
//   read_floats(head, values);                       // from F32, BF16, F16 or F64
//
// A file is a length (8 bytes, little-endian), a JSON header of that length, and the tensors' bytes. Reading maps the
// file; bytes are fetched when they are used. Reading is strict, because files come from unknown sources: a header that
// is too long, not JSON or repeats a key, a type that is not known, offsets that are not whole numbers, do not fit the
// shape, overlap or leave bytes uncovered are std::invalid_argument with the name of the file and the fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "phasor/core/dtype.h"
#include "phasor/core/mapped_file.h"
#include "phasor/core/tensor.h"

namespace phasor {

// Element types of the format that are whole bytes, in its order, which is the order of alignment.
enum class StoredType : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

std::string_view type_name(StoredType type);  // as the format writes it: "F32"
std::int64_t type_bytes(StoredType type);     // of one element

// A tensor in a file, or to be written to one.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;   // [] is a scalar
  std::span<const std::byte> bytes;  // row by row, little-endian; not aligned
};

std::int64_t element_count(const StoredTensor& tensor);

// A tensor as it will be written. It must outlive what is returned.
template <Element T, int Rank>
StoredTensor stored(std::string name, const Tensor<T, Rank>& tensor) {
  constexpr StoredType type = std::is_same_v<T, float>  ? StoredType::f32
                              : std::is_same_v<T, bf16> ? StoredType::bf16
                                                        : StoredType::f16;
  return {std::move(name),
          type,
          {tensor.shape().begin(), tensor.shape().end()},
          std::as_bytes(std::span(tensor.data(), static_cast<std::size_t>(tensor.size())))};
}
template <Element T, int Rank>
StoredTensor stored(std::string name, const Tensor<T, Rank>&& tensor) = delete;

// values[i] = element i, for F32, BF16, F16 and F64 (rounded); `values` has as many elements as the tensor.
void read_floats(const StoredTensor& tensor, std::span<float> values);

// Tensors by name, as TensorFile and TensorFolder have them.
class StoredTensors {
 public:
  std::span<const StoredTensor> tensors() const& { return tensors_; }  // sorted by name
  const StoredTensor* find(std::string_view name) const&;              // nullptr if there is none
  const StoredTensor& at(std::string_view name) const&;                // an error if there is none
  // The bytes would be gone.
  std::span<const StoredTensor> tensors() const&& = delete;
  const StoredTensor* find(std::string_view name) const&& = delete;
  const StoredTensor& at(std::string_view name) const&& = delete;
  // read_floats, of one of these, with errors that name the file.
  void read_values(const StoredTensor& tensor, std::span<float> values) const;

 protected:
  StoredTensors() = default;
  void set_tensors(std::string source, std::vector<StoredTensor> tensors);

 private:
  std::string source_;  // for messages
  std::vector<StoredTensor> tensors_;
};

using TensorMetadata = std::map<std::string, std::string>;

// One file. Its tensors' bytes live as long as this object, also when it is moved.
class TensorFile : public StoredTensors {
 public:
  explicit TensorFile(const std::filesystem::path& path);
  // From memory that the caller keeps; `source` names it in messages.
  TensorFile(std::span<const std::byte> bytes, std::string source);

  const TensorMetadata& metadata() const { return metadata_; }  // "__metadata__" of the header

 private:
  void read(std::span<const std::byte> bytes, std::string source);

  std::optional<MappedFile> file_;
  TensorMetadata metadata_;
};

// The weights of a model folder: model.safetensors, or else the shards that model.safetensors.index.json lists in its
// weight_map. A listed tensor that its shard lacks is an error; one that a shard has and the index does not list is not
// part of the model. Shards are files of this folder: a name that leads elsewhere is refused.
class TensorFolder : public StoredTensors {
 public:
  explicit TensorFolder(const std::filesystem::path& folder);

 private:
  std::vector<TensorFile> files_;
};

// Writes a file, which is replaced all at once, byte for byte as the original library does: largest elements first,
// then by name; the header filled up with spaces so that the bytes begin at a multiple of 8.
void save_tensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                  const TensorMetadata& metadata = {});

}  // namespace phasor
