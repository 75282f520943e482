"""The reductions and scans of tiles, in the order of order.py.

Columns are reduced row by row in registers. Rows are reduced by a function of the module: sums of
floats in NumPy's order, which adds up to 128 elements in eight lanes and halves what is longer.
The reduced values lie in the tile, or are computed from the sources in the loop of the reduction.

A scan combines each element with those before it in its line, tile by tile: `state` has the result
of each line so far. Tiles come in an order in which each line is met from its start on, whatever
the axes of reductions: runs are contiguous in C order, and `pos` is the number of a run's first
element. Along the last axis a line is contiguous, along others neighbours belong to neighbouring
lines, and are done by vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.native.llvm_text import F8, Text
from lazyflow.array.kernels.native.operations import FLOATS, Body, emit, of_numbers, register
from lazyflow.array.kernels.native.staging import KernelSpec
from lazyflow.array.kernels.order import KINDS, PIECE, SUM, Extreme, Kind, neutral
from lazyflow.array.kernels.planning import CONSTANT, scans_of
from lazyflow.array.kernels.program import LoweredStep

# -- what a loop computes of the elements from an index on, in registers ------------------


def evaluated(
    b: Body, steps: Sequence[LoweredStep], read: Callable[[int], str]
) -> Callable[[int], str]:
    """Write steps; return a function of a value's number that gives it, read once at most."""
    values: dict[int, str] = {}

    def value(n: int) -> str:
        if n not in values:
            values[n] = read(n)
        return values[n]

    for step in steps:
        given = [value(n) for n in step.operands]
        values[step.results[0]] = emit(b, step.op, step.loop, given)
    return value


class Elements(NamedTuple):
    """A value to reduce, and the steps that compute it.

    lying
        The values with one number for each element.
    fixed
        Those that are the same for all.
    """

    value: int
    dtypes: tuple[np.dtype[Any], ...]
    steps: tuple[LoweredStep, ...]
    lying: tuple[int, ...]
    fixed: tuple[int, ...]

    def read(self, text: Text, b: Body, pointers: Mapping[int, str], index: str) -> str:
        """Write how the elements from an index on are read, or computed; return them."""

        def load(n: int) -> str:
            if n in self.fixed:
                return text.constants[n, b.width]
            return text.load(b, text.element(b, pointers[n], index, self.dtypes[n]), self.dtypes[n])

        return evaluated(b, self.steps, load)(self.value)


def elements_of(spec: KernelSpec, value: int) -> Elements:
    """Return what the reduction of a value reads: what a tile has, or sources."""
    if not (spec.in_place and spec.steps):
        return Elements(value, spec.dtypes, (), (value,), ())
    fixed = tuple([n for n, (_, layout) in enumerate(spec.sources) if layout == CONSTANT])
    lying = tuple([n for n in range(len(spec.sources)) if n not in fixed])
    return Elements(value, spec.dtypes, spec.steps, lying, fixed)


DType = np.dtype[Any]

LEAF = 128  # elements that NumPy adds up without halving
LEAVES = PIECE // LEAF
_UNROLLED = 4  # steps up to which the loop over a leaf is written out

#: Sums of squared distances, of all elements or of those that count.
_SQUARES = {"squares": ", double %mean", "counted": ", double %mean, ptr %counts"}


class TileRows(NamedTuple):
    """Rows in memory: the first begins at `first`, each `across` bytes on."""

    first: str
    across: str

    def row(self, b: Body, number: str) -> str:
        """Return where a row begins."""
        away = b.let(f"mul i64 {number}, {self.across}")
        return b.let(f"getelementptr i8, ptr {self.first}, i64 {away}")


class Tile(NamedTuple):
    """What is reduced of an output at once.

    rows
        Where the values of `elements` lie.
    slot
        Where in the output the results begin.
    """

    at: int
    kind: Kind
    masked: bool
    elements: Elements
    rows: Mapping[int, TileRows]
    slot: str

    @property
    def dtype(self) -> DType:
        """The dtype of what is reduced."""
        return self.elements.dtypes[self.elements.value]

    def row(self, b: Body, number: str) -> dict[int, str]:
        """Return where each value's row begins."""
        return {n: rows.row(b, number) for n, rows in self.rows.items()}


