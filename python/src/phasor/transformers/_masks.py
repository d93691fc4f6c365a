"""The mask function: where queries and keys stand, instead of a tensor [B, 1, T, S]."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map
from transformers.masking_utils import eager_mask, prepare_padding_mask, sdpa_mask
from transformers.utils.import_utils import is_tracing

from phasor.transformers._models import takes_bool_masks
from phasor.transformers._patterns import Pattern, pattern_of


class PositionMask(torch.Tensor):
    """The mask [B, 1, T, S] that eager attention adds to scores, as options of phasor.torch.attention.

    It goes through the model in a mask's place. phasor reads `options`; for anybody else it is the eager mask: any
    operation on it makes that first. So code of a model that changes the mask, or adds it to scores, stays right.
    """

    options: dict[str, Any]
    make: Callable[[], torch.Tensor]

    @staticmethod
    def __new__(
        cls, shape: tuple[int, ...], dtype: torch.dtype, device: Any, options: dict[str, Any], make: Any
    ) -> PositionMask:
        mask: PositionMask = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        mask.options, mask.make = options, make
        return mask

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:  # checkpointing hands on detached arguments
            mask = args[0]
            return PositionMask(tuple(mask.shape), mask.dtype, mask.device, mask.options, mask.make)
        args, kwargs = tree_map(dense, (args, kwargs or {}))
        return func(*args, **kwargs)


def dense(mask: Any) -> Any:
    """The eager mask that a PositionMask stands for; anything else as it is."""
    return mask.make() if isinstance(mask, PositionMask) else mask


def added(mask: Any, dtype: torch.dtype) -> Any:
    """A mask as eager functions add it to scores."""
    mask = dense(mask)
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.where(mask, torch.zeros((), dtype=dtype, device=mask.device), torch.finfo(dtype).min)


def position_mask(
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: Any,
    attention_mask: torch.Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    device: Any = "cpu",
    **others: Any,
) -> torch.Tensor | None:
    """For transformers' AttentionMaskInterface; called once a forward pass and kind of layer."""
    arguments = {
        "batch_size": batch_size,
        "q_length": q_length,
        "kv_length": kv_length,
        "q_offset": q_offset,
        "kv_offset": kv_offset,
        "mask_function": mask_function,
        "attention_mask": attention_mask,
        "device": device,
        **others,
    }
    # A compiled graph takes plain tensors; on other devices attention will be eager's.
    if torch.device(device).type != "cpu" or is_tracing(attention_mask) or is_tracing(q_offset):
        return added(sdpa_mask(**arguments), dtype)
    # A static cache counts on in the tensor it gave us.
    arguments["q_offset"] = q_offset = int(q_offset)
    arguments["allow_is_causal_skip"] = arguments["allow_is_bidirectional_skip"] = False
    config: Any = type(others.get("config"))
    if takes_bool_masks(config):
        return sdpa_mask(**arguments)
    padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        padding = padding[:, kv_offset : kv_offset + kv_length]
    options = _options(pattern_of(mask_function), batch_size, q_length, q_offset - kv_offset, padding)
    if options is None:
        visible = sdpa_mask(**arguments)
        options, make = {"mask": visible}, functools.partial(added, visible, dtype)
    else:
        # What a pattern is made of takes all indices at once. An operation on a PositionMask cannot run vmap.
        arguments["use_vmap"] = False
        make = functools.partial(eager_mask, **arguments, dtype=dtype)
    return PositionMask((batch_size, 1, q_length, kv_length), dtype, device, options, make)


def _options(
    pattern: Pattern | None, batch: int, queries: int, offset: int, padding: torch.Tensor | None
) -> dict[str, Any] | None:
    """For phasor.torch.attention; None when only a dense mask can tell it."""
    if pattern is None:
        return None
    options: dict[str, Any] = {"causal": pattern.causal, "window": pattern.window}
    if pattern.sequences is None:
        options["query_offsets"] = torch.tensor([offset])
    elif batch == 1 and padding is None and pattern.sequences.shape[1] == queries:
        options["query_starts"] = _starts(pattern.sequences[0])
    else:
        return None
    if padding is not None:
        options |= _of_padding(padding)
    return options


def _starts(sequences: torch.Tensor) -> torch.Tensor:
    """[0, 0, 1, 1, 1] -> [0, 2, 5]."""
    counts = torch.unique_consecutive(sequences, return_counts=True)[1]
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


def _of_padding(padding: torch.Tensor) -> dict[str, Any]:
    """padding [B, S], True for tokens: lengths where the tokens come first, else a mask of keys."""
    lengths = padding.sum(-1)
    if bool((lengths == padding.shape[1]).all()):
        return {}
    if bool((padding == (torch.arange(padding.shape[1]) < lengths[:, None])).all()):
        return {"key_lengths": lengths}
    return {"mask": padding[:, None, None, :]}
