// Ctrl-C asks for an end: work is saved first. A second one ends at once.
#pragma once

namespace phasor::tool {

// From now on SIGINT and SIGTERM are requests.
void watch_for_interrupt();
bool interrupted();

// What main returns 130 for: stopped by request, with everything saved.
struct Interrupted {};

}  // namespace phasor::tool
