#!/usr/bin/env python3
"""Run phasor.jax.dot_product_attention and jax.nn's on the same arrays, alternating, and print how times compare.

`make bench-jax` runs it and writes the table into docs/jax.md. Both sides are jitted; a call is measured until its
result is there. Sides take turns, every other round the other way, so that what else the machine does meets both.
"""
import argparse, datetime, os, pathlib, platform, statistics, sys, time

import jax
import jax.numpy as jnp
import numpy as np

sys.dont_write_bytecode = True  # leave no __pycache__ in the sources
import phasor
import phasor.jax

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/jax.md"
BEGIN, END = "<!-- jax: begin -->", "<!-- jax: end -->"
HEADS, CHANNELS = 8, 64
SIDES = {"phasor": phasor.jax.dot_product_attention, "jax.nn": jax.nn.dot_product_attention}
CASES = [  # tokens, type, options
    (2048, "float32", {"is_causal": True}),
    (2048, "float32", {}),
    (2048, "bfloat16", {"is_causal": True}),
    (2048, "float32", {"is_causal": True, "local_window_size": (255, 0)}),
    (512, "float32", {"is_causal": True}),
]


def make_call(function, options, gradient):
    if not gradient:
        return jax.jit(lambda *x: function(*x[:3], **options))
    loss = lambda q, k, v, weights: (function(q, k, v, **options) * weights).sum().astype(jnp.float32)
    return jax.jit(jax.grad(loss, (0, 1, 2)))


def seconds(call, arrays, calls):
    result = []
    for _ in range(calls):
        start = time.perf_counter()
        jax.block_until_ready(call(*arrays))
        result.append(time.perf_counter() - start)
    return result


def largest_difference(ours, theirs):
    """Of the largest number."""
    pairs = [(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs))]
    return max(np.abs(x - y).max() / np.abs(y).max() for x, y in pairs)


def measure(case, gradient, rounds):
    tokens, dtype, options = case
    random = np.random.default_rng(0)
    arrays = [jnp.asarray(random.standard_normal((1, tokens, HEADS, CHANNELS)), dtype) for _ in range(4)]
    calls = {name: make_call(function, options, gradient) for name, function in SIDES.items()}
    difference = largest_difference(*(call(*arrays) for call in calls.values()))
    if not difference <= (2e-2 if dtype == "bfloat16" else 1e-4):
        sys.exit(f"jax_attention.py: {case}: results differ by {difference:.1e}")
    times = {name: [] for name in calls}
    for i in range(rounds):
        for name in list(calls)[:: 1 if i % 2 == 0 else -1]:
            time.sleep(0.05)
            seconds(calls[name], arrays, 1)
            times[name] += seconds(calls[name], arrays, 3)
    return times, difference


def row(case, gradient, rounds):
    times, difference = measure(case, gradient, rounds)
    tokens, dtype, options = case
    kind = "causal" if options.get("is_causal") else "all keys"
    if "local_window_size" in options:
        kind += ", window 256"
    best, median = ([f(times[name]) for name in SIDES] for f in (min, statistics.median))
    cells = [f"{'gradient' if gradient else 'forward'}, S{tokens}, {dtype}, {kind}"]
    cells += [f"{1e3 * b:.1f} ({1e3 * m:.1f})" for b, m in zip(best, median)]
    return [*cells, f"{best[1] / best[0]:.1f} ({median[1] / median[0]:.1f})", f"{difference:.0e}"]


def table(rows):
    lines = [["case", "phasor, ms", "jax.nn, ms", "its / phasor's", "results differ by"], *rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="write the table into docs/jax.md")
    options = parser.parse_args()
    rows = [row(case, gradient, options.rounds) for case in CASES for gradient in (False, True)]
    text = (f"{cpu_name()}, {len(os.sched_getaffinity(0))} threads, {datetime.date.today()}. JAX {jax.__version__}; B 1, "
            f"{HEADS} heads, {CHANNELS} channels.\nRounds: {options.rounds}. Times are best (median) of all calls.\n\n{table(rows)}")
    print(text)
    if options.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
