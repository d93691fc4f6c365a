// Files of one folder that belong together, though a save may replace the folder meanwhile: all of
// them are those of one save.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "phasor/core/mapped_file.h"

namespace phasor {

class FolderSnapshot {
 public:
  // Opens those of the named files that the folder has. They stay as they are, whatever becomes of the folder.
  FolderSnapshot(const std::filesystem::path& folder, std::initializer_list<const char*> names);

  bool has(std::string_view name) const { return files_.contains(name); }
  // One that the folder lacks is an error.
  std::span<const std::byte> bytes(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  std::string path(std::string_view name) const { return (folder_ / name).string(); }  // for messages

 private:
  std::filesystem::path folder_;
  std::map<std::string, MappedFile, std::less<>> files_;
};

}  // namespace phasor
