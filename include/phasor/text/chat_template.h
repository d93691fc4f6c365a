// Chats as the text that a model was trained on, by the template in its Hugging Face folder.
//
//   const ChatTemplate chat(source, "chat_template.jinja", {{"bos_token", "<s>"}});
//   const std::vector<std::int32_t> ids = chat.encode({{{"user", "Hello"}}}, tokenizer);
//
// Templates are written in Jinja. The part of the language that they use is here (docs/text.md lists it): the text is
// that of transformers' apply_chat_template with add_generation_prompt, without tools and documents.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/text/tokenizer.h"

namespace phasor {

struct ChatMessage {
  std::string role;  // system, user or assistant
  std::string content;
};

class ChatTemplate {
 public:
  // `name` stands for the source in errors. special_tokens are variables of the template: bos_token and such.
  ChatTemplate(std::string_view source, std::string name, std::map<std::string, std::string> special_tokens = {});

  // Up to where the assistant's answer begins. A template that asks for what is not here, or refuses the messages, is
  // an error. `now` is for templates that tell the date.
  std::string format(std::span<const ChatMessage> messages, std::time_t now = std::time(nullptr)) const;
  // The ids of this text. Special tokens, and added ones that the template writes, are the template's alone: what a
  // message spells as one is plain text.
  std::vector<std::int32_t> encode(std::span<const ChatMessage> messages, const Tokenizer& tokenizer,
                                   std::time_t now = std::time(nullptr)) const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace phasor
