"""Kernels that count elements by bins in one pass, without the GIL.

A kernel is `i32 kernel(ptr pointers, ptr numbers)` and returns 1 if some element had no bin:

pointers    result, weights, then for each coordinate: elements, table of its bins
numbers     elements, then for each coordinate: how many bins, lowest whole number

There is one for the types of coordinates and their kinds of bins. It gives NumPy's values, so
blocks go through NumPy's functions until it is compiled.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lazyflow.array.kernels.native.compiler import Kernel
from lazyflow.array.kernels.native.operations import FLOATS, SUPPORTED, Body, memory

_OPERATIONS = 2  # that an element takes NumPy, about
_EXACT = 1 << 53  # whole numbers below are exact in double precision
_LARGEST = 1e300  # edges up to which no difference overflows, and bins for a unit
_BACK = 1 / 1024  # bins by which guesses are too low

Type = np.dtype[Any]


class Bins(ABC):
    """What gives each element of a coordinate the number of its bin.

    count, lowest
        How many bins there are, and the lowest whole number, which may wrap around.
    """

    count: int
    lowest = 0

    @abstractmethod
    def takes(self, dtype: Type) -> bool:
        """Tell whether a kernel finds the bins of elements of this type."""

    def table(self) -> Any:
        """Return an array that the kernel gets; None: it needs none."""
        return None

    @staticmethod
    @abstractmethod
    def find(b: CountingWriter, x: str, dtype: Type, table: str, count: str, lowest: str) -> str:
        """Emit what finds the bin of an element."""


class Numbers(Bins):
    """A bin for each of `count` whole numbers, from the lowest on."""

    def __init__(self, count: int, lowest: int = 0) -> None:
        self.count = count
        self.lowest = lowest

    def takes(self, dtype: Type) -> bool:
        return dtype.kind in "iu"

    @staticmethod
    def find(b: CountingWriter, x: str, dtype: Type, table: str, count: str, lowest: str) -> str:
        found = b.let(f"sub i64 {b.widened(x, dtype)}, {lowest}")
        b.go_on_if(b.let(f"icmp ult i64 {found}, {count}"))
        return found


class EvenBins(Bins):
    """Bins between edges, all as wide but for rounding; the last one has its end.

    Kernels guess a bin, or the one before it, and compare with the edge between them.
    """

    def __init__(self, edges: Any) -> None:
        self.edges = np.asarray(edges)
        self.count = max(len(edges) - 1, 0)

    def takes(self, dtype: Type) -> bool:
        if not self.count or self.edges.dtype not in FLOATS:
            return False
        low, high = float(self.edges[0]), float(self.edges[-1])
        if not -_LARGEST < low < high < _LARGEST or self.count / (high - low) > _LARGEST:
            return False
        if dtype.kind != "f" and dtype.itemsize == 8 and not -_EXACT < low < high < _EXACT:
            return False
        off = (self.edges.astype("f8") - low) * (self.count / (high - low))
        off -= np.arange(len(off))
        return bool(np.abs(off, out=off).max() < _BACK / 2)

    def table(self) -> Any:
        """Return where guesses begin, bins for a unit, the last edge, and the others."""
        low, high = float(self.edges[0]), float(self.edges[-1])
        back = _BACK * (high - low) / self.count
        head = [low + back, self.count / (high - low), high]
        return np.concatenate([head, self.edges[:-1], [np.inf]])

    @staticmethod
    def find(b: CountingWriter, x: str, dtype: Type, table: str, count: str, lowest: str) -> str:
        x = b.widened(x, dtype, True)
        above = b.let(f"fcmp oge double {x}, {b.load('double', table, 3)}")
        below = b.let(f"fcmp ole double {x}, {b.load('double', table, 2)}")
        b.go_on_if(b.let(f"and i1 {above}, {below}"))
        wide = b.let(f"fsub double {x}, {b.load('double', table, 0)}")
        wide = b.let(f"fmul double {wide}, {b.load('double', table, 1)}")
        guess = b.let(f"fptosi double {wide} to i64")
        end = b.load("double", b.place("double", table, 4), guess)
        more = b.let(f"fcmp oge double {x}, {end}")
        return b.let(f"add i64 {guess}, {b.let(f'zext i1 {more} to i64')}")


class CountingWriter(Body):
    """Writes a kernel; `weighted`: weights are added up instead of ones."""

    def __init__(self, kinds: Sequence[tuple[type[Bins], Type]], weighted: bool) -> None:
        super().__init__(1, [], [0])
        self.kinds = kinds
        self.weighted = weighted

    def label(self, name: str) -> None:
        """Begin a part that is jumped to."""
        self.lines.append(f"{name}:")

    def go_on_if(self, condition: str) -> None:
        """Leave an element out unless a condition holds."""
        label = self.name()[1:]
        self.do(f"br i1 {condition}, label %{label}, label %without")
        self.label(label)

    def load(self, kind: str, source: str, at: Any) -> str:
        """Load an element of an array."""
        return self.let(f"load {kind}, ptr {self.place(kind, source, at)}")

    def place(self, kind: str, source: str, at: Any) -> str:
        """Return the address of an element of an array."""
        return self.let(f"getelementptr {kind}, ptr {source}, i64 {at}")

    def widened(self, x: str, dtype: Type, as_float: bool = False) -> str:
        """Cast an element to 64 bits, of a whole number or of a float."""
        kind, sign = memory(dtype), "s" if dtype.kind == "i" else "u"
        if dtype in FLOATS:
            return x if kind == "double" else self.let(f"fpext {kind} {x} to double")
        if as_float:
            return self.let(f"{sign}itofp {kind} {x} to double")
        word = {"s": "sext", "u": "zext"}[sign]
        return x if kind == "i64" else self.let(f"{word} {kind} {x} to i64")

    def write(self, name: str) -> str:
        """Return the text of a module with the kernel."""
        self.label("entry")
        result, weights, *pointers = self._loaded("ptr", "%pointers")
        elements, *numbers = self._loaded("i64", "%numbers")
        self.do("br label %head")
        self.label("head")
        self.do("%i = phi i64 [0, %entry], [%next, %end]")
        self.do("%missed = phi i32 [0, %entry], [%now, %end]")
        self.do(f"br i1 {self.let(f'icmp slt i64 %i, {elements}')}, label %body, label %exit")
        self.label("body")
        at = "0"
        for k, (bins, dtype) in enumerate(self.kinds):
            data, table = pointers[2 * k:2 * k + 2]
            count, lowest = numbers[2 * k:2 * k + 2]
            x = self.load(memory(dtype), data, "%i")
            found = bins.find(self, x, dtype, table, count, lowest)
            at = self.let(f"add i64 {self.let(f'mul i64 {at}, {count}')}, {found}")
        self._add(self.place("i64", result, at), weights)
        for line in _LOOP_ENDS:
            self.lines.append(line)
        return "\n".join([f"define i32 @{name}(ptr %pointers, ptr %numbers) {{", *self.lines, "}"])

    def _loaded(self, kind: str, source: str) -> list[str]:
        count = 2 * len(self.kinds) + (2 if kind == "ptr" else 1)
        return [self.load(kind, source, k) for k in range(count)]

    def _add(self, target: str, weights: str) -> None:
        kind, word, more = "i64", "add", "1"
        if self.weighted:
            kind, word, more = "double", "fadd", self.load("double", weights, "%i")
        before = self.let(f"load {kind}, ptr {target}")
        self.do(f"store {kind} {self.let(f'{word} {kind} {before}, {more}')}, ptr {target}")


_LOOP_ENDS = """  br label %counted
counted:
  br label %end
