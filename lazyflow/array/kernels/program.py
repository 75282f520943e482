"""What a fused task computes: steps over whole values, and the reductions on top.

A `Program` says nothing of shapes: values are numbered, first the inputs, then one for each
step. It is run over blocks that broadcast against each other, tile by tile (tiles.py) or by a
generated kernel (kernels.py); both give the same bits. Programs are equal when their structure is,
which is what compiled kernels are cached by: constants are inputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Where:
    """``where(condition, a, b)`` as an operation; its loop is (bool, T, T, T)."""

    __name__ = "where"

    def __reduce__(self) -> str:
        return "WHERE"  # which others are compared with by identity

    def __call__(self, condition: Any, a: Any, b: Any) -> Any:
        return np.where(condition, a, b)


class Cast:
    """``astype`` as an operation; its loop is (from, to)."""

    __name__ = "astype"

    def __reduce__(self) -> str:
        return "CAST"


WHERE = Where()
CAST = Cast()


class Elementwise(NamedTuple):
    """A function of whole tiles that gives an array of their shape: anything but a ufunc.

    func
        Called as ``func(*tiles, **dict(keywords))``.
    keywords
        Pairs of a name and a hashable value.
    """

    func: Any
    keywords: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """Of the function (not ``__name__``: a NamedTuple drops a property of that name)."""
        return str(getattr(self.func, "__name__", self.func))


class Step(NamedTuple):
    """One operation.

    op
        A ufunc, WHERE, CAST or an Elementwise.
    operands
        Numbers of values.
    loop
        Dtypes: of the operands as the operation takes them (they are cast to these first, as
        NumPy casts for a ufunc's loop), then of its results.
    result
        Which result of a ufunc that has several.
    """

    op: Any
    operands: tuple[int, ...]
    loop: tuple[np.dtype[Any], ...]
    result: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the value that the step gives."""
        return self.loop[len(self.operands) + self.result]


class Reduction(NamedTuple):
    """What is done with a value over some axes, which stay with length 1 in the result.

    kind
        "sum", "prod", "min", "max", "any", "all"; or "moments": the result has a new first axis
        of length 3: how many, their mean, and the sum of the squares of distances to it.
    axes
        Of the shape of the program, sorted.
    dtype
        In which it is done: the value is cast to it first ("any" and "all": bool).
    mask
        The number of a boolean value that says what counts, or None. Only for "moments": for the
        others, WHERE with what changes nothing does the same.
    """

    kind: str
    axes: tuple[int, ...]
    dtype: np.dtype[Any]
    mask: int | None = None


class Program(NamedTuple):
    """Inputs, steps, and what is wanted.

    inputs
        Dtypes of the inputs, blocks that broadcast to one shape (0-d ones are constants).
    steps
        Each refers to inputs and earlier steps.
    outputs
        Pairs of the number of a value and the reduction of it that is wanted, or None: the
        value itself.
    """

    inputs: tuple[np.dtype[Any], ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[int, Reduction | None], ...]

    def dtype_of(self, value: int) -> np.dtype[Any]:
        """Return the dtype of a value."""
        count = len(self.inputs)
        return self.inputs[value] if value < count else self.steps[value - count].dtype
