#include <map>

#include "json/strict_json.h"
#include "phasor/core/check.h"
#include "phasor/models/safetensors.h"
#include "stored_tensor.h"

namespace phasor {
namespace {

constexpr const char* kName = "TensorFolder";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// A file of the same folder: no separator, nothing hidden, no byte 0 that would cut the name short.
bool is_shard_name(std::string_view name) {
  return name.ends_with(".safetensors") && !name.starts_with('.') && name.find("..") == std::string_view::npos &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// The names of the tensors of each shard.
std::map<std::string, std::vector<std::string>> read_index(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string source = path.string();
  PHASOR_CHECK(file.bytes().size() <= kLargestHeader, kName, source, ": ", file.bytes().size(),
               " bytes, expected at most ", kLargestHeader);
  const Json index =
      parse_json_object({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, kName, source);
  const auto weights = index.find("weight_map");
  PHASOR_CHECK(weights != index.end() && weights->is_object() && !weights->empty(), kName, source,
               ": no weight_map, expected an object that gives the file of each tensor");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [name, shard] : weights->items()) {
    PHASOR_CHECK(shard.is_string() && is_shard_name(shard.get_ref<const std::string&>()), kName, source,
                 ": weight_map has ", json_text(shard), " for ", json_text(Json(name)),
                 ", expected the name of a .safetensors file in this folder");
    shards[shard.get<std::string>()].push_back(name);
  }
  return shards;
}

}  // namespace

TensorFolder::TensorFolder(const std::filesystem::path& folder) {
  const std::string source = folder.string();
  std::vector<StoredTensor> tensors;
  if (std::filesystem::exists(folder / kSingle)) {
    files_.emplace_back(folder / kSingle);
    tensors.assign(files_.back().tensors().begin(), files_.back().tensors().end());
  } else {
    PHASOR_CHECK(std::filesystem::exists(folder / kIndex), kName, source, ": no weights, expected ", kSingle, " or ",
                 kIndex);
    for (const auto& [shard, names] : read_index(folder / kIndex)) {
      const TensorFile& file = files_.emplace_back(folder / shard);
      for (const std::string& name : names) tensors.push_back(file.at(name));
    }
  }
  set_tensors(source, std::move(tensors));
}

}  // namespace phasor
