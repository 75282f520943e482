"""Numbers at equal distances: ranges and lines.

An element is a function of its place, so kernels make the elements that they read, and nothing is
kept. Of the dtypes that kernels don't have, blocks are made by NumPy.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ChunksLike, DTypeLike, check_device, element_of
from lazyflow.array.functions.creation import from_formula
from lazyflow.array.functions.keywords import takes_dasks_keywords
from lazyflow.array.nodes.sources import Region

_FLOATS = (np.dtype("f4"), np.dtype("f8"))


@takes_dasks_keywords
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None, *,
    chunks: ChunksLike = "auto", device: str | None = None,
) -> Array:
    """Return the numbers from `start`, or 0, to before `stop`, `step` apart.

    Each block is made by its own task: no task holds all of them.

    >>> import lazyflow.array as la
    >>> la.arange(2, 10, 3).compute()
    array([2, 5, 8])
    >>> la.arange(10, chunks=4).chunks
    ((4, 4, 2),)
    """
    check_device(device)
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if step == 0:
        raise ZeroDivisionError("arange() needs a step other than 0")
    dtype = np.arange(start * 0, stop * 0, step).dtype if dtype is None else np.dtype(dtype)
    if dtype.kind not in "iufc":
        raise TypeError(f"arange() makes numbers; got dtype {dtype}")
    count = max(int(np.ceil((stop - start) / step)), 0)
    if dtype.kind in "iu":
        for each in (start, start + step)[:count]:  # NumPy refuses these two; others wrap around
            element_of(each, dtype)
    return from_formula(_range(start, step, dtype, count), (count,), dtype, chunks)


@takes_dasks_keywords
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike | None = None, *, chunks: ChunksLike = "auto", device: str | None = None,
) -> Any:
    """Return `num` numbers evenly from `start` to `stop`; parameters are those of ``np.linspace``.

    With ``retstep=True`` the distance between them is returned, too.

    >>> import lazyflow.array as la
    >>> la.linspace(0, 1, 5, chunks=2).compute()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    check_device(device)
    num = operator.index(num)
    if np.ndim(start) or np.ndim(stop):
        raise TypeError(
            f"linspace() and logspace() of chunks go from one number to another; got start= of "
            f"shape {np.shape(start)} and stop= of shape {np.shape(stop)}. Write "
            "la.from_array(np.linspace(start, stop, num))"
        )
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    dtype = np.linspace(start, stop, 0, dtype=dtype).dtype
    parts = num - 1 if endpoint else num
    formula = _line(Linear(start, stop, num, endpoint, dtype), parts)
    found = from_formula(formula, (num,), dtype, chunks)
    return (found, (stop - start) / parts if parts > 0 else np.nan) if retstep else found


def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0,
    dtype: DTypeLike | None = None, *, chunks: ChunksLike = "auto",
) -> Array:
    """Return `num` powers of `base`, evenly from ``base ** start`` to ``base ** stop``.

    >>> import lazyflow.array as la
    >>> la.logspace(0, 3, 4).compute()
    array([   1.,   10.,  100., 1000.])
    """
    found: Any = np.power(base, linspace(start, stop, num, endpoint, chunks=chunks))
    return found if dtype is None else found.astype(dtype)


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None, *,
    chunks: ChunksLike = "auto",
) -> Array:
    """Return `num` numbers from `start` to `stop`, each the one before it times the same factor.

    Parameters are those of ``np.geomspace``.

    >>> import lazyflow.array as la
    >>> la.geomspace(1, 1000, num=4, chunks=2).compute()
    array([   1.,   10.,  100., 1000.])
    """
    num = operator.index(num)
    if np.ndim(start) or np.ndim(stop):
        raise TypeError(
            "geomspace() of chunks goes from one number to another; got start= of shape "
            f"{np.shape(start)} and stop= of shape {np.shape(stop)}. Write "
            "la.from_array(np.geomspace(start, stop, num))"
        )
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    found = np.geomspace(start, stop, 0, endpoint, dtype)
    kind = np.result_type(start, stop, float(num), np.zeros((), dtype))
    first, last = np.asarray(start, kind)[()], np.asarray(stop, kind)[()]
    sign = np.sign(first)
    ends = first / sign, last / sign
    line = Linear(np.log10(ends[0]), np.log10(ends[1]), num, bool(endpoint), kind)
    return from_formula(Geometric(line, *ends, sign, found.dtype), (num,), found.dtype, chunks)


