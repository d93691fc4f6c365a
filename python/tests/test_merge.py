"""merge_attention: two sets of keys give what all keys give."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import phasor
import pytest
import reference

B, H, G, T, S, D, E = 2, 4, 2, 7, 12, 8, 5
random = np.random.default_rng(3)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def parts(q, k, v, cut, **options):
    for keys in (slice(0, cut), slice(cut, S)):
        yield phasor.attention(q, k[:, :, keys], v[:, :, keys], return_lse=True, **options)


@pytest.mark.parametrize("cut", [0, 1, 5, S])
@pytest.mark.parametrize("dtype, precision", [(np.float32, 2e-6), (np.float16, 2**-9), (ml_dtypes.bfloat16, 2**-6)])
def test_is_attention_to_all_keys(cut, dtype, precision):
    q, k, v = (x.astype(dtype) for x in (normal(B, H, T, D), normal(B, G, S, D), normal(B, G, S, E)))
    (out, lse), (out2, lse2) = parts(q, k, v, cut)
    merged, merged_lse = phasor.merge_attention(out, lse, out2, lse2)
    expected, expected_lse = phasor.attention(q, k, v, return_lse=True)
    assert merged.dtype == dtype and merged_lse.dtype == np.float32
    np.testing.assert_allclose(np.float32(merged), np.float32(expected), atol=precision)
    np.testing.assert_allclose(merged_lse, expected_lse, atol=2e-6)


def test_a_query_that_sees_no_key():
    q, k, v = normal(1, 1, 2, D), normal(1, 1, 3, D), normal(1, 1, 3, E)
    nothing = phasor.attention(q, k, v, mask=np.zeros(3, bool), return_lse=True)
    out, lse = phasor.merge_attention(*nothing, *nothing)
    assert not out.any() and np.all(lse == -np.inf)
    some = phasor.attention(q, k, v, return_lse=True)
    out, lse = phasor.merge_attention(*some, *nothing)
    np.testing.assert_array_equal(out, some[0])
    np.testing.assert_array_equal(lse, some[1])


@pytest.mark.parametrize("with_lse", [True, False])
def test_gradients(with_lse):
    inputs = [normal(B, H, T, E), normal(B, H, T), normal(B, H, T, E), normal(B, H, T)]
    inputs[1][0, 0, 0] = inputs[3][0, 0, 1] = -np.inf
    grad_out, grad_lse = normal(B, H, T, E), normal(B, H, T) if with_lse else None
    merged = phasor.merge_attention(*inputs)
    actual = phasor.merge_attention_backward(*inputs, *merged, grad_out, grad_lse)
    doubles = [np.float64(x) for x in inputs]

    def loss():
        out, lse, out2, lse2 = doubles
        total = np.logaddexp(lse, lse2)
        both = np.exp(lse - total)[..., None] * out + np.exp(lse2 - total)[..., None] * out2
        return np.sum(both * grad_out) + (np.sum(total * grad_lse) if with_lse else 0)

    for name, x in zip(actual._fields, doubles):
        expected = reference.gradient(loss, x)
        expected[~np.isfinite(expected)] = 0  # of a log-sum-exp of -infinity
        np.testing.assert_allclose(getattr(actual, name), expected, atol=2e-6, err_msg=name)


def test_errors():
    out, lse = normal(B, H, T, E), normal(B, H, T)
    for bad, error, words in (
        ((out, lse, out[:, :, :3], lse), ValueError, r"out2: shape \[2, 4, 3, 5\]"),
        ((out, lse, out, lse[:, :1]), ValueError, r"lse2: shape \[2, 1, 7\]"),
        ((out, lse, out.astype(np.float16), lse), TypeError, "out2: float16, expected float32"),
        ((out, None, out, lse), ValueError, "lse: shape"),
        ((out[0], lse, out, lse), ValueError, r"out: shape \[4, 7, 5\], expected 4 dimensions"),
        ((out, lse.astype(np.float64), out, lse), TypeError, "lse: float64, expected float32"),
        (([], lse, out, lse), TypeError, "out: list, expected an array"),
    ):
        with pytest.raises(error, match=r"\[merge_attention\] " + words):
            phasor.merge_attention(*bad)
