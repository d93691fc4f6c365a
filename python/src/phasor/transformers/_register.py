"""Making phasor known to transformers."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

import transformers
from torch import nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel

from phasor.transformers._attention import attention_forward
from phasor.transformers._masks import position_mask

NAME = "phasor"
VERSIONS = ">=5.22,<5.23"  # of transformers; python/tests_torch/test_transformers_*.py run with them
_FIRST, _BEYOND = (5, 22), (5, 23)


def register() -> None:
    """Make attn_implementation="phasor" known to transformers, for this process. Calling it again changes nothing.

    transformers older than VERSIONS: ImportError. Newer: a warning, since nobody has tested it.
    """
    _check_version(transformers.__version__)
    ALL_ATTENTION_FUNCTIONS.register(NAME, attention_forward)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, position_mask)
    _refuse_others()


def _check_version(version: str) -> None:
    given = tuple(int(number) for number in version.split(".")[:2])
    if given < _FIRST:
        raise ImportError(f"[register] transformers: version {version}, expected {VERSIONS}")
    if given >= _BEYOND:
        warnings.warn(
            f"phasor.transformers was tested with transformers {VERSIONS}; this is {version}: compare results with "
            'attn_implementation="eager" before you rely on them',
            stacklevel=3,
        )


@functools.cache  # once a process
def _refuse_others() -> None:
    """transformers takes a registered name for any model; one that never calls the function would run on unnoticed."""
    choose, change = PreTrainedModel.get_correct_attn_implementation, PreTrainedModel.set_attn_implementation

    @functools.wraps(choose)
    def checked_choose(self: Any, requested_attention: Any, *args: Any, **kwargs: Any) -> Any:
        if requested_attention == NAME:
            check_model(type(self))
        return choose(self, requested_attention, *args, **kwargs)

    @functools.wraps(change)
    def checked_change(self: Any, attn_implementation: Any, *args: Any, **kwargs: Any) -> Any:
        if attn_implementation == NAME:
            for part in self.modules():
                if isinstance(part, PreTrainedModel):
                    check_model(type(part))
        return change(self, attn_implementation, *args, **kwargs)

    PreTrainedModel.get_correct_attn_implementation = checked_choose
    PreTrainedModel.set_attn_implementation = checked_change


def check_model(model: type) -> None:
    """ValueError for a class of models that computes attention by itself."""
    for part in model.__mro__:
        if part is PreTrainedModel:
            return
        if issubclass(part, PreTrainedModel) and not _calls_interface(part):
            raise ValueError(
                f'[register] attn_implementation: "{NAME}" for {model.__name__}, expected "eager" or "sdpa": it '
                "computes attention in code of its own, not through transformers' attention interface. Where only a "
                f'part of a model does, name the others: attn_implementation={{"text_config": "{NAME}"}}'
            )


def _calls_interface(model: Any) -> bool:
    """Whether a file of models has the interface and declares that other functions than eager may stand in.

    Files with no attention at all put other models together; those are asked themselves.
    """
    file = sys.modules.get(model.__module__)
    names = {} if file is None else vars(file)
    if any(value is ALL_ATTENTION_FUNCTIONS for value in names.values()):
        return bool(
            model._supports_sdpa
            or model._supports_flash_attn
            or model._supports_flex_attn
            or model._supports_attention_backend
        )
    return not any(_is_attention(value) and value.__module__ == model.__module__ for value in names.values())


def _is_attention(value: Any) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, nn.Module)
        and not issubclass(value, PreTrainedModel)
        and "Attention" in value.__name__
    )
