#include "phasor/core/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

std::string text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, GivesTheBytes) {
  const TemporaryFolder folder;
  const std::string contents = std::string("a\0b\n", 4) + std::string(10'000, 'x');
  EXPECT_EQ(text(MappedFile(folder.add("file", contents))), contents);
}

TEST(MappedFile, MayBeEmptyAndMoves) {
  const TemporaryFolder folder;
  MappedFile empty(folder.add("empty", ""));
  EXPECT_TRUE(empty.bytes().empty());
  MappedFile file(folder.add("file", "abc"));
  empty = std::move(file);
  EXPECT_EQ(text(empty), "abc");
}

TEST(MappedFile, StaysWhenTheFileIsDeleted) {
  const TemporaryFolder folder;
  const MappedFile file(folder.add("file", "abc"));
  std::filesystem::remove(folder / "file");
  EXPECT_EQ(text(file), "abc");
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_ERROR(MappedFile(folder / "none"), "[MappedFile]", "none", "No such file", "expected a readable file");
  EXPECT_ERROR(MappedFile(folder.path()), folder.path().string(), "not a regular file", "expected one");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile(folder / "pipe"), "not a regular file");
}

}  // namespace
}  // namespace phasor
