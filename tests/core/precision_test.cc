#include "phasor/core/precision.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace phasor {
namespace {

TEST(Precision, NamesAreReadAsTheyAreWritten) {
  for (const char* name : {"storage", "float", "bf16"}) EXPECT_EQ(precision_name(precision_from_name(name)), name);
  EXPECT_ERROR(precision_from_name("half"), "precision: \"half\"", "expected \"storage\", \"float\" or \"bf16\"");
}

TEST(Precision, DefaultIsThatOfStorageUntilItIsSet) {
  EXPECT_EQ(default_precision(), Precision::storage);
  set_default_precision(Precision::bf16);
  EXPECT_EQ(default_precision(), Precision::bf16);
  set_default_precision(Precision::storage);
}

}  // namespace
}  // namespace phasor
