#include "phasor/attention/paged_kv_cache.h"

#include <algorithm>
#include <limits>

#include "cache/append_rows.h"
#include "cache/cache_rows.h"
#include "phasor/core/check.h"

namespace phasor {
namespace {

constexpr const char* kAppend = "PagedKvCache::append";

// What does not depend on pages.
KvCacheConfig without_pages(const PagedKvCacheConfig& config) {
  return {.batch = config.batch,
          .key_heads = config.key_heads,
          .channels = config.channels,
          .value_channels = config.value_channels,
          .keys = config.keys};
}

PagedKvCacheConfig checked(PagedKvCacheConfig config) {
  constexpr std::int64_t kMostPages = std::numeric_limits<std::int32_t>::max();
  KvCacheConfig sizes = without_pages(config);
  detail::check_cache_sizes("PagedKvCache", sizes);
  config.value_channels = sizes.value_channels;
  PHASOR_CHECK(config.pages >= 0 && config.pages <= kMostPages, "PagedKvCache", "pages: ", config.pages,
               ", expected 0 to ", kMostPages);
  PHASOR_CHECK(config.page_size >= 1, "PagedKvCache", "page_size: ", config.page_size, ", expected at least 1");
  return config;
}

}  // namespace

PagedKvCache::PagedKvCache(const PagedKvCacheConfig& config)
    : config_(checked(config)),
      keys_(config_.storage, {config_.pages, config_.key_heads, config_.page_size, config_.channels}),
      values_(config_.storage, {config_.pages, config_.key_heads, config_.page_size, config_.value_channels}),
      users_(static_cast<std::size_t>(config_.pages), 0),
      lengths_(static_cast<std::size_t>(config_.batch), 0) {
  for (std::int64_t page = config_.pages; page-- > 0;) free_.push_back(static_cast<std::int32_t>(page));
}

std::int64_t PagedKvCache::longest() const { return lengths_.empty() ? 0 : *std::ranges::max_element(lengths_); }

std::int64_t PagedKvCache::pages_of(std::int64_t tokens) const {
  return tokens / config_.page_size + (tokens % config_.page_size > 0 ? 1 : 0);
}

std::int32_t& PagedKvCache::page(std::size_t b, std::int64_t index) {
  return table_[b * static_cast<std::size_t>(row_) + static_cast<std::size_t>(index)];
}

std::int32_t PagedKvCache::take_page() {
  const std::int32_t page = free_.back();
  free_.pop_back();
  users_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void PagedKvCache::release_page(std::int32_t page) {
  if (--users_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
}

bool PagedKvCache::ends_in_shared_page(std::size_t b) {
  if (lengths_[b] % config_.page_size == 0) return false;
  return users_[static_cast<std::size_t>(page(b, lengths_[b] / config_.page_size))] > 1;
}

// Rows of the table long enough for `pages` pages.
void PagedKvCache::widen(std::int64_t pages) {
  if (pages <= row_) return;
  const std::int64_t wider = std::max(pages, 2 * row_);
  std::vector<std::int32_t> table(static_cast<std::size_t>(config_.batch * wider), 0);
  for (std::int64_t b = 0; b < config_.batch; b++)
    std::copy_n(table_.data() + b * row_, row_, table.data() + b * wider);
  table_.swap(table);
  row_ = wider;
}

// How many pages it takes to append: new ones, and copies of those that others have too.
std::int64_t PagedKvCache::pages_to_append(std::span<const std::int64_t> counts) {
  std::int64_t needed = 0;
  std::vector<std::int32_t> copied;  // one of several sequences that leave a page to the last one
  for (std::size_t b = 0; b < lengths_.size(); b++) {
    needed += pages_of(lengths_[b] + counts[b]) - pages_of(lengths_[b]);
    if (counts[b] == 0 || !ends_in_shared_page(b)) continue;
    copied.push_back(page(b, lengths_[b] / config_.page_size));
    users_[static_cast<std::size_t>(copied.back())]--;
  }
  for (const std::int32_t page : copied) users_[static_cast<std::size_t>(page)]++;
  return needed + static_cast<std::int64_t>(copied.size());
}

// Gives each sequence the pages for its new tokens, and no page that is written to another one.
void PagedKvCache::reserve(std::span<const std::int64_t> counts) {
  const std::int64_t needed = pages_to_append(counts);
  PHASOR_CHECK(needed <= free_pages(), kAppend, "pages: ", free_pages(), " of ", config_.pages,
               " are free, expected the ", needed, " that the new tokens need");
  for (std::size_t b = 0; b < lengths_.size(); b++) {
    const std::int64_t end = pages_of(lengths_[b] + counts[b]);
    widen(end);
    if (counts[b] > 0 && ends_in_shared_page(b)) copy_last_page(b);
    for (std::int64_t i = pages_of(lengths_[b]); i < end; i++) page(b, i) = take_page();
  }
}

void PagedKvCache::copy_last_page(std::size_t b) {
  std::int32_t& last = page(b, lengths_[b] / config_.page_size);
  const std::int32_t copy = take_page();
  const auto copy_page = [&](auto& pool) {
    if (pool.size() == 0) return;
    const std::int64_t size = pool.size() / pool.shape()[0];
    std::copy_n(pool.data() + last * size, size, pool.data() + copy * size);
  };
  for (detail::CacheRows* rows : {&keys_, &values_}) {
    std::visit(copy_page, rows->numbers);
    copy_page(rows->scales);
  }
  release_page(last);
  last = copy;
}

void PagedKvCache::append(const KvRows& k, const KvRows& v, const std::optional<RotaryView>& rotation,
                          std::span<const std::int64_t> counts) {
  const detail::NewRows rows(kAppend, without_pages(config_), k, v, rotation, counts);
  reserve(rows.counts);
  const detail::PageTable table{table_.data(), row_, config_.page_size, config_.pages};
  detail::AnyOutput keys = detail::any_output(keys_), values = detail::any_output(values_);
  keys.pages = values.pages = &table;
  rows.store(lengths_, keys, values);
  for (std::size_t b = 0; b < lengths_.size(); b++) lengths_[b] += rows.counts[b];
}

void PagedKvCache::share(std::int64_t from, std::int64_t to, std::int64_t length) {
  constexpr const char* kShare = "PagedKvCache::share";
  detail::check_truncation(kShare, from, length, lengths_);
  PHASOR_CHECK(to >= 0 && to < config_.batch, kShare, "to: ", to, ", expected 0 to ", config_.batch - 1);
  const auto source = static_cast<std::size_t>(from), target = static_cast<std::size_t>(to);
  PHASOR_CHECK(lengths_[target] == 0, kShare, "to: sequence ", to, " of ", lengths_[target],
               " tokens, expected an empty one");
  for (std::int64_t i = 0; i < pages_of(length); i++) {
    page(target, i) = page(source, i);
    users_[static_cast<std::size_t>(page(source, i))]++;
  }
  lengths_[target] = length;
}

void PagedKvCache::truncate(std::int64_t b, std::int64_t length) {
  detail::check_truncation("PagedKvCache::truncate", b, length, lengths_);
  const auto at = static_cast<std::size_t>(b);
  for (std::int64_t i = pages_of(lengths_[at]); i-- > pages_of(length);) release_page(page(at, i));
  lengths_[at] = length;
}

void PagedKvCache::clear() {
  for (std::int64_t b = 0; b < config_.batch; b++) truncate(b, 0);
}

}  // namespace phasor