# -- reductions in registers --------------------------------------------------------------


def start(b: Body, kind: Kind, dtype: DType) -> str:
    """Return the neutral element."""
    return written(b, kind.identity(dtype), dtype)


def written(b: Body, value: Any, dtype: DType) -> str:
    """Return a number as a constant."""
    if dtype not in FLOATS:
        return b.fixed(register(dtype), str(int(value)))
    text = "0x" + np.float64(value).tobytes()[::-1].hex().upper()
    return b.fixed(register(dtype), text)


def merged(b: Body, kind: Kind, dtype: DType, one: str, other: str) -> str:
    """Return what a kind of reduction makes of two values; of two zeros an extreme tells apart."""
    if isinstance(kind, Extreme) and kind.skips_nan:
        found = of_numbers(b, "ole" if kind.least else "oge", dtype, [one, other])
    else:
        found = emit(b, kind.ufunc, (dtype,) * 3, [one, other])
    if not isinstance(kind, Extreme) or dtype not in FLOATS:
        return found
    wide, bits = b.type(dtype), b.wide(f"i{8 * dtype.itemsize}")  # of two zeros, -0 is the less
    pair = [b.let(f"bitcast {wide} {x} to {bits}") for x in (one, other)]
    both = b.let(f"{'or' if kind.least else 'and'} {bits} {pair[0]}, {pair[1]}")
    same = b.let(f"fcmp oeq {wide} {one}, {other}")
    both = b.let(f"bitcast {bits} {both} to {wide}")
    return b.let(f"select {b.wide('i1')} {same}, {wide} {both}, {wide} {found}")


def reducers(spec: KernelSpec) -> list[str]:
    """Return the lines of the functions that reduce rows."""
    if spec.in_columns:
        return []
    needed: dict[tuple[str, DType], Elements] = {}
    for at, kind, masked in spec.reduced:
        elements = elements_of(spec, spec.outputs[at][0])
        dtype = elements.dtypes[elements.value]
        needed[kind.total.__name__, dtype] = elements
        if kind.parts:
            needed["counted" if masked else "squares", dtype] = elements
        else:
            needed[f"merge.{kind.__name__}", dtype] = Elements(0, (dtype,), (), (0,), ())
    return [
        line for name, dtype in sorted(needed, key=str)
        for line in _Reducer(name, needed[name, dtype]).lines
    ]


def total_of_row(b: Body, kind: Kind, name: str, dtype: DType, given: str) -> str:
    """Call a reducer of a row, for a kind."""
    found = b.let(f"call {register(dtype)} @{name}.{dtype}({given})")
    if dtype not in FLOATS or not kind.adds_to_zero:
        return found
    return merged(b, kind, dtype, start(b, kind, dtype), found)


