"""The W2 transformer: tokens are Gaussians, with a stream for the mean and one for the log of the variance."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

from phasor.torch._devices import has_kernels
from phasor.torch._plain import rotate_plainly
from phasor.torch._rotations import Tensors, rows_of, table_of
from phasor.torch._w2 import w2_attention


class RMSNorm(nn.Module):
    """weight * x / sqrt(mean(x^2) + eps), normalised in float32 (or float64), then multiplied in the type of x."""

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        wide = hidden_states if hidden_states.dtype is torch.float64 else hidden_states.float()
        normalised = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * normalised.to(hidden_states.dtype)


class SwiGLU(nn.Module):
    """w2(silu(w1 x) * w3 x), without biases."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.w3 = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.w2 = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(silu(self.w1(x)) * self.w3(x))  # type: ignore[no-any-return]


class W2FeedForward(nn.Module):
    """A SwiGLU for each stream, with weights of its own.

    config: has hidden_size and intermediate_size.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.mu_ffn = SwiGLU(config.hidden_size, config.intermediate_size)
        self.sigma_ffn = SwiGLU(config.hidden_size, config.intermediate_size)

    def forward(self, mu: torch.Tensor, log_sigma: torch.Tensor) -> Tensors:
        return self.mu_ffn(mu), self.sigma_ffn(log_sigma)


class W2Attention(nn.Module):
    """Wasserstein-2 attention with projections: scores are -(|q_mu - k_mu|^2 + |q_sigma - k_sigma|^2) / (|tau| + 1e-6).

    q_mu and k_mu are rotated by position, sigma = exp(log_sigma / 2) is not: log_sigma is the log of the variance. The
    same weights average v_mu and v_log_sigma. tau is one learnable number, at first 1.

    config: has hidden_size, divisible by num_attention_heads.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, heads = config.hidden_size, config.num_attention_heads
        if heads < 1 or size % heads != 0:
            raise ValueError(f"[W2Attention] hidden_size: {size}, expected a multiple of num_attention_heads {heads}")
        self.num_heads, self.head_dim = heads, size // heads
        for stream in ("mu", "sigma"):
            for role in "qkvo":
                self.add_module(f"{role}_{stream}_proj", nn.Linear(size, size, bias=False))
        self.tau = nn.Parameter(torch.tensor(1.0))
        self.epsilon = 1e-6

    def forward(
        self,
        hidden_states_mu: torch.Tensor,
        hidden_states_log_sigma: torch.Tensor,
        rotary_emb_outputs: Tensors,
        attention_mask: torch.Tensor | None = None,
        *,
        is_causal: bool = False,
    ) -> Tensors:
        """(out_mu, out_log_sigma), [B, T, hidden_size] each, from streams of that shape.

        rotary_emb_outputs: cos and sin of RotaryEmbedding, [1, 1, T, head_dim] (or [B, T, head_dim]); their halves must
            be equal. Tables of head_dim / 2 are for adjacent pairs.
        attention_mask: broadcast to [B, H, T, T]. bool: True attends; else added to scores.
        is_causal: a token sees itself and those before it.
        """
        mu = [self._heads(f"{role}_mu_proj", hidden_states_mu) for role in "qkv"]
        log_sigma = [self._heads(f"{role}_sigma_proj", hidden_states_log_sigma) for role in "qkv"]
        table = rows_of(table_of(*rotary_emb_outputs, self.head_dim))
        run = self._by_kernel if has_kernels(hidden_states_mu) else self._plainly
        out_mu, out_log_sigma = run(mu, log_sigma, table, attention_mask, is_causal)
        return self._joined("o_mu_proj", out_mu), self._joined("o_sigma_proj", out_log_sigma)

    def _heads(self, projection: str, x: torch.Tensor) -> torch.Tensor:
        projected: torch.Tensor = getattr(self, projection)(x)
        return projected.view(*x.shape[:-1], self.num_heads, self.head_dim).transpose(1, 2)

    def _joined(self, projection: str, out: torch.Tensor) -> torch.Tensor:
        return getattr(self, projection)(out.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _by_kernel(self, mu: Any, log_sigma: Any, table: Any, mask: Any, is_causal: bool) -> Any:
        return w2_attention(
            *mu,
            *log_sigma,
            tau=self.tau,
            eps=self.epsilon,
            mask=mask,
            causal=is_causal,
            q_rotary=table,
            k_rotary=table,
        )

    def _plainly(self, mu: Any, log_sigma: Any, table: Any, mask: Any, is_causal: bool) -> Any:
        """By torch's attention on both streams side by side.

        Terms that all keys of a row share cancel in the softmax, so with T = |tau| + eps the scores are
        (2/T) (q_mu.k_mu + q_sigma.k_sigma) - (|k_mu|^2 + |k_sigma|^2)/T: a dot product and a bias for each key. The
        mean key is subtracted first, which changes no distance and keeps digits.
        """
        tokens = mu[0].shape[-2]
        cos, sin = (x[..., :tokens, :] for x in (table.cos, table.sin))
        cos, sin = (x[:, None] if x.dim() == 3 else x for x in (cos, sin))
        q_mu, k_mu = (rotate_plainly(x, cos, sin, table.pairing) for x in mu[:2])
        q_sigma, k_sigma = ((x / 2).exp() for x in log_sigma[:2])
        q, k = torch.cat((q_mu, q_sigma), -1), torch.cat((k_mu, k_sigma), -1)
        centre = k.mean(-2, keepdim=True)
        q, k = q - centre, k - centre
        temperature = self.tau.abs() + self.epsilon
        scores = -k.square().sum(-1)[:, :, None] / temperature
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
        if is_causal:
            later = torch.ones(tokens, tokens, dtype=torch.bool, device=k.device).triu(1)
            scores = scores.expand(-1, -1, tokens, -1).masked_fill(later, -torch.inf)
        values = torch.cat((mu[2], log_sigma[2]), -1)
        out = scaled_dot_product_attention(q * (2 / temperature), k, values, scores.to(q.dtype), scale=1.0)
        return out.chunk(2, -1)


class W2TransformerBlock(nn.Module):
    """Pre-norm block on two streams: W2Attention, then W2FeedForward, each added to its stream.

    config: has hidden_size, num_attention_heads, intermediate_size and rms_norm_eps (1e-6 when missing).
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, eps = config.hidden_size, getattr(config, "rms_norm_eps", 1e-6)
        self.input_layernorm_mu = RMSNorm(size, eps)
        self.input_layernorm_sigma = RMSNorm(size, eps)
        self.attention = W2Attention(config)
        self.post_attention_layernorm_mu = RMSNorm(size, eps)
        self.post_attention_layernorm_sigma = RMSNorm(size, eps)
        self.mlp = W2FeedForward(config)

    def forward(
        self,
        hidden_states_mu: torch.Tensor,
        hidden_states_log_sigma: torch.Tensor,
        rotary_emb_outputs: Tensors,
        attention_mask: torch.Tensor | None = None,
        *,
        is_causal: bool = False,
    ) -> Tensors:
        """Both streams, [B, T, hidden_size] each; arguments as W2Attention has them."""
        mu, log_sigma = hidden_states_mu, hidden_states_log_sigma
        normed = self.input_layernorm_mu(mu), self.input_layernorm_sigma(log_sigma)
        added = self.attention(*normed, rotary_emb_outputs, attention_mask, is_causal=is_causal)
        mu, log_sigma = mu + added[0], log_sigma + added[1]
        added = self.mlp(self.post_attention_layernorm_mu(mu), self.post_attention_layernorm_sigma(log_sigma))
        return mu + added[0], log_sigma + added[1]
