"""A compiled kernel called over a block, without the GIL.

All arguments except the arrays are made once for blocks of one layout: if each call spent a tenth
of a millisecond in Python before it releases the GIL, sixteen threads would be as slow as ten.

State: a `PassCall` doesn't change once made, so threads share it. Each call allocates its memory::

    layouts --> PassCall, once --> each call: memory, addresses, the kernel --> results, flags
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.draws.draw import DrawnBlock, made
from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native.llvm_reductions import scan_numbers
from lazyflow.array.kernels.native.llvm_text import LINE
from lazyflow.array.kernels.order import (
    CHOSEN,
    GROUP,
    LAST,
    PIECE,
    Form,
    Kind,
    from_blocks,
    kept_shape,
    reduces,
    rounds,
)
from lazyflow.array.kernels.planning import (
    ANY,
    DRAWN,
    FLAT,
    LINES,
    SAME,
    UNIT,
    BlockPass,
    BlockPlan,
    carries_of,
    fits,
    lines_of,
    source_layout,
)

# -- how the sources of a pass lie in memory: the layouts and strides that a kernel gets --


HUGE = 1 << 62  # elements: without an end


class SourceLayouts(NamedTuple):
    """The layouts of a pass's sources (see planning.py), and the arrays that have them.

    row
        Elements of a row, for sources that lie in rows.
    outs
        For outputs, by number, the arrays that they are written into; no others lie in rows.
    strides
        Bytes between rows and within them, for each source that lies in rows and for each output
        that is not reduced.
    """

    layouts: tuple[str, ...]
    arrays: tuple[Any, ...]
    row: int
    outs: Mapping[int, Any]
    strides: tuple[int, ...]


def source_layouts(
    plan: BlockPlan, some: BlockPass, values: Sequence[Any], outs: Mapping[int, Any]
) -> SourceLayouts:
    """Return the layouts of a pass's sources; a source that doesn't lie in rows is copied."""
    layouts, arrays = [], []
    views: dict[int, Any] = {}
    carries = carries_of(some.scans)
    for at, number in enumerate(some.sources):
        value = values[number]
        if type(value) is DrawnBlock:
            layout, views[at] = DRAWN + value.draw.formula, value
        elif number in carries:
            layout, lines = LINES, lines_of(plan.shape, carries[number])
            value = np.require(np.broadcast_to(value, lines), requirements=["C", "A"])
        else:
            if not value.flags.aligned:
                value = value.copy()
            layout = source_layout(plan, some, number, value)
            if layout == ANY:
                views[at] = value = np.broadcast_to(value, plan.shape)
        layouts.append(layout)
        arrays.append(value)
    into = {at: outs[at] for at in some.outputs if _is_writable(plan, at, outs.get(at))}
    out_strides = [out.strides for out in into.values()]
    row, pairs = _rows(plan.shape, [*[view.strides for view in views.values()], *out_strides])
    while pairs is None:
        at = next(iter(views))
        arrays[at], layouts[at] = np.array(made(views.pop(at)), order="C"), FLAT
        row, pairs = _rows(plan.shape, [*[view.strides for view in views.values()], *out_strides])
    strides = []
    for at, (across, along) in zip(views, pairs, strict=False):
        if layouts[at] == ANY:
            size = arrays[at].itemsize
            layouts[at] = UNIT if along == size else SAME if along == 0 else ANY
        strides += [across, along]
    steps = dict(zip(into, pairs[len(views) :], strict=True))
    for at in some.outputs:
        value, reduction, _ = plan.lowered.outputs[at]
        if reduction is None:
            size = plan.lowered.dtypes[value].itemsize
            strides += [steps[at][0] if at in steps else 0 if row == HUGE else row * size, size]
    return SourceLayouts(tuple(layouts), tuple(arrays), row, into, tuple(strides))


def _is_writable(plan: BlockPlan, at: int, out: Any) -> bool:
    """Tell whether a kernel can write an output into an array: rows of neighbours."""
    if not fits(plan, at, out):
        return False
    row, found = _rows(plan.shape, [out.strides])
    return found is not None and (row == HUGE or found[0][1] == out.itemsize)


def _rows(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[int, list[tuple[int, int]] | None]:
    """Return the length of the rows that all arrays have in common, and their strides.

    None: the arrays have no such rows.
    """
    if not strides:
        return HUGE, []
    runs: list[tuple[int, list[int]]] = []
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        here = [own[axis] for own in strides]
        if runs and all(a == b * length for a, b in zip(runs[-1][1], here, strict=True)):
            runs[-1] = (runs[-1][0] * length, here)
        else:
            runs.append((length, here))
    if len(runs) > 2:
        return 0, None
    if not runs:
        return HUGE, [(0, 0)] * len(strides)
    across = runs[0][1] if len(runs) == 2 else [0] * len(strides)
    return runs[-1][0], list(zip(across, runs[-1][1], strict=True))


_WIDE = 2048  # columns that are reduced at once where they lie; a guess
_FLAGS = {1: "invalid", 4: "divide", 8: "over", 16: "under"}  # of x86
_ASKED = sum(_FLAGS)

Maker = Callable[[], np.ndarray]


# -- calls of kernels ---------------------------------------------------------------------


class PassCall:
    """The call of a kernel for a pass over blocks of one layout.

    What it needs besides arrays and results lies in one piece of memory: first the scratch memory,
    then, each from a whole line on, rings, results of blocks, states and counts.

    Parameters
    ----------
    function
        The compiled kernel.
    loops
        Addresses of NumPy's loops and of their data, in the order of the kernel's stages.
    scratch
        How many values go through scratch memory.
    """

    def __init__(
        self, function: Any, plan: BlockPlan, some: BlockPass, sources: SourceLayouts,
        loops: Sequence[int], scratch: int,
    ) -> None:
        self.function = function
        self.outputs = some.outputs
        self.sources = some.sources
        self.into = frozenset(sources.outs)
        self.first = (*compiler.flag_functions(), *loops)
        self.room = scratch * PIECE * 8
        reductions = [plan.lowered.outputs[at].reduction for at in some.outputs]
        kinds = [None if reduction is None else reduction.kind for reduction in reductions]
        self.draws = any(type(x) is DrawnBlock for x in sources.arrays)
        self._place_results(plan, some, kinds)
        self._place_states(plan, some, kinds)
        self.chosen = {
            n: self._piece(8) for n, kind in enumerate(kinds) if kind is CHOSEN
        }
        #: The shapes of results that no further round follows.
        self.shapes = {
            n: _final(plan, some.outputs[n]) for n, kind in enumerate(kinds)
            if reduces(kind)
        }
        self.finished = None not in self.shapes.values()
        part = 0
        if some.form is not None:
            in_columns = some.form.inner > 1
            part = some.form.outer * some.form.inner if in_columns else prod(some.form.partial)
        lines = [n for step in some.scans for n in scan_numbers(plan.shape, step.op.axis)]
        numbers = (*_grid(plan, some, scratch), sources.row, part, *sources.strides, *lines)
        self.numbers = (ctypes.c_int64 * len(numbers))(*numbers)

    def _piece(self, size: int) -> int:
        """Return where a new piece of memory of so many bytes begins."""
        place = self.room
        self.room += -(-size // LINE) * LINE
        return place

    def _place_results(
        self, plan: BlockPlan, some: BlockPass, kinds: Sequence[Kind | None]
    ) -> None:
        """Find places for what is written, and for what is made of that.

        `written` has for each output the function that makes its array, or its place in memory of
        this call. `merged` has, by the number of an output, the function that makes the array of
        results into which those of rows are merged.
        """
        self.written: list[Maker | int] = []
        self.rings: list[int] = []
        self.merged: dict[int, Maker] = {}
        for n, (at, kind) in enumerate(zip(some.outputs, kinds, strict=True)):
            dtype, form = plan.lowered.dtypes[plan.lowered.outputs[at].value], some.form
            if form is None or kind is None or kind.on_the_way:
                self.written.append(partial(np.empty, _shape(plan, some, at), dtype))
                continue
            if form.inner > 1:
                self.written.append(partial(np.empty, _shape(plan, some, at), dtype))
            elif kind.rows_in_tree:
                mask = plan.lowered.outputs[at].mask
                self.written.append(partial(kind.new_partial, form, dtype, mask is not None))
            else:
                self.written.append(self._piece(prod(form.partial) * dtype.itemsize))
            if form.inner > 1 or kind.rows_in_tree:
                size = _rows_of_ring(form) * prod(kind.parts) * form.inner * dtype.itemsize
                self.rings.append(self._piece(size))
            if form.inner == 1:
                self.merged[n] = partial(np.empty, (*kind.parts, form.outer, 1, 1), dtype)

    def _place_states(
        self, plan: BlockPlan, some: BlockPass, kinds: Sequence[Kind | None]
    ) -> None:
        """Find places for the states of scans: the number of the output that is one, or a place."""
        ends = {
            plan.lowered.outputs[at].value: n for n, at in enumerate(some.outputs)
            if kinds[n] is LAST
        }
        self.ends: list[int | None] = [ends.get(step.results[0]) for step in some.scans]
        self.states = [
            self._piece(prod(lines_of(plan.shape, step.op.axis)) * step.loop[0].itemsize)
            for step in some.scans
        ]

    def __call__(
        self, arrays: Sequence[Any], outs: Mapping[int, Any]
    ) -> tuple[list[Any], int]:
        """Run the kernel over a block; return what it makes, and the flags that it raised.

        Parameters
        ----------
        arrays
            The sources, of the layouts.
        outs
            For outputs, by number, arrays; it is written into those that were when it was made.
        """
        memory = np.empty(self.room + LINE, np.uint8)
        start = memory.ctypes.data
        line = -(-start // LINE) * LINE
        written: list[Any] = [
            outs[at] if at in self.into else new if isinstance(new, int) else new()
            for at, new in zip(self.outputs, self.written, strict=True)
        ]
        places = [line + x if type(x) is int else x.ctypes.data for x in written]
        drawn = []
        if self.draws:
            drawn = [x.draw.params for x in arrays if type(x) is DrawnBlock]
        merged = {n: new() for n, new in self.merged.items()}
        pointers = (
            *self.first, *map(address, arrays), *places, line, *map(address, drawn),
            *[line + at for at in self.rings], *map(address, merged.values()),
            *[line + at if n is None else places[n]
              for n, at in zip(self.ends, self.states, strict=True)],
            *[line + at for at in self.chosen.values()],
        )
        flags = self.function((ctypes.c_void_p * len(pointers))(*pointers), self.numbers)
        for n, shape in self.shapes.items():
            made = merged.get(n, written[n])
            written[n] = made if shape is None else made.reshape(shape)
        for n, at in self.chosen.items():
            count = memory[line - start + at:][:8].view(np.int64)
            written[n] = _shrunk(written[n], count.item())
        return written, flags & _ASKED


def _grid(plan: BlockPlan, some: BlockPass, scratch: int) -> tuple[int, ...]:
    """Return outer, length and inner, and the rows and elements of a row of a tile."""
    form = some.form
    if form is None:
        return (1, 1, plan.size, 1, PIECE if scratch else plan.size)
    if form.inner == 1:
        return (1, form.outer, form.length, max(1, PIECE // form.length), PIECE)
    return (*form, GROUP, _piece(form.inner) if scratch else _WIDE)


def _shrunk(array: np.ndarray, count: int) -> np.ndarray:
    """Return the first elements, without the memory of the others.

    A copy of few: what is given back as a whole serves for the next block, and memory that comes
    anew from the system takes four times as long to fill.
    """
    if count * 4 < array.size * 3:
        return array[:count].copy()
    array.resize(count, refcheck=False)
    return array


def _final(plan: BlockPlan, at: int) -> tuple[int, ...] | None:
    """Return the shape of an output's result, if one round is all of its reduction."""
    reduction = plan.lowered.outputs[at].reduction
    if reduction is None or len(rounds(plan.shape, reduction.axes)) > 1:
        return None
    return (*reduction.kind.parts, *kept_shape(plan.shape, reduction.axes))


