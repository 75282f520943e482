"""How a program runs over blocks of given shapes: whole by NumPy, or in passes by kernels.

A pass is one reading of the inputs. Outputs whose reductions have the same first round share one;
outputs without a reduction go with the first pass. `why_whole` names the reason if kernels gain
nothing: there are few elements, or one operation that NumPy runs as fast.

    >>> from lazyflow.array.kernels.program import Program, Step, lower
    >>> f8 = np.dtype(float)
    >>> steps = Step(np.multiply, (0, 1), (f8, f8, f8)), Step(np.sqrt, (2,), (f8, f8))
    >>> lowered = lower(Program((f8, f8), steps, ((3, None),)))  # sqrt(a * x), a is 0-d
    >>> make_plan(lowered, [(), (1_000,)]).why_whole
    'kernels gain from 16,384 elements on'
    >>> plan = make_plan(lowered, [(), (100_000,)])
    >>> plan.why_whole, [step.op.__name__ for step in plan.passes[0].steps]
    ('', ['multiply', 'sqrt'])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.native.operations import HALF, is_inline
from lazyflow.array.kernels.order import CHOSEN, Form, rounds
from lazyflow.array.kernels.program import (
    CAST,
    WHERE,
    BlockFunction,
    Lowered,
    LoweredStep,
    ScanOperation,
    last_reads,
    needed,
)

WHOLE = 1 << 14  # elements up to which kernels gain nothing

#: How the elements of a source lie along a run: one value for all of it; contiguous, in the shape
#: of the whole; or in rows, which may be anywhere: of neighbours, of one value, of any stride. A
#: source that is drawn has rows of places; the name of its formula follows. The carry of a scan has
#: one value for each of its lines.
CONSTANT, FLAT, UNIT, SAME, ANY, DRAWN, LINES = "cfusadl"

Shape = tuple[int, ...]


class BlockPass(NamedTuple):
    """One reading of the inputs, for the outputs that reduce in one form or are not reduced.

    outputs
        Positions of the outputs in those of the program.
    sources
        Values that are read and that no step of the pass gives.
    spread
        Those of the sources that an output copies, so that they are needed in full.
    scans
        Those of the steps that are scans.
    """

    form: Form | None
    outputs: tuple[int, ...]
    sources: tuple[int, ...]
    spread: frozenset[int]
    steps: tuple[LoweredStep, ...]
    scans: tuple[LoweredStep, ...]


class WholeStep(NamedTuple):
    """A step on whole values.

    simple
        The operation is a ufunc with one result, which is an array.
    into
        An operand that no later step reads, whose memory the result may have; or -1.
    drop
        Values that no later step reads.
    """

    simple: bool
    op: Any
    operands: tuple[int, ...]
    result: int
    name: str
    step: LoweredStep
    into: int
    drop: tuple[int, ...]


class BlockPlan(NamedTuple):
    """Everything that depends on the shapes of the blocks alone.

    shapes
        The shapes of the values when each is as small as its operands allow.
    why_whole
        Why NumPy's functions run the program on whole blocks; empty if kernels may gain.
    exact
        The steps give the same bits wherever their operands lie.
    aliased
        For each output that isn't reduced, whether its value could be another's memory.
    whole
        All steps.
    before
        Steps on values smaller than the program's shape, run before the passes.
    """

    lowered: Lowered
    shape: Shape
    size: int
    shapes: tuple[Shape | None, ...]
    why_whole: str
    exact: bool
    aliased: tuple[bool, ...]
    whole: tuple[WholeStep, ...]
    before: tuple[WholeStep, ...]
    passes: tuple[BlockPass, ...]


def _shapes(lowered: Lowered, shapes: Sequence[Shape]) -> tuple[Shape | None, ...]:
    found: list[Any] = [None] * len(lowered.dtypes)
    found[: len(shapes)] = shapes
    for step in lowered.steps:
        shape = np.broadcast_shapes(*(found[n] for n in step.operands))
        for number in step.results:
            found[number] = shape
    return tuple(found)


def _aliased(lowered: Lowered) -> tuple[bool, ...]:
    seen: set[int] = set()
    borrowed = set(range(lowered.inputs))
    for step in lowered.steps:
        if isinstance(step.op, BlockFunction):  # may return its argument
            borrowed.update(step.results)
    found = []
    for value, reduction, _ in lowered.outputs:
        found.append(reduction is None and (value in borrowed or value in seen))
        seen.add(value)
    return tuple(found)


def _whole_steps(
    lowered: Lowered,
    shapes: Sequence[Shape | None],
    steps: Sequence[LoweredStep],
    last: Mapping[int, int],
) -> tuple[WholeStep, ...]:
    whole_steps = []
    own: set[int] = set()  # values in memory of their own, for which NumPy keeps the dtype
    for at, step in enumerate(steps):
        op, result = step.op, step.results[0]
        simple = isinstance(op, np.ufunc) and len(step.results) == 1 and shapes[result] != ()
        drop = tuple(n for n in set(step.operands) if last.get(n) == at)
        alike = (shapes[result], lowered.dtypes[result])
        into = (n for n in drop if n in own and (shapes[n], lowered.dtypes[n]) == alike)
        if simple and alike[1].kind in "biufc":
            own.add(result)
        whole_steps.append(
            WholeStep(
                simple, op, step.operands, result, name_of(op), step, next(into, -1), drop
            )
        )
    return tuple(whole_steps)


def name_of(op: Any) -> str:
    """Return the name of an operation in NumPy's warnings."""
    if op is CAST:
        return "cast"
    if isinstance(op, ScanOperation):
        return "accumulate"
    return op.name if isinstance(op, BlockFunction) else str(op.__name__)


