"""phasor.jax under JAX's transforms: vmap and its nestings with grad, shard_map, scan, checkpoint; and its memory."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import phasor
import phasor.jax
import pytest
from cases import CASES, B, D, E, G, H, S, T, normal, table
from jax.sharding import AxisType, NamedSharding, PartitionSpec

N = 3
attention = phasor.jax.attention


def each(function, axes, *arguments):
    """What vmap is: the function of every element, one after the other."""
    results = []
    for i in range(N):
        one = [jax.tree.map(lambda x: x[i], x) if axis == 0 else x for x, axis in zip(arguments, axes)]
        results.append(function(*one))
    return jax.tree.map(lambda *x: jnp.stack(x), *results)


def same(found, expected, precision=2e-6):
    """Where all elements are one batch, another kernel may sum in another order."""
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        y = np.asarray(y)
        np.testing.assert_allclose(x, y, rtol=precision, atol=precision * max(1.0, np.abs(y).max(initial=0)))


def loss_of(others):
    def loss(q, k, v, learned):
        out, lse = attention(q, k, v, **learned, **others, return_lse=True)
        return (out**2).sum() + jnp.sin(lse).sum()

    return jax.jit(loss)


VMAPPED = {
    "all": (0, 0, 0, 0), "queries": (0, None, None, None), "all but options": (0, 0, 0, None), "options": (None, None, None, 0)
}  # fmt: skip
OPTIONS = {
    "none": {},
    "shared by sequences": {"key_bias": (1, 1, S), "mask": (H, T, S)},
    "one for each": {"key_bias": (B, H, S), "query_scale": (B, 1, T)},
    "by head": {"sinks": (H,), "alibi_slopes": (H,)},
}


MAPPINGS = {
    "none": ("all", "queries"),
    "shared by sequences": ("all", "all but options", "options"),
    "one for each": ("all", "all but options"),
    "by head": ("all but options", "options"),
}


@pytest.mark.parametrize("batch", [1, B])
@pytest.mark.parametrize(("options", "mapped"), [(options, mapped) for options, all in MAPPINGS.items() for mapped in all])
def test_vmap(options, mapped, batch):
    """vmap, vmap of grad and grad of vmap, whether elements are folded into one batch or not."""
    axes = VMAPPED[mapped]
    def make(axis, *shape):
        return normal(*((N,) if axis == 0 else ()), *shape)

    sizes = ((batch, H, T, D), (batch, G, S, D), (batch, G, S, E))
    shapes = {name: tuple(batch if i == B and j == 0 else i for j, i in enumerate(shape)) for name, shape in OPTIONS[options].items()}
    arguments = [make(axis, *shape) for axis, shape in zip(axes, sizes)]
    arguments.append({name: make(axes[3], *shape) for name, shape in shapes.items()})
    loss = loss_of({"causal": True, "query_offsets": 2, "key_lengths": [S - 1] * batch})
    gradient = jax.jit(jax.grad(loss, (0, 1, 2, 3)))
    same(jax.vmap(loss, axes)(*arguments), each(loss, axes, *arguments))
    same(jax.jit(jax.vmap(gradient, axes))(*arguments), each(gradient, axes, *arguments), 1e-5)
    outside = jax.grad(lambda *x: jax.vmap(loss, axes)(*x).sum(), (0, 1, 2, 3))(*arguments)
    summed = [
        x if axis == 0 else jax.tree.map(lambda y: y.sum(0), x)
        for x, axis in zip(each(gradient, axes, *arguments), axes)
    ]
    same(outside, tuple(summed), 1e-5)


def test_vmap_is_one_call():
    """Elements without a batch of their own are one batch: many threads' work, and no loop in what XLA runs."""
    q, k = normal(N, 1, H, T, D), normal(N, 1, H, S, D)
    text = jax.jit(jax.vmap(lambda q, k: attention(q, k, k, causal=True))).lower(q, k).compile().as_text()
    assert text.count("custom_call_target=\"phasor") == 1 and "while" not in text
    folded = jax.vmap(lambda q, k: attention(q, k, k, causal=True))(q, k)
    assert (folded[:, 0] == attention(q[:, 0], k[:, 0], k[:, 0], causal=True)).all()


