"""The call to XLA and its derivative.

Operands are a dict by name, so that a call has those that are given; Settings are what is known when a function is
traced. XLA gives the handlers its own memory: nothing is copied.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from phasor import _phasor
from phasor.jax._options import is_learned
from phasor.jax._shards import all_varying, check_local, result_like

Operands = dict[str, jax.Array]
_TYPES = ("float32", "bfloat16", "float16")

for _name, _handler in _phasor.jax_handlers().items():
    jax.ffi.register_ffi_target(f"phasor_{_name}", _handler, platform="cpu")


class Function(NamedTuple):
    """A function of phasor, and the names of what it reads and writes."""

    name: str
    inputs: tuple[str, ...]  # the first three: q, k and v, or their means
    outs: tuple[str, ...]


ATTENTION = Function("attention", ("q", "k", "v"), ("out",))
W2_ATTENTION = Function(
    "w2_attention",
    ("q_mu", "k_mu", "v_mu", "q_log_sigma", "k_log_sigma", "v_log_sigma"),
    ("out_mu", "out_log_sigma"),
)


class Settings(NamedTuple):
    """What of a call is known when it is traced. tokens_first: memory is [B, T, H, D] instead of [B, H, T, D]."""

    function: Function
    attributes: tuple[tuple[str, Any], ...]
    tokens_first: bool = False
    with_lse: bool = False
    with_weights: bool = False


def check_inputs(inputs: Mapping[str, Any]) -> Operands:
    """Arrays of four dimensions and of one type that the kernels have."""
    arrays: Operands = {}
    for name, value in inputs.items():
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            raise TypeError(f"{name}: {type(value).__name__}, expected an array")
        array = arrays[name] = jnp.asarray(value)
        if array.dtype.name not in _TYPES:
            raise TypeError(f"{name}: {array.dtype}, expected float32, bfloat16 or float16")
        first = next(iter(arrays.values()))
        if array.dtype != first.dtype:
            raise TypeError(f"{name}: {array.dtype}, expected {first.dtype} as {next(iter(arrays))} has")
        if array.ndim != 4:
            raise ValueError(f"{name}: shape {list(array.shape)}, expected 4 dimensions")
        check_local(name, array)
    return arrays


def call(settings: Settings, operands: Operands) -> Operands:
    """The results of a function by name: first its outs, then lse and weights where asked for."""
    results = _compiled(settings, all_varying(operands))  # which JAX has sorted by name
    return {name: results[name] for name in (*settings.function.outs, "lse", "weights") if name in results}


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _call(settings: Settings, operands: Operands) -> Operands:
    return _forward(settings, operands, with_softmax=False)


_compiled = jax.jit(_call, static_argnums=0)


def _forward(settings: Settings, operands: Operands, with_softmax: bool) -> Operands:
    function = settings.function
    q, k, v = (operands[name] for name in function.inputs[:3])
    heads, tokens = (2, 1) if settings.tokens_first else (1, 2)
    rows = (q.shape[0], q.shape[heads], q.shape[tokens])
    shapes: dict[str, Any] = {name: (*q.shape[:3], v.shape[3]) for name in function.outs}
    results = {name: (shape, q.dtype) for name, shape in shapes.items()}
    if settings.with_lse:
        results["lse"] = (rows, jnp.float32)
    if with_softmax:
        results["softmax"] = ((*rows, 2), jnp.float32)
    if settings.with_weights:
        results["weights"] = ((*rows, k.shape[tokens]), jnp.float32)
    return _foreign(f"phasor_{function.name}_forward", settings, operands, results)


@jax.tree_util.register_static
class _Wanted(frozenset[str]):
    """The operands by which a derivative is asked for."""


def _remember(settings: Settings, primals: dict[str, Any]) -> tuple[Operands, Any]:
    operands = {name: primal.value for name, primal in primals.items()}
    wanted = _Wanted(
        name
        for name, primal in primals.items()
        if primal.perturbed and (name == "tau" or is_learned(name, primal.value.dtype))
    )
    results = _forward(settings, operands, with_softmax=True)
    softmax = results.pop("softmax")
    outs = {name: results[name] for name in settings.function.outs}
    return results, (operands, outs, softmax, wanted)


def _differentiate(settings: Settings, remembered: Any, cotangents: dict[str, Any]) -> tuple[dict[str, Any]]:
    operands, outs, softmax, wanted = remembered
    function = settings.function
    if "weights" in cotangents and not isinstance(cotangents["weights"], SymbolicZero):
        raise NotImplementedError(f"[{function.name}] weights: a loss that depends on them, expected one of out and lse")
    inputs = {**operands, **outs, "softmax": softmax}
    for name in function.outs:
        given = cotangents[name]
        inputs[f"grad_{name}"] = jnp.zeros(given.shape, given.dtype) if isinstance(given, SymbolicZero) else given
    grad_lse = cotangents.get("lse")
    if grad_lse is not None and not isinstance(grad_lse, SymbolicZero):
        inputs["grad_lse"] = grad_lse
    gradients = _backward(settings, wanted, all_varying(inputs))
    return ({name: gradients.get(f"grad_{name}") for name in operands},)


_call.defvjp(_remember, _differentiate, symbolic_zeros=True)


def _backward(settings: Settings, wanted: Iterable[str], operands: Operands) -> Operands:
    names = [*settings.function.inputs, *sorted(wanted)]
    results = {f"grad_{name}": (operands[name].shape, operands[name].dtype) for name in names}
    return _foreign(f"phasor_{settings.function.name}_backward", settings, operands, results)


def _foreign(target: str, settings: Settings, operands: Operands, results: Mapping[str, Any]) -> Operands:
    """results: shape and type by name."""

    @jax.custom_jvp
    def run(operands: Operands) -> Operands:
        first = next(iter(operands.values()))
        shapes = [result_like(first, shape, dtype) for shape, dtype in results.values()]
        arrays = jax.ffi.ffi_call(target, shapes, vmap_method="expand_dims")(
            *operands.values(),
            operands=" ".join(operands),
            results=" ".join(results),
            tokens_first=settings.tokens_first,
            **dict(settings.attributes),
        )
        return dict(zip(results, arrays))

    @run.defjvp
    def refuse(primals: Any, tangents: Any) -> NoReturn:
        raise NotImplementedError(
            f"[{settings.function.name}] second derivatives: not supported, expected one jax.grad, jax.vjp or jax.jacrev"
        )

    return run(operands)
