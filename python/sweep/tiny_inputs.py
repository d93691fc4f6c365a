"""Random inputs for any model, by the names of its arguments: several guesses, of which the first that works is taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tiny_configs import FIRST_ORDINARY_TOKEN, IMAGE_TOKENS

BATCH, TOKENS, DECODER_TOKENS, SAMPLES = 2, 12, 9, 4000
Inputs = dict[str, Any]


def guesses(model: Any) -> Iterator[tuple[str, Inputs | Exception]]:
    """What kind of inputs, and they (or why they cannot be made): first the richest, with images beside text."""
    names = inspect.signature(model.forward).parameters
    required = [
        name
        for name, parameter in names.items()
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    config = model.config
    main = model.main_input_name
    if "input_ids" in names and "pixel_values" in names:
        for images in _IMAGES:
            guess = _filled(config, names, required, ["input_ids", "pixel_values"], {"pixel_values": images})
            if guess is not None:
                try:
                    for given in _with_image_tokens(model, config, names, guess):
                        yield "text and images", given
                except Exception as error:
                    yield "text and images", error
    kinds = {"input_ids": "text", "pixel_values": "images", "pixel_values_videos": "videos"}
    mains = [main] if main in names else []
    mains += [name for name in kinds if name in names and name != main]
    for name in mains:
        for change in _ALTERNATIVES.get(name, [{}]):
            guess = _filled(config, names, required, [name], change)
            if guess is not None:
                yield kinds.get(name, "sound" if name in ("input_features", "input_values") else "numbers"), guess
    guess = _filled(config, names, required, [], {})
    if guess:
        yield "numbers", guess


def _filled(
    config: Any, names: Any, required: list[str], wanted: list[str], change: dict[str, Callable[[Any], Any]]
) -> Inputs | None:
    """Tensors for the wanted and the required arguments, or None where one is not known."""
    wanted = [*wanted, *(name for name in required if name not in wanted)]
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in names:
        wanted.append("decoder_input_ids")
    if "pixel_values" in wanted and "input_ids" in wanted:
        wanted += [name for name in ("image_attention_mask", "image_embeds_position_mask") if name in names]
    if "query_embeds" in wanted and "encoder_hidden_states" in names:
        wanted.append("encoder_hidden_states")
    if "input_ids" in wanted and "bbox" in names:
        wanted.append("bbox")
    if "states" in wanted:
        wanted += [name for name in ("actions", "rewards", "returns_to_go", "timesteps") if name in names]
    if "input_features" in wanted and "input_features_mask" in names:
        wanted.append("input_features_mask")
    wanted = list(dict.fromkeys(wanted))
    makers = {**_MAKERS, **change}
    if "grid_thw" in names:
        makers["hidden_states"] = makers["pixel_values"] = _patches
    if any(name not in makers for name in wanted):
        return None
    given = {name: makers[name](config) for name in wanted}
    if "spatial_shapes" in names and "pixel_values" in given:
        given["pixel_values"] = _patches(config).unflatten(0, (BATCH, 16))
        given["spatial_shapes"], given["pixel_attention_mask"] = _grid(config)[:, 1:], torch.ones(BATCH, 16, dtype=torch.long)
    if "input_features_mask" in given:
        given["input_features_mask"] = torch.ones(BATCH, max(given["input_features"].shape[1:]), dtype=torch.long)
    if "input_ids" in given and "attention_mask" in names:
        given["attention_mask"] = torch.ones(BATCH, given["input_ids"].shape[1], dtype=torch.long)
    if "decoder_input_ids" in given and "decoder_attention_mask" in names:
        given["decoder_attention_mask"] = torch.ones(BATCH, DECODER_TOKENS, dtype=torch.long)
    return given


def _with_image_tokens(model: Any, config: Any, names: Any, given: Inputs) -> Iterator[Inputs]:
    """Places for the images among the tokens, as many as the model makes of them."""
    token = next((value for name, value in vars(config).items() if name in IMAGE_TOKENS and value is not None), None)
    if token is None or not hasattr(model, "get_image_features"):
        yield given
        return
    if "image_grid_thw" in names:
        given["image_grid_thw"], given["pixel_values"] = _grid(config), _patches(config)
        counts = [16 // (find(config, "spatial_merge_size") or 1) ** 2]
    else:
        if "image_sizes" in names:
            side = given["pixel_values"].shape[-1]
            given["image_sizes"] = torch.tensor([[side, side]] * BATCH)
        taken = inspect.signature(model.get_image_features).parameters
        counts = _tokens_of(model.get_image_features(**{k: v for k, v in given.items() if k in taken}))
    for count in counts:
        ids = tokens(config, TOKENS + count)
        ids[:, 2 : 2 + count] = token
        more = {**given, "input_ids": ids}
        if "attention_mask" in more:
            more["attention_mask"] = torch.ones_like(ids)
        for name in ("mm_token_type_ids", "token_type_ids"):
            if name in names:
                more[name] = (ids == token).long()
        yield more


def _tokens_of(features: Any) -> list[int]:
    """How many an image may take, by the shapes of what came of it."""
    found = []
    for part in (getattr(features, "pooler_output", None), getattr(features, "last_hidden_state", None), features):
        if isinstance(part, (list, tuple)) and part and isinstance(part[0], torch.Tensor):
            found.append(sum(each.numel() // each.shape[-1] for each in part) // BATCH)
        elif isinstance(part, torch.Tensor):
            found.append(part.numel() // part.shape[-1] // BATCH)
    return list(dict.fromkeys(found))


def find(config: Any, *names: str) -> Any:
    """The first of these fields that the configuration or one of its parts has, as a number."""
    parts = [config, *(value for value in vars(config).values() if hasattr(value, "to_dict"))]
    for part in [*parts[1:], config] if any(hasattr(each, names[0]) for each in parts[1:]) else parts:
        for name in names:
            value = getattr(part, name, None)
            if isinstance(value, (list, tuple)) and value and isinstance(value[0], int):
                return value[0]
            if isinstance(value, int):
                return value
    return None


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(11))


def tokens(config: Any, count: int) -> torch.Tensor:
    try:
        size = getattr(config.get_text_config(), "vocab_size", None)
    except ValueError:  # there are several
        size = None
    size = size or find(config, "vocab_size") or 2 * FIRST_ORDINARY_TOKEN
    low = FIRST_ORDINARY_TOKEN if size > FIRST_ORDINARY_TOKEN else 3
    return torch.randint(low, min(size, 250), (BATCH, count), generator=torch.Generator().manual_seed(3))


def _image(config: Any) -> tuple[int, int, int]:
    side = find(config, "image_size") or 64
    sides = getattr(config, "image_size", None) or getattr(getattr(config, "backbone_config", None), "image_size", None)
    height, width = sides if isinstance(sides, (list, tuple)) and len(sides) == 2 else (side, side)
    return find(config, "num_channels", "in_channels", "in_chans") or 3, height, width


def _grid(config: Any) -> torch.Tensor:
    """Images of 4 x 4 patches."""
    return torch.tensor([[1, 4, 4]] * BATCH)


def _patches(config: Any) -> torch.Tensor:
    channels, frames = find(config, "in_channels", "in_chans", "num_channels") or 3, find(config, "temporal_patch_size") or 1
    return normal(BATCH * 16, channels * frames * (find(config, "patch_size") or 14) ** 2)


def _decoder_tokens(config: Any) -> torch.Tensor:
    ids = tokens(config, DECODER_TOKENS)
    channels = getattr(getattr(config, "decoder_config", None), "num_channels", None)
    return ids if channels is None else ids[..., None].expand(-1, -1, channels)


def _boxes(config: Any) -> torch.Tensor:
    corner = torch.arange(TOKENS)[None, :, None].expand(BATCH, -1, 2)
    return torch.cat((corner, corner + 20), -1)


def _mels(config: Any) -> int:
    return find(config, "num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", "n_mels") or 80


def _frames(config: Any) -> int:
    return 2 * (find(config, "max_source_positions") or 32)


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "input_ids": lambda config: tokens(config, TOKENS),
    "decoder_input_ids": _decoder_tokens,
    "token_type_ids": lambda config: torch.zeros(BATCH, TOKENS, dtype=torch.long),
    "bbox": _boxes,
    "pixel_values": lambda config: normal(BATCH, *_image(config)),
    "pixel_values_videos": lambda config: normal(BATCH, find(config, "frames_per_clip", "num_frames") or 4, *_image(config)),
    "input_features": lambda config: normal(BATCH, _mels(config), _frames(config)),
    "input_values": lambda config: 0.1 * normal(BATCH, SAMPLES),
    "past_values": lambda config: normal(BATCH, find(config, "context_length") or 32, find(config, "num_input_channels") or 1),
    "states": lambda config: normal(BATCH, TOKENS, config.state_dim),
    "actions": lambda config: normal(BATCH, TOKENS, config.act_dim),
    "returns_to_go": lambda config: normal(BATCH, TOKENS, 1),
    "rewards": lambda config: normal(BATCH, TOKENS, 1),
    "timesteps": lambda config: torch.arange(TOKENS).expand(BATCH, -1),
    "grid_thw": _grid,
    "qformer_input_ids": lambda config: tokens(config, TOKENS),
    "image_attention_mask": lambda config: torch.ones(BATCH, TOKENS, 1, dtype=torch.long),
    "image_embeds_position_mask": lambda config: torch.arange(TOKENS).expand(BATCH, -1) < config.latent_query_num,
    "input_features_mask": lambda config: None,
    "query_embeds": lambda config: normal(BATCH, DECODER_TOKENS, config.hidden_size),
    "encoder_hidden_states": lambda config: normal(BATCH, TOKENS, getattr(config, "encoder_hidden_size", config.hidden_size)),
    "hidden_states": lambda config: normal(BATCH, TOKENS, config.hidden_size),
    "inputs_embeds": lambda config: normal(BATCH, TOKENS, config.hidden_size),
}  # fmt: skip
_IMAGES: list[Callable[[Any], Any]] = [
    lambda config: normal(BATCH, *_image(config)),
    lambda config: normal(BATCH, 1, *_image(config)),
]
_ALTERNATIVES: dict[str, list[dict[str, Callable[..., Any]]]] = {
    "pixel_values": [
        {},
        {"pixel_values": lambda config: normal(BATCH, find(config, "num_frames") or 4, *_image(config))},
        {"pixel_values": lambda config: normal(BATCH, 3, 224, 224)},
    ],
    "input_features": [
        {},
        *(
            {"input_features": lambda config, size=size, frames=frames: normal(BATCH, frames, size * _mels(config))}
            for size, frames in ((1, 64), (1, 200), (2, 64), (4, 64), (7, 64))
        ),
        {"input_features": lambda config: normal(BATCH, _mels(config), 200)},
    ],
    "input_values": [
        {},
        {"input_values": lambda config: normal(BATCH, find(config, "max_length") or 64, _mels(config))},
        {"input_values": lambda config: 0.1 * normal(BATCH, 1, SAMPLES)},
        {"input_values": lambda config: normal(BATCH, 8, find(config, "hidden_size") or 64)},
        {"input_values": lambda config: normal(BATCH, 64, _mels(config))},
    ],
}
