"""What is compared: the cases, their inputs, and which peers run them."""
import dataclasses

import numpy as np

import peers


@dataclasses.dataclass(frozen=True)
class Case:
    """One computation. phasor_case.cc knows the same fields, but for the name and the peers."""
    name: str
    peers: tuple
    heads: int = 8
    key_heads: int = 8
    queries: int = 2048
    keys: int = 2048
    channels: int = 64
    causal: bool = False
    backward: bool = False
    score: str = "dot"      # dot, w2
    bias: str = "none"      # none, alibi, learned: a number for each head and distance, trained
    dropout: float = 0.0
    tau: float = 16.0       # of w2

    def settings(self):
        fields = dataclasses.asdict(self)
        del fields["name"], fields["peers"]
        return fields

    def inputs(self):
        """Name -> array. Normal numbers; standard deviations (the spread of q and k in w2) are positive."""
        random = np.random.default_rng(0)
        normal = lambda *shape: random.standard_normal(shape, dtype=np.float32)
        query, key = (1, self.heads, self.queries, self.channels), (1, self.key_heads, self.keys, self.channels)
        shapes = {"q": query, "k": key, "v": key, **({"grad_out": query} if self.backward else {})}
        if self.score == "w2":
            shapes = {f"{name}_{stream}": shape for name, shape in shapes.items() for stream in ("mean", "spread")}
        arrays = {name: normal(*shape) for name, shape in shapes.items()}
        for name in ("q_spread", "k_spread"):
            if name in arrays:
                arrays[name] = 0.5 + np.abs(arrays[name])
        if self.bias == "learned":
            arrays["bias"] = normal(self.heads, 2 * self.keys - 1)
        return arrays


def square(tokens):
    return {"queries": tokens, "keys": tokens}


def heads(count, key_heads=None):
    return {"heads": count, "key_heads": key_heads or count}


SDPA = peers.TorchSdpa()
W2_PEERS = (peers.TorchEagerW2(), peers.TorchSdpaW2Mask(), peers.TorchSdpaW2Channel())

CASES = (
    Case("forward, full, S2048 D64", (SDPA, peers.OnnxRuntime())),
    Case("forward, causal, S2048 D64", (SDPA,), causal=True),
    Case("forward, causal, S8192 D64", (SDPA,), causal=True, **square(8192)),
    Case("forward, causal, H16/4 S2048 D128", (SDPA,), causal=True, channels=128, **heads(16, 4)),
    Case("forward, ALiBi, causal, S2048 D64", (SDPA,), causal=True, bias="alibi"),
    Case("training, causal, S2048 D64", (SDPA,), causal=True, backward=True),
    Case("training, causal, H12 S1024 D64", (SDPA,), causal=True, backward=True, **heads(12), **square(1024)),
    Case("training, learned bias, H12 S1024 D64", (SDPA,), backward=True, bias="learned", **heads(12), **square(1024)),
    Case("training, dropout 0.1, causal, H12 S1024 D64", (SDPA,), causal=True, backward=True, dropout=0.1, **heads(12),
         **square(1024)),
    Case("W2 forward, causal, S2048 D64", W2_PEERS, causal=True, score="w2"),
    Case("W2 training, causal, S2048 D64", W2_PEERS, causal=True, backward=True, score="w2"),
    Case("decode, H32/8 S4096 D128", (SDPA, peers.TorchSdpaHeadsAsRows()), queries=1, keys=4096, channels=128,
         **heads(32, 8)),
)
