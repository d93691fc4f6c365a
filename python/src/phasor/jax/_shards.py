"""Arrays inside jax.shard_map: they vary along axes of the mesh or are shared, and JAX keeps count of which do.

The name of this count depends on the version: `manual_axis_type`, and `vma` before 0.10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax


def _axes(array: jax.Array) -> Any:
    """The axes of the mesh along which an array varies."""
    kind = jax.typeof(array)
    return kind.manual_axis_type.varying if hasattr(kind, "manual_axis_type") else getattr(kind, "vma", frozenset())


def check_local(name: str, array: jax.Array) -> None:
    """ValueError for an array whose type says how it is sharded (a mesh with explicit axes): XLA cannot split our calls."""
    spec = getattr(getattr(jax.typeof(array), "sharding", None), "spec", ())
    if any(axes is not None for axes in spec):
        raise ValueError(f"{name}: sharded by {spec} of an explicit mesh, expected an array inside jax.shard_map")


def result_like(array: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    """A result that varies as an operand does."""
    if not _axes(array):
        return jax.ShapeDtypeStruct(shape, dtype)
    kind: Any = jax.typeof(array)
    if hasattr(kind, "manual_axis_type"):
        local = jax.sharding.NamedSharding(kind.sharding.mesh, jax.sharding.PartitionSpec())
        return jax.ShapeDtypeStruct(shape, dtype, sharding=local, manual_axis_type=kind.manual_axis_type)
    return jax.ShapeDtypeStruct(shape, dtype, vma=kind.vma)


def all_varying(operands: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Operands of one call vary along the same axes. So the gradient of one that is shared is summed by JAX."""
    axes: Any = frozenset().union(*map(_axes, operands.values()))
    return {name: _varying(array, axes) for name, array in operands.items()} if axes else dict(operands)


def _varying(array: jax.Array, axes: Any) -> jax.Array:
    missing = tuple(sorted(axes - _axes(array)))
    if not missing:
        return array
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, missing, to="varying")
    return jax.lax.pvary(array, missing)
