#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "json/strict_json.h"
#include "phasor/core/check.h"
#include "phasor/models/safetensors.h"
#include "stored_tensor.h"

namespace phasor {
namespace {

constexpr const char* kName = "TensorFile";

// A name as it may stand in a message, whatever is in it.
std::string quoted(const std::string& name) { return json_text(Json(name)); }

// The header's text, and what follows it.
struct Parts {
  std::string_view header;
  std::span<const std::byte> data;
};

Parts split(const std::string& source, std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  PHASOR_CHECK(bytes.size() >= sizeof length, kName, source, ": ", bytes.size(),
               " bytes, expected at least the 8 of the header's length");
  std::memcpy(&length, bytes.data(), sizeof length);
  bytes = bytes.subspan(sizeof length);
  PHASOR_CHECK(length <= kLargestHeader, kName, source, ": a header of ", length, " bytes, expected at most ",
               kLargestHeader);
  PHASOR_CHECK(length <= bytes.size(), kName, source, ": a header of ", length, " bytes, expected at most the ",
               bytes.size(), " that follow its length");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()), length);
  PHASOR_CHECK(header.starts_with('{'), kName, source, ": the header does not begin with {, expected a JSON object");
  return {header, bytes.subspan(length)};
}

// Where the bytes of a tensor are, in those after the header.
struct Offsets {
  std::int64_t begin = 0, end = 0;
};

// Reads one entry of the header: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}.
class EntryReader {
 public:
  EntryReader(const std::string& source, const std::string& name, const Json& entry)
      : source_(source), name_(name), entry_(entry) {
    check(entry.is_object(), json_text(entry), "an object");
    for (const auto& [key, value] : entry.items())
      check(key == "dtype" || key == "shape" || key == "data_offsets", "the key " + quoted(key),
            "dtype, shape and data_offsets alone");
  }

  StoredType type() const {
    const Json& value = at("dtype");
    const std::optional<StoredType> type =
        value.is_string() ? find_type(value.get_ref<const std::string&>()) : std::nullopt;
    check(type.has_value(), "dtype " + json_text(value), "one of " + known_types());
    return *type;
  }

  std::vector<std::int64_t> shape() const { return whole_numbers("shape"); }

  // Within the data, and as many bytes as the shape has.
  Offsets offsets(StoredType type, std::span<const std::int64_t> shape, std::size_t data_bytes) const {
    const std::vector<std::int64_t> numbers = whole_numbers("data_offsets");
    const std::string given = "data_offsets " + json_text(at("data_offsets"));
    check(numbers.size() == 2 && numbers[0] <= numbers[1], given, "begin and end");
    check(static_cast<std::uint64_t>(numbers[1]) <= data_bytes, given,
          "within the " + std::to_string(data_bytes) + " bytes after the header");
    const std::optional<std::int64_t> bytes = byte_count(type, shape);
    check(bytes.has_value(), "shape " + json_text(at("shape")), "fewer elements than can be counted");
    check(numbers[1] - numbers[0] == *bytes, given,
          std::to_string(*bytes) + " bytes as shape " + shape_text(shape) + " of " + std::string(type_name(type)) +
              " has");
    return {numbers[0], numbers[1]};
  }

 private:
  // "[TensorFile] file: tensor "name" has <given>, expected <expected>"
  void check(bool condition, const std::string& given, const std::string& expected) const {
    PHASOR_CHECK(condition, kName, source_, ": tensor ", quoted(name_), " has ", given, ", expected ", expected);
  }

  const Json& at(const char* key) const {
    const auto found = entry_.find(key);
    check(found != entry_.end(), std::string("no ") + key, "dtype, shape and data_offsets");
    return *found;
  }

  std::vector<std::int64_t> whole_numbers(const char* key) const {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    const Json& list = at(key);
    const auto whole = [](const Json& value) {
      return value.is_number_unsigned() && value.get<std::uint64_t>() <= kMost;
    };
    check(list.is_array() && std::ranges::all_of(list, whole), key + (" " + json_text(list)),
          "a list of whole numbers from 0 to 2^63 - 1");
    return list.get<std::vector<std::int64_t>>();
  }

  const std::string& source_;
  const std::string& name_;
  const Json& entry_;
};

TensorMetadata read_metadata(const std::string& source, const Json& entry) {
  const auto is_string = [](const Json& value) { return value.is_string(); };
  PHASOR_CHECK(entry.is_object() && std::ranges::all_of(entry, is_string), kName, source, ": ", kMetadataKey, " is ",
               json_text(entry), ", expected an object of strings");
  return entry.get<TensorMetadata>();
}

// Every byte after the header belongs to one tensor.
void check_covered(const std::string& source, std::span<const StoredTensor> tensors, std::span<const std::byte> data) {
  std::vector<const StoredTensor*> in_order;
  for (const StoredTensor& tensor : tensors) in_order.push_back(&tensor);
  std::ranges::sort(in_order, {},
                    [](const StoredTensor* tensor) { return std::tuple(tensor->bytes.data(), tensor->bytes.size()); });
  const std::byte* expected = data.data();
  for (const StoredTensor* tensor : in_order) {
    const std::byte* begin = tensor->bytes.data();
    PHASOR_CHECK(begin == expected, kName, source, ": tensor ", quoted(tensor->name), " begins at byte ",
                 begin - data.data(), (begin < expected ? ", overlapping the one before it" : ", after a hole"),
                 ", expected ", expected - data.data(), " where that one ends");
    expected = begin + tensor->bytes.size();
  }
  PHASOR_CHECK(expected == data.data() + data.size(), kName, source, ": ", data.data() + data.size() - expected,
               " bytes after the last tensor, expected none");
}

}  // namespace

TensorFile::TensorFile(const std::filesystem::path& path) : file_(path) { read(file_->bytes(), path.string()); }

TensorFile::TensorFile(std::span<const std::byte> bytes, std::string source) { read(bytes, std::move(source)); }

void TensorFile::read(std::span<const std::byte> bytes, std::string source) {
  const Parts parts = split(source, bytes);
  const Json header = parse_json_object(parts.header, kName, source);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = read_metadata(source, entry);
      continue;
    }
    const EntryReader reader(source, name, entry);
    StoredTensor tensor{name, reader.type(), reader.shape(), {}};
    const Offsets offsets = reader.offsets(tensor.type, tensor.shape, parts.data.size());
    tensor.bytes = parts.data.subspan(static_cast<std::size_t>(offsets.begin),
                                      static_cast<std::size_t>(offsets.end - offsets.begin));
    tensors.push_back(std::move(tensor));
  }
  check_covered(source, tensors, parts.data);
  set_tensors(std::move(source), std::move(tensors));
}

}  // namespace phasor
