"""The formulas of arrays that are made of nothing else: each gives any region of an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lazyflow.array.nodes.sources import Region


@dataclass(frozen=True)
class Filled:
    """One value everywhere, as the bytes of an element."""

    value: bytes
    dtype: np.dtype[Any]
    __name__ = "full"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        value = np.frombuffer(self.value, self.dtype).reshape(())  # an element has another dtype
        return np.broadcast_to(value, [s.stop - s.start for s in region])


@dataclass(frozen=True)
class FilledObject:
    """One object everywhere."""

    value: Any
    __name__ = "full"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        out = np.empty([s.stop - s.start for s in region], dtype=object)
        out.fill(self.value)
        return out


@dataclass(frozen=True)
class Range:
    """``start + step * i``, rounded as NumPy does."""

    start: Any
    step: Any
    dtype: np.dtype[Any]
    __name__ = "arange"

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        (span,) = region
        at = np.arange(span.start, span.stop)
        if self.dtype.kind in "iu":
            with np.errstate(over="ignore"):
                return (at * self.step + self.start).astype(self.dtype)
        first = np.asarray(self.start, self.dtype)[()]
        delta = np.asarray(self.start + self.step, self.dtype)[()] - first
        return (first + at * delta).astype(self.dtype)


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
class Diagonal:
    """Ones on a diagonal, `k` columns above the main one."""

    k: int
    dtype: np.dtype[Any]
    __name__ = "eye"
    _whole: ClassVar[Any] = staticmethod(np.eye)

    def __call__(self, region: Region) -> np.ndarray[Any, Any]:
        rows, columns = region
        shape = rows.stop - rows.start, columns.stop - columns.start
        found: np.ndarray[Any, Any] = self._whole(
            *shape, k=self.k + rows.start - columns.start, dtype=self.dtype
        )
        return found


class Tri(Diagonal):
    """Ones on and below a diagonal."""

    __name__ = "tri"
    _whole = staticmethod(np.tri)
