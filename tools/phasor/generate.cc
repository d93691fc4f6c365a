// phasor generate: a trained model, or a Llama or Qwen3 of Hugging Face, goes on from a prompt.
#include "phasor/models/generate.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "commands.h"
#include "interrupt.h"
#include "phasor/core/atomic_file.h"
#include "phasor/core/check.h"
#include "phasor/training/checkpoint.h"

namespace phasor::tool {
namespace {

struct Options {
  std::string folder;
  std::optional<std::string> prompt;
  std::vector<std::int32_t> tokens;
  GenerateOptions generate;
};

// Folders of phasor train have training.json; others are Hugging Face's.
Decoder load(const std::string& folder) {
  const bool ours = std::filesystem::exists(readable_folder(folder) / "training.json");
  return ours ? load_model(folder) : Decoder::from_pretrained(folder);
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
  const Decoder model = load(options.folder);
  constexpr std::int64_t kBytes = 256;
  PHASOR_CHECK(!options.prompt || model.config().vocab_size == kBytes, "generate", "--prompt: text for a model of ",
               model.config().vocab_size, " tokens, expected one of bytes (256); give --tokens");
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
  auto* command = app.add_subcommand("generate", "Let a trained model go on from a prompt");
  auto options = std::make_shared<Options>();
  GenerateOptions& generate = options->generate;
  command->add_option("folder", options->folder, "What phasor train made, or a Llama or Qwen3 of Hugging Face")
      ->required();
  command->add_option("--prompt", options->prompt, "Text, for models of bytes");
  command->add_option("--tokens", options->tokens, "Token ids, separated by commas")->delimiter(',');
  command->add_option("--new-tokens", generate.new_tokens, "How many to write")->capture_default_str();
  command->add_option("--temperature", generate.sampling.temperature, "0: always the likeliest")->capture_default_str();
  command->add_option("--top-k", generate.sampling.top_k, "Of the likeliest so many; 0: all")->capture_default_str();
  command->add_option("--top-p", generate.sampling.top_p, "Of the likeliest with this probability")
      ->capture_default_str();
  command->add_option("--seed", generate.sampling.seed, "Equal seeds write equal texts")->capture_default_str();
  command->callback([options] { generate_text(*options); });
}

}  // namespace phasor::tool
