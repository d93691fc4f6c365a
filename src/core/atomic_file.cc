#include "files/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>  // NOLINT(modernize-deprecated-headers): renameat2 is not in <cstdio>'s list
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "file_descriptor.h"
#include "phasor/core/check.h"
#include "target_path.h"

namespace phasor {

namespace fs = std::filesystem;

// What is being written, and where it will stand.
struct Temporary {
  const char* owner = "";  // who complains
  fs::path target;
  fs::path path;
  FileDescriptor descriptor;
  bool committed = false;

  Temporary() = default;
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    std::error_code ignored;
    if (!committed && !path.empty()) fs::remove_all(path, ignored);
  }
};

namespace {

constexpr const char* kUnchanged = "room and permission; what was there before is unchanged";

std::string temporary_prefix(const fs::path& target) { return "." + target.filename().string() + ".new-"; }

fs::path previous_of(const fs::path& target) {
  return target.parent_path() / ("." + target.filename().string() + ".previous");
}

// Whoever writes a temporary holds its lock; the kernel drops it when the process ends, in whatever way. A file system
// without locks counts as unlocked.
bool lock(const FileDescriptor& file) { return ::flock(file.number(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

void remove_leftovers(const fs::path& target) {
  const std::string prefix = temporary_prefix(target);
  std::error_code error;
  for (fs::directory_iterator entry(target.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix)) continue;
    const FileDescriptor leftover(::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::error_code ignored;
    if (leftover && lock(leftover)) fs::remove_all(entry->path(), ignored);
  }
}

// Makes a new file or folder beside the target with a name that nobody has. `create` returns its descriptor; errno is
// EEXIST when the name is taken.
template <class Create>
std::unique_ptr<Temporary> make_temporary(const char* owner, const fs::path& path, const Create& create) {
  auto temporary = std::make_unique<Temporary>();
  temporary->owner = owner;
  temporary->target = target_path(owner, path);
  remove_leftovers(temporary->target);
  const std::string prefix = temporary_prefix(temporary->target) + std::to_string(::getpid()) + "-";
  for (int number = 0;; number++) {
    const fs::path candidate = temporary->target.parent_path() / (prefix + std::to_string(number));
    FileDescriptor made(create(candidate));
    if (!made && errno == EEXIST) continue;
    if (!made) fail_system(owner, path, "written", "a folder that can be written to");
    // Another process may have taken it for a leftover before it was locked: then it is gone, or will be.
    struct stat status {};
    if (!lock(made) || ::fstat(made.number(), &status) != 0 || status.st_nlink == 0) continue;
    temporary->path = candidate;
    temporary->descriptor = std::move(made);
    return temporary;
  }
}

void flush(const Temporary& temporary, const FileDescriptor& file) {
  // Some file systems cannot flush a folder, and say so by EINVAL.
  if (!file || (::fsync(file.number()) != 0 && errno != EINVAL))
    fail_system(temporary.owner, temporary.target, "forced to disk", kUnchanged);
}

void flush(const Temporary& temporary, const fs::path& path) {
  flush(temporary, FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
}

void move(const Temporary& temporary, const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_system(temporary.owner, temporary.target, "replaced", kUnchanged);
}

void keep_permissions(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::file_status status = fs::status(from, error);
  if (!error && fs::exists(status)) fs::permissions(to, status.permissions(), error);
}

}  // namespace

// ---- files ----

AtomicFile::AtomicFile(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  PHASOR_CHECK(!fs::exists(status) || fs::is_regular_file(status), "AtomicFile", path.string(),
               ": is there and not a regular file, expected one or nothing");
  temporary_ = make_temporary("AtomicFile", path, [](const fs::path& candidate) {
    return ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  });
}

AtomicFile::~AtomicFile() = default;

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    constexpr std::size_t kMost = std::size_t{1} << 30;  // Linux takes no more than 2 GiB at once
    const ssize_t count = ::write(temporary_->descriptor.number(), bytes.data(), std::min(bytes.size(), kMost));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_system("AtomicFile", temporary_->target, "written", kUnchanged);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit() {
  keep_permissions(temporary_->target, temporary_->path);
  flush(*temporary_, temporary_->descriptor);
  move(*temporary_, temporary_->path, temporary_->target);
  temporary_->committed = true;
  flush(*temporary_, temporary_->target.parent_path());
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// ---- folders ----

namespace {

void check_plain(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    PHASOR_CHECK(!fs::is_directory(entry->symlink_status(error)), "AtomicFolder", folder.string(), ": has the folder ",
                 entry->path().filename().string(), " in it, expected plain files alone");
}

// Files that only the previous folder has are in the new one, too, before anything is removed.
void keep_other_files(const Temporary& temporary) {
  std::error_code error;
  for (fs::directory_iterator entry(readable_folder(temporary.target), error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path kept = temporary.path / entry->path().filename();
    if (fs::exists(fs::symlink_status(kept, error))) continue;
    fs::create_hard_link(entry->path(), kept, error);
    if (error) fs::copy(entry->path(), kept, fs::copy_options::copy_symlinks, error);
    PHASOR_CHECK(!error, "AtomicFolder", entry->path().string(), ": cannot be kept (", error.message(), "), expected ",
                 kUnchanged);
  }
}

// One step, where the file system can exchange two folders: then the temporary name is that of the old one.
bool exchange(const Temporary& temporary) {
#ifdef RENAME_EXCHANGE
  return ::renameat2(AT_FDCWD, temporary.path.c_str(), AT_FDCWD, temporary.target.c_str(), RENAME_EXCHANGE) == 0;
#else
  static_cast<void>(temporary);
  return false;
#endif
}

// Otherwise two steps; readable_folder() finds the old one between them.
void move_in_two_steps(const Temporary& temporary) {
  if (fs::exists(temporary.target)) {
    std::error_code ignored;
    fs::remove_all(previous_of(temporary.target), ignored);
    move(temporary, temporary.target, previous_of(temporary.target));
  }
  move(temporary, temporary.path, temporary.target);
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  PHASOR_CHECK(!fs::exists(status) || fs::is_directory(status), "AtomicFolder", path.string(),
               ": is there and not a folder, expected one or nothing");
  check_plain(path);
  temporary_ = make_temporary("AtomicFolder", path, [](const fs::path& candidate) {
    if (::mkdir(candidate.c_str(), 0777) != 0) return -1;
    return ::open(candidate.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  });
}

AtomicFolder::~AtomicFolder() = default;

const fs::path& AtomicFolder::folder() const { return temporary_->path; }

void AtomicFolder::commit() {
  check_plain(temporary_->path);
  keep_other_files(*temporary_);
  keep_permissions(temporary_->target, temporary_->path);
  for (const fs::directory_entry& entry : fs::directory_iterator(temporary_->path))
    if (entry.is_regular_file()) flush(*temporary_, entry.path());
  flush(*temporary_, temporary_->descriptor);
  if (!exchange(*temporary_)) move_in_two_steps(*temporary_);
  temporary_->committed = true;
  flush(*temporary_, temporary_->target.parent_path());
  std::error_code ignored;
  fs::remove_all(temporary_->path, ignored);
  fs::remove_all(previous_of(temporary_->target), ignored);
}

fs::path target_path(const char* owner, const fs::path& path) {
  std::error_code error;
  fs::path target = fs::weakly_canonical(fs::absolute(path, error), error);
  PHASOR_CHECK(!error && !path.empty(), owner, "path: \"", path.string(), "\" cannot be resolved (", error.message(),
               "), expected the name of a file or folder");
  if (!target.has_filename()) target = target.parent_path();
  PHASOR_CHECK(target.has_filename(), owner, "path: \"", path.string(), "\", expected a name, not the root folder");
  return target;
}

fs::path readable_folder(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  const fs::path previous = previous_of(target_path("readable_folder", path));
  return fs::exists(previous, ignored) ? previous : path;
}

}  // namespace phasor
