"""`run_program`: what fused tasks call; `merge`: what the tasks above them call.

Kernels run a program only if every pass of its plan has one that is compiled; otherwise NumPy's
functions run all of it on whole blocks. With ``kernels="native"`` an expression without a kernel is
an error. The last programs are remembered with their plans, one for each combination of shapes; so
are the calls of kernels whose blocks need no preparation, by how the blocks lie in memory.

A kernel reports that a floating-point error occurred. If the caller wants to know of it, NumPy's
functions run the steps on parts of the blocks until one reports the same, which gives the name of
the operation; if none does, the result of the kernel is dropped and NumPy's functions make it.
Large partial results are merged by a program, too, with the bits of `merge_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import refuse_sparse
from lazyflow.array.kernels.draws.draw import DrawnBlock, is_drawn_in, made
from lazyflow.array.kernels.float_warnings import ArrayWarnings, FloatReports
from lazyflow.array.kernels.native.calling import PassCall, address, asked_for, finish_output
from lazyflow.array.kernels.native.compiler import QUEUED, READY, REFUSED
from lazyflow.array.kernels.native.elementary.ufuncs import with_own_functions
from lazyflow.array.kernels.native.kernels import Decision, PlanKernels
from lazyflow.array.kernels.native.operations import SUPPORTED
from lazyflow.array.kernels.numpy_kernels import find_reports, run_before, run_whole
from lazyflow.array.kernels.order import GROUP, Reduction, merge_parts
from lazyflow.array.kernels.planning import BlockPass, BlockPlan, Shape, make_plan
from lazyflow.array.kernels.program import Lowered, Program, Step, lower
from lazyflow.recent import Recent
from lazyflow.store.sizes import format_bytes

# -- in words: by what a program would run over blocks, and why not by a kernel -----------


def report(program: Program, blocks: Sequence[np.ndarray | np.generic | DrawnBlock]) -> str:
    """Describe how a program would run over blocks, and why a kernel is not used.

    Returns
    -------
    A line for each pass over the inputs. Nothing is compiled, and only small values are computed.

    Examples
    --------
    >>> from lazyflow.array.kernels.order import SUM
    >>> f8 = np.dtype("f8")
    >>> program = Program((f8,), (), ((0, Reduction(SUM, (0,), f8)),))
    >>> report(program, [np.ones(1_000_000)])  # doctest: +NORMALIZE_WHITESPACE
    "0 operations and sum over 1,000,000 elements, 8 MB read: by NumPy's functions: no kernel yet:
    it has not been run over enough elements"
    """
    kernels, arrays = _placed(program, blocks)
    plan, mode = kernels.plan, config.get("kernels")
    with np.errstate(all="ignore"), FloatReports() as reports:
        values = run_before(plan, arrays, reports)
    lines = []
    for some in plan.passes:
        read = sum(values[n].nbytes for n in some.sources if values[n].size > 1)
        how = _how(kernels.decide(some, values, mode, {}), mode)
        lines.append(f"{_work(plan, some)}, {format_bytes(read)} read: {how}")
    return "\n".join(lines)


def _work(plan: BlockPlan, some: BlockPass) -> str:
    outputs = [plan.lowered.outputs[at] for at in some.outputs]
    kinds = [out.reduction.kind.__name__ for out in outputs if out.reduction is not None]
    steps = len(some.steps)
    words = f"{steps} operation{'s' * (steps != 1)}"
    for kind in dict.fromkeys(kinds):
        words += f" and {kind}" if kind == kinds[-1] else f", {kind}"
    return f"{words} over {plan.size:,} elements"


def _how(decision: Decision, mode: str) -> str:
    kernel = decision.kernel
    if kernel is None:
        return f"by NumPy's functions: {decision.why_whole}"
    if kernel.state == READY:
        made = "read from disk" if kernel.from_disk else "compiled"
        return f"by a kernel, {made} in {kernel.milliseconds:.0f} ms"
    if kernel.state == REFUSED:
        return f"by NumPy's functions: {kernel.why}"
    if mode == "native":
        return "by a kernel, which the first run compiles"
    if kernel.state == QUEUED:
        return "by NumPy's functions: no kernel yet: it is being compiled"
    return "by NumPy's functions: no kernel yet: it has not been run over enough elements"


_PIECE = 1 << 16  # elements of a partial result up to which no kernel merges them; a guess
#: Programs that are remembered, and plans of each, and up to as many older ones; a guess.
_MOST = 256

_BLOCKS = (np.ndarray, DrawnBlock)
_known: Recent[tuple[Program, str], tuple[Lowered, Recent[Any, PlanKernels]]] = Recent(_MOST)


def _planned(program: Program, shapes: tuple[Shape, ...], drawn: bool = False) -> PlanKernels:
    """Return the plan for blocks of these shapes, with its kernels."""
    math = config.get("math")
    entry = _known.get((program, math))
    if entry is None:
        lowered = lower(program)
        if math == "own":
            lowered = with_own_functions(lowered)
        entry = _known[program, math] = (lowered, Recent(_MOST))
    lowered, plans = entry
    named = (shapes, drawn) if drawn else shapes
    found = plans.get(named)
    if found is None:
        found = plans[named] = PlanKernels(make_plan(lowered, shapes, drawn))
    return found


def _by_kernels(
    kernels: PlanKernels,
    mode: str,
    blocks: Sequence[Any],
    reports: FloatReports,
    outs: Mapping[int, Any],
    named: Any,
) -> list[np.ndarray] | None:
    """Return what the kernels of all passes give; None where NumPy's functions have to run."""
    plan = kernels.plan
    if named is None:
        return None
    values = run_before(plan, blocks, reports)
    decisions = [kernels.decide(some, values, mode, outs) for some in plan.passes]
    ready = [
        _is_ready(decision, mode, plan.size * max(1, len(some.steps)))
        for some, decision in zip(plan.passes, decisions, strict=True)
    ]
    if not all(ready):
        return None
    calls: list[PassCall] = []
    arrays: list[Any] = []
    for some, decision in zip(plan.passes, decisions, strict=True):
        sources, prepared = decision.sources, decision.prepared
        assert sources is not None and prepared is not None and prepared.kernel is not None
        calls.append(PassCall(
            prepared.kernel.function, plan, some, sources, prepared.loops, prepared.scratch
        ))
        arrays.append(sources.arrays)
    is_plain = not plan.before and all(call.finished for call in calls)
    if is_plain and all(
        address(values[n]) == address(x)
        for call, own in zip(calls, arrays, strict=True)
        for n, x in zip(call.sources, own, strict=True)
    ):
        kernels.keep(named, calls)
    results, flags = _called(plan, calls, arrays, outs)
    kinds = asked_for(flags, np.geterr()) if flags else ()
    if kinds and not find_reports(plan, blocks, kinds, reports):
        return None
    reports.now = "reduce"
    return [finish_output(plan, at, own) for at, own in enumerate(results)]


