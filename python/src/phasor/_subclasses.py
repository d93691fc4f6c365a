"""Subclasses of torch.Tensor: which of them are no more than their memory."""

from __future__ import annotations

import sys
from typing import Any


def has_own_meaning(kind: Any) -> bool:
    """Whether a subclass gives torch's functions another meaning, so that its memory does not tell its value.

    Parameters do not, nor do subclasses that only carry attributes.
    """
    torch = sys.modules["torch"]
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return False
    function = kind.__torch_function__
    plain = (torch.Tensor.__torch_function__.__func__, torch._C._disabled_torch_function_impl)
    return getattr(function, "__func__", function) not in plain


def has_no_memory(kind: Any) -> bool:
    """Whether torch asks a subclass what each operator does with it, as FakeTensor and DTensor are asked."""
    torch = sys.modules["torch"]
    plain = (torch.Tensor.__torch_dispatch__, torch._C._disabled_torch_dispatch_impl)
    return kind is not torch.Tensor and kind.__torch_dispatch__ not in plain
