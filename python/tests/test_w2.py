"""phasor.w2_attention against plain NumPy in double."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import phasor
import pytest
import reference

B, H, G, T, S, D, E = 2, 4, 2, 7, 11, 10, 5
random = np.random.default_rng(13)


def streams(dtype=np.float32):
    shapes = [(B, H, T, D), (B, G, S, D), (B, G, S, E)] * 2
    return [(0.7 * random.standard_normal(shape)).astype(dtype) for shape in shapes]


TABLE = phasor.Rope(D).table(np.arange(S))
CASES = {
    "plain": {},
    "tau and eps": {"tau": -0.4, "eps": 0.2},
    "scale of queries": {"query_scale": random.standard_normal((B, H, T)).astype(np.float32)},
    "block mask": {"block_mask": phasor.make_block_mask(random.random((1, H, T, S)) < 0.7, (4, 4))},
    "causal window": {"causal": True, "window": 3},
    "rotated": {"q_rotary": TABLE, "k_rotary": TABLE},
    "mask": {"mask": random.random((B, 1, T, S)) < 0.8, "key_lengths": [11, 6]},
    "biases": {"key_bias": random.standard_normal((G, S)).astype(np.float32), "alibi_slopes": phasor.alibi_slopes(H)},
    "scale, softcap, sinks": {"scale": 0.2, "softcap": 4.0, "sinks": random.standard_normal(H).astype(np.float32)},
}


@pytest.mark.parametrize("name", CASES)
def test_every_option(name):
    given = streams()
    actual = phasor.w2_attention(*given, **CASES[name], return_lse=True, return_weights=True)
    for result, expected in zip(actual, reference.w2_attention(*given, **CASES[name]), strict=True):
        # Squared distances of size 30 over tau + eps = 0.6: scores of 50, to 2^-24 a few times over.
        np.testing.assert_allclose(result, expected, atol=3e-5, rtol=1e-6)


def test_log_sigma_is_the_log_of_the_variance():
    """Two keys at the query's mean, one with its standard deviation, one far off: the weight goes to the first."""
    zero = np.zeros((1, 1, 1, 1), np.float32)
    deviation = np.array([3.0, 1.0], np.float32)
    k_log = 2 * np.log(deviation).reshape(1, 1, 2, 1)
    q_log = np.full_like(zero, 2 * np.log(3.0))
    means, logs = np.zeros((1, 1, 2, 1), np.float32), k_log
    _, _, weights = phasor.w2_attention(zero, means, means, q_log, k_log, logs, tau=1.0, eps=0.0, return_weights=True)
    np.testing.assert_allclose(weights[0, 0, 0], [1 / (1 + np.exp(-4)), 1 / (1 + np.exp(4))], rtol=1e-5)


@pytest.mark.parametrize("dtype, tolerance", [(np.float16, 0.01), (ml_dtypes.bfloat16, 0.08)])
def test_half_precision(dtype, tolerance):
    given = streams(dtype)
    out_mu, out_log_sigma = phasor.w2_attention(*given)
    assert out_mu.dtype == out_log_sigma.dtype == dtype
    expected = reference.w2_attention(*(x.astype(np.float64) for x in given))
    # sigma, of size 1, is rounded to the type: scores of size 10 are off by some of its last digits.
    np.testing.assert_allclose(out_mu.astype(np.float64), expected[0], atol=tolerance)
    np.testing.assert_allclose(out_log_sigma.astype(np.float64), expected[1], atol=tolerance)


@pytest.mark.parametrize(
    "position, bad, error, words",
    [
        (None, {"tau": float("nan")}, ValueError, "tau: nan"),
        (None, {"tau": 0.0, "eps": 0.0}, ValueError, "eps: 0 beside tau 0"),
        (None, {"dropout": 0.5}, ValueError, "seed: None"),
        (0, lambda x: x[0], ValueError, r"q_mu: shape \[4, 7, 10\]"),
        (1, lambda x: x.astype(np.float64), TypeError, "k_mu: float64"),
        (3, lambda x: x.astype(np.float64), TypeError, "q_log_sigma: float64"),
        (4, lambda x: x[:, :, :-1], ValueError, "k_log_sigma: shape"),
        (4, lambda x: x.tolist(), TypeError, "k_log_sigma: list"),
        (5, lambda x: x.astype(np.float16), TypeError, "v_log_sigma: float16, expected float32"),
    ],
)
def test_bad_input_is_named(position, bad, error, words):
    given, options = streams(), {}
    if position is None:
        options = bad
    else:
        given[position] = bad(given[position])
    with pytest.raises(error, match=words):
        phasor.w2_attention(*given, **options)
