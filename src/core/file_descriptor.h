// An open file that closes itself, and the one form of errors of the file system.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "phasor/core/check.h"

namespace phasor {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// Whether the path still names this open file or folder, and not one that took its place.
inline bool is_still_at(const FileDescriptor& file, const std::filesystem::path& path) {
  struct stat opened {
  }, there{};
  return ::fstat(file.number(), &opened) == 0 && ::stat(path.c_str(), &there) == 0 && opened.st_ino == there.st_ino &&
         opened.st_dev == there.st_dev;
}

// "[function] path: cannot be <done> (<the system's reason>), expected <expected>", the reason from errno.
[[noreturn]] inline void fail_system(const char* function, const std::filesystem::path& path, const char* done,
                                     const char* expected) {
  const int reason = errno;
  fail(function, path.string(), ": cannot be ", done, " (", std::generic_category().message(reason), "), expected ",
       expected);
}

}  // namespace phasor
