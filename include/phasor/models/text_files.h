// What a Hugging Face folder says about the text of its model, in files beside the weights. Errors name the file and
// the key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "phasor/models/transformer.h"
#include "phasor/text/chat_template.h"
#include "phasor/text/tokenizer.h"

namespace phasor {

// tokenizer.json, whose tokens the model has. Special tokens may go beyond its vocabulary: those of images that a
// model of text leaves out.
Tokenizer load_tokenizer(const std::filesystem::path& folder, const TransformerConfig& config);

// The template of chats: chat_template.jinja, or else chat_template of tokenizer_config.json, of several the one named
// "default". Its variables are the special tokens of tokenizer_config.json.
ChatTemplate load_chat_template(const std::filesystem::path& folder);

// Tokens that end a text: eos_token_id, a number or a list, of generation_config.json, or else of config.json.
std::vector<std::int32_t> load_stop_tokens(const std::filesystem::path& folder);

}  // namespace phasor
