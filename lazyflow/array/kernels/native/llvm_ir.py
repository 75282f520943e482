"""Kernels as LLVM's text: `i32 kernel(ptr pointers, ptr numbers)`; they return the raised flags.

pointers    feclearexcept, fetestexcept, loops (function and data of each of their calls), sources
            (of drawn ones the first place), outputs, scratch, parameters of draws; for each
            output whose blocks are merged a ring (llvm_merging.py), of rows the result; for
            each scan its state (llvm_scans.py), for chosen elements how many there are
numbers     outer, length and inner of the grid, rows and elements of a row of a tile at most,
            elements of a row of the sources that lie in rows, elements of one part of moments;
            then for each of those sources and each output that is not reduced: its strides
            between rows, and within a row; for each scan its span and its inner lines

Everything comes as an argument, so the object code needs no linking and can be kept on disk. A
kernel goes over tiles: some rows of a piece of the inner elements. What is reduced is left in
scratch memory, and reduced when the tile is over (llvm_reductions.py); what one reduction reads of
sources that lie in its rows is computed there in registers. Within a tile runs end where a row of
the tile or of a source does; rows that follow each other in memory are one.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyflow.array.kernels.draws.by_llvm import functions
from lazyflow.array.kernels.draws.formulas import FORMULAS
from lazyflow.array.kernels.native.elementary.formulas import OWN
from lazyflow.array.kernels.native.llvm_merging import (
    flush,
    merge_rows,
    mergers,
    new_levels,
    next_row,
    push,
)
from lazyflow.array.kernels.native.llvm_reductions import (
    Tile,
    TileRows,
    choose,
    elements_of,
    evaluated,
    in_columns,
    in_rows,
    reducers,
)
from lazyflow.array.kernels.native.llvm_scans import GIVEN, scanners
from lazyflow.array.kernels.native.llvm_text import F8, Inside, Text, lanes_of
from lazyflow.array.kernels.native.operations import Body
from lazyflow.array.kernels.native.staging import KernelSpec, Stage, Staging
from lazyflow.array.kernels.order import PIECE, reduces
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
        most = max([call_size(step) for step in self.steps], default=1)
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
        for at, start in self.in_rows.items():
            across = b.let(f"mul i64 {row}, %across{at}")
            along = b.let(f"mul i64 {within}, %along{at}")
            away = b.let(f"add i64 {across}, {along}")
            self.here[at] = b.let(f"getelementptr i8, ptr {start}, i64 {away}")
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


def call_size(step: LoweredStep) -> int:
    """Return how many arguments the loop of a step has."""
    return len(step.operands) + len(step.results)
