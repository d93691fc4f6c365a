"""Which models phasor computes: those whose file calls transformers' attention interface, and all that they hand to it.

transformers takes a registered name for any model. A model that never calls the function would run on unnoticed; one
that hands it a keyword it does not know, such as the `indices` of sparse attention, would be computed wrongly.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from types import ModuleType
from typing import Any

from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel

NAME = "phasor"
# Keywords of the attention function: what is computed, and what changes no result or is in the mask as well.
_COMPUTED = {"module", "query", "key", "value", "attention_mask", "scaling", "dropout", "is_causal", "softcap", "s_aux"}
_HARMLESS = {"output_attentions", "position_ids", "sliding_window", "deterministic"} | {
    f"{name}_{side}" for name in ("cu_seq_lens", "max_length") for side in "qk"
}
KNOWN = _COMPUTED | _HARMLESS | {"position_bias"}


def check_model(model: type) -> None:
    """ValueError for a class of models that phasor does not compute."""
    for part in model.__mro__:
        if part.__module__ == PreTrainedModel.__module__:
            return  # what all models have, and the base of audio tokenizers
        if issubclass(part, PreTrainedModel):
            reason = _why_not(part)
            if reason is not None:
                raise ValueError(
                    f'[register] attn_implementation: "{NAME}" for {model.__name__}, expected "eager" or "sdpa": {reason}. '
                    f'Where only a part of a model does, name the others: attn_implementation={{"text_config": "{NAME}"}}'
                )


def _why_not(model: Any) -> str | None:
    file = sys.modules.get(model.__module__)
    if file is None:
        return None
    if not any(value is ALL_ATTENTION_FUNCTIONS for value in vars(file).values()):
        # Files with no attention at all put other models together; those are asked themselves.
        own = any(_is_attention(value) and value.__module__ == model.__module__ for value in vars(file).values())
        return _OF_ITS_OWN if own else None
    supported = model._supports_sdpa or model._supports_flash_attn or model._supports_flex_attn
    if not (supported or model._supports_attention_backend):
        return _OF_ITS_OWN
    return _what_it_hands_on(file)


_OF_ITS_OWN = "it computes attention in code of its own, not through transformers' attention interface"


def _is_attention(value: Any) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, nn.Module)
        and not issubclass(value, PreTrainedModel)
        and "Attention" in value.__name__
    )


@functools.cache
def _what_it_hands_on(file: ModuleType) -> str | None:
    """Why the calls of a file's attention functions cannot be phasor's, by its source; None where they can."""
    try:
        tree = ast.parse(inspect.getsource(file))
    except (OSError, TypeError, SyntaxError):
        return None  # no source: attention_forward looks at what it is given
    functions = _names_of_interfaces(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
            for keyword in node.keywords:
                if keyword.arg is not None and keyword.arg not in KNOWN:
                    return f"it hands {keyword.arg} to the attention function, which phasor does not know"
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice).endswith("._attn_implementation"):
            table = getattr(file, ast.unparse(node.value), None)
            if isinstance(table, dict) and NAME not in table:
                return f"it has classes of its own for {', '.join(map(str, table))}"
    return None


def _names_of_interfaces(tree: ast.Module) -> set[str]:
    """Variables that hold one of ALL_ATTENTION_FUNCTIONS."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            if "ALL_ATTENTION_FUNCTIONS" in ast.unparse(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@functools.cache
def takes_bool_masks(config: type) -> bool:
    """Whether the code of a configuration's models reads masks as sdpa's, True for what is seen (Nemotron ASR)."""
    file = sys.modules.get(config.__module__.replace(".configuration_", ".modeling_"))
    try:
        return file is not None and "attention_mask.logical_not()" in inspect.getsource(file)
    except (OSError, TypeError):  # no source: a configuration made by hand, or none
        return False
