"""Kernels of phasor in the place of torch's, for operators of aten, for as long as somebody wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from phasor.torch._locks import fork_safe_lock


class Overrides:
    """Kernels by (operator, dispatch key). They are in place from the first `add` to the last `remove`."""

    def __init__(self, kernels: Mapping[tuple[str, str], Callable[..., Any]]) -> None:
        self._kernels, self._lock, self._holders = kernels, fork_safe_lock(), 0
        self._library: Any = None

    def add(self) -> None:
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                self._library = torch.library.Library("aten", "IMPL")
                for (name, key), kernel in self._kernels.items():
                    self._library.impl(name, kernel, key)

    def remove(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._library._destroy()
                self._library = None
