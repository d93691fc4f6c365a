"""A model beside its eager twin: outputs, gradients, generated tokens."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from tiny_inputs import Inputs

NEW_TOKENS = 8


class NoTrial(Exception):
    """Nothing to compare: why."""


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]


def paddings(given: Inputs) -> Iterator[tuple[str, Inputs]]:
    yield "no padding", given
    if "attention_mask" not in given or "input_ids" not in given:
        return
    for side in ("right", "left"):
        case = dict(given)
        for name in ("attention_mask", "decoder_attention_mask"):
            if name in case:
                case[name] = case[name].clone()
                place = slice(-3, None) if side == "right" else slice(0, 2)
                case[name][1, place] = 0
        yield f"padding on the {side}", case


def seeded(model: Any, given: Inputs) -> Any:
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    given = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in given.items()}
    return model(**given)


def _tensors(output: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(output, torch.Tensor):
        if output.is_floating_point():
            yield path, output
    elif isinstance(output, dict):
        for name, value in output.items():
            if "past" not in str(name) and "attentions" not in str(name):
                yield from _tensors(value, f"{path}.{name}" if path else str(name))
    elif isinstance(output, (list, tuple)):
        for index, value in enumerate(output):
            yield from _tensors(value, f"{path}[{index}]")


def _real(tensor: torch.Tensor, given: Inputs) -> torch.Tensor:
    """Without what stands for padding."""
    for name in ("attention_mask", "decoder_attention_mask"):
        mask = given.get(name)
        if mask is not None and tensor.shape[:2] == mask.shape:
            return tensor[mask.bool()]
    return tensor


def run(model: Any, given: Inputs) -> dict[str, torch.Tensor]:
    """Outputs, and the gradients of a random sum of them."""
    model.zero_grad()
    outputs = {name: _real(tensor, given) for name, tensor in _tensors(seeded(model, given))}
    result = {f"output {name}": tensor.detach() for name, tensor in outputs.items()}
    loss = torch.zeros(())
    generator = torch.Generator().manual_seed(5)
    for tensor in outputs.values():
        if tensor.requires_grad and tensor.isfinite().all():
            loss = loss + (tensor.float() * torch.randn(tensor.shape, generator=generator)).mean()
    if loss.requires_grad:
        loss.backward()
        result |= {f"gradient {n}": p.grad for n, p in model.named_parameters() if p.grad is not None}
    return result


def distance(given: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> tuple[float, str]:
    """The largest difference in units of what rounding may do, and where it is."""
    worst, where = 0.0, ""
    gradients = [tensor.abs().max() for name, tensor in expected.items() if name[0] == "g" and tensor.numel()]
    floor = 1e-2 * float(max(gradients, default=torch.tensor(0.0)))
    for name, tensor in expected.items():
        other = given.get(name)
        if other is None or other.shape != tensor.shape:
            return float("inf"), f"{name}: {None if other is None else list(other.shape)}, {list(tensor.shape)}"
        same = (other == tensor) | (other.isnan() & tensor.isnan())
        if not tensor.numel() or bool(same.all()):
            continue
        size = tensor[tensor.isfinite()].abs().max() if tensor.isfinite().any() else torch.tensor(1.0)
        unit = 1e-4 * max(float(size), floor if name[0] == "g" else 1e-3)
        difference = float((other - tensor).abs()[~same].max()) / unit
        if not difference <= worst:
            worst, where = difference, name
    if given.keys() - expected.keys():
        return float("inf"), str(sorted(given.keys() - expected.keys()))
    return worst, where


class Comparison:
    """What was compared, what is different, what differs as rounding makes it, and where sdpa differs in the same way."""

    def __init__(self, eager: Any, ours: Any, make_sdpa: Any) -> None:
        self.eager, self.ours, self.make_sdpa = eager, ours, make_sdpa
        self.compared: list[str] = []
        self.different: list[str] = []
        self.rounding: list[str] = []
        self.as_sdpa: list[str] = []

    def forward(self, name: str, given: Inputs) -> None:
        try:
            expected = run(self.eager, given)
        except TimeoutError:
            raise
        except Exception as error:
            if name == "no padding":
                raise NoTrial(f"gradients: {short(error)}") from error
            self.compared.append(f"not {name}: {short(error)}")
            return
        found = run(self.ours, given)
        worst, where = distance(found, expected)
        self.compared.append(name)
        if worst <= 1.0:
            return
        peer = self._sdpa()
        others = run(peer, given) if peer is not None else {}
        beside = distance(others, expected)[0] if others else 0.0
        moved = distance(run(_moved(self.eager), given), expected)[0]
        text = f"{name}: {worst:.3g} at {where}; sdpa {beside:.3g}; eager with other last digits {moved:.3g}"
        if others and distance(found, others)[0] <= 1.0:
            self.as_sdpa.append(text)
        else:
            (self.rounding if worst <= 3.0 * max(beside, moved) else self.different).append(text)

    def generation(self, given: Inputs) -> None:
        try:
            expected = _generate(self.eager, given)
        except TimeoutError:
            raise
        except Exception as error:
            self.compared.append(f"not generation: {short(error)}")
            return
        self.compared.append("generation")
        if _generate(self.ours, given) == expected:
            return
        text, peer = "generation: other tokens", self._sdpa()
        if peer is not None and _generate(peer, given) == _generate(self.ours, given):
            self.as_sdpa.append(text)
        else:
            same = _generate(_moved(self.eager), given) == expected
            (self.different if same else self.rounding).append(text)

    def _sdpa(self) -> Any:
        if callable(self.make_sdpa):
            made = self.make_sdpa()
            self.make_sdpa = None if isinstance(made, str) else [made]
        return self.make_sdpa[0] if self.make_sdpa else None


def _generate(model: Any, given: Inputs) -> list[Any]:
    torch.manual_seed(0)
    settings = model.generation_config
    if model.config.is_encoder_decoder and settings.decoder_start_token_id is None:
        settings.decoder_start_token_id = 1
    inputs = {n: v.clone() for n, v in given.items() if not n.startswith("decoder_")}
    result = model.generate(**inputs, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False, use_cache=True)
    return result.tolist() if isinstance(result, torch.Tensor) else [each.tolist() for _, each in _tensors(result)]


def _moved(eager: Any) -> Any:
    """Weights changed by a millionth: what rounding may do to a model with kinks or with choices (ReLU, routers)."""
    model = copy.deepcopy(eager)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.0 + 1e-6 * torch.randn(parameter.shape, generator=generator))
    return model
