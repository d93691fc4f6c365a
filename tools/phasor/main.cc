// The command-line tool: phasor <command>.
#include <cstdio>
#include <exception>

#include "commands.h"
#include "phasor/version.h"

int main(int argc, char** argv) {
  CLI::App app("phasor: position-aware attention for CPUs");
  app.set_version_flag("--version", PHASOR_VERSION);
  app.require_subcommand(1);
  phasor::tool::add_rope(app);
  phasor::tool::add_encodings(app);
  phasor::tool::add_verify(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const phasor::tool::Failure&) {
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "phasor: %s\n", error.what());
    return 2;
  }
  return 0;
}
