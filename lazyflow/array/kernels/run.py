"""`run_program`: what fused tasks call; `merge`: what the tasks above them call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.kernels import moments
from lazyflow.array.kernels.describe import describe
from lazyflow.array.kernels.lowering import Lowered, lower
from lazyflow.array.kernels.native import kernels
from lazyflow.array.kernels.native.compiler import NEW, READY, compile_now, request, wait_compiled
from lazyflow.array.kernels.native.kernel_files import default_folder
from lazyflow.array.kernels.order import merge_reduced
from lazyflow.array.kernels.planning import WHOLE, Pass, Plan, Shape, make_plan
from lazyflow.array.kernels.program import Program, Reduction
from lazyflow.array.kernels.reports import Collected, Told
from lazyflow.array.kernels.tiles import run_pass, run_passes, run_whole

__all__ = ["merge", "report", "run_program", "wait_compiled"]

_MOST = 1024  # programs and plans that are remembered
_PAYS = 1 << 21  # elements times operations, from which a kernel is compiled

#: By identity, because hashing a program costs as much as running a small one; the entry holds
#: the program, so that its id is not another's.
_known: dict[int, tuple[Program, Lowered, dict[Any, Plan]]] = {}


def _plan_for(program: Program, shapes: tuple[Shape, ...], small: int = WHOLE) -> Plan:
    entry = _known.get(id(program))
    if entry is None or entry[0] is not program:
        if len(_known) >= _MOST:
            _known.clear()
        entry = _known[id(program)] = (program, lower(program), {})
    plans = entry[2]
    named = shapes if small == WHOLE else (shapes, small)
    plan = plans.get(named)
    if plan is None:
        if len(plans) >= _MOST:
            plans.clear()
        plan = plans[named] = make_plan(entry[1], shapes, small)
    return plan


def _folder() -> str | None:
    """Return where kernels are kept on disk, or None."""
    found = config.get("kernel_cache")
    return None if found is False else found or default_folder()


def _auto(plan: Plan, some: Pass, values: Sequence[Any], reports: Collected) -> list[np.ndarray]:
    """Run a pass by its kernel when there is one, else by tiles; have it compiled if it pays."""
    if not kernels.refusal(plan, some):
        laid = kernels.lay(plan, some, values)
        prepared = kernels.prepare(plan, some, laid.ways)
        kernel = prepared.kernel
        if kernel is not None and not prepared.gain and not kernels.short_runs(some, laid):
            if kernel.state == NEW:
                kernel.elements += plan.size * max(1, len(some.calls))
                if kernel.elements >= _PAYS:
                    request(kernel, _folder())
            if kernel.state == READY:
                found = _by_kernel(plan, some, laid, prepared, reports)
                if found is not None:
                    return found
    return run_pass(plan, some, values, reports)


def _native(plan: Plan, some: Pass, values: Sequence[Any], reports: Collected) -> list[np.ndarray]:
    """Run a pass by its kernel, compiled here and now, or raise."""
    laid = kernels.lay(plan, some, values)
    prepared = kernels.prepare(plan, some, laid.ways)
    why = prepared.why
    if prepared.kernel is not None:
        compile_now(prepared.kernel, _folder())
        why = prepared.kernel.why
        if not why and prepared.kernel.state != READY:
            why = "the program is ending"
    if why:
        raise RuntimeError(
            f'no kernel for this expression: {why}. Kernels are asked for by kernels="native"; '
            f'kernels="auto" runs by tiles what has none: lazyflow.config.set(kernels="auto")'
        )
    found = _by_kernel(plan, some, laid, prepared, reports)
    return run_pass(plan, some, values, reports) if found is None else found


def _by_kernel(
    plan: Plan, some: Pass, laid: kernels.Laid, prepared: kernels.Prepared, reports: Collected
) -> list[np.ndarray] | None:
    """Return what the kernel gives; None when tiles have to report what it raised."""
    assert prepared.kernel is not None
    sinks, flags = kernels.call_kernel(
        prepared.kernel.function, plan, some, laid, prepared.loops, prepared.scratch
    )
    if kernels.heard(flags, np.geterr()):
        return None
    reports.now = "reduce"
    return [sink.finish() for sink in sinks]


def _refuse_blocks(program: Program, arrays: Sequence[Any]) -> None:
    """Say which block isn't what the program was made for: kernels would read it as if it were."""
    if len(arrays) != len(program.inputs):
        raise TypeError(f"a program of {len(program.inputs)} inputs was given {len(arrays)} blocks")
    for at, (array, dtype) in enumerate(zip(arrays, program.inputs, strict=True)):
        if array.dtype != dtype:
            raise TypeError(
                f"the block for input {at} has dtype {array.dtype}, the program was made for "
                f"{dtype}: what made the block has given another dtype than it was said to give"
            )


