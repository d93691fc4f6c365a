#include "phasor/core/folder_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

TEST(FolderLock, ASecondHolderIsRefusedByName) {
  const TemporaryFolder folder;
  for (const bool inside : {false, true}) {
    const auto take = [&](const fs::path& path) {
      return inside ? FolderLock::inside(path) : FolderLock::beside(path);
    };
    fs::create_directories(folder / "run");
    const fs::path file = inside ? folder / "run/.lock" : folder / ".run.lock";
    {
      const FolderLock held = take(folder / "run");
      EXPECT_TRUE(fs::exists(file));
      EXPECT_ERROR(take(folder / "run"), (folder / "run").string(), "process " + std::to_string(::getpid()) + " on ",
                   "one writer at a time");
      if (!inside) {
        EXPECT_ERROR(take(folder / "run/"), "one writer at a time");  // the same place
        fs::create_symlink("run", folder / "link");
        EXPECT_ERROR(take(folder / "link"), "one writer at a time");
      }
    }
    EXPECT_FALSE(fs::exists(file));
    take(folder / "run");
  }
}

TEST(FolderLock, EndsWithItsProcess) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock held = FolderLock::beside(folder / "run");
    static_cast<void>(::write(ready[1], "x", 1));
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_ERROR(FolderLock::beside(folder / "run"), "process " + std::to_string(child));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(folder / ".run.lock"));  // left behind, and nobody's
  FolderLock::beside(folder / "run");
}

TEST(FolderLock, SaysWhereItCannotLock) {
  const TemporaryFolder folder;
  EXPECT_ERROR(FolderLock::beside(folder / "none/run"), "none/run: cannot be written (No such file");
  EXPECT_ERROR(FolderLock::inside(folder / "none"), "none: cannot be written (No such file");
}

}  // namespace
}  // namespace phasor
