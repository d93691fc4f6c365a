// phasor's side of `make bench-peers`. Reads commands from standard input and answers on standard output, a line of
// JSON each, until the input ends; compare.py is the other side.
//
//   {"do": "open", "folder": "...", "settings": {...}}   {}                       reads the inputs of a case
//   {"do": "run", "calls": 3}                            {"seconds": [..., ...]}  of each call
//   {"do": "save"}                                       {"saved": ["out", ...]}  writes the results of the last call
//   {"do": "memory"}                                     {"peak": 123456}         bytes, the most since the beginning
//
// What goes wrong is answered by {"error": "..."}. Tensors are files of floats, <folder>/<name>.f32, row-major.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "job.h"
#include "phasor/core/parallel.h"
#include "phasor/core/simd_target.h"

namespace phasor {
namespace {

using nlohmann::json;

std::unique_ptr<Job> make_job(const json& settings, const Files& files) {
  const std::string kind = settings.at("kind");
  if (kind == "attention") return make_attention_job(settings, files);
  if (kind == "block") return make_block_job(settings, files);
  if (kind == "decoder") return make_decoder_job(settings, files);
  throw std::invalid_argument("kind: " + kind + ", expected attention, block or decoder");
}

std::vector<double> seconds_of(Job& job, int calls) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int i = 0; i < calls; i++) {
    const Clock::time_point start = Clock::now();
    job.run();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

// The most memory this process has had. Linux only.
std::int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

// Holds the case that is open, and answers commands.
class Session {
 public:
  // Never throws: what goes wrong is an answer too.
  json answer(const std::string& line) {
    try {
      return answer(json::parse(line));
    } catch (const std::exception& error) {
      return {{"error", error.what()}};
    }
  }

 private:
  json answer(const json& command) {
    const std::string what = command.at("do");
    if (what == "open") return open(command);
    if (what == "memory") return {{"peak", peak_memory()}};
    if (job_ == nullptr) throw std::invalid_argument("no case is open");
    if (what == "run") return {{"seconds", seconds_of(*job_, command.at("calls"))}};
    if (what == "save") return {{"saved", job_->save(files_)}};
    throw std::invalid_argument("do: " + what + ", expected open, run, save or memory");
  }

  json open(const json& command) {
    job_.reset();  // first, so that two cases are never in memory
    files_ = Files(command.at("folder"));
    job_ = make_job(command.at("settings"), files_);
    return json::object();
  }

  Files files_{""};
  std::unique_ptr<Job> job_;
};

}  // namespace
}  // namespace phasor

int main() {
  phasor::Session session;
  const nlohmann::json greeting{{"simd_target", phasor::simd_target()}, {"threads", phasor::num_threads()}};
  std::cout << greeting << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << session.answer(line) << std::endl;
}
