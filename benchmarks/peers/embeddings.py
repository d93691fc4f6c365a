"""embeddings.py FOLDER: seconds for vectors of 200 paragraphs of docs/, by sentence-transformers and by phasor, in turns, on
two threads. After `make test-minilm`: build/torch-venv/bin/python benchmarks/peers/embeddings.py build/minilm
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import phasor
import sentence_transformers
import torch

THREADS, TURNS = 2, 4


def paragraphs() -> list[str]:
    pages = [path.read_text() for path in sorted((pathlib.Path(__file__).parents[2] / "docs").glob("*.md"))]
    return [part for page in pages for part in page.split("\n\n") if part.strip()][:200]


def main() -> None:
    torch.set_num_threads(THREADS)
    phasor.set_num_threads(THREADS)
    folder, texts = sys.argv[1], paragraphs()
    runs: dict[str, Callable[[list[str]], Any]] = {
        "sentence-transformers": sentence_transformers.SentenceTransformer(folder, device="cpu").encode,
        "phasor": phasor.load(folder).embed,
        "phasor, bf16": phasor.load(folder, "bf16").embed,
    }
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(TURNS):
        for name, run in runs.items():
            begin = time.perf_counter()
            run(texts)
            best[name] = min(best[name], time.perf_counter() - begin)
    for name, seconds in best.items():
        print(f"{name:<22} {seconds:.2f} s")


if __name__ == "__main__":
    main()
