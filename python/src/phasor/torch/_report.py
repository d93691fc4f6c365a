"""How many calls of torch's attention ran where, while phasor.torch.enable() was in effect."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch

from phasor.torch._locks import fork_safe_lock

_lock = fork_safe_lock()
_by_phasor: Counter[str] = Counter()
_compiled: Counter[str] = Counter()
_by_torch: Counter[str] = Counter()


@dataclass(frozen=True)
class Report:
    """Calls since the process began. Its text is for people: print(phasor.torch.report())."""

    phasor: dict[str, int]  # function of torch -> calls that phasor computed
    compiled: dict[str, int]  # function -> calls put into graphs of torch.compile, once each however often a graph runs
    torch: dict[str, int]  # reason -> calls that torch's own implementation computed

    def __str__(self) -> str:
        lines = [f"attention: {sum(self.phasor.values())} calls by phasor, {sum(self.torch.values())} by torch"]
        for title, counts in (("phasor", self.phasor), ("compiled", self.compiled), ("torch", self.torch)):
            for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
                lines.append(f"{count:10}  {title}: {name}")
        return "\n".join(lines)


def report() -> Report:
    """How many calls of torch's attention phasor computed, and how many torch itself and why, since the process began."""
    with _lock:
        return Report(dict(_by_phasor), dict(_compiled), dict(_by_torch))


def count_phasor(function: str, traced: bool = False) -> None:
    _add(_compiled if traced else _by_phasor, function)


def count_torch(reason: str) -> None:
    _add(_by_torch, reason)


def _add(counts: Counter[str], name: str) -> None:
    if not torch.compiler.is_dynamo_compiling():  # Dynamo, which follows Python calls, cannot count
        with _lock:
            counts[name] += 1
