"""The results of blocks, merged by the tree of order.py while a kernel goes on.

Sixteen rows of a level are merged into one of the next as soon as they are there, so that few are
in memory at once: they lie in a ring, sixteen of each level, the parts of a row one after the
other. `levels` counts the rows of each level; its last element is the highest level that has any.
What is left is merged when the last block of columns is done. Moments of rows are merged likewise,
as of one column, when all their blocks are done.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.kernels.native.llvm_reductions import (
    merged,
    one_or_more,
    start,
    store_moments,
    total_of_row,
)
from lazyflow.array.kernels.native.llvm_text import F8, Text
from lazyflow.array.kernels.native.operations import BOOL, Body, emit
from lazyflow.array.kernels.native.staging import KernelSpec
from lazyflow.array.kernels.order import GROUP, PIECE, Kind

DType = np.dtype[Any]
Each = Callable[[str], str]  # writes what is summed of a row

_LEVELS = 16  # more than there can be: sixteen to this power
_HIGHEST = _LEVELS - 1


def _bytes(kind: Kind, dtype: DType) -> int:
    """Return the bytes that a column has in a row."""
    return prod(kind.parts) * dtype.itemsize


# -- in a kernel ------------------------------------------------------------------------------


def new_levels(b: Body, at: int) -> None:
    """Write the counts of an output's levels: all zero."""
    b.do(f"%levels{at} = alloca [{_LEVELS} x i64]")
    b.do(f"store [{_LEVELS} x i64] zeroinitializer, ptr %levels{at}")


def next_row(b: Body, at: int, cols: str, kind: Kind, dtype: DType) -> None:
    """Name the row for the results of a block: `partial` and the number of the output."""
    count = b.let(f"load i64, ptr %levels{at}")
    away = b.let(f"mul i64 {count}, {b.let(f'mul i64 {cols}, {_bytes(kind, dtype)}')}")
    b.do(f"%partial{at} = getelementptr i8, ptr %ring{at}, i64 {away}")


def push(b: Body, at: int, cols: str) -> None:
    """Count a row that is complete; merge full levels."""
    b.do(f"call void @push{at}(ptr %ring{at}, ptr %levels{at}, i64 {cols})")


def flush(b: Body, at: int, cols: str, into: str, part: str) -> None:
    """Merge what is left into a row of a result, whose parts are `part` elements from each other.
    """
    given = f"ptr %ring{at}, ptr %levels{at}, i64 {cols}, ptr {into}, i64 {part}"
    b.do(f"call void @flush{at}({given})")


def merge_rows(text: Text, at: int, kind: Kind, dtype: DType) -> None:
    """Write the merging of the results of rows' blocks, when all are done: as one block, or a tree.
    """
    one = text.body
    blocks = one.let(f"udiv i64 {one.let(f'add i64 %inner, {PIECE - 1}')}, {PIECE}")

    def as_block(b: Body, number: str) -> None:
        first = text.element(b, f"%output{at}", b.let(f"mul i64 {number}, {blocks}"), dtype)
        name, given = f"merge.{kind.__name__}", f"ptr {first}, i64 {blocks}"
        found = total_of_row(b, kind, name, dtype, given)
        text.store(b, found, text.element(b, f"%merged{at}", number, dtype), dtype)

    def in_tree(b: Body, number: str) -> None:
        first = b.let(f"mul i64 {number}, {blocks}")

        def block(b: Body, index: str) -> None:
            slot = b.let(f"add i64 {first}, {index}")
            next_row(b, at, "1", kind, dtype)
            for part in range(prod(kind.parts)):
                place = b.let(f"add i64 {b.let(f'mul i64 %part, {part}')}, {slot}")
                value = text.load(b, text.element(b, f"%output{at}", place, dtype), dtype)
                text.store(b, value, text.element(b, f"%partial{at}", str(part), dtype), dtype)
            push(b, at, "1")

        text.each(f"blocks{at}", blocks, block)
        flush(b, at, "1", text.element(b, f"%merged{at}", number, dtype), "%length")

    text.each(f"merging{at}", "%length", in_tree if kind.rows_in_tree else as_block)


# -- functions --------------------------------------------------------------------------------