def _called(
    plan: BlockPlan, calls: Sequence[PassCall], arrays: Sequence[Sequence[Any]],
    outs: Mapping[int, Any],
) -> tuple[list[Any], int]:
    """Return what the kernels of all passes make of each output, and the flags that they raise."""
    results: list[Any] = [None] * len(plan.lowered.outputs)
    raised = 0
    for call, own in zip(calls, arrays, strict=True):
        written, flags = call(own, outs)
        raised |= flags
        for at, each in zip(call.outputs, written, strict=True):
            results[at] = each
    return results, raised


def _by_kept_calls(
    plan: BlockPlan, calls: Sequence[PassCall], blocks: Sequence[Any], outs: Mapping[int, Any],
    array_warnings: ArrayWarnings | None,
) -> list[np.ndarray]:
    """Return what calls give that are kept for blocks that lie so."""
    arrays = [[blocks[n] for n in call.sources] for call in calls]
    results, flags = _called(plan, calls, arrays, outs)
    kinds = asked_for(flags, np.geterr()) if flags else ()
    if not kinds:
        return results
    with FloatReports(array_warnings) as reports:
        if find_reports(plan, blocks, kinds, reports):
            return results
        return run_whole(plan, list(map(made, blocks)), reports, outs)


def _is_ready(decision: Decision, mode: str, work: int) -> bool:
    """Return whether the kernel of a pass can be called; raise if one is asked for in vain."""
    kernel = decision.kernel
    if kernel is not None and kernel.ready(work):
        return True
    if mode == "native":
        why = decision.why_whole if kernel is None else kernel.why or "the program is ending"
        raise RuntimeError(
            f'no kernel for this expression: {why}, and kernels="native" requires one; '
            f'with kernels="auto", expressions without a kernel run by NumPy: '
            f'lazyflow.config.set(kernels="auto")'
        )
    return False


def _refuse_blocks(program: Program, arrays: Sequence[Any]) -> None:
    """Name the block with another dtype than the program's, which a kernel would misread."""
    if len(arrays) != len(program.inputs):
        raise TypeError(f"a program of {len(program.inputs)} inputs was given {len(arrays)} blocks")
    for at, (array, dtype) in enumerate(zip(arrays, program.inputs, strict=True)):
        if array.dtype != dtype:
            refuse_sparse(array.item() if array.size == 1 else None)
            raise TypeError(
                f"the block for input {at} has dtype {array.dtype}, the program was made for "
                f"{dtype}: the function that made the block returned another dtype than the array "
                f"was declared to have"
            )


