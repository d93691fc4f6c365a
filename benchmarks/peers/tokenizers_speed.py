#!/usr/bin/env python3
"""tokenizers_speed.py FILE...: encoding speed of phasor.Tokenizer and of the package tokenizers, on one thread.

Both encode the same texts alternately, so that a busy machine slows both; the median of the ratios is printed. Texts are
English and code (files of Python's library), then lines of many scripts.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("PHASOR_NUM_THREADS", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "tokenizers"))

import corpus  # noqa: E402
import phasor  # noqa: E402
import tokenizers  # noqa: E402

ROUNDS = 5


def seconds(encode: object, texts: list[str]) -> float:
    start = time.perf_counter()
    for text in texts:
        encode(text)  # type: ignore[operator]
    return time.perf_counter() - start


def main() -> None:
    code = corpus.code(400_000)
    lines = [text.decode(errors="replace") for text in corpus.texts(400_000)[len(corpus.code(133_333)) + 12 :]]
    print(f"| tokenizer | English, code: phasor MB/s | tokenizers MB/s | ratio | scripts: phasor MB/s | tokenizers MB/s | ratio |")
    print("|---|---|---|---|---|---|---|")
    for path in sys.argv[1:]:
        ours, theirs = phasor.Tokenizer.from_file(path), tokenizers.Tokenizer.from_file(path)
        row = [pathlib.Path(path).stem]
        for texts in (code, lines):
            size = sum(len(text.encode()) for text in texts) / 1e6
            pairs = [(seconds(ours.encode, texts), seconds(theirs.encode_fast if hasattr(theirs, "encode_fast") else theirs.encode, texts)) for _ in range(ROUNDS)]
            ratio = statistics.median(their / our for our, their in pairs)
            row += [f"{size / min(our for our, _ in pairs):.1f}", f"{size / min(their for _, their in pairs):.1f}", f"{ratio:.1f}"]
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
