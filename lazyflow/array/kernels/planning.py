"""How a program runs over blocks of given shapes: whole or by tiles, in passes, with buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels import moments
from lazyflow.array.kernels.lowering import Lowered, LoweredStep, last_reads, needed
from lazyflow.array.kernels.order import Form, rounds
from lazyflow.array.kernels.program import CAST, TileFunction

#: Elements of a tile, as measured: smaller ones make threads fight for the GIL, larger ones leave
#: the cache.
TILE = 1 << 16
WHOLE = 1 << 14  # elements up to which blocks are run whole: neither tiles nor kernels gain

#: How the elements of a source lie along a run: one value for all of it; contiguous, in the shape
#: of the whole; or in rows, which may be anywhere: of neighbours, of one value, of any stride.
CONSTANT, FLAT, UNIT, SAME, ANY = "cfusa"

Shape = tuple[int, ...]


class Panels(NamedTuple):
    """Slices of an axis, for moments over so many inner elements that blocks would be long."""

    axis: int
    length: int


class BlockPass(NamedTuple):
    """One reading of the inputs, for the outputs that reduce in one form or are not reduced.

    outputs
        Positions of the outputs in those of the program.
    sources
        Values that are read and that no step of the pass gives.
    spread
        Those of the sources that an output copies, so that they are needed in full.
    steps
        Each with the buffers of its results; -1: a new array.
    slots
        The dtypes of the buffers.
    direct
        Pairs of a value and the output (a position in `outputs`) that it is written into.
    """

    form: Form | None
    outputs: tuple[int, ...]
    sources: tuple[int, ...]
    spread: frozenset[int]
    steps: tuple[tuple[LoweredStep, tuple[int, ...]], ...]
    slots: tuple[np.dtype[Any], ...]
    direct: tuple[tuple[int, int], ...]
    panels: Panels | None

    def grid(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield the tiles: whole outer indices, whole pieces and blocks, or parts of rows."""
        form = self.form
        if form is None or form.elements <= TILE:
            length = TILE if form is None else TILE // form.elements * form.elements
            for low in range(0, size, length):
                yield low, min(low + length, size)
            return
        length = TILE // form.block * form.block if form.block <= TILE else TILE
        ends = form.elements if form.block <= TILE else form.block
        for start in range(0, size, form.elements):
            for inner in range(start, start + form.elements, ends):
                end = min(inner + ends, start + form.elements)
                for low in range(inner, end, length):
                    yield low, min(low + length, end)


class WholeStep(NamedTuple):
    """A step on whole values.

    simple
        The operation is a ufunc with one result, which is an array.
    drop
        Values that no later step reads.
    """

    simple: bool
    op: Any
    operands: tuple[int, ...]
    result: int
    name: str
    step: LoweredStep
    drop: tuple[int, ...]


class BlockPlan(NamedTuple):
    """All that depends on the shapes of the blocks and not on their values.

    shapes
        The shapes of the values when each is as small as its operands allow.
    is_whole
        The program is run on whole blocks, without tiles.
    aliased
        For each output that isn't reduced, whether its value could be another's memory.
    before
        Steps that are run on whole values: those smaller than the program's shape, or all.
    """

    lowered: Lowered
    shape: Shape
    size: int
    shapes: tuple[Shape | None, ...]
    is_whole: bool
    aliased: tuple[bool, ...]
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
        if isinstance(step.op, TileFunction):  # may return its argument
            borrowed.update(step.results)
    found = []
    for value, reduction, _ in lowered.outputs:
        found.append(reduction is None and (value in borrowed or value in seen))
        seen.add(value)
    return tuple(found)


def _whole_steps(
    shapes: Sequence[Shape | None], steps: Sequence[LoweredStep], last: Mapping[int, int]
) -> tuple[WholeStep, ...]:
    found = []
    for at, step in enumerate(steps):
        op, result = step.op, step.results[0]
        simple = isinstance(op, np.ufunc) and len(step.results) == 1 and shapes[result] != ()
        drop = tuple(n for n in set(step.operands) if last.get(n) == at)
        found.append(WholeStep(simple, op, step.operands, result, name_of(op), step, drop))
    return tuple(found)


def name_of(op: Any) -> str:
    """Return the name of an operation in NumPy's warnings."""
    if op is CAST:
        return "cast"
    return op.name if isinstance(op, TileFunction) else str(op.__name__)


def form_of(shape: Shape, reduction: Any) -> Form | None:
    """Return the form of a reduction's first round; None for a value that is not reduced."""
    if reduction is None:
        return None
    return rounds(shape, reduction.axes)[0]


