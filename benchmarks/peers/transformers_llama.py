#!/usr/bin/env python3
"""Run a Llama of transformers with attn_implementation="phasor" and "sdpa", alternating, and print how times compare.

`make bench-peers` runs it after compare.py, whose way of measuring it uses, and writes the table into docs/performance.md.
"""
import argparse, os, sys

import torch
import transformers

sys.dont_write_bytecode = True  # leave no __pycache__ in the sources
import compare
import phasor
import phasor.transformers

CONFIG = {"vocab_size": 8192, "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 8,
          "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 4096}
PEER = "sdpa"


class Prefill:
    """What generate does with a prompt: fill a cache, logits of the last token."""

    def __init__(self, tokens):
        self.name, self.tokens = "prefill", tokens

    @torch.inference_mode()
    def call(self, model, tokens):
        return {"logits": model(tokens, use_cache=True, logits_to_keep=1).logits}


class Training:
    """Forward, loss and backward."""

    def __init__(self, tokens):
        self.name, self.tokens = "training step", tokens

    def call(self, model, tokens):
        model.zero_grad()
        model(tokens, labels=tokens, use_cache=False).loss.backward()
        return {name: parameter.grad for name, parameter in model.named_parameters()}


def make_model(implementation):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**CONFIG)
    config._attn_implementation = implementation
    return transformers.LlamaForCausalLM(config)


class Side:
    """A model, ready to run one case: as compare.Peer measures it."""

    def __init__(self, implementation, case, tokens):
        self.name, self.case, self.tokens, self.model = implementation, case, tokens, make_model(implementation)

    def call(self):
        return self.case.call(self.model, self.tokens)

    seconds, results = compare.Peer.seconds, compare.Peer.results


def measure(case, rounds, progress):
    progress.begin(case)
    tokens = torch.randint(CONFIG["vocab_size"], (1, case.tokens), generator=torch.Generator().manual_seed(1))
    sides = [Side(name, case, tokens) for name in ("phasor", PEER)]
    difference = compare.largest_difference(*(side.results(calls=1) for side in sides))
    if not difference <= compare.TOLERANCE:
        raise compare.Failure(f"{case.name}: results of phasor and {PEER} differ by {difference:.1e}")
    seconds = compare.take_turns(case, sides, rounds, progress)
    return {"case": f"{case.name}, 8 layers, hidden 512, T{case.tokens}", "peer": f"torch {PEER.upper()}",
            "ours": seconds["phasor"], "theirs": seconds[PEER], "difference": difference}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    phasor.set_num_threads(options.threads)
    phasor.transformers.register()
    cases = [Prefill(1024), Training(1024), Prefill(4096)]
    progress = compare.Progress(2 * options.rounds * len(cases))
    rows = [measure(case, options.rounds, progress) for case in cases]
    progress.clear()
    text = (f"{compare.cpu_name()}, {options.threads} threads, {compare.datetime.date.today()}. transformers "
            f"{transformers.__version__}, torch {torch.__version__.split('+')[0]}.\nRounds: {options.rounds}. Times are "
            f"best (median) of all calls.\n\n{compare.table_of_times(rows)}")
    print(text)
    if options.write:
        compare.write_page(text, "transformers")


if __name__ == "__main__":
    try:
        main()
    except compare.Failure as failure:
        sys.exit(f"transformers_llama.py: {failure}")
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
