#include "phasor/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "file_descriptor.h"
#include "phasor/core/check.h"

namespace phasor {

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer before it can be refused.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_system("MappedFile", path, "read", "a readable file");
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) fail_system("MappedFile", path, "read", "a readable file");
  PHASOR_CHECK(S_ISREG(status.st_mode), "MappedFile", path.string(), ": not a regular file, expected one");
  if (status.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (memory == MAP_FAILED) fail_system("MappedFile", path, "mapped", "a file that can be");
  memory_ = {static_cast<const std::byte*>(memory), Unmap(size)};
}

void MappedFile::Unmap::operator()(const std::byte* memory) const { ::munmap(const_cast<std::byte*>(memory), size); }

}  // namespace phasor
