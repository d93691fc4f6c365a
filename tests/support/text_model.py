#!/usr/bin/env python3
"""text_model.py FOLDER: the small Llama of tests/golden/pretrained with a tokenizer of its 61 tokens and ChatML.

Its weights are random, so its text is nonsense. Three of its tokens are bytes, of which E2 82 AC are the character €.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import string
import sys

MODEL = pathlib.Path(__file__).resolve().parents[1] / "golden" / "pretrained" / "llama"
SPECIAL = ["<unk>", "<|im_start|>", "<|im_end|>"]
BYTES = ["<0xE2>", "<0x82>", "<0xAC>"]
CHARACTERS = [*string.ascii_lowercase, *string.digits, *" \n.,:?!'"]
WORDS = ["th", "the", "in", "er", "an", "re", "on", "at", "en", "nd", "or"]
TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tokenizer() -> dict[str, object]:
    vocabulary = [*SPECIAL, *BYTES, *CHARACTERS, *WORDS]
    assert len(vocabulary) == 61
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "added_tokens": [{"id": id, "content": token, **added} for id, token in enumerate(SPECIAL)],
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "byte_fallback": True,
            "vocab": {token: id for id, token in enumerate(vocabulary)},
            "merges": [f"{word[:-1]} {word[-1]}" for word in WORDS],
        },
    }


def write(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(MODEL / name, folder / name)
    files = {
        "tokenizer": tokenizer(),
        "tokenizer_config": {"chat_template": TEMPLATE},
        "generation_config": {"eos_token_id": [2]},
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
