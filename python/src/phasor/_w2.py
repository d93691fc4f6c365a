"""Wasserstein-2 attention between Gaussian tokens, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from phasor import _phasor
from phasor._arrays import check_tensors
from phasor._attention import Call, finished, results
from phasor._errors import with_function_name
from phasor._numbers import real
from phasor._options import AttentionOptions, with_options
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
    query_scale: Any = None
    mask: Any = None
    key_bias: Any = None
    relative_bias: Any = None
    alibi_slopes: Any = None
    q_rotary: RotaryTable | None = None
    k_rotary: RotaryTable | None = None
    sinks: Any = None


_STREAMS = W2Gradients._fields[:6]


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
    tau: float = 1.0,
    eps: float = 1e-6,
    return_lse: bool = False,
    return_softmax: bool = False,
    return_weights: bool = False,
    **options: Unpack[AttentionOptions],
) -> Any:
    """Attention between diagonal Gaussians N(mu, diag(sigma^2)): scores are minus the squared 2-Wasserstein distance,

        score(i, j) = -(|R q_mu_i - R k_mu_j|^2 + |q_sigma_i - k_sigma_j|^2) / (|tau| + eps),   sigma = exp(log_sigma / 2)

    log_sigma is the log of the VARIANCE, hence the half. R is the rotation of the means (q_rotary, k_rotary); sigma is not
    rotated. Biases and masks are added, then the softmax averages v_mu and v_log_sigma:

        out_mu = softmax(scores) v_mu,   out_log_sigma = softmax(scores) v_log_sigma

    q_mu, q_log_sigma: [B, H, T, D]; k_mu, k_log_sigma: [B, G, S, D]; v_mu, v_log_sigma: [B, G, S, E]. As in attention, of
        which the other options are. D and E are at most 256; with softcap, sinks, query_scale or key_bias, D is at most
        255.
    tau: the temperature, a finite number.
    scale: multiplies scores before they are capped; None is 1.

    Returns (out_mu, out_log_sigma), [B, H, T, E] each, and after them lse, softmax and weights where asked for. Nothing is
    copied.
    """
    streams = (q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma)
    call = Call(dict(zip(_STREAMS, streams)), options)
    check_tensors({"tau": tau})
    outs = call.empty_out(), call.empty_out()
    asked = call.empty_on_request(return_lse, return_softmax, return_weights)
    _phasor.w2_attention_forward(*streams, *outs, *asked, tau=real(tau, "tau"), eps=real(eps, "eps"), **options)
    return results(call.kind, *outs, *asked)


@with_options
@with_function_name
def w2_attention_backward(
    q_mu: Any,
    k_mu: Any,
    v_mu: Any,
    q_log_sigma: Any,
    k_log_sigma: Any,
    v_log_sigma: Any,
    out_mu: Any,
    out_log_sigma: Any,
    softmax: Any,
    grad_out_mu: Any,
    grad_out_log_sigma: Any,
    *,
    grad_lse: Any = None,
    tau: float = 1.0,
    eps: float = 1e-6,
    rotary_gradients: bool = False,
    **options: Unpack[AttentionOptions],
) -> W2Gradients:
    """Gradients of a loss by everything that went into `w2_attention`.

    The first six, tau, eps and the options: as given to w2_attention; out_mu, out_log_sigma, softmax: what it returned with
    return_softmax=True; then the gradients of the loss by out_mu and out_log_sigma (and lse), of the types they have.

    Returns W2Gradients: the six streams, tau (a number), and those of the options as attention_backward does. log_sigma is the log of the variance, so grad_log_sigma = grad_sigma * sigma / 2.
    """
    streams = (q_mu, k_mu, v_mu, q_log_sigma, k_log_sigma, v_log_sigma)
    call = Call(dict(zip(_STREAMS, streams)), options)
    check_tensors({"out_mu": out_mu, "out_log_sigma": out_log_sigma, "softmax": softmax, "grad_lse": grad_lse})
    check_tensors({"grad_out_mu": grad_out_mu, "grad_out_log_sigma": grad_out_log_sigma, "tau": tau})
    gradients, others = call.empty_gradients(options, rotary_gradients)
    grad_tau = _phasor.w2_attention_backward(
        *streams,
        out_mu,
        out_log_sigma,
        softmax,
        grad_out_mu,
        grad_out_log_sigma,
        grad_lse,
        *gradients,
        option_gradients=others,
        tau=real(tau, "tau"),
        eps=real(eps, "eps"),
        **options,
    )
    by_name = finished(call.kind, dict(zip(_STREAMS, gradients)))
    return W2Gradients(**by_name, tau=grad_tau, **finished(call.kind, others))