class _Reducer(Text):
    """A function of a kind: of pointers to elements, their number, at least one, and `more`.

    name
        That of the kind, with "merge." before it for the results of blocks, or of `_SQUARES`.
    """

    def __init__(self, name: str, elements: Elements) -> None:
        super().__init__()
        self.elements, self.dtype = elements, elements.dtypes[elements.value]
        self.name = f"{name}.{self.dtype}"
        self.more = _SQUARES.get(name, "")
        self.kind = kind = SUM if self.more else KINDS[name.removeprefix("merge.")]
        in_order = kind.in_order(self.dtype)
        if in_order:
            self.width = kind.lanes
        elif not elements.steps:
            self.width = 32
        b, scalar = self.body, register(self.dtype)
        self.pointers = {n: f"%values{n}" for n in (*elements.lying, *elements.fixed)}
        given = f"{_given(self.pointers)}, i64 %n{self.more}"
        self.lines.append(f"define internal {scalar} @{self.name}({given}) {{")
        self.label("entry")
        for n in elements.fixed:
            self.constant(n, self.pointers[n], elements.dtypes[n])
        first, value = ["[ 0, %entry ]"], [f"[ {start(b, kind, self.dtype)}, %entry ]"]
        if self.width == 1:
            b.do("br label %rest")
        else:
            few = b.let(f"icmp slt i64 %n, {self.width}")
            b.do(f"br i1 {few}, label %rest, label %{'halves' if in_order else 'lanes'}")
            if in_order:
                self._halves()
            total, whole = self._lanes()
            first.append(f"[ {whole}, %lanes.over ]")
            value.append(f"[ {total}, %lanes.over ]")
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
        return merged(b, self.kind, self.dtype, value, self._here(b, index))

    def _here(self, b: Body, index: str) -> str:
        """Return what is reduced of the elements from an index on."""
        found = self.elements.read(self, b, self.pointers, index)
        if not self.more:
            return found
        counts = self.element(b, "%counts", index, F8) if "counts" in self.more else ""
        return _square(self, b, found, b.splat("%mean", F8), counts)

    def _halves(self) -> None:
        b, scalar = self.body, register(self.dtype)
        self.label("halves")
        short = b.let(f"icmp sle i64 %n, {LEAF}")
        b.do(f"br i1 {short}, label %lanes, label %long")
        self.label("long")
        if len(self.elements.steps) <= _UNROLLED and not self.name.startswith("merge."):
            full = b.let(f"icmp eq i64 %n, {PIECE}")
            b.do(f"br i1 {full}, label %leaves, label %split")
            self._leaves()
        else:
            b.do("br label %split")
        self.label("split")
        low = b.let(f"and i64 {b.let('lshr i64 %n, 1')}, -8")
        high = b.let(f"sub i64 %n, {low}")
        upper = {
            n: self.element(b, x, low, self.elements.dtypes[n]) if n in self.elements.lying else x
            for n, x in self.pointers.items()
        }
        others = self.more
        if "counts" in others:
            others = others.replace("%counts", self.element(b, "%counts", low, F8))
        sums = [
            b.let(f"call {scalar} @{self.name}({_given(pointers)}, i64 {count}{more})")
            for pointers, count, more in (
                (self.pointers, low, self.more), (upper, high, others),
            )
        ]
        b.do(f"ret {scalar} {merged(b, self.kind, self.dtype, *sums)}")

    def _leaves(self) -> None:
        """Write the sum of a full piece, which is what halving comes to: leaf by leaf.

        Without calls and short loops, whose ends are not foreseen, it takes four fifths of the
        time. Two leaves at once take longer: processors fetch ahead from one place best. So does
        asking for lines ahead: a quarter more on Zen 4, where the processor does it by itself.
        """
        b, body = self.at(self.width), self.body
        self.label("leaves")
        body.do(f"%sums = alloca [{LEAVES} x {register(self.dtype)}]")

        def leaf(_: Body, number: str) -> None:
            begin = body.let(f"mul i64 {number}, {LEAF}")
            value = self._here(b, begin)
            for away in range(self.width, LEAF, self.width):
                place = body.let(f"add i64 {begin}, {away}")
                value = self._next(b, place, value)
            total = self._across(value)
            self.store(body, total, self.element(body, "%sums", number, self.dtype), self.dtype)

        self.each("each.leaf", str(LEAVES), leaf)
        sums = [
            self.load(body, self.element(body, "%sums", str(n), self.dtype), self.dtype)
            for n in range(LEAVES)
        ]
        while len(sums) > 1:
            pairs = zip(sums[::2], sums[1::2], strict=True)
            sums = [merged(body, self.kind, self.dtype, *pair) for pair in pairs]
        body.do(f"ret {register(self.dtype)} {sums[0]}")

    def _lanes(self) -> tuple[str, str]:
        """Write the reduction by lanes; return its result, and the number of its elements."""
        b, body = self.at(self.width), self.body
        self.label("lanes")
        first = self._here(b, "0")
        whole = body.let(f"and i64 %n, {-self.width}")
        further = body.let(f"sdiv i64 {whole}, {self.width}")
        further = body.let(f"sub i64 {further}, 1")
        more = body.let(f"icmp sgt i64 {further}, 0")
        body.do(f"br i1 {more}, label %lanes.loop, label %lanes.over")
        self.label("lanes.loop")

        def step(index: str, value: str) -> str:
            number = body.let(f"add i64 {index}, 1")
            place = body.let(f"mul i64 {number}, {self.width}")
            return self._next(b, place, value)

        total = self.fold(b, further, first, self.dtype, step)
        last = self.current
        body.do("br label %lanes.over")
        self.label("lanes.over")
        value = b.let(f"phi {b.type(self.dtype)} [ {first}, %lanes ], [ {total}, %{last} ]")
        total = self._across(value)
        body.do("br label %rest")
        return total, whole

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
            value = merged(self.at(width), self.kind, self.dtype, *pair)
        return value


