"""Wasserstein-2 attention between Gaussian tokens, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from phasor import _phasor
from phasor._arrays import check_tensors, kind_of, shape_of
from phasor._attention import results
from phasor._errors import with_argument_names
from phasor._gradients import OptionGradients
from phasor._numbers import real
from phasor._options import AttentionOptions, low_level
from phasor._rotary import RotaryTable

if TYPE_CHECKING:
    from typing_extensions import Unpack


class W2Gradients(NamedTuple):
    """Gradients of a loss, each shaped as what it belongs to; None for options that were not given."""

    q_mu: Any
    k_mu: Any
    v_mu: Any
    q_log_sigma: Any
    k_log_sigma: Any
    v_log_sigma: Any
    tau: float
    mask: Any = None
    key_bias: Any = None
    relative_bias: Any = None
    alibi_slopes: Any = None
    sinks: Any = None


@with_argument_names
def w2_attention(
    q_mu: Any,
    k_mu: Any,
    v_mu: Any,
    q_log_sigma: Any,
    k_log_sigma: Any,
    v_log_sigma: Any,
    *,
    tau: float = 1.0,
    eps: float = 1e-6,
    scale: float | None = None,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    query_offset: Any = None,
    key_lengths: Any = None,
    cumulative_lengths: Any = None,
    mask: Any = None,
    key_bias: Any = None,
    relative_bias: Any = None,
    alibi_slopes: Any = None,
    q_rotary: RotaryTable | None = None,
    k_rotary: RotaryTable | None = None,
    softcap: float = 0.0,
    sinks: Any = None,
    dropout: float = 0.0,
    seed: int | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> Any:
    """Attention between diagonal Gaussians N(mu, diag(sigma^2)): scores are minus the squared 2-Wasserstein distance,

        score(i, j) = -(|R q_mu_i - R k_mu_j|^2 + |q_sigma_i - k_sigma_j|^2) / (|tau| + eps),   sigma = exp(log_sigma / 2)

    log_sigma is the log of the VARIANCE, hence the half. R is the rotation of the means (q_rotary, k_rotary); sigma is not
    rotated. Biases and masks are added, then the softmax averages v_mu and v_log_sigma:

        out_mu = softmax(scores) v_mu,   out_log_sigma = softmax(scores) v_log_sigma

    q_mu, q_log_sigma: [B, H, T, D]; k_mu, k_log_sigma: [B, G, S, D]; v_mu, v_log_sigma: [B, G, S, E]. As in attention, of
        which the other options are. D and E are at most 256; with softcap or sinks, D is at most 255.
    tau: the temperature, a finite number.
    scale: multiplies scores before they are capped; None is 1.

    Returns (out_mu, out_log_sigma), [B, H, T, E] each, and after them lse and weights where asked for. sigma of q and k
    are new float32 arrays; nothing else is copied.
    """
    kind = kind_of(q_mu, "q_mu")
    batch, heads, queries, _ = shape_of(q_mu, "q_mu", 4)
    keys, channels = shape_of(k_mu, "k_mu", 4)[2], shape_of(v_mu, "v_mu", 4)[3]
    options = low_level(
        (batch, heads, queries),
        keys,
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
    )
    check_tensors({"k_mu": k_mu, "v_mu": v_mu, "tau": tau, **options})
    check_tensors({"q_log_sigma": q_log_sigma, "k_log_sigma": k_log_sigma, "v_log_sigma": v_log_sigma})
    out_mu, out_log_sigma = (kind.empty((batch, heads, queries, channels), q_mu) for _ in range(2))
    lse = kind.empty_float32((batch, heads, queries)) if return_lse else None
    weights = kind.empty_float32((batch, heads, queries, keys)) if return_weights else None
    _phasor.w2_attention_forward(
        q_mu,
        k_mu,
        v_mu,
        q_log_sigma,
        k_log_sigma,
        v_log_sigma,
        out_mu,
        out_log_sigma,
        lse,
        weights,
        tau=real(tau, "tau"),
        eps=real(eps, "eps"),
        **options,
    )
    return results(kind, out_mu, out_log_sigma, lse, weights)


@with_argument_names
def w2_attention_backward(
    q_mu: Any,
    k_mu: Any,
    v_mu: Any,
    q_log_sigma: Any,
    k_log_sigma: Any,
    v_log_sigma: Any,
    out_mu: Any,
    out_log_sigma: Any,
    lse: Any,
    grad_out_mu: Any,
    grad_out_log_sigma: Any,
    *,
    grad_lse: Any = None,
    tau: float = 1.0,
    eps: float = 1e-6,
    **options: Unpack[AttentionOptions],
) -> W2Gradients:
    """Gradients of a loss by everything that went into `w2_attention`.

    The first six, tau, eps and the options: as given to w2_attention; out_mu, out_log_sigma, lse: what it returned with
    return_lse=True; then the gradients of the loss by those, of the types they have.

    Returns W2Gradients: the six streams, tau (a number), and mask (when it is float32), key_bias, relative_bias (of its
    table), alibi_slopes and sinks where given. log_sigma is the log of the variance, so grad_log_sigma = grad_sigma * sigma / 2.
    """
    kind = kind_of(q_mu, "q_mu")
    shape, keys = shape_of(q_mu, "q_mu", 4), shape_of(k_mu, "k_mu", 4)[2]
    shape_of(v_mu, "v_mu", 4)
    lowered = low_level(shape, keys, **options)
    check_tensors({"k_mu": k_mu, "v_mu": v_mu, "tau": tau, "lse": lse, **lowered})
    check_tensors({"q_log_sigma": q_log_sigma, "k_log_sigma": k_log_sigma, "v_log_sigma": v_log_sigma})
    check_tensors({"out_mu": out_mu, "out_log_sigma": out_log_sigma, "grad_lse": grad_lse})
    check_tensors({"grad_out_mu": grad_out_mu, "grad_out_log_sigma": grad_out_log_sigma})
    gradients = [kind.empty(x.shape, x) for x in (q_mu, k_mu, v_mu, q_mu, k_mu, v_mu)]
    others = OptionGradients(kind, lowered)
    grad_tau = _phasor.w2_attention_backward(
        q_mu,
        k_mu,
        v_mu,
        q_log_sigma,
        k_log_sigma,
        v_log_sigma,
        out_mu,
        out_log_sigma,
        lse,
        grad_out_mu,
        grad_out_log_sigma,
        grad_lse,
        *gradients,
        tau=real(tau, "tau"),
        eps=real(eps, "eps"),
        **others.arguments(),
        **lowered,
    )
    streams = dict(zip(W2Gradients._fields, (kind.finish(array) for array in gradients)))
    return W2Gradients(**streams, tau=grad_tau, **others.finish(options.get("alibi_slopes"), options.get("mask")))
