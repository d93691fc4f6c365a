#!/usr/bin/env python3
"""Run unchanged programs of torch with phasor.torch.enable() and without, alternating, and print how times compare.

    build/peers-venv/bin/python benchmarks/peers/enabled.py [--cases REGULAR_EXPRESSION] [--rounds 9] [--write]

`make bench-peers` runs it after compare.py, whose way of measuring it uses, and writes the table into docs/torch.md. Both
sides are one model with one set of weights. A training step is forward, loss and backward. With `--threads 1` times are
those of the processor, which tell something on a busy machine, too.
"""
import argparse, contextlib, os, re, sys, time

import timm
import torch
import transformers

sys.dont_write_bytecode = True  # leave no __pycache__ in the sources
import compare
import phasor
import phasor.torch

PAGE = compare.ROOT / "docs/torch.md"
VOCABULARY = 4096


class Case:
    """A model and its inputs. `loss` makes a number of its result, for training steps."""

    def __init__(self, name, make, loss, trains, dropout=False):
        self.name = f"{name}, {'training step' if trains else 'forward'}"
        self.make, self.loss, self.trains, self.dropout = make, loss, trains, dropout

    def prepare(self):
        torch.manual_seed(0)
        model, inputs = self.make()
        model.train(self.trains)

        def step():
            model.zero_grad()
            loss = self.loss(model(**inputs))
            loss.backward()
            gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
            return {"gradients": gradients}

        @torch.inference_mode()
        def forward():
            return {"result": first(model(**inputs))}

        return step if self.trains else forward


def first(result):
    """The tensor that a model is called for."""
    return result if isinstance(result, torch.Tensor) else result["logits"]


class Side:
    """As compare.Peer: takes the time of calls."""

    def __init__(self, name, call):
        self.name, self.call = name, call

    def setting(self):
        return phasor.torch.enable() if self.name == "phasor" else contextlib.nullcontext()

    def seconds(self, calls):
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        result = []
        with self.setting():
            for _ in range(calls):
                start = clock()
                self.call()
                result.append(clock() - start)
        return result

    def results(self):
        with self.setting():
            return compare.Peer.results(self, 1)


def encoder(tokens, batch=4):
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return model, {"src": torch.randn(batch, tokens, 256)}


def vit():
    return timm.create_model("vit_small_patch16_224", depth=6), {"x": torch.randn(4, 3, 224, 224)}


def tokens_of(batch, tokens):
    return torch.randint(3, VOCABULARY, (batch, tokens))


def gpt2(tokens):
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=2048, n_embd=384, n_layer=6, n_head=6,
                                     bos_token_id=1, eos_token_id=2, use_cache=False)
    ids = tokens_of(1, tokens)
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def llama(tokens):
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=512, intermediate_size=1376, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=4, max_position_embeddings=4096, use_cache=False)
    ids = tokens_of(1, tokens)
    return transformers.LlamaForCausalLM(config), {"input_ids": ids, "labels": ids}


def t5(dropout):
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=256, d_kv=64, d_ff=1024, num_layers=4, num_heads=4,
                                   dropout_rate=dropout, decoder_start_token_id=0, use_cache=False)
    return transformers.T5ForConditionalGeneration(config), {"input_ids": tokens_of(2, 512), "labels": tokens_of(2, 256)}


def bert():
    config = transformers.BertConfig(vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=6, num_attention_heads=6,
                                     intermediate_size=1536, num_labels=2)
    mask = torch.ones(8, 256, dtype=torch.long)
    mask[::2, 200:] = 0
    inputs = {"input_ids": tokens_of(8, 256), "attention_mask": mask, "labels": torch.randint(2, (8,))}
    return transformers.BertForSequenceClassification(config), inputs


def square(result):
    return first(result).square().mean()


def own_loss(result):
    return result["loss"]