def make_plan(lowered: Lowered, shapes: Sequence[Shape], drawn: bool = False) -> BlockPlan:
    """Return how a program runs over blocks of these shapes.

    drawn
        Kernels draw some of the blocks, which do not exist yet.
    """
    shape = np.broadcast_shapes(*shapes)
    size = prod(shape)
    own = _shapes(lowered, shapes)
    ends = {n for output in lowered.outputs for n in output.values}
    whole = _whole_steps(lowered, own, lowered.steps, last_reads(lowered.steps, ends))
    why = _why_whole(lowered, size, shapes, drawn)
    before = [step for step in lowered.steps if prod(own[step.results[0]] or ()) < size]
    early = {n for step in before for n in step.results}
    inside = [step for step in lowered.steps if step.results[0] not in early]
    passes = tuple(
        _pass(lowered, form, positions, inside)
        for form, positions in _outputs_by_form(lowered, shape).items()
    )
    first = _whole_steps(lowered, own, before, {})
    exact = all(
        is_inline(step.op, step.loop) or isinstance(step.op, ScanOperation)
        for step in lowered.steps
    )
    aliased = _aliased(lowered)
    return BlockPlan(lowered, shape, size, own, why, exact, aliased, whole, first, passes)


def _why_whole(lowered: Lowered, size: int, shapes: Sequence[Shape], drawn: bool) -> str:
    """Return why no kernel could gain over NumPy's functions; empty if one could."""
    if size <= WHOLE:
        return f"kernels gain from {WHOLE:,} elements on"
    found = [output.reduction for output in lowered.outputs if output.reduction is not None]
    blockwise = any(each.kind is CHOSEN or each.kind.in_order(each.dtype) for each in found)
    broadcasts = any(1 < prod(shape) < size for shape in shapes)
    one = len(lowered.steps) + len(found) <= 1
    one = one and not any(map(_is_slow, lowered.steps))
    if one and not (drawn or blockwise or broadcasts):
        return "there is one operation, for which NumPy's function is as fast"
    return ""


def _is_slow(step: LoweredStep) -> bool:
    """Return whether NumPy's function alone is slow: it jumps, or goes through elements one by one.
    """
    if step.op is WHERE or isinstance(step.op, ScanOperation):
        return True
    return HALF in step.loop and is_inline(step.op, step.loop)


def _outputs_by_form(lowered: Lowered, shape: Shape) -> dict[Form | None, list[int]]:
    """Return the outputs of each pass; those that are not reduced go with the first form."""
    found: dict[Form | None, list[int]] = {}
    for at, output in enumerate(lowered.outputs):
        reduction = output.reduction
        form = None if reduction is None or reduction.kind.on_the_way else (
            rounds(shape, reduction.axes)[0]
        )
        found.setdefault(form, []).append(at)
    plain = found.pop(None, [])
    if found:
        next(iter(found.values())).extend(plain)
    else:
        found[None] = plain
    return found


def _pass(
    lowered: Lowered, form: Form | None, positions: Sequence[int], inside: Sequence[LoweredStep]
) -> BlockPass:
    ends = {n for at in positions for n in lowered.outputs[at].values}
    read = set(ends)
    steps = needed(inside, read)
    given = {n for step in steps for n in step.results}
    spread, scans = frozenset(ends - given), tuple(scans_of(steps))
    sources = tuple(sorted(read - given))
    return BlockPass(form, tuple(positions), sources, spread, tuple(steps), scans)


def scans_of(steps: Sequence[LoweredStep]) -> list[LoweredStep]:
    """Return those of some steps that are scans."""
    return [step for step in steps if isinstance(step.op, ScanOperation)]


def carries_of(steps: Sequence[LoweredStep]) -> dict[int, int]:
    """Return the numbers of the carries of scans, and the axes of these."""
    return {step.operands[1]: step.op.axis for step in scans_of(steps) if step.operands[1:]}


def lines_of(shape: Shape, axis: int) -> Shape:
    """Return the shape that has one element for each line along an axis."""
    return tuple([1 if at == axis else n for at, n in enumerate(shape, -len(shape))])


def source_layout(plan: BlockPlan, some: BlockPass, number: int, value: Any) -> str:
    """Return whether a source of a pass is CONSTANT or FLAT; else it lies in ANY other way."""
    if value.size == 1 and number not in some.spread:
        return CONSTANT
    return FLAT if value.shape == plan.shape and value.flags.c_contiguous else ANY


def fits(plan: BlockPlan, at: int, out: Any) -> bool:
    """Return whether an array has the shape and the dtype of an output that is not reduced."""
    value, reduction, _ = plan.lowered.outputs[at]
    return (
        out is not None
        and reduction is None
        and out.shape == plan.shape
        and out.dtype == plan.lowered.dtypes[value]
        and out.flags.aligned
    )
