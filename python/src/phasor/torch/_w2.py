"""Wasserstein-2 attention as a differentiable function of torch tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from phasor._errors import with_function_name
from phasor._numbers import real
from phasor._options import with_options
from phasor.torch import _plain
from phasor.torch._devices import warn_of_float64
from phasor.torch._inputs import autocast, check_memory, check_tensors, with_channels
from phasor.torch._operators import W2_ATTENTION
from phasor.torch._options import Tensors, pack

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from phasor._options import AttentionOptions


@with_options
@with_function_name
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
    return_lse: bool = False,
    return_weights: bool = False,
    **options: Unpack[AttentionOptions],
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
    streams: Tensors = (q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma)
    wide = check_tensors(
        q_mu=q_mu, k_mu=k_mu, v_mu=v_mu, q_log_sigma=q_log_sigma, k_log_sigma=k_log_sigma, v_log_sigma=v_log_sigma
    )
    if torch.is_autocast_enabled("cpu"):
        streams = autocast(*streams)
        wide = False
    packed = pack((q_mu.shape[2], k_mu.shape[2]), options, wide)
    temperature, eps = _temperature(tau), real(eps, "eps")
    if wide or q_mu.shape[1] == k_mu.shape[1] == 0:  # the kernels have at least one head
        if wide:
            warn_of_float64()
        out_mu, out_log_sigma, lse, weights = _plain.w2_attention(streams, temperature, eps, packed)
    else:
        out_mu, out_log_sigma, lse, _, weights = W2_ATTENTION(
            *with_channels(*streams), temperature, eps, return_lse, False, return_weights, *packed
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
