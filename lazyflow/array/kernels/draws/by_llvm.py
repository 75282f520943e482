"""Formulas as functions in LLVM's text: of a place, to a vector or one element."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.kernels.draws.formulas import Formula, Step
from lazyflow.array.kernels.native.operations import Body, memory

WIDTH = 16  # elements of a vector

#: The intrinsics that the functions call.
DECLARED = [
    f"declare <{n} x double> @llvm.sqrt.v{n}f64(<{n} x double>)" for n in (4, 8)
]


class _Value:
    """A value in a register, for which operators are instructions."""

    def __init__(self, b: Body, kind: str, name: str) -> None:
        self.b, self.kind, self.name = b, kind, name

    def _given(self, other: Any) -> str:
        if isinstance(other, _Value):
            return other.name
        text = f"0x{np.float64(other).view(np.uint64):016X}" if self.kind == "double" else other
        return self.b.fixed(self.kind, str(text))

    def _do(self, word: str, other: Any, flip: bool = False) -> _Value:
        word = f"f{word}" if self.kind == "double" else word
        a, b = self.name, self._given(other)
        a, b = (b, a) if flip else (a, b)
        return _Value(self.b, self.kind, self.b.let(f"{word} {self.b.wide(self.kind)} {a}, {b}"))

    def __add__(self, other: Any) -> _Value:
        return self._do("add", other)

    def __sub__(self, other: Any) -> _Value:
        return self._do("sub", other)

    def __rsub__(self, other: Any) -> _Value:
        return self._do("sub", other, flip=True)

    def __mul__(self, other: Any) -> _Value:
        return self._do("mul", other)

    def __truediv__(self, other: Any) -> _Value:
        return self._do("div", other)

    def __and__(self, other: Any) -> _Value:
        return self._do("and", other)

    def __or__(self, other: Any) -> _Value:
        return self._do("or", other)

    def __xor__(self, other: Any) -> _Value:
        return self._do("xor", other)

    def __lshift__(self, count: int) -> _Value:
        return self._do("shl", count)

    def __rshift__(self, count: int) -> _Value:
        return self._do("lshr", count)

    def __lt__(self, other: Any) -> _Value:
        found = self.b.let(f"icmp ult {self.b.wide('i64')} {self.name}, {self._given(other)}")
        return _Value(self.b, "i1", found)

    __radd__, __rmul__ = __add__, __mul__


class _LlvmMachine:
    def __init__(self, b: Body, group: _Value) -> None:
        self._b = b
        self.group = group

    def param(self, number: int) -> _Value:
        one = Body(1, self._b.lines, self._b._names)
        where = one.let(f"getelementptr i64, ptr %params, i64 {number}")
        return _Value(self._b, "i64", splat(self._b, "i64", one.let(f"load i64, ptr {where}")))

    def _as(self, word: str, x: _Value, kind: str) -> _Value:
        wide = self._b.wide
        return _Value(self._b, kind, self._b.let(f"{word} {wide(x.kind)} {x.name} to {wide(kind)}"))

    def number(self, word: _Value) -> _Value:
        return self._as("sitofp", word, "double")

    def bits(self, value: _Value) -> _Value:
        return self._as("bitcast", value, "i64")

    def of_bits(self, word: _Value) -> _Value:
        return self._as("bitcast", word, "double")

    def sqrt(self, value: _Value) -> _Value:
        return _Value(self._b, "double", self._b.intrinsic("sqrt", np.dtype("f8"), value.name))

    def where(self, which: _Value, yes: _Value, no: _Value) -> _Value:
        b, kind = self._b, self._b.wide(yes.kind)
        text = f"select {b.wide('i1')} {which.name}, {kind} {yes.name}, {kind} {no.name}"
        return _Value(b, yes.kind, b.let(text))

    def repeat(self, step: Step) -> tuple[Any, ...]:
        b = self._b
        first, refused = step(0)
        before, loop, done = (b.name()[1:] for _ in range(3))
        b.do(f"br label %{before}")
        b.lines.append(f"{before}:")
        b.do(f"br i1 {self._any(refused)}, label %{loop}, label %{done}")
        b.lines.append(f"{loop}:")
        attempt, start = b.name(), len(b.lines)
        values = [_Value(b, x.kind, b.name()) for x in first]
        open_ = [_Value(b, "i1", b.name()) for _ in refused]
        others, again = step(_Value(b, "i64", splat(b, "i64", attempt)))
        new = [self.where(which, x, y) for which, x, y in zip(open_, others, values, strict=True)]
        still = [x & y for x, y in zip(open_, again, strict=True)]
        following = b.let(f"add i64 {attempt}, 1")
        b.do(f"br i1 {self._any(still)}, label %{loop}, label %{done}")
        b.lines[start:start] = [f"  {attempt} = phi i64 [ 1, %{before} ], [ {following}, %{loop} ]"]
        old, now = [*first, *refused], [*new, *still]
        for x, a, b_ in zip([*values, *open_], old, now, strict=True):
            text = f"phi {b.wide(x.kind)} [ {a.name}, %{before} ], [ {b_.name}, %{loop} ]"
            b.lines.insert(start, f"  {x.name} = {text}")
        b.lines.append(f"{done}:")
        return tuple([
            _Value(b, x.kind, b.let(
                f"phi {b.wide(x.kind)} [ {x.name}, %{before} ], [ {y.name}, %{loop} ]"
            ))
            for x, y in zip(first, new, strict=True)
        ])

    def _any(self, which: Any) -> str:
        found = which[0]
        for x in which[1:]:
            found = found | x
        bits = self._b.let(f"bitcast {self._b.wide('i1')} {found.name} to i{self._b.width}")
        return self._b.let(f"icmp ne i{self._b.width} {bits}, 0")


def splat(b: Body, kind: str, value: str) -> str:
    """Return a vector of one value."""
    wide = b.wide(kind)
    one = b.let(f"insertelement {wide} poison, {kind} {value}, i64 0")
    return b.let(f"shufflevector {wide} {one}, {wide} poison, <{b.width} x i32> zeroinitializer")


def functions(name: str, formula: Formula, dtype: np.dtype[Any]) -> list[str]:
    """Return the lines of functions of a place and the parameters of a draw.

    ``name.wide`` gives a vector from a place on at which a counter begins; ``name.row`` writes
    `n` elements from any place on.
    """
    text = _ROW
    words = {"NAME": name, "KIND": memory(dtype), "OVER": formula.elements - 1, "WIDTH": WIDTH}
    for word, value in words.items():
        text = text.replace(word, str(value))
    head = f"define internal <{WIDTH} x {memory(dtype)}> @{name}.wide(i64 %place, ptr %params) {{"
    return [head, "entry:", *_wide(formula, dtype), "}", text]


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


def _computed(b: Body, formula: Formula, dtype: np.dtype[Any]) -> list[str]:
    """Write the elements of the counters from that of `place` on; return the names of each part."""
    shift = formula.elements.bit_length() - 1
    first = splat(b, "i64", b.let(f"lshr i64 %place, {shift}"))
    counted = ", ".join(f"i64 {n}" for n in range(b.width))
    group = _Value(b, "i64", b.let(f"add {b.wide('i64')} {first}, <{counted}>"))
    found = []
    for x in formula.compute(_LlvmMachine(b, group)):
        have, want = b.wide(x.kind), b.wide(memory(dtype))
        word = "fptrunc" if x.kind == "double" else "trunc"
        found.append(x.name if have == want else b.let(f"{word} {have} {x.name} to {want}"))
    return found


def _wide(formula: Formula, dtype: np.dtype[Any]) -> list[str]:
    b = Body(WIDTH // formula.elements, [], [0])
    found, many = _computed(b, formula, dtype), b.width
    while len(found) > 1:  # the first half with the second, so that the first two come last
        half = len(found) // 2
        order = ", ".join(f"i32 {n + k * many}" for n in range(many) for k in range(2))
        kind = f"<{many} x {memory(dtype)}>"
        found = [
            b.let(f"shufflevector {kind} {x}, {kind} {y}, <{2 * many} x i32> <{order}>")
            for x, y in zip(found[:half], found[half:], strict=True)
        ]
        many *= 2
    b.do(f"ret <{many} x {memory(dtype)}> {found[0]}")
    return b.lines
