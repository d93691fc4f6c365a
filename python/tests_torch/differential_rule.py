"""How far phasor may be off: twice as far as plain float, and 4 ulp of the largest number of the row.

The row is the last dimension. Plain float is the same call in float32, by torch's products, by plain loops that add
forwards and backwards, and with all scores shifted by a number that softmax cancels, whichever is worst: one of them
alone may be right by luck, in a small tensor with large biases above all. Its error is the largest in the matrix (the last two
dimensions: one head of one sequence), so that a head with large biases does not excuse another one; where a matrix has
fewer than 64 numbers, the largest in the tensor.

Gradients are sums that cancel: that of a bias which all keys have in common is 0, made of terms that are not. So for
gradients 2 ulp of the sum of the terms' magnitudes (`sizes`) are allowed where that is more than the 4 ulp. The
magnitude of a score or of a bias is no part of these sizes: a bias that is added in the wrong place stays an error.

Storing a result in 16 bits adds half a unit of its last place. Backward reads the stored result, which adds that half
unit to the row's sum of P dP.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from differential_oracle import Computation, by_loops, by_loops_backwards

ULP = 2.0**-23
SHIFTS = 0.37, -1.31, 2.93, -5.07
NO_WEIGHT = 2.0**-100  # weights below it are 0 (docs/numerics.md)
HALF_UNIT = {torch.float64: 0.0, torch.float32: 0.0, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
LEAST_NORMAL = {torch.float64: 0.0, torch.float32: 0.0, torch.bfloat16: 2.0**-126, torch.float16: 2.0**-14}


class Finding(NamedTuple):
    """The worst number of one tensor: its error in units of what is allowed (1 is the limit)."""

    tensor: str
    excess: float
    text: str


def judge(case: Any, given: dict[str, torch.Tensor]) -> list[Finding]:
    """Every tensor of a call: results, and gradients as `grad name`."""
    exact = Computation(case, torch.float64)
    plain = [Computation(case, torch.float32, product) for product in (torch.matmul, by_loops, by_loops_backwards)]
    plain += [Computation(case, torch.float32, shift=shift) for shift in SHIFTS]
    expected = exact.results | exact.gradients()
    plains = [computation.results | computation.gradients() for computation in plain]
    size = sizes(exact, case)
    return [
        compare(name, tensor, expected[name].detach(), [p[name].detach() for p in plains], size.get(name))
        for name, tensor in given.items()
    ]


def compare(
    name: str, given: torch.Tensor, exact: torch.Tensor, plain: list[torch.Tensor], size: torch.Tensor | None
) -> Finding:
    if given.shape != exact.shape:
        return Finding(name, float("inf"), f"shape {list(given.shape)}, expected {list(exact.shape)}")
    if exact.numel() == 0:
        return Finding(name, 0.0, "empty")
    # The log-sum-exps of a head are a row, and a matrix; one number is a row.
    shape = (*exact.shape[:-1], 1, exact.shape[-1]) if name == "lse" else (exact.shape or (1,))
    exact, values = exact.reshape(shape), given.double().reshape(shape)
    finite = exact.isfinite()
    off = torch.stack([_error(p.double().reshape(shape), exact) for p in plain]).amax(0).masked_fill(~finite, 0.0)
    largest = exact.abs().masked_fill(~finite, 0.0).amax(-1, keepdim=True)
    ulps = 4 * largest
    if size is not None:
        ulps = torch.maximum(ulps, 2 * size.reshape(shape).amax(-1, keepdim=True))
    allowed = 2 * _of_matrix(off) + ULP * ulps + NO_WEIGHT * largest.amax().clamp(min=1.0)
    allowed = allowed + _half_unit(given.dtype, exact.abs().masked_fill(~finite, 0.0) + allowed)
    error = _error(values, exact)
    if size is not None:  # what nobody sees has a gradient of 0, not nearly 0
        allowed = allowed.masked_fill((size.reshape(shape) == 0) & (exact == 0), 0.0)
    excess = (error / allowed).masked_fill(error == 0, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)
    at = int(excess.argmax())
    one = [x.expand(shape).reshape(-1)[at].item() for x in (values, exact, off, allowed)]
    text = f"element {at} of {list(given.shape)} is {one[0]:.9g}, expected {one[1]:.9g}; plain float is off by"
    return Finding(name, excess.reshape(-1)[at].item(), f"{text} {one[2]:.3g}, allowed {one[3]:.3g}")


def _error(given: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Absolute; 0 where both are the same infinity, NaN where only one is a number."""
    return torch.where(given == exact, torch.zeros_like(exact), (given - exact).abs())


def _of_matrix(error: torch.Tensor) -> torch.Tensor:
    if error.dim() < 3 or error.shape[-1] * error.shape[-2] < 64:
        return error.amax()
    return error.amax((-1, -2), keepdim=True)


def _half_unit(dtype: torch.dtype, value: torch.Tensor) -> torch.Tensor:
    power = torch.exp2(value.clamp(min=2.0**-1000).log2().floor())
    return HALF_UNIT[dtype] * power.clamp(min=LEAST_NORMAL[dtype])


