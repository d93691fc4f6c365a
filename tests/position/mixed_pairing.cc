// Must not compile: an adjacent table given to the half-split rotation. tests/CMakeLists.txt expects the error.
#include "phasor/position/forms.h"

int main() {
  const phasor::Tensor<float, 4> x({1, 1, 4, 8});
#if MIX_PAIRINGS
  phasor::apply_rotary_pos_emb(x.view(), phasor::generate_rope_embeddings(4, 8));
#else
  const auto positions = phasor::consecutive_positions(4);
  phasor::apply_rotary_pos_emb(x.view(), phasor::half_table({.head_dim = 8}, positions.view()));
#endif
}