def test_nested_vmap():
    q, k = normal(2, N, B, H, T, D), normal(N, B, G, S, D)
    run = jax.vmap(jax.vmap(lambda q, k: attention(q, k, k, causal=True)), (0, None))
    expected = jnp.stack([jax.vmap(lambda q, k: attention(q, k, k, causal=True))(x, k) for x in q])
    same(run(q, k), expected)
    sideways = jax.vmap(lambda q, k: attention(q, k, k), (2, 3), 1)(q[0].transpose(1, 2, 0, 3, 4), k.transpose(1, 2, 3, 0, 4))
    same(sideways, jax.vmap(lambda q, k: attention(q, k, k))(q[0], k).swapaxes(0, 1))


def test_vmap_of_rotations_and_integers():
    q, k = normal(N, 1, H, T, D), normal(N, 1, G, S, D)
    q_tables, k_tables = table(N, T, D // 2), table(N, S, D // 2)
    lengths, offsets = jnp.array([[4], [7], [S]]), jnp.arange(N)[:, None]

    def run(q, k, q_table, k_table, lengths, offset):
        return attention(q, k, k, q_rotary=q_table, k_rotary=k_table, key_lengths=lengths, query_offsets=offset, causal=True)

    arguments = (q, k, q_tables, k_tables, lengths, offsets)
    same(jax.vmap(run)(*arguments), each(run, (0,) * 6, *arguments))
    gradient = jax.jit(jax.grad(lambda *x: (run(*x) ** 2).sum(), (0, 1, 2, 3)))
    same(jax.vmap(gradient)(*arguments), each(gradient, (0,) * 6, *arguments), 1e-5)


def test_vmap_of_dropout():
    """An element drops the weights that it drops alone."""
    q, seeds = normal(N, B, H, T, D), jax.random.split(jax.random.key(0), N)
    for run, axes in (
        (lambda q, seed: attention(q, q, q, dropout=0.5, seed=seed), (0, 0)),
        (lambda q, seed: attention(q, q, q, dropout=0.5, seed=9), (0, None)),
    ):
        assert (jax.vmap(run, axes)(q, seeds) == each(run, axes, q, seeds)).all()


def test_vmap_of_w2():
    streams = [normal(N, B, H, T, D) for _ in range(6)]
    taus = jnp.array([0.5, 1.0, 2.0])
    run = jax.jit(jax.grad(lambda *x: (phasor.jax.w2_attention(*x[:6], tau=x[6])[0] ** 2).sum(), (0, 3, 6)))
    same(jax.vmap(run)(*streams, taus), each(run, (0,) * 7, *streams, taus), 1e-5)
    shared = (*(0,) * 6, None)
    same(jax.vmap(run, shared)(*streams, taus[0]), each(run, shared, *streams, taus[0]), 1e-5)


@pytest.mark.parametrize("axis", [0, 1], ids=["batch", "heads"])
def test_shard_map(axis):
    """On two devices, by sequences or by heads, with biases that devices share: results and gradients of one device."""
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    split = PartitionSpec(*[None] * axis, "x")
    of_heads = PartitionSpec("x") if axis == 1 else PartitionSpec()
    arguments = (normal(B, H, T, D), normal(B, G, S, D), normal(B, G, S, E), normal(H), normal(S))
    specs = (split, split, split, of_heads, PartitionSpec())

    def run(q, k, v, sinks, key_bias):
        return attention(q, k, v, sinks=sinks, key_bias=key_bias, causal=True)

    sharded = jax.shard_map(run, mesh=mesh, in_specs=specs, out_specs=split)
    placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(arguments, specs)]
    assert (np.asarray(jax.jit(sharded)(*placed)) == np.asarray(run(*arguments))).all()
    gradients = [jax.grad(lambda *x: (f(*x) ** 2).sum(), range(5)) for f in (sharded, run)]
    same(jax.jit(gradients[0])(*placed), gradients[1](*arguments), 1e-5)
    inside = jax.shard_map(gradients[1], mesh=mesh, in_specs=specs, out_specs=specs)  # sums of shared ones by JAX
    same(inside(*placed), gradients[1](*arguments), 1e-5)