def sizes(exact: Computation, case: Any) -> dict[str, torch.Tensor]:
    """By gradient: the sum of the magnitudes of the terms that it is made of."""
    x, weights = {name: value.detach() for name, value in exact.learned.items()}, exact.weights.detach()
    keep, row = case.keep.double(), torch.zeros(())
    of_weight = torch.zeros_like(weights)
    result = {}
    for out, value in (("out", "v"), ("out_log_sigma", "v_log_sigma")):
        if value in x:
            factor = case.loss[out].double().abs()
            of_weight = of_weight + factor @ exact._spread(x[value].abs()).mT * keep
            result[f"grad {value}"] = _of_groups((weights * keep).mT @ factor, exact.group)
            stored = (factor * exact.results[out].detach().abs().clamp(min=LEAST_NORMAL[case.dtype])).sum(-1, keepdim=True)
            row = row + HALF_UNIT[case.dtype] / (2 * ULP) * stored
    row = row + (weights * of_weight).sum(-1, keepdim=True)
    if "lse" in case.loss:
        row = row + case.loss["lse"].double().abs()[..., None]
    of_score = weights * (of_weight + row)
    for name in ("mask", "key_bias", "relative_bias", "alibi_slopes"):
        if name in x:
            (found,) = torch.autograd.grad(exact.biases, exact.learned[name], of_score, retain_graph=True)
            result[f"grad {name}"] = found.abs()
    if "sinks" in x:
        result["grad sinks"] = (exact.sink_weight * row).sum((0, 2, 3))
    of_score = of_score * exact.slope_of_cap
    if "query_scale" in x:
        of_scale = of_score * _magnitude(exact)
        (found,) = torch.autograd.grad(
            exact.query_scale.expand_as(of_scale), exact.learned["query_scale"], of_scale, retain_graph=True
        )
        result["grad query_scale"] = found.abs()
    return result | _of_streams(exact, x, of_score * exact.query_scale.detach().abs())


def _magnitude(exact: Computation) -> torch.Tensor:
    """Of the scores that query_scale multiplies: of the products that they are sums of."""
    q, k = exact.q.detach().abs(), exact.k.detach().abs()
    if not exact.case.is_w2:
        return exact.scale * (q @ k.mT)
    squares = q.square().sum(-1)[..., None] + k.square().sum(-1)[:, :, None] + 2 * q @ k.mT
    return squares * abs(exact.scale) / exact.temperature.detach()


def _of_streams(exact: Computation, x: dict[str, torch.Tensor], of_score: torch.Tensor) -> dict[str, torch.Tensor]:
    q, k = exact.q.detach().abs(), exact.k.detach().abs()
    if not exact.case.is_w2:
        of_q, of_k = (exact.scale * y for y in (of_score @ k, _of_groups(of_score.mT @ q, exact.group)))
        found = {"grad q": _rotated_back(exact, of_q, "q_rotary"), "grad k": _rotated_back(exact, of_k, "k_rotary")}
        return found | _of_tables(exact, x, {"q": of_q, "k": of_k})
    factor, channels = 2 * exact.scale / exact.temperature.detach(), x["q"].shape[3]
    of_q = factor * (of_score @ k + q * of_score.sum(-1, keepdim=True))
    of_k = _of_groups(factor * (of_score.mT @ q + k * of_score.sum(-2)[..., None]), exact.group)
    result = {"grad tau": (of_score * exact.unscaled_scores.detach().abs()).sum() / exact.temperature.detach()}
    result |= _of_tables(exact, x, {"q": of_q[..., :channels], "k": of_k[..., :channels]})
    for name, size in (("q", of_q), ("k", of_k)):
        result[f"grad {name}"] = _rotated_back(exact, size[..., :channels], f"{name}_rotary")
        result[f"grad {name}_log_sigma"] = size[..., channels:] * (x[f"{name}_log_sigma"] / 2).exp() / 2
    return result


def _of_tables(exact: Computation, x: dict[str, torch.Tensor], sizes: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Of learned cos and sin, from those of the rotated q and k: of cos a and b of a pair times theirs, of sin crosswise."""
    result = {}
    for name, size in sizes.items():
        cos = x.get(f"{name}_rotary_cos")
        if cos is None:
            continue
        half, pairing = cos.shape[-1], exact.case.options[f"{name}_rotary"].pairing
        parts = []
        for y in (x[name].abs(), size):
            y = y[..., : 2 * half]
            parts.append(y.chunk(2, -1) if pairing == "half" else (y[..., 0::2], y[..., 1::2]))
        (a, b), (of_a, of_b) = parts
        for part, found in (("cos", a * of_a + b * of_b), ("sin", a * of_b + b * of_a)):
            shape = cos.shape if cos.dim() != 3 else (cos.shape[0], 1, *cos.shape[1:])
            result[f"grad {name}_rotary_{part}"] = found.sum_to_size(shape).reshape(cos.shape)
    return result


def _of_groups(x: torch.Tensor, group: int) -> torch.Tensor:
    """From query heads to key heads: summed."""
    return x.unflatten(1, (-1, group)).sum(2)


def _rotated_back(exact: Computation, size: torch.Tensor, name: str) -> torch.Tensor:
    """Magnitudes through a rotation: both channels of a pair get the sum."""
    table = exact.case.options.get(name)
    if table is None:
        return size
    cos = exact.learned.get(f"{name}_cos", table.cos)
    width = 2 * cos.shape[-1]
    pairs, rest = size[..., :width], size[..., width:]
    if table.pairing == "half":
        pairs = pairs.unflatten(-1, (2, -1)).sum(-2).repeat(*(1,) * (pairs.dim() - 1), 2)
    else:
        pairs = pairs.unflatten(-1, (-1, 2)).sum(-1).repeat_interleave(2, -1)
    return torch.cat((pairs, rest), -1)
