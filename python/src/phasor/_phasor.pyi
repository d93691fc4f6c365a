"""phasor's C++ functions on arrays given by the caller: no array is copied, results are written where the caller says, and
the GIL is released while they run. Arrays are NumPy's, torch's or any with DLPack, on the CPU, with a contiguous last
dimension; elements of q, k, v and out are float32, float16 or bfloat16, all of one type, those of other arrays float32."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from typing_extensions import Unpack

from phasor._options import AttentionOptions
from phasor._rotary import RotaryTable

Array = Any
Integers = int | Sequence[int] | Array

__version__: str

class Tokenizer:
    @staticmethod
    def from_file(path: str) -> Tokenizer: ...
    def encode(self, text: bytes, add_special_tokens: bool) -> list[int]: ...
    def encode_pair(
        self, first: bytes, second: bytes, add_special_tokens: bool
    ) -> tuple[list[int], list[int], list[int]]: ...
    def encode_batch(
        self, texts: list[bytes], add_special_tokens: bool
    ) -> list[tuple[list[int], list[int], list[int]]]: ...
    def decode(self, ids: list[int], skip_special_tokens: bool) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    def token_to_id(self, token: str) -> int | None: ...
    def id_to_token(self, id: int) -> str | None: ...

class StreamDecoder:
    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool) -> None: ...
    def put(self, id: int) -> str: ...
    def finish(self) -> str: ...

class StopTexts:
    def __init__(self, texts: list[str]) -> None: ...
    def put(self, part: str) -> str: ...
    @property
    def found(self) -> bool: ...
    def finish(self) -> str: ...

class Generation:
    def next(self) -> int | None: ...

class Model:
    def __init__(self, folder: str, precision: str) -> None: ...
    @property
    def tokenizer(self) -> Tokenizer | None: ...
    @property
    def stop_tokens(self) -> list[int]: ...
    # Whether it is of two transformers.
    @property
    def translates(self) -> bool: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def longest(self) -> int | None: ...
    # ids [B, T] of int32, out [B, T, V].
    def logits(self, ids: Array, out: Array) -> None: ...
    def embed(
        self, texts: list[bytes], pooling: str | None, normalize: bool | None, batch: int
    ) -> np.ndarray[Any, np.dtype[np.float32]]: ...
    def generate(
        self,
        ids: list[int],
        max_tokens: int,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        repetition_penalty: float,
        seed: int,
        cache: str | None,
    ) -> Generation: ...

def num_threads() -> int: ...
def set_num_threads(count: int) -> None: ...
def precision() -> str: ...
def set_precision(name: str) -> None: ...
def share_openmp_threads() -> bool: ...

# Where the functions of this module see an array's memory: for tests that nothing is copied.
def address(array: Array) -> int: ...
def simd_target() -> str: ...
def simd_targets() -> list[str]: ...
def set_simd_target(name: str) -> None: ...

# The table of options: name, type, shape, default, whether it has a gradient, documentation. Options are given by these
# names; arrays are right-aligned with the shapes.
def attention_options() -> list[tuple[str, str, str, Any, bool, str]]: ...
def make_block_mask(visible: Array, query_block: int = 128, key_block: int = 128) -> tuple[Any, Any]: ...
def attention_forward(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    lse: Array | None,
    softmax: Array | None,
    weights: Array | None,
    **options: Unpack[AttentionOptions],
) -> None: ...

# Raises what attention_forward would for arrays of these shapes, of float32, and computes nothing.
def check_attention(q: Array, k: Array, v: Array, **options: Unpack[AttentionOptions]) -> None: ...

# option_gradients: memory for the gradients of options, by the names of these.
def attention_backward(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    softmax: Array,
    grad_out: Array,
    grad_lse: Array | None,
    grad_q: Array,
    grad_k: Array,
    grad_v: Array,
    *,
    option_gradients: dict[str, Array],
    **options: Unpack[AttentionOptions],
) -> None: ...

# log_sigma is the log of the variance: sigma = exp(log_sigma / 2).
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
    softmax: Array | None,
    weights: Array | None,
    *,
    tau: float = 1.0,
    eps: float = 1e-6,
    **options: Unpack[AttentionOptions],
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
    softmax: Array,
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
    option_gradients: dict[str, Array],
    tau: float = 1.0,
    eps: float = 1e-6,
    **options: Unpack[AttentionOptions],
) -> float: ...
def check_w2_attention(
    q_mu: Array,
    k_mu: Array,
    v_mu: Array,
    q_log_sigma: Array,
    k_log_sigma: Array,
    v_log_sigma: Array,
    *,
    tau: float = 1.0,
    eps: float = 1e-6,
    **options: Unpack[AttentionOptions],
) -> None: ...

# XLA's handlers for jax.ffi, by name: capsules of function pointers.
def jax_handlers() -> dict[str, Any]: ...
def merge_attention(
    out: Array, lse: Array, out2: Array, lse2: Array, merged_out: Array, merged_lse: Array
) -> None: ...
def merge_attention_backward(
    out: Array,
    lse: Array,
    out2: Array,
    lse2: Array,
    merged_out: Array,
    merged_lse: Array,
    grad_out: Array,
    grad_lse: Array | None,
    result_out: Array,
    result_lse: Array,
    result_out2: Array,
    result_lse2: Array,
) -> None: ...
def apply_rotary(x: Array, table: RotaryTable, out: Array, *, transpose: bool = False) -> None: ...
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

class _Cache:
    def append(
        self,
        k: Array,
        v: Array,
        rotation: RotaryTable | None = None,
        counts: Integers | None = None,
    ) -> None: ...
    def attention(
        self, q: Array, out: Array, lse: Array | None, weights: Array | None, **options: Unpack[AttentionOptions]
    ) -> None: ...
    def truncate(self, b: int, length: int) -> None: ...
    def clear(self) -> None: ...
    lengths: list[int]
    dtype: str
    batch: int
    key_heads: int
    channels: int
    value_channels: int
    keys: Any
    values: Any
    key_scales: Any
    value_scales: Any

class KVCache(_Cache):
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
    capacity: int

class PagedKVCache(_Cache):
    def __init__(
        self,
        batch: int,
        key_heads: int,
        pages: int,
        page_size: int,
        channels: int,
        value_channels: int = 0,
        dtype: str = "float32",
        rotated: bool = True,
    ) -> None: ...
    def share(self, source: int, to: int, length: int) -> None: ...
    pages: int
    page_size: int
    free_pages: int
    block_table: list[list[int]]

def paged_attention(
    q: Array,
    keys: Array,
    values: Array,
    block_table: Array,
    lengths: Integers,
    key_scales: Array | None,
    value_scales: Array | None,
    out: Array,
    lse: Array | None,
    weights: Array | None,
    **options: Unpack[AttentionOptions],
) -> None: ...
