"""Results and gradients of phasor.jax against plain jnp in double."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import phasor
import phasor.jax
import plain
import pytest
from cases import CASES, B, H, S, T, inputs, normal, streams

FUNCTIONS = {
    "attention": (phasor.jax.attention, plain.attention, inputs),
    "w2_attention": (phasor.jax.w2_attention, plain.w2_attention, streams),
}


def close(found, expected, precision=1e-5):
    """To some units of float32 (6e-8) of the largest number, times the some hundred terms of a sum."""
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for x, y in zip(found, expected):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        np.testing.assert_allclose(x, y, rtol=precision, atol=precision * max(1.0, np.abs(y).max(initial=0)))


def weighted(function, others, weights):
    """A loss that depends on all results of a function."""

    def loss(arrays, learned):
        results = function(**arrays, **learned, **others)
        return sum((w * x).sum() for w, x in zip(weights, results)), results

    return loss


W2_CASES = ("causal, softcap", "lengths and offsets", "mask of float32", "rotary", "many")


@pytest.mark.parametrize(
    ("name", "case"), [*(("attention", case) for case in CASES), *(("w2_attention", case) for case in W2_CASES)]
)
def test_results_and_gradients(name, case):
    function, reference, make = FUNCTIONS[name]
    arrays, (learned, others) = make(), CASES[case]
    if name == "w2_attention":
        learned = {**learned, "tau": jnp.float32(1.7)}
    alone = function(**arrays, **learned, **others, return_lse=True)
    weights = [normal(*x.shape) for x in alone]
    ours = weighted(lambda **x: function(**x, return_lse=True), others, weights)
    gradients, results = jax.jit(jax.grad(ours, (0, 1), has_aux=True))(arrays, learned)
    theirs = jax.grad(weighted(reference, others, [np.float64(w) for w in weights]), (0, 1), has_aux=True)
    expected_gradients, expected = plain.in_double(theirs)(arrays, learned)
    close(alone, expected)
    close(results, expected)
    close(gradients, expected_gradients, 2e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types(dtype):
    arrays = {name: x.astype(dtype) for name, x in inputs().items()}
    out = phasor.jax.attention(**arrays, causal=True)
    assert out.dtype == dtype
    precision = float(jnp.finfo(dtype).eps)  # twice the rounding of the result
    close(out, plain.in_double(lambda x: plain.attention(**x, causal=True)[0])(arrays), precision)
    gradients = jax.grad(lambda x: (phasor.jax.attention(**x, causal=True) ** 2).sum().astype(jnp.float32))(arrays)
    expected = plain.in_double(jax.grad(lambda x: (plain.attention(**x, causal=True)[0] ** 2).sum()))(arrays)
    assert all(x.dtype == dtype for x in gradients.values())
    close(gradients, expected, 4 * precision)  # the gradient of out is rounded, too


def test_weights():
    arrays = inputs()
    out, weights = phasor.jax.attention(**arrays, causal=True, return_weights=True)
    assert weights.shape == (B, H, T, S)
    close(out, weights @ jnp.repeat(arrays["v"], 2, axis=1), 1e-6)
    with pytest.raises(NotImplementedError, match=r"\[attention\] weights: a loss that depends on them"):
        jax.grad(lambda q: phasor.jax.attention(q, arrays["k"], arrays["v"], return_weights=True)[1].sum())(arrays["q"])


def test_query_without_keys():
    arrays = inputs()
    mask = jnp.zeros((T, S), bool).at[1:].set(True)
    out, lse = phasor.jax.attention(**arrays, mask=mask, return_lse=True)
    assert not out[:, :, 0].any() and (lse[:, :, 0] == -jnp.inf).all()
    gradients = jax.grad(lambda x: phasor.jax.attention(**x, mask=mask).sum())(arrays)
    assert all(jnp.isfinite(x).all() for x in gradients.values())


def test_ragged_batch():
    q, k, v = normal(1, H, 12, 8), normal(1, H, 12, 8), normal(1, H, 12, 8)
    starts = jnp.array([0, 5, 5, 12])
    out = jax.jit(lambda starts: phasor.jax.attention(q, k, v, causal=True, query_starts=starts))(starts)
    for first, last in ((0, 5), (5, 12)):
        part = (x[:, :, first:last] for x in (q, k, v))
        close(out[:, :, first:last], phasor.jax.attention(*part, causal=True), 1e-6)


def test_dropout():
    """The same weights as phasor.attention drops, by number and by key; the derivative drops them, too."""
    arrays = inputs()
    plain_arrays = {name: np.asarray(x) for name, x in arrays.items()}
    out = phasor.jax.attention(**arrays, dropout=0.4, seed=2**40 + 5)
    assert (np.asarray(out) == phasor.attention(**plain_arrays, dropout=0.4, seed=2**40 + 5)).all()
    key = jax.random.key(3)
    high, low = (int(x) for x in jax.random.key_data(key))
    run = jax.jit(lambda v, key: phasor.jax.attention(arrays["q"], arrays["k"], v, dropout=0.4, seed=key))
    found = run(arrays["v"], key)
    assert (np.asarray(found) == phasor.attention(**plain_arrays, dropout=0.4, seed=high * 2**32 + low)).all()
    gradient = jax.grad(lambda v: (run(v, key) ** 2).sum() / 2)(arrays["v"])  # out is linear in v
    close((gradient * arrays["v"]).sum(), (found**2).sum())


@pytest.mark.parametrize("shape", [(0, 4, 9, 8), (2, 4, 0, 8)])
def test_nothing_to_compute(shape):
    k = normal(shape[0], 2, 5, 8)
    gradients = jax.grad(lambda q, k: phasor.jax.attention(q, k, k).sum(), (0, 1))(jnp.zeros(shape), k)
    assert gradients[0].shape == shape and not gradients[1].any()


def test_only_what_is_wanted():
    """No gradient of a mask, which is as large as all scores, unless it is asked for."""
    arrays, mask = inputs(), normal(B, H, T, S)
    text = str(jax.make_jaxpr(jax.grad(lambda q: phasor.jax.attention(q, arrays["k"], arrays["v"], mask=mask).sum()))(arrays["q"]))
    assert "grad_q grad_k grad_v" in text and "grad_mask" not in text
    text = str(jax.make_jaxpr(jax.grad(lambda mask: phasor.jax.attention(**arrays, mask=mask).sum()))(mask))
    assert "grad_mask" in text
