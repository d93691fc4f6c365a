// One writer at a time: whoever writes to a folder for long holds its lock, and a second process is refused by name.
// The system drops the lock when its process ends, in whatever way, so a killed process locks nobody out.
#pragma once

#include <filesystem>
#include <memory>

namespace phasor {

class FolderLock {
 public:
  // For a folder that is replaced as a whole: the file ".NAME.lock" beside it.
  static FolderLock beside(const std::filesystem::path& folder);
  // For a folder that stays: the file ".lock" in it.
  static FolderLock inside(const std::filesystem::path& folder);

  FolderLock(FolderLock&&) noexcept;
  FolderLock& operator=(FolderLock&&) noexcept;
  ~FolderLock();

 private:
  struct Held;
  explicit FolderLock(std::unique_ptr<Held> held);
  static std::unique_ptr<Held> take(const std::filesystem::path& folder, const std::filesystem::path& file);

  std::unique_ptr<Held> held_;
};

}  // namespace phasor
