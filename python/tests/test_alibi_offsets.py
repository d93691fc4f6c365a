"""alibi_slopes with query offsets far apart: memory by tokens, not by the distances between them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import phasor
import pytest

FAR = [0, 2**26]
SLOPES = np.array([2.0**-20, 2.0**-22], np.float32)  # biases of -64 and -16


def arrays(seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape, dtype=np.float32) for shape in ((2, 2, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8))]


def test_memory():
    tracemalloc.start()
    phasor.attention(*arrays(), query_offsets=FAR, alibi_slopes=SLOPES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


MASKS = {"no mask": None, "float": (1, 1, 3, 5), "float, one row": (3, 5), "bool": (2, 1, 1, 5)}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [False, True])
def test_equals_a_call_for_each_sequence(mask, causal):
    q, k, v = arrays()
    options = {"alibi_slopes": SLOPES, "causal": causal}
    masks = [{}, {}]
    if MASKS[mask] is not None:
        array = np.random.default_rng(1).standard_normal(MASKS[mask]).astype(np.float32)
        array = array > -0.5 if mask == "bool" else array
        whole = np.broadcast_to(array, (2, 1, 3, 5))
        masks = [{"mask": np.ascontiguousarray(whole[b : b + 1])} for b in range(2)]
        options["mask"] = array
    out, lse, softmax = phasor.attention(q, k, v, query_offsets=FAR, return_lse=True, return_softmax=True, **options)
    grad = np.random.default_rng(2).standard_normal(out.shape).astype(np.float32)
    # By out alone the gradients of a row's scores sum up to 0, and the slopes' would be their rounding times 2^26.
    of_lse = np.random.default_rng(3).standard_normal(lse.shape).astype(np.float32)
    gradients = phasor.attention_backward(q, k, v, out, softmax, grad, grad_lse=of_lse, query_offsets=FAR, **options)
    slopes, of_mask = 0, 0
    for b in range(2):
        one = slice(b, b + 1)
        alone = {**options, **masks[b], "query_offsets": FAR[b]}
        out1, softmax1 = phasor.attention(q[one], k[one], v[one], return_softmax=True, **alone)
        np.testing.assert_allclose(out[one], out1, atol=2e-5)
        g = phasor.attention_backward(q[one], k[one], v[one], out1, softmax1, grad[one], grad_lse=of_lse[one], **alone)
        for ours, expected in ((gradients.q, g.q), (gradients.k, g.k), (gradients.v, g.v)):
            np.testing.assert_allclose(ours[one], expected, atol=1e-4)
        slopes, of_mask = slopes + g.alibi_slopes, (0 if g.mask is None else of_mask + g.mask)
    np.testing.assert_allclose(gradients.alibi_slopes, slopes, rtol=1e-4)
    if mask.startswith("float"):
        assert gradients.mask.shape == options["mask"].shape
        np.testing.assert_allclose(gradients.mask, of_mask.reshape(gradients.mask.shape), atol=1e-4)


def test_ragged():
    q, k, v = (x.transpose(1, 0, 2, 3).reshape(1, 2, -1, 8) for x in arrays())
    starts = ([0, 2, 6], [0, 3, 10])
    out = phasor.attention(q, k, v, query_offsets=FAR, alibi_slopes=SLOPES, query_starts=starts[0], key_starts=starts[1])
    for s in range(2):
        a, b, c, d = *starts[0][s : s + 2], *starts[1][s : s + 2]
        alone = phasor.attention(
            *(np.ascontiguousarray(x) for x in (q[:, :, a:b], k[:, :, c:d], v[:, :, c:d])),
            query_offsets=FAR[s],
            alibi_slopes=SLOPES,
        )
        np.testing.assert_allclose(out[:, :, a:b], alone, atol=2e-5)


def test_errors_stay():
    with pytest.raises(ValueError, match="query_offsets: 3 numbers, expected .*1 or 2"):
        phasor.attention(*arrays(), query_offsets=[0, 5, 2**26], alibi_slopes=SLOPES)
    with pytest.raises(ValueError, match=r"alibi_slopes: 3 numbers, expected 2, one for each head"):
        phasor.attention(*arrays(), query_offsets=FAR, alibi_slopes=np.ones(3, np.float32))
