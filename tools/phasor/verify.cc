// phasor verify: does this build, on this machine, compute what it should?
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "check.h"
#include "commands.h"
#include "phasor/core/parallel.h"
#include "phasor/core/simd_target.h"
#include "phasor/version.h"

namespace phasor::tool {
namespace {

void verify() {
  std::printf("phasor %s, SIMD target %s, %d threads\n\n", PHASOR_VERSION, simd_target().c_str(), num_threads());
  std::vector<Check> checks = position_checks();
  std::ranges::move(layer_checks(), std::back_inserter(checks));
  Table table({"check", "found", "expected", "result"});
  for (const Check& check : checks)
    table.add({check.name, check.found, check.expected, check.passed ? "PASSED" : "FAILED"});
  table.print();
  const auto failed = std::ranges::count(checks, false, &Check::passed);
  std::printf("\n%zu checks, %zu passed, %td failed\n", checks.size(), checks.size() - static_cast<std::size_t>(failed),
              failed);
  if (failed > 0) throw Failure{};
}

}  // namespace

void add_verify(CLI::App& app) {
  app.add_subcommand("verify", "Check this build against known numbers and properties")->callback(verify);
}

}  // namespace phasor::tool
