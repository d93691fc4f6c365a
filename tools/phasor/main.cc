// The command-line tool: phasor <command>. Exit codes: 0 done, 1 verify found a failure, 2 an error, 130 stopped by
// Ctrl-C with everything saved.
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

#include "commands.h"
#include "interrupt.h"
#include "phasor/version.h"
#include "table.h"
#include "usage.h"

namespace {

// On one line, whatever is in the name of a file.
void print_error(std::string_view text) {
  std::fprintf(stderr, "phasor: %s\n", phasor::tool::printable(std::string(text)).c_str());
}

int run(int argc, char** argv) {
  CLI::App app("phasor: position-aware attention for CPUs");
  app.set_version_flag("--version", PHASOR_VERSION);
  app.require_subcommand(1);
  phasor::tool::add_rope(app);
  phasor::tool::add_encodings(app);
  phasor::tool::add_verify(app);
  phasor::tool::add_atlas(app);
  phasor::tool::add_train(app);
  phasor::tool::add_eval(app);
  phasor::tool::add_generate(app);
  phasor::tool::add_perplexity(app);
  phasor::tool::add_embed(app);
  phasor::tool::add_compare(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {  // --help and --version
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    print_error(phasor::tool::usage_text(app, error));
    return 2;
  } catch (const phasor::tool::Failure&) {
    return 1;
  } catch (const phasor::tool::Interrupted&) {
    constexpr int kEndedBySigint = 128 + 2;
    return kEndedBySigint;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    print_error("standard output cannot be written, expected room and a reader");
  } catch (const std::bad_alloc&) {
    print_error("not enough memory for these sizes, expected a smaller model, batch or length");
  } catch (const std::exception& error) {
    print_error(phasor::tool::without_function(error.what()));
  } catch (...) {
    print_error("unknown error");
  }
  return 2;
}