CASES = [
    Case("nn.TransformerEncoder, 4 layers of 256, B4 T16", lambda: encoder(16), square, False),
    Case("nn.TransformerEncoder, 4 layers of 256, B4 T128", lambda: encoder(128), square, False),
    Case("nn.TransformerEncoder, 4 layers of 256, B4 T1024", lambda: encoder(1024), square, False),
    Case("nn.TransformerEncoder, 4 layers of 256, dropout 0.1, B4 T16", lambda: encoder(16), square, True, True),
    Case("nn.TransformerEncoder, 4 layers of 256, dropout 0.1, B4 T128", lambda: encoder(128), square, True, True),
    Case("nn.TransformerEncoder, 4 layers of 256, dropout 0.1, B1 T1024", lambda: encoder(1024, 1), square, True, True),
    Case("ViT-S/16 of timm, 6 layers, B4", vit, square, False),
    Case("ViT-S/16 of timm, 6 layers, B4", vit, square, True),
    Case("GPT-2, 6 layers of 384, T1", lambda: gpt2(1), own_loss, False),
    Case("GPT-2, 6 layers of 384, T1024", lambda: gpt2(1024), own_loss, False),
    Case("GPT-2, 6 layers of 384, dropout 0.1, T1024", lambda: gpt2(1024), own_loss, True, True),
    Case("Llama, 6 layers of 512, T1024", lambda: llama(1024), own_loss, False),
    Case("Llama, 6 layers of 512, T1024", lambda: llama(1024), own_loss, True),
    Case("T5, 4 + 4 layers of 256, B2 T512 and 256", lambda: t5(0.0), own_loss, True),
    Case("T5, 4 + 4 layers of 256, dropout 0.1, B2 T512 and 256", lambda: t5(0.1), own_loss, True, True),
    Case("BERT, 6 layers of 384, dropout 0.1, B8 T256", bert, own_loss, True, True),
]


def measure(case, rounds, progress):
    progress.begin(case)
    call = case.prepare()
    sides = [Side(name, call) for name in ("phasor", "torch")]
    difference = None
    if not case.dropout:
        difference = compare.largest_difference(*(side.results() for side in sides))
        if not difference <= compare.TOLERANCE:
            raise compare.Failure(f"{case.name}: results with and without enable() differ by {difference:.1e}")
    seconds = compare.take_turns(case, sides, rounds, progress)
    return {"case": case.name, "ours": seconds["phasor"], "theirs": seconds["torch"], "difference": difference}


def table(rows):
    lines = [["program", "with enable(), ms", "without, ms", "speed-up", "results differ by"]]
    for row in rows:
        difference = "random" if row["difference"] is None else f"{row['difference']:.0e}"
        times = [compare.milliseconds(row[side]) for side in ("ours", "theirs")]
        lines.append([row["case"], *times, compare.ratio(row), difference])
    return compare.table(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=".", help="a regular expression: only cases whose name it is found in")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--write", action="store_true", help="write the table into docs/torch.md")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    phasor.set_num_threads(options.threads)
    cases = [case for case in CASES if re.search(options.cases, case.name)]
    progress = compare.Progress(2 * options.rounds * len(cases))
    rows = [measure(case, options.rounds, progress) for case in cases]
    progress.clear()
    threads = "1 thread" if options.threads == 1 else f"{options.threads} threads"
    text = (f"{compare.cpu_name()}, {threads}, {compare.datetime.date.today()}. torch "
            f"{torch.__version__.split('+')[0]}, transformers {transformers.__version__}, timm {timm.__version__}. Rounds: "
            f"{options.rounds}. {'Processor times' if options.threads == 1 else 'Times'} are best (median) of all calls.\n\n"
            f"{table(rows)}")
    print(text)
    if options.write:
        compare.write_page(text, "enabled", PAGE)


if __name__ == "__main__":
    try:
        main()
    except compare.Failure as failure:
        sys.exit(f"enabled.py: {failure}")
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)