without:
  br label %end
end:
  %now = phi i32 [%missed, %counted], [1, %without]
  %next = add i64 %i, 1
  br label %head
exit:
  ret i32 %missed""".splitlines()


@lru_cache(256)
def _kernel(kinds: tuple[tuple[type[Bins], Type], ...], weighted: bool) -> Kernel:
    return Kernel(
        lambda: CountingWriter(kinds, weighted).write("NAME"), lambda function: None)


def count(
    blocks: Sequence[np.ndarray[Any, Any]], bins: Sequence[Bins], weights: Any = None
) -> tuple[Any, bool] | None:
    """Return how many elements, or what sum of weights, fall into each bin.

    Parameters
    ----------
    blocks, bins
        For each coordinate its elements, and their bins.

    Returns
    -------
    The counts, one axis for each coordinate, and whether each element had a bin; None: there is no
    kernel, or it isn't ready.

    Examples
    --------
    >>> from lazyflow import config
    >>> with config.set(kernels="native"):
    ...     count([np.array([3, 1, 3, 7])], [Numbers(4)])
    (array([0, 1, 0, 2]), False)
    """
    types = [block.dtype for block in blocks]
    taken = all(
        dtype in SUPPORTED and each.takes(dtype) for dtype, each in zip(types, bins, strict=True)
    )
    if not taken:
        return None
    kernel = _kernel(tuple(zip(map(type, bins), types, strict=True)), weights is not None)
    if not kernel.ready(blocks[0].size * _OPERATIONS):
        return None
    flat = [np.ascontiguousarray(block).reshape(-1) for block in blocks]
    if weights is not None:
        weights = np.ascontiguousarray(weights, np.float64).reshape(-1)
    found = np.zeros([each.count for each in bins], np.intp if weights is None else np.float64)
    tables = [each.table() for each in bins]
    pointers = [_address(found), _address(weights)]
    numbers = [blocks[0].size]
    for block, table, each in zip(flat, tables, bins, strict=True):
        pointers += [_address(block), _address(table)]
        numbers += [each.count, each.lowest]
    missed = kernel.function(
        (ctypes.c_void_p * len(pointers))(*pointers), (ctypes.c_int64 * len(numbers))(*numbers)
    )
    return found, not missed


def _address(array: Any) -> int | None:
    return None if array is None else array.ctypes.data
