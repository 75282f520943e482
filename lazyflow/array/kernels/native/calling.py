"""A compiled kernel called over a block, without the GIL."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native.layouts import HUGE, SourceLayouts
from lazyflow.array.kernels.native.llvm_ir import RUN
from lazyflow.array.kernels.outputs import OutputBuffer, output_buffer
from lazyflow.array.kernels.planning import BlockPass, BlockPlan

_FLAGS = ((1, "invalid"), (4, "divide"), (8, "over"), (16, "under"))  # of x86


def call_kernel(
    function: Any,
    plan: BlockPlan,
    some: BlockPass,
    sources: SourceLayouts,
    loops: Sequence[int],
    scratch: int,
) -> tuple[list[OutputBuffer], int]:
    """Run a kernel over a block; return the buffers of its results, and the flags that it raised.

    Parameters
    ----------
    function
        The compiled kernel.
    loops
        Addresses of NumPy's loops and of their data, in the order of the kernel's stages.
    scratch
        How many values go through scratch memory.
    """
    buffers = [output_buffer(plan, at, some.form, sources.outs.get(at)) for at in some.outputs]
    results = [buffer.array.ctypes.data for buffer in buffers]
    memory = np.empty(scratch * RUN * 8, np.uint8)
    pointers = (
        *compiler.flag_functions(),
        *loops,
        *(array.ctypes.data for array in sources.arrays),
        *results,
        memory.ctypes.data,
    )
    form = some.form
    elements, lanes, slots = HUGE, HUGE, 0
    if form is not None:
        elements, lanes, slots = form.elements, form.lanes, form.outer * form.blocks * form.lanes
    most = RUN if scratch else HUGE
    numbers = (0, plan.size, elements, lanes, sources.row, most, slots, *sources.strides)
    flags = function(
        (ctypes.c_void_p * len(pointers))(*pointers), (ctypes.c_int64 * len(numbers))(*numbers)
    )
    return buffers, flags


def wants_report(flags: int, modes: Any) -> bool:
    """Return whether the caller, with these modes of `np.geterr`, asked to report a flag."""
    return any(flags & bit and modes[kind] != "ignore" for bit, kind in _FLAGS)
