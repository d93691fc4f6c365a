#include "interrupt.h"

#include <csignal>
#include <initializer_list>

namespace phasor::tool {
namespace {

volatile std::sig_atomic_t requested = 0;

}  // namespace

void watch_for_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { requested = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the next one has its usual effect
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool interrupted() { return requested != 0; }

}  // namespace phasor::tool
