"""Gradients against central differences of the double reference."""

from __future__ import annotations

import operator

import ml_dtypes
import numpy as np
import phasor
import pytest
import reference

B, H, G, T, S, D, E = 2, 4, 2, 3, 5, 6, 3
random = np.random.default_rng(11)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


TABLE = phasor.Rope(D).table(np.arange(S))
CASES = {
    "plain": {},
    "causal, rotated": {"causal": True, "q_rotary": TABLE, "k_rotary": TABLE, "scale": 0.7},
    "mask, softcap, sinks": {"mask": normal(1, H, T, S), "softcap": 3.0, "sinks": normal(H)},
    "broadcast mask": {"mask": normal(B, 1, 1, S), "window": 3},
    "mask of rank 2, key bias": {"mask": normal(T, S), "key_bias": normal(1, G, S)},
    "relative bias": {"relative_bias": phasor.RelativeBias(normal(H, 4), -2), "key_bias": normal(S)},
    "alibi": {"alibi_slopes": phasor.alibi_slopes(H), "causal": True},
    "boolean mask": {"mask": random.random((T, S)) < 0.6},
    "scale of queries": {"query_scale": normal(B, 1, T), "softcap": 3.0},
    "scale of queries, block mask": {
        "query_scale": normal(H, T),
        "block_mask": phasor.make_block_mask(random.random((1, 1, T, S)) < 0.8, (2, 2)),
    },
    "query scale": {"query_scale": normal(B, H, T), "causal": True},
    "query scale of all": {"query_scale": normal(T), "softcap": 2.0, "key_bias": normal(B, H, S)},
    "key bias of query heads": {"key_bias": normal(1, H, S), "query_scale": normal(H, T), "sinks": normal(H)},
    "block mask": {"block_mask": phasor.make_block_mask(random.random((B, 1, T, S)) < 0.6, (2, 3))},
}


def angles(pairing, *shapes):
    """Tables of no positions: cos and sin of any size."""
    return {
        name: phasor.rotary_table(normal(*shape), normal(*shape), pairing=pairing)
        for name, shape in zip(("q_rotary", "k_rotary"), shapes)
    }


