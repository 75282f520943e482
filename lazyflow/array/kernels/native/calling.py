"""A compiled kernel called over a block, without the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.kernels import moments
from lazyflow.array.kernels.draws.block import DrawnBlock
from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native.layouts import SourceLayouts
from lazyflow.array.kernels.native.llvm_scans import scan_numbers
from lazyflow.array.kernels.native.llvm_text import LINE
from lazyflow.array.kernels.order import GROUP, PIECE, Form, from_blocks, kept_shape
from lazyflow.array.kernels.planning import ON_THE_WAY, BlockPass, BlockPlan, lines_of

_WIDE = 2048  # columns that are reduced at once where they lie
_FLAGS = {1: "invalid", 4: "divide", 8: "over", 16: "under"}  # of x86


def call_kernel(
    function: Any,
    plan: BlockPlan,
    some: BlockPass,
    sources: SourceLayouts,
    loops: Sequence[int],
    scratch: int,
) -> tuple[list[np.ndarray], int]:
    """Run a kernel over a block; return what it writes, and the flags that it raised.

    Parameters
    ----------
    function
        The compiled kernel.
    loops
        Addresses of NumPy's loops and of their data, in the order of the kernel's stages.
    scratch
        How many values go through scratch memory.
    """
    results = [_new(plan, some, at, sources.outs.get(at)) for at in some.outputs]
    states, lines = _lines(plan, some, results) if some.scans else ((), ())
    memory = np.empty(scratch * PIECE * 8 + LINE, np.uint8)
    whole_line = -(-memory.ctypes.data // LINE) * LINE
    drawn = [x.draw.params for x in sources.arrays if type(x) is DrawnBlock]
    pointers = (
        *compiler.flag_functions(), *loops, *map(_address, sources.arrays),
        *map(_address, results), whole_line, *map(_address, drawn),
    )
    form = some.form
    if form is None:
        grid = (1, 1, plan.size, 1, PIECE if scratch else plan.size)
    elif form.inner == 1:
        grid = (1, form.outer, form.length, max(1, PIECE // form.length), PIECE)
    else:
        grid = (*form, GROUP, _piece(form.inner) if scratch else _WIDE)
    part = 0
    if form is not None:
        in_columns = form.inner > 1
        part = form.outer * form.inner if in_columns else prod(form.partial)
        merged = [
            n for n, at in enumerate(some.outputs)
            for kind in [_kind(plan, at)]
            if kind == "moments" or (in_columns and kind and kind not in ON_THE_WAY)
        ]
        rings = [new_ring(form, plan, some.outputs[n]) for n in merged]
        partial = results  # kept while the kernel runs
        if not in_columns:
            results = list(results)
            for n in merged:
                results[n] = np.empty((3, form.outer, 1, 1), partial[n].dtype)
            rings += [results[n] for n in merged]
        pointers += tuple(map(_address, rings))
    chosen = [n for n, at in enumerate(some.outputs) if _kind(plan, at) == "chosen"]
    counts = [np.zeros(1, np.int64) for _ in chosen]
    pointers += tuple(map(_address, (*states, *counts)))
    numbers = (*grid, sources.row, part, *sources.strides, *lines)
    flags = function(
        (ctypes.c_void_p * len(pointers))(*pointers), (ctypes.c_int64 * len(numbers))(*numbers)
    )
    for n, count in zip(chosen, counts, strict=True):
        results[n] = _shrunk(results[n], count.item())
    return results, flags


def _shrunk(array: np.ndarray, count: int) -> np.ndarray:
    """Return the first elements, without the memory of the others.

    A copy of few: what is given back as a whole serves for the next block, and memory that comes
    anew from the system takes four times as long to fill.
    """
    if count * 4 < array.size * 3:
        return array[:count].copy()
    array.resize(count, refcheck=False)
    return array


def _lines(
    plan: BlockPlan, some: BlockPass, results: Sequence[np.ndarray]
) -> tuple[Sequence[np.ndarray], tuple[int, ...]]:
    """Return the states of scans, where the ends are wanted these, and numbers of their lines."""
    ends = {
        plan.lowered.outputs[at].value: own for at, own in zip(some.outputs, results, strict=True)
        if _kind(plan, at) == "last"
    }
    states: list[np.ndarray] = []
    numbers: tuple[int, ...] = ()
    for step in some.scans:
        own = ends.get(step.results[0])
        lines = lines_of(plan.shape, step.op.axis)
        states.append(np.empty(lines, step.loop[0]) if own is None else own)
        numbers += scan_numbers(plan.shape, step.op.axis)
    return states, numbers


def _kind(plan: BlockPlan, at: int) -> str:
    """Return the kind of an output's reduction; empty if it is not reduced."""
    reduction = plan.lowered.outputs[at].reduction
    return "" if reduction is None else reduction.kind


def new_ring(form: Form, plan: BlockPlan, at: int) -> np.ndarray:
    """Return memory for the results of blocks of columns that are not merged yet.

    Sixteen of each level of the tree of order.py, of the highest as many as there are.
    """
    rows, level = 0, form.partial[1]
    while level >= GROUP:
        rows, level = rows + GROUP, -(-level // GROUP)
    parts = 3 if _kind(plan, at) == "moments" else 1
    dtype = plan.lowered.dtypes[plan.lowered.outputs[at].value]
    return np.empty((rows + level, parts, form.inner), dtype)


def _address(array: Any) -> int:
    """Return the address of an array, of a draw its first place."""
    return array.first if type(array) is DrawnBlock else array.ctypes.data


def _piece(inner: int) -> int:
    """Return in how many columns a tile of 16 rows is cut: even pieces, but of full vectors."""
    most = PIECE // GROUP
    even = -(-inner // -(-inner // most))
    return min(most, -(-even // GROUP) * GROUP)


def _new(plan: BlockPlan, some: BlockPass, at: int, out: Any) -> np.ndarray:
    """Return the array for what a kernel writes of an output."""
    value, reduction, mask = plan.lowered.outputs[at]
    dtype, form = plan.lowered.dtypes[value], some.form
    if reduction is not None and reduction.kind == "chosen":
        return np.empty(plan.size + 1, dtype)  # what is not chosen is written over after it
    if reduction is not None and reduction.kind == "last":
        return np.empty(kept_shape(plan.shape, reduction.axes), dtype)
    if reduction is None or form is None:
        return np.empty(plan.shape, dtype) if out is None else out
    if form.inner > 1:  # merged by the kernel
        parts = (3,) if reduction.kind == "moments" else ()
        return np.empty((*parts, form.outer, 1, form.inner), dtype)
    if reduction.kind == "moments":
        return moments.new_moments(form, dtype, mask is not None)
    return np.empty(form.partial, dtype)


def finish_output(plan: BlockPlan, at: int, written: np.ndarray) -> np.ndarray:
    """Return the result of an output from what a kernel has written of it."""
    reduction = plan.lowered.outputs[at].reduction
    if reduction is None:
        return written
    if reduction.kind in ON_THE_WAY:
        return written
    if reduction.kind == "moments":
        return moments.finish_moments(plan.shape, reduction, written)
    return from_blocks(reduction, plan.shape, written)


def asked_for(flags: int, modes: Any) -> set[str]:
    """Return the kinds of flags that the caller, with these modes of `np.geterr`, asked for."""
    return {kind for bit, kind in _FLAGS.items() if flags & bit and modes[kind] != "ignore"}
