"""Wasserstein-2 attention as a differentiable function of torch tensors."""

from __future__ import annotations

from typing import Any

import torch

from phasor import _phasor
from phasor._errors import with_argument_names
from phasor._numbers import real
from phasor._rotary import RotaryTable
from phasor.torch import _plain
from phasor.torch._devices import warn_of_float64
from phasor.torch._inputs import (
    autocast,
    check_memory,
    check_tensors,
    empty_float32,
    empty_like,
    empty_output,
    with_channels,
)
from phasor.torch._learned import LearnedGradients, fake_gradients, only_wanted
from phasor.torch._library import Recorded, define, direct, first_only, records_gradient
from phasor.torch._options import FLOATING, LEARNED, SCHEMA, Options, Saved, pack, with_contiguous_rows

Tensors = tuple[torch.Tensor, ...]
Six = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
# The six streams, in the order of every function here.
_STREAMS = (
    "Tensor q_mu, Tensor k_mu, Tensor v_mu, Tensor q_log_sigma, Tensor k_log_sigma, Tensor v_log_sigma, Tensor tau"
)


def _streams(tensors: Tensors) -> Six:
    """As the C++ functions take them."""
    q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma = map(with_contiguous_rows, tensors)
    return q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma


def _forward_cpu(*arguments: Any) -> Tensors:
    tensors, (tau, eps, with_lse, with_weights), options = arguments[:6], arguments[6:10], arguments[10:]
    q, k, v = tensors[:3]
    batch, heads, queries, _ = q.shape
    lowered = Options(*options).lowered(q.shape, k.shape[2])
    out_mu, out_log_sigma = empty_output(q, v), empty_output(q, v)
    lse = empty_float32((batch, heads, queries) if with_lse else 0)
    weights = empty_float32((batch, heads, queries, k.shape[2]) if with_weights else 0)
    _phasor.w2_attention_forward(
        *_streams(tensors),
        out_mu,
        out_log_sigma,
        lse if with_lse else None,
        weights if with_weights else None,
        tau=tau.item(),
        eps=eps,
        **lowered,
    )
    return out_mu, out_log_sigma, lse, weights


def _forward_fake(*arguments: Any) -> Tensors:
    q, k, v = arguments[:3]
    with_lse, with_weights = arguments[8:10]
    batch, heads, queries, _ = q.shape
    lse = q.new_empty((batch, heads, queries) if with_lse else (0,), dtype=torch.float32)
    weights = q.new_empty((batch, heads, queries, k.shape[2]) if with_weights else (0,), dtype=torch.float32)
    return empty_output(q, v), empty_output(q, v), lse, weights


def _backward_cpu(*arguments: Any) -> Tensors:
    tensors, tau, (out_mu, out_log_sigma, lse) = arguments[:6], arguments[6], arguments[7:10]
    grad_mu, grad_log_sigma, grad_lse = (with_contiguous_rows(x) for x in arguments[10:13])
    wanted, eps, options = arguments[13], arguments[14], Options(*arguments[15:])
    lowered = options.lowered(tensors[0].shape, tensors[1].shape[2])
    learned = LearnedGradients(options, lowered, wanted)
    gradients = _empty_like_all(tensors)
    grad_tau = _phasor.w2_attention_backward(
        *_streams(tensors),
        out_mu,
        out_log_sigma,
        lse,
        grad_mu,
        grad_log_sigma,
        grad_lse,
        *gradients,
        tau=tau.item(),
        eps=eps,
        **learned.arguments,
        **lowered,
    )
    return (*gradients, torch.full_like(tau, grad_tau), *learned.finish())


def _empty_like_all(tensors: Tensors) -> Six:
    q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma = (empty_like(x) for x in tensors)
    return q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma


def _backward_fake(*arguments: Any) -> Tensors:
    streams, tau, wanted = arguments[:6], arguments[6], arguments[13]
    return (*_empty_like_all(streams), torch.empty_like(tau), *fake_gradients(streams[0], wanted, arguments[15:]))


class _W2Attention(Recorded):
    """The streams, tau and the learned options are arguments, since they get gradients; options are one more."""

    name = "w2_attention"

    @staticmethod
    def forward(ctx: Any, options: tuple[Any, ...], eps: float, with_weights: bool, *arguments: Any) -> Tensors:
        inputs = arguments[:7]
        out_mu, out_log_sigma, lse, weights = _forward_now(*inputs, eps, True, with_weights, *options)
        ctx.saved = Saved(ctx, (*inputs, out_mu, out_log_sigma, lse), options)
        ctx.eps = eps
        ctx.mark_non_differentiable(weights)
        ctx.set_materialize_grads(False)
        return out_mu, out_log_sigma, lse, weights

    @staticmethod
    def backward(ctx: Any, grad_mu: Any, grad_log_sigma: Any, grad_lse: Any, _: Any) -> Any:
        tensors, options = ctx.saved.restore(ctx.saved_tensors)
        grad_mu = torch.zeros_like(tensors[7]) if grad_mu is None else grad_mu
        grad_log_sigma = torch.zeros_like(tensors[8]) if grad_log_sigma is None else grad_log_sigma
        wanted = ctx.needs_input_grad[10:]
        gradients = _backward_autograd(*tensors, grad_mu, grad_log_sigma, grad_lse, wanted, ctx.eps, *options)
        return (None, None, None, *gradients[:7], *only_wanted(gradients[7:], wanted))


def _forward_autograd(*arguments: Any) -> Any:
    inputs, (eps, with_lse, with_weights), options = arguments[:7], arguments[7:10], arguments[10:]
    learned = options[: len(LEARNED)]
    if records_gradient("w2_attention", *inputs, *options[:FLOATING]):
        return _W2Attention.call(options, eps, with_weights, *inputs, *learned)
    return _forward_now(*inputs, eps, with_lse, with_weights, *options)


