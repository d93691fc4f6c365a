"""phasor.jax as a package: options of the table, errors, the layout of XLA's structs, and what is said without JAX."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import phasor
import phasor.jax
import pytest
from cases import CASES, B, D, G, H, S, T, inputs, normal, streams, table
from phasor import _phasor
from phasor._options import OPTIONS
from phasor.jax import _call, _forms

HERE = Path(__file__).parent
FUNCTIONS = [phasor.jax.attention, phasor.jax.w2_attention]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_signatures(function):
    parameters = list(inspect.signature(function).parameters.values())[-len(OPTIONS) :]
    assert [(p.name, p.default) for p in parameters] == [(row.name, row.default) for row in OPTIONS]


def test_every_option_arrives():
    """An option that the kernels did not read would change nothing: each changes the result or is refused."""
    assert {row.type for row in OPTIONS} == _forms.FORMS.keys()
    arrays = {name: normal(1, H, 6, D) for name in "qkv"}
    values = {
        "scale": 2.0, "query_scale": normal(6), "query_offsets": 1, "causal": True, "window": 2, "key_lengths": [3],
        "query_starts": [0, 2, 6], "mask": normal(6, 6), "block_mask": phasor.make_block_mask(np.tri(6) > 0),
        "key_bias": normal(6), "relative_bias": normal(H, 3), "alibi_slopes": normal(H), "q_rotary": table(6, 2),
        "k_rotary": table(6, 2), "softcap": 0.5, "sinks": normal(H),
    }  # fmt: skip
    dropped = {"dropout": 0.5, "seed": 1}
    rounded = {"precision": "bf16"}
    beside = {"query_offsets": {"causal": True}, "key_starts": {"query_starts": [0, 2, 6]}}
    values["key_starts"] = [0, 3, 6]
    assert values.keys() | dropped.keys() | rounded.keys() == {row.name for row in OPTIONS}
    for name, value in values.items():
        others = beside.get(name, {})
        changed, plain = (phasor.jax.attention(**arrays, **others, **more) for more in ({name: value}, {}))
        assert (changed != plain).any(), name
    longer = {name: normal(1, H, 40, D) for name in "qkv"}
    _phasor.set_simd_target("EMU_BF16")
    try:
        changed, plain = (phasor.jax.attention(**longer, **more) for more in (rounded, {}))
    finally:
        _phasor.set_simd_target("")
    assert (changed != plain).any()
    ones, others = (phasor.jax.attention(**arrays, dropout=0.5, seed=seed) for seed in (1, 2))
    assert (ones != others).any()


def test_gradients_of_the_table():
    """Each option that has a gradient in the table is among the cases that are differentiated."""
    learned = set().union(*(learned for learned, _ in CASES.values()))
    assert learned == {row.name for row in OPTIONS if row.has_gradient}


def wrong(match, function, *arguments, error=ValueError, **options):
    for run in (function, jax.jit(lambda *x: function(*x, **options))):
        with pytest.raises(error, match=match):
            run(*arguments, **({} if run is not function else options))


def test_errors_when_traced():
    q, k, v = inputs().values()
    wrong(r"\[attention\] sinks: 3 numbers, expected 4", phasor.jax.attention, q, k, v, sinks=normal(3))
    wrong(r"\[attention\] mask: ", phasor.jax.attention, q, k, v, mask=normal(5, S))
    wrong(r"\[attention\] k: ", phasor.jax.attention, q, k[:1], v)
    wrong(r"\[attention\] key_lengths: ", phasor.jax.attention, q, k, v, key_lengths=[1, S + 1])
    wrong(r"\[attention\] q: shape \[4, 9, 8\], expected 4 dimensions", phasor.jax.attention, q[0], k, v)
    wrong(r"\[attention\] seed: None beside dropout 0.5", phasor.jax.attention, q, k, v, dropout=0.5)
    wrong(r"\[attention\] k: float16, expected float32 as q has", phasor.jax.attention, q, k.astype("float16"), v, error=TypeError)
    wrong(r"\[attention\] q: int32, expected float32", phasor.jax.attention, q.astype(int), k, v, error=TypeError)
    wrong(r"\[attention\] windows: not an option", phasor.jax.attention, q, k, v, windows=3, error=TypeError)
    wrong(r"\[w2_attention\] tau: shape \[2\]", phasor.jax.w2_attention, *streams().values(), tau=normal(2))
    wrong(r"\[w2_attention\] q_log_sigma: shape", phasor.jax.w2_attention, *list(streams().values())[:3], *[k, k, v])
    with pytest.raises(TypeError, match=r"\[attention\] causal: .*known when the function is traced"):
        jax.jit(lambda causal: phasor.jax.attention(q, k, v, causal=causal))(True)
    with pytest.raises(TypeError, match=r"\[attention\] scale: .*expected a number"):
        jax.jit(lambda scale: phasor.jax.attention(q, k, v, scale=scale))(2.0)


def test_errors_of_values():
    """What only the numbers tell is refused when they are there."""
    q, k, v = inputs().values()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"key_lengths: .*expected"):
        jax.jit(lambda n: phasor.jax.attention(q, k, v, key_lengths=n))(jnp.array([1, S + 1])).block_until_ready()


def test_float64():
    with jax.enable_x64(True):
        q = jnp.ones((1, 1, 2, 4))
        wrong(r"\[attention\] q: float64, expected float32, bfloat16 or float16", phasor.jax.attention, q, q, q, error=TypeError)
        q = q.astype(jnp.float32)
        wrong(r"\[attention\] key_bias: float64, expected float32", phasor.jax.attention, q, q, q, key_bias=jnp.ones(2), error=TypeError)
        lengths = jnp.array([1])
        assert lengths.dtype == jnp.int64
        out = phasor.jax.attention(q, q, q, key_lengths=lengths, block_mask=phasor.make_block_mask(np.ones((2, 2), bool)))
        assert (out == 1).all()


def test_derivatives_that_are_not_there():
    q, k, v = inputs().values()
    run = lambda q: phasor.jax.attention(q, k, v).sum()
    with pytest.raises(NotImplementedError, match=r"\[attention\] second derivatives: not supported"):
        jax.hessian(run)(q)
    with pytest.raises(NotImplementedError, match=r"\[attention\] second derivatives: not supported"):
        jax.grad(lambda q: jax.grad(run)(q).sum())(q)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(run, (q,), (q,))


DOT_PRODUCT = {
    "plain": {}, "causal": {"is_causal": True}, "scale": {"scale": 0.2}, "window": {"local_window_size": (3, 1)},
    "one window": {"local_window_size": 2, "is_causal": True}, "bias": {"bias": normal(1, H, T, S)},
    "mask": {"mask": jnp.tri(T, S, 1, bool)[None, None]},
    "both": {"mask": jnp.tri(T, S, 1, bool)[None, None], "bias": normal(B, 1, 1, S)},
    "lengths": {"key_value_seq_lengths": jnp.array([4, S], jnp.int32), "query_seq_lengths": jnp.array([T, 5], jnp.int32)},
}  # fmt: skip


@pytest.mark.parametrize("case", DOT_PRODUCT)
def test_dot_product_attention(case):
    """Results and gradients of jax.nn.dot_product_attention, which is float32 too: both are off by some units of it."""
    options = DOT_PRODUCT[case]
    arrays = (normal(B, T, H, D), normal(B, S, G, D), normal(B, S, G, D))
    weights = normal(B, T, H, D)

    def run(function):
        return jax.jit(jax.value_and_grad(lambda *x: with_out(function(*x, **options)), (0, 1, 2), has_aux=True))(*arrays)

    with_out = lambda out: ((out * weights).sum(), out)
    ours, theirs = (jax.tree.leaves(run(f)) for f in (phasor.jax.dot_product_attention, jax.nn.dot_product_attention))
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def test_dot_product_attention_of_one_sequence():
    arrays = (normal(T, H, D), normal(S, G, D), normal(S, G, D))
    for x, y in zip(*(f(*arrays, return_residual=True) for f in (phasor.jax.dot_product_attention, jax.nn.dot_product_attention))):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def test_dot_product_attention_refuses():
    q, k = normal(B, T, H, D), normal(B, S, G, D)
    run = phasor.jax.dot_product_attention
    wrong(r"\[dot_product_attention\] implementation: 'cudnn', expected None", run, q, k, k, implementation="cudnn")
    wrong(r"\[dot_product_attention\] mask: float32, expected bool", run, q, k, k, mask=normal(1, 1, T, S), error=TypeError)
    wrong(r"\[dot_product_attention\] key: shape .*expected", run, q, k[:, :, :, :3], k)
    wrong(r"\[dot_product_attention\] value: shape .*expected", run, q, k, k[:, :4])
    wrong(r"\[dot_product_attention\] key: 3 heads, expected", run, q, normal(B, S, 3, D), normal(B, S, 3, D))
    parameters = list(inspect.signature(run).parameters)
    assert parameters == list(inspect.signature(jax.nn.dot_product_attention).parameters)


def test_layout_of_structs():
    """Our declarations of XLA's structs are those of the installed jaxlib."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folders = [f"-I{HERE.parent / 'bindings'}", f"-I{jax.ffi.include_dir()}"]
    subprocess.run([compiler, "-std=c++20", "-fsyntax-only", *folders, HERE / "layout.cc"], check=True)


def test_without_jax():
    code = "import sys; sys.modules['jax'] = None\nimport importlib.util as u\nu.find_spec = lambda name: None\nimport phasor.jax"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    expected = "phasor.jax needs jax, which is not installed: pip install 'phasor-attention[jax]'"
    assert result.stderr.rstrip().endswith(f"ImportError: {expected}")


def test_names_of_results():
    """Handlers read by name what Python gives them."""
    source = (HERE.parent / "bindings/jax/handlers.cc").read_text()
    assert set(re.findall(r'result\["(\w+)"\]', source)) == set(phasor._phasor.jax_handlers())
    assert all(f"{function.name}_forward" in phasor._phasor.jax_handlers() for function in (_call.ATTENTION, _call.W2_ATTENTION))