def _placed(few: Any, formula: str, count: int, *words: int) -> Any:
    """Return a formula of places that kernels have; `few` is NumPy's way, for few elements."""
    from lazyflow.array.kernels.draws.draw import PlacedDraw  # with the first that is asked for
    from lazyflow.array.kernels.draws.formulas import words_of

    name = few.__name__
    return PlacedDraw(name, formula, few.dtype, (count,), (0, 0, 0), 0, words_of(*words), few)


def _bits(value: Any) -> int:
    return int(np.float64(value).view(np.uint64))


def _range(start: Any, step: Any, dtype: np.dtype[Any], count: int) -> Any:
    few = Range(start, step, dtype)
    if dtype.kind in "iu":
        try:
            words = operator.index(start), operator.index(step)
        except TypeError:
            return few
        return _placed(few, "whole_steps", count, *words)
    if dtype not in _FLOATS or np.result_type(start, step).kind not in "biuf":
        return few
    return _placed(few, "steps", count, *map(_bits, few.first_and_step()))


def _line(few: Linear, parts: int) -> Any:
    kind = np.result_type(few.start, few.stop, float(few.num))
    if kind != np.float64 or few.dtype not in _FLOATS or parts < 1:
        return few
    step = np.subtract(few.stop, few.start, dtype=kind) / parts
    if step == 0 or np.ndim(step):
        return few
    last = few.num - 1 if few.endpoint else few.num  # the end is given as it is
    return _placed(few, "line", few.num, _bits(few.start), _bits(step), last, _bits(few.stop))


@dataclass(frozen=True)
class Range:
    """``start + step * i``, rounded as NumPy does."""

    start: Any
    step: Any
    dtype: np.dtype[Any]
    __name__ = "arange"
    takes_out = True

    def __call__(self, region: Region, out: Any = None) -> np.ndarray[Any, Any]:
        (span,) = region
        at = np.arange(span.start, span.stop)
        if out is None:
            out = np.empty(at.shape, self.dtype)
        if self.dtype.kind in "iu":
            start = int(self.start)
            step = int(self.start + self.step) - start  # as NumPy cuts them, and wraps the rest
            steps = at.astype(np.uint64) * np.uint64(step % 2**64)
            np.add(steps, np.uint64(start % 2**64), out=out, casting="unsafe")
            return out
        first, delta = self.first_and_step()
        np.add(first, at * delta, out=out, casting="unsafe")
        if span.start == 0:
            out[:1] = first  # it may be -0.0
        return out

    def first_and_step(self) -> tuple[Any, Any]:
        """Return the first element and the distance to the second, which is rounded."""
        first = np.asarray(self.start, self.dtype)[()]
        return first, np.asarray(self.start + self.step, self.dtype)[()] - first


@dataclass(frozen=True)
class Linear:
    """``num`` numbers evenly from `start` to `stop`."""

    start: Any
    stop: Any
    num: int
    endpoint: bool
    dtype: np.dtype[Any]
    __name__ = "linspace"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        (span,) = region
        kind = np.result_type(self.start, self.stop, float(self.num))
        parts = self.num - 1 if self.endpoint else self.num
        at = np.arange(span.start, span.stop).astype(kind)
        width = np.subtract(self.stop, self.start, dtype=kind)
        if parts > 0:
            step = width / parts
            found = at / parts * width if step == 0 else at * step
        else:
            found = at * width
        found = found + self.start
        if self.endpoint and self.num > 1 and span.start < span.stop == self.num:
            found[-1] = self.stop
        if self.dtype.kind in "iu":
            np.floor(found, out=found)
        return found.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class Geometric:
    """Powers of 10 from `start` to `stop`, times a sign."""

    line: Linear
    start: Any
    stop: Any
    sign: Any
    dtype: np.dtype[Any]
    __name__ = "geomspace"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        (span,) = region
        found = np.power(10.0, self.line(region)).astype(self.line.dtype, copy=False)
        if span.start == 0:
            found[:1] = self.start  # the ends are given as they are
        if self.line.endpoint and self.line.num > 1 and span.stop == self.line.num:
            found[-1:] = self.stop
        return (found * self.sign).astype(self.dtype, copy=False)
