"""Kernels as LLVM's text: `i32 kernel(ptr pointers, ptr numbers)`; they return the raised flags.

pointers    feclearexcept, fetestexcept, loops (function and data of each of their calls), sources
            (of drawn ones the first place), outputs, scratch, parameters of draws; for each
            output whose blocks are merged a ring (see below), of rows the result; for
            each scan its state (llvm_reductions.py), for chosen elements how many there are
numbers     outer, length and inner of the grid, rows and elements of a row of a tile at most,
            elements of a row of the sources that lie in rows, elements of one part of moments;
            then for each of those sources and each output that is not reduced: its strides
            between rows, and within a row; for each scan its span and its inner lines

Everything comes as an argument, so the object code needs no linking and can be kept on disk. A
kernel goes over tiles: some rows of a piece of the inner elements. Values to reduce stay in scratch
memory until the tile is over (llvm_reductions.py); a value that one reduction reads, of sources
that lie in its rows, is computed there in registers. Within a tile runs end where a row of the tile
or of a source does; rows that follow each other in memory are one.

The results of blocks are merged by the tree of order.py while a kernel goes on. Sixteen rows of a
level are merged into one of the next as soon as they are there, so that few are in memory at once:
they lie in a ring, sixteen of each level, the parts of a row one after the other. `levels` counts
the rows of each level; its last element is the highest level that has any. The rest is merged after
the last block of columns. Moments of rows are merged likewise, as of one column, when all their
blocks are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.kernels.draws.draw import functions
from lazyflow.array.kernels.draws.formulas import FORMULAS
from lazyflow.array.kernels.native.elementary.formulas import OWN
from lazyflow.array.kernels.native.llvm_reductions import (
    GIVEN,
    Tile,
    TileRows,
    choose,
    elements_of,
    evaluated,
    in_columns,
    in_rows,
    merged,
    one_or_more,
    reducers,
    scanners,
    start,
    store_moments,
    total_of_row,
)
from lazyflow.array.kernels.native.llvm_text import F8, Inside, Text, lanes_of
from lazyflow.array.kernels.native.operations import BOOL, Body, emit
from lazyflow.array.kernels.native.staging import KernelSpec, Stage, Staging
from lazyflow.array.kernels.order import GROUP, PIECE, Kind, reduces
from lazyflow.array.kernels.planning import (
    ANY,
    CONSTANT,
    DRAWN,
    FLAT,
    SAME,
    UNIT,
    scans_of,
)
from lazyflow.array.kernels.program import LoweredStep, ScanOperation

# -- blocks merged to one result ---------------------------------------------------------------


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
    body = text.body
    blocks = body.let(f"udiv i64 {body.let(f'add i64 %inner, {PIECE - 1}')}, {PIECE}")

    def as_block(b: Body, number: str) -> None:
        first = text.element(b, f"%output{at}", b.let(f"mul i64 {number}, {blocks}"), dtype)
        name, given = f"merge.{kind.__name__}", f"ptr {first}, i64 {blocks}"
        total = total_of_row(b, kind, name, dtype, given)
        text.store(b, total, text.element(b, f"%merged{at}", number, dtype), dtype)

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


# -- kernels -----------------------------------------------------------------------------------


def places(spec: KernelSpec, staging: Staging) -> list[str]:
    """Return the names of what lies in scratch memory, `PIECE` elements of 8 bytes each."""
    kept = [f"%kept{value}" for value in staging.scratch]
    counted = [f"%counts{at}" for at, _, masked in spec.reduced if masked]
    drawn = [f"%drawn{at}" for at, _ in _draws(spec)]
    tiles = [] if spec.in_place else [f"%tile{at}" for at, _, _ in spec.reduced]
    return kept + tiles + counted + drawn


def _draws(spec: KernelSpec) -> list[tuple[int, str]]:
    """Return the sources that are drawn, and their formulas."""
    sources = enumerate(spec.sources)
    return [(at, layout[1:]) for at, (_, layout) in sources if layout[0] == DRAWN]


class Writer(Text):
    """Writes the text of a kernel."""

    def __init__(self, spec: KernelSpec, staging: Staging) -> None:
        super().__init__()
        self.spec = spec
        self.staging = staging
        self.steps = called([step for stage in staging.stages for step in stage.loops])
        self.scans = scans_of(spec.steps)
        #: What lies in rows: sources, and, numbered after them, outputs that are not reduced.
        self.in_rows = {
            at: f"%source{at}"
            for at, (_, layout) in enumerate(spec.sources)
            if layout[0] in (UNIT, SAME, ANY, DRAWN)
        } | {
            len(spec.sources) + at: f"%output{at}"
            for at, (_, kind, _) in enumerate(spec.outputs)
            if kind is None
        }
        #: The outputs that the last stage writes: places, numbers of values and of masks.
        self.stored = [
            (at, n, mask) for at, (n, kind, mask) in enumerate(spec.outputs)
            if (kind is None or reduces(kind)) and n not in spec.straight
        ]
        self.here: dict[int, str] = {}  # the first element of a source's or an output's run
        self.results: dict[int, str] = {}  # of an output's

    # -- the frame

    def write(self) -> str:
        """Return the text of a module with the kernel."""
        self._entry()
        self._tile_starts()
        if not self.spec.in_place:
            self._run_starts()
            for number in range(len(self.staging.stages)):
                self._stage(number)
            self._run_ends()
        self._tile_ends()
        drawn = [
            line for at, formula in _draws(self.spec)
            for line in functions(f"draw{at}", FORMULAS[formula], self.spec.dtypes[at])
        ]
        return self.kernel(
            [*drawn, *reducers(self.spec), *mergers(self.spec), *scanners(self.spec)])

    def _entry(self) -> None:
        b, spec = self.body, self.spec
        self.label("entry")
        names = ["clear", "test"]
        for at in range(len(self.steps)):
            names += [f"loop{at}", f"data{at}"]
        names += [f"source{at}" for at in range(len(spec.sources))]
        names += [f"output{at}" for at in range(len(spec.outputs))] + ["scratch"]
        names += [f"params{at}" for at, _ in _draws(spec)]
        names += [f"ring{at}" for at, *_ in spec.merged]
        if not spec.in_columns:
            names += [f"merged{at}" for at, *_ in spec.reduced]
        names += [f"state{at}" for at in range(len(self.scans))]
        names += [f"many{at}" for at, *_ in spec.chosen]
        self.arguments("ptr", "%pointers", names)
        numbers = ["outer", "length", "inner", "high", "piece", "row", "part"]
        numbers += [f"{way}{at}" for at in self.in_rows for way in ("across", "along")]
        numbers += [f"{what}{at}" for at in range(len(self.scans)) for what in ("span", "lines")]
        self.arguments("i64", "%numbers", numbers)
        most = max([len(step.operands) + len(step.results) for step in self.steps], default=1)
        for name in ("args", "steps"):
            b.do(f"%{name} = alloca [{most} x ptr]")
        b.do("%count = alloca i64")
        for name in ("in_outer", "top", "left", "line", "pos", "off", "rest", "slot"):
            b.do(f"%{name} = alloca i64")
            b.do(f"store i64 0, ptr %{name}")
        for at, *_ in spec.merged:
            new_levels(b, at)
        for at, *_ in spec.chosen:
            b.do(f"store i64 0, ptr %many{at}")
        for at, (dtype, layout) in enumerate(spec.sources):
            if layout == CONSTANT:
                self.constant(at, f"%source{at}", dtype)
        for at, name in enumerate(places(spec, self.staging)):
            b.do(f"{name} = getelementptr i8, ptr %scratch, i64 {at * PIECE * 8}")
        b.do("%cleared = call i32 %clear(i32 61)")
        b.do("br label %tile")

    def _get(self, name: str) -> str:
        return self.body.let(f"load i64, ptr %{name}")

    def _set(self, name: str, value: str) -> None:
        self.body.do(f"store i64 {value}, ptr %{name}")

    def _tile_starts(self) -> None:
        b = self.body
        self.label("tile")
        left = b.let(f"sub i64 %inner, {self._get('left')}")
        b.do(f"%cols = add i64 {self.least(left, '%piece')}, 0")
        below = b.let(f"sub i64 %length, {self._get('top')}")
        b.do(f"%rows = add i64 {self.least(below, '%high')}, 0")
        row = b.let(f"mul i64 {self._get('in_outer')}, %length")
        b.do(f"%first = add i64 {row}, {self._get('top')}")
        if self.spec.in_place:
            b.do("br label %tile.over")
            return
        whole = b.let("icmp eq i64 %cols, %inner")
        b.do("%all = mul i64 %rows, %cols")
        b.do(f"%long = select i1 {whole}, i64 %all, i64 %cols")
        b.do(f"%lines = select i1 {whole}, i64 1, i64 %rows")
        self._set("line", "0")
        self._set("off", "0")
        b.do("br label %line.starts")
        self.label("line.starts")
        row = b.let(f"add i64 %first, {self._get('line')}")
        first = b.let(f"mul i64 {row}, %inner")
        self._set("pos", b.let(f"add i64 {first}, {self._get('left')}"))
        self._set("rest", "%long")
        b.do("br label %run")

    def _run_starts(self) -> None:
        b = self.body
        self.label("run")
        pos, run = self._get("pos"), self._get("rest")
        if self.in_rows:
            row = b.let(f"udiv i64 {pos}, %row")
            within = b.let(f"sub i64 {pos}, {b.let(f'mul i64 {row}, %row')}")
            run = self.least(run, b.let(f"sub i64 %row, {within}"))
        b.do(f"%n = add i64 {run}, 0")
        b.do(f"%here = add i64 {pos}, 0")
        for at, first in self.in_rows.items():
            across = b.let(f"mul i64 {row}, %across{at}")
            along = b.let(f"mul i64 {within}, %along{at}")
            away = b.let(f"add i64 {across}, {along}")
            self.here[at] = b.let(f"getelementptr i8, ptr {first}, i64 {away}")
        for at, _ in _draws(self.spec):
            place = b.let(f"ptrtoint ptr {self.here[at]} to i64")
            self.here[at] = f"%drawn{at}"
            given = f"i64 {place}, i64 %n, ptr %params{at}, ptr %drawn{at}"
            b.do(f"call void @draw{at}.row({given})")
        for at, (dtype, layout) in enumerate(self.spec.sources):
            if layout == FLAT:
                self.here[at] = self.element(b, f"%source{at}", pos, dtype)
            elif layout == SAME:
                self.constant(at, self.here[at], dtype)
        off = self._get("off")
        for at, (value, kind, mask) in enumerate(self.spec.outputs):
            self.results[at] = self.here.get(len(self.spec.sources) + at, "")
            if reduces(kind):
                self.results[at] = self.element(b, f"%tile{at}", off, self.spec.dtypes[value])
            if mask is not None and reduces(kind):
                b.do(f"%counted{at} = getelementptr double, ptr %counts{at}, i64 {off}")
        b.do("br label %g0.start")

    def _run_ends(self) -> None:
        b = self.body
        self.label(f"g{len(self.staging.stages)}.start")
        for name in ("pos", "off"):
            self._set(name, b.let(f"add i64 {self._get(name)}, %n"))
        rest = b.let(f"sub i64 {self._get('rest')}, %n")
        self._set("rest", rest)
        more = b.let(f"icmp sgt i64 {rest}, 0")
        b.do(f"br i1 {more}, label %run, label %line.over")
        self.label("line.over")
        self._count_on("line", "1", "%lines", "line.starts", "tile.over")

    def _count_on(self, name: str, step: str, end: str, again: str, after: str) -> None:
        """Write the step of a loop, and the jump to its start or to what is after it."""
        b = self.body
        now = b.let(f"add i64 {self._get(name)}, {step}")
        more = b.let(f"icmp slt i64 {now}, {end}")
        self._set(name, b.let(f"select i1 {more}, i64 {now}, i64 0"))
        b.do(f"br i1 {more}, label %{again}, label %{after}")

    def _tile_ends(self) -> None:
        b = self.body
        self.label("tile.over")
        slot = self._get("left" if self.spec.in_columns else "slot")
        for at, kind, masked in self.spec.reduced:
            elements = elements_of(self.spec, self.spec.outputs[at][0])
            rows = {n: self._rows(at, n) for n in elements.lying}
            tile = Tile(at, kind, masked, elements, rows, slot)
            if self.spec.in_columns:
                next_row(b, at, "%inner", kind, tile.dtype)
            (in_columns if self.spec.in_columns else in_rows)(self, tile)
        if not self.spec.in_columns:
            self._set("slot", b.let(f"add i64 {slot}, %rows"))
        self._count_on("left", "%cols", "%inner", "tile", "inner.over")
        self.label("inner.over")
        for at, *_ in self.spec.merged if self.spec.in_columns else ():
            push(b, at, "%inner")
        self._count_on("top", "%high", "%length", "tile", "length.over")
        self.label("length.over")
        for at, *_ in self.spec.merged if self.spec.in_columns else ():
            dtype = self.spec.dtypes[self.spec.outputs[at][0]]
            before = b.let(f"mul i64 {self._get('in_outer')}, %inner")
            flush(b, at, "%inner", self.element(b, f"%output{at}", before, dtype), "%part")
        self._count_on("in_outer", "1", "%outer", "tile", "finish")
        self.label("finish")
        for at, kind, _ in self.spec.reduced if not self.spec.in_columns else ():
            dtype = self.spec.dtypes[self.spec.outputs[at][0]]
            merge_rows(self, at, kind, dtype)
        b.do("%flags = call i32 %test(i32 61)")
        b.do("ret i32 %flags")

    def _rows(self, at: int, value: int) -> TileRows:
        """Return where the rows of a tile begin, of a source where it is read in place."""
        b, size = self.body, self.spec.dtypes[value].itemsize
        if not self.spec.in_place:
            return TileRows(f"%tile{at}", b.let(f"mul i64 %cols, {size}"))
        across = f"%across{value}"
        if value not in self.in_rows:
            across = b.let(f"mul i64 %inner, {size}")
        above = b.let(f"mul i64 %first, {across}")
        before = b.let(f"mul i64 {self._get('left')}, {size}")
        away = b.let(f"add i64 {above}, {before}")
        return TileRows(b.let(f"getelementptr i8, ptr %source{value}, i64 {away}"), across)

    # -- stages

    def _stage(self, number: int) -> None:
        stage, b, name = self.staging.stages[number], self.body, f"g{number}"
        last = number == len(self.staging.stages) - 1
        self.label(f"{name}.start")
        if stage.inline or stage.kept or (last and (self.stored or self.spec.chosen)):
            first = self._second_vector() if last else str(self.width)
            b.do(f"br label %{name}.loops")
            costly = any(step.op in OWN for step in stage.inline)
            inside = self._inside(stage, last)
            self.loops(f"{name}.loops", "%n", f"{name}.calls", inside, first, costly)
            self.label(f"{name}.calls")
        for step in stage.loops:
            (self._call_scan if step in self.scans else self._call_loop)(step)
        b.do(f"br label %g{number + 1}.start")

    def _second_vector(self) -> str:
        """Return where the second vector of a run begins: a line of what is written, if it is long.
        """
        for at, (value, kind, _) in enumerate(self.spec.outputs):
            if kind is None:
                size = self.spec.dtypes[value].itemsize
                return self.to_whole_line(self.results[at], "%n", size)
        return str(self.width)

    def _inside(self, stage: Stage, last: bool) -> Inside:
        """Return the writer of a stage's loop: compute, keep, and in the last store the outputs."""

        def inside(b: Body, index: str) -> None:
            value = evaluated(b, stage.inline, lambda n: self._read(b, n, index))
            for n in stage.kept:
                dtype = self.spec.dtypes[n]
                self.store(b, value(n), self.element(b, f"%kept{n}", index, dtype), dtype)
            if not last:
                return
            for at, n, mask in self.stored:
                found, dtype = value(n), self.spec.dtypes[n]
                if mask is not None:
                    found = self.select(b, value(mask), found)
                    one = b.let(f"uitofp {b.wide('i1')} {value(mask)} to {b.type(F8)}")
                    self.store(b, one, self.element(b, f"%counted{at}", index, F8), F8)
                self.store(b, found, self.element(b, self.results[at], index, dtype), dtype)
            for at, n, mask in self.spec.chosen:
                choose(self, b, at, index, value(n), value(mask), self.spec.dtypes[n])

        return inside

    def _read(self, b: Body, n: int, index: str) -> str:
        if (n, b.width) in self.constants:
            return self.constants[n, b.width]
        dtype = self.spec.dtypes[n]
        if n >= len(self.spec.sources):
            return self.load(b, self.element(b, f"%kept{n}", index, dtype), dtype)
        if self.spec.sources[n][1] == ANY:
            return self._gather(b, n, index)
        return self.load(b, self.element(b, self.here[n], index, dtype), dtype)

    def _gather(self, b: Body, n: int, index: str) -> str:
        numbers = lanes_of(b, "i64", index) if b.apart else [
            b.let(f"add i64 {index}, {lane}") if lane else index for lane in range(b.width)
        ]
        away = [b.let(f"mul i64 {number}, %along{n}") for number in numbers]
        pointers = [b.let(f"getelementptr i8, ptr {self.here[n]}, i64 {x}") for x in away]
        return self.load(b, pointers if b.width > 1 else pointers[0], self.spec.dtypes[n])

    def _call_loop(self, step: LoweredStep) -> None:
        b, at = self.body, self.steps.index(step)
        for slot, n in enumerate((*step.operands, *step.results)):
            size = self.spec.dtypes[n].itemsize
            pointer = f"%kept{n}"
            if n < len(self.spec.sources) and n not in self.staging.scratch:
                constant = self.spec.sources[n][1] == CONSTANT
                pointer = f"%source{n}" if constant else self.here[n]
                size = 0 if constant else size
            arg = b.let(f"getelementptr ptr, ptr %args, i64 {slot}")
            b.do(f"store ptr {pointer}, ptr {arg}")
            stride = b.let(f"getelementptr i64, ptr %steps, i64 {slot}")
            b.do(f"store i64 {size}, ptr {stride}")
        b.do("store i64 %n, ptr %count")
        b.do(f"call void %loop{at}(ptr %args, ptr %count, ptr %steps, ptr %data{at})")


    def _call_scan(self, step: LoweredStep) -> None:
        at, n = self.scans.index(step), step.operands[0]
        read = self.here[n] if n in self.here and n not in self.staging.scratch else f"%kept{n}"
        carry = f"%source{step.operands[1]}" if step.operands[1:] else "null"
        numbers = "%here", "%n", f"%span{at}", f"%lines{at}"
        (found,) = step.results
        straight = self.spec.straight.get(found, -1)
        into = f"%kept{found}"
        if straight != -1:
            into = "null" if straight is None else self.results[straight]
        given = GIVEN.format(read, into, *numbers, f"%state{at}", carry)
        self.body.do(f"call void @scan{at}({given})")


def called(steps: Sequence[LoweredStep]) -> list[LoweredStep]:
    """Return those of the steps after a loop that are NumPy's own loops."""
    return [step for step in steps if not isinstance(step.op, ScanOperation)]
