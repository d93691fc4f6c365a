#include "phasor/core/precision.h"

#include <atomic>

#include "phasor/core/check.h"

namespace phasor {
namespace {

constexpr Precision kAll[] = {Precision::storage, Precision::float32, Precision::bf16};

std::atomic<Precision> chosen = Precision::storage;

}  // namespace

std::string_view precision_name(Precision precision) {
  switch (precision) {
    case Precision::storage:
      return "storage";
    case Precision::float32:
      return "float";
    case Precision::bf16:
      return "bf16";
  }
  fail("precision_name", "precision: ", static_cast<int>(precision), ", expected one of Precision");
}

Precision precision_from_name(std::string_view name) {
  for (const Precision precision : kAll)
    if (name == precision_name(precision)) return precision;
  fail("precision_from_name", "precision: \"", name, "\", expected \"storage\", \"float\" or \"bf16\"");
}

Precision default_precision() { return chosen.load(std::memory_order_relaxed); }
void set_default_precision(Precision precision) { chosen.store(precision, std::memory_order_relaxed); }

}  // namespace phasor
