"""Formulas as functions in LLVM's text: of a place, to a vector, and to a row in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.kernels.draws.formulas import Formula, Step
from lazyflow.array.kernels.native.elementary.lanes import WIDTH, Lanes, VectorFunction
from lazyflow.array.kernels.native.operations import memory


class _LanesMachine:
    def __init__(self, f: VectorFunction, first: str) -> None:
        self._f = f
        counted = ", ".join(f"i64 {n}" for n in range(WIDTH))
        start = self._spread(first)
        self.group = f.let("i64", f"add {start.type} {start.name}, <{counted}>")

    def param(self, number: int) -> Lanes:
        at = self._f.scalar(f"getelementptr i64, ptr %params, i64 {number}")
        return self._spread(self._f.scalar(f"load i64, ptr {at}"))

    def at(self, place: Lanes) -> Lanes:
        each = self._f.scalar(f"getelementptr i64, ptr %params, {place.type} {place.name}")
        called = f"@llvm.masked.gather.v{WIDTH}i64.v{WIDTH}p0(<{WIDTH} x ptr> {each}, i32 8, "
        every = f"<{WIDTH} x i1> splat (i1 true), {place.type} poison"
        return self._f.let("i64", f"call {place.type} {called}{every})")

    def _spread(self, value: str) -> Lanes:
        one = self._f.let("i64", f"insertelement <{WIDTH} x i64> poison, i64 {value}, i64 0")
        order = f"<{WIDTH} x i32> zeroinitializer"
        text = f"shufflevector {one.type} {one.name}, {one.type} poison, {order}"
        return self._f.let("i64", text)

    def number(self, word: Lanes) -> Lanes:
        return word.to("double", "sitofp")

    def bits(self, value: Lanes) -> Lanes:
        return value.bits()

    def of_bits(self, word: Lanes) -> Lanes:
        return word.real()

    def sqrt(self, value: Lanes) -> Lanes:
        return value.sqrt()

    def below(self, one: Lanes, other: Any) -> Lanes:
        return one.below(other)

    def where(self, which: Lanes, yes: Lanes, no: Lanes) -> Lanes:
        return which.pick(yes, no)

    def repeat(self, step: Step) -> tuple[Any, ...]:
        f = self._f
        first, refused = step(0)
        before, loop, done = f.block, f.name(), f.name()
        f.do(f"br i1 {self._any(refused)}, label %{loop}, label %{done}")
        f.start(loop)
        attempt, following, start = f"%{f.name()}", f"%{f.name()}", len(f.lines)
        values = [Lanes(f, x.kind, f"%{f.name()}") for x in first]
        asked = [Lanes(f, "i1", f"%{f.name()}") for _ in refused]
        others, again = step(self._spread(attempt))
        new = [self.where(which, x, y) for which, x, y in zip(asked, others, values, strict=True)]
        still = [x & y for x, y in zip(asked, again, strict=True)]
        f.do(f"{following} = add i64 {attempt}, 1")
        f.do(f"br i1 {self._any(still)}, label %{loop}, label %{done}")
        old, now = [*first, *refused], [*new, *still]
        f.lines[start:start] = [
            f"  {attempt} = phi i64 [ 1, %{before} ], [ {following}, %{loop} ]",
            *[
                f"  {x.name} = phi {x.type} [ {a.name}, %{before} ], [ {b.name}, %{loop} ]"
                for x, a, b in zip([*values, *asked], old, now, strict=True)
            ],
        ]
        f.start(done)
        return tuple([
            f.let(a.kind, f"phi {a.type} [ {a.name}, %{before} ], [ {b.name}, %{loop} ]")
            for a, b in zip(first, new, strict=True)
        ])

    def _any(self, which: Any) -> str:
        found = which[0]
        for x in which[1:]:
            found = found | x
        return self._f.any_of(found)


def functions(name: str, formula: Formula, dtype: np.dtype[Any]) -> list[str]:
    """Return the lines of functions of a place and the parameters of a draw.

    ``name.wide`` gives a vector from a place on at which a counter begins; ``name.row`` writes
    `n` elements from any place on.
    """
    kind, each = memory(dtype), formula.elements
    text = _ROW
    for word, value in {
        "NAME": name, "KIND": kind, "OVER": each - 1, "WIDTH": each * WIDTH,
    }.items():
        text = text.replace(word, str(value))
    head = f"define internal <{each * WIDTH} x {kind}> @{name}.wide(i64 %place, ptr %params) {{"
    return [head, *_wide(formula, kind), "}", *text.splitlines()]


def _wide(formula: Formula, kind: str) -> list[str]:
    f = VectorFunction(fused=False)  # NumPy can't do two steps in one
    f.do(f"%first = lshr i64 %place, {formula.elements.bit_length() - 1}")
    found, many = [], WIDTH
    for x in formula.compute(_LanesMachine(f, "%first")):
        if x.kind != kind:
            x = x.to(kind, "fptrunc" if x.kind == "double" else "trunc")
        found.append(x.name)
    while len(found) > 1:  # the first half with the second, so that the first two come last
        half = len(found) // 2
        order = ", ".join(f"i32 {n + k * many}" for n in range(many) for k in range(2))
        part = f"<{many} x {kind}>"
        found = [
            f.let(kind, f"shufflevector {part} {x}, {part} {y}, <{2 * many} x i32> <{order}>").name
            for x, y in zip(found[:half], found[half:], strict=True)
        ]
        many *= 2
    f.do(f"ret <{many} x {kind}> {found[0]}")
    return f.lines


_ROW = """
define internal void @NAME.row(i64 %place, i64 %n, ptr %params, ptr %to) {
entry:
  %part = alloca <WIDTH x KIND>
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.many, %whole ], [ %i.few, %copied ]
  %left = sub i64 %n, %i
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %more, label %done
more:
  %here = add i64 %place, %i
  %over = and i64 %here, OVER
  %start = sub i64 %here, %over
  %there = getelementptr KIND, ptr %to, i64 %i
  %values = call <WIDTH x KIND> @NAME.wide(i64 %start, ptr %params)
  %aligned = icmp eq i64 %over, 0
  %long = icmp sge i64 %left, WIDTH
  %full = and i1 %aligned, %long
  br i1 %full, label %whole, label %few
whole:
  store <WIDTH x KIND> %values, ptr %there, align 1
  %i.many = add i64 %i, WIDTH
  br label %head
few:
  store <WIDTH x KIND> %values, ptr %part
  %from = getelementptr KIND, ptr %part, i64 %over
  %room = sub i64 WIDTH, %over
  %less = icmp slt i64 %room, %left
  %count = select i1 %less, i64 %room, i64 %left
  br label %copy
copy:
  %k = phi i64 [ 0, %few ], [ %k.next, %copy ]
  %from.k = getelementptr KIND, ptr %from, i64 %k
  %to.k = getelementptr KIND, ptr %there, i64 %k
  %value = load KIND, ptr %from.k, align 1
  store KIND %value, ptr %to.k, align 1
  %k.next = add i64 %k, 1
  %again = icmp slt i64 %k.next, %count
  br i1 %again, label %copy, label %copied
copied:
  %i.few = add i64 %i, %count
  br label %head
done:
  ret void
}
"""