def test_explicit_mesh():
    """Arrays whose type says how they are sharded go through shard_map; outside they are refused."""
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    split, q = PartitionSpec("x"), normal(B, H, T, D)
    run = lambda q: attention(q, q, q, causal=True)
    with jax.set_mesh(mesh):
        placed = jax.device_put(q, NamedSharding(mesh, split))
        sharded = jax.shard_map(run, in_specs=split, out_specs=split)
        found = jax.jit(jax.grad(lambda q: (sharded(q) ** 2).sum()))(placed)
        with pytest.raises(ValueError, match=r"\[attention\] q: sharded by .*expected an array inside jax.shard_map"):
            jax.jit(run)(placed)
    same(found, jax.grad(lambda q: (run(q) ** 2).sum())(q), 1e-5)


def test_scan_and_checkpoint():
    q, layers = normal(B, H, T, D), normal(4, H)

    def stack(q, sinks, wrap):
        step = wrap(lambda x, s: (x + attention(x, x, x, sinks=s, causal=True), None))
        return (jax.lax.scan(step, q, sinks)[0] ** 2).sum()

    plain, again = (jax.jit(jax.grad(lambda q, s: stack(q, s, wrap), (0, 1))) for wrap in (lambda f: f, jax.checkpoint))
    x = q
    for sinks in layers:
        x = x + attention(x, x, x, sinks=sinks, causal=True)
    same(stack(q, layers, lambda f: f), (x**2).sum(), 1e-5)
    same(plain(q, layers), again(q, layers), 1e-5)


def test_nothing_is_copied():
    """What XLA runs is the call alone: no copy, no transposition, of either layout."""
    q = normal(B, H, T, D)
    for function, x in ((attention, q), (phasor.jax.dot_product_attention, q.transpose(0, 2, 1, 3))):
        text = jax.jit(lambda x: function(x, x, x)).lower(x).compile().as_text()
        assert "custom-call" in text
        assert not any(f" {word}(" in text for word in ("copy", "transpose", "fusion", "reshape"))


def test_calls_at_once():
    """XLA's threads and the caller's run kernels at the same time: no deadlock, and results as ever."""
    inputs = [normal(B, H, 130, 16) for _ in range(4)]
    run = jax.jit(jax.grad(lambda x: (attention(x, x, x, causal=True) ** 2).sum()))
    expected = [np.asarray(run(x)) for x in inputs]
    wrong = []

    def work(which):
        for _ in range(20):
            if not (np.asarray(run(inputs[which])) == expected[which]).all():
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads) and not wrong
    both = jax.jit(lambda xs: [run(x) for x in xs])(inputs)  # independent calls in one program
    assert all((np.asarray(x) == y).all() for x, y in zip(both, expected))


def test_arguments_of_jit():
    """Tables and masks are pytrees."""
    q = normal(B, H, T, D)
    learned, others = CASES["rotary"]
    mask = phasor.make_block_mask(np.tril(np.ones((T, T), bool)), 4)
    bias = phasor.RelativeBias(normal(H, 5), -2)
    rotation = phasor.RotaryTable(learned["q_rotary"].cos, learned["q_rotary"].sin, "half")
    run = lambda q, mask, bias, table: attention(q, q, q, block_mask=mask, relative_bias=bias, q_rotary=table, k_rotary=table)
    same(jax.jit(run)(q, mask, bias, rotation), run(q, mask, bias, rotation), 0)
    gradient = jax.grad(lambda bias: run(q, mask, bias, rotation).sum())(bias)
    assert isinstance(gradient, phasor.RelativeBias) and gradient.first_distance == -2