def make_plan(lowered: Lowered, shapes: Sequence[Shape], small: int = WHOLE) -> BlockPlan:
    """Return how a program runs over blocks of these shapes; whole up to `small` elements."""
    shape = np.broadcast_shapes(*shapes)
    size = prod(shape)
    own = _shapes(lowered, shapes)
    aliased = _aliased(lowered)
    if size <= small:
        ends = {n for output in lowered.outputs for n in output.values}
        lines = _whole_steps(own, lowered.steps, last_reads(lowered.steps, ends))
        return BlockPlan(lowered, shape, size, own, True, aliased, lines, ())
    before = [step for step in lowered.steps if prod(own[step.results[0]] or ()) < size]
    early = {n for step in before for n in step.results}
    inside = [step for step in lowered.steps if step.results[0] not in early]
    passes = tuple(
        _pass(lowered, form, positions, inside, _panels(lowered, shape, form, positions))
        for form, positions in _outputs_by_form(lowered, shape).items()
    )
    return BlockPlan(
        lowered, shape, size, own, False, aliased, _whole_steps(own, before, {}), passes
    )


def _outputs_by_form(lowered: Lowered, shape: Shape) -> dict[Form | None, list[int]]:
    """Return the outputs of each pass; those that are not reduced go with the first form."""
    found: dict[Form | None, list[int]] = {}
    for at, output in enumerate(lowered.outputs):
        found.setdefault(form_of(shape, output.reduction), []).append(at)
    plain = found.pop(None, [])
    if found:
        next(iter(found.values())).extend(plain)
    else:
        found[None] = plain
    return found


def _panels(
    lowered: Lowered, shape: Shape, form: Form | None, positions: Sequence[int]
) -> Panels | None:
    if form is None or form.inner <= moments.WIDEST:
        return None
    for at in positions:
        reduction = lowered.outputs[at].reduction
        if reduction is not None and reduction.kind == "moments":
            inside = range(max(reduction.axes) + 1, len(shape))
            axis = next(axis for axis in inside if shape[axis] > 1)
            return Panels(axis, max(1, moments.WIDEST // prod(shape[axis + 1 :])))
    return None


def _pass(
    lowered: Lowered,
    form: Form | None,
    positions: Sequence[int],
    inside: Sequence[LoweredStep],
    panels: Panels | None,
) -> BlockPass:
    outputs = [lowered.outputs[at] for at in positions]
    ends = {n for output in outputs for n in output.values}
    read = set(ends)
    steps = needed(inside, read)
    given = {n for step in steps for n in step.results}
    into = {n for step in steps if _has_out(step) for n in step.results}
    direct: dict[int, int] = {}
    for at, output in enumerate(outputs):
        if output.reduction is None and output.value in into:
            direct.setdefault(output.value, at)
    slotted, slots = _buffers(lowered, steps, ends, direct)
    return BlockPass(
        form,
        tuple(positions),
        tuple(sorted(read - given)),
        frozenset(ends - given),
        slotted,
        slots,
        tuple(direct.items()),
        panels,
    )


def _has_out(step: LoweredStep) -> bool:
    return step.op is CAST or isinstance(step.op, np.ufunc)


def _buffers(
    lowered: Lowered, steps: Sequence[LoweredStep], ends: set[int], direct: dict[int, int]
) -> tuple[tuple[tuple[LoweredStep, tuple[int, ...]], ...], tuple[np.dtype[Any], ...]]:
    """Give each result a buffer of its dtype that holds no value that is still needed."""
    last = last_reads(steps, ends)
    slots: list[np.dtype[Any]] = []
    free: list[int] = []
    held: dict[int, int] = {}
    found = []
    for at, step in enumerate(steps):
        done = [held.pop(n) for n in set(step.operands) if n in held and last[n] == at]
        in_place = len(step.results) == 1
        if in_place:
            free += done
        given, unread = [], []
        for number in step.results:
            dtype = lowered.dtypes[number]
            if number in direct or not _has_out(step):
                given.append(-1)
                continue
            slot = next((s for s in reversed(free) if slots[s] == dtype), -1)
            if slot < 0:
                slot = len(slots)
                slots.append(dtype)
            else:
                free.remove(slot)
            given.append(slot)
            if number in last:
                held[number] = slot
            else:  # not before the step is over: its other results need buffers of their own
                unread.append(slot)
        free += unread if in_place else [*done, *unread]
        found.append((step, tuple(given)))
    return tuple(found), tuple(slots)


def source_layout(plan: BlockPlan, some: BlockPass, number: int, value: Any) -> str:
    """Return whether a source of a pass is CONSTANT or FLAT; else it lies in ANY other way."""
    if value.size == 1 and number not in some.spread:
        return CONSTANT
    return FLAT if value.shape == plan.shape and value.flags.c_contiguous else ANY
