"""What a fused task computes: steps over whole values, and the reductions on top.

A `Program` says nothing of shapes: values are numbered, first the inputs, then one for each
step. It is run over blocks that broadcast against each other, by NumPy (numpy_kernels.py) or by a
generated kernel (native/); both give the same bits. Programs are equal when their structures are:
constants are inputs, so that programs that differ in constants share compiled kernels.

``(x + 1) * 2`` has the inputs 0 (x), 1 (the 2) and 2 (the 1), and two steps; 4 is its output::

    3 = add(0, 2)
    4 = multiply(3, 1)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.order import Reduction


class WhereOperation:
    """``where(condition, a, b)`` as an operation; its loop is (bool, T, T, T)."""

    __name__ = "where"

    def __reduce__(self) -> str:
        return "WHERE"  # operations are compared with this object by identity

    def __call__(self, condition: Any, a: Any, b: Any) -> Any:
        return np.where(condition, a, b)


class CastOperation:
    """``astype`` as an operation; its loop is (from, to)."""

    __name__ = "astype"

    def __reduce__(self) -> str:
        return "CAST"


WHERE = WhereOperation()
CAST = CastOperation()


class BlockFunction(NamedTuple):
    """A function other than a ufunc: it takes whole blocks and returns an array of their shape.

    func
        Called as ``func(*blocks, **dict(keywords))``.
    keywords
        Pairs of a name and a hashable value.
    words
        The keywords as text: 0.0 and -0.0 are equal, and so are 1 and True.
    """

    func: Any
    keywords: tuple[tuple[str, Any], ...] = ()
    words: str = ""

    @property
    def name(self) -> str:
        """The function's name (a NamedTuple would drop a property called ``__name__``)."""
        return str(getattr(self.func, "__name__", self.func))


class ScanOperation(NamedTuple):
    """``ufunc.accumulate`` along an axis, counted from the last one.

    Its operands are the values, of the full shape, and perhaps the carry, of length 1 along the
    axis: the scan of the elements before the block, with which all results are combined,
    ``ufunc(carry, result)``.
    """

    ufunc: np.ufunc
    axis: int

    @property
    def name(self) -> str:
        """Its name in messages."""
        if self.ufunc in (np.add, np.multiply):
            return "cumsum" if self.ufunc is np.add else "cumprod"
        return f"{self.ufunc.__name__}.accumulate"


class Step(NamedTuple):
    """One operation.

    op
        A ufunc, WHERE, CAST, a BlockFunction or a ScanOperation.
    operands
        Numbers of values.
    loop
        The dtypes of the operands as the operation takes them (they are cast to these first, as
        NumPy casts for a ufunc's loop), then those of its results.
    result
        The number of the result, of a ufunc that has several.
    """

    op: Any
    operands: tuple[int, ...]
    loop: tuple[np.dtype[Any], ...]
    result: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the value that the step gives."""
        return self.loop[len(self.operands) + self.result]


class Program(NamedTuple):
    """Inputs, steps and outputs.

    inputs
        Dtypes of the inputs, blocks that broadcast to one shape (0-d ones are constants).
    steps
        Each refers to inputs and earlier steps.
    outputs
        Pairs of the number of a value and its reduction; None: the value itself.
    """

    inputs: tuple[np.dtype[Any], ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[int, Reduction | None], ...]

    def dtype_of(self, value: int) -> np.dtype[Any]:
        """Return the dtype of a value."""
        count = len(self.inputs)
        return self.inputs[value] if value < count else self.steps[value - count].dtype


# -- programs as steps whose operands have the dtypes that the operations take ------------
#
# Casts become steps of their own, equal steps become one, the results of one ufunc come from one
# step, and a step that no output needs is left out. Values are numbered anew: first the inputs, as
# before, then the results of the steps.


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
        """The name in NumPy's warnings."""
        return "reduce" if self.reduction is None else self.reduction.kind.reported_name


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
            number = made.cast(number, reduction.kind.partial_dtype(reduction.dtype))
            if reduction.mask is not None:
                mask = made.cast(numbers[reduction.mask], np.dtype(bool))
        outputs.append(Output(number, reduction, mask))
    steps = needed(made.steps, {n for output in outputs for n in output.values})
    return Lowered(len(program.inputs), tuple(steps), tuple(outputs), tuple(made.dtypes))
