// The bytes of a file, mapped into memory: pages are read when they are touched, and shared between processes. Public
// because FolderSnapshot and TensorFile hold it by value.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace phasor {

// Maps a regular file for reading; one of no bytes is legal. A file that is replaced or deleted
// stays readable here as it was. One that another process cuts short does not: touching what is gone ends the process
// (SIGBUS), as with any mapping.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  // Of an open file, which the caller closes; `path` names it in errors.
  MappedFile(int descriptor, const std::filesystem::path& path);

  std::span<const std::byte> bytes() const& { return {memory_.get(), memory_ ? memory_.get_deleter().size : 0}; }
  std::span<const std::byte> bytes() const&& = delete;  // they would be unmapped

 private:
  struct Unmap {
    std::size_t size;
    Unmap() : size(0) {}
    explicit Unmap(std::size_t bytes) : size(bytes) {}
    void operator()(const std::byte* memory) const;
  };
  std::unique_ptr<const std::byte, Unmap> memory_;
};

}  // namespace phasor
