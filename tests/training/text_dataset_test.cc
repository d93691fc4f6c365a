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
  const std::string text = known_text();
  folder.add("texts/b", text.substr(300, 3));
  folder.add("texts/c/d", text.substr(303));
  folder.add("texts/a", text.substr(0, 300));
  folder.add("texts/aa", "");
  folder.add("texts/.hidden", "not read");
  folder.add("texts/.git/x", "not read");
  check_rows(*text_dataset(folder / "texts", {.seed = 3}), text, 900, 23);
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
  EXPECT_ERROR(fill(10), "[fill] batch: rows of 10 tokens and ", "text of 100 bytes, 90 of them for training",
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
  DatasetConfig config{.text = file, .text_size = text_size(file)};
  EXPECT_EQ(config.text_size->bytes, 10);
  EXPECT_NE(make_dataset(config), nullptr);
  folder.add("text", "0123456788");
  EXPECT_ERROR(make_dataset(config), "[make_dataset] text: ", "of 10 bytes, with other contents, expected");
  folder.add("text", "01234567890");
  EXPECT_ERROR(make_dataset(config), "of 11 bytes, expected the text of 10 bytes that the training began with");
}

}  // namespace
}  // namespace phasor
