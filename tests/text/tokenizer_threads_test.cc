#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "goldens.h"

namespace phasor {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(TokenizerThreads, OneTokenizerServesSeveralThreads) {
  const std::vector<std::string> texts = tokenizer_goldens()["texts"];
  for (const char* name : {"llama3", "llama2", "bert", "t5"}) {
    const nlohmann::json& golden = golden_tokenizer(name);
    const Tokenizer tokenizer = tokenizer_of(golden);
    std::vector<std::vector<Ids>> results(4);
    std::vector<std::thread> threads;
    for (auto& result : results)
      threads.emplace_back([&result, &texts, tokenizer] {
        for (const std::string& text : texts) result.push_back(tokenizer.encode(text));
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) EXPECT_EQ(result, golden["ids"].get<std::vector<Ids>>());
  }
}

TEST(TokenizerThreads, BatchesAreTheTextsOneByOne) {
  const std::vector<std::string> texts = tokenizer_goldens()["texts"];
  const nlohmann::json& golden = golden_tokenizer("gpt2");
  const std::vector<EncodedText> batch = tokenizer_of(golden).encode_batch(texts);
  ASSERT_EQ(batch.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); i++) EXPECT_EQ(batch[i].ids, golden["ids"][i].get<Ids>());
}

}  // namespace
}  // namespace phasor
