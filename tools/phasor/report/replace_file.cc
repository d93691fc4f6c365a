#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "phasor/core/check.h"
#include "report/page.h"

namespace phasor::report {
namespace {

constexpr const char* kFunction = "replace_file";

// A file beside its target, gone again unless it was moved there.
class NewFile {
 public:
  explicit NewFile(const std::string& target)
      : target_(target),
        name_(target + ".new-" + std::to_string(::getpid())),
        descriptor_(::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail_with_reason();
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    ::close(descriptor_);
    if (!moved_) std::remove(name_.c_str());
  }

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = ::write(descriptor_, text.data(), text.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail_with_reason();
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void move_to_target() {
    if (::fsync(descriptor_) != 0 || std::rename(name_.c_str(), target_.c_str()) != 0) fail_with_reason();
    moved_ = true;
  }

 private:
  [[noreturn]] void fail_with_reason() const {
    fail(kFunction, "file: ", target_, " cannot be written (", std::strerror(errno), ")");
  }

  std::string target_, name_;
  int descriptor_;
  bool moved_ = false;
};

}  // namespace

void replace_file(const std::string& path, std::string_view text) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);  // where a link leads
  const auto status = std::filesystem::status(target, error);
  PHASOR_CHECK(!path.empty() && (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)),
               kFunction, "file: '", path, "', expected the name of a file, new or to be replaced");
  NewFile file(target.string());
  file.write(text);
  file.move_to_target();
}

}  // namespace phasor::report
