"""Making phasor known to transformers."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import transformers
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel

from phasor.transformers._attention import attention_forward
from phasor.transformers._masks import position_mask
from phasor.transformers._models import NAME, check_model
from phasor.transformers._paged import allow_continuous_batching

VERSIONS = ">=5.22,<5.24"  # of transformers; python/tests_torch/test_transformers_*.py run with them
_FIRST, _BEYOND = (5, 22), (5, 24)


def register() -> None:
    """Make attn_implementation="phasor" known to transformers, for this process. Calling it again changes nothing.

    transformers older than VERSIONS: ImportError. Newer: a warning, since nobody has tested it.
    """
    _check_version(transformers.__version__)
    ALL_ATTENTION_FUNCTIONS.register(NAME, attention_forward)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, position_mask)
    _refuse_others()
    allow_continuous_batching()


def _check_version(version: str) -> None:
    given = tuple(int(number) for number in version.split(".")[:2])
    if given < _FIRST:
        raise ImportError(f"[register] transformers: version {version}, expected {VERSIONS}")
    if given >= _BEYOND:
        _warn_of_version(version)


@functools.cache  # once a process
def _warn_of_version(version: str) -> None:
    warnings.warn(
        f"phasor.transformers was tested with transformers {VERSIONS}; this is {version}: compare results with "
        'attn_implementation="eager" before you rely on them',
        stacklevel=4,
    )


@functools.cache  # once a process
def _refuse_others() -> None:
    """Models that phasor does not compute raise when they are made, or changed to it."""
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
