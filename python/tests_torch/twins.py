"""The modules in plain torch, written from their formulas, with the parameter names of phasor's: for equal weights."""

from __future__ import annotations

import torch
from torch import nn


class Standard(nn.Module):
    """Multi-head attention with adjacent-pair rotation; scores in full."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.heads = num_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(embed_dim, embed_dim))

    def split(self, x, tables=None):
        x = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        if tables is None:
            return x
        cos, sin = (t[: x.shape[2]] for t in tables)
        turned = torch.empty_like(x)
        turned[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        turned[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return turned

    def forward(self, query, key, value, tables, mask):
        q, k, v = (
            self.split(self.q_proj(query), tables),
            self.split(self.k_proj(key), tables),
            self.split(self.v_proj(value)),
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * self.weight


class Gated(nn.Module):
    def __init__(self, size, inner):
        super().__init__()
        self.w1, self.w3 = nn.Linear(size, inner, bias=False), nn.Linear(size, inner, bias=False)
        self.w2 = nn.Linear(inner, size, bias=False)

    def forward(self, x):
        gate = self.w1(x)
        return self.w2(gate * torch.sigmoid(gate) * self.w3(x))


class Gaussian(nn.Module):
    """W2 attention: every distance computed as a sum of squared differences."""

    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        for stream in ("mu", "sigma"):
            for role in "qkvo":
                self.add_module(f"{role}_{stream}_proj", nn.Linear(config.hidden_size, config.hidden_size, bias=False))
        self.tau = nn.Parameter(torch.tensor(1.0))

    def split(self, name, x):
        return getattr(self, name)(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, mu, log_sigma, tables, mask):
        q, k, v = (self.split(f"{role}_mu_proj", mu) for role in "qkv")
        ql, kl, vl = (self.split(f"{role}_sigma_proj", log_sigma) for role in "qkv")
        cos, sin = tables
        half = q.shape[-1] // 2
        q, k = (x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin for x in (q, k))
        means = (q[..., :, None, :] - k[..., None, :, :]).pow(2).sum(-1)
        spreads = ((ql / 2).exp()[..., :, None, :] - (kl / 2).exp()[..., None, :, :]).pow(2).sum(-1)
        scores = -(means + spreads) / (self.tau.abs() + 1e-6)
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        outs = ((weights @ x).transpose(1, 2).flatten(2) for x in (v, vl))
        return self.o_mu_proj(next(outs)), self.o_sigma_proj(next(outs))


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mu_ffn = Gated(config.hidden_size, config.intermediate_size)
        self.sigma_ffn = Gated(config.hidden_size, config.intermediate_size)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        for place in ("input", "post_attention"):
            for stream in ("mu", "sigma"):
                self.add_module(f"{place}_layernorm_{stream}", Norm(config.hidden_size))
        self.attention = Gaussian(config)
        self.mlp = FeedForward(config)

    def forward(self, mu, log_sigma, tables, mask=None):
        added = self.attention(self.input_layernorm_mu(mu), self.input_layernorm_sigma(log_sigma), tables, mask)
        mu, log_sigma = mu + added[0], log_sigma + added[1]
        return (
            mu + self.mlp.mu_ffn(self.post_attention_layernorm_mu(mu)),
            log_sigma + self.mlp.sigma_ffn(self.post_attention_layernorm_sigma(log_sigma)),
        )
