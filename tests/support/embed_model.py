#!/usr/bin/env python3
"""embed_model.py FOLDER: the small BERT of tests/golden/architectures with a WordPiece tokenizer of its 41 tokens.

Its weights are random, so its vectors mean nothing.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import string
import sys

MODEL = pathlib.Path(__file__).resolve().parents[1] / "golden" / "architectures" / "bert"
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
VOCABULARY = [*SPECIAL, "the", "fox", "and", "dog", "a", "##s", *string.ascii_lowercase[1:], *".,!?'-"]


def tokenizer() -> dict[str, object]:
    assert len(VOCABULARY) == 41
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "added_tokens": [{"id": id, "content": token, **added} for id, token in enumerate(SPECIAL)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {token: id for id, token in enumerate(VOCABULARY)},
        },
    }


def write(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(MODEL / name, folder / name)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
