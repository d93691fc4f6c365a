#!/usr/bin/env python3
"""Write layers.json: attention layers and blocks in plain torch, with their outputs and gradients.

Run it with `make goldens`. One case a line:
  kind       multi_head, qwen3_attention, qwen3_mlp or w2_block
  config     sizes, under the names of the layer's own config
  inputs     name -> shape and values; "mask" is what is added to scores, null where it is -infinity
  weights    our name of a weight -> values
  outputs    name -> values
  gradients  of sum(output * grad_output) by every input and weight; grad_output is among the inputs

Qwen3's modules are those of transformers. The others are written here: multi-head attention with rotation of adjacent
pairs and biased projections, and the pre-norm block over two streams whose scores are minus squared 2-Wasserstein
distances. Both are float64 throughout; inputs and weights are float32 numbers. Results are rounded to float32.
"""
import json, math, pathlib, sys

sys.dont_write_bytecode = True
from make_goldens import short  # sets torch to reproducible arithmetic first

import torch
from torch import nn
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3MLP, Qwen3RotaryEmbedding

OUT = pathlib.Path(__file__).with_name("layers.json")


def numbers(tensor):
    return [None if math.isinf(x) else x for x in short(tensor.detach().float().flatten())]


def drawn(generator, *shape):
    """Float32 numbers, as float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float32).double()


def draw_weights(module, generator):
    for parameter in module.parameters():
        spread = parameter.shape[-1] ** -0.5 if parameter.dim() == 2 else 0.5
        parameter.data = drawn(generator, *parameter.shape) * spread
        parameter.data = (parameter.data + (parameter.dim() < 2)).float().double()   # norms and tau stand around 1


def angles(tokens, pairs, theta=10000.0):
    return torch.arange(tokens).double()[:, None] * theta ** (-torch.arange(pairs).double() / pairs)


class MultiHead(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.heads, self.width = num_heads, embed_dim // num_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def turn(self, x):
        """Channels 2i and 2i + 1 of a head form a pair; tokens count from 0."""
        turns = angles(x.shape[2], self.width // 2)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = even * turns.cos() - odd * turns.sin(), even * turns.sin() + odd * turns.cos()
        return torch.stack(turned, dim=-1).flatten(-2)

    def forward(self, query, key, value, mask):
        def heads(layer, x):
            return layer(x).unflatten(-1, (self.heads, self.width)).transpose(1, 2)
        q, k, v = self.turn(heads(self.q_proj, query)), self.turn(heads(self.k_proj, key)), heads(self.v_proj, value)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.width) + mask, dim=-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(-2)), weights


class RmsNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))


class SwiGlu(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(channels, hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(hidden, channels, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class W2Attention(nn.Module):
    """Eight square projections; scores by squared differences, channel by channel."""
    def __init__(self, channels, heads):
        super().__init__()
        self.heads, self.width = heads, channels // heads
        for name in "qkvo":
            setattr(self, name + "_mu", nn.Linear(channels, channels, bias=False))
            setattr(self, name + "_log_sigma", nn.Linear(channels, channels, bias=False))
        self.tau = nn.Parameter(torch.ones(()))

    def turn(self, x):
        """Channels i and i + width/2 form a pair."""
        turns = angles(x.shape[2], self.width // 2)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * turns.cos() - second * turns.sin(), first * turns.sin() + second * turns.cos()), -1)

    def forward(self, mu, log_sigma, mask):
        def heads(layer, x):
            return layer(x).unflatten(-1, (self.heads, self.width)).transpose(1, 2)
        def squared_distances(a, b):
            return (a[..., :, None, :] - b[..., None, :, :]).square().sum(-1)
        q, k = self.turn(heads(self.q_mu, mu)), self.turn(heads(self.k_mu, mu))
        s, t = (torch.exp(heads(layer, log_sigma) / 2) for layer in (self.q_log_sigma, self.k_log_sigma))
        scores = -(squared_distances(q, k) + squared_distances(s, t)) / (self.tau.abs() + 1e-6)
        weights = torch.softmax(scores + mask, dim=-1)
        out = [(weights @ heads(layer, x)).transpose(1, 2).flatten(-2)
               for layer, x in ((self.v_mu, mu), (self.v_log_sigma, log_sigma))]
        return self.o_mu(out[0]), self.o_log_sigma(out[1])


class W2Block(nn.Module):
    def __init__(self, channels, heads, hidden):
        super().__init__()
        self.attention_norm_mu, self.attention_norm_log_sigma = RmsNorm(channels), RmsNorm(channels)
        self.ffn_norm_mu, self.ffn_norm_log_sigma = RmsNorm(channels), RmsNorm(channels)
        self.attention = W2Attention(channels, heads)
        self.ffn = nn.ModuleDict({"mu": SwiGlu(channels, hidden), "log_sigma": SwiGlu(channels, hidden)})

    def forward(self, mu, log_sigma, mask):
        a, b = self.attention(self.attention_norm_mu(mu), self.attention_norm_log_sigma(log_sigma), mask)
        mu, log_sigma = mu + a, log_sigma + b
        return (mu + self.ffn["mu"](self.ffn_norm_mu(mu)),
                log_sigma + self.ffn["log_sigma"](self.ffn_norm_log_sigma(log_sigma)))


def case(kind, config, module, generator, inputs, run, mask=None):
    """Runs the module on the inputs; run(module, inputs) gives outputs by name, of which those with a gradient given
    among the inputs (grad_ and the name) count for the loss."""
    draw_weights(module, generator)
    for tensor in inputs.values():
        tensor.requires_grad_()
    outputs = run(module, inputs)
    given = {"grad_" + name: drawn(generator, *out.shape) for name, out in outputs.items() if name != "weights"}
    sum((outputs[name.removeprefix("grad_")] * grad).sum() for name, grad in given.items()).backward()
    stored = {**inputs, **given, **({} if mask is None else {"mask": mask})}
    named = dict(module.named_parameters())
    return {"kind": kind, "config": config,
            "inputs": {name: {"shape": list(x.shape), "values": numbers(x)} for name, x in stored.items()},
            "weights": {name: numbers(x) for name, x in named.items()},
            "outputs": {name: numbers(x) for name, x in outputs.items()},
            "gradients": {name: numbers(x.grad) for name, x in {**inputs, **named}.items()}}


def causal(tokens):
    return torch.full((tokens, tokens), -math.inf, dtype=torch.float64).triu(1)[None, None]


def padding(lengths, keys):
    mask = torch.zeros(len(lengths), 1, 1, keys, dtype=torch.float64)
    for b, length in enumerate(lengths):
        mask[b, 0, 0, length:] = -math.inf
    return mask


def multi_head(seed, queries, keys, mask):
    generator = torch.Generator().manual_seed(seed)
    module = MultiHead(16, 2).double()
    inputs = {"query": drawn(generator, 2, queries, 16)}
    if keys:
        inputs |= {"key": drawn(generator, 2, keys, 16), "value": drawn(generator, 2, keys, 16)}

    def run(layer, x):
        y, weights = layer(x["query"], x.get("key", x["query"]), x.get("value", x["query"]), mask)
        return {"y": y, "weights": weights}
    return case("multi_head", {"embed_dim": 16, "num_heads": 2}, module, generator, inputs, run, mask)


def qwen3():
    generator = torch.Generator().manual_seed(3)
    config = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
              "intermediate_size": 24, "rms_norm_eps": 1e-6, "rope_theta": 1e6}
    theirs = Qwen3Config(**{k: v for k, v in config.items() if k != "rope_theta"}, num_hidden_layers=1,
                         rope_parameters={"rope_type": "default", "rope_theta": config["rope_theta"]})
    theirs._attn_implementation = "eager"
    tokens = 9
    x = drawn(generator, 2, tokens, 16)
    tables = Qwen3RotaryEmbedding(theirs)(x, torch.arange(tokens)[None])
    attention = Qwen3Attention(theirs, 0).double().eval()
    yield case("qwen3_attention", config, attention, generator, {"x": x},
               lambda layer, i: {"y": layer(i["x"], tables, causal(tokens))[0]})
    yield case("qwen3_mlp", config, Qwen3MLP(theirs).double(), generator, {"x": drawn(generator, 2, 5, 16)},
               lambda layer, i: {"y": layer(i["x"])})


def w2_block(seed, tokens, mask):
    generator = torch.Generator().manual_seed(seed)
    config = {"hidden_size": 12, "num_attention_heads": 2, "intermediate_size": 14, "rms_norm_eps": 1e-6}
    inputs = {"mu": drawn(generator, 2, tokens, 12), "log_sigma": drawn(generator, 2, tokens, 12)}
    run = lambda layer, x: dict(zip(("mu", "log_sigma"), layer(x["mu"], x["log_sigma"], mask)))
    return case("w2_block", config, W2Block(12, 2, 14).double(), generator, inputs, run, mask)


def main():
    cases = [multi_head(1, 6, None, causal(6)), multi_head(2, 5, 7, padding([7, 4], 7)), *qwen3(),
             w2_block(4, 7, torch.zeros(1, 1, 1, 7, dtype=torch.float64)), w2_block(5, 6, causal(6))]
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    OUT.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
