#include "files/atomic_file.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

// Stands before the C library's: lets a test take the file system for one that cannot exchange two folders.
static bool can_exchange = true;
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (can_exchange) return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  errno = EINVAL;
  return -1;
}

namespace phasor {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

using Names = std::set<std::string>;

// Runs `work` in a child process and returns its exit code: 1 for an exception.
template <class Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(work());
    } catch (const std::exception& error) {
      ::_exit(1);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// ---- files ----

TEST(AtomicFile, IsThereOnlyAfterCommit) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder / "a");
    file.write("one ");
    file.write(std::as_bytes(std::span(std::string_view("two"))));
    EXPECT_FALSE(fs::exists(folder / "a"));
    file.commit();
    EXPECT_EQ(contents_of(folder / "a"), "one two");
  }
  {
    AtomicFile file(folder / "a");
    file.write("never seen");
  }
  EXPECT_EQ(contents_of(folder / "a"), "one two");
  write_file(folder / "a", "three");
  EXPECT_EQ(contents_of(folder / "a"), "three");
  EXPECT_EQ(names_in(folder.path()), Names{"a"});
}

TEST(AtomicFile, KeepsPermissionsAndFollowsLinks) {
  const TemporaryFolder folder;
  folder.add("real", "old");
  fs::permissions(folder / "real", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(contents_of(folder / "real"), "new");
  EXPECT_EQ(fs::status(folder / "real").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(AtomicFile, RemovesWhatTheDeadLeftAndNotWhatTheLivingWrite) {
  const TemporaryFolder folder;
  folder.add(".a.new-1-0", "left by a killed process");
  folder.add(".ab.new-1-0", "of another file");
  AtomicFile living(folder / "a");
  living.write("living");
  write_file(folder / "a", "other");
  EXPECT_EQ(names_in(folder.path()).count(".a.new-1-0"), 0u);
  living.commit();
  EXPECT_EQ(contents_of(folder / "a"), "living");
  EXPECT_EQ(names_in(folder.path()), (Names{"a", ".ab.new-1-0"}));
}

TEST(AtomicFile, RefusesWhatItCannotReplace) {
  const TemporaryFolder folder;
  EXPECT_ERROR(write_file(folder / "none/a", ""), "[AtomicFile]", "none/a: cannot be written (No such file");
  EXPECT_ERROR(write_file(folder.path(), ""), "[AtomicFile]", "not a regular file", "expected one or nothing");
  EXPECT_ERROR(write_file("/dev/full", "x"), "/dev/full", "not a regular file");
  EXPECT_ERROR(write_file("", ""), "path: \"\"");
  EXPECT_ERROR(AtomicFolder("/"), "has the folder");
}

// ---- folders ----

// A save whose files all carry its number, so that a mixture of two saves is seen.
void save(const fs::path& path, int number) {
  AtomicFolder folder(path);
  for (const char* name : {"a", "b", "c"}) {
    AtomicFile file(folder.folder() / name);
    for (int piece = 0; piece < 20; piece++) file.write(std::string(200, static_cast<char>('A' + number % 26)));
    file.write(std::to_string(number));
    file.commit();
  }
  folder.commit();
}

// The number of the save that is there, or nothing if any part of it is missing or of another save.
std::optional<int> number_of(const fs::path& path) {
  const fs::path folder = readable_folder(path);
  const std::string first = contents_of(folder / "a");
  if (first.size() <= 4000) return std::nullopt;
  const int number = std::stoi(first.substr(4000));
  const std::string expected = std::string(4000, static_cast<char>('A' + number % 26)) + std::to_string(number);
  for (const char* name : {"a", "b", "c"})
    if (contents_of(folder / name) != expected) return std::nullopt;
  return number;
}

// Both ways of putting the new folder in its place.
class AtomicFolderTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { can_exchange = GetParam(); }
  void TearDown() override { can_exchange = true; }
};

TEST_P(AtomicFolderTest, IsReplacedByCommit) {
  const TemporaryFolder folder;
  save(folder / "run", 1);
  EXPECT_EQ(number_of(folder / "run"), 1);
  {
    AtomicFolder abandoned(folder / "run");
    write_file(abandoned.folder() / "a", "never seen");
  }
  EXPECT_EQ(number_of(folder / "run"), 1);
  save((folder / "run").string() + "/", 2);  // as people's shells complete it
  EXPECT_EQ(number_of(folder / "run"), 2);
  EXPECT_EQ(names_in(folder.path()), Names{"run"});
}

TEST_P(AtomicFolderTest, KeepsWhatOthersPutThere) {
  const TemporaryFolder folder;
  save(folder / "run", 1);
  folder.add("run/notes", "mine");
  fs::create_symlink("notes", folder / "run/link");
  save(folder / "run", 2);
  EXPECT_EQ(contents_of(folder / "run/notes"), "mine");
  EXPECT_TRUE(fs::is_symlink(folder / "run/link"));
  EXPECT_EQ(number_of(folder / "run"), 2);
  folder.add("run/deep/notes", "mine");
  EXPECT_ERROR(save(folder / "run", 3), "[AtomicFolder]", "has the folder deep in it", "expected plain files alone");
  EXPECT_EQ(number_of(folder / "run"), 2);
  folder.add("file", "");
  EXPECT_ERROR(save(folder / "file", 1), "[AtomicFolder]", "not a folder", "expected one or nothing");
}

TEST_P(AtomicFolderTest, RemovesWhatTheDeadLeft) {
  const TemporaryFolder folder;
  folder.add(".run.new-1-0/a", "part");
  save(folder / "run", 1);
  folder.add(".run.new-1-1/a", "part");
  folder.add(".run.previous/a", "old");
  save(folder / "run", 2);
  EXPECT_EQ(names_in(folder.path()), Names{"run"});
}

TEST_P(AtomicFolderTest, IsReadableBetweenTheTwoSteps) {
  const TemporaryFolder folder;
  save(folder / "run", 1);
  folder.add("run/notes", "mine");
  fs::rename(folder / "run", folder / ".run.previous");  // as a process killed between the steps leaves it
  EXPECT_EQ(number_of(folder / "run"), 1);
  save(folder / "run", 2);
  EXPECT_EQ(number_of(folder / "run"), 2);
  EXPECT_EQ(contents_of(folder / "run/notes"), "mine");
  EXPECT_EQ(names_in(folder.path()), Names{"run"});
}

// Starts a child that saves without end from `number` on, waits for so many saves to end, then for so long, and kills
// it.
void save_until_killed(const fs::path& path, int number, int saves, std::chrono::microseconds delay) {
  int ended[2];  // a pipe that gets a byte after each save
  ASSERT_EQ(::pipe(ended), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;; number++) {
      save(path, number);
      if (::write(ended[1], "", 1) != 1) ::_exit(1);
    }
  }
  ::close(ended[1]);
  for (char byte; saves > 0; saves--) EXPECT_EQ(::read(ended[0], &byte, 1), 1) << "the child ended by itself";
  std::this_thread::sleep_for(delay);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(ended[0]);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
}

TEST_P(AtomicFolderTest, IsWholeAfterAKillAtAnyMoment) {
  const TemporaryFolder folder;
  const fs::path path = folder / "run";
  std::mt19937 random(7);
  int last = 0;
  const auto start = std::chrono::steady_clock::now();
  save(path, last);
  const auto one_save = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  const auto longest = std::min<std::chrono::microseconds::rep>(one_save.count() * 3 / 2, 20'000);
  for (int kill = 0; kill < 150; kill++) {
    const int saves = kill % 2;  // at first the child starts and cleans up; later it is in the midst of its work
    save_until_killed(path, last + 1, saves, std::chrono::microseconds(random() % (longest + 1)));
    const std::optional<int> found = number_of(path);
    ASSERT_TRUE(found.has_value()) << "after kill " << kill;
    ASSERT_GE(*found, last + saves);
    last = *found;
  }
  save(path, last + 1);
  EXPECT_EQ(number_of(path), last + 1);
  EXPECT_EQ(names_in(folder.path()), Names{"run"});
}

TEST_P(AtomicFolderTest, AFailedWriteLeavesThePreviousOne) {
  const TemporaryFolder folder;
  save(folder / "run", 1);
  const auto save_with_small_files = [&] {
    std::signal(SIGXFSZ, SIG_IGN);  // so that write() fails, as it does on a full disk
    const rlimit limit{3000, 3000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_ERROR(save(folder / "run", 2), "[AtomicFile]", "/a: cannot be written (File too large)", "unchanged");
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_EQ(in_child(save_with_small_files), 0);
  EXPECT_EQ(number_of(folder / "run"), 1);
  EXPECT_EQ(names_in(folder.path()), Names{"run"});
}

TEST_P(AtomicFolderTest, AFullDiskLeavesThePreviousOne) {
  constexpr int kNotAllowed = 77;
  const TemporaryFolder folder;
  const auto save_on_a_small_disk = [&] {
    // A file system of 5 pages, seen by the child alone: room for one save of three and not for two.
    const std::string size = "size=" + std::to_string(5 * ::sysconf(_SC_PAGESIZE));
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder.path().c_str(), "tmpfs", 0, size.c_str()) != 0)
      return kNotAllowed;
    save(folder / "run", 1);
    EXPECT_ERROR(save(folder / "run", 2), "cannot be written (No space left on device)", "unchanged");
    EXPECT_EQ(number_of(folder / "run"), 1);
    EXPECT_EQ(names_in(folder.path()), Names{"run"});
    return ::testing::Test::HasFailure() ? 1 : 0;
  };
  const int code = in_child(save_on_a_small_disk);
  if (code == kNotAllowed) GTEST_SKIP() << "only root may mount a small disk";
  EXPECT_EQ(code, 0);
}

INSTANTIATE_TEST_SUITE_P(Exchange, AtomicFolderTest, ::testing::Bool(),
                         [](const auto& test) { return std::string(test.param ? "InOneStep" : "InTwoSteps"); });

}  // namespace
}  // namespace phasor
