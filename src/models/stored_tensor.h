// What reader and writer share about stored tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "phasor/models/safetensors.h"

namespace phasor {

inline constexpr std::size_t kLargestHeader = 100'000'000;  // bytes, the original library's limit
inline constexpr const char* kMetadataKey = "__metadata__";

std::optional<StoredType> find_type(std::string_view name);
std::string known_types();  // "BOOL, U8, ..."

// Bytes of a tensor; nothing when a size is negative or they are more than can be counted.
std::optional<std::int64_t> byte_count(StoredType type, std::span<const std::int64_t> shape);

std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace phasor