def _placed(program: Program, blocks: Sequence[Any]) -> tuple[PlanKernels, list[Any]]:
    """Return the plan for some blocks, and them as arrays, or draws that a kernel could make."""
    arrays: list[Any] = [x if type(x) in _BLOCKS else np.asarray(x) for x in blocks]
    shapes = tuple([x.shape for x in arrays])
    if tuple([x.dtype for x in arrays]) != program.inputs:
        _refuse_blocks(program, arrays)
    drawn = DrawnBlock in map(type, arrays)
    kernels = _planned(program, shapes, drawn)
    if drawn:
        whole = kernels.plan.shape
        arrays = [x if is_drawn_in(x, whole) else made(x) for x in arrays]
    return kernels, arrays


# -- the run ------------------------------------------------------------------------------


def run_program(
    program: Program,
    blocks: Sequence[np.ndarray | np.generic | DrawnBlock],
    array_warnings: ArrayWarnings | None = None,
    outs: Mapping[int, Any] | None = None,
) -> list[np.ndarray]:
    """Run a program over blocks that broadcast against each other.

    Parameters
    ----------
    program
        The steps and the outputs that are computed.
    blocks
        One for each input, with its dtype, any shape and any strides.
    array_warnings
        Makes each warning once for all runs that are given it; without it, each run makes its own.
    outs
        For outputs, by number, arrays that they may be written into: such an array becomes the
        result if its shape, dtype and layout allow that.

    Returns
    -------
    For each output a new contiguous array, or that of `outs`: of the shape that the blocks
    broadcast to, or, reduced, with reduced axes of length 1. Moments have a new first axis: count,
    mean, sum of squares.

    Raises
    ------
    TypeError
        The number or dtypes of the blocks differ from the program's inputs.

    Examples
    --------
    >>> from lazyflow.array.kernels.order import SUM
    >>> from lazyflow.array.kernels.program import Step
    >>> f8 = np.dtype("f8")
    >>> square = Step(np.multiply, (0, 0), (f8, f8, f8))
    >>> total = Reduction(SUM, (0,), f8)
    >>> program = Program((f8,), (square,), ((1, None), (1, total)))
    >>> run_program(program, [np.arange(4.0)])
    [array([0., 1., 4., 9.]), array([14.])]
    """
    return _run(program, blocks, config.get("kernels"), array_warnings, outs)


def _run(
    program: Program,
    blocks: Sequence[Any],
    mode: str,
    array_warnings: ArrayWarnings | None,
    outs: Mapping[int, Any] | None,
) -> list[np.ndarray]:
    kernels, arrays = _placed(program, blocks)
    named, calls = kernels.calls(mode, arrays, outs or {})
    if calls is not None:
        return _by_kept_calls(kernels.plan, calls, arrays, outs or {}, array_warnings)
    with FloatReports(array_warnings) as reports:
        found = _by_kernels(kernels, mode, arrays, reports, outs or {}, named)
        if found is not None:
            return found
        return run_whole(kernels.plan, list(map(made, arrays)), reports, outs or {})


def merge(
    reduction: Reduction, parts: Sequence[np.ndarray], out: np.ndarray | None = None
) -> np.ndarray:
    """Merge partial results of neighbouring blocks, given in order; all have one shape.

    out
        None, or an array of as many elements that the result may be written into.

    >>> from lazyflow.array.kernels.order import SUM
    >>> total = Reduction(SUM, (0,), np.dtype("f8"))
    >>> merge(total, [np.array([1.0]), np.array([2.0]), np.array([4.0])])
    array([7.])
    """
    kind = reduction.kind
    if kind.parts or parts[0].size <= _PIECE or not 1 < len(parts) <= GROUP:
        return merge_parts(reduction, parts)
    into = {}
    if out is not None and out.flags.c_contiguous:
        into[0] = out.reshape(parts[0].shape)
    zero = [np.zeros((), reduction.dtype)] if kind.adds_to_zero else []
    raised: Any = {name: "raise" for name, how in np.geterr().items() if how != "ignore"}
    mode = config.get("kernels") if reduction.dtype in SUPPORTED else "numpy"
    try:
        with np.errstate(**raised):
            program = _one_by_one(reduction, len(parts))
            return _run(program, [*zero, *parts], mode, None, into)[0]
    except FloatingPointError:
        return merge_parts(reduction, parts)  # which reports it


@lru_cache(128)
def _one_by_one(reduction: Reduction, count: int) -> Program:
    """Return the program that merges large partial results as `merge_parts` does."""
    dtype = reduction.dtype
    inputs = count + reduction.kind.adds_to_zero
    steps = [
        Step(reduction.kind.ufunc, (0 if n == 1 else inputs + n - 2, n), (dtype,) * 3)
        for n in range(1, inputs)
    ]
    return Program((dtype,) * inputs, tuple(steps), ((2 * inputs - 2, None),))
