"""Kernels with moments: they read each block for the means of its lanes, then for the squares.

Counts, means and sums of squares are three arrays, one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.kernels.lowering import needed
from lazyflow.array.kernels.native.llvm_ir import Writer
from lazyflow.array.kernels.native.operations import Body
from lazyflow.array.kernels.native.staging import KernelSpec, Staging
from lazyflow.array.kernels.order import GROUP

F8 = np.dtype("f8")


class MomentsWriter(Writer):
    """Writes kernels that have moments among their outputs."""

    states = (("second", "0"), ("old_pos", "0"), ("old_in_outer", "0"), ("old_in_row", "0"))

    def __init__(self, spec: KernelSpec, staging: Staging) -> None:
        super().__init__(spec, staging)
        self.moments = [
            (at, value, mask)
            for at, (value, kind, mask) in enumerate(spec.outputs)
            if kind == "moments"
        ]

    def _part(self, pointer: str, part: int) -> str:
        """Return the pointer to a part of moments, given that to the first part."""
        b = self.body
        return self._offset(pointer, b.let(f"mul i64 %slots, {part}"), F8)

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
        if kind != "moments":
            super()._store_output(b, value, kind, None, pointer, index, dtype)
            return
        if mask is not None:
            one = b.let(f"uitofp {b.wide('i1')} {mask} to {b.type(F8)}")
            self._add(b, one, pointer, index)
            value = self._where(b, mask, value)
        self._add(b, value, self._part(pointer, 1), index)

    def _add(self, b: Body, value: str, pointer: str, index: str) -> None:
        super()._store_output(b, value, "sum", None, pointer, index, F8)

    def _where(self, b: Body, mask: str, value: str) -> str:
        value = b.intrinsic("arithmetic.fence", F8, value)
        kind = b.type(F8)
        return b.let(f"select {b.wide('i1')} {mask}, {kind} {value}, {kind} {b.zero(F8)}")

    def _block_may_start(self) -> None:
        """Write the code that keeps where a block starts, to read the block again."""
        b = self.body
        first = b.let(f"icmp eq i64 {self._get('second')}, 0")
        rows = b.let(f"icmp eq i64 {self._get('rows')}, {GROUP}")
        lanes = b.let(f"icmp eq i64 {self._get('in_lanes')}, %lanes")
        start = b.let(f"and i1 {first}, {b.let(f'and i1 {rows}, {lanes}')}")
        b.do(f"br i1 {start}, label %remember, label %known")
        self.label("remember")
        self._copy("", "old_")
        b.do("br label %known")
        self.label("known")

    def _copy(self, have: str, want: str) -> None:
        b = self.body
        for name in ("pos", "in_outer", "in_row"):
            b.do(f"store i64 {self._get(have + name)}, ptr %{want}{name}")
        for at in self.cursors:
            here = b.let(f"load ptr, ptr %{have}cursor{at}")
            b.do(f"store ptr {here}, ptr %{want}cursor{at}")

    def _choose_way(self) -> None:
        second = self.body.let(f"icmp ne i64 {self._get('second')}, 0")
        self.body.do(f"br i1 {second}, label %again.start, label %g0.start")

    def _second_ways(self) -> None:
        """Write the way over a block that adds up the squares."""
        read = {n for _, value, mask in self.moments for n in (value, mask) if n is not None}
        inline = needed(self.staging.stages[0].inline, read)

        def inside(b: Body, index: str) -> None:
            value = self._values(b, index, inline)
            kind = b.type(F8)
            for at, n, mask in self.moments:
                pointer = self.results[at]
                mean = self._load(b, self._element(b, self._part(pointer, 1), index, F8), F8)
                here = value(n) if mask is None else self._where(b, value(mask), value(n))
                far = b.let(f"fsub {kind} {here}, {mean}")
                square = b.let(f"fmul {kind} {far}, {far}")
                if mask is not None:
                    square = self._where(b, value(mask), square)
                self._add(b, square, self._part(pointer, 2), index)

        self.label("again.start")
        self.body.do("br label %again.loops")
        after = f"g{len(self.staging.stages)}.start"
        self._loops("again.loops", "0", "%n", after, inside)

    def _block_over(self, full: str, base: str) -> str:
        """Write the code after a block: the means after its first way, else the next block."""
        b = self.body
        second = b.let(f"icmp ne i64 {self._get('second')}, 0")
        rewind = b.let(f"and i1 {full}, {b.let(f'xor i1 {second}, true')}")
        b.do(f"br i1 {rewind}, label %means, label %onward")
        self.label("means")
        count = b.let(f"sub i64 {self._get('pos')}, {self._get('old_pos')}")
        rows = b.let(f"sdiv i64 {count}, %lanes")
        over = b.let(f"srem i64 {count}, %lanes")
        some = b.let(f"icmp sgt i64 {rows}, 0")
        start = self._get("base")
        filled = b.let(f"select i1 {some}, i64 %lanes, i64 {over}")
        less, more = (
            b.let(f"sitofp i64 {x} to double") for x in (rows, b.let(f"add i64 {rows}, 1"))
        )
        b.do("br label %more.loops")
        self._divide("more", "0", over, more, start, "less.loops")
        self._divide("less", over, filled, less, start, "rewind")
        self.label("rewind")
        self._copy("old_", "")
        b.do(f"store i64 {start}, ptr %base")
        b.do(f"store i64 {start}, ptr %acc")
        b.do("store i64 %lanes, ptr %in_lanes")
        b.do("store i64 1, ptr %second")
        b.do("br label %head")
        self.label("onward")
        way = b.let(f"select i1 {full}, i64 0, i64 {self._get('second')}")
        b.do(f"store i64 {way}, ptr %second")
        return base

    def _divide(self, name: str, low: str, high: str, count: str, start: str, after: str) -> None:
        """Write the division of sums by counts, for the lanes from `low` to `high`."""

        def inside(b: Body, index: str) -> None:
            for at, _, mask in self.moments:
                pointer = self._offset(f"%output{at}", start, F8)
                kind = b.type(F8)
                sums = self._part(pointer, 1)
                value = self._load(b, self._element(b, sums, index, F8), F8)
                if mask is None:
                    number = self._spread(b, count)
                else:
                    number = self._load(b, self._element(b, pointer, index, F8), F8)
                    none = b.let(f"fcmp oeq {kind} {number}, {b.zero(F8)}")
                    one = b.fixed("double", "1.0")
                    number = b.let(f"select {b.wide('i1')} {none}, {kind} {one}, {kind} {number}")
                self._store(b, b.let(f"fdiv {kind} {value}, {number}"), sums, index, F8)

        self._loops(f"{name}.loops", low, high, after, inside)

    def _spread(self, b: Body, value: str) -> str:
        return value if b.width == 1 else self._splat(value, F8)


def write_kernel(spec: KernelSpec, staging: Staging, name: str) -> str:
    """Return the text of a module with the kernel for a specification."""
    moments = any(kind == "moments" for _, kind, _ in spec.outputs)
    return (MomentsWriter if moments else Writer)(spec, staging).write(name)
