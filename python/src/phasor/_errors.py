"""Errors in the user's terms: the function that was called, and what is missing."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
# `[function] argument: what was given, what was expected`, where C++ has put a function of its own.
_MESSAGE = re.compile(r"(?:\[[\w.:]+\] )?(\w+(?:, \w+)*: .*)", re.DOTALL)


def require(package: str, module: str) -> None:
    """ImportError where a package that a module is for is not installed."""
    if importlib.util.find_spec(package) is None:
        extra = module.removeprefix("phasor.")
        raise ImportError(
            f"{module} needs {package}, which is not installed: pip install 'phasor-attention[{extra}]'"
        ) from None


def with_function_name(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """ValueError and TypeError of this function read `[function] argument: what was given, what was expected`."""
    full_name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except (ValueError, TypeError) as error:
            message = _MESSAGE.fullmatch(str(error))
            if message is None:
                raise
            raise type(error)(f"[{full_name}] {message[1]}") from None

    return wrapped
