"""Programs as steps whose operands have the dtypes that the operations take.

Casts become steps of their own, equal steps become one, the results of one ufunc come from one
step, and a step that no output needs is left out. Values are numbered anew: first the inputs, as
before, then the results of the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.program import CAST, Program, Reduction

KINDS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "any": np.logical_or,
    "all": np.logical_and,
}


class LoweredStep(NamedTuple):
    """One operation, the numbers of the values that it takes, and of those that it gives."""

    op: Any
    operands: tuple[int, ...]
    loop: tuple[np.dtype[Any], ...]
    results: tuple[int, ...]


class Output(NamedTuple):
    """A value, how it is reduced (it has the reduction's dtype then), and the value of its mask."""

    value: int
    reduction: Reduction | None
    mask: int | None

    @property
    def values(self) -> tuple[int, ...]:
        """The numbers of the values that the output reads."""
        return (self.value,) if self.mask is None else (self.value, self.mask)

    @property
    def reported_name(self) -> str:
        """The name in NumPy's warnings; in `var`, it is the subtraction of the mean that warns."""
        moments = self.reduction is not None and self.reduction.kind == "moments"
        return "subtract" if moments else "reduce"


class Lowered(NamedTuple):
    """The steps of a program, for blocks of any shape; `dtypes` are those of all values."""

    inputs: int
    steps: tuple[LoweredStep, ...]
    outputs: tuple[Output, ...]
    dtypes: tuple[np.dtype[Any], ...]


def needed(steps: Sequence[LoweredStep], values: set[int]) -> list[LoweredStep]:
    """Return the steps that some values depend on, and add what they read to the values."""
    kept = []
    for step in reversed(steps):
        if not values.isdisjoint(step.results):
            values.update(step.operands)
            kept.append(step)
    return kept[::-1]


def last_reads(steps: Sequence[LoweredStep], ends: Iterable[int]) -> dict[int, int]:
    """Return the last step that reads each value; values at the end are read after all steps."""
    last = {n: at for at, step in enumerate(steps) for n in step.operands}
    return last | dict.fromkeys(ends, len(steps))


def moments_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of moments of values of a dtype: at least double precision.

    >>> moments_dtype(np.dtype("f4")), moments_dtype(np.dtype("c8"))
    (dtype('float64'), dtype('complex128'))
    """
    return dtype if dtype.kind not in "biufc" else np.result_type(dtype, np.float64)


class _Steps:
    """Collects steps; equal ones are made once."""

    def __init__(self, program: Program) -> None:
        self.steps: list[LoweredStep] = []
        self.dtypes: list[np.dtype[Any]] = list(program.inputs)
        self._known: dict[Any, tuple[int, ...]] = {}

    def add(
        self, op: Any, operands: tuple[int, ...], loop: tuple[np.dtype[Any], ...]
    ) -> tuple[int, ...]:
        operands = tuple(
            self.cast(value, dtype) for value, dtype in zip(operands, loop, strict=False)
        )
        return self._add(op, operands, loop)

    def _add(
        self, op: Any, operands: tuple[int, ...], loop: tuple[np.dtype[Any], ...]
    ) -> tuple[int, ...]:
        named = (op, operands, loop)
        found = self._known.get(named)
        if found is None:
            given = loop[len(operands) :]
            found = tuple(range(len(self.dtypes), len(self.dtypes) + len(given)))
            self.dtypes.extend(given)
            self.steps.append(LoweredStep(op, operands, loop, found))
            self._known[named] = found
        return found

    def cast(self, value: int, dtype: np.dtype[Any]) -> int:
        have = self.dtypes[value]
        return value if have == dtype else self._add(CAST, (value,), (have, dtype))[0]


def lower(program: Program) -> Lowered:
    """Return a program as steps that can be run one after the other."""
    made = _Steps(program)
    numbers = list(range(len(program.inputs)))
    for step in program.steps:
        operands = tuple(numbers[n] for n in step.operands)
        if step.op is CAST and made.dtypes[operands[0]] == step.dtype:
            numbers.append(operands[0])
        elif step.op is CAST:
            numbers.append(made.cast(made.cast(operands[0], step.loop[0]), step.dtype))
        else:
            numbers.append(made.add(step.op, operands, step.loop)[step.result])
    outputs = []
    for value, reduction in program.outputs:
        number, mask = numbers[value], None
        if reduction is not None:
            number = made.cast(number, reduction.dtype)
            if reduction.kind == "moments":
                number = made.cast(number, moments_dtype(reduction.dtype))
            if reduction.mask is not None:
                mask = made.cast(numbers[reduction.mask], np.dtype(bool))
        outputs.append(Output(number, reduction, mask))
    steps = needed(made.steps, {n for output in outputs for n in output.values})
    return Lowered(len(program.inputs), tuple(steps), tuple(outputs), tuple(made.dtypes))
