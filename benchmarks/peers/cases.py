"""What is compared: the cases, their inputs, and which peers run them.

A case has a name, peers, settings() for phasor_case, and inputs(), name -> array.
"""
import dataclasses

import numpy as np

import peers
import torch_models


def settings_of(case, kind):
    """All fields but those that are not phasor_case's concern."""
    fields = {field.name: getattr(case, field.name) for field in dataclasses.fields(case)}
    del fields["name"], fields["peers"]
    return {"kind": kind, **fields}


@dataclasses.dataclass(frozen=True)
class Case:
    """Attention alone. attention_job.cc knows the same fields, but for the name and the peers."""
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
    trains_model = False
    checked_call = 1        # the call whose results are compared

    def settings(self):
        return settings_of(self, "attention")

    def inputs(self):
        """Name -> array, of normal numbers. The spread of a stream in w2 is the log of its variance."""
        random = np.random.default_rng(0)
        normal = lambda *shape: random.standard_normal(shape, dtype=np.float32)
        query, key = (1, self.heads, self.queries, self.channels), (1, self.key_heads, self.keys, self.channels)
        shapes = {"q": query, "k": key, "v": key, **({"grad_out": query} if self.backward else {})}
        if self.score == "w2":
            shapes = {f"{name}_{stream}": shape for name, shape in shapes.items() for stream in ("mean", "spread")}
        arrays = {name: normal(*shape) for name, shape in shapes.items()}
        if self.bias == "learned":
            arrays["bias"] = normal(self.heads, 2 * self.keys - 1)
        return arrays


def normal_weights(shapes, random, deviation=None):
    """Name -> array. Matrices are normal numbers, of deviation 1/sqrt(inputs) unless given; norms are near 1."""
    def values(name, shape):
        numbers = random.standard_normal(shape, dtype=np.float32)
        if name.endswith("tau"):
            return np.full(shape, 16.0)
        return 1.0 + 0.1 * numbers if len(shape) == 1 else numbers * np.float32(deviation or shape[1] ** -0.5)
    return {name: values(name, shape).astype(np.float32) for name, shape in shapes.items()}


@dataclasses.dataclass(frozen=True)
class BlockCase:
    """A block, forward + backward, for block_job.cc: RoPE, causal, as many key heads as heads."""
    name: str
    peers: tuple
    batch: int
    tokens: int
    hidden: int = 512
    heads: int = 8
    feed_forward: int = 2048
    score: str = "dot"
    dropout = 0.0
    trains_model = False
    checked_call = 1        # the call whose results are compared

    def settings(self):
        return settings_of(self, "block")

    def inputs(self):
        random = np.random.default_rng(0)
        streams = ("mean", "spread") if self.score == "w2" else ("mean",)
        arrays = {f"{name}_{stream}": random.standard_normal((self.batch, self.tokens, self.hidden), dtype=np.float32)
                  for name in ("x", "grad_y") for stream in streams}
        return arrays | normal_weights(torch_models.block_shapes(self), random)


@dataclasses.dataclass(frozen=True)
class DecoderCase:
    """A step of training of a whole model, for decoder_job.cc: RoPE, tied embeddings."""
    name: str
    peers: tuple
    batch: int = 4
    tokens: int = 512
    hidden: int = 512
    layers: int = 8
    heads: int = 8
    key_heads: int = 2
    feed_forward: int = 1408
    vocabulary: int = 6400
    learning_rate: float = 0.0  # of AdamW; 0: gradients alone
    score = "dot"
    dropout = 0.0
    trains_model = True         # so tokens per second and memory are of interest

    @property
    def checked_call(self):
        """With an optimizer the losses are those of the step before, so of the third they tell of two updates."""
        return 3 if self.learning_rate else 1

    def settings(self):
        return settings_of(self, "decoder")

    def inputs(self):
        """Tokens are stored as floats, like all else."""
        random = np.random.default_rng(0)
        text = random.integers(0, self.vocabulary, (self.batch, self.tokens + 1)).astype(np.float32)
        arrays = {"tokens": np.ascontiguousarray(text[:, :-1]), "targets": np.ascontiguousarray(text[:, 1:])}
        return arrays | normal_weights(torch_models.decoder_shapes(self), random, deviation=0.02)


def square(tokens):
    return {"queries": tokens, "keys": tokens}


def heads(count, key_heads=None):
    return {"heads": count, "key_heads": key_heads or count}


SDPA = peers.TorchSdpa()
BLOCK = (torch_models.TorchBlock(),)
W2_PEERS = (peers.TorchEagerW2(), peers.TorchSdpaW2Mask(), peers.TorchSdpaW2Channel())
W2_BLOCKS = tuple(torch_models.TorchW2Block(peer) for peer in (peers.TorchEagerW2(), peers.TorchSdpaW2Channel()))

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
    BlockCase("block training, B2 S512", BLOCK, batch=2, tokens=512),
    BlockCase("block training, B1 S2048", BLOCK, batch=1, tokens=2048),
    BlockCase("W2 block training, B2 S512", W2_BLOCKS, batch=2, tokens=512, score="w2"),
    BlockCase("W2 block training, B1 S2048", W2_BLOCKS, batch=1, tokens=2048, score="w2"),
    DecoderCase("decoder of 26M, forward and backward, B4 S512", (torch_models.TorchDecoder(),)),
    DecoderCase("decoder of 26M, training step, B4 S512",
                (torch_models.TorchDecoder(), torch_models.TorchDecoder(fused=True)), learning_rate=1e-4),
)
