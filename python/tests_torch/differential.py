"""phasor beside float64 torch, over all options: values, gradients, log-sum-exps and weights.

    python differential.py --first 0 --count 2000     # a table: which kinds of cases exceed the rule, and by how much
    python differential.py --seed 17                  # one case, every tensor

differential_cases.py makes the calls, differential_oracle.py says what is right, differential_rule.py how far from it
a result may be.
"""

from __future__ import annotations

import argparse
import collections
from typing import Any

import phasor
import phasor.torch
import torch
from differential_cases import Case, make_case
from differential_rule import Finding, judge


def run(seed: int) -> tuple[Case, list[Finding]]:
    case = make_case(seed)
    case.keep = _kept(case)
    return case, judge(case, _call(case))


def _call(case: Case) -> dict[str, torch.Tensor]:
    """Results and gradients of phasor."""
    x = {name: value.clone().requires_grad_() for name, value in case.inputs.items()}
    options: dict[str, Any] = dict(case.options)
    for name in ("query_scale", "mask", "key_bias", "relative_bias", "alibi_slopes", "sinks"):
        if name in x:
            options[name] = (x[name], options["relative_bias"][1]) if name == "relative_bias" else x[name]
    for name in ("q_rotary", "k_rotary"):
        if f"{name}_cos" in x:
            options[name] = phasor.RotaryTable(x[f"{name}_cos"], x[f"{name}_sin"], options[name].pairing)
    options["precision"] = "float"  # the rule is that of float; narrow.py judges bf16
    asked = {"return_lse": True, "return_weights": case.with_weights}
    if case.is_w2:
        streams = [x[name] for name in ("q", "k", "v", "q_log_sigma", "k_log_sigma", "v_log_sigma")]
        found = phasor.torch.w2_attention(*streams, tau=x["tau"], **options, **asked)
    else:
        found = phasor.torch.attention(x["q"], x["k"], x["v"], **options, **asked)
    names = ["out", *(["out_log_sigma"] if case.is_w2 else []), "lse", "weights"]
    results = dict(zip(names, found))
    wanted = {name: results[name] for name in case.loss}
    gradients = torch.autograd.grad(list(wanted.values()), list(x.values()), [case.loss[name] for name in wanted])
    given = {name: value.detach() for name, value in results.items()}
    return given | {f"grad {name}": gradient for name, gradient in zip(x, gradients)}


def _kept(case: Case) -> torch.Tensor:
    """The factors of dropout: which weights a seed drops is phasor's choice, seen where all weights are alike."""
    rate = case.options.get("dropout", 0.0)
    if not rate:
        return torch.ones(())
    same = {name: case.options[name] for name in ("query_starts", "key_starts", "dropout", "seed") if name in case.options}
    q, k, v = (torch.zeros_like(case.inputs[name], dtype=torch.float32) for name in "qkv")
    attention = phasor.torch.attention
    weights = attention(q, k, v, **same, return_weights=True)[1]
    return (weights > 0) / (1 - rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--seed", type=int, help="one case, every tensor")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        case, findings = run(arguments.seed)
        print(case)
        for finding in findings:
            print(f"  {finding.tensor:20} {finding.excess:8.3g} of what is allowed: {finding.text}")
        return
    counts: dict[tuple[str, str, str], list[Any]] = collections.defaultdict(lambda: [0, 0, 0.0, 0])
    for seed in range(arguments.first, arguments.first + arguments.count):
        case, findings = run(seed)
        for finding in findings:
            row = counts[case.kind, "w2" if case.is_w2 else "dot", finding.tensor]
            row[0] += 1
            row[1] += finding.excess > 1
            if finding.excess > row[2]:
                row[2:] = finding.excess, seed
    print(f"{'kind':22} {'score':5} {'tensor':20} {'cases':>6} {'over':>5} {'worst':>9}  seed")
    for (kind, score, tensor), (cases, over, worst, seed) in sorted(counts.items()):
        if over:
            print(f"{kind:22} {score:5} {tensor:20} {cases:6} {over:5} {worst:9.3g}  {seed}")
    print(f"{sum(row[0] for row in counts.values())} tensors, {sum(row[1] for row in counts.values())} over the rule")


if __name__ == "__main__":
    main()
