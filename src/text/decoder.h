// Decoders: from tokens back to text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "json/fields.h"

namespace phasor::text {

// The texts of tokens. A decoder changes each of them, or puts them together.
struct Decoded {
  std::vector<std::string> tokens{};
  // Bytes of a row that is not UTF-8 keep the characters that they do have, since these were returned already.
  bool is_stream = false;
};

using Decoder = std::function<void(Decoded&)>;

// The decoder that an object of tokenizer.json describes.
Decoder read_decoder(FieldReader reader);

}  // namespace phasor::text
