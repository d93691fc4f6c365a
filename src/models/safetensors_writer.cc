#include <algorithm>
#include <set>
#include <tuple>

#include "files/atomic_file.h"
#include "json/strict_json.h"
#include "phasor/core/check.h"
#include "phasor/models/safetensors.h"
#include "stored_tensor.h"

namespace phasor {
namespace {

constexpr const char* kName = "save_tensors";

// A string as JSON writes it; one that is not UTF-8 has no such form.
std::string quoted(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    fail(kName, "name: ", json_text(Json(text)), " is not UTF-8, expected it to be");
  }
}

void check(const StoredTensor& tensor) {
  PHASOR_CHECK(tensor.name != kMetadataKey, kName, "tensor: named ", kMetadataKey, ", expected another name");
  const std::optional<std::int64_t> bytes = byte_count(tensor.type, tensor.shape);
  PHASOR_CHECK(bytes.has_value(), kName, "tensor ", quoted(tensor.name), ": shape ", shape_text(tensor.shape),
               ", expected sizes of 0 or more and fewer elements than can be counted");
  PHASOR_CHECK(*bytes == static_cast<std::int64_t>(tensor.bytes.size()), kName, "tensor ", quoted(tensor.name), ": ",
               tensor.bytes.size(), " bytes, expected ", *bytes, " as shape ", shape_text(tensor.shape), " of ",
               type_name(tensor.type), " has");
}

std::vector<const StoredTensor*> in_order(std::span<const StoredTensor> tensors) {
  std::vector<const StoredTensor*> sorted;
  for (const StoredTensor& tensor : tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, [](const StoredTensor* a, const StoredTensor* b) {
    return std::tie(b->type, a->name) < std::tie(a->type, b->name);
  });
  return sorted;
}

std::string header_text(std::span<const StoredTensor* const> tensors, const TensorMetadata& metadata) {
  std::string text, separator = "{";
  const auto next = [&] { text += std::exchange(separator, ","); };
  if (!metadata.empty()) {
    next();
    text += quoted(kMetadataKey) + ":";
    std::string inner = "{";
    for (const auto& [key, value] : metadata) text += std::exchange(inner, ",") + quoted(key) + ":" + quoted(value);
    text += "}";
  }
  std::size_t offset = 0;
  for (const StoredTensor* tensor : tensors) {
    next();
    text += quoted(tensor->name) + ":{\"dtype\":\"" + std::string(type_name(tensor->type)) +
            "\",\"shape\":" + Json(tensor->shape).dump() + ",\"data_offsets\":[" + std::to_string(offset);
    offset += tensor->bytes.size();
    text += "," + std::to_string(offset) + "]}";
  }
  text += separator == "{" ? "{}" : "}";
  return text + std::string((8 - text.size() % 8) % 8, ' ');
}

}  // namespace

void save_tensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                  const TensorMetadata& metadata) {
  std::ranges::for_each(tensors, check);
  const std::vector<const StoredTensor*> sorted = in_order(tensors);
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors)
    PHASOR_CHECK(names.insert(tensor.name).second, kName, "tensors: two are named ", quoted(tensor.name),
                 ", expected different names");
  const std::string header = header_text(sorted, metadata);
  PHASOR_CHECK(header.size() <= kLargestHeader, kName, "tensors: a header of ", header.size(),
               " bytes, expected at most ", kLargestHeader);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const StoredTensor* tensor : sorted) file.write(tensor->bytes);
  file.commit();
}

}  // namespace phasor
