"""Programs as calls whose operands have the dtypes that the operation takes, nothing in vain.

Casts become calls of their own, equal calls one, results of one ufunc one call, and what no
output needs is left out. Values are numbered anew: the inputs as before, then results of calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.program import CAST, Program, Reduction

KINDS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
}


class Call(NamedTuple):
    """One operation: which, of which values, and the numbers of the values that it gives."""

    op: Any
    operands: tuple[int, ...]
    loop: tuple[np.dtype[Any], ...]
    results: tuple[int, ...]


class Sink(NamedTuple):
    """An output: a value, and how it is reduced (its dtype is the reduction's then)."""

    value: int
    reduction: Reduction | None
    mask: int | None

    @property
    def reports(self) -> str:
        """What NumPy calls it in its reports: in var it is the distances that go wrong."""
        moments = self.reduction is not None and self.reduction.kind == "moments"
        return "subtract" if moments else "reduce"


class Lowered(NamedTuple):
    """What is run, for blocks of any shape.

    dtypes
        Of all values.
    last
        For each value, the number of the last call that reads it; that of an output is the
        number of calls, of what nobody reads -1.
    """

    inputs: int
    calls: tuple[Call, ...]
    sinks: tuple[Sink, ...]
    dtypes: tuple[np.dtype[Any], ...]
    last: tuple[int, ...]


def moments_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of moments of values of a dtype: at least double precision.

    >>> moments_dtype(np.dtype("f4")), moments_dtype(np.dtype("c8"))
    (dtype('float64'), dtype('complex128'))
    """
    return dtype if dtype.kind not in "biufc" else np.result_type(dtype, np.float64)


class _Calls:
    """Collects calls; the same one is made once."""

    def __init__(self, program: Program) -> None:
        self.calls: list[Call] = []
        self.dtypes: list[np.dtype[Any]] = list(program.inputs)
        self._known: dict[Any, tuple[int, ...]] = {}

    def call(
        self, op: Any, operands: tuple[int, ...], loop: tuple[np.dtype[Any], ...]
    ) -> tuple[int, ...]:
        operands = tuple(
            self.cast(value, dtype) for value, dtype in zip(operands, loop, strict=False)
        )
        return self._call(op, operands, loop)

    def _call(
        self, op: Any, operands: tuple[int, ...], loop: tuple[np.dtype[Any], ...]
    ) -> tuple[int, ...]:
        named = (op, operands, loop)
        found = self._known.get(named)
        if found is None:
            given = loop[len(operands) :]
            found = tuple(range(len(self.dtypes), len(self.dtypes) + len(given)))
            self.dtypes.extend(given)
            self.calls.append(Call(op, operands, loop, found))
            self._known[named] = found
        return found

    def cast(self, value: int, dtype: np.dtype[Any]) -> int:
        have = self.dtypes[value]
        return value if have == dtype else self._call(CAST, (value,), (have, dtype))[0]


def _needed(calls: list[Call], sinks: list[Sink]) -> list[Call]:
    wanted = {n for sink in sinks for n in (sink.value, sink.mask) if n is not None}
    kept = []
    for call in reversed(calls):
        if not wanted.isdisjoint(call.results):
            wanted.update(call.operands)
            kept.append(call)
    return kept[::-1]


def lower(program: Program) -> Lowered:
    """Return the calls that a program is."""
    made = _Calls(program)
    numbers = list(range(len(program.inputs)))
    for step in program.steps:
        operands = tuple(numbers[n] for n in step.operands)
        if step.op is CAST and made.dtypes[operands[0]] == step.dtype:
            numbers.append(operands[0])
        elif step.op is CAST:
            numbers.append(made.cast(made.cast(operands[0], step.loop[0]), step.dtype))
        else:
            numbers.append(made.call(step.op, operands, step.loop)[step.result])
    sinks = []
    for value, reduction in program.outputs:
        number, mask = numbers[value], None
        if reduction is not None:
            number = made.cast(number, reduction.dtype)
            if reduction.kind == "moments":
                number = made.cast(number, moments_dtype(reduction.dtype))
            if reduction.mask is not None:
                mask = made.cast(numbers[reduction.mask], np.dtype(bool))
        sinks.append(Sink(number, reduction, mask))
    calls = _needed(made.calls, sinks)
    last = [-1] * len(made.dtypes)
    for at, call in enumerate(calls):
        for value in call.operands:
            last[value] = at
    for sink in sinks:
        last[sink.value] = len(calls)
        if sink.mask is not None:
            last[sink.mask] = len(calls)
    return Lowered(len(program.inputs), tuple(calls), tuple(sinks), tuple(made.dtypes), tuple(last))
