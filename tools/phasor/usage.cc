#include "usage.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace phasor::tool {
namespace {

// How many letters have to be changed, added or left out (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); i++) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); j++) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// ", did you mean WORD?" where one is near.
std::string suggestion(std::string_view given, const std::vector<std::string>& known) {
  constexpr std::size_t kFarthest = 3;
  const auto nearest =
      std::ranges::min_element(known, {}, [&](const std::string& word) { return distance(given, word); });
  const bool near = nearest != known.end() && distance(given, *nearest) <= std::min(kFarthest, given.size() / 2);
  return near ? ", did you mean " + *nearest + "?" : "";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// A word that comes before any command, or stands for one.
std::string unknown_command_text(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = command_names(app);
  if (word.starts_with('-')) return word + ": a flag without a command before it, expected one of " + joined(names);
  return word + ": not a command" + suggestion(word, names) + "; expected one of " + joined(names);
}

std::string unknown_flag_text(const CLI::App& command, const std::string& word) {
  const std::string name = "phasor " + command.get_name();
  if (!word.starts_with('-')) return word + ": one word more than " + name + " takes, expected flags alone";
  return word + ": not a flag of " + name + suggestion(word, flag_names(command)) + " (" + name + " --help lists them)";
}

}  // namespace

std::string_view without_function(std::string_view text) {
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string_view::npos;
  return end == std::string_view::npos ? text : text.substr(end + 2);
}

std::string usage_text(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App* command = chosen.empty() ? nullptr : chosen.front();
  const auto first_word = [](const std::vector<std::string>& words) { return words[0].substr(0, words[0].find('=')); };
  const std::vector<std::string> outside = app.remaining(), unknown = app.remaining(true);
  if (!outside.empty() && (command == nullptr || outside[0].starts_with('-')))
    return unknown_command_text(app, first_word(outside));
  if (command == nullptr) return "no command, expected one of " + joined(command_names(app));
  // A word too many may be what a flag lacks ("--steps --out run" takes --out for the steps): then that says more.
  const bool flag = !unknown.empty() && unknown[0].starts_with('-');
  std::string text = error.what();
  const auto is = [&](CLI::ExitCodes kind) { return error.get_exit_code() == static_cast<int>(kind); };
  if (!unknown.empty() && (flag || is(CLI::ExitCodes::ExtrasError) || is(CLI::ExitCodes::RequiredError)))
    return unknown_flag_text(*command, first_word(unknown));
  // CLI11 speaks of numbers and types: "--steps: 1 required INT missing", "--steps: At Most 1 required but received 2".
  if (is(CLI::ExitCodes::ArgumentMismatch))
    return text.substr(0, text.find(':')) +
           (text.ends_with(" missing") ? ": no value, expected one" : ": given more than once, expected once");
  return text;
}

}  // namespace phasor::tool