def _rows_of_ring(form: Form) -> int:
    """Return how many rows of results of blocks of columns may be there that are not merged yet.

    Sixteen of each level of the tree of order.py, of the highest as many as there are.
    """
    rows, level = 0, form.partial[1]
    while level >= GROUP:
        rows, level = rows + GROUP, -(-level // GROUP)
    return rows + level


def address(array: Any) -> int:
    """Return the address of an array, of a draw its first place."""
    return array.first if type(array) is DrawnBlock else array.ctypes.data


def _piece(inner: int) -> int:
    """Return in how many columns a tile of 16 rows is cut: even pieces, but of full vectors."""
    most = PIECE // GROUP
    even = -(-inner // -(-inner // most))
    return min(most, -(-even // GROUP) * GROUP)


def _shape(plan: BlockPlan, some: BlockPass, at: int) -> tuple[int, ...]:
    """Return the shape of what a kernel writes of an output, unless it is merged by rows."""
    reduction, form = plan.lowered.outputs[at].reduction, some.form
    if reduction is None:
        return plan.shape
    if reduction.kind is CHOSEN:
        return (plan.size + 1,)  # what is not chosen is written over after it
    if reduction.kind is LAST or form is None:
        return kept_shape(plan.shape, reduction.axes)
    return (*reduction.kind.parts, form.outer, 1, form.inner)


def finish_output(plan: BlockPlan, at: int, made: np.ndarray) -> np.ndarray:
    """Return the result of an output from what a kernel has made of it."""
    reduction = plan.lowered.outputs[at].reduction
    if reduction is None or reduction.kind.on_the_way or _final(plan, at) is not None:
        return made
    return from_blocks(reduction, plan.shape, made)


def asked_for(flags: int, modes: Any) -> set[str]:
    """Return the kinds of flags that the caller, with these modes of `np.geterr`, asked for."""
    return {kind for bit, kind in _FLAGS.items() if flags & bit and modes[kind] != "ignore"}