ROTATED_CASES = {
    "table of all": angles("half", (T, D // 2), (S, D // 2)),
    "rows that are not read": angles("half", (T + 2, D // 2), (S + 1, D // 2)),
    "of each sequence": angles("adjacent", (B, T, D // 2), (B, S, D // 2)),
    "of each head": angles("half", (1, H, T, D // 2), (1, G, S, D // 2)),
    "of all, part": angles("adjacent", (B, H, T, 2), (B, G, S, 2)) | {"softcap": 3.0, "query_scale": normal(B, 1, T)},
    "of heads and all": angles("half", (1, H, T, 2), (S, 2)) | {"causal": True},
    "of k alone": {"k_rotary": angles("adjacent", (1, 1), (B, 1, S, 1))["k_rotary"], "sinks": normal(H)},
    "table": {"causal": True, "q_rotary": TABLE, "k_rotary": TABLE},
}
LEARNED = ("query_scale", "mask", "key_bias", "relative_bias", "alibi_slopes", "q_rotary", "k_rotary", "sinks")


ALL = [(name, False) for name in CASES] + [(name, True) for name in ROTATED_CASES]


def to_double(options):
    """Copies in double of all that differences are taken of."""
    result = dict(options)
    for name in LEARNED:
        if name == "relative_bias" and name in options:
            result[name] = phasor.RelativeBias(np.float64(options[name].table), options[name].first_distance)
        elif name.endswith("rotary") and name in options:
            table = options[name]
            result[name] = phasor.RotaryTable(np.float64(table.cos), np.float64(table.sin), table.pairing)
        elif name in options and options[name].dtype == np.float32:
            result[name] = np.float64(options[name])
    return result


def learned(options, rotations=False):
    """Name and array of each option that has a gradient."""
    for name in LEARNED:
        if name in options and name.endswith("rotary"):
            if rotations:
                yield f"{name}.cos", options[name].cos
                yield f"{name}.sin", options[name].sin
        elif name in options:
            array = options[name].table if name == "relative_bias" else options[name]
            if array.dtype != bool:
                yield name, array


def check(actual, loss, arrays):
    for name, x in arrays:
        expected = reference.gradient(loss, x)
        found = operator.attrgetter(name)(actual)
        assert found.shape == x.shape
        # Float forward and backward over sums of a few terms of size 1: about 2^-20.
        np.testing.assert_allclose(found, expected, atol=3e-6, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("name, rotations", ALL)
def test_attention(name, rotations):
    options = (ROTATED_CASES if rotations else CASES)[name]
    q, k, v = normal(B, H, T, D), normal(B, G, S, D), normal(B, G, S, E)
    grad_out, grad_lse = normal(B, H, T, E), normal(B, H, T)
    out, lse, softmax = phasor.attention(q, k, v, **options, return_lse=True, return_softmax=True)
    grad_lse[~np.isfinite(lse)] = 0
    actual = phasor.attention_backward(
        q, k, v, out, softmax, grad_out, grad_lse=grad_lse, rotary_gradients=rotations, **options
    )

    q, k, v, options = np.float64(q), np.float64(k), np.float64(v), to_double(options)

    def loss():
        out, lse, _ = reference.attention(q, k, v, **options)
        return np.sum(out * grad_out) + np.sum(np.where(np.isfinite(lse), lse, 0) * grad_lse)

    check(actual, loss, [("q", q), ("k", k), ("v", v), *learned(options, rotations)])
    present = {name.partition(".")[0] for name, _ in learned(options, rotations)}
    absent = set(actual._fields) - {"q", "k", "v"} - present
    assert all(getattr(actual, name) is None for name in absent)


@pytest.mark.parametrize("tau, eps", [(1.0, 1e-6), (-2.5, 0.5)])
@pytest.mark.parametrize("name, rotations", ALL)
def test_w2_attention(name, rotations, tau, eps):
    options = (ROTATED_CASES if rotations else CASES)[name]
    shapes = [(B, H, T, D), (B, G, S, D), (B, G, S, E)]
    means, logs = ([normal(*shape) * 0.5 for shape in shapes] for _ in range(2))
    grads = normal(B, H, T, E), normal(B, H, T, E)
    *outs, softmax = phasor.w2_attention(*means, *logs, tau=tau, eps=eps, **options, return_softmax=True)
    actual = phasor.w2_attention_backward(
        *means, *logs, *outs, softmax, *grads, tau=tau, eps=eps, rotary_gradients=rotations, **options
    )
    streams = [np.float64(x) for x in (*means, *logs)]
    options, tau_array = to_double(options), np.array([tau])

    def loss():
        outs = reference.w2_attention(*streams, tau=tau_array[0], eps=eps, **options)
        return sum(np.sum(out * grad) for out, grad in zip(outs, grads))

    check(actual, loss, [*zip(actual._fields, streams), *learned(options, rotations)])
    np.testing.assert_allclose(actual.tau, reference.gradient(loss, tau_array)[0], atol=3e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype, precision", [(np.float16, 2**-9), (ml_dtypes.bfloat16, 2**-6)])
def test_half_precision(dtype, precision):
    q, k, v = (normal(*shape).astype(dtype) for shape in ((B, H, T, D), (B, G, S, D), (B, G, S, E)))
    grad_out = normal(B, H, T, E).astype(dtype)
    out, softmax = phasor.attention(q, k, v, return_softmax=True)
    actual = phasor.attention_backward(q, k, v, out, softmax, grad_out)
    wide = [x.astype(np.float32) for x in (q, k, v, grad_out)]
    wide_out, wide_softmax = phasor.attention(*wide[:3], return_softmax=True)
    expected = phasor.attention_backward(*wide[:3], wide_out, wide_softmax, wide[3])
    for name in "qkv":
        gradient = getattr(actual, name)
        assert gradient.dtype == dtype
        np.testing.assert_allclose(np.float32(gradient), getattr(expected, name), atol=precision, rtol=precision)


def test_dropout_meets_the_same_weights():
    q, k, v = normal(B, H, T, D), normal(B, G, S, D), normal(B, G, S, E)
    options = {"dropout": 0.5, "seed": 9}
    out, softmax, weights = phasor.attention(q, k, v, **options, return_softmax=True, return_weights=True)
    grad_out = normal(B, H, T, E)
    actual = phasor.attention_backward(q, k, v, out, softmax, grad_out, **options)
    grouped = np.float64(weights).reshape(B, G, -1, S)
    expected = grouped.swapaxes(2, 3) @ np.float64(grad_out).reshape(B, G, -1, E)
    np.testing.assert_allclose(actual.v, expected, atol=3e-6)


@pytest.mark.parametrize("pairing", ["half", "adjacent"])
@pytest.mark.parametrize("shape", [(T, D // 2), (B, T, 2), (1, H, T, D // 2)])
def test_tables(pairing, shape):
    """Gradients of cos and sin, which are numbers of their own here."""
    q_rotary, k_rotary = (phasor.RotaryTable(normal(*shape), normal(*shape), pairing) for _ in range(2))
    if len(shape) == 4:
        k_rotary = None
    keys = normal(B, G, T, D)
    q, v, grad_out = normal(B, H, T, D), normal(B, G, T, E), normal(B, H, T, E)
    options = {"q_rotary": q_rotary, "k_rotary": k_rotary, "causal": True}
    out, softmax = phasor.attention(q, keys, v, **options, return_softmax=True)
    actual = phasor.attention_backward(q, keys, v, out, softmax, grad_out, **options, rotary_gradients=True)
    assert phasor.attention_backward(q, keys, v, out, softmax, grad_out, **options).q_rotary is None
    for name in ("q_rotary", "k_rotary"):
        if options[name] is None:
            continue
        table = phasor.RotaryTable(np.float64(options[name].cos), np.float64(options[name].sin), pairing)
        exact = options | {name: table}
        def loss():
            return np.sum(reference.attention(q, keys, v, **exact)[0] * grad_out)
        for part in ("cos", "sin"):
            expected = reference.gradient(loss, getattr(table, part))
            np.testing.assert_allclose(getattr(getattr(actual, name), part), expected, atol=1e-5, rtol=1e-5, err_msg=name + part)


def test_slopes_in_a_list():
    q = np.random.default_rng(3).standard_normal((1, 2, 3, 8)).astype(np.float32)
    results = []
    for slopes in ([0.5, 0.25], np.asarray([0.5, 0.25], np.float32)):
        out, softmax = phasor.attention(q, q, q, alibi_slopes=slopes, return_softmax=True)
        results.append(phasor.attention_backward(q, q, q, out, softmax, q, alibi_slopes=slopes))
    np.testing.assert_array_equal(results[0].alibi_slopes, results[1].alibi_slopes)
    assert np.abs(results[0].alibi_slopes).max() > 0
