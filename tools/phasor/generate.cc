// phasor generate: text from a prompt, by a trained model or by a Llama or Qwen3 of Hugging Face.
#include "phasor/models/generate.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "commands.h"
#include "files/atomic_file.h"
#include "flags.h"
#include "interrupt.h"
#include "phasor/core/check.h"
#include "phasor/core/precision.h"
#include "phasor/training/checkpoint.h"

namespace phasor::tool {
namespace {

struct Options {
  std::string folder;
  std::optional<std::string> prompt;
  std::vector<std::int32_t> tokens;
  std::string precision{precision_name(Precision::storage)};
  GenerateOptions generate;
};

// Folders of phasor train have training.json, and weights of float; others are Hugging Face's.
Transformer load(const std::string& folder, Precision precision) {
  const bool ours = std::filesystem::exists(readable_folder(folder) / "training.json");
  if (!ours) return Transformer::from_pretrained(folder, precision);
  Transformer model = load_model(folder);
  if (precision == Precision::bf16) model.round_to_bf16();
  return model;
}

// The likeliest token needs no dice.
void check_sampling(const CLI::App& command, const Sampling& sampling) {
  for (const char* flag : {"--top-k", "--top-p", "--seed"})
    PHASOR_CHECK(sampling.temperature > 0 || command.count(flag) == 0, "generate", flag,
                 ": given with --temperature 0, which takes the likeliest token, expected a temperature above 0");
}

std::vector<std::int32_t> prompt_tokens(const Options& options) {
  PHASOR_CHECK(options.prompt.has_value() != !options.tokens.empty(), "generate",
               "prompt: ", options.prompt ? "given twice" : "none", ", expected --prompt or --tokens");
  if (!options.prompt) return options.tokens;
  std::vector<std::int32_t> bytes;
  for (const char c : *options.prompt) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

void generate_text(const Options& options) {
  const std::vector<std::int32_t> prompt = prompt_tokens(options);
  const Transformer model = load(options.folder, precision_from_name(options.precision));
  constexpr std::int64_t kBytes = 256;
  PHASOR_CHECK(!options.prompt || model.config().vocab_size == kBytes, "generate", "--prompt: text for a model of ",
               model.config().vocab_size, " tokens, expected one of bytes (256); give --tokens");
  for (const std::int32_t token : prompt)
    PHASOR_CHECK(token < model.config().vocab_size, "generate", "--tokens: ", token, ", expected 0 to ",
                 model.config().vocab_size - 1);
  watch_for_interrupt();
  Workspace workspace;
  const char* separator = "";
  bool begun = false;
  const auto begin = [&] {  // with the first token: what is wrong with the options shows before it
    if (!std::exchange(begun, true) && options.prompt) std::fputs(options.prompt->c_str(), stdout);
  };
  generate(model, prompt, options.generate, workspace, [&](std::int32_t token) {
    begin();
    if (options.prompt)
      std::putchar(token);
    else
      std::printf("%s%d", std::exchange(separator, " "), token);
    std::fflush(stdout);
    return !interrupted();
  });
  begin();
  std::putchar('\n');
}

}  // namespace

void add_generate(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "Generate text from a prompt");
  auto options = std::make_shared<Options>();
  GenerateOptions& generate = options->generate;
  constexpr std::int64_t kMostTokens = 1'000'000;
  command->add_option("folder", options->folder, "Folder written by phasor train, or a Llama or Qwen3 of Hugging Face")
      ->required();
  command->add_option("--prompt", options->prompt, "Prompt as text, for models of bytes");
  command->add_option("--tokens", options->tokens, "Prompt as token ids, separated by commas")
      ->delimiter(',')
      ->check(whole_number<std::int32_t>(0));
  command->add_option("--new-tokens", generate.new_tokens, "Number of tokens to generate")
      ->capture_default_str()
      ->check(whole_number(0, kMostTokens));
  command->add_option("--temperature", generate.sampling.temperature, "Sampling temperature; 0: the likeliest token")
      ->capture_default_str()
      ->check(real_number("0 or more, and finite", [](double t) { return t >= 0 && std::isfinite(t); }));
  command->add_option("--top-k", generate.sampling.top_k, "Sample from the k likeliest tokens; 0: all")
      ->capture_default_str()
      ->check(whole_number(0));
  command
      ->add_option("--top-p", generate.sampling.top_p, "Sample from the likeliest tokens with this total probability")
      ->capture_default_str()
      ->check(real_number("above 0 and at most 1", [](double p) { return p > 0 && p <= 1; }));
  command->add_option("--seed", generate.sampling.seed, "Random seed of the sampling")
      ->capture_default_str()
      ->check(whole_number<std::uint64_t>());
  command
      ->add_option("--precision", options->precision,
                   "Weights and cache: storage (as the files have them), float, or bf16 (rounded)")
      ->capture_default_str()
      ->check([](const std::string& text) -> std::string {
        const bool known = text == "storage" || text == "float" || text == "bf16";
        return known ? "" : text + ", expected storage, float or bf16";
      });
  command->callback([options, command] {
    check_sampling(*command, options->generate.sampling);
    generate_text(*options);
  });
}

}  // namespace phasor::tool
