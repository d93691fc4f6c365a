"""Models of Hugging Face folders: text, logits, embeddings."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, overload

import numpy as np
import numpy.typing as npt

from phasor import _phasor
from phasor._errors import with_function_name
from phasor._numbers import real, whole
from phasor._tokenizer import StreamDecoder, Tokenizer, _utf8

if TYPE_CHECKING:
    from typing_extensions import Unpack

Ids = Sequence[int] | npt.NDArray[np.integer[Any]]
_TOKENS = 256  # that are written where max_tokens is not given


class GenerateOptions(TypedDict, total=False):
    """Keywords of `Model.generate` and `Model.stream`."""

    max_tokens: int | None
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int
    stop: str | Sequence[str]
    cache: str | None


def _token_array(ids: Any, vocab_size: int, most_dimensions: int) -> npt.NDArray[np.int32]:
    """Ids of one sequence, or of several of one length, all of them tokens of the model."""
    array = np.asarray(ids)
    if array.size == 0:
        raise ValueError(f"ids: shape {list(array.shape)}, expected at least one id")
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids: {type(ids).__name__} of {array.dtype}, expected whole numbers")
    if not 1 <= array.ndim <= most_dimensions:
        raise ValueError(f"ids: shape {list(array.shape)}, expected 1{' or 2' * (most_dimensions == 2)} dimensions")
    if array.min() < 0 or array.max() >= vocab_size:
        wrong = array.min() if array.min() < 0 else array.max()
        raise ValueError(f"ids: {wrong}, expected 0 to {vocab_size - 1}")
    return np.ascontiguousarray(array, np.int32)


def _count(value: Any, name: str, least: int, most: int) -> int:
    number = whole(value, name)
    if not least <= number <= most:
        raise ValueError(f"{name}: {number}, expected {least} to {most}")
    return number


def _stop_texts(stop: str | Sequence[str]) -> list[str]:
    texts = [stop] if isinstance(stop, str) else list(stop)
    if not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"stop: {stop!r}, expected a text, or several, that are not empty")
    return texts


class _Started:
    """A text that is being written: the numbers of its tokens, or what they say."""

    def __init__(
        self, generation: _phasor.Generation, decoder: StreamDecoder | None, silent: list[int], stop: list[str]
    ) -> None:
        self._generation, self._decoder, self._silent, self._stop = generation, decoder, silent, stop

    def ids(self) -> Iterator[int]:
        while (token := self._generation.next()) is not None:
            yield token

    def pieces(self) -> Iterator[str]:
        assert self._decoder is not None  # a text was encoded
        stops = _phasor.StopTexts(self._stop)
        for token in self.ids():
            if token not in self._silent and (piece := stops.put(self._decoder.put(token))):
                yield piece
            if stops.found:
                return
        if piece := stops.put(self._decoder.finish()) + stops.finish():
            yield piece


class Model:
    """A model of a Hugging Face folder, from `phasor.load`.

        model = phasor.load("SmolLM2-135M-Instruct")
        print(model.generate("The capital of France is", max_tokens=20))
        for piece in model.stream("Once upon a time", temperature=0.8, seed=1):
            print(piece, end="", flush=True)

    `tokenizer` is a `phasor.Tokenizer`, or None where the folder has no tokenizer.json; `config` is what config.json holds.
    Several threads may use a model at once: the GIL is released while it computes. Ctrl-C ends a text after the token that
    is being computed.
    """

    tokenizer: Tokenizer | None
    config: dict[str, Any]
    _model: _phasor.Model

    def __init__(self) -> None:
        raise TypeError("[Model] Model(): no folder, expected phasor.load(folder)")

    @overload
    def generate(self, prompt: str, **options: Unpack[GenerateOptions]) -> str: ...
    @overload
    def generate(self, prompt: Ids, **options: Unpack[GenerateOptions]) -> list[int]: ...
    @with_function_name
    def generate(self, prompt: str | Ids, **options: Any) -> str | list[int]:
        """The text that the model writes after a prompt: a str after a text, a list of ids after ids.

        Models of two transformers (T5, Marian) take the prompt as their source, and write its translation. A text ends at
        the stop tokens of the folder (eos_token_id), which is the last of the ids, and no part of a str.

        max_tokens: the most that are written; 256 when not given, or as many as the model's positions allow.
        temperature: 0, as when not given, takes the likeliest token; above 0 tokens are drawn at random.
        top_k, top_p, min_p, repetition_penalty: as in transformers; of the tokens that are drawn from.
        seed: equal seeds draw equally.
        stop: a text, or several, before the first of which a str ends.
        cache: how keys and values are kept: "float32", "bfloat16", "float16" or "int8"; as the weights when not given.
        """
        started = self._start(prompt, **options)
        return "".join(started.pieces()) if isinstance(prompt, str) else list(started.ids())

    @overload
    def stream(self, prompt: str, **options: Unpack[GenerateOptions]) -> Iterator[str]: ...
    @overload
    def stream(self, prompt: Ids, **options: Unpack[GenerateOptions]) -> Iterator[int]: ...
    @with_function_name
    def stream(self, prompt: str | Ids, **options: Any) -> Iterator[str] | Iterator[int]:
        """What `generate` gives, as it is written: pieces of text in whole characters after a text, ids after ids.

        The options are those of `generate`. Tokens are computed as they are asked for.
        """
        started = self._start(prompt, **options)
        return started.pieces() if isinstance(prompt, str) else started.ids()

    @with_function_name
    def logits(self, ids: Ids | Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """The logits [T, V] of ids [T], or [B, T, V] of sequences [B, T] of one length."""
        if self._model.translates:
            raise ValueError(
                f"ids: for a model of type {self.config.get('model_type')}, whose logits need a source and a target; "
                "expected a model of one transformer"
            )
        tokens = _token_array(ids, self._model.vocab_size, 2)
        batch = tokens.reshape(-1, tokens.shape[-1])
        out = np.empty((*batch.shape, self._model.vocab_size), np.float32)
        self._model.logits(batch, out)
        return out.reshape(*tokens.shape, -1)

    @with_function_name
    def embed(
        self,
        texts: Sequence[str | bytes],
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        batch: int = 32,
    ) -> npt.NDArray[np.float32]:
        """A row for each text, [N, C]: the states of its tokens, pooled as sentence-transformers does.

        pooling: "mean" of all tokens or "cls", the first one; normalize: rows of length 1. When not given, both are as the
        files of sentence-transformers in the folder say, or else mean and True. Longer texts than these files allow are cut.
        batch: texts that are computed together.
        """
        if isinstance(texts, (str, bytes)):
            raise TypeError(f"texts: {type(texts).__name__}, expected a list of texts")
        if self._model.translates:
            raise ValueError(f"texts: for a model of type {self.config.get('model_type')}, expected an encoder")
        encoded = [_utf8(text, "texts") for text in texts]
        return self._model.embed(encoded, pooling, normalize, _count(batch, "batch", 1, 2**16))

    def _start(
        self,
        prompt: str | Ids,
        *,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        cache: str | None = None,
    ) -> _Started:
        ids, stops = self._prompt_ids(prompt), _stop_texts(stop)
        if stops and not isinstance(prompt, str):
            raise ValueError(f"stop: {stop!r} with a prompt of ids, expected a prompt of text")
        longest, length = self._model.longest, 1 if self._model.translates else len(ids)  # a source is not in the text
        room = _TOKENS if longest is None else min(_TOKENS, max(0, longest - length + 1))
        generation = self._model.generate(
            ids,
            room if max_tokens is None else _count(max_tokens, "max_tokens", 0, 1_000_000),
            real(temperature, "temperature"),
            _count(top_k, "top_k", 0, 2**62),
            real(top_p, "top_p"),
            real(min_p, "min_p"),
            real(repetition_penalty, "repetition_penalty"),
            _count(seed, "seed", 0, 2**64 - 1),
            cache,
        )
        return _Started(generation, self._decoder_after(ids), self._model.stop_tokens, stops)

    def _prompt_ids(self, prompt: str | Ids) -> list[int]:
        if not isinstance(prompt, str):
            ids: list[int] = _token_array(prompt, self._model.vocab_size, 1).tolist()
            return ids
        if self.tokenizer is None:
            raise ValueError("prompt: a text, but the folder has no tokenizer.json, expected ids")
        return self.tokenizer.encode(prompt)

    def _decoder_after(self, ids: list[int]) -> StreamDecoder | None:
        """A space may depend on the tokens before it, but for those of a source."""
        if self.tokenizer is None:
            return None
        decoder = StreamDecoder(self.tokenizer)
        for id in [] if self._model.translates else ids:
            decoder.put(id)
        return decoder


@with_function_name
def load(folder: str | os.PathLike[str], precision: str = "storage") -> Model:
    """The model of a Hugging Face folder: config.json, safetensors and, for texts, tokenizer.json.

    precision: "storage" keeps weights as the files have them, in the mapped memory of the files; "float" widens them, "bf16"
    rounds them. A type of model, or what a config asks for, that phasor does not have is a ValueError that names it.
    """
    if not isinstance(precision, str):
        raise TypeError(f'precision: {precision!r}, expected "storage", "float" or "bf16"')
    path = pathlib.Path(folder)
    model = Model.__new__(Model)
    model._model = _phasor.Model(os.fspath(path), precision)
    model.config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    model.tokenizer = None
    if (tokenizer := model._model.tokenizer) is not None:
        model.tokenizer = Tokenizer._of(tokenizer)
    return model
