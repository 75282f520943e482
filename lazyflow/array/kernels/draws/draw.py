"""What is drawn: a formula, a stream, and the shape of the array in which places are counted.

In LLVM's text a formula becomes two functions of a place and the draw's parameters: one returns
the vector of elements that begins there, the other writes a row of them to memory.

An element depends on its place alone, so a region is drawn by itself, whatever the chunks are.

    >>> import lazyflow.array as la
    >>> one, two = [la.random.default_rng(1).random(9, chunks=n).compute() for n in (9, 4)]
    >>> bool((one == two).all())
    True
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.kernels.draws.formulas import (
    CELLS,
    FORMULAS,
    Formula,
    Step,
    parameters,
    words_of,
)
from lazyflow.array.kernels.native.compiler import Kernel
from lazyflow.array.kernels.native.elementary.lanes import WIDTH, Lanes, VectorFunction
from lazyflow.array.kernels.native.llvm_text import Text
from lazyflow.array.kernels.native.operations import Body, memory

# -- formulas in LLVM's text -------------------------------------------------------------------


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


# -- blocks of draws that are not made yet: kernels make them as they go, and keep nothing of them


class DrawnBlock:
    """A region of a draw, for kernels an array whose addresses are places.

    draw
        Called with a region, returns its values.
    strides
        Places from one index to the next, for each axis.
    first
        The place of the first element.
    """

    nbytes = 0  # of memory that is read: none

    def __init__(self, draw: Any, region: tuple[slice, ...]) -> None:
        self.draw = draw
        self.region = region
        self.dtype: np.dtype[Any] = draw.dtype
        self.shape = tuple([span.stop - span.start for span in region])
        self.size = prod(self.shape)
        whole: tuple[int, ...] = draw.shape
        self.strides = tuple([prod(whole[axis + 1:]) for axis in range(len(whole))])
        pairs = zip(region, self.strides, strict=True)
        self.first = sum([span.start * stride for span, stride in pairs])

    def is_run(self) -> bool:
        """Tell whether the places follow each other."""
        steps = zip(self.shape, self.strides, strict=True)
        last = self.first + sum([(n - 1) * stride for n, stride in steps])
        return not self.size or last - self.first + 1 == self.size

    def array(self) -> np.ndarray[Any, Any]:
        """Return the values."""
        found: np.ndarray[Any, Any] = self.draw(self.region)
        return found


def is_drawn_in(block: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether kernels over a shape can make a block: rows of neighbours."""
    if type(block) is not DrawnBlock or block.shape != shape:
        return False
    return [stride for n, stride in zip(shape, block.strides, strict=True) if n > 1][-1:] == [1]


def made(block: Any) -> Any:
    """Return the array of a block."""
    return block.array() if type(block) is DrawnBlock else block


# -- formulas computed by NumPy: where no kernel can be compiled, and for small parts -----

_MOST = 1 << 14  # elements at a time, so that intermediate values stay in the cache; a guess


class _NumpyMachine:
    def __init__(self, group: Any, params: Any) -> None:
        self.group = group
        self._params = params

    def param(self, number: int) -> Any:
        return self._params[number]

    def at(self, place: Any) -> Any:
        return self._params[place]

    def number(self, word: Any) -> Any:
        return word.view(np.int64).astype(np.float64)

    def bits(self, value: Any) -> Any:
        return value.view(np.uint64)

    def of_bits(self, word: Any) -> Any:
        return word.view(np.float64)

    def sqrt(self, value: Any) -> Any:
        return np.sqrt(value)

    def below(self, one: Any, other: Any) -> Any:
        return one < other

    def where(self, which: Any, yes: Any, no: Any) -> Any:
        return np.where(which, yes, no)

    def repeat(self, step: Step) -> tuple[Any, ...]:
        values, refused = step(0)
        attempt = 0
        while any(x.any() for x in refused):
            attempt += 1
            others, again = step(attempt)
            trio = zip(refused, others, values, strict=True)
            values = tuple([np.where(which, new, old) for which, new, old in trio])
            refused = tuple([x & y for x, y in zip(refused, again, strict=True)])
        return values


