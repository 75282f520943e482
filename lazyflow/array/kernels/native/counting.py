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
from lazyflow.array.kernels.native.llvm_text import F8, I8, Text
from lazyflow.array.kernels.native.operations import FLOATS, SUPPORTED, Body, cast, emit

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
    def find(text: CountingText, k: int, x: str, dtype: Type) -> str:
        """Write what finds the bin of an element of the coordinate `k`."""


class Numbers(Bins):
    """A bin for each of `count` whole numbers, from the lowest on."""

    def __init__(self, count: int, lowest: int = 0) -> None:
        self.count = count
        self.lowest = lowest

    def takes(self, dtype: Type) -> bool:
        return dtype.kind in "iu"

    @property
    def edges(self) -> Any:
        """Edges between which NumPy finds these numbers."""
        return np.arange(self.count + 1) + (self.lowest - 0.5)

    @staticmethod
    def find(text: CountingText, k: int, x: str, dtype: Type) -> str:
        b = text.body
        found = b.let(f"sub i64 {cast(b, dtype, I8, x)}, %lowest{k}")
        text.go_on_if(b.let(f"icmp ult i64 {found}, %count{k}"))
        return found


class EvenBins(Bins):
    """Bins between edges, of equal width up to rounding; the last one includes its end.

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
    def find(text: CountingText, k: int, x: str, dtype: Type) -> str:
        b, table = text.body, f"%table{k}"
        x = cast(b, dtype, F8, x)
        start, per_unit, last = [
            text.load(b, text.element(b, table, str(n), F8), F8) for n in range(3)
        ]
        edges = text.element(b, table, "3", F8)
        above = b.let(f"fcmp oge double {x}, {text.load(b, edges, F8)}")
        below = b.let(f"fcmp ole double {x}, {last}")
        text.go_on_if(b.let(f"and i1 {above}, {below}"))
        far = b.let(f"fmul double {b.let(f'fsub double {x}, {start}')}, {per_unit}")
        guess = b.let(f"fptosi double {far} to i64")
        end = text.element(b, edges, b.let(f"add i64 {guess}, 1"), F8)
        more = b.let(f"fcmp oge double {x}, {text.load(b, end, F8)}")
        return b.let(f"add i64 {guess}, {b.let(f'zext i1 {more} to i64')}")


class CountingText(Text):
    """The text of a kernel; `weighted`: weights are added up instead of ones."""

    def __init__(self, kinds: Sequence[tuple[type[Bins], Type]], weighted: bool) -> None:
        super().__init__()
        self.kinds = kinds
        self.weighted = weighted
        axes = range(len(kinds))
        self.label("entry")
        self.arguments("ptr", "%pointers", [
            "result", "weights", *[f"{what}{k}" for k in axes for what in ("data", "table")]
        ])
        self.arguments("i64", "%numbers", [
            "elements", *[f"{what}{k}" for k in axes for what in ("count", "lowest")]
        ])
        self.body.do("%missed = alloca i32")
        self.body.do("store i32 0, ptr %missed")
        self.each("each.element", "%elements", self._element)
        self.body.do(f"ret i32 {self.body.let('load i32, ptr %missed')}")

    def _element(self, b: Body, index: str) -> None:
        at = "0"
        for k, (bins, dtype) in enumerate(self.kinds):
            x = self.load(b, self.element(b, f"%data{k}", index, dtype), dtype)
            found = bins.find(self, k, x, dtype)
            at = b.let(f"add i64 {b.let(f'mul i64 {at}, %count{k}')}, {found}")
        dtype, more = I8, "1"
        if self.weighted:
            dtype, more = F8, self.load(b, self.element(b, "%weights", index, F8), F8)
        place = self.element(b, "%result", at, dtype)
        total = emit(b, np.add, (dtype,) * 3, [self.load(b, place, dtype), more])
        self.store(b, total, place, dtype)
        b.do("br label %counted")
        self.label("without")
        b.do("store i32 1, ptr %missed")
        b.do("br label %counted")
        self.label("counted")

    def go_on_if(self, condition: str) -> None:
        """Leave an element out unless a condition holds."""
        name = self.body.name()[1:]
        self.body.do(f"br i1 {condition}, label %{name}, label %without")
        self.label(name)


@lru_cache(256)
def _kernel(kinds: tuple[tuple[type[Bins], Type], ...], weighted: bool) -> Kernel:
    return Kernel(
        lambda: CountingText(kinds, weighted).kernel(),
        lambda function: _difference(function, kinds, weighted),
    )


def _difference(
    function: Any, kinds: Sequence[tuple[type[Bins], Type]], weighted: bool
) -> str | None:
    """Return what is wrong with a new kernel: NumPy counts otherwise, or None."""
    rng = np.random.default_rng(0)
    many = max(12 // len(kinds), 2)
    made_up = {Numbers: Numbers(many, 1), EvenBins: EvenBins(np.linspace(1, 10.5, many + 1))}
    bins: Any = [made_up[kind] for kind, _ in kinds]
    blocks = [(rng.integers(0, 24, 1000) / 2).astype(dtype) for _, dtype in kinds]
    weights = rng.integers(1, 9, 1000).astype(F8) if weighted else None  # their sums are exact
    points = [block.astype(F8) for block in blocks]
    expected, _ = np.histogramdd(points, [each.edges for each in bins], weights=weights)
    found, every = _counted(function, blocks, bins, weights)
    good = (found == expected).all() and not every
    return None if good else "it counts otherwise than NumPy's functions"


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
    The counts, one axis for each coordinate, and whether each element had a bin; None if no kernel
    is ready.

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
    if not taken or not blocks[0].size:
        return None
    kernel = _kernel(tuple(zip(map(type, bins), types, strict=True)), weights is not None)
    if not kernel.ready(blocks[0].size * _OPERATIONS):
        return None
    return _counted(kernel.function, blocks, bins, weights)


def _counted(
    function: Any, blocks: Sequence[Any], bins: Sequence[Bins], weights: Any
) -> tuple[Any, bool]:
    """Return what a kernel counts, and whether each element had a bin."""
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
    missed = function(
        (ctypes.c_void_p * len(pointers))(*pointers), (ctypes.c_int64 * len(numbers))(*numbers)
    )
    return found, not missed


def _address(array: Any) -> int | None:
    return None if array is None else array.ctypes.data
