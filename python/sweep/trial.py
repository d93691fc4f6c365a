"""One model type: a tiny random model with attn_implementation="phasor" beside "eager".

    trial.py TYPE...    prints a line of JSON for each
"""

from __future__ import annotations

import copy
import json
import os
import resource
import signal
import sys
import time
import warnings
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.dont_write_bytecode = True  # leave no __pycache__ in the sources

import phasor.transformers
import torch
import transformers
from comparison import Comparison, NoTrial, paddings, seeded, short
from phasor.transformers import _attention
from tiny_configs import WAYS, tiny_config
from tiny_inputs import Inputs, guesses
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from types_of_models import CHANGES, classes_of

LARGEST = 60_000_000  # parameters of a model that is tried
MEMORY, SECONDS = 8 << 30, 120  # of this process; of processor time, for a type
SEEDS = (7, 8, 9)  # of weights; the others are tried where the first shows a difference


class Refused(Exception):
    """By phasor, and in what words."""


class WithoutAttention(Exception):
    """No module of the model is one of attention."""


def trial(model_type: str) -> dict[str, Any]:
    """What came of it: outcome, and the reason or notes."""
    reasons = []
    for name in classes_of(model_type):
        model_class = getattr(transformers, name, None)
        if model_class is None:  # the auto classes name it, but it is not public
            reasons.append(f"transformers has no {name}")
            continue
        try:
            return _of_class(model_type, model_class) | {"class": name}
        except Refused as refusal:
            return {"outcome": "refused", "class": name, "reason": str(refusal)}
        except WithoutAttention:
            return {"outcome": "without attention", "class": name}
        except NoTrial as reason:
            reasons.append(f"{name}: {reason}")
    return {"outcome": "not tried", "reason": "; ".join(reasons) or "no class of models"}


def _of_class(model_type: str, model_class: Any) -> dict[str, Any]:
    config, eager, kind, given = _working(model_type, model_class)
    ours = _twin(eager, config, "phasor")
    if isinstance(ours, str):
        raise Refused(ours)
    comparisons = []
    with warnings.catch_warnings(record=True) as warned, recorded_calls() as calls:
        warnings.simplefilter("always")
        for seed in SEEDS:
            _random_weights(eager, seed)
            ours.load_state_dict(eager.state_dict())
            comparisons.append(_compared(eager, ours, lambda: _twin(eager, config, "sdpa"), given))
            if not comparisons[0].different:
                break
    # With two of three weights: at a kink of ReLU and in a router, rounding alone may decide, but not often.
    last = comparisons[-1]
    differs = sum(bool(comparison.different) for comparison in comparisons) > 1
    if not last.compared:
        raise NoTrial("nothing could be compared")
    outcome = "different" if differs else "rounding" if last.rounding else "as sdpa" if last.as_sdpa else "equal"
    if not calls:
        outcome = "never called" if _attention_modules(eager) else "without attention"
    return {
        "outcome": outcome,
        "inputs": kind,
        "calls": len(calls),
        "compared": last.compared,
        "different": [text for comparison in comparisons for text in comparison.different],
        "rounding": last.rounding,
        "as sdpa": last.as_sdpa,
        "fallbacks": sorted({str(each.message) for each in warned if "runs its eager attention" in str(each.message)}),
        "modules": [] if calls else _attention_modules(eager),
    }


def _compared(eager: Any, ours: Any, make_sdpa: Any, given: Inputs) -> Comparison:
    comparison = Comparison(eager, ours, make_sdpa)
    try:
        for name, case in paddings(given):
            comparison.forward(name, case)
        if eager.can_generate():
            comparison.generation(dict(paddings(given)).get("padding on the left", given))
    except NotImplementedError as error:
        if "[attention_forward]" in str(error):
            raise Refused(str(error)) from error
        raise
    return comparison


def _attention_modules(model: Any) -> list[str]:
    names = {type(part).__name__ for part in model.modules()}
    return sorted(name for name in names if "Attention" in name or "Attn" in name)


