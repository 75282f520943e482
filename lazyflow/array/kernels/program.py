"""What a fused task computes: steps over whole values, and the reductions on top.

A `Program` says nothing of shapes: values are numbered, first the inputs, then one for each
step. It is run over blocks that broadcast against each other, by NumPy (whole.py) or by a
generated kernel (native/); both give the same bits. Programs are equal when their structures are:
constants are inputs, so that programs that differ in constants share compiled kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


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


class TileFunction(NamedTuple):
    """A function that is no ufunc: it takes whole blocks and returns an array of their shape.

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
    axis: what is before the block, which all results are combined with, ``ufunc(carry, result)``.
    """

    ufunc: np.ufunc
    axis: int

    @property
    def name(self) -> str:
        """What messages call it."""
        if self.ufunc in (np.add, np.multiply):
            return "cumsum" if self.ufunc is np.add else "cumprod"
        return f"{self.ufunc.__name__}.accumulate"


class Step(NamedTuple):
    """One operation.

    op
        A ufunc, WHERE, CAST, a TileFunction or a ScanOperation.
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


class Reduction(NamedTuple):
    """A reduction of a value over some axes, which stay with length 1 in the result.

    kind
        "sum", "prod", "min", "max", "any", "all"; of floats "fmin" and "fmax", which leave NaN
        out; "moments": the result has a new first axis of length 3: the count, the mean, and
        the sum of squared distances to the mean; "last": the last results of a scan along the
        axis; or "chosen": the elements that the mask selects, of all axes, in C order: of one axis.
    axes
        Axes of the program's shape, sorted.
    dtype
        The value is cast to it first ("any" and "all": bool).
    mask
        The number of a boolean value that selects the elements, or None. Only for "moments" and
        "chosen": for the other kinds, WHERE with a neutral element does the same.
    """

    kind: str
    axes: tuple[int, ...]
    dtype: np.dtype[Any]
    mask: int | None = None


class Program(NamedTuple):
    """Inputs, steps and outputs.

    inputs
        Dtypes of the inputs, blocks that broadcast to one shape (0-d ones are constants).
    steps
        Each refers to inputs and earlier steps.
    outputs
        Pairs of the number of a value and its reduction; None: the value as it is.
    """

    inputs: tuple[np.dtype[Any], ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[int, Reduction | None], ...]

    def dtype_of(self, value: int) -> np.dtype[Any]:
        """Return the dtype of a value."""
        count = len(self.inputs)
        return self.inputs[value] if value < count else self.steps[value - count].dtype
