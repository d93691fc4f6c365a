"""A real model, SmolLM2-135M-Instruct as scripts/smollm2/convert.py writes it: phasor beside transformers, in float."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
import torch
import transformers

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "build" / "smollm2"
QUESTIONS = [
    "Explain in detail how a rainbow is made.",
    "Write a long story about a fox and a crow.",
    "Écris une lettre à un ami: il fait 25 °C à Paris 🌞.",
]


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def model():
    return transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)


def prompt(tokenizer, question: str, before: list[dict[str, str]] | None = None) -> list[int]:
    messages = [*(before or []), {"role": "user", "content": question}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]


def answer(model, ids: list[int]) -> list[int]:
    return model.generate(torch.tensor([ids]), max_new_tokens=64, do_sample=False)[0, len(ids) :].tolist()


def phasor(*arguments: str) -> str:
    return subprocess.run([sys.executable, "-m", "phasor", *arguments], check=True, capture_output=True, text=True).stdout


def test_the_model_knows_paris(tokenizer, model):
    text = tokenizer.decode(answer(model, prompt(tokenizer, "What is the capital of France?")))
    assert "Paris" in text and text.endswith("<|im_end|>")


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_64_tokens_are_those_of_transformers(tokenizer, model, question):
    ids = prompt(tokenizer, question)
    expected = answer(model, ids)
    assert len(expected) == 64 or expected[-1] == tokenizer.eos_token_id
    tokens = ",".join(map(str, ids))
    written = phasor("generate", str(FOLDER), "--tokens", tokens, "--max-tokens", "64", "--precision", "float")
    assert [int(token) for token in written.split()][: len(expected)] == expected


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("system", [None, "You answer like a pirate."])
def test_the_answer_of_a_chat_is_that_of_transformers(tokenizer, model, question, system):
    messages = [{"role": "system", "content": system}] if system else []
    ids = prompt(tokenizer, question, messages)
    words = ["--system", system] if system else []
    words += ["--prompt", question, "--max-tokens", "64", "--precision", "float"]
    written = phasor("generate", str(FOLDER), "--chat", *words)
    assert written == tokenizer.decode(answer(model, ids), skip_special_tokens=True) + "\n"


def test_text_goes_on_after_a_prompt_and_ends_before_a_stop_text(tokenizer, model):
    begin = "The capital of France is"
    expected = tokenizer.decode(answer(model, tokenizer(begin)["input_ids"]), skip_special_tokens=True)
    words = ["--prompt", begin, "--max-tokens", "64", "--precision", "float"]
    assert phasor("generate", str(FOLDER), *words) == begin + expected + "\n"
    stop = expected[20:24]
    assert phasor("generate", str(FOLDER), *words, "--stop", stop) == begin + expected[: expected.index(stop)] + "\n"
