"""phasor.Tokenizer on the golden numbers of the package tokenizers; C++ has the same tests for every kind."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re
import threading

import phasor
import pytest

ROOT = pathlib.Path(__file__).parents[2]
GOLDENS = json.loads((ROOT / "tests" / "golden" / "tokenizers.json").read_text())
TEXTS = GOLDENS["texts"]


@pytest.fixture(params=GOLDENS["tokenizers"], ids=lambda golden: golden["name"])
def golden(request):
    return request.param


@pytest.fixture
def tokenizer(golden, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(golden["tokenizer"]))
    return phasor.Tokenizer.from_file(path)


def example() -> phasor.Tokenizer:
    return phasor.Tokenizer.from_file(ROOT / "examples" / "tokenizer.json")


def test_encodes_and_decodes_as_the_package(golden, tokenizer):
    assert [tokenizer.encode(text) for text in TEXTS] == golden["ids"]
    assert [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS] == golden["ids_without_special_tokens"]
    assert [tokenizer.decode(ids) for ids in golden["ids"]] == golden["text"]
    assert [tokenizer.decode(ids, skip_special_tokens=False) for ids in golden["ids"]] == golden["text_with_special_tokens"]
    assert tokenizer.encode_pair(TEXTS[0], TEXTS[1])._asdict() == golden["pair"]
    assert tokenizer.vocab_size == golden["vocab_size"]


def test_bytes_are_text_and_broken_bytes_are_replaced():
    tokenizer = example()
    broken = b"a\xe2\x82z\xff"
    assert tokenizer.encode(broken) == tokenizer.encode(broken.decode(errors="replace"))
    assert [each.ids for each in tokenizer.encode_batch(["fox", b"dog"])] == [tokenizer.encode("fox"), tokenizer.encode("dog")]


def test_threads_share_a_tokenizer():
    tokenizer, results = example(), {}

    def work(number: int) -> None:
        results[number] = [tokenizer.encode(text) for text in TEXTS * 20]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == [tokenizer.encode(text) for text in TEXTS * 20] for result in results.values())


def test_vocabulary():
    tokenizer = example()
    assert tokenizer.id_to_token(tokenizer.token_to_id("<s>")) == "<s>"
    assert tokenizer.token_to_id("no such token") is None
    assert tokenizer.id_to_token(10**6) is None


def test_errors_name_the_function_and_the_argument(tmp_path):
    tokenizer = example()
    with pytest.raises(TypeError, match=r"\[Tokenizer.encode\] text: int, expected str or bytes"):
        tokenizer.encode(5)
    with pytest.raises(ValueError, match=r"\[Tokenizer.encode\] text: half of a surrogate pair at 1"):
        tokenizer.encode("a\ud800")
    with pytest.raises(TypeError, match=r"\[Tokenizer.decode\] ids: 'a', expected a whole number"):
        tokenizer.decode([1, "a"])
    with pytest.raises(TypeError, match="from_file"):
        phasor.Tokenizer()
    with pytest.raises(TypeError, match=r"\[StreamDecoder\] tokenizer: str, expected a phasor.Tokenizer"):
        phasor.StreamDecoder("tokenizer.json")
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {"type": "WordLevel"}}')
    with pytest.raises(ValueError, match="tokenizer.json: model.type: \"WordLevel\", expected one of BPE, Unigram, WordPiece"):
        phasor.Tokenizer.from_file(path)


def test_the_example_of_the_documentation(monkeypatch):
    code, output = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", (ROOT / "docs" / "text.md").read_text(), re.DOTALL)[0]
    monkeypatch.chdir(ROOT / "examples")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == output
