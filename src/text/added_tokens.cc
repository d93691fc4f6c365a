#include "added_tokens.h"

#include <algorithm>
#include <set>
#include <utility>

#include "characters.h"
#include "utf8.h"

namespace phasor::text {

TokenFinder::TokenFinder(const std::vector<const AddedToken*>& tokens) : tokens_(tokens) {
  std::vector<Trie::Entry> entries;
  for (std::size_t i = 0; i < tokens_.size(); i++) entries.push_back({tokens_[i]->form, static_cast<std::int32_t>(i)});
  trie_ = Trie(std::move(entries));
}

bool TokenFinder::touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  const auto is_word_at = [&](std::size_t at) { return is_word(next_character(text, at)); };
  return (begin > 0 && is_word_at(previous_character(text, begin))) || (end < text.size() && is_word_at(end));
}

std::size_t TokenFinder::space_before(std::string_view text, std::size_t begin) {
  while (begin > 0) {
    const std::size_t previous = previous_character(text, begin);
    std::size_t at = previous;
    if (!is_space(next_character(text, at))) break;
    begin = previous;
  }
  return begin;
}

std::size_t TokenFinder::space_behind(std::string_view text, std::size_t end) {
  for (std::size_t at = end; at < text.size() && is_space(next_character(text, at)); end = at) continue;
  return end;
}

AddedTokens::AddedTokens(FieldReader& reader, const Vocabulary& vocabulary, const Normalizer& normalizer) {
  if (reader.find("added_tokens") == nullptr) return;
  for (FieldReader& each : reader.objects("added_tokens")) add(each, vocabulary, normalizer);
  std::vector<const AddedToken*> plain, normalized;
  std::set<std::string> forms;
  for (const auto& [id, token] : tokens_) {
    if (token.form.empty() || (token.normalized && !forms.insert(token.form).second))
      reader.refuse_part("added_tokens",
                         json_text(token.content) + ", which normalisation makes " + json_text(token.form),
                         "a text that no other token becomes");
    (token.normalized ? normalized : plain).push_back(&token);
  }
  plain_ = TokenFinder(plain);
  normalized_ = TokenFinder(normalized);
}

// The id is that of the model's vocabulary, or the next one behind all: the package gives it so, whatever the file
// says.
void AddedTokens::add(FieldReader& reader, const Vocabulary& vocabulary, const Normalizer& normalizer) {
  AddedToken token;
  std::uint64_t id = 0;
  reader("id", id);
  reader("content", token.content);
  reader("single_word", token.single_word);
  reader("lstrip", token.lstrip);
  reader("rstrip", token.rstrip);
  reader("normalized", token.normalized);
  reader("special", token.special);
  reader.finish();
  if (token.content.empty()) reader.refuse_key("content", "a text that is not empty");
  const std::int32_t in_model = vocabulary.find(token.content);
  const std::size_t next = vocabulary.size() + not_in_model_;
  const std::size_t expected = in_model != kNoToken ? static_cast<std::size_t>(in_model) : next;
  if (id != expected)
    reader.refuse_key("id", std::to_string(expected) + (in_model != kNoToken ? ", its id in the vocabulary"
                                                                             : ", the next one behind the vocabulary"));
  if (in_model == kNoToken) not_in_model_++;
  token.id = static_cast<std::int32_t>(id);
  token.form = token.content;
  if (token.normalized && normalizer) {
    Section section{token.content, true};
    normalizer(section);
    token.form = std::move(section.text);
  }
  if (!ids_.emplace(token.content, token.id).second) reader.refuse_key("content", "each token once");
  tokens_.emplace(token.id, std::move(token));
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? nullptr : find(found->second);
}

}  // namespace phasor::text
