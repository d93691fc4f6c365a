#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "phasor/training/dataset.h"
#include "phasor/training/settings.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace phasor {
namespace {

// 1000 bytes in which every three in a row stand at one place only, bytes above 127 among them.
std::string known_text() {
  std::string text;
  for (int i = 0; i < 500; i++) text += {static_cast<char>(i % 250), static_cast<char>(i / 250 + 250)};
  return text;
}

// The numbers 0, 1, 2, ... with as many digits each: a piece of some bytes stands at one place only.
std::string counting_text(int numbers, int digits) {
  std::string text;
  for (int i = 0; i < numbers; i++) {
    const std::string number = std::to_string(i);
    text += std::string(static_cast<std::size_t>(digits) - number.size(), '0') + number;
  }
  return text;
}

std::string text_of(const Tensor<std::int32_t, 2>& tensor, std::int64_t row) {
  std::string text;
  for (std::int64_t t = 0; t < tensor.shape()[1]; t++) text += static_cast<char>(tensor(row, t));
  return text;
}

// Every row stands in the text, with its targets one byte on, and within its split.
void check_rows(const Dataset& data, const std::string& text, std::size_t train_bytes, std::int64_t length) {
  for (const Split split : {Split::train, Split::validation}) {
    Batch batch(500, length);
    data.fill(1, split, batch);
    std::set<std::size_t> begins;
    for (std::int64_t r = 0; r < 500; r++) {
      for (std::int64_t t = 0; t < length; t++) ASSERT_TRUE(batch.tokens(r, t) >= 0 && batch.tokens(r, t) < 256);
      const std::string row = text_of(batch.tokens, r);
      const std::size_t begin = text.find(row);
      ASSERT_NE(begin, std::string::npos);
      ASSERT_EQ(text.substr(begin + 1, row.size()), text_of(batch.targets, r));
      ASSERT_EQ(begin < train_bytes, split == Split::train);
      if (split == Split::train) {
        ASSERT_LE(begin + row.size() + 1, train_bytes);
      }
      begins.insert(begin);
    }
    // The first and the last place are as likely as any other, and of 76 or 876 places most are hit.
    EXPECT_GT(begins.size(), split == Split::train ? 300u : 70u);
  }
}

TEST(TextDataset, RowsAreBytesOfTheFile) {
  const TemporaryFolder folder;
  const auto data = text_dataset(folder.add("text", known_text()));
  EXPECT_EQ(data->vocabulary(), 256);
  EXPECT_FALSE(data->exact_match());
  EXPECT_TRUE(data->next_token());
  check_rows(*data, known_text(), 900, 23);
}

TEST(TextDataset, FilesOfAFolderAreOneText) {
  const TemporaryFolder folder;
  const std::string text = counting_text(250, 4);
  folder.add("texts/b", text.substr(300, 3));
  folder.add("texts/c/d", text.substr(303));
  folder.add("texts/a", text.substr(0, 300));
  folder.add("texts/aa", "");
  folder.add("texts/.hidden", "not read");
  folder.add("texts/.git/x", "not read");
  check_rows(*text_dataset(folder / "texts", {.seed = 3}), text, 900, 23);
}

// Of a folder only text is read; a file that is named is read as it is.
TEST(TextDataset, SkipsFilesThatAreNotText) {
  const TemporaryFolder folder;
  folder.add("texts/a.txt", "plain");
  folder.add("texts/b.txt", "\u00e4\u20ac\U0001f600");  // characters of 2, 3 and 4 bytes
  const char* not_text[] = {"\xff",     "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                            "\xe2\x82", "a\x80",    "\xc3("};
  std::int64_t skipped = 0;
  for (const char* bytes : not_text) folder.add("texts/bad" + std::to_string(skipped++), bytes);
  folder.add("texts/zero", std::string("a\0b", 3));
  const TextSummary found = text_summary(folder / "texts");
  EXPECT_EQ(found.files, 2);
  EXPECT_EQ(found.skipped, skipped + 1);
  EXPECT_EQ(found.size.bytes, 5 + 2 + 3 + 4);
  EXPECT_EQ(text_summary(folder / "texts/zero").size.bytes, 3);
  std::filesystem::remove(folder / "texts/a.txt");
  std::filesystem::remove(folder / "texts/b.txt");
  EXPECT_ERROR(text_dataset(folder / "texts"), "no text in it (9 files that are not UTF-8)");
}

// Four parts: the last tenth of each is held back, and no training row has a byte of it.
TEST(TextDataset, ValidationIsSpreadOverTheText) {
  constexpr std::size_t kPart = 1 << 16, kHeldBack = 6554;
  const TemporaryFolder folder;
  const std::string text = counting_text(4 * kPart / 8, 8);
  const auto data = text_dataset(folder.add("text", text));
  std::set<std::size_t> parts;
  for (const Split split : {Split::train, Split::validation}) {
    int jumps = 0;
    Batch batch(400, 24);
    data->fill(0, split, batch);
    for (std::int64_t r = 0; r < 400; r++) {
      const std::size_t begin = text.find(text_of(batch.tokens, r));
      if (begin == std::string::npos) jumps++;  // from one piece to the next
      if (begin == std::string::npos) continue;
      const std::size_t in_part = begin % kPart, last = in_part + 24;
      if (split == Split::train) {
        EXPECT_LT(last, kPart - kHeldBack);
      } else {
        EXPECT_GE(in_part, kPart - kHeldBack);
        parts.insert(begin / kPart);
      }
    }
    EXPECT_LT(jumps, 20);
  }
  EXPECT_EQ(parts.size(), 4u);
}

TEST(TextDataset, ASplitOfAnEarlierVersionIsRefused) {
  const TemporaryFolder folder;
  const std::string file = folder.add("text", "0123456789").string();
  EXPECT_ERROR(make_dataset({.text = file, .split = std::nullopt}), "split: the end of the text");
  EXPECT_NE(make_dataset({.task = "copy", .split = std::nullopt}), nullptr);
}

TEST(TextDataset, IsTheSameInAnyOrder) {
  const TemporaryFolder folder;
  folder.add("text", known_text());
  const auto tokens = [&](std::uint64_t seed, std::int64_t index, Split split) {
    Batch batch(4, 20);
    text_dataset(folder / "text", {.seed = seed})->fill(index, split, batch);
    return std::vector<std::int32_t>(batch.tokens.begin(), batch.tokens.end());
  };
  EXPECT_EQ(tokens(1, 7, Split::train), tokens(1, 7, Split::train));
  EXPECT_NE(tokens(1, 7, Split::train), tokens(1, 8, Split::train));
  EXPECT_NE(tokens(1, 7, Split::train), tokens(2, 7, Split::train));
}

TEST(TextDataset, UsesEveryByte) {
  const TemporaryFolder folder;
  const auto data = text_dataset(folder.add("text", "abcdefghij"), {.validation_fraction = 0.5});
  Batch batch(200, 3);
  data->fill(0, Split::train, batch);
  std::set<std::string> rows;
  for (std::int64_t r = 0; r < 200; r++) rows.insert(text_of(batch.tokens, r));
  EXPECT_EQ(rows, (std::set<std::string>{"abc", "bcd"}));  // "e" is their last target
}

TEST(TextDataset, RefusesTooLittleText) {
  const TemporaryFolder folder;
  folder.add("text", std::string(100, 'x'));
  const auto fill = [&](std::int64_t length) {
    Batch batch(1, length);
    text_dataset(folder / "text")->fill(0, Split::train, batch);
  };
  fill(9);
  EXPECT_ERROR(fill(10), "[fill]", "batch: rows of 10 tokens and ", "text of 100 bytes, 90 of them for training",
               "expected one byte more than a row in each part");
  EXPECT_ERROR(text_dataset(folder.add("empty", "")), "[text_dataset]", "empty: no text in it");
  std::filesystem::create_directory(folder / "folder");
  EXPECT_ERROR(text_dataset(folder / "folder"), "folder: no text in it");
  EXPECT_ERROR(text_dataset(folder / "none"), "none: cannot be read (No such file");
  for (const double fraction : {0.0, 1.0, -0.5})
    EXPECT_ERROR(text_dataset(folder / "text", {.validation_fraction = fraction}),
                 "validation_fraction: ", "expected between 0 and 1");
}

TEST(TextSize, ATextThatChangedIsRefused) {
  TemporaryFolder folder;
  const std::string file = folder.add("text", "0123456789").string();
  DatasetConfig config{.text = file, .text_size = text_summary(file).size};
  EXPECT_EQ(config.text_size->bytes, 10);
  EXPECT_NE(make_dataset(config), nullptr);
  folder.add("text", "0123456788");
  EXPECT_ERROR(make_dataset(config), "[make_dataset]", "text: ", "of 10 bytes, with other contents, expected");
  folder.add("text", "01234567890");
  EXPECT_ERROR(make_dataset(config), "of 11 bytes", "expected the text of 10 bytes");
}

}  // namespace
}  // namespace phasor