def mergers(spec: KernelSpec) -> list[str]:
    """Return the lines of the functions that merge the rows of each output."""
    lines: list[str] = []
    for at, kind, _ in spec.merged:
        dtype = spec.dtypes[spec.outputs[at][0]]
        function = _MomentsMerger(at) if kind.parts else _RowMerger(at, kind, dtype)
        size = _bytes(kind, dtype)
        lines += [*function.lines, *_push(at, size), *_flush(at, size)]
    return lines


def _push(at: int, size: int) -> list[str]:
    return f"""define internal void @push{at}(ptr %ring, ptr %levels, i64 %cols) {{
entry:
  %size = mul i64 %cols, {size}
  %top.at = getelementptr i64, ptr %levels, i64 {_HIGHEST}
  br label %next
next:
  %level = phi i64 [ 0, %entry ], [ %up, %full ]
  %count.at = getelementptr i64, ptr %levels, i64 %level
  %before = load i64, ptr %count.at
  %count = add i64 %before, 1
  store i64 %count, ptr %count.at
  %has.room = icmp slt i64 %count, {GROUP}
  br i1 %has.room, label %over, label %full
full:
  store i64 0, ptr %count.at
  %up = add i64 %level, 1
  %top = load i64, ptr %top.at
  %is.higher = icmp sgt i64 %up, %top
  %highest = select i1 %is.higher, i64 %up, i64 %top
  store i64 %highest, ptr %top.at
  %first = mul i64 %level, {GROUP}
  %from.away = mul i64 %first, %size
  %from = getelementptr i8, ptr %ring, i64 %from.away
  %others.at = getelementptr i64, ptr %levels, i64 %up
  %others = load i64, ptr %others.at
  %above = add i64 %first, {GROUP}
  %row = add i64 %above, %others
  %into.away = mul i64 %row, %size
  %into = getelementptr i8, ptr %ring, i64 %into.away
  call void @merge{at}(ptr %from, i64 {GROUP}, i64 %cols, ptr %into, i64 %cols)
  br label %next
over:
  ret void
}}""".splitlines()


def _flush(at: int, size: int) -> list[str]:
    given = "ptr %ring, ptr %levels, i64 %cols, ptr %out, i64 %part"
    return f"""define internal void @flush{at}({given}) {{
entry:
  %size = mul i64 %cols, {size}
  %top.at = getelementptr i64, ptr %levels, i64 {_HIGHEST}
  %top = load i64, ptr %top.at
  store i64 0, ptr %top.at
  br label %next
next:
  %level = phi i64 [ 0, %entry ], [ %up, %further ]
  %count.at = getelementptr i64, ptr %levels, i64 %level
  %count = load i64, ptr %count.at
  store i64 0, ptr %count.at
  %first = mul i64 %level, {GROUP}
  %from.away = mul i64 %first, %size
  %from = getelementptr i8, ptr %ring, i64 %from.away
  %up = add i64 %level, 1
  %is.last = icmp eq i64 %level, %top
  br i1 %is.last, label %last, label %lower
lower:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %rest, label %further
rest:
  %others.at = getelementptr i64, ptr %levels, i64 %up
  %others = load i64, ptr %others.at
  %more = add i64 %others, 1
  store i64 %more, ptr %others.at
  %above = add i64 %first, {GROUP}
  %row = add i64 %above, %others
  %into.away = mul i64 %row, %size
  %into = getelementptr i8, ptr %ring, i64 %into.away
  call void @merge{at}(ptr %from, i64 %count, i64 %cols, ptr %into, i64 %cols)
  br label %further
further:
  br label %next
last:
  call void @merge{at}(ptr %from, i64 %count, i64 %cols, ptr %out, i64 %part)
  ret void
}}""".splitlines()


class _Merger(Text):
    """The function that merges rows: of their place, their number and columns, and of the result's.
    """

    def __init__(self, at: int) -> None:
        super().__init__()
        given = "ptr %from, i64 %rows, i64 %cols, ptr noalias %into, i64 %part"
        self.lines.append(f"define internal void @merge{at}({given}) {{")
        self.label("entry")

    def end(self) -> None:
        """Write the end, where the loops over columns lead."""
        self.label("over")
        self.body.do("ret void")
        self.lines.append("}")


