#!/usr/bin/env python3
"""compare.py FILE...: phasor.Tokenizer and the package tokenizers on the corpus of corpus.py, for each tokenizer.json.

Compared are ids with and without special tokens, pairs, decoded text with and without special tokens, and streamed text. Exit
code 1 if anything differs.
"""

from __future__ import annotations

import pathlib
import random
import sys

import corpus
import phasor
import tokenizers


def differences(path: str, texts: list[bytes]) -> list[str]:
    theirs, ours = tokenizers.Tokenizer.from_file(path), phasor.Tokenizer.from_file(path)
    found = []

    def expect(what: str, given: object, expected: object, text: object) -> None:
        if given != expected:
            found.append(f"{what}: {text!r:.200}\n    phasor     {given!r:.300}\n    tokenizers {expected!r:.300}")

    expect("vocab_size", ours.vocab_size, theirs.get_vocab_size(), "")
    for id in range(0, theirs.get_vocab_size() + 10, 7):
        expect("id_to_token", ours.id_to_token(id), theirs.id_to_token(id), id)
    rng = random.Random(1)
    previous = ""
    for data in texts:
        text = data.decode("utf-8", errors="replace")
        expected = theirs.encode(text).ids
        expect("encode", ours.encode(data), expected, text)
        expect("encode without special tokens", ours.encode(text, add_special_tokens=False), theirs.encode(text, add_special_tokens=False).ids, text)
        for skip in (True, False):
            expect("decode", ours.decode(expected, skip), theirs.decode(expected, skip_special_tokens=skip), text)
        if rng.random() < 0.05:
            pair = theirs.encode(previous, text)
            expect("encode_pair", tuple(ours.encode_pair(previous, text)), (pair.ids, pair.type_ids, pair.attention_mask), (previous, text))
            stream = phasor.StreamDecoder(ours)
            parts = [stream.put(id) for id in expected] + [stream.finish()]
            expect("StreamDecoder", "".join(parts), ours.decode(expected), text)
        previous = text[:500]
    for _ in range(300):  # ids that no text gives
        ids = [rng.randrange(theirs.get_vocab_size() + 5) for _ in range(rng.randint(1, 30))]
        for skip in (True, False):
            expect("decode", ours.decode(ids, skip), theirs.decode(ids, skip_special_tokens=skip), ids)
    return found


def main() -> None:
    texts = corpus.texts()
    print(f"{len(texts)} texts, {sum(map(len, texts))} bytes; tokenizers {tokenizers.__version__}")
    failed = False
    for path in sys.argv[1:]:
        found = differences(path, texts)
        failed = failed or bool(found)
        print(f"{'differs' if found else 'equal  '}  {pathlib.Path(path).stem}")
        for each in found[:5]:
            print("  " + each)
        if found:
            print(f"  {len(found)} differences")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
