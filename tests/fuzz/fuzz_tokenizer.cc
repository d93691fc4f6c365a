// Any text given as tokenizer.json either becomes a tokenizer or std::invalid_argument. A tokenizer encodes and decodes
// any bytes, or refuses them, and streams what it decodes. The first line of the input is the JSON, the rest the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/text/tokenizer.h"

namespace {

void use(const phasor::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  if (tokenizer.encode(text) != ids) std::abort();  // from the cache
  for (const std::int32_t id : ids)
    if (id < 0) std::abort();
  tokenizer.encode_pair(text, text.substr(text.size() / 2));
  tokenizer.decode(ids);
  phasor::StreamDecoder stream(tokenizer);
  for (const std::int32_t id : ids) stream.put(id);
  stream.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), size);
  try {
    const phasor::Tokenizer tokenizer = phasor::Tokenizer::from_json(input.substr(0, line), "fuzz");
    use(tokenizer, input.substr(line));
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
