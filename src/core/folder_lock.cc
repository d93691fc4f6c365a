#include "phasor/core/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <array>
#include <string>

#include "file_descriptor.h"
#include "phasor/core/check.h"
#include "target_path.h"

namespace phasor {

namespace fs = std::filesystem;

struct FolderLock::Held {
  fs::path file;
  FileDescriptor descriptor;

  Held(fs::path path, FileDescriptor opened) : file(std::move(path)), descriptor(std::move(opened)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  // Removed while it is still locked: nobody else can have taken it for his own.
  ~Held() { ::unlink(file.c_str()); }
};

namespace {

constexpr const char* kName = "FolderLock";

std::string this_process() {
  std::array<char, 256> host{};
  const bool known = ::gethostname(host.data(), host.size() - 1) == 0;
  return "process " + std::to_string(::getpid()) + (known ? " on " + std::string(host.data()) : "");
}

// What the holder has written; nothing while it is about to.
std::string holder(const FileDescriptor& file) {
  std::array<char, 300> text{};
  const ssize_t count = ::pread(file.number(), text.data(), text.size(), 0);
  return count > 0 ? std::string(text.data(), static_cast<std::size_t>(count)) : "another process";
}

void write_holder(const FileDescriptor& file) {
  const std::string text = this_process();
  // A lock holds without its text: a full disk is reported by what is written next.
  if (::ftruncate(file.number(), 0) == 0) static_cast<void>(::pwrite(file.number(), text.data(), text.size(), 0));
}

}  // namespace

std::unique_ptr<FolderLock::Held> FolderLock::take(const fs::path& folder, const fs::path& file) {
  for (;;) {
    FileDescriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!opened) fail_system(kName, folder, "written", "a folder that can be written to");
    // A file system without locks counts as unlocked.
    if (::flock(opened.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      fail(kName, folder.string(), ": ", holder(opened), " writes to it, expected one writer at a time");
    if (!is_still_at(opened, file)) continue;  // the holder before removed it between our opening and locking it
    write_holder(opened);
    return std::make_unique<Held>(file, std::move(opened));
  }
}

FolderLock FolderLock::beside(const fs::path& folder) {
  const fs::path target = target_path(kName, folder);
  return FolderLock(take(folder, target.parent_path() / ("." + target.filename().string() + ".lock")));
}

FolderLock FolderLock::inside(const fs::path& folder) { return FolderLock(take(folder, folder / ".lock")); }

FolderLock::FolderLock(std::unique_ptr<Held> held) : held_(std::move(held)) {}
FolderLock::FolderLock(FolderLock&&) noexcept = default;
FolderLock& FolderLock::operator=(FolderLock&&) noexcept = default;
FolderLock::~FolderLock() = default;

}  // namespace phasor
