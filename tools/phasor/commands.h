// One function for each subcommand: it adds itself, with its options, to the application.
#pragma once

#include <CLI/CLI.hpp>

namespace phasor::tool {

void add_rope(CLI::App& app);
void add_encodings(CLI::App& app);
void add_verify(CLI::App& app);
void add_atlas(CLI::App& app);
void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_generate(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_embed(CLI::App& app);
void add_compare(CLI::App& app);

// What main returns when a command did its work and found a failure (verify), as opposed to an error.
struct Failure {};

}  // namespace phasor::tool
