"""What a score_mod of flex_attention does with the score, and which indices everything else in it depends on.

score_mod runs under vmap, as torch runs it, in a mode that sees each of its functions. The score is a marker, of which
a form is kept:

    outer * (tanh)(inner * factors * score) + terms

Other tensors are computed, and for each is known what it depends on: b, h, q, k, or d, the distance k - q alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

Indices = frozenset[str]
_ALL = frozenset("bhqk")
_NONE: Indices = frozenset()
_DISTANCE = frozenset("d")
_COMPARISONS = {"ge", "gt", "le", "lt", "eq", "ne", "greater", "greater_equal", "less", "less_equal", "not_equal"}
_CASTS = {"to", "float", "double", "type", "clone", "contiguous"}
_EXACT_CASTS = {"float", "double", "int", "long"}  # of an index
_OF_SHAPE_ALONE = {
    "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "new_tensor", "new_empty", "size", "dim",
    "is_floating_point", "numel",
}  # fmt: skip
_SUPPORTED = (
    "expected one of: score + f(b, h, q_idx, kv_idx), score * f(b, h, q_idx), c * tanh(score / c), "
    "torch.where(f(b, h, q_idx, kv_idx), score, -inf), in this order of tanh before sums"
)


class Term(NamedTuple):
    """A tensor of no dimensions under vmap, and what it depends on."""

    value: Any
    indices: Indices

    def negated(self) -> Term:
        return Term(-self.value, self.indices)


@dataclasses.dataclass(frozen=True)
class Form:
    """What was made of the score."""

    inner: float = 1.0
    outer: float = 1.0
    capped: bool = False
    factors: tuple[Term, ...] = ()
    terms: tuple[Term, ...] = ()

    def __truediv__(self, by: Term) -> Form:
        return self * Term(1.0 / by.value, by.indices)

    def __mul__(self, by: Term) -> Form:
        terms = tuple(Term(term.value * by.value, term.indices | by.indices) for term in self.terms)
        if isinstance(by.value, (int, float)):
            if self.capped:
                return dataclasses.replace(self, outer=self.outer * by.value, terms=terms)
            return dataclasses.replace(self, inner=self.inner * by.value, terms=terms)
        if self.capped:
            refuse("a tensor times tanh(score)")
        if by.indices & {"k", "d"}:
            refuse("a factor of the score that depends on kv_idx")
        return dataclasses.replace(self, factors=(*self.factors, by), terms=terms)

    def __add__(self, term: Term) -> Form:
        return dataclasses.replace(self, terms=(*self.terms, term))

    def tanh(self) -> Form:
        if self.capped:
            refuse("tanh of tanh")
        if self.terms:
            refuse("tanh of a sum")
        return dataclasses.replace(self, capped=True)

    def total(self) -> Term:
        """The sum of the terms."""
        if not self.terms:
            return Term(0.0, _NONE)
        value: Any = sum(term.value for term in self.terms[1:]) + self.terms[0].value
        return Term(value, _NONE.union(*(term.indices for term in self.terms)))


def refuse(found: str) -> NoReturn:
    raise NotImplementedError(f"[flex_attention] score_mod: {found}, {_SUPPORTED}")


class Trace(TorchFunctionMode):
    """Follows the functions of one call of score_mod. Tensors that it knows stay alive, so that their ids are theirs."""

    def __init__(self, score: torch.Tensor, b: Any, h: Any, q: Any, k: Any) -> None:
        super().__init__()
        self._kept: list[Any] = [score, b, h, q, k]
        self._forms = {id(score): Form()}
        self._indices = {id(x): frozenset(name) for name, x in zip("bhqk", (b, h, q, k))}
        self._positions = {id(q): "q", id(k): "k"}  # these themselves, not numbers made of them
        self._writes = False

    def form_of(self, result: Any) -> Form:
        form = self._forms.get(id(result))
        if form is None:
            refuse(f"a result of type {type(result).__name__} that does not come from the score")
        if self._writes:  # through a view a write may have reached others
            terms = [tuple(Term(x.value, _ALL) for x in parts) for parts in (form.factors, form.terms)]
            return dataclasses.replace(form, factors=terms[0], terms=terms[1])
        return form

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        name = str(getattr(func, "__name__", func))
        bare = name.strip("_")
        if any(id(x) in self._forms for x in tensors):
            return self._of_score(func, name, bare, args, kwargs)
        if func is torch.Tensor.__getitem__:
            result = _indexed(*args)
        else:
            result = func(*args, **kwargs)
        self._writes |= _writes(name) or "out" in kwargs
        indices = self._of_distance(bare, args, kwargs) or _NONE.union(*(self.indices_of(x) for x in tensors))
        for x in pytree.tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self._kept.append(x)
                self._indices[id(x)] = indices
        if bare in _EXACT_CASTS and len(args) == 1 and id(args[0]) in self._positions:
            self._positions[id(result)] = self._positions[id(args[0])]
        return result

    def indices_of(self, x: Any) -> Indices:
        """What is captured depends on none. What vmap maps, but came from a function that was not seen, on all."""
        known = self._indices.get(id(x))
        if known is None:
            is_mapped = isinstance(x, torch.Tensor) and torch._C._functorch.is_batchedtensor(x)
            return _ALL if is_mapped else _NONE
        return known

    def _of_distance(self, bare: str, args: Any, kwargs: Any) -> Indices | None:
        """q - k and comparisons of both depend on the distance alone."""
        is_known = bare in ("sub", "rsub", "subtract") or bare in _COMPARISONS
        if is_known and len(args) == 2 and not kwargs:
            if {self._positions.get(id(x)) for x in args} == {"q", "k"}:
                return _DISTANCE
        return None

    def _of_score(self, func: Any, name: str, bare: str, args: Any, kwargs: Any) -> Any:
        if bare == "get" or bare in _OF_SHAPE_ALONE:
            result = func(*args, **kwargs)
            if bare == "get" and isinstance(result, torch.Tensor):
                refuse("an attribute of the score that is a tensor")
            return result
        if bare in _CASTS and id(args[0]) in self._forms:
            return self._marked(args[0], self._forms[id(args[0])])
        if kwargs or _writes(name):
            refuse(f"{name}({', '.join(map(str, kwargs))}) of the score")
        return self._marked(next(x for x in args if id(x) in self._forms), self._made(bare, args))

    def _marked(self, score: torch.Tensor, form: Form) -> torch.Tensor:
        marker = torch.zeros_like(score)
        self._kept.append(marker)
        self._forms[id(marker)] = form
        return marker

    def _made(self, bare: str, args: Any) -> Form:
        if bare == "tanh":
            return self._forms[id(args[0])].tanh()
        if bare == "where" and len(args) == 3:
            return self._where(*args)
        if bare == "masked_fill" and len(args) == 3:
            return self._where(args[1], args[2], args[0])
        if len(args) != 2:
            refuse(f"{bare} of the score")
        forms = [self._forms.get(id(x)) for x in args]
        form, other = (forms[0], args[1]) if forms[0] else (forms[1], args[0])
        if form is None or (forms[0] and forms[1]):
            refuse(f"{bare} of the score and itself")
        if bare in ("add", "radd"):
            return form + self._term(other)
        if bare in ("mul", "rmul", "multiply"):
            return form * self._term(other)
        if bare in ("sub", "subtract") and forms[0]:
            return form + self._term(other).negated()
        if bare in ("div", "truediv", "true_divide", "divide") and forms[0]:
            return form / self._term(other)
        refuse(f"{bare} of the score")

    def _where(self, condition: Any, chosen: Any, other: Any) -> Form:
        """Both are the score with terms of their own, or one is -infinity."""
        if id(condition) in self._forms:
            refuse("a condition on the score")
        forms = [self._forms.get(id(x)) for x in (chosen, other)]
        form = forms[0] or forms[1]
        assert form is not None
        totals = []
        for side, value in zip(forms, (chosen, other)):
            if side is None and not _is_minus_infinity(value):
                refuse("torch.where with a number instead of the score that is not -inf")
            if side is not None and dataclasses.replace(side, terms=()) != dataclasses.replace(form, terms=()):
                refuse("torch.where of the score with two different factors")
            totals.append(Term(-torch.inf, _NONE) if side is None else side.total())
        indices = self.indices_of(condition) | totals[0].indices | totals[1].indices
        value = torch.where(condition, totals[0].value, totals[1].value)
        return dataclasses.replace(form, terms=(Term(value, indices),))

    def _term(self, value: Any) -> Term:
        """A number, or a tensor. One captured number without a gradient is a number."""
        if isinstance(value, torch.Tensor) and value.dim() == 0 and not value.requires_grad:
            if not self.indices_of(value) and not torch._C._functorch.is_batchedtensor(value):
                return Term(value.item(), _NONE)
        return Term(value, self.indices_of(value))


def _writes(name: str) -> bool:
    """Whether a function changes a tensor that it was given."""
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in ("__setitem__", "__set__") or (name.startswith("__i") and name not in ("__invert__", "__int__"))


def _is_minus_infinity(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        if value.dim() != 0 or torch._C._functorch.is_batchedtensor(value):
            return False
        value = value.item()
    return isinstance(value, float) and value == -torch.inf


def _indexed(x: Any, index: Any) -> Any:
    """x[i]: with a tensor i of no dimensions, whose number vmap does not tell, as torch's own function of an index."""
    leaves: list[Any] = pytree.tree_leaves(index)
    if all(isinstance(i, torch.Tensor) for i in leaves):
        return torch.ops.aten.index(x, leaves)
    return x[index]


def run(score_mod: Any, dtype: torch.dtype, b: Any, h: Any, pairs: tuple[Any, Any], by_pair: bool) -> tuple[Form, Any]:
    """The form, and the values of its factors and terms [B, H, T, S], or [B, H, pairs] where q and k are pairs."""
    forms: list[Form] = []

    def body(b: Any, h: Any, q: Any, k: Any) -> Any:
        score = torch.zeros((), dtype=dtype)
        trace = Trace(score, b, h, q, k)
        with trace:
            result = score_mod(score, b, h, q, k)
        forms.append(trace.form_of(result))
        return tuple(torch.as_tensor(x.value, dtype=dtype) for x in _parts(forms[-1]))

    mapped: Any = body
    levels = [(None, None, 0, 0)] if by_pair else [(None, None, None, 0), (None, None, 0, None)]
    for level in (*levels, (None, 0, None, None), (0, None, None, None)):
        mapped = torch.vmap(mapped, in_dims=level)
    values = mapped(b, h, *pairs)
    return forms[-1], values


def _parts(form: Form) -> Iterator[Term]:
    yield from form.factors
    yield from form.terms
