// Any text given as a template of chats either writes one, or std::invalid_argument: it ends, and takes no more memory
// than a chat needs.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "phasor/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const phasor::ChatMessage messages[] = {{"system", "Be brief."}, {"user", " Hello\n"}};
  try {
    const phasor::ChatTemplate chat({reinterpret_cast<const char*>(data), size}, "fuzz", {{"bos_token", "<s>"}});
    chat.format(messages, 0);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
