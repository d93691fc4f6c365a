#include "phasor/core/folder_snapshot.h"

#include <fcntl.h>

#include "file_descriptor.h"
#include "files/atomic_file.h"
#include "phasor/core/check.h"

namespace phasor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "FolderSnapshot";

}  // namespace

// A folder that was replaced is deleted while we read it: then files are missing, and the new folder is tried.
FolderSnapshot::FolderSnapshot(const fs::path& folder, std::initializer_list<const char*> names) : folder_(folder) {
  constexpr int kAttempts = 1000;  // opening a few files is far quicker than a save
  for (int attempt = 0; attempt < kAttempts; attempt++) {
    const fs::path place = readable_folder(folder);
    const FileDescriptor opened(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened && (errno != ENOENT || attempt + 1 == kAttempts)) fail_system(kName, folder, "read", "a folder");
    if (!opened) continue;
    files_.clear();
    for (const char* name : names) {
      const FileDescriptor file(::openat(opened.number(), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
      if (!file && errno != ENOENT) fail_system(kName, folder / name, "read", "a readable file");
      if (file) files_.emplace(name, MappedFile(file.number(), folder / name));
    }
    if (files_.size() == names.size() || is_still_at(opened, place)) return;
  }
  fail(kName, folder.string(), ": is replaced faster than it can be read, expected time between saves");
}

std::span<const std::byte> FolderSnapshot::bytes(std::string_view name) const {
  const auto found = files_.find(name);
  PHASOR_CHECK(found != files_.end(), kName, folder_.string(), ": no ", name, " in it, expected one");
  return found->second.bytes();
}

std::string_view FolderSnapshot::text(std::string_view name) const {
  const std::span<const std::byte> all = bytes(name);
  return {reinterpret_cast<const char*>(all.data()), all.size()};
}

}  // namespace phasor