def draw_rows(formula: Formula, params: Any, place: int, across: int, out: Any) -> None:
    """Write rows of elements: the first of them from a place on, each `across` places further."""
    rows, n = out.shape
    for low in range(0, n, _MOST):
        high = min(low + _MOST, n)
        many = max(1, _MOST // (high - low))
        for row in range(0, rows, many):
            some = out[row:row + many, low:high]
            some[...] = _rows(formula, params, place + row * across + low, across, some.shape)


def _rows(formula: Formula, params: Any, place: int, across: int, shape: Any) -> Any:
    each, (rows, n) = formula.elements, shape
    places = place + across * np.arange(rows)
    counters = (places // each)[:, None] + np.arange((n + each - 2) // each + 1)
    machine = _NumpyMachine(counters.reshape(-1).astype(np.uint64), params)
    found = np.stack(formula.compute(machine), axis=1).reshape(rows, -1)
    return np.take_along_axis(found, (places % each)[:, None] + np.arange(n), axis=1)


# -- tables -------------------------------------------------------------------------------
#
# Tables of few whole numbers and their chances, and what kernels are checked with.
#
# A draw of 63 bits is looked up: the highest bits choose a cell of a guide, which says where the
# search for the first end above the draw begins (Chen and Asau: On generating random variates from
# an empirical distribution, 1974). The search passes one end or none, mostly.

_FEWEST = 12  # bits of a guide, at least: with fewer, a group of draws often meets an end


def table(chances: Any, least: int = 0) -> bytes:
    """Return the parameters of the formula "listed", for numbers from `least` on.

    chances
        Of each number, 0 or more, up to a common factor.
    """
    ends = np.cumsum(chances, dtype=float)
    ends = (ends / ends[-1] * 2.0**63).astype(np.uint64)
    bits = max(_FEWEST, len(ends).bit_length() + 1)
    guide = ends.searchsorted(np.arange(1 << bits, dtype=np.uint64) << (63 - bits), "right")
    passed = np.diff(guide, append=len(ends) - 1).max()  # at most: others of a group go on as far
    first = CELLS + len(guide)
    words = (guide + first).astype(np.uint64), ends, np.zeros(passed, np.uint64)
    return words_of(least - first, 64 - bits) + np.concatenate(words).tobytes()


#: Parameters with which kernels are checked: a quarter of the products of whole numbers is refused.
CHECKED = {
    "gamma": np.float64(1.25).tobytes(),
    "short_range": words_of(5, 3 << 30, 1 << 30),
    "long_range": words_of(5, 3 << 62, 1 << 62),
    "listed": table([0.0, 0.1, 0.0, 0.2, 0.7, 1e-4, 1e-5, 1e-5, 0.0], -3),
    "whole_steps": words_of(-5, 3),
    "steps": np.array([-5.1, 0.3]).tobytes(),
    "line": np.array([-5.1, 0.3]).tobytes() + words_of(700) + np.float64(9.9).tobytes(),
}


# -- A region of an array of random numbers, filled by a kernel, or by NumPy where there is none

_OPERATIONS = 64  # operations for one element, about; a guess
_FEW = 1 << 14  # elements: smaller regions may be drawn by NumPy instead (`few`); a guess


def fill(block: DrawnBlock, out: Any) -> None:
    """Write the values of a block into an array of its shape, which is not empty."""
    axes = _joined(out.shape, block.strides, out.strides, out.itemsize)
    view = np.lib.stride_tricks.as_strided(out, [n for n, _, _ in axes], [b for _, _, b in axes])
    formula, params = block.draw.formula, block.draw.params
    kernel = _kernel(formula, out.dtype)
    ready = kernel.ready(out.size * _OPERATIONS)
    for at in product(*[range(n) for n, _, _ in axes[:-2]]):
        place = block.first + sum(i * step for i, (_, step, _) in zip(at, axes, strict=False))
        across = axes[-2][1]
        if ready:
            _call(kernel.function, params, place, across, view[at])
        else:
            draw_rows(FORMULAS[formula], params, place, across, view[at])


def _joined(shape: Any, places: Any, strides: Any, size: int) -> list[tuple[int, int, int]]:
    """Return axes that go over the same elements: lengths, steps in places, strides in bytes.

    There are two or more, and the last goes over neighbours.
    """
    found: list[tuple[int, int, int]] = []
    for n, step, stride in zip(shape, places, strides, strict=True):
        if found and (found[-1][1:] == (n * step, n * stride)):
            found[-1] = found[-1][0] * n, step, stride
        elif n > 1:
            found.append((n, step, stride))
    if not found or found[-1][1:] != (1, size):
        found.append((1, 1, size))
    return found if len(found) > 1 else [(1, 0, 0), *found]


@lru_cache(256)
def _kernel(formula: str, dtype: np.dtype[Any]) -> Kernel:
    return Kernel(
        lambda: _text(formula, dtype), lambda function: _difference(function, formula, dtype))


def _difference(function: Any, formula: str, dtype: np.dtype[Any]) -> str | None:
    """Return what is wrong with a new kernel: NumPy gives other bits, or None."""
    params = parameters((1, 2, 3), 4, CHECKED.get(formula, b""))
    found, expected = np.empty((2, 9, 131), dtype)
    _call(function, params, 6, 133, found)
    draw_rows(FORMULAS[formula], params, 6, 133, expected)
    same = found.tobytes() == expected.tobytes()
    return None if same else "it draws other numbers than NumPy's operations"


def _call(function: Any, params: Any, place: int, across: int, rows: Any) -> None:
    function(
        (ctypes.c_void_p * 2)(rows.ctypes.data, params.ctypes.data),
        (ctypes.c_int64 * 5)(place, *rows.shape, across, rows.strides[0]),
    )


def _text(formula: str, dtype: np.dtype[Any]) -> str:
    """Return the text of a kernel that fills rows.

    pointers    the first element, the parameters
    numbers     its place, the rows, elements of a row, places and bytes from row to row
    """
    text = Text()
    text.label("entry")
    text.arguments("ptr", "%pointers", ["out", "params"])
    text.arguments("i64", "%numbers", ["first", "rows", "n", "across", "over"])

    def row(b: Body, number: str) -> None:
        place = b.let(f"add i64 %first, {b.let(f'mul i64 {number}, %across')}")
        to = b.let(f"getelementptr i8, ptr %out, i64 {b.let(f'mul i64 {number}, %over')}")
        b.do(f"call void @draw.row(i64 {place}, i64 %n, ptr %params, ptr {to})")

    text.each("each.row", "%rows", row)
    text.body.do("ret i32 0")
    return text.kernel(functions("draw", FORMULAS[formula], dtype))


@dataclass(frozen=True)
class PlacedDraw:
    """An array each of whose elements is a function of its place.

    method
        What messages call it.
    formula
        A name in formulas.py.
    key, call
        Of the stream: three words of 32 bits, and the number of a call.
    own
        Words of 64 bits: parameters of the formula.
    few
        Called with a slice of places in a tuple, gives the same values, sooner if they are few; or
        None.
    """

    method: str
    formula: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    key: tuple[int, int, int]
    call: int
    own: bytes = b""
    few: Any = None
    takes_out = True

    @property
    def __name__(self) -> str:
        return self.method

    @property
    def params(self) -> Any:
        """The words that the formula reads."""
        return parameters(self.key, self.call, self.own)

    def later(self, region: tuple[slice, ...]) -> DrawnBlock:
        """Return a region that is not made yet."""
        return DrawnBlock(self, region)

    def __call__(self, region: tuple[slice, ...], out: Any = None) -> np.ndarray[Any, Any]:
        block = self.later(region)
        if self.few is not None and block.size < _FEW and block.is_run():
            places = slice(block.first, block.first + block.size)
            values: np.ndarray[Any, Any] = self.few((places,)).reshape(block.shape)
            if out is None:
                return values
            out[...] = values
            return out
        if out is None:
            out = np.empty(block.shape, self.dtype)
        if out.size:
            fill(block, out)
        return out

    def reshaped(self, shape: tuple[int, ...]) -> PlacedDraw:
        """Return the formula of the same elements, in C order, in another shape."""
        return replace(self, shape=shape)


def made_up_draw(formula: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> PlacedDraw:
    """Return a draw for checks of kernels."""
    return PlacedDraw("check", formula, dtype, shape, (1, 2, 3), 4, CHECKED.get(formula, b""))
