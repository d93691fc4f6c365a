"""Which library an array comes from, and how to make another one of the same kind.

NumPy in gives NumPy out, torch gives torch, and other libraries with DLPack (JAX, CuPy on the CPU, array-api-strict) get
their own arrays back through their `from_dlpack`. torch is never imported here: a tensor can only come from a program
that has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from phasor import _phasor
from phasor._subclasses import has_no_memory, has_own_meaning


class NumpyKind:
    """Results for NumPy arrays, ml_dtypes.bfloat16 included."""

    def empty(self, shape: Sequence[int], like: Any) -> Any:
        """An array with the element type of `like`."""
        return np.empty(shape, like.dtype)

    def empty_float32(self, shape: Sequence[int]) -> Any:
        return np.empty(shape, np.float32)

    def from_numpy(self, array: Any) -> Any:
        """A NumPy array as one of this kind, the same memory."""
        return array

    def finish(self, array: Any) -> Any:
        """What `empty` made, filled, as the caller gets it."""
        return array

    def rows(self, array: Any, order: Any) -> Any:
        """A copy of the rows of an array, in the given order."""
        return array[order]

    def contiguous(self, array: Any) -> Any:
        return np.ascontiguousarray(array)


class TorchKind:
    """Results for torch tensors."""

    def __init__(self) -> None:
        self.torch: Any = sys.modules["torch"]
        _phasor.share_openmp_threads()  # torch's, which would spin against ours

    def empty(self, shape: Sequence[int], like: Any) -> Any:
        return like.new_empty(shape)

    def empty_float32(self, shape: Sequence[int]) -> Any:
        return self.torch.empty(shape, dtype=self.torch.float32, device="cpu")

    def from_numpy(self, array: Any) -> Any:
        return self.torch.from_numpy(array)

    def finish(self, array: Any) -> Any:
        return array

    def rows(self, array: Any, order: Any) -> Any:
        return array[order]

    def contiguous(self, array: Any) -> Any:
        return array.contiguous()


class DlpackKind(NumpyKind):
    """Results for other arrays: NumPy fills the memory, their library takes it over."""

    def __init__(self, name: str, from_dlpack: Any) -> None:
        self.name = name
        self.from_dlpack = from_dlpack

    def empty(self, shape: Sequence[int], like: Any) -> Any:
        dtype = str(like.dtype).rpartition(".")[2]
        if dtype not in ("float32", "float16"):
            hint = ": bfloat16 is taken from torch and NumPy (ml_dtypes)" if dtype == "bfloat16" else ""
            raise TypeError(f"{self.name}: {dtype}, expected float32 or float16{hint}")
        return np.empty(shape, dtype)

    def from_numpy(self, array: Any) -> Any:
        return self.from_dlpack(array)

    def finish(self, array: Any) -> Any:
        return self.from_dlpack(array)

    def rows(self, array: Any, order: Any) -> Any:
        return self.from_dlpack(np.from_dlpack(array)[order])

    def contiguous(self, array: Any) -> Any:
        return self.from_dlpack(np.ascontiguousarray(np.from_dlpack(array)))


Kind = NumpyKind | TorchKind
_NUMPY = NumpyKind()


def kind_of(array: Any, name: str) -> Kind:
    """The kind of an array; TypeError, with the argument's name, for what is none."""
    if isinstance(array, np.ndarray):
        return _NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        _check_tensor(array, name)
        return TorchKind()
    if not hasattr(array, "__dlpack__"):
        raise TypeError(
            f"{name}: {type(array).__name__}, expected an array (NumPy, torch, or another with DLPack)"
        )
    if hasattr(array, "__array_namespace__"):
        return DlpackKind(name, array.__array_namespace__().from_dlpack)
    library: Any = sys.modules.get(type(array).__module__.partition(".")[0])
    if not hasattr(library, "from_dlpack"):
        raise TypeError(
            f"{name}: {type(array).__name__}, whose library has no from_dlpack to give a result back through; "
            "expected NumPy, torch, or another with it"
        )
    return DlpackKind(name, library.from_dlpack)


def check_tensors(arrays: Mapping[str, Any]) -> None:
    """TypeError or ValueError, with its name, for a torch tensor that is more than its memory. All else passes."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) and isinstance(array, torch.Tensor):
            _check_tensor(array, name)


def _check_tensor(tensor: Any, name: str) -> None:
    if not tensor.is_cpu:
        raise TypeError(f"{name}: on device {tensor.device}, expected the CPU's memory")
    if has_own_meaning(type(tensor)) or has_no_memory(type(tensor)):
        raise TypeError(
            f"{name}: {type(tensor).__name__}, a tensor with functions of its own, expected a plain torch.Tensor"
        )
    if tensor.requires_grad and sys.modules["torch"].is_grad_enabled():
        raise TypeError(
            f"{name}: requires a gradient, which this function does not record; expected x.detach(), or phasor.torch"
        )
    if tensor.is_neg():
        raise ValueError(f"{name}: a view that negates its memory, expected x.resolve_neg()")


def shape_of(array: Any, name: str, rank: int) -> tuple[int, ...]:
    """The shape of an array of `rank` dimensions."""
    shape = getattr(array, "shape", None)
    if shape is None:
        raise TypeError(
            f"{name}: {type(array).__name__}, expected an array (NumPy, torch, or another with DLPack)"
        )
    if len(shape) != rank:
        raise ValueError(f"{name}: shape {list(shape)}, expected {rank} dimensions")
    return tuple(shape)


def is_boolean(array: Any) -> bool:
    return str(getattr(array, "dtype", "")).rpartition(".")[2] in ("bool", "bool_")
