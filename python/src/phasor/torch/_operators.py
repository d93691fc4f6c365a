"""The operators of torch.library of both kinds of attention: forward and backward, with what autograd keeps between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from phasor import _phasor
from phasor.torch._inputs import empty_float32, empty_like, empty_output, with_contiguous_rows
from phasor.torch._library import Recorded, define, direct, first_only, records_gradient
from phasor.torch._options import (
    FLOATING,
    LEARNED,
    SCHEMA,
    Saved,
    Tensors,
    fake_gradients,
    gradient_memory,
    lowered,
    option_gradients,
)


class Operators:
    """torch.ops.phasor.<name>_forward and <name>_backward. A call goes to the first.

    streams: names of the tensors with tokens, first q, k and v, then their log sigmas, if it has some.
    outs: names of the results for tokens.
    has_temperature: whether tau, a tensor, and eps, a number, follow the streams.

    Arguments of forward are streams [tau eps] with_lse with_softmax with_weights options, its results outs lse softmax
    weights; those of backward streams [tau eps] outs softmax grad_outs grad_lse wanted options, its results the gradients
    of streams, tau and the options that have one. What is not asked for is empty; within this package also None, since a
    tensor takes torch a microsecond.
    """

    def __init__(self, name: str, streams: Sequence[str], outs: Sequence[str], has_temperature: bool) -> None:
        self.name, self.has_temperature = name, has_temperature
        self.streams, self.outs = len(streams), len(outs)
        self.inputs = self.streams + has_temperature  # those that have gradients
        self._first = self.inputs + has_temperature  # where the other arguments begin
        self._after_grads = self._first + 2 * self.outs + 1
        self._forward_name, self._backward_name = f"{name}_forward", f"{name}_backward"
        learned = [*streams, *(["tau"] if has_temperature else [])]
        given = _tensors(learned) + (", float eps" if has_temperature else "")
        self._forward = define(
            self._forward_name,
            f"({given}, bool with_lse, bool with_softmax, bool with_weights, {SCHEMA}) -> "
            f"({_tensors([*outs, 'lse', 'softmax', 'weights'])})",
            cpu=filled(self._compute),
            fake=self._forward_fake,
            autograd=filled(self.forward_autograd),
        )
        self._backward = define(
            self._backward_name,
            f"({given}, {_tensors([*outs, 'softmax', *(f'grad_{out}' for out in outs)])}, Tensor? grad_lse, "
            f"bool[] wanted, {SCHEMA}) -> ({_tensors([f'grad_{name}' for name in (*learned, *LEARNED)])})",
            cpu=filled(self._differentiate),
            fake=self._backward_fake,
            autograd=filled(self.backward_autograd),
        )
        self.forward_now = direct(self._forward, self._compute)
        self._backward_now = direct(self._backward, self._differentiate)

    def __call__(self, *arguments: Any) -> Any:
        if torch.compiler.is_compiling():
            return self._forward(*arguments)
        return self.forward_autograd(*arguments)  # a shorter way to the same

    def forward_autograd(self, *arguments: Any) -> Any:
        first = self._first + 3
        options = arguments[first:]
        if records_gradient(self.name, *arguments[: self.inputs], *options[:FLOATING]):
            asked = arguments[self.inputs : first]  # eps too, which has no gradient
            learned = [option for option in options[: len(LEARNED)] if option is not None]
            return _Attention.call(self, asked, options, *arguments[: self.inputs], *learned)
        return self.forward_now(*arguments)

    def backward_autograd(self, *arguments: Any) -> Any:
        if torch.is_grad_enabled():
            return first_only(self.name, filled(self._backward_now)(*arguments), arguments)
        return self._backward_now(*arguments)

    def _temperature(self, arguments: Sequence[Any]) -> dict[str, float]:
        if not self.has_temperature:
            return {}
        return {"tau": arguments[self.streams].item(), "eps": arguments[self.streams + 1]}

    def _compute(self, *arguments: Any) -> tuple[torch.Tensor | None, ...]:
        first = self._first
        q, k, v = arguments[:3]
        with_lse, with_softmax, with_weights = arguments[first : first + 3]
        rows = q.shape[:3]
        results = (
            *[empty_output(q, v) for _ in range(self.outs)],
            empty_float32(rows) if with_lse else None,
            empty_float32((*rows, 2)) if with_softmax else None,
            empty_float32((*rows, k.shape[2])) if with_weights else None,
        )
        getattr(_phasor, self._forward_name)(
            *map(with_contiguous_rows, arguments[: self.streams]),
            *results,
            **self._temperature(arguments),
            **lowered(arguments[first + 3 :]),
        )
        return results

    def _forward_fake(self, *arguments: Any) -> Tensors:
        q, k, v = arguments[:3]
        rows = q.shape[:3]
        shapes = (rows, (*rows, 2), (*rows, k.shape[2]))
        asked = zip(shapes, arguments[self._first :])
        return (
            *(empty_output(q, v) for _ in range(self.outs)),
            *(q.new_empty(shape if is_asked else (0,), dtype=torch.float32) for shape, is_asked in asked),
        )

    def _differentiate(self, *arguments: Any) -> tuple[torch.Tensor | None, ...]:
        first, last = self._first, self._after_grads
        outs, grad_outs = arguments[first : first + self.outs + 1], arguments[first + self.outs + 1 : last + 1]
        wanted, options = arguments[last + 1], arguments[last + 2 :]
        streams = arguments[: self.streams]
        gradients = [empty_like(x) for x in streams]
        memory = gradient_memory(wanted, options)
        grad_tau = getattr(_phasor, self._backward_name)(
            *map(with_contiguous_rows, streams),
            *outs,
            *map(with_contiguous_rows, grad_outs),
            *gradients,
            option_gradients=option_gradients(memory),
            **self._temperature(arguments),
            **lowered(options),
        )
        if self.has_temperature:
            gradients.append(torch.full_like(arguments[self.streams], grad_tau))
        return (*gradients, *memory)

    def _backward_fake(self, *arguments: Any) -> Tensors:
        last = self._after_grads
        gradients = [empty_like(x) for x in arguments[: self.streams]]
        if self.has_temperature:
            gradients.append(torch.empty_like(arguments[self.streams]))
        return (*gradients, *fake_gradients(arguments[0], arguments[last + 1], arguments[last + 2 :]))


def filled(function: Callable[..., Any]) -> Callable[..., Tensors]:
    """A function of torch.library, whose results are all tensors."""

    def call(*arguments: Any) -> Tensors:
        return tuple(empty_float32(0) if x is None else x for x in function(*arguments))

    return call


def _tensors(names: Sequence[str]) -> str:
    return ", ".join(f"Tensor {name}" for name in names)


class _Attention(Recorded):
    """Inputs and learned options that are given are arguments, since they get gradients; `options` has all once more."""

    @classmethod
    def call(cls, operators: Operators, *inputs: Any) -> Any:
        cls.check(operators.name)
        return cls.apply(operators, *inputs)

    @staticmethod
    def forward(
        ctx: Any, operators: Operators, asked: tuple[Any, ...], options: tuple[Any, ...], *tensors: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        inputs = tensors[: operators.inputs]
        *eps, with_lse, with_softmax, with_weights = asked
        results = operators.forward_now(*inputs, *eps, with_lse, True, with_weights, *options)
        *outs, lse, softmax, weights = results
        ctx.saved = Saved(ctx, (*inputs, *outs, softmax), options)
        ctx.operators, ctx.eps = operators, eps
        ctx.set_materialize_grads(False)
        lse, softmax = lse if with_lse else None, softmax if with_softmax else None
        if with_softmax or with_weights:
            ctx.mark_non_differentiable(*[x for x in (softmax, weights) if x is not None])
        return (*outs, lse, softmax, weights if with_weights else None)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        operators, first = ctx.operators, ctx.operators.inputs
        tensors, options = ctx.saved.restore(ctx.saved_tensors)
        outs = tensors[first:-1]
        grad_outs = [torch.zeros_like(out) if grad is None else grad for out, grad in zip(outs, grads)]
        needed = iter(ctx.needs_input_grad[3 + first :])
        wanted = [option is not None and next(needed) for option in options[: len(LEARNED)]]
        gradients = operators.backward_autograd(
            *tensors[:first], *ctx.eps, *tensors[first:], *grad_outs, grads[len(outs)], wanted, *options
        )
        learned = zip(options, wanted, gradients[first:])
        of_options = [gradient if is_wanted else None for option, is_wanted, gradient in learned if option is not None]
        return (None, None, None, *gradients[:first], *of_options)


ATTENTION = Operators("attention", ("q", "k", "v"), ("out",), has_temperature=False)
W2_ATTENTION = Operators(
    "w2_attention",
    ("q_mu", "k_mu", "v_mu", "q_log_sigma", "k_log_sigma", "v_log_sigma"),
    ("out_mu", "out_log_sigma"),
    has_temperature=True,
)
