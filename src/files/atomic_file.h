// Files, and folders of files, that are replaced all at once: a kill at any moment, a full disk or a loss of power
// leaves what was there before or what is new, never a part of it.
//
// Both are written beside their place under a temporary name (".NAME.new-..."), forced to disk, and moved there by one
// step of the file system. Without commit() nothing changes and the temporary is removed. Temporaries that killed
// processes left behind are removed by the next save of the same name; those of living ones are locked, and left alone.
// A symbolic link is followed: what it names is replaced. Errors of the file system are std::invalid_argument with the
// system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace phasor {

struct Temporary;

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // The file is there, whole, when this returns. Nothing may be written after it.
  void commit();

 private:
  std::unique_ptr<Temporary> temporary_;
};

// All of it in one call.
void write_file(const std::filesystem::path& path, std::string_view text);

// A folder of plain files. Files of the previous folder that the new one does not have are kept; a folder that has
// folders in it is refused, so that a mistyped path cannot replace a directory tree.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::filesystem::path& path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where to write the files, by any means; commit() forces them to disk.
  const std::filesystem::path& folder() const;
  // The folder is at its path, whole, when this returns. Nothing may be written after it.
  void commit();

 private:
  std::unique_ptr<Temporary> temporary_;
};

// Where to read a folder that AtomicFolder writes: `path`, or, on a file system that cannot exchange two folders in one
// step, what a save killed between its two steps has put aside (".NAME.previous").
std::filesystem::path readable_folder(const std::filesystem::path& path);

}  // namespace phasor
