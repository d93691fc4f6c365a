"""Wasserstein-2 attention for JAX."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from phasor import _phasor
from phasor._errors import with_function_name
from phasor._numbers import real
from phasor._options import AttentionOptions, with_options
from phasor.jax._attention import results
from phasor.jax._call import W2_ATTENTION, Settings, call, check_inputs
from phasor.jax._check import check
from phasor.jax._forms import as_array
from phasor.jax._options import pack

if TYPE_CHECKING:
    from typing_extensions import Unpack


@with_options
@with_function_name
def w2_attention(
    q_mu: Any,
    k_mu: Any,
    v_mu: Any,
    q_log_sigma: Any,
    k_log_sigma: Any,
    v_log_sigma: Any,
    *,
    tau: Any = 1.0,
    eps: float = 1e-6,
    return_lse: bool = False,
    return_weights: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """phasor.w2_attention on JAX's arrays: attention between diagonal Gaussians N(mu, diag(sigma^2)).

        score(i, j) = -(|R q_mu_i - R k_mu_j|^2 + |q_sigma_i - k_sigma_j|^2) / (|tau| + eps),   sigma = exp(log_sigma / 2)

    q_mu, q_log_sigma: [B, H, T, D]; k_mu, k_log_sigma: [B, G, S, D]; v_mu, v_log_sigma: [B, G, S, E].
    tau: the temperature, a number or an array of one; it has a gradient, as the streams and options of attention have.

    Returns (out_mu, out_log_sigma), [B, H, T, E] each, and after them lse and weights where asked for.
    """
    streams = (q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma)
    operands, attributes = pack(options)
    inputs = check_inputs(dict(zip(W2_ATTENTION.inputs, streams)))
    attributes["eps"] = real(eps, "eps")
    temperature = _temperature(tau)
    known = 1.0 if isinstance(tau, jax.Array) else real(tau, "tau")
    check(functools.partial(_phasor.check_w2_attention, tau=known, eps=attributes["eps"]), inputs, options)
    settings = Settings(W2_ATTENTION, tuple(sorted(attributes.items())), False, return_lse, return_weights)
    return results(call(settings, {**inputs, "tau": temperature, **operands}))


def _temperature(tau: Any) -> Any:
    array = as_array("tau", tau)
    if array.size != 1 or not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(f"tau: shape {list(array.shape)} of {array.dtype}, expected one floating-point number")
    return array.reshape(1).astype(jnp.float32)
