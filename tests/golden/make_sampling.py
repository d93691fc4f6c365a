#!/usr/bin/env python3
"""Writes sampling.json: the probabilities of the next token by the logits processors of transformers. One case a line."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

LOGITS = [1.5, -0.25, 3.0, 2.75, -4.0, 0.5, 2.75, 1.0, -1.5, 0.0, 2.0, -0.5]
TEXT = [2, 8, 2, 5, 4, 9]
# In the order in which transformers' generate applies them.
PROCESSORS = {
    "repetition_penalty": RepetitionPenaltyLogitsProcessor,
    "temperature": TemperatureLogitsWarper,
    "top_k": TopKLogitsWarper,
    "top_p": TopPLogitsWarper,
    "min_p": MinPLogitsWarper,
}
CASES: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.5},
    {"temperature": 1.0, "repetition_penalty": 1.5},
    {"temperature": 0.75, "repetition_penalty": 0.5},
    {"temperature": 1.0, "min_p": 0.25},
    {"temperature": 2.0, "min_p": 0.3},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 1.5, "top_k": 6, "top_p": 0.8},
    {"temperature": 1.5, "top_p": 0.95, "min_p": 0.2},
    {"repetition_penalty": 1.3, "temperature": 1.25, "top_k": 8, "top_p": 0.9, "min_p": 0.1},
    {"repetition_penalty": 3.0, "temperature": 0.25, "min_p": 1.0},
]


def probabilities(settings: dict[str, Any]) -> list[float]:
    processors = LogitsProcessorList([make(settings[name]) for name, make in PROCESSORS.items() if name in settings])
    scores = processors(torch.tensor([TEXT]), torch.tensor([LOGITS]))
    return [round(p, 6) for p in torch.softmax(scores, -1)[0].tolist()]


def main() -> None:
    lines = [json.dumps({"settings": each, "probabilities": probabilities(each)}) for each in CASES]
    path = pathlib.Path(__file__).with_name("sampling.json")
    head = json.dumps({"logits": LOGITS, "text": TEXT})[:-1]
    path.write_text(head + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{path.name}: {len(lines)} cases")


if __name__ == "__main__":
    main()
