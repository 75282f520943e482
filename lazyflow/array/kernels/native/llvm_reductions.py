"""The reductions of tiles that lie in scratch memory, in the order of order.py.

Columns are reduced row by row in registers. Rows are reduced by a function of the module: sums of
floats in NumPy's order, which adds up to 128 elements in eight lanes and halves what is longer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lazyflow.array.kernels.lowering import KINDS
from lazyflow.array.kernels.native.llvm_text import F8, Text
from lazyflow.array.kernels.native.operations import FLOATS, Body, emit, register
from lazyflow.array.kernels.native.staging import KernelSpec
from lazyflow.array.kernels.order import identity

DType = np.dtype[Any]

LEAF = 128  # elements that NumPy adds up without halving


def _start(b: Body, kind: str, dtype: DType) -> str:
    """Return the neutral element."""
    value = identity(kind, dtype)
    if dtype not in FLOATS:
        return b.fixed(register(dtype), str(int(value)))
    text = "0x" + np.float64(value).tobytes()[::-1].hex().upper()
    return b.fixed(register(dtype), text)


def _merge(b: Body, kind: str, dtype: DType, one: str, other: str) -> str:
    found = emit(b, KINDS[kind], (dtype,) * 3, [one, other])
    if kind not in ("min", "max") or dtype not in FLOATS:
        return found
    wide, bits = b.type(dtype), b.wide(f"i{8 * dtype.itemsize}")  # of two zeros, -0 is the less
    pair = [b.let(f"bitcast {wide} {x} to {bits}") for x in (one, other)]
    both = b.let(f"{'or' if kind == 'min' else 'and'} {bits} {pair[0]}, {pair[1]}")
    same = b.let(f"fcmp oeq {wide} {one}, {other}")
    both = b.let(f"bitcast {bits} {both} to {wide}")
    return b.let(f"select {b.wide('i1')} {same}, {wide} {both}, {wide} {found}")


def reducers(spec: KernelSpec) -> list[str]:
    """Return the lines of the functions that reduce rows."""
    if spec.in_columns:
        return []
    needed = {_named(kind, spec.dtypes[spec.outputs[at][0]]) for at, kind, _ in spec.reduced}
    return [line for kind, dtype in sorted(needed, key=str) for line in _Reducer(kind, dtype).lines]


def _named(kind: str, dtype: DType) -> tuple[str, DType]:
    return ("sum" if kind == "moments" else kind), dtype


class _Reducer(Text):
    """The function of a kind: of a pointer to elements and their number, at least one."""

    def __init__(self, kind: str, dtype: DType) -> None:
        super().__init__()
        self.kind, self.dtype = kind, dtype
        in_order = dtype in FLOATS and kind in ("sum", "prod")
        self.width = 32 if not in_order else 8 if kind == "sum" else 1
        b, scalar = self.body, register(dtype)
        self.lines.append(f"define internal {scalar} @{kind}.{dtype}(ptr %values, i64 %n) {{")
        self.label("entry")
        first, value = ["[ 0, %entry ]"], [f"[ {_start(b, kind, dtype)}, %entry ]"]
        if self.width == 1:
            b.do("br label %rest")
        else:
            few = b.let(f"icmp slt i64 %n, {self.width}")
            b.do(f"br i1 {few}, label %rest, label %{'halves' if in_order else 'lanes'}")
            if in_order:
                self._halves()
            found, whole = self._lanes()
            first.append(f"[ {whole}, %lanes.over ]")
            value.append(f"[ {found}, %lanes.over ]")
        self.label("rest")
        b.do(f"%first = phi i64 {', '.join(first)}")
        b.do(f"%found = phi {scalar} {', '.join(value)}")
        self._rest()
        self.lines.append("}")

    def _rest(self) -> None:
        """Write the reduction of the elements from `first` on, one by one."""
        b, scalar = self.body, register(self.dtype)
        left = b.let("sub i64 %n, %first")
        some = b.let(f"icmp sgt i64 {left}, 0")
        b.do(f"br i1 {some}, label %some.left, label %none.left")
        self.label("none.left")
        b.do(f"ret {scalar} %found")
        self.label("some.left")

        def step(index: str, value: str) -> str:
            return self._next(b, b.let(f"add i64 {index}, %first"), value)

        b.do(f"ret {scalar} {self.fold(b, left, '%found', self.dtype, step)}")

    def _next(self, b: Body, index: str, value: str) -> str:
        here = self.load(b, self.element(b, "%values", index, self.dtype), self.dtype)
        return _merge(b, self.kind, self.dtype, value, here)

    def _halves(self) -> None:
        b, scalar = self.body, register(self.dtype)
        self.label("halves")
        short = b.let(f"icmp sle i64 %n, {LEAF}")
        b.do(f"br i1 {short}, label %lanes, label %split")
        self.label("split")
        low = b.let(f"and i64 {b.let('lshr i64 %n, 1')}, -8")
        high = b.let(f"sub i64 %n, {low}")
        upper = self.element(b, "%values", low, self.dtype)
        name = f"@{self.kind}.{self.dtype}"
        sums = [
            b.let(f"call {scalar} {name}(ptr {pointer}, i64 {count})")
            for pointer, count in (("%values", low), (upper, high))
        ]
        b.do(f"ret {scalar} {_merge(b, self.kind, self.dtype, *sums)}")

    def _lanes(self) -> tuple[str, str]:
        """Write the reduction by lanes; return its result, and the number of its elements."""
        b, one = self.at(self.width), self.body
        self.label("lanes")
        first = self.load(b, "%values", self.dtype)
        whole = one.let(f"and i64 %n, {-self.width}")
        further = one.let(f"sdiv i64 {whole}, {self.width}")
        further = one.let(f"sub i64 {further}, 1")
        more = one.let(f"icmp sgt i64 {further}, 0")
        one.do(f"br i1 {more}, label %lanes.loop, label %lanes.over")
        self.label("lanes.loop")

        def step(index: str, value: str) -> str:
            number = one.let(f"add i64 {index}, 1")
            return self._next(b, one.let(f"mul i64 {number}, {self.width}"), value)

        found = self.fold(b, further, first, self.dtype, step)
        last = self.current
        one.do("br label %lanes.over")
        self.label("lanes.over")
        value = b.let(f"phi {b.type(self.dtype)} [ {first}, %lanes ], [ {found}, %{last} ]")
        found = self._across(value)
        one.do("br label %rest")
        return found, whole

    def _across(self, value: str) -> str:
        """Return the lanes of a vector as one: neighbours first."""
        width = self.width
        while width > 1:
            b = self.at(width)
            kind = b.type(self.dtype)
            pair = []
            for odd in (0, 1):
                picks = ", ".join(f"i32 {n}" for n in range(odd, width, 2))
                mask = f"<{width // 2} x i32> <{picks}>"
                pair.append(b.let(f"shufflevector {kind} {value}, {kind} poison, {mask}"))
            width //= 2
            if width == 1:
                pair = [
                    b.let(f"extractelement <1 x {register(self.dtype)}> {x}, i64 0") for x in pair
                ]
            value = _merge(self.at(width), self.kind, self.dtype, *pair)
        return value


def in_rows(text: Text, at: int, kind: str, dtype: DType, masked: bool, slot: str) -> None:
    """Write the reduction of a tile of one row into an element of an output."""
    b = text.body
    kind, of = ("sum", "moments") if kind == "moments" else (kind, "")
    call = f"call {register(dtype)} @{kind}.{dtype}"

    def reduced(place: str) -> str:
        found = b.let(f"{call}(ptr {place}, i64 %cols)")
        if kind != "sum" or dtype not in FLOATS:
            return found
        return _merge(b, kind, dtype, _start(b, kind, dtype), found)  # NumPy adds to 0

    value = reduced(f"%tile{at}")
    if not of:
        text.store(b, value, text.element(b, f"%output{at}", slot, dtype), dtype)
        return
    count = reduced(f"%counts{at}") if masked else b.let("sitofp i64 %cols to double")
    mean = _mean(b, value, count)
    wide = {1: mean, text.width: text.splat(text.at(text.width), mean, F8)}

    def inside(v: Body, index: str) -> None:
        pointer = text.element(v, f"%tile{at}", index, F8)
        square = _square(text, v, at, index, pointer, wide[v.width], masked)
        text.store(v, square, pointer, F8)

    b.do(f"br label %squares{at}")
    text.loops(f"squares{at}", "0", "%cols", f"squared{at}", inside)
    text.label(f"squared{at}")
    parts = (count if masked else "", mean, reduced(f"%tile{at}"))
    _store_moments(text, b, at, slot, parts)


def in_columns(text: Text, at: int, kind: str, dtype: DType, masked: bool, slot: str) -> None:
    """Write the reduction of a tile of several rows into elements of an output."""

    def place(b: Body, row: str, index: str, name: str) -> str:
        first = b.let(f"mul i64 {row}, %cols")
        return text.element(b, name, b.let(f"add i64 {first}, {index}"), dtype)

    def inside(b: Body, index: str) -> None:
        def merged(name: str, row: str, value: str) -> str:
            here = text.load(b, place(b, row, index, name), dtype)
            return _merge(b, "sum" if kind == "moments" else kind, dtype, value, here)

        start = _start(b, "sum" if kind == "moments" else kind, dtype)
        value = text.fold(b, "%rows", start, dtype, partial(merged, f"%tile{at}"))
        where = b.let(f"add i64 {slot}, {index}")
        if kind != "moments":
            text.store(b, value, text.element(b, f"%output{at}", where, dtype), dtype)
            return
        if masked:
            count = text.fold(b, "%rows", start, dtype, partial(merged, f"%counts{at}"))
        else:
            count = text.splat(b, text.body.let("sitofp i64 %rows to double"), F8)
        mean = _mean(b, value, count)

        def squared(row: str, value: str) -> str:
            pointer = place(b, row, index, f"%tile{at}")
            which = b.let(f"add i64 {b.let(f'mul i64 {row}, %cols')}, {index}")
            square = _square(text, b, at, which, pointer, mean, masked)
            return _merge(b, "sum", F8, value, square)

        squares = text.fold(b, "%rows", start, F8, squared)
        _store_moments(text, b, at, where, (count if masked else "", mean, squares))

    text.body.do(f"br label %columns{at}")
    text.loops(f"columns{at}", "0", "%cols", f"columns{at}.over", inside)
    text.label(f"columns{at}.over")


def _mean(b: Body, total: str, count: str) -> str:
    kind = b.type(F8)
    none = b.let(f"fcmp oeq {kind} {count}, {b.zero(F8)}")
    one = b.fixed("double", "1.0")
    some = b.let(f"select {b.wide('i1')} {none}, {kind} {one}, {kind} {count}")
    return b.let(f"fdiv {kind} {total}, {some}")


def _square(
    text: Text, b: Body, at: int, index: str, pointer: str, mean: str, masked: bool
) -> str:
    """Return the squared distances to the mean, zero where they don't count."""
    kind = b.type(F8)
    far = b.let(f"fsub {kind} {text.load(b, pointer, F8)}, {mean}")
    square = b.let(f"fmul {kind} {far}, {far}")
    if not masked:
        return square
    count = text.load(b, text.element(b, f"%counts{at}", index, F8), F8)
    some = b.let(f"fcmp une {kind} {count}, {b.zero(F8)}")
    return text.select(b, some, square)


def _store_moments(text: Text, b: Body, at: int, slot: str, parts: tuple[str, ...]) -> None:
    """Write count, mean and squares, each into its part of the output; "": it is there."""
    for number, value in enumerate(parts):
        if value:
            away = b.let(f"mul i64 %part, {number}")
            index = b.let(f"add i64 {slot}, {away}")
            text.store(b, value, text.element(b, f"%output{at}", index, F8), F8)
