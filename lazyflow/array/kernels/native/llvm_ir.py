"""Kernels as LLVM's text: `i32 kernel(ptr pointers, ptr numbers)`; they return the raised flags.

pointers    feclearexcept, fetestexcept, loops (function and data of each of their calls), sources,
            outputs, scratch
numbers     first and end element, elements of an outer index, lanes, elements of a row, most in
            a run, lanes of all blocks; then for each source that lies in rows and each output
            that is not reduced: its strides between rows, and within a row

Everything comes as an argument, so the object code needs no linking and can be kept on disk.
Runs end where a row of lanes, an outer index, a row of a source or the scratch memory does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyflow.array.kernels.lowering import KINDS, LoweredStep
from lazyflow.array.kernels.native.modules import module_text
from lazyflow.array.kernels.native.operations import Body, emit, memory, register
from lazyflow.array.kernels.native.staging import KernelSpec, Stage, Staging
from lazyflow.array.kernels.order import GROUP
from lazyflow.array.kernels.planning import ANY, CONSTANT, FLAT, SAME, UNIT

Inside = Callable[[Body, str], None]

WIDTH = 16  # elements of a vector: two AVX-512 registers of doubles
RUN = 2048  # elements of a value in scratch memory: 16 KB, a guess at what leaves room in L1 and L2


class Writer:
    """Writes kernels without moments.

    states
        Further variables of a kernel, with their first values.
    """

    states: tuple[tuple[str, str], ...] = ()

    def __init__(self, spec: KernelSpec, staging: Staging) -> None:
        self.spec = spec
        self.staging = staging
        self.lines: list[str] = []
        self.names = [0]
        self.body = self.at(1)
        self.steps = [step for stage in staging.stages for step in stage.loops]
        self.constants: dict[tuple[int, int], str] = {}
        #: What lies in rows: sources, and, numbered after them, outputs that are not reduced.
        self.in_rows = {
            at: f"%source{at}"
            for at, (_, layout) in enumerate(spec.sources)
            if layout in (UNIT, SAME, ANY)
        } | {
            len(spec.sources) + at: f"%output{at}"
            for at, (_, kind, _) in enumerate(spec.outputs)
            if kind is None
        }
        self.cursors = {at: f"%cursor{at}" for at in self.in_rows}
        self.here: dict[int, str] = {}  # the first element of a source's or an output's run

    def at(self, width: int) -> Body:
        return Body(width, self.lines, self.names)

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    # -- the frame

    def write(self, name: str) -> str:
        """Return the text of a module with the kernel."""
        self._entry()
        self._run_starts()
        for number in range(len(self.staging.stages)):
            self._stage(number)
        self._second_ways()
        self._run_ends()
        head = f"define i32 @{name}(ptr noalias %pointers, ptr noalias %numbers) {{"
        return module_text([head, *self.lines, "}"])

    def _entry(self) -> None:
        b, spec = self.body, self.spec
        self.label("entry")
        names = ["clear", "test"]
        for at in range(len(self.steps)):
            names += [f"loop{at}", f"data{at}"]
        names += [f"source{at}" for at in range(len(spec.sources))]
        names += [f"output{at}" for at in range(len(spec.outputs))] + ["scratch"]
        for at, name in enumerate(names):
            b.do(f"%{name}.at = getelementptr ptr, ptr %pointers, i64 {at}")
            b.do(f"%{name} = load ptr, ptr %{name}.at")
        numbers = ["first", "end", "outer", "lanes", "row", "most", "slots"]
        numbers += [f"{way}{at}" for at in self.in_rows for way in ("across", "along")]
        for at, name in enumerate(numbers):
            b.do(f"%{name}.at = getelementptr i64, ptr %numbers, i64 {at}")
            b.do(f"%{name} = load i64, ptr %{name}.at")
        most = max([call_size(step) for step in self.steps], default=1)
        for name in ("args", "steps"):
            b.do(f"%{name} = alloca [{most} x ptr]")
        b.do("%count = alloca i64")
        for name, start in (
            *(("pos", "%first"), ("in_outer", "%outer"), ("in_lanes", "%lanes")),
            *(("in_row", "%row"), ("rows", str(GROUP)), ("acc", "0"), ("base", "0")),
            *self.states,
        ):
            b.do(f"%{name} = alloca i64")
            b.do(f"store i64 {start}, ptr %{name}")
        for at, (dtype, layout) in enumerate(spec.sources):
            if layout == CONSTANT:
                self._constant(at, dtype)
        for at, start in self.in_rows.items():
            b.do(f"%cursor{at} = alloca ptr")
            if self.states:
                b.do(f"%old_cursor{at} = alloca ptr")
            b.do(f"store ptr {start}, ptr %cursor{at}")
        for at, value in enumerate(self.staging.scratch):
            b.do(f"%kept{value} = getelementptr i8, ptr %scratch, i64 {at * RUN * 8}")
        b.do("%cleared = call i32 %clear(i32 61)")
        b.do("br label %head")

    def _constant(self, at: int, dtype: np.dtype[Any]) -> None:
        value = self._load(self.body, f"%source{at}", dtype)
        self.constants[at, 1] = value
        self.constants[at, WIDTH] = self._splat(value, dtype)

    def _splat(self, value: str, dtype: np.dtype[Any]) -> str:
        kind = register(dtype)
        wide = f"<{WIDTH} x {kind}>"
        one = self.body.let(f"insertelement {wide} poison, {kind} {value}, i64 0")
        return self.body.let(
            f"shufflevector {wide} {one}, {wide} poison, <{WIDTH} x i32> zeroinitializer"
        )

    def _get(self, name: str) -> str:
        return self.body.let(f"load i64, ptr %{name}")

    def _run_starts(self) -> None:
        b = self.body
        self.label("head")
        self.pos = self._get("pos")
        some = b.let(f"icmp slt i64 {self.pos}, %end")
        b.do(f"br i1 {some}, label %run, label %finish")
        self.label("run")
        self._block_may_start()
        run = b.let(f"sub i64 %end, {self.pos}")
        for limit in (*map(self._get, ("in_outer", "in_lanes", "in_row")), "%most"):
            less = b.let(f"icmp slt i64 {run}, {limit}")
            run = b.let(f"select i1 {less}, i64 {run}, i64 {limit}")
        b.do(f"%n = add i64 {run}, 0")
        for at, cursor in self.cursors.items():
            self.here[at] = b.let(f"load ptr, ptr {cursor}")
        for at, (dtype, layout) in enumerate(self.spec.sources):
            if layout == FLAT:
                self.here[at] = self._offset(f"%source{at}", self.pos, dtype)
            if layout == SAME:
                value = self._load(b, self.here[at], dtype)
                self.constants[at, 1] = value
                self.constants[at, WIDTH] = self._splat(value, dtype)
        acc = self._get("acc")
        self.results = [
            self._offset(f"%output{at}", acc, self.spec.dtypes[value])
            if kind
            else self.here[len(self.spec.sources) + at]
            for at, (value, kind, _) in enumerate(self.spec.outputs)
        ]
        self._choose_way()

    def _offset(self, pointer: str, index: str, dtype: np.dtype[Any]) -> str:
        return self.body.let(f"getelementptr {memory(dtype)}, ptr {pointer}, i64 {index}")

    def _run_ends(self) -> None:
        b = self.body
        self.label(f"g{len(self.staging.stages)}.start")
        left = {}
        for name in ("in_outer", "in_lanes", "in_row"):
            left[name] = b.let(f"sub i64 {self._get(name)}, %n")
            b.do(f"store i64 {left[name]}, ptr %{name}")
        b.do(f"store i64 {b.let(f'add i64 {self.pos}, %n')}, ptr %pos")
        acc = self._get("acc")
        b.do(f"store i64 {b.let(f'add i64 {acc}, %n')}, ptr %acc")
        outer = b.let(f"icmp eq i64 {left['in_outer']}, 0")
        lanes = b.let(f"icmp eq i64 {left['in_lanes']}, 0")
        over = b.let(f"or i1 {outer}, {lanes}")
        b.do(f"br i1 {over}, label %lanes.over, label %lanes.go")
        self.label("lanes.over")
        rows = b.let(f"sub i64 {self._get('rows')}, 1")
        none = b.let(f"icmp eq i64 {rows}, 0")
        full = b.let(f"or i1 {none}, {outer}")
        base = self._get("base")
        further = b.let(f"add i64 {base}, %lanes")
        base = b.let(f"select i1 {full}, i64 {further}, i64 {base}")
        b.do(f"store i64 {b.let(f'select i1 {full}, i64 {GROUP}, i64 {rows}')}, ptr %rows")
        base = self._block_over(full, base)
        b.do(f"store i64 {base}, ptr %base")
        b.do(f"store i64 {base}, ptr %acc")
        b.do("store i64 %lanes, ptr %in_lanes")
        again = b.let(f"select i1 {outer}, i64 %outer, i64 {left['in_outer']}")
        b.do(f"store i64 {again}, ptr %in_outer")
        b.do("br label %lanes.go")
        self.label("lanes.go")
        self._advance(b, left["in_row"])
        self.label("finish")
        b.do("%flags = call i32 %test(i32 61)")
        b.do("ret i32 %flags")

    def _advance(self, b: Body, in_row: str) -> None:
        for at, cursor in self.cursors.items():
            moved = b.let(f"mul i64 %n, %along{at}")
            b.do(
                f"store ptr {b.let(f'getelementptr i8, ptr {self.here[at]}, i64 {moved}')}, "
                f"ptr {cursor}"
            )
        end = b.let(f"icmp eq i64 {in_row}, 0")
        b.do(f"br i1 {end}, label %row.over, label %head")
        self.label("row.over")
        b.do("store i64 %row, ptr %in_row")
        for at, cursor in self.cursors.items():
            back = b.let(f"mul i64 %row, %along{at}")
            step = b.let(f"sub i64 %across{at}, {back}")
            now = b.let(f"load ptr, ptr {cursor}")
            b.do(f"store ptr {b.let(f'getelementptr i8, ptr {now}, i64 {step}')}, ptr {cursor}")
        b.do("br label %head")

    # -- what moments change

    def _block_may_start(self) -> None:
        """Write the code that comes before each run."""

    def _choose_way(self) -> None:
        """Write the jump to the code for a run."""
        self.body.do("br label %g0.start")

    def _second_ways(self) -> None:
        """Write other ways to go over a run than the stages."""

    def _block_over(self, full: str, base: str) -> str:
        """Write the code after a row of lanes, the block's last row if `full`."""
        return base

    # -- stages

    def _stage(self, number: int) -> None:
        stage, b, name = self.staging.stages[number], self.body, f"g{number}"
        last = number == len(self.staging.stages) - 1
        self.label(f"{name}.start")
        if stage.inline or stage.kept or last:
            b.do(f"br label %{name}.loops")
            self._loops(f"{name}.loops", "0", "%n", f"{name}.calls", self._inside(stage, last))
            self.label(f"{name}.calls")
        for step in stage.loops:
            self._call_loop(step)
        b.do(f"br label %g{number + 1}.start")

    def _loops(self, name: str, low: str, high: str, after: str, inside: Inside) -> None:
        """Write a block that goes from `low` to `high`: by vectors, then one by one."""
        one = self.body
        self.label(name)
        length = one.let(f"sub i64 {high}, {low}")
        whole = one.let(f"and i64 {length}, {-WIDTH}")
        middle = one.let(f"add i64 {low}, {whole}")
        some = one.let(f"icmp sgt i64 {whole}, 0")
        one.do(f"br i1 {some}, label %{name}.vector, label %{name}.rest")
        self._loop(f"{name}.vector", WIDTH, name, low, middle, f"{name}.rest", inside)
        self.label(f"{name}.rest")
        some = one.let(f"icmp slt i64 {middle}, {high}")
        one.do(f"br i1 {some}, label %{name}.scalar, label %{after}")
        self._loop(f"{name}.scalar", 1, f"{name}.rest", middle, high, after, inside)

    def _loop(
        self, name: str, width: int, before: str, low: str, high: str, after: str, inside: Inside
    ) -> None:
        b = self.at(width)
        self.label(name)
        index, following = b.name(), b.name()
        b.do(f"{index} = phi i64 [ {low}, %{before} ], [ {following}, %{name} ]")
        inside(b, index)
        b.do(f"{following} = add i64 {index}, {width}")
        done = b.let(f"icmp eq i64 {following}, {high}")
        b.do(f"br i1 {done}, label %{after}, label %{name}")

    def _inside(self, stage: Stage, last: bool) -> Inside:
        """Return the writer of a stage's loop: compute, keep, and in the last store the outputs."""

        def inside(b: Body, index: str) -> None:
            value = self._values(b, index, stage.inline)
            for n in stage.kept:
                self._store(b, value(n), f"%kept{n}", index, self.spec.dtypes[n])
            if not last:
                return
            for (n, kind, mask), pointer in zip(self.spec.outputs, self.results, strict=True):
                counted = None if mask is None else value(mask)
                self._store_output(b, value(n), kind, counted, pointer, index, self.spec.dtypes[n])

        return inside

    def _values(self, b: Body, index: str, steps: Sequence[LoweredStep]) -> Callable[[int], str]:
        """Write steps; return a function of a value's number that computes or reads it once."""
        values: dict[int, str] = {}

        def value(n: int) -> str:
            if n not in values:
                values[n] = self._read(b, n, index)
            return values[n]

        for step in steps:
            given = [value(n) for n in step.operands]
            values[step.results[0]] = emit(b, step.op, step.loop, given)
        return value

    def _read(self, b: Body, n: int, index: str) -> str:
        if (n, b.width) in self.constants:
            return self.constants[n, b.width]
        dtype = self.spec.dtypes[n]
        if n >= len(self.spec.sources):
            return self._load(b, self._element(b, f"%kept{n}", index, dtype), dtype)
        if self.spec.sources[n][1] == ANY:
            return self._gather(b, n, index)
        return self._load(b, self._element(b, self.here[n], index, dtype), dtype)

    def _gather(self, b: Body, n: int, index: str) -> str:
        dtype = self.spec.dtypes[n]
        one = self.body
        kind = b.type(dtype)
        found = "poison"
        for lane in range(b.width):
            number = one.let(f"add i64 {index}, {lane}") if lane else index
            where = one.let(f"mul i64 {number}, %along{n}")
            pointer = one.let(f"getelementptr i8, ptr {self.here[n]}, i64 {where}")
            value = self._load(one, pointer, dtype)
            if b.width == 1:
                return value
            found = one.let(f"insertelement {kind} {found}, {register(dtype)} {value}, i64 {lane}")
        return found

    def _element(self, b: Body, pointer: str, index: str, dtype: np.dtype[Any]) -> str:
        return b.let(f"getelementptr {memory(dtype)}, ptr {pointer}, i64 {index}")

    def _load(self, b: Body, pointer: str, dtype: np.dtype[Any]) -> str:
        kind = b.wide(memory(dtype))
        value = b.let(f"load {kind}, ptr {pointer}, align 1")
        if memory(dtype) == register(dtype):
            return value
        return b.let(f"icmp ne {kind} {value}, {b.fixed('i8', '0')}")

    def _store(self, b: Body, value: str, pointer: str, index: str, dtype: np.dtype[Any]) -> None:
        where, kind = self._element(b, pointer, index, dtype), b.wide(memory(dtype))
        if memory(dtype) != register(dtype):
            value = b.let(f"zext {b.wide('i1')} {value} to {kind}")
        b.do(f"store {kind} {value}, ptr {where}, align 1")

    def _store_output(
        self,
        b: Body,
        value: str,
        kind: str | None,
        mask: str | None,
        pointer: str,
        index: str,
        dtype: np.dtype[Any],
    ) -> None:
        if kind is not None:
            before = self._load(b, self._element(b, pointer, index, dtype), dtype)
            value = emit(b, KINDS[kind], (dtype,) * 3, [before, value])
        self._store(b, value, pointer, index, dtype)

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


def call_size(step: LoweredStep) -> int:
    """Return how many arguments the loop of a step has."""
    return len(step.operands) + len(step.results)

