// Adds the name of the layer to errors of functions that it calls: "[AttentionLayer] [attention_forward] mask: ...".
#pragma once

#include <stdexcept>
#include <string>

namespace phasor::detail {

template <class Call>
void in_layer(const char* layer, const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("[" + std::string(layer) + "] " + error.what());
  }
}

}  // namespace phasor::detail
