"""Blocks and decoders in plain torch, with the weights of phasor's under the same names."""
import torch
from torch.nn.functional import cross_entropy, embedding, linear, rms_norm, scaled_dot_product_attention, silu

import peers

EPSILON = 1e-6          # of norms, as phasor's default
ROTARY_BASE = 10000.0


def block_shapes(case, prefix=""):
    """Name -> shape of the weights of a block."""
    key_rows = case.hidden // case.heads * getattr(case, "key_heads", case.heads)
    projections = {"q": case.hidden, "k": key_rows, "v": key_rows, "o": case.hidden}
    feed_forward = {"gate_proj": (case.feed_forward, case.hidden), "up_proj": (case.feed_forward, case.hidden),
                    "down_proj": (case.hidden, case.feed_forward)}
    shapes = {"attention.tau": ()} if case.score == "w2" else {}
    for stream in ("mu", "log_sigma") if case.score == "w2" else ("",):
        after, inside = (f"_{stream}", f"{stream}.") if stream else ("", "")
        shapes |= {f"{norm}{after}.weight": (case.hidden,) for norm in ("attention_norm", "ffn_norm")}
        shapes |= {f"attention.{name}{after or '_proj'}.weight": (rows, case.hidden)
                   for name, rows in projections.items()}
        shapes |= {f"ffn.{inside}{name}.weight": shape for name, shape in feed_forward.items()}
    return {prefix + name: shape for name, shape in shapes.items()}


def decoder_shapes(case):
    shapes = {"embedding.weight": (case.vocabulary, case.hidden), "norm.weight": (case.hidden,)}
    for layer in range(case.layers):
        shapes |= block_shapes(case, f"blocks.{layer}.")
    return shapes


class Weights:
    """Weights whose names begin alike, and the layers made of them."""

    def __init__(self, tensors, prefix=""):
        self.tensors, self.prefix = tensors, prefix

    def under(self, prefix):
        return Weights(self.tensors, self.prefix + prefix)

    def __getitem__(self, name):
        return self.tensors[self.prefix + name]

    def linear(self, x, name):
        return linear(x, self[f"{name}.weight"])

    def norm(self, x, name):
        return rms_norm(x, x.shape[-1:], self[f"{name}.weight"], EPSILON)

    def swiglu(self, x):
        return self.linear(silu(self.linear(x, "gate_proj")) * self.linear(x, "up_proj"), "down_proj")


class Rotary:
    """RoPE of positions 0 .. tokens - 1; pairs are (i, i + D/2)."""

    def __init__(self, tokens, channels):
        frequencies = ROTARY_BASE ** (-torch.arange(0, channels, 2, dtype=torch.float64) / channels)
        angles = torch.arange(tokens, dtype=torch.float64)[:, None] * frequencies
        self.cos, self.sin = (torch.cat((f(angles), f(angles)), -1).float() for f in (torch.cos, torch.sin))

    def __call__(self, x):
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat((-second, first), -1) * self.sin


def by_heads(x, channels):
    """[B, T, H D] -> [B, H, T, D]"""
    return x.unflatten(-1, (-1, channels)).transpose(1, 2)


def as_rows(x):
    return x.transpose(1, 2).flatten(2)


def block(x, weights, rotary, channels):
    normed, attention = weights.norm(x, "attention_norm"), weights.under("attention.")
    q, k, v = (by_heads(attention.linear(normed, f"{name}_proj"), channels) for name in "qkv")
    heads = scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
    middle = x + attention.linear(as_rows(heads), "o_proj")
    return middle + weights.under("ffn.").swiglu(weights.norm(middle, "ffn_norm"))


class TorchBlock:
    name = "torch SDPA"

    def prepare(self, case, inputs):
        x = peers.tensors(inputs)
        channels = case.hidden // case.heads
        rotary = Rotary(case.tokens, channels)
        parameters = {name: x[name] for name in ("x_mean", *block_shapes(case))}

        def forward():
            return {"y_mean": block(x["x_mean"], Weights(x), rotary, channels)}
        return peers.torch_call(forward, parameters, [x["grad_y_mean"]])


class TorchW2Block:
    """Around one of the ways to W2 attention."""

    def __init__(self, form):
        self.form, self.name = form, form.name

    def prepare(self, case, inputs):
        x = peers.tensors(inputs)
        channels = case.hidden // case.heads
        rotary, visible = Rotary(case.tokens, channels), peers.not_after(case.tokens, case.tokens)
        parameters = {name: x[name] for name in ("x_mean", "x_spread", *block_shapes(case))}

        def forward():
            mean, spread = self.block((x["x_mean"], x["x_spread"]), Weights(x), rotary, channels, visible)
            return {"y_mean": mean, "y_spread": spread}
        return peers.torch_call(forward, parameters, [x["grad_y_mean"], x["grad_y_spread"]])

    def block(self, streams, weights, rotary, channels, visible):
        attention, names = weights.under("attention."), ("mu", "log_sigma")
        normed = [weights.norm(x, f"attention_norm_{name}") for x, name in zip(streams, names)]
        heads = self.attend(normed, attention, rotary, channels, visible)
        middle = [x + attention.linear(as_rows(head), f"o_{name}") for x, head, name in zip(streams, heads, names)]
        return [x + weights.under(f"ffn.{name}.").swiglu(weights.norm(x, f"ffn_norm_{name}"))
                for x, name in zip(middle, names)]

    def attend(self, normed, attention, rotary, channels, visible):
        """The second stream is the log of the variance; distances want the deviation, values are taken as they are."""
        mean, spread = ({name: by_heads(attention.linear(x, f"{name}_{stream}"), channels) for name in "qkv"}
                        for x, stream in zip(normed, ("mu", "log_sigma")))
        x = {"q_mean": rotary(mean["q"]), "k_mean": rotary(mean["k"]), "v_mean": mean["v"],
             "q_spread": (0.5 * spread["q"]).exp(), "k_spread": (0.5 * spread["k"]).exp(), "v_spread": spread["v"]}
        return self.form.forward(x, attention["tau"].abs() + peers.TAU_EPSILON, visible)


class TorchDecoder:
    def __init__(self, fused=False):
        self.fused, self.name = fused, "torch SDPA, fused AdamW" if fused else "torch SDPA"

    def prepare(self, case, inputs):
        x = {name: tensor.clone() for name, tensor in peers.tensors(inputs).items()}  # training changes them
        tokens, targets = x["tokens"].long(), x["targets"].long()
        weights = {name: x[name].requires_grad_() for name in decoder_shapes(case)}
        rotary = Rotary(case.tokens, case.hidden // case.heads)
        optimizer = self.optimizer(weights.values(), case.learning_rate)

        def run():
            optimizer.zero_grad()
            logits = self.logits(case, Weights(weights), tokens, rotary)
            losses = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
            losses.mean().backward()
            if not case.learning_rate:
                return {"losses": losses} | {f"grad_{name}": weight.grad for name, weight in weights.items()}
            optimizer.step()
            return {"losses": losses}
        return run

    def optimizer(self, weights, learning_rate):
        """Matrices decay, norms do not, as in phasor."""
        groups = [{"params": [weight for weight in weights if weight.dim() == 2], "weight_decay": 0.01},
                  {"params": [weight for weight in weights if weight.dim() < 2], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=learning_rate, fused=self.fused)

    @staticmethod
    def logits(case, weights, tokens, rotary):
        x = embedding(tokens, weights["embedding.weight"])
        for layer in range(case.layers):
            x = block(x, weights.under(f"blocks.{layer}."), rotary, case.hidden // case.heads)
        return weights.linear(weights.norm(x, "norm"), "embedding")
