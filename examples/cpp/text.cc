// A text as ids and back, and text that appears token by token.
#include <phasor/text/tokenizer.h>

#include <cstdio>

int main() {
  const phasor::Tokenizer tokenizer = phasor::Tokenizer::from_file("tokenizer.json");
  const std::vector<std::int32_t> ids = tokenizer.encode("The fox says \xE2\x82\xAC 5");
  for (const std::int32_t id : ids) std::printf("[%d]", id);
  std::printf("\n%s\n", tokenizer.decode(ids).c_str());

  phasor::StreamDecoder stream(tokenizer);
  for (const std::int32_t id : ids) std::printf("[%s]", stream.put(id).c_str());
  std::printf("%s\n", stream.finish().c_str());
}