class _RowMerger(_Merger):
    """The function of what a ufunc merges."""

    def __init__(self, at: int, kind: Kind, dtype: DType) -> None:
        super().__init__(at)

        def inside(b: Body, index: str) -> None:
            def one_more(row: str, value: str) -> str:
                place = b.let(f"add i64 {b.let(f'mul i64 {row}, %cols')}, {index}")
                found = self.load(b, self.element(b, "%from", place, dtype), dtype)
                return merged(b, kind, dtype, value, found)

            value = self.fold(b, "%rows", start(b, kind, dtype), dtype, one_more)
            self.store(b, value, self.element(b, "%into", index, dtype), dtype)

        self.body.do("br label %columns")
        self.loops("columns", "%cols", "over", inside)
        self.end()


class _MomentsMerger(_Merger):
    """The function of moments, by the formula of order.py."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.single = self.body.let("icmp eq i64 %rows, 1")
        self.body.do("br label %columns")
        self.loops("columns", "%cols", "over", self._merge)
        self.end()

    def _at(self, b: Body, row: str, part: int, index: str) -> str:
        """Return a part of a row at an index: its count, mean or squares."""
        number = b.let(f"add i64 {b.let(f'mul i64 {row}, 3')}, {part}")
        place = b.let(f"add i64 {b.let(f'mul i64 {number}, %cols')}, {index}")
        return self.load(b, self.element(b, "%from", place, F8), F8)

    def _sum(self, b: Body, value: Each, rows: str = "%rows") -> str:
        """Return the sum over rows of what `value` gives for a row."""
        return self.fold(b, rows, b.zero(F8), F8, lambda row, total: b.let(
            f"fadd {b.type(F8)} {total}, {value(row)}"))

    def _merge(self, b: Body, index: str) -> None:
        kind = b.type(F8)

        def count(row: str) -> str:
            return self._at(b, row, 0, index)

        total = self._sum(b, count)
        some = one_or_more(b, total)

        def counting(row: str, found: str) -> str:  # from the last row to the first
            at = b.let(f"sub i64 {b.let('sub i64 %rows, 1')}, {row}")
            counts = b.let(f"fcmp une {kind} {count(at)}, {b.zero(F8)}")
            value = self._at(b, at, 1, index)
            return b.let(f"select {b.wide('i1')} {counts}, {kind} {value}, {kind} {found}")

        first = self.fold(b, "%rows", self._at(b, "0", 1, index), F8, counting)

        def weighed(row: str) -> str:
            far = b.let(f"fsub {kind} {self._at(b, row, 1, index)}, {first}")
            return b.let(f"fmul {kind} {count(row)}, {far}")

        moved = b.let(f"fdiv {kind} {self._sum(b, weighed)}, {some}")
        mean = b.let(f"fadd {kind} {first}, {moved}")

        def share(row: str) -> str:
            part = b.let(f"fdiv {kind} {count(row)}, {some}")
            return b.let(f"fmul {kind} {part}, {self._at(b, row, 1, index)}")

        mean = self._finite_or(b, mean, share)

        def squared(row: str) -> str:
            far = b.let(f"fsub {kind} {self._at(b, row, 1, index)}, {mean}")
            return b.let(f"fmul {kind} {count(row)}, {b.let(f'fmul {kind} {far}, {far}')}")

        between = self._sum(b, squared)
        inside = self._sum(b, lambda row: self._at(b, row, 2, index))
        squares = b.let(f"fadd {kind} {inside}, {between}")
        own = b.let(f"select i1 {self.single}, {kind} {first}, {kind} {mean}")  # -0.0 stays
        store_moments(self, b, "%into", index, "%part", (total, own, squares))

    def _finite_or(self, b: Body, mean: str, share: Each) -> str:
        """Return means, or sums of shares: differences of what is not finite say nothing."""
        kind, lanes = b.type(F8), b.wide("i1")
        finite = emit(b, np.isfinite, (F8, BOOL), [mean])
        whole = finite if b.width == 1 else b.let(
            f"icmp eq i{b.width} {b.let(f'bitcast {lanes} {finite} to i{b.width}')}, -1")
        rows = b.let(f"select i1 {whole}, i64 1, i64 %rows")  # dividing takes long
        plain = self._sum(b, share, rows)
        return b.let(f"select {lanes} {finite}, {kind} {mean}, {kind} {plain}")
