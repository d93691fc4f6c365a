#include "phasor/core/folder_snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "files/atomic_file.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

TEST(FolderSnapshot, HasTheNamedFilesAndKeepsThem) {
  const TemporaryFolder folder;
  folder.add("run/a", "one");
  folder.add("run/empty", "");
  folder.add("run/other", "not asked for");
  const FolderSnapshot files(folder / "run", {"a", "empty", "none"});
  EXPECT_TRUE(files.has("a"));
  EXPECT_FALSE(files.has("none"));
  EXPECT_FALSE(files.has("other"));
  fs::remove_all(folder / "run");
  EXPECT_EQ(files.text("a"), "one");
  EXPECT_EQ(files.text("empty"), "");
  EXPECT_EQ(files.path("a"), (folder / "run/a").string());
  EXPECT_ERROR(files.bytes("none"), "run: no none in it", "expected one");
}

TEST(FolderSnapshot, SaysWhatCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_ERROR(FolderSnapshot(folder / "none", {"a"}), "none: cannot be read (No such file");
  EXPECT_ERROR(FolderSnapshot(folder.add("file", ""), {"a"}), "file: cannot be read (Not a directory");
  fs::create_directories(folder / "run/a");
  EXPECT_ERROR(FolderSnapshot(folder / "run", {"a"}), "run/a: not a regular file");
}

// A save killed between the two steps of a file system that cannot exchange folders.
TEST(FolderSnapshot, ReadsWhatWasPutAside) {
  const TemporaryFolder folder;
  folder.add(".run.previous/a", "one");
  EXPECT_EQ(FolderSnapshot(folder / "run", {"a"}).text("a"), "one");
}

// All files of one save, while another thread replaces the folder as fast as it can.
TEST(FolderSnapshot, IsOfOneSave) {
  const TemporaryFolder folder;
  const auto save = [&](int number) {
    AtomicFolder saved(folder / "run");
    for (const char* name : {"a", "b", "c"}) write_file(saved.folder() / name, std::to_string(number));
    saved.commit();
  };
  save(0);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int number = 1; !done; number++) save(number);
  });
  std::string last;
  int seen = 0;
  // On a busy machine the writer may stand still for a while.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int i = 0; (i < 20'000 && seen < 200) || (seen <= 10 && std::chrono::steady_clock::now() < end); i++) {
    const FolderSnapshot files(folder / "run", {"a", "b", "c"});
    const std::string number(files.text("a"));
    EXPECT_EQ(files.text("b"), number);
    EXPECT_EQ(files.text("c"), number);
    seen += number != last ? 1 : 0;
    last = number;
  }
  done = true;
  writer.join();
  EXPECT_GT(seen, 10) << "hardly any save happened meanwhile";
}

}  // namespace
}  // namespace phasor
