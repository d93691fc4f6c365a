#include <phasor/models/safetensors.h>

#include <cstdio>
#include <stdexcept>

int main() {
  try {
    phasor::TensorFolder weights(".");
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
}