def _given(pointers: Mapping[int, str]) -> str:
    """Return pointers as the first arguments of a reducer."""
    return ", ".join(f"ptr {x}" for x in pointers.values())


def in_rows(text: Text, tile: Tile) -> None:
    """Write the reduction of the rows of a tile into neighbouring elements of an output."""
    at, dtype = tile.at, tile.dtype

    def inside(b: Body, row: str) -> None:
        place = tile.row(b, row) | {n: f"%source{n}" for n in tile.elements.fixed}
        slot = b.let(f"add i64 {tile.slot}, {row}")

        def reduced(name: str, place: Mapping[int, str], more: str = "") -> str:
            given = f"{_given(place)}, i64 %cols{more}"
            return total_of_row(b, tile.kind, name, dtype, given)

        value = reduced(tile.kind.total.__name__, place)
        if not tile.kind.parts:
            text.store(b, value, text.element(b, f"%output{at}", slot, dtype), dtype)
            return
        if tile.masked:
            before = b.let(f"mul i64 {row}, %cols")
            counts = text.element(b, f"%counts{at}", before, F8)
            count = reduced("sum", {0: counts})
            mean = _mean(b, value, count)
            squares = reduced("counted", place, f", double {mean}, ptr {counts}")
        else:
            count = b.let("sitofp i64 %cols to double")
            mean = _mean(b, value, count)
            squares = reduced("squares", place, f", double {mean}")
        parts = (count if tile.masked else "", mean, squares)
        store_moments(text, b, f"%output{at}", slot, "%part", parts)

    text.each(f"rows{at}", "%rows", inside)


def in_columns(text: Text, tile: Tile) -> None:
    """Write the reduction of the columns of a tile into neighbouring elements of a partial row."""
    at, dtype = tile.at, tile.dtype

    def inside(b: Body, index: str) -> None:
        def values(row: str) -> str:
            return tile.elements.read(text, b, tile.row(b, row), index)

        def counted(row: str) -> str:
            before = b.let(f"mul i64 {row}, %cols")
            return text.element(b, f"%counts{at}", b.let(f"add i64 {before}, {index}"), F8)

        def one_row(row: str, value: str) -> str:
            return merged(b, tile.kind, dtype, value, values(row))

        first = start(b, tile.kind, dtype)
        value = text.fold(b, "%rows", first, dtype, one_row)
        slot = b.let(f"add i64 {tile.slot}, {index}")
        if not tile.kind.parts:
            text.store(b, value, text.element(b, f"%partial{at}", slot, dtype), dtype)
            return
        if tile.masked:
            def one_more(row: str, value: str) -> str:
                return merged(b, SUM, F8, value, text.load(b, counted(row), F8))

            count = text.fold(b, "%rows", first, dtype, one_more)
        else:
            count = b.splat(text.body.let("sitofp i64 %rows to double"), F8)
        mean = _mean(b, value, count)

        def squared(row: str, value: str) -> str:
            counts = counted(row) if tile.masked else ""
            return merged(b, SUM, F8, value, _square(text, b, values(row), mean, counts))

        squares = text.fold(b, "%rows", first, F8, squared)
        store_moments(text, b, f"%partial{at}", slot, "%inner", (count, mean, squares))

    text.body.do(f"br label %columns{at}")
    text.loops(f"columns{at}", "%cols", f"columns{at}.over", inside)
    text.label(f"columns{at}.over")