def _backward_autograd(*arguments: Any) -> Any:
    gradients = _backward_now(*arguments)
    return first_only("w2_attention", gradients, arguments) if torch.is_grad_enabled() else gradients


_forward = define(
    "w2_attention_forward",
    f"({_STREAMS}, float eps, bool with_lse, bool with_weights, {SCHEMA})"
    " -> (Tensor out_mu, Tensor out_log_sigma, Tensor lse, Tensor weights)",
    cpu=_forward_cpu,
    fake=_forward_fake,
    autograd=_forward_autograd,
)
_backward = define(
    "w2_attention_backward",
    f"({_STREAMS}, Tensor out_mu, Tensor out_log_sigma, Tensor lse, Tensor grad_out_mu, Tensor grad_out_log_sigma, "
    f"Tensor? grad_lse, bool[] wanted, float eps, {SCHEMA}) -> (Tensor grad_q_mu, Tensor grad_k_mu, Tensor grad_v_mu, "
    "Tensor grad_q_log_sigma, Tensor grad_k_log_sigma, Tensor grad_v_log_sigma, Tensor grad_tau, Tensor grad_mask, "
    "Tensor grad_key_bias, Tensor grad_relative_bias, Tensor grad_alibi_slopes, Tensor grad_sinks)",
    cpu=_backward_cpu,
    fake=_backward_fake,
    autograd=_backward_autograd,
)
_forward_now, _backward_now = direct(_forward, _forward_cpu), direct(_backward, _backward_cpu)


@with_argument_names
def w2_attention(
    q_mu: torch.Tensor,
    k_mu: torch.Tensor,
    v_mu: torch.Tensor,
    q_log_sigma: torch.Tensor,
    k_log_sigma: torch.Tensor,
    v_log_sigma: torch.Tensor,
    *,
    tau: torch.Tensor | float = 1.0,
    eps: float = 1e-6,
    scale: float | None = None,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    query_offset: Any = None,
    key_lengths: Any = None,
    cumulative_lengths: Any = None,
    mask: torch.Tensor | None = None,
    key_bias: torch.Tensor | None = None,
    relative_bias: Any = None,
    alibi_slopes: torch.Tensor | None = None,
    q_rotary: RotaryTable | None = None,
    k_rotary: RotaryTable | None = None,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> Tensors:
    """phasor.w2_attention with gradients: attention between diagonal Gaussians N(mu, diag(sigma^2)),

        score(i, j) = -(|R q_mu_i - R k_mu_j|^2 + |q_sigma_i - k_sigma_j|^2) / (|tau| + eps)

    where sigma = exp(log_sigma / 2), log_sigma is the log of the VARIANCE, and R is the rotation of the means (q_rotary
    and k_rotary).

    q_mu, q_log_sigma: [B, H, T, D]; k_mu, k_log_sigma: [B, G, S, D]; v_mu, v_log_sigma: [B, G, S, E].
    tau: a number, or a tensor of one element, which then gets a gradient.
    scale: multiplies scores before they are capped; None is 1.
    The other options, copies, and what it works under: as phasor.torch.attention.

    Returns (out_mu, out_log_sigma), [B, H, T, E] each: the weighted means of v_mu and v_log_sigma; then lse and weights
    where asked for.
    """
    means, logs = {"q_mu": q_mu, "k_mu": k_mu, "v_mu": v_mu}, (q_log_sigma, k_log_sigma, v_log_sigma)
    wide = check_tensors(**means, q_log_sigma=q_log_sigma, k_log_sigma=k_log_sigma, v_log_sigma=v_log_sigma)
    streams: Tensors = (*means.values(), *logs)
    if torch.is_autocast_enabled("cpu"):
        streams = autocast(*streams)
        wide = False
    options = pack(
        (q_mu.shape[2], k_mu.shape[2]),
        scale=scale,
        causal=causal,
        window=window,
        query_offset=query_offset,
        key_lengths=key_lengths,
        cumulative_lengths=cumulative_lengths,
        mask=mask,
        key_bias=key_bias,
        relative_bias=relative_bias,
        alibi_slopes=alibi_slopes,
        q_rotary=q_rotary,
        k_rotary=k_rotary,
        softcap=softcap,
        sinks=sinks,
        dropout=dropout,
        seed=seed,
        wide=wide,
    )
    temperature, eps = _temperature(tau), real(eps, "eps")
    if wide or q_mu.shape[1] == k_mu.shape[1] == 0:  # the kernels have at least one head
        if wide:
            warn_of_float64()
        out_mu, out_log_sigma, lse, weights = _plain.w2_attention(streams, temperature, eps, options)
    else:
        forward = _forward if torch.compiler.is_compiling() else _forward_autograd  # a shorter way to the same
        out_mu, out_log_sigma, lse, weights = forward(
            *with_channels(*streams), temperature, eps, return_lse, return_weights, *options
        )
        if v_mu.shape[3] == 0:
            out_mu, out_log_sigma = out_mu[..., :0], out_log_sigma[..., :0]
    asked = ((lse,) if return_lse else ()) + ((weights,) if return_weights else ())
    return (out_mu, out_log_sigma, *asked)


def _temperature(tau: torch.Tensor | float) -> torch.Tensor:
    if not isinstance(tau, torch.Tensor):
        return torch.full((), real(tau, "tau"), dtype=torch.float64, device="cpu")
    check_memory("tau", tau)
    if tau.numel() != 1 or not tau.is_floating_point():
        raise ValueError(f"tau: shape {list(tau.shape)} of {tau.dtype}, expected one floating-point number")
    return tau
