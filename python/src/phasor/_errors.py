"""Errors in the user's terms: of the C++ functions under the names that arguments have in Python, and of what is missing."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

_NAMES = {
    "rotate_q": "q_rotary",
    "rotate_k": "k_rotary",
    "q_cos": "q_rotary",
    "q_sin": "q_rotary",
    "k_cos": "k_rotary",
    "k_sin": "k_rotary",
    "visible": "mask",
    "query_offsets": "query_offset",
    "query_starts": "cumulative_lengths",
    "key_starts": "cumulative_lengths",
    "query_starts, key_starts": "cumulative_lengths",
    "window_left": "window",
    "window_right": "window",
    "epsilon": "eps",
    "q.mean": "q_mu",
    "k.mean": "k_mu",
    "v.mean": "v_mu",
    "out.mean": "out_mu",
    "grad_out.mean": "grad_out_mu",
    "q.spread": "q_log_sigma",
    "k.spread": "k_log_sigma",
    "v.spread": "v_log_sigma",
    "out.spread": "out_log_sigma",
    "grad_out.spread": "grad_out_log_sigma",
}

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def require(package: str, module: str) -> None:
    """ImportError where a package that a module is for is not installed."""
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"{module} needs {package}, which is not installed: pip install {package}") from None


def _renamed(text: str, function: str, names: Mapping[str, str]) -> str:
    unknown = re.fullmatch(r"low_level\(\) got an unexpected keyword argument '(\w+)'", text)
    if unknown is not None:
        return f"[{function}] {unknown[1]}: not an option"
    match = re.fullmatch(r"(?:\[[\w.:]+\] )?(?:(?:result|options)\.)?([\w.]+(?:, \w+)*): (.*)", text, re.DOTALL)
    if match is None:
        return text
    rest = re.sub(r"([\w.]+) of shape", lambda other: f"{names.get(other[1], other[1])} of shape", match[2])
    return f"[{function}] {names.get(match[1], match[1])}: {rest}"


def with_argument_names(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """ValueError and TypeError of this function read `[function] argument: what was given, what was expected`."""
    return with_names({})(function)


def with_names(
    names: Mapping[str, str],
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """The same, where some arguments have names of their own."""
    names = {**_NAMES, **names}

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        full_name = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            try:
                return function(*args, **kwargs)
            except (ValueError, TypeError) as error:
                renamed = _renamed(str(error), full_name, names)
                if renamed == str(error):
                    raise
                raise type(error)(renamed) from None

        return wrapped

    return decorate
