// phasor generate: text from a prompt, by a trained model or by a Llama or Qwen3 of Hugging Face.
#include "phasor/models/generate.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "commands.h"
#include "flags.h"
#include "interrupt.h"
#include "phasor/core/check.h"
#include "text_model.h"

namespace phasor::tool {
namespace {

struct Options {
  TextModelOptions model;
  std::optional<std::string> prompt;
  std::vector<std::int32_t> tokens;
  GenerateOptions generate;
};

// The likeliest token needs no dice.
void check_sampling(const CLI::App& command, const Sampling& sampling) {
  for (const char* flag : {"--top-k", "--top-p", "--seed"})
    PHASOR_CHECK(sampling.temperature > 0 || command.count(flag) == 0, "generate", flag,
                 ": given with --temperature 0, which takes the likeliest token, expected a temperature above 0");
}

std::vector<std::int32_t> prompt_tokens(const Options& options, TextModel& model) {
  PHASOR_CHECK(options.prompt.has_value() != !options.tokens.empty(), "generate",
               "prompt: ", options.prompt ? "given twice" : "none", ", expected --prompt or --tokens");
  if (!options.prompt) return options.tokens;
  model.read_tokenizer("--prompt");
  return model.encode(*options.prompt, true);
}

void generate_text(const Options& options) {
  TextModel text_model(options.model);
  const Transformer& model = text_model.model;
  const std::vector<std::int32_t> prompt = prompt_tokens(options, text_model);
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
  add_text_model_options(*command, options->model, "Cache of float, bf16, f16 or int8 (default: as the weights)");
  command->add_option("--prompt", options->prompt, "Prompt as text, for models of bytes");
  command->add_option("--tokens", options->tokens, "Prompt as token ids, separated by commas")
      ->delimiter(',')
      ->check(whole_number<std::int32_t>(0));
  command->add_option("--max-tokens", generate.max_tokens, "Number of tokens to generate")
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
  command->callback([options, command] {
    check_sampling(*command, options->generate.sampling);
    options->generate.storage = options->model.storage();
    generate_text(*options);
  });
}

}  // namespace phasor::tool
