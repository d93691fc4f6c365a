"""phasor.transformers' masks: options that mean what the eager mask says."""

from __future__ import annotations

import phasor.torch
import pytest
import torch
import transformers
from phasor.transformers._masks import PositionMask, dense, position_mask
from torch.testing import assert_close
from transformers import masking_utils as hf

B, T, D = 2, 6, 8
# name -> mask function, whether a mask with rows of queries is needed
FUNCTIONS = {
    "causal": (hf.causal_mask_function, False),
    "full": (hf.bidirectional_mask_function, False),
    "window": (hf.sliding_window_causal_mask_function(3), False),
    "window both ways": (hf.sliding_window_bidirectional_mask_function(2), False),
    "two windows": (hf.and_masks(hf.sliding_window_overlay(3), hf.sliding_window_causal_mask_function(4)), True),
    "chunks": (hf.chunked_causal_mask_function(3, torch.zeros(B, dtype=torch.int64)), True),
    "prefix": (hf.or_masks(hf.causal_mask_function, lambda b, h, q, k: k < 2), True),
    "packed": (
        hf.and_masks(
            hf.causal_mask_function, hf.packed_sequence_mask_function(torch.tensor([[0, 0, 1, 1, 1, 2, 2, 2]] * B))
        ),
        True,
    ),
}
PADDINGS = {
    "none": None,
    "left": [[0, 0, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]],
    "right": [[1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]],
    "all": [[1] * 8] * 2,
    "holes": [[1, 1, 0, 1, 1, 0, 1, 1], [0, 1, 1, 1, 1, 1, 1, 0]],
    "short": [[1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]],
}
# queries and keys stand from these positions on: no cache, a cache, one that lost its first keys, a static one
PLACES = {"start": (0, 0, 6), "cache": (2, 0, 8), "window left": (2, 1, 7), "static": (1, 0, 8)}


def masks(function, padding, place, batch=B):
    """The PositionMask and the eager mask of the same arguments."""
    q_offset, kv_offset, keys = place
    if padding is not None:
        padding = torch.tensor(padding, dtype=torch.bool)
    arguments = {
        "batch_size": batch,
        "q_length": T,
        "kv_length": keys,
        "q_offset": torch.tensor(q_offset),
        "kv_offset": kv_offset,
        "mask_function": function,
        "attention_mask": padding,
    }
    mask = position_mask(**arguments, allow_is_causal_skip=True, allow_is_bidirectional_skip=True)
    return mask, hf.eager_mask(**arguments)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_say_what_the_eager_mask_says(name, padding, place):
    function, needs_rows = FUNCTIONS[name]
    mask, expected = masks(function, PADDINGS[padding], PLACES[place])
    assert isinstance(mask, PositionMask)
    assert mask.shape == expected.shape and mask.dtype is expected.dtype
    assert torch.equal(dense(mask), expected)
    assert needs_rows == ("mask" in mask.options and mask.options["mask"].shape[-2] > 1)
    q, k = torch.randn(B, 2, T, D), torch.randn(B, 2, expected.shape[-1], D)
    weights = phasor.torch.attention(q, k, k, **mask.options, return_weights=True)[1]
    seen = (weights > 0).any(1, keepdim=True)
    assert torch.equal(seen, (expected == 0).expand_as(seen))


def test_packed_sequences_of_one_row_are_lengths():
    sequences = torch.tensor([[0, 0, 1, 1, 1, 2]])
    function = hf.and_masks(
        hf.sliding_window_causal_mask_function(2), hf.packed_sequence_mask_function(sequences)
    )
    mask, expected = masks(function, None, (0, 0, T), batch=1)
    assert mask.options["query_starts"].tolist() == [0, 2, 5, 6]
    q = torch.randn(1, 2, T, D)
    out = phasor.torch.attention(q, q, q, **mask.options)
    assert_close(out, phasor.torch.attention(q, q, q, mask=expected))


def test_for_anybody_else_it_is_the_eager_mask():
    mask, expected = masks(FUNCTIONS["window"][0], PADDINGS["left"], PLACES["cache"])
    assert torch.equal(mask + 0.0, expected)
    assert torch.equal(mask[:, :, -1:, :3], expected[:, :, -1:, :3])
    assert torch.equal(torch.cat((mask, mask)), torch.cat((expected, expected)))
    assert torch.equal(mask.to(torch.float16), expected.to(torch.float16))
    assert mask.contiguous() is mask
    assert mask.detach().options is mask.options


def test_on_other_devices_it_is_a_plain_tensor():
    arguments = {"batch_size": 1, "q_length": 3, "kv_length": 8, "mask_function": hf.causal_mask_function}
    mask = position_mask(**arguments, q_offset=1, device="meta")
    assert type(mask) is torch.Tensor and mask.is_meta and mask.is_floating_point()
    assert mask.shape == (1, 1, 3, 8)


def test_an_offset_that_counts_on_is_read_at_once():
    """As the one of a static cache, before attention has run."""
    offset = torch.tensor(2)
    arguments = {"batch_size": 1, "q_length": 1, "kv_length": 8, "mask_function": hf.causal_mask_function}
    mask = position_mask(**arguments, q_offset=offset)
    offset += 1
    assert mask.options["query_offsets"].tolist() == [2]
    assert (dense(mask)[0, 0, 0] == 0).sum() == 3


def blocks(ids):
    """Tokens of a block see each other, as images do in Gemma."""
    return lambda b, h, i, j: (ids[b, i] == ids[b, j]) & (ids[b, i] >= 0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("with_or", [True, False])
def test_a_mask_made_by_vmap_is_sliced(with_or, mode):
    """Gemma 4 makes its mask with or_mask_function, which transformers runs under vmap, and slices it."""
    function = hf.causal_mask_function
    if with_or:
        function = hf.or_masks(function, blocks(torch.tensor([[0, 0, 1, 1, -1, -1]])))
    arguments = {"batch_size": 1, "q_length": 6, "kv_length": 6, "mask_function": function, "use_vmap": True}
    with mode():
        mask = position_mask(**arguments, dtype=torch.float32)
        expected = hf.eager_mask(**arguments, dtype=torch.float32)
        assert isinstance(mask, PositionMask)
        assert torch.equal(mask[:, :, -2:, :4], expected[:, :, -2:, :4])
        assert torch.equal(mask + 0, expected)


@pytest.mark.skipif(not hasattr(transformers, "NemotronAsrStreamingEncoder"), reason="not in this transformers")
def test_models_that_read_masks_as_sdpa_has_them():
    """It hides what the mask calls seen where the mask is added to scores, and gives NaN for eager."""
    config = transformers.NemotronAsrStreamingEncoderConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, num_mel_bins=16
    )
    sound = torch.randn(2, 64, 16, generator=torch.Generator().manual_seed(0))
    outputs = {}
    for name in ("sdpa", "phasor"):
        config._attn_implementation = name
        torch.manual_seed(0)
        outputs[name] = transformers.NemotronAsrStreamingEncoder(config).eval()(sound).last_hidden_state
    assert outputs["sdpa"].std() > 0.1
    assert_close(outputs["phasor"], outputs["sdpa"], rtol=1e-4, atol=1e-4)