def _calls_interface(model_class: Any) -> bool:
    return any(value is ALL_ATTENTION_FUNCTIONS for value in vars(sys.modules[model_class.__module__]).values())


def _working(model_type: str, model_class: Any) -> tuple[Any, Any, str, Inputs]:
    """A configuration, its eager model and inputs, with which the model runs."""
    reasons: dict[str, None] = {}
    for way in WAYS:
        try:
            config = tiny_config(CONFIG_MAPPING[model_type], way, CHANGES.get(model_type, {}))
            _refuse_early(config, model_class)
            eager = _eager(config, model_class)
            found = list(guesses(eager))
        except (Refused, WithoutAttention, TimeoutError):
            raise
        except Exception as error:
            reasons[short(error)] = None
            continue
        if not found:
            reasons["its inputs are not known"] = None
        for kind, given in found:
            try:
                if isinstance(given, Exception):
                    raise given
                seeded(eager, given)
                return config, eager, kind, given
            except TimeoutError:
                raise
            except Exception as error:
                reasons[short(error)] = None
    raise NoTrial(" | ".join([*list(reasons)[:2], *list(reasons)[2:][-1:]]))


def _refuse_early(config: Any, model_class: Any) -> None:
    """Models that phasor refuses need no inputs; those that are too large are not made."""
    config = copy.deepcopy(config)
    config._attn_implementation = "phasor"
    with torch.device("meta"):
        try:
            model = model_class(config)
        except ValueError as error:
            if "[register] attn_implementation" in str(error):
                raise Refused(str(error)) from error
            raise
    size = sum(parameter.numel() for parameter in model.parameters())
    if size > LARGEST:
        name, largest = max(model.named_parameters(), key=lambda each: each[1].numel())
        raise NoTrial(f"{size / 1e6:.0f} million parameters, most of them in {name} {list(largest.shape)}")
    if not _attention_modules(model) and not _calls_interface(model_class):
        raise WithoutAttention()


def _eager(config: Any, model_class: Any) -> Any:
    config = copy.deepcopy(config)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = model_class(config).float().eval()
    _random_weights(model, SEEDS[0])
    return model


def _random_weights(model: Any, seed: int) -> None:
    """Large enough that attention is far from uniform, small enough that rounding stays rounding."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2:
                size = 0.5 if "embed" in name else (parameter[0].numel() or 1) ** -0.5
                parameter.normal_(0.0, size, generator=generator)
            elif "bias" in name or "sink" in name or not parameter.isfinite().all() or parameter.abs().max() > 1e4:
                parameter.normal_(0.0, 0.3, generator=generator)


def _twin(eager: Any, config: Any, implementation: str) -> Any:
    """The same model with another implementation, or why it is refused."""
    config = copy.deepcopy(config)
    config._attn_implementation = implementation
    torch.manual_seed(0)
    try:
        model = type(eager)(config).float().eval()
    except ValueError as error:
        return str(error)
    model.load_state_dict(eager.state_dict())
    return model


class recorded_calls(list):  # type: ignore[type-arg]
    """A list that gets an entry for each call of phasor's attention by the models."""

    def __enter__(self) -> recorded_calls:
        self._attention = _attention.attention

        def recorded(*tensors: Any, **options: Any) -> Any:
            self.append(sorted(options))
            return self._attention(*tensors, **options)

        _attention.attention = recorded
        return self

    def __exit__(self, *_: Any) -> None:
        _attention.attention = self._attention


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds of processor time")


def main() -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, _too_long)
    phasor.transformers.register()
    for model_type in sys.argv[1:]:
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            result = trial(model_type)
        except (TimeoutError, MemoryError) as error:
            result = {"outcome": "not tried", "reason": short(error)}
        except Exception as error:
            result = {"outcome": "different", "different": [short(error)]}
            if os.environ.get("SWEEP_TRACE"):
                raise
        signal.setitimer(signal.ITIMER_PROF, 0)
        result = {"type": model_type, **result, "seconds": round(time.monotonic() - start, 1)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
