// phasor generate: text from a prompt, or the answer in a chat, by a trained model or by one of Hugging Face.
#include "phasor/models/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "commands.h"
#include "flags.h"
#include "interrupt.h"
#include "phasor/core/check.h"
#include "phasor/models/prompt_cache.h"
#include "phasor/models/text_files.h"
#include "text_model.h"
#include "text_writer.h"

namespace phasor::tool {
namespace {

using Clock = TextWriter::Clock;

constexpr std::int64_t kMaxTokens = 256;  // when none are asked for

struct Options {
  TextModelOptions model;
  std::optional<std::string> prompt, system, prompt_cache;
  std::vector<std::int32_t> tokens;
  std::optional<std::int64_t> max_tokens;
  std::vector<std::string> stop_texts;
  bool chat = false, stats = false;
  Sampling sampling;
};

struct Prompt {
  std::vector<std::int32_t> tokens{};
  TextForm form{};
};

// The likeliest token needs no dice.
void check_flags(const CLI::App& command, const Options& options) {
  for (const char* flag : {"--top-k", "--top-p", "--min-p", "--seed"})
    PHASOR_CHECK(options.sampling.temperature > 0 || command.count(flag) == 0, "generate", flag,
                 ": given with --temperature 0, which takes the likeliest token, expected a temperature above 0");
  PHASOR_CHECK(options.prompt.has_value() != !options.tokens.empty(), "generate",
               "prompt: ", options.prompt ? "given twice" : "none", ", expected --prompt or --tokens");
  for (const char* flag : {"--chat", "--stop"})
    PHASOR_CHECK(options.prompt || command.count(flag) == 0, "generate", flag,
                 ": given with --tokens, expected --prompt");
  PHASOR_CHECK(options.chat || !options.system, "generate", "--system: given without --chat, expected both");
}

std::vector<std::int32_t> chat_tokens(const Options& options, const TextModel& model) {
  PHASOR_CHECK(model.tokenizer, "generate", "--chat: given for a model of bytes, expected a folder of Hugging Face");
  std::vector<ChatMessage> messages;
  if (options.system) messages.push_back({"system", *options.system});
  messages.push_back({"user", *options.prompt});
  return load_chat_template(options.model.folder).encode(messages, *model.tokenizer);
}

Prompt read_prompt(const Options& options, TextModel& model) {
  Prompt prompt;
  prompt.form.stop_texts = options.stop_texts;
  if (!model.ours) prompt.form.stop_tokens = load_stop_tokens(options.model.folder);
  if (!options.prompt) {
    prompt.tokens = options.tokens;
    return prompt;
  }
  model.read_tokenizer("--prompt");
  prompt.form.kind = model.tokenizer ? TextForm::Kind::text : TextForm::Kind::bytes;
  prompt.form.tokenizer = model.tokenizer;
  prompt.tokens = options.chat ? chat_tokens(options, model) : model.encode(*options.prompt, true);
  const bool goes_on = std::holds_alternative<Transformer>(model.model) && !options.chat;
  if (goes_on) {  // other texts begin anew
    prompt.form.heading = *options.prompt;
    prompt.form.before = prompt.tokens;
  }
  return prompt;
}

// When it is not given, as many as fit. A decoder with an encoder begins with one token.
std::int64_t max_tokens(const Options& options, const TextModel& model, std::int64_t prompt) {
  if (options.max_tokens) return *options.max_tokens;
  const std::int64_t before = std::holds_alternative<Transformer>(model.model) ? prompt : 1;
  return std::clamp<std::int64_t>(model.writer().longest().value_or(INT64_MAX) - before + 1, 0, kMaxTokens);
}

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

void print_rate(const char* what, std::int64_t tokens, double time) {
  std::fprintf(stderr, "%s %lld tokens in %.3f s, %.1f tokens/s\n", what, static_cast<long long>(tokens), time,
               static_cast<double>(tokens) / time);
}

void generate_text(const Options& options) {
  const Clock::time_point start = Clock::now();
  TextModel model(options.model);
  const Prompt prompt = read_prompt(options, model);
  for (const std::int32_t token : prompt.tokens)
    PHASOR_CHECK(token < model.writer().vocab_size, "generate", "--tokens: ", token, ", expected 0 to ",
                 model.writer().vocab_size - 1);
  const std::int64_t length = std::ssize(prompt.tokens);
  watch_for_interrupt();
  TextWriter writer(prompt.form);
  Workspace workspace;
  const Clock::time_point loaded = Clock::now();
  const GenerateOptions settings{.max_tokens = max_tokens(options, model, length),
                                 .sampling = options.sampling,
                                 .stop_tokens = prompt.form.stop_tokens,
                                 .storage = options.model.storage()};
  const auto write = [&](std::int32_t token) { return writer.put(token) && !interrupted(); };
  if (options.prompt_cache)
    generate_cached(*options.prompt_cache, model.transformer("--prompt-cache"), prompt.tokens, settings, workspace,
                    write);
  else
    std::visit([&](const auto& each) { generate(each, prompt.tokens, settings, workspace, write); }, model.model);
  const Clock::time_point end = Clock::now();
  writer.finish();
  if (options.stats) {
    std::fprintf(stderr, "load       %.3f s\n", seconds(loaded - start));
    if (writer.tokens() > 0) print_rate("prefill   ", length, seconds(writer.first() - loaded));
    // The first one is the prefill's.
    if (writer.tokens() > 1) print_rate("generation", writer.tokens() - 1, seconds(end - writer.first()));
  }
  if (interrupted()) throw Interrupted();
}

void add_sampling_options(CLI::App& command, Sampling& sampling) {
  command.add_option("--temperature", sampling.temperature, "Sampling temperature; 0: the likeliest token")
      ->capture_default_str()
      ->check(real_number("0 or more, and finite", [](double t) { return t >= 0 && std::isfinite(t); }));
  command.add_option("--top-k", sampling.top_k, "Sample from the k likeliest tokens; 0: all")
      ->capture_default_str()
      ->check(whole_number(0));
  command.add_option("--top-p", sampling.top_p, "Sample from the likeliest tokens with this total probability")
      ->capture_default_str()
      ->check(real_number("above 0 and at most 1", [](double p) { return p > 0 && p <= 1; }));
  command
      .add_option("--min-p", sampling.min_p,
                  "Sample from tokens with at least this part of the likeliest one's probability")
      ->capture_default_str()
      ->check(real_number("0 to 1", [](double p) { return p >= 0 && p <= 1; }));
  command
      .add_option("--repetition-penalty", sampling.repetition_penalty,
                  "Divides positive logits of tokens in the text, multiplies negative ones; 1: none")
      ->capture_default_str()
      ->check(real_number("above 0, and finite", [](double p) { return p > 0 && std::isfinite(p); }));
  command.add_option("--seed", sampling.seed, "Random seed of the sampling")
      ->capture_default_str()
      ->check(whole_number<std::uint64_t>());
}

}  // namespace

void add_generate(CLI::App& app) {
  auto* command = app.add_subcommand("generate", "Generate text from a prompt, or answer it as a chat");
  auto options = std::make_shared<Options>();
  constexpr std::int64_t kMostTokens = 1'000'000;
  add_text_model_options(*command, options->model, "Cache of float, bf16, f16 or int8 (default: as the weights)");
  command->add_option("--prompt", options->prompt, "Prompt as text");
  command->add_option("--tokens", options->tokens, "Prompt as token ids, separated by commas; token ids are printed")
      ->delimiter(',')
      ->check(whole_number<std::int32_t>(0));
  command->add_flag("--chat", options->chat, "The prompt is a user's message, in the folder's template of chats");
  command->add_option("--system", options->system, "System message of the chat");
  command
      ->add_option("--max-tokens", options->max_tokens,
                   "Most tokens to generate (default: 256, or as many as the model's positions allow)")
      ->check(whole_number(0, kMostTokens));
  command->add_option("--stop", options->stop_texts, "Ends before this text; may be given several times")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return text.empty() ? "nothing, expected a text" : ""; });
  add_sampling_options(*command, options->sampling);
  command->add_option(
      "--prompt-cache", options->prompt_cache,
      "File that keeps what was read of the prompt: what a later prompt shares with it is not read again");
  command->add_flag("--stats", options->stats, "Print the times of loading, prefill and generation");
  command->callback([options, command] {
    check_flags(*command, *options);
    generate_text(*options);
  });
}

}  // namespace phasor::tool