_WAYS = {"auto": _auto, "native": _native, "tiles": run_pass}


def run_program(
    program: Program, blocks: Sequence[np.ndarray | np.generic], told: Told | None = None
) -> list[np.ndarray]:
    """Run a program over blocks that broadcast against each other.

    Parameters
    ----------
    program
        What is computed.
    blocks
        One for each input, with its dtype, any shape and any strides.
    told
        What makes warnings, once for all runs that are given it; else each run makes its own.

    Returns
    -------
    For each output a new contiguous array: of the shape that the blocks broadcast to, or, reduced,
    with reduced axes of length 1. Moments have a new first axis: count, mean, sum of squares.

    Raises
    ------
    TypeError
        Blocks of other dtypes than the program's inputs, or more or fewer of them.

    Examples
    --------
    >>> from lazyflow.array.kernels.program import Step
    >>> f8 = np.dtype("f8")
    >>> square = Step(np.multiply, (0, 0), (f8, f8, f8))
    >>> total = Reduction("sum", (0,), f8)
    >>> program = Program((f8,), (square,), ((1, None), (1, total)))
    >>> run_program(program, [np.arange(4.0)])
    [array([0., 1., 4., 9.]), array([14.])]
    """
    arrays: list[Any] = [x if type(x) is np.ndarray else np.asarray(x) for x in blocks]
    shapes = tuple([x.shape for x in arrays])
    if tuple([x.dtype for x in arrays]) != program.inputs:
        _refuse_blocks(program, arrays)
    plan = _plan_for(program, shapes)
    with Collected(told) as reports:
        if plan.whole:
            if config.get("kernels") != "native":
                return run_whole(plan, arrays, reports)
            plan = _plan_for(program, shapes, 1)
        return run_passes(plan, arrays, reports, _WAYS[config.get("kernels")])


def report(program: Program, blocks: Sequence[np.ndarray | np.generic]) -> str:
    """Tell by what a program would run over blocks, and why not by a kernel.

    Returns
    -------
    A line for each way over the inputs; nothing is compiled or run, but what is small.

    Examples
    --------
    >>> f8 = np.dtype("f8")
    >>> program = Program((f8,), (), ((0, Reduction("sum", (0,), f8)),))
    >>> report(program, [np.ones(1_000_000)])  # doctest: +NORMALIZE_WHITESPACE
    '0 operations and sum over 1,000,000 elements, 8 MB read: by tiles: there is nothing to
    compute but reductions of the inputs, as fast by tiles'
    """
    arrays: list[Any] = [np.asarray(x) for x in blocks]
    if tuple([x.dtype for x in arrays]) != program.inputs:
        _refuse_blocks(program, arrays)
    plan = _plan_for(program, tuple([x.shape for x in arrays]))
    return describe(plan, arrays, config.get("kernels"))


def merge(reduction: Reduction, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Merge partial results of neighbouring blocks, given in order; all have one shape.

    >>> total = Reduction("sum", (0,), np.dtype("f8"))
    >>> merge(total, [np.array([1.0]), np.array([2.0]), np.array([4.0])])
    array([7.])
    """
    if reduction.kind == "moments":
        return moments.merge_moments(parts)
    return merge_reduced(reduction, parts)
