#include "text.h"

#include <utility>

#include "phasor/core/check.h"

namespace phasor::detail {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error, ignored;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(ignored)) {
      files.push_back(entry->path());
    }
  }
  PHASOR_CHECK(!error, "text_dataset", folder.string(), ": cannot be listed (", error.message(),
               "), expected a readable folder");
  std::ranges::sort(files);
  return files;
}

// The first byte of a character says how many follow, and from what range the first of these is (RFC 3629): that range
// leaves out characters written too long, half surrogate pairs and numbers above 10FFFF.
struct Lead {
  int following = -1;  // not a first byte
  unsigned char low = 0x80, high = 0xbf;
};

Lead lead_of(unsigned char byte) {
  if (byte >= 0x01 && byte <= 0x7f) return {0};
  if (byte >= 0xc2 && byte <= 0xdf) return {1};
  if (byte == 0xe0) return {2, 0xa0};
  if (byte == 0xed) return {2, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {2};
  if (byte == 0xf0) return {3, 0x90};
  if (byte >= 0xf1 && byte <= 0xf3) return {3};
  if (byte == 0xf4) return {3, 0x80, 0x8f};
  return {};
}

}  // namespace

bool is_text(std::span<const std::byte> bytes) {
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned char>(bytes[i]); };
  for (std::size_t i = 0; i < bytes.size();) {
    const Lead lead = lead_of(at(i));
    if (lead.following < 0 || i + static_cast<std::size_t>(lead.following) >= bytes.size()) return false;
    if (lead.following > 0 && (at(i + 1) < lead.low || at(i + 1) > lead.high)) return false;
    for (int f = 2; f <= lead.following; f++)
      if ((at(i + static_cast<std::size_t>(f)) & 0xc0) != 0x80) return false;
    i += 1 + static_cast<std::size_t>(lead.following);
  }
  return true;
}

Text::Text(const fs::path& path) {
  const bool folder = fs::is_directory(path);
  for (const fs::path& file : folder ? files_below(path) : std::vector{path}) add(file, folder);
}

void Text::add(const fs::path& file, bool only_text) {
  MappedFile mapped(file);
  if (mapped.bytes().empty()) return;
  if (only_text && !is_text(mapped.bytes())) {
    skipped_++;
    return;
  }
  ends_.push_back(size() + static_cast<std::int64_t>(mapped.bytes().size()));
  files_.push_back(std::move(mapped));
}

}  // namespace phasor::detail
