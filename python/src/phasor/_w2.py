"""Wasserstein-2 attention between Gaussian tokens, forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from phasor import _phasor
from phasor._arrays import check_tensors, kind_of, shape_of
from phasor._attention import results
from phasor._errors import with_argument_names
from phasor._gradients import OptionGradients
from phasor._numbers import real
from phasor._options import PlacedOptions, low_level
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
    dropout: float = 0.0,
    seed: int | None = None,
    return_lse: bool = False,
    return_weights: bool = False,
) -> Any:
    """Attention between diagonal Gaussians N(mu, diag(sigma^2)): scores are minus the squared 2-Wasserstein distance,

        score(i, j) = -(|R q_mu_i - R k_mu_j|^2 + |q_sigma_i - k_sigma_j|^2) / (|tau| + eps),   sigma = exp(log_sigma / 2)

    log_sigma is the log of the VARIANCE, hence the half. R is the rotation of the means (q_rotary, k_rotary); sigma is not
    turned. Biases and masks are added, then the softmax averages v_mu and v_log_sigma:

        out_mu = softmax(scores) v_mu,   out_log_sigma = softmax(scores) v_log_sigma

    q_mu, q_log_sigma: [B, H, T, D]; k_mu, k_log_sigma: [B, G, S, D]; v_mu, v_log_sigma: [B, G, S, E]. As in attention, of
        which the other options are; there is no scale, softcap or sink. D is at most 256.
    tau: the temperature, a finite number.

    Returns (out_mu, out_log_sigma), [B, H, T, E] each, and after them lse and weights where asked for. sigma of q and k
    are new arrays of their size; nothing else is copied.
    """
    kind = kind_of(q_mu, "q_mu")
    batch, heads, queries, _ = shape_of(q_mu, "q_mu", 4)
    keys, channels = shape_of(k_mu, "k_mu", 4)[2], shape_of(v_mu, "v_mu", 4)[3]
    options = low_level(
        (batch, heads, queries),
        keys,
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
        dropout=dropout,
        seed=seed,
    )
    check_tensors({"k_mu": k_mu, "v_mu": v_mu, "v_log_sigma": v_log_sigma, "tau": tau, **options})
    sigmas = _standard_deviations(q_log_sigma, k_log_sigma)
    out_mu, out_log_sigma = (kind.empty((batch, heads, queries, channels), q_mu) for _ in range(2))
    lse = kind.empty_float32((batch, heads, queries)) if return_lse else None
    weights = kind.empty_float32((batch, heads, queries, keys)) if return_weights else None
    _phasor.w2_attention_forward(
        q_mu,
        k_mu,
        v_mu,
        *sigmas,
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


def _standard_deviations(q_log_sigma: Any, k_log_sigma: Any) -> tuple[Any, Any]:
    """exp(log_sigma / 2) of q and k, after a look at their types: those of float64 would pass unseen."""
    sigmas = []
    for name, log_sigma in (("q_log_sigma", q_log_sigma), ("k_log_sigma", k_log_sigma)):
        kind = kind_of(log_sigma, name)
        dtype = str(log_sigma.dtype).rpartition(".")[2]
        if dtype not in ("float32", "float16", "bfloat16"):
            raise TypeError(f"{name}: {dtype}, expected float32, float16 or bfloat16")
        sigmas.append(kind.exp_half(log_sigma))
    return sigmas[0], sigmas[1]


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
    **options: Unpack[PlacedOptions],
) -> W2Gradients:
    """Gradients of a loss by everything that went into `w2_attention`.

    The first six, tau, eps and the options: as given to w2_attention; out_mu, out_log_sigma, lse: what it returned with
    return_lse=True; then the gradients of the loss by those, of the types they have.

    Returns W2Gradients: the six streams, tau (a number), and mask (when it is float32), key_bias, relative_bias (of its
    table) and alibi_slopes where given. log_sigma is the log of the variance, so grad_log_sigma = grad_sigma * sigma / 2.
    """
    kind = kind_of(q_mu, "q_mu")
    shape, keys = shape_of(q_mu, "q_mu", 4), shape_of(k_mu, "k_mu", 4)[2]
    shape_of(v_mu, "v_mu", 4)
    lowered = low_level(shape, keys, **options)
    check_tensors({"k_mu": k_mu, "v_mu": v_mu, "v_log_sigma": v_log_sigma, "tau": tau, "lse": lse, **lowered})
    check_tensors({"out_mu": out_mu, "out_log_sigma": out_log_sigma, "grad_lse": grad_lse})
    check_tensors({"grad_out_mu": grad_out_mu, "grad_out_log_sigma": grad_out_log_sigma})
    q_sigma, k_sigma = _standard_deviations(q_log_sigma, k_log_sigma)
    gradients = [kind.empty(x.shape, x) for x in (q_mu, k_mu, v_mu, q_mu, k_mu, v_mu)]
    others = OptionGradients(kind, lowered)
    grad_tau = _phasor.w2_attention_backward(
        q_mu,
        k_mu,
        v_mu,
        q_sigma,
        k_sigma,
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
    gradients[3] = kind.half_product(gradients[3], q_sigma)
    gradients[4] = kind.half_product(gradients[4], k_sigma)
    streams = dict(zip(W2Gradients._fields, (kind.finish(array) for array in gradients)))
    return W2Gradients(**streams, tau=grad_tau, **others.finish(options.get("alibi_slopes")))
