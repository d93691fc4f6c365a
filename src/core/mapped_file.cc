#include "phasor/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "file_descriptor.h"
#include "phasor/core/check.h"

namespace phasor {

namespace {

constexpr const char* kName = "MappedFile";
constexpr const char* kExpected = "a readable file";

// Without O_NONBLOCK, opening a pipe would wait for a writer before it can be refused.
FileDescriptor opened(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_system(kName, path, "read", kExpected);
  return file;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : MappedFile(opened(path).number(), path) {}

MappedFile::MappedFile(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_system(kName, path, "read", kExpected);
  PHASOR_CHECK(S_ISREG(status.st_mode), kName, path.string(), ": not a regular file, expected one");
  if (status.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (memory == MAP_FAILED) fail_system(kName, path, "mapped", "a file that can be");
  memory_ = {static_cast<const std::byte*>(memory), Unmap(size)};
}

void MappedFile::Unmap::operator()(const std::byte* memory) const { ::munmap(const_cast<std::byte*>(memory), size); }

}  // namespace phasor
