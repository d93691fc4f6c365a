"""A real model of sentence embeddings, all-MiniLM-L6-v2 as scripts/minilm/unpack.py writes it, and folders that
sentence-transformers writes for small random models: phasor beside sentence-transformers, in float."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import phasor
import pytest
import sentence_transformers
import torch
import transformers as hf
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "minilm"
TOLERANCE = 1e-5  # of rows of length 1


@pytest.fixture(scope="module")
def texts():
    """The documentation by paragraphs, other scripts, nothing, and more tokens than the 256 that the model reads."""
    pages = [path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))]
    paragraphs = [part for page in pages for part in page.split("\n\n") if part.strip()]
    others = ["", "Der Fuchs sagt: 5 €.", "狐狸跳过懒狗", "Лиса и ворона", "🦊🐦", "a\u0301e\u0301 ﬁ", "fox " * 1000]
    return [*paragraphs[:200], *others]


@pytest.fixture(scope="module")
def expected(texts):
    return sentence_transformers.SentenceTransformer(str(FOLDER), device="cpu").encode(texts)


def test_embeddings_are_those_of_sentence_transformers(texts, expected):
    found = phasor.load(FOLDER).embed(texts)
    assert np.abs(found - expected).max() <= TOLERANCE


def test_the_command_line_gives_them_too(texts, expected, tmp_path):
    lines = [text.replace("\n", " ") for text in texts]
    (tmp_path / "text").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "phasor", "embed", str(FOLDER), "--text", str(tmp_path / "text")]
    subprocess.run([*command, "--output", str(tmp_path / "x.npy")], check=True)
    assert np.abs(np.load(tmp_path / "x.npy") - expected).max() <= TOLERANCE


def test_like_texts_are_near():
    rows = phasor.load(FOLDER).embed(["A man is eating food.", "Someone eats a meal.", "The stock market fell."])
    assert rows[0] @ rows[1] > 0.6 > 0.2 > rows[0] @ rows[2]


SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, initializer_range=0.2)
RANDOM = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**SIZES, max_position_embeddings=64)),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**SIZES, vocab_size=30522, max_position_embeddings=66, type_vocab_size=1)),
    "modernbert": lambda: hf.ModernBertModel(hf.ModernBertConfig(**SIZES, vocab_size=30522, max_position_embeddings=64, pad_token_id=0)),
    "qwen3": lambda: hf.Qwen3Model(hf.Qwen3Config(**SIZES, vocab_size=30522, head_dim=8, num_key_value_heads=2, max_position_embeddings=64)),
}


@pytest.mark.parametrize("longest", [64, 9])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("name", RANDOM)
def test_folders_that_sentence_transformers_writes(tmp_path, name, pooling, normalize, longest):
    torch.manual_seed(0)
    RANDOM[name]().save_pretrained(tmp_path / "base")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FOLDER / file, tmp_path / "base" / file)
    modules = [Transformer(str(tmp_path / "base"), max_seq_length=longest), Pooling(32, pooling_mode=pooling)]
    folder = tmp_path / "folder"
    sentence_transformers.SentenceTransformer(modules=modules + [Normalize()] * normalize, device="cpu").save(str(folder))
    texts = ["fox", "", "the fox says hello to the crow. " * 20, "狐狸"]
    expected = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(texts)
    found = phasor.load(folder).embed(texts)
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
