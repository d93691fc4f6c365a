// What phasor's side of `make bench-peers` runs: a case whose tensors are files of one folder.
#pragma once

#include <fstream>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "phasor/core/tensor.h"

namespace phasor {

// The folder of a case.
class Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  template <int Rank>
  Tensor<float, Rank> read(const std::string& name, const Shape<Rank>& shape) const {
    Tensor<float, Rank> tensor(shape);
    const auto bytes = static_cast<std::streamsize>(tensor.size() * 4);
    std::ifstream file(path(name), std::ios::binary | std::ios::ate);
    if (!file || file.tellg() != bytes)
      throw std::runtime_error(path(name) + ": expected a file of " + std::to_string(bytes) + " bytes");
    file.seekg(0);
    file.read(reinterpret_cast<char*>(tensor.data()), bytes);
    return tensor;
  }

  template <int Rank>
  void write(const std::string& name, const Tensor<float, Rank>& tensor) const {
    std::ofstream file(path(name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(tensor.data()), static_cast<std::streamsize>(tensor.size() * 4));
    if (!file.flush()) throw std::runtime_error(path(name) + ": cannot be written");
  }

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name + ".f32"; }
  std::string folder_;
};

// A case that is ready to run.
class Job {
 public:
  virtual ~Job() = default;
  virtual void run() = 0;
  virtual std::vector<std::string> save(const Files& files) const = 0;
};

// Settings are those that settings() of a case in cases.py gives.
std::unique_ptr<Job> make_attention_job(const nlohmann::json& settings, const Files& files);
std::unique_ptr<Job> make_block_job(const nlohmann::json& settings, const Files& files);
std::unique_ptr<Job> make_decoder_job(const nlohmann::json& settings, const Files& files);

}  // namespace phasor
