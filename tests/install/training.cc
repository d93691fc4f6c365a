#include <phasor/phasor.h>

#include <cstdio>

int main() {
  phasor::Batch batch(1, 6);
  phasor::task_dataset("copy")->fill(0, phasor::Split::train, batch);
  for (const int target : batch.targets) std::printf("%d ", target);
  std::printf("\n");
}