def choose(
    text: Text, b: Body, at: int, index: str, value: str, mask: str, dtype: DType
) -> None:
    """Write those of some values where a mask is true after the ones that were chosen before.

    Without a jump for each: every value is written, and the next one over it if it is not chosen.
    """
    body, name, bits = text.body, f"chosen{b.name()[1:]}", f"i{b.width}"
    if b.width > 1:
        mask = body.let(f"bitcast {b.wide('i1')} {mask} to {bits}")
        some = body.let(f"icmp ne {bits} {mask}, 0")
        body.do(f"br i1 {some}, label %{name}, label %{name}.over")
        text.label(name)
    count = body.let(f"load i64, ptr %many{at}")
    for lane in range(b.width):
        own, chosen = value, mask
        if b.width > 1:
            own = b.let(f"extractelement {b.type(dtype)} {value}, i64 {lane}")
            chosen = body.let(f"trunc {bits} {body.let(f'lshr {bits} {mask}, {lane}')} to i1")
        if b.apart and lane:  # in the rest of a run the last element is there again and again
            pair = [body.let(f"extractelement {b.wide('i64')} {index}, i64 {n}")
                    for n in (lane - 1, lane)]
            chosen = body.let(f"and i1 {chosen}, {body.let(f'icmp ne i64 {pair[0]}, {pair[1]}')}")
        text.store(body, own, text.element(body, f"%output{at}", count, dtype), dtype)
        count = body.let(f"add i64 {count}, {body.let(f'zext i1 {chosen} to i64')}")
    body.do(f"store i64 {count}, ptr %many{at}")
    if b.width > 1:
        body.do(f"br label %{name}.over")
        text.label(f"{name}.over")


def _mean(b: Body, total: str, count: str) -> str:
    return b.let(f"fdiv {b.type(F8)} {total}, {one_or_more(b, count)}")


def one_or_more(b: Body, count: str) -> str:
    """Return counts, and 1 for none, as what to divide by.

    Without the fence LLVM would divide by 0, too, and select after that: this raises a flag, for
    which NumPy's functions compute all again.
    """
    kind = b.type(F8)
    none = b.let(f"fcmp oeq {kind} {count}, {b.zero(F8)}")
    one = b.fixed("double", "1.0")
    some = b.let(f"select {b.wide('i1')} {none}, {kind} {one}, {kind} {count}")
    return b.intrinsic("arithmetic.fence", F8, some)


def _square(text: Text, b: Body, value: str, mean: str, counts: str) -> str:
    """Return the squared distances to the mean, zero where they don't count."""
    kind = b.type(F8)
    far = b.let(f"fsub {kind} {value}, {mean}")
    square = b.let(f"fmul {kind} {far}, {far}")
    if not counts:
        return square
    some = b.let(f"fcmp une {kind} {text.load(b, counts, F8)}, {b.zero(F8)}")
    return text.select(b, some, square)


def store_moments(
    text: Text, b: Body, into: str, slot: str, part: str, parts: tuple[str, ...]
) -> None:
    """Write count, mean and squares, `part` elements from each other; "": it is there."""
    for number, value in enumerate(parts):
        if value:
            away = b.let(f"mul i64 {part}, {number}")
            index = b.let(f"add i64 {slot}, {away}")
            text.store(b, value, text.element(b, into, index, F8), F8)


# -- scans -------------------------------------------------------------------------------------


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
