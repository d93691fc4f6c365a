"""A real model of sentence embeddings, all-MiniLM-L6-v2 as scripts/minilm/unpack.py writes it: phasor beside
sentence-transformers, in float."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import phasor
import pytest
import sentence_transformers

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
