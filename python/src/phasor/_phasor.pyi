"""phasor's C++ functions on arrays given by the caller: no array is copied, results are written where the caller says, and
the GIL is released while they run. Arrays are NumPy's, torch's or any with DLPack, on the CPU, with a contiguous last
dimension; elements of q, k, v and out are float32, float16 or bfloat16, all of one type, those of other arrays float32."""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import numpy as np
from typing_extensions import Unpack

Array = Any
Integers = int | Sequence[int] | Array

class Options(TypedDict, total=False):
    scale: float | None  # 1/sqrt(D)
    causal: bool
    window_left: int | None  # p - left < j
    window_right: int | None  # j < p + right
    query_offsets: Integers | None  # one, or one for each sequence; S - T
    key_lengths: Integers | None
    query_starts: Integers | None  # cumulative lengths, both or none
    key_starts: Integers | None
    visible: Array | None  # bool, right-aligned with [B, H, T, S]
    mask: Array | None  # float32, likewise
    key_bias: Array | None  # float32, right-aligned with [B, G, S]
    relative_bias: Array | None  # float32 [H, span]
    first_distance: int
    q_cos: Array | None  # float32 [T, R/2] or [B, T, R/2]
    q_sin: Array | None
    k_cos: Array | None
    k_sin: Array | None
    pairing: str | None  # of q_cos, k_cos: "half" or "adjacent"
    softcap: float
    sinks: Array | None  # float32 [H]
    dropout: float
    seed: int  # 0 .. 2^64 - 1

__version__: str

def num_threads() -> int: ...
def set_num_threads(count: int) -> None: ...
def share_openmp_threads() -> bool: ...

# Where the functions of this module see an array's memory: for tests that nothing is copied.
def address(array: Array) -> int: ...
def simd_target() -> str: ...
def simd_targets() -> list[str]: ...
def set_simd_target(name: str) -> None: ...
def attention_forward(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array | None,
    weights: Array | None,
    **options: Unpack[Options],
) -> None: ...
def attention_backward(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array,
    grad_out: Array,
    grad_lse: Array | None,
    grad_q: Array,
    grad_k: Array,
    grad_v: Array,
    *,
    grad_mask: Array | None = None,
    grad_key_bias: Array | None = None,
    grad_relative_bias: Array | None = None,
    grad_sinks: Array | None = None,
    **options: Unpack[Options],
) -> None: ...

# sigma is the standard deviation, exp(log_sigma / 2) where log_sigma is the log of the variance. v_spread is averaged as
# it is: the log of the variance, in the W2 transformer.
def w2_attention_forward(
    q_mu: Array,
    k_mu: Array,
    v_mu: Array,
    q_log_sigma: Array,
    k_log_sigma: Array,
    v_log_sigma: Array,
    out_mu: Array,
    out_log_sigma: Array,
    lse: Array | None,
    weights: Array | None,
    *,
    tau: float = 1.0,
    eps: float = 1e-6,
    **options: Unpack[Options],
) -> None: ...

# Returns the gradient of tau.
def w2_attention_backward(
    q_mu: Array,
    k_mu: Array,
    v_mu: Array,
    q_log_sigma: Array,
    k_log_sigma: Array,
    v_log_sigma: Array,
    out_mu: Array,
    out_log_sigma: Array,
    lse: Array,
    grad_out_mu: Array,
    grad_out_log_sigma: Array,
    grad_lse: Array | None,
    grad_q_mu: Array,
    grad_k_mu: Array,
    grad_v_mu: Array,
    grad_q_log_sigma: Array,
    grad_k_log_sigma: Array,
    grad_v_log_sigma: Array,
    *,
    tau: float = 1.0,
    eps: float = 1e-6,
    grad_mask: Array | None = None,
    grad_key_bias: Array | None = None,
    grad_relative_bias: Array | None = None,
    grad_sinks: Array | None = None,
    **options: Unpack[Options],
) -> float: ...
def apply_rotary(
    x: Array, cos: Array, sin: Array, out: Array, *, pairing: str, transpose: bool = False
) -> None: ...
def sinusoidal(length: int, dim: int, theta: float = 10000.0) -> np.ndarray[Any, np.dtype[np.float32]]: ...
def alibi_slopes(heads: int) -> np.ndarray[Any, np.dtype[np.float32]]: ...
def t5_buckets(
    first: int, count: int, *, buckets: int, max_distance: int, bidirectional: bool
) -> list[int]: ...
def pairing_permutation(to: str, head_dim: int, rotary_dim: int = 0) -> list[int]: ...
def precompute_freqs_cis(
    dim: int, end: int, theta: float = 10000.0
) -> np.ndarray[Any, np.dtype[np.complex64]]: ...
def encodings() -> list[tuple[str, str, str, str, str]]: ...

class RopeConfig:
    @staticmethod
    def make(
        head_dim: int,
        theta: float,
        scaling_json: str,
        max_position_embeddings: int,
        rotary_dim: int,
        pairing: str,
    ) -> RopeConfig: ...
    @staticmethod
    def read(json: str, layer_type: str) -> RopeConfig: ...
    head_dim: int
    theta: float
    max_position_embeddings: int
    rotary_dim: int
    pairing: Literal["half", "adjacent"]
    scaling_type: str
    axes: int
    def frequencies(self, length: int = 0) -> tuple[np.ndarray[Any, np.dtype[np.float64]], float]: ...
    def score_scale(self, head_dim: int) -> float: ...
    def table(self, positions: Array, length: int | None = None) -> tuple[Any, Any]: ...

class KVCache:
    def __init__(
        self,
        batch: int,
        key_heads: int,
        capacity: int,
        channels: int,
        value_channels: int = 0,
        dtype: str = "float32",
        rotated: bool = True,
    ) -> None: ...
    def append(
        self,
        k: Array,
        v: Array,
        cos: Array | None = None,
        sin: Array | None = None,
        pairing: str | None = None,
        counts: Integers | None = None,
    ) -> None: ...
    def attention(
        self, q: Array, out: Array, lse: Array | None, weights: Array | None, **options: Unpack[Options]
    ) -> None: ...
    def truncate(self, b: int, length: int) -> None: ...
    def clear(self) -> None: ...
    lengths: list[int]
    dtype: str
    batch: int
    key_heads: int
    capacity: int
    channels: int
    value_channels: int
    keys: Any
    values: Any
