// Any text given as config.json beside the weights of a model either makes a model that computes, or
// std::invalid_argument. The weights are those of the golden model of its model_type.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "phasor/models/encoder_decoder.h"
#include "phasor/models/transformer.h"

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 14> kNames{"bert",     "bloom",  "gemma2",  "gemma3_text", "gpt2",
                                                  "gpt_neox", "marian", "mistral", "modernbert",  "mpt",
                                                  "phi3",     "qwen2",  "roberta", "smollm3"};

// A folder with the config and a link to weights.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("phasor_fuzz_" + std::to_string(::getpid()))) {
    for (const std::string_view name : kNames) {
      fs::create_directories(path_ / name);
      fs::create_symlink(fs::path(PHASOR_GOLDEN_MODELS) / name / "model.safetensors",
                         path_ / name / "model.safetensors");
    }
  }
  ~Folder() { fs::remove_all(path_); }

  fs::path with(std::string_view config) const {
    std::string_view chosen = kNames[0];
    for (const std::string_view name : kNames)
      if (config.find("\"" + std::string(name) + "\"") != std::string_view::npos) chosen = name;
    std::ofstream(path_ / chosen / "config.json", std::ios::binary) << config;
    return path_ / chosen;
  }

 private:
  fs::path path_;
};

void use(const phasor::Transformer& model) {
  const phasor::Tensor<std::int32_t, 2> tokens({1, 3});
  phasor::Tensor<float, 3> states({1, 3, model.config().hidden_size});
  phasor::Workspace workspace;
  model.encode(tokens.view(), states.view(), workspace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const fs::path path = folder.with({reinterpret_cast<const char*>(data), size});
  try {
    if (phasor::EncoderDecoder::is_in(path))
      phasor::EncoderDecoder::from_pretrained(path);
    else
      use(phasor::Transformer::from_pretrained(path));
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
