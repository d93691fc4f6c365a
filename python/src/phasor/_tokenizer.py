"""Tokenizers from tokenizer.json."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from phasor import _phasor
from phasor._errors import with_function_name
from phasor._numbers import whole


class EncodedText(NamedTuple):
    """What a text, or a pair of texts, becomes.

    `type_ids` say which text a token belongs to; `attention_mask` is 0 for padding, which a file may ask for.
    """

    ids: list[int]
    type_ids: list[int]
    attention_mask: list[int]


def _utf8(text: str | bytes, name: str) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"{name}: {type(text).__name__}, expected str or bytes")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: half of a surrogate pair at {error.start}, expected characters") from None


class Tokenizer:
    """A tokenizer of Hugging Face's tokenizer.json: the same ids and text as the package `tokenizers`.

        tokenizer = phasor.Tokenizer.from_file("SmolLM2-135M/tokenizer.json")
        ids = tokenizer.encode("Hello, world")
        text = tokenizer.decode(ids)

    Texts are str, or bytes of UTF-8; in bytes, what is no UTF-8 is read as U+FFFD. Several threads may use a tokenizer at
    once: the GIL is released.
    """

    _tokenizer: _phasor.Tokenizer

    def __init__(self) -> None:
        raise TypeError("[Tokenizer] Tokenizer(): no file, expected Tokenizer.from_file(path)")

    @classmethod
    @with_function_name
    def from_file(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """Reads a tokenizer.json. What it asks for and phasor does not have is a ValueError that names the key."""
        return cls._of(_phasor.Tokenizer.from_file(os.fspath(path)))

    @classmethod
    def _of(cls, tokenizer: _phasor.Tokenizer) -> Tokenizer:
        made = cls.__new__(cls)
        made._tokenizer = tokenizer
        return made

    @with_function_name
    def encode(self, text: str | bytes, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text."""
        return self._tokenizer.encode(_utf8(text, "text"), add_special_tokens)

    @with_function_name
    def encode_pair(self, first: str | bytes, second: str | bytes, add_special_tokens: bool = True) -> EncodedText:
        """The ids of two texts, joined as the file's template says."""
        return EncodedText(
            *self._tokenizer.encode_pair(_utf8(first, "first"), _utf8(second, "second"), add_special_tokens)
        )

    @with_function_name
    def encode_batch(self, texts: Iterable[str | bytes], add_special_tokens: bool = True) -> list[EncodedText]:
        """Each text by itself, on all threads. Padding to the longest, if the file asks for it, is done here."""
        encoded = [_utf8(text, "texts") for text in texts]
        return [EncodedText(*each) for each in self._tokenizer.encode_batch(encoded, add_special_tokens)]

    @with_function_name
    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids. An id without a token gives no text: models often have a few ids more than their tokenizer."""
        return self._tokenizer.decode([whole(id, "ids") for id in ids], skip_special_tokens)

    @property
    def vocab_size(self) -> int:
        """Tokens of the model and added ones."""
        return self._tokenizer.vocab_size

    def token_to_id(self, token: str) -> int | None:
        """The id of a token, or None."""
        return self._tokenizer.token_to_id(token)

    def id_to_token(self, id: int) -> str | None:
        """The token of an id, or None."""
        return self._tokenizer.id_to_token(id)


class StreamDecoder:
    """Text of tokens that come one after another, in whole characters; together it is what `decode` gives.

        decoder = phasor.StreamDecoder(tokenizer)
        for token in tokens:
            print(decoder.put(token), end="", flush=True)
        print(decoder.finish())
    """

    @with_function_name
    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool = True) -> None:
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"tokenizer: {type(tokenizer).__name__}, expected a phasor.Tokenizer")
        self._decoder = _phasor.StreamDecoder(tokenizer._tokenizer, skip_special_tokens)

    @with_function_name
    def put(self, id: int) -> str:
        """The text that this token completes, which may be empty."""
        return self._decoder.put(whole(id, "id"))

    def finish(self) -> str:
        """What is still held back: half a character becomes U+FFFD. Then it begins anew."""
        return self._decoder.finish()
