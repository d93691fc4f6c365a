// How fast one and two threads are on a quiet machine, and while another process keeps a core busy.
//
//   phasor_busy [ROUNDS [CASE]]
//
// prints a line for each case (or for those that begin with CASE): the median time of a step in milliseconds with 1 and
// with 2 threads, quiet and busy. The four alternate, so that all see the same minutes of a shared machine.
// busy.py compares programs.
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phasor/core/parallel.h"
#include "phasor/layers/loss.h"
#include "phasor/models/transformer.h"
#include "phasor/position/rope.h"
#include "phasor/training/optimizer.h"

namespace phasor::bench {
namespace {

constexpr const char* kSpin = "spin";

// Another process that uses one core for as long as this lives: this program with the argument "spin". It is not
// forked, since then this process would copy every page that it writes.
class BusyProcess {
 public:
  BusyProcess() {
    const std::string program = "/proc/self/exe";
    std::array<char*, 3> arguments{const_cast<char*>(program.c_str()), const_cast<char*>(kSpin), nullptr};
    if (posix_spawn(&id_, program.c_str(), nullptr, nullptr, arguments.data(), environ) != 0)
      throw std::runtime_error("cannot start a busy process");
  }
  ~BusyProcess() {
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  pid_t id_ = 0;
};

[[noreturn]] void spin() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (volatile std::uint64_t count = 0;;) count = count + 1;
}

// Any tokens will do.
Tensor<std::int32_t, 2> some_tokens(const Shape<2>& shape, std::int64_t vocabulary) {
  Tensor<std::int32_t, 2> tokens(shape);
  std::int64_t next = 0;
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(next = (next + 2473) % vocabulary);
  return tokens;
}

// Tokens after a prompt, each time the same ones.
class Decoding {
 public:
  Decoding(const Transformer& model, std::int64_t prompt, std::int64_t tokens)
      : model_(model),
        prompt_(prompt),
        tokens_(some_tokens({1, tokens}, model.config().vocab_size)),
        cache_(model.make_cache({.capacity = prompt + tokens})),
        logits_({1, model.config().vocab_size}) {
    if (prompt == 0) return;
    const Tensor<std::int32_t, 2> read = some_tokens({1, prompt}, model.config().vocab_size);
    model_.decode(read.view(), cache_, logits_.view(), workspace_);
  }
  void operator()() {
    model_.decode(std::as_const(tokens_).view(), cache_, logits_.view(), workspace_);
    cache_.truncate(prompt_);
  }

 private:
  const Transformer& model_;
  std::int64_t prompt_;
  Tensor<std::int32_t, 2> tokens_;
  Transformer::Cache cache_;
  Tensor<float, 2> logits_;
  Workspace workspace_;
};

// Forward, loss, backward, AdamW.
class Training {
 public:
  Training(const TransformerConfig& config, std::int64_t batch, std::int64_t length)
      : model_(config, 1),
        tokens_(some_tokens({batch, length}, config.vocab_size)),
        logits_({batch, length, config.vocab_size}),
        optimizer_(model_.weights(), {}) {}
  void operator()() {
    const TensorView<float, 2> rows{logits_.data(), {tokens_.size(), logits_.shape()[2]}};
    model_.forward(std::as_const(tokens_).view(), logits_.view(), &saved_, workspace_);
    cross_entropy(rows, {tokens_.data(), static_cast<std::size_t>(tokens_.size())}, {.grad_logits = rows}, workspace_);
    model_.backward(saved_, logits_.view(), workspace_);
    optimizer_.step(1e-4);
  }

 private:
  Transformer model_;
  Tensor<std::int32_t, 2> tokens_;
  Tensor<float, 3> logits_;
  AdamW optimizer_;
  Transformer::Saved saved_;
  Workspace workspace_;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Half a second of steps; gives the time of one.
double run(const std::function<void()>& step) {
  const auto begin = std::chrono::steady_clock::now();
  int steps = 0;
  do step();
  while (++steps < 3 || seconds_since(begin) < 0.5);
  return seconds_since(begin) / steps;
}

double seconds_of(const std::function<void()>& step) {
  run(step);  // what was before, another number of threads or a busy process, has an end
  return run(step);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Wanted {
  int rounds = 5;
  std::string first_word;  // of cases
};

void measure(const std::string& name, const Wanted& wanted, const std::function<void()>& step) {
  if (!name.starts_with(wanted.first_word)) return;
  std::array<std::vector<double>, 4> seconds;  // quiet with 1 and 2 threads, busy with 1 and 2
  for (int round = 0; round < wanted.rounds; round++)
    for (const std::size_t way : {0, 1, 2, 3}) {
      set_num_threads(way % 2 == 0 ? 1 : 2);
      if (way < 2) {
        seconds[way].push_back(seconds_of(step));
      } else {
        const BusyProcess other;
        seconds[way].push_back(seconds_of(step));
      }
    }
  std::printf("%s", name.c_str());
  for (const std::vector<double>& each : seconds) std::printf("\t%.3f", 1e3 * median(each));
  std::printf("\n");
  std::fflush(stdout);
}

void measure_all(const Wanted& wanted) {
  const Transformer model({.vocab_size = 49152,
                           .hidden_size = 576,
                           .num_hidden_layers = 30,
                           .num_attention_heads = 9,
                           .num_key_value_heads = 3,
                           .intermediate_size = 1536,
                           .encoding = RopeConfig{.head_dim = 64}},
                          1);
  Decoding decode(model, 64, 1), prefill(model, 0, 512);
  measure("decode, a token of a 135M Llama", wanted, std::ref(decode));
  measure("prefill, 512 tokens of it", wanted, std::ref(prefill));
  Training training({.vocab_size = 6400,
                     .hidden_size = 512,
                     .num_hidden_layers = 8,
                     .num_attention_heads = 8,
                     .num_key_value_heads = 2,
                     .intermediate_size = 1408,
                     .encoding = RopeConfig{.head_dim = 64}},
                    2, 256);
  measure("training step, 26M, 2 x 256 tokens", wanted, std::ref(training));
  Training compare({.vocab_size = 64,
                    .hidden_size = 64,
                    .num_hidden_layers = 2,
                    .num_attention_heads = 4,
                    .intermediate_size = 176,
                    .encoding = RopeConfig{.head_dim = 16}},
                   32, 32);
  measure("compare, a step of 32 x 32 tokens", wanted, std::ref(compare));
}

}  // namespace
}  // namespace phasor::bench

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == phasor::bench::kSpin) phasor::bench::spin();
  phasor::bench::measure_all(
      {.rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5, .first_word = argc > 2 ? argv[2] : ""});
}
