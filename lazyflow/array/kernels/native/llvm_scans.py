"""Scans: each element is combined with those before it in its line, tile by tile.

`state` has the result of each line so far. Tiles come in an order in which each line is met from
its start on, whatever the axes of reductions: runs are contiguous in C order, and `pos` is the
number of a run's first element. Along the last axis a line is contiguous, along others neighbours
belong to neighbouring lines, and are done by vectors.
"""

from __future__ import annotations

from math import prod

from lazyflow.array.kernels.native.llvm_reductions import written
from lazyflow.array.kernels.native.llvm_text import Text
from lazyflow.array.kernels.native.operations import Body, emit
from lazyflow.array.kernels.native.staging import KernelSpec
from lazyflow.array.kernels.order import neutral
from lazyflow.array.kernels.planning import scans_of
from lazyflow.array.kernels.program import LoweredStep

_KEPT = ("done", "within", "line", "column")  # from lines to the next ones
#: The arguments of `ScanWriter`'s functions, with places for their names.
GIVEN = "ptr {}, ptr {}, i64 {}, i64 {}, i64 {}, i64 {}, ptr {}, ptr {}"


class ScanWriter(Text):
    """The function of a scan over a run: of values, results, place, length, lines and carry.

    writes
        Results are written; else the ends alone are wanted, in the state.

    Notes
    -----
    `span` is the number of elements of lines that lie in each other, `inner` that of these lines.
    """

    width = 8  # of 100 lines 16 lanes would leave four that are done one by one, of each row

    def __init__(self, name: str, step: LoweredStep, writes: bool) -> None:
        super().__init__()
        self.ufunc, self.dtype = step.op.ufunc, step.loop[0]
        self.writes = writes
        self.carried = writes and len(step.operands) > 1
        names = ("%values", "%results", "%pos", "%n", "%span", "%inner", "%state", "%carry")
        self.lines.append(f"define internal void @{name}({GIVEN.format(*names)}) {{")
        self._entry()
        for part in ("across", "along"):
            self.label(part)
            for kept in _KEPT:
                self.body.do(f"%{part}.{kept} = load i64, ptr %{kept}")
            (self._across if part == "across" else self._along)()
            self._go_on(part)
        self.lines += ["over:", "  ret void", "}"]

    def _entry(self) -> None:
        b = self.body
        self.label("entry")
        for name in _KEPT:
            b.do(f"%{name} = alloca i64")
        b.do("store i64 0, ptr %done")
        outer = b.let("udiv i64 %pos, %span")
        within = b.let(f"sub i64 %pos, {b.let(f'mul i64 {outer}, %span')}")
        b.do(f"store i64 {within}, ptr %within")
        column = b.let(f"urem i64 {within}, %inner")
        line = b.let(f"add i64 {b.let(f'mul i64 {outer}, %inner')}, {column}")
        b.do(f"store i64 {line}, ptr %line")
        b.do(f"store i64 {column}, ptr %column")
        one = b.let("icmp eq i64 %inner, 1")
        b.do(f"br i1 {one}, label %along, label %across")

    def _start(self, part: str, end: str) -> None:
        """Write how many elements come up to `end` or the end of the run, and where they are."""
        b = self.body
        rest = b.let(f"sub i64 %n, %{part}.done")
        b.do(f"%{part}.count = add i64 {self.least(rest, end)}, 0")
        for name, index in (("values", "done"), ("results", "done"), ("state", "line")):
            found = self.element(b, f"%{name}", f"%{part}.{index}", self.dtype)
            b.do(f"%{part}.{name} = getelementptr i8, ptr {found}, i64 0")
        if self.carried:
            found = self.element(b, "%carry", f"%{part}.line", self.dtype)
            b.do(f"%{part}.carry = getelementptr i8, ptr {found}, i64 0")
        b.do(f"%{part}.first = icmp ult i64 %{part}.within, %inner")

    def _across(self) -> None:
        """Write the scan of neighbouring lines up to the last of them."""
        b = self.body
        self._start("across", b.let("sub i64 %inner, %across.column"))
        b.do("br label %columns")

        def inside(b: Body, index: str) -> None:
            def at(name: str) -> str:
                return self.element(b, f"%across.{name}", index, self.dtype)

            before = self._begun(b, "across", self.load(b, at("state"), self.dtype))
            found = self._combined(b, before, self.load(b, at("values"), self.dtype))
            self.store(b, found, at("state"), self.dtype)
            if self.carried:
                found = self._combined(b, self.load(b, at("carry"), self.dtype), found)
            if self.writes:
                self.store(b, found, at("results"), self.dtype)

        self.loops("columns", "%across.count", "across.over", inside, str(self.width))
        self.label("across.over")

    def _along(self) -> None:
        """Write the scan of one line, up to its end."""
        b = self.body
        self._start("along", b.let("sub i64 %span, %along.within"))
        carry = self.load(b, "%along.carry", self.dtype) if self.carried else ""
        before = self._begun(b, "along", self.load(b, "%along.state", self.dtype))

        def step(index: str, before: str) -> str:
            value = self.load(b, self.element(b, "%along.values", index, self.dtype), self.dtype)
            found = self._combined(b, before, value)
            shown = self._combined(b, carry, found) if carry else found
            if self.writes:
                self.store(
                    b, shown, self.element(b, "%along.results", index, self.dtype), self.dtype)
            return found

        found = self.fold(b, "%along.count", before, self.dtype, step)
        self.store(b, found, "%along.state", self.dtype)

    def _begun(self, b: Body, part: str, before: str) -> str:
        """Return what is before some elements: nothing, where they are the first of their lines."""
        none = written(b, neutral(self.ufunc, self.dtype), self.dtype)
        kind = b.type(self.dtype)
        return b.let(f"select i1 %{part}.first, {kind} {none}, {kind} {before}")

    def _combined(self, b: Body, one: str, other: str) -> str:
        return emit(b, self.ufunc, (self.dtype,) * 3, [one, other])

    def _go_on(self, part: str) -> None:
        """Write the step to the next lines, or to the end of the run."""
        b = self.body
        done = b.let(f"add i64 %{part}.done, %{part}.count")
        within = b.let(f"add i64 %{part}.within, %{part}.count")
        line = b.let(f"add i64 %{part}.line, %{part}.count")
        if part == "along":
            line = b.let("add i64 %along.line, 1")
        else:  # back to the first of these lines, unless they are all at their end
            back = b.let(f"sub i64 {line}, %inner")
            ended = b.let(f"icmp eq i64 {within}, %span")
            line = b.let(f"select i1 {ended}, i64 {line}, i64 {back}")
            b.do("store i64 0, ptr %column")
        ended = b.let(f"icmp eq i64 {within}, %span")
        within = b.let(f"select i1 {ended}, i64 0, i64 {within}")
        for name, value in (("done", done), ("within", within), ("line", line)):
            b.do(f"store i64 {value}, ptr %{name}")
        more = b.let(f"icmp slt i64 {done}, %n")
        b.do(f"br i1 {more}, label %{part}, label %over")


def scan_numbers(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """Return the span of a scan and its inner lines, for blocks of a shape.

    >>> scan_numbers((2, 3, 4), -2)
    (12, 4)
    """
    inner = prod(shape[len(shape) + axis + 1:])
    return inner * shape[axis], inner


def scanners(spec: KernelSpec) -> list[str]:
    """Return the lines of the functions of the scans, by their numbers."""
    straight = spec.straight
    return [
        line for at, step in enumerate(scans_of(spec.steps))
        for line in ScanWriter(
            f"scan{at}", step, straight.get(step.results[0], at) is not None).lines
    ]
