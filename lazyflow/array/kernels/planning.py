"""What is done for blocks of given shapes: whole or by tiles, in which passes, in which buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels import moments
from lazyflow.array.kernels.lowering import Call, Lowered
from lazyflow.array.kernels.order import Form, rounds
from lazyflow.array.kernels.program import CAST, Elementwise

TILE = 1 << 16  # elements
WHOLE = 1 << 14  # elements up to which blocks are run whole: neither tiles nor kernels gain

Shape = tuple[int, ...]


class Panels(NamedTuple):
    """Slices of an axis, for moments over so many inner elements that pieces would be long."""

    axis: int
    step: int


class Pass(NamedTuple):
    """One way over the inputs: what reduces in one form, and what is not reduced.

    sources
        Values that are read and that no call of the pass gives.
    spread
        Those of them that an output has for itself, so that they are needed in full.
    calls
        With the buffer of each result; -1: a new array.
    direct
        Pairs of a value and the output (its position in `outputs`) that it is written into.
    """

    form: Form | None
    outputs: tuple[int, ...]
    sources: tuple[int, ...]
    spread: frozenset[int]
    calls: tuple[tuple[Call, tuple[int, ...]], ...]
    slots: tuple[np.dtype[Any], ...]
    direct: tuple[tuple[int, int], ...]
    panels: Panels | None

    def grid(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield the tiles: whole outer indices, whole pieces and blocks, or parts of rows."""
        form = self.form
        if form is None or form.elements <= TILE:
            step = TILE if form is None else TILE // form.elements * form.elements
            for low in range(0, size, step):
                yield low, min(low + step, size)
            return
        step = TILE // form.block * form.block if form.block <= TILE else TILE
        ends = form.elements if form.block <= TILE else form.block
        for start in range(0, size, form.elements):
            for inner in range(start, start + form.elements, ends):
                end = min(inner + ends, start + form.elements)
                for low in range(inner, end, step):
                    yield low, min(low + step, end)


class Line(NamedTuple):
    """A call on whole values, as it is run.

    simple
        It is a ufunc with one result, which is an array.
    drop
        Values that nobody needs afterwards.
    """

    simple: bool
    op: Any
    operands: tuple[int, ...]
    result: int
    name: str
    call: Call
    drop: tuple[int, ...]


class Plan(NamedTuple):
    """All that depends on shapes, not on values.

    natural
        The shapes of values when each is as small as its operands allow.
    shared
        For each output that isn't reduced, whether its value could be another's memory.
    kernels
        What kernels.py knows of kernels for these passes.
    before
        Calls that are run on whole values: those smaller than the program's shape, or all.
    """

    lowered: Lowered
    shape: Shape
    size: int
    natural: tuple[Shape | None, ...]
    whole: bool
    shared: tuple[bool, ...]
    before: tuple[Line, ...]
    passes: tuple[Pass, ...]
    kernels: dict[Any, Any]


def _natural(lowered: Lowered, shapes: Sequence[Shape]) -> tuple[Shape | None, ...]:
    found: list[Any] = [None] * len(lowered.dtypes)
    found[: len(shapes)] = shapes
    for call in lowered.calls:
        shape = np.broadcast_shapes(*(found[n] for n in call.operands))
        for number in call.results:
            found[number] = shape
    return tuple(found)


def _volume(shape: Shape) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def _shared(lowered: Lowered) -> tuple[bool, ...]:
    seen: set[int] = set()
    borrowed = set(range(lowered.inputs))
    for call in lowered.calls:
        if isinstance(call.op, Elementwise):  # may give back what it got
            borrowed.update(call.results)
    found = []
    for value, reduction, _ in lowered.sinks:
        found.append(reduction is None and (value in borrowed or value in seen))
        seen.add(value)
    return tuple(found)


def _lines(
    lowered: Lowered,
    natural: Sequence[Shape | None],
    calls: Sequence[Call],
    last: Sequence[int],
) -> tuple[Line, ...]:
    found = []
    for at, call in enumerate(calls):
        op, result = call.op, call.results[0]
        simple = isinstance(op, np.ufunc) and len(call.results) == 1 and natural[result] != ()
        drop = tuple(n for n in set(call.operands) if last[n] == at)
        found.append(Line(simple, op, call.operands, result, name_of(op), call, drop))
    return tuple(found)


def name_of(op: Any) -> str:
    """Return what NumPy calls an operation in its reports."""
    if op is CAST:
        return "cast"
    return op.name if isinstance(op, Elementwise) else str(op.__name__)


def form_of(shape: Shape, reduction: Any) -> Form | None:
    """Return the form of the first round; None: the value as it is."""
    if reduction is None:
        return None
    return rounds(shape, reduction.axes)[0]


def make_plan(lowered: Lowered, shapes: Sequence[Shape], small: int = WHOLE) -> Plan:
    """Return how a program is run over blocks of these shapes; whole up to `small` elements."""
    shape = np.broadcast_shapes(*shapes)
    size = _volume(shape)
    natural = _natural(lowered, shapes)
    shared = _shared(lowered)
    if size <= small:
        lines = _lines(lowered, natural, lowered.calls, lowered.last)
        return Plan(lowered, shape, size, natural, True, shared, lines, (), {})
    before = tuple(c for c in lowered.calls if _volume(natural[c.results[0]] or ()) < size)
    lines = _lines(lowered, natural, before, (-1,) * len(natural))
    groups: dict[Form | None, list[int]] = {}
    for at, sink in enumerate(lowered.sinks):
        groups.setdefault(form_of(shape, sink.reduction), []).append(at)
    plain = groups.pop(None, [])
    if groups:
        next(iter(groups.values())).extend(plain)
    else:
        groups[None] = plain
    early = {n for call in before for n in call.results}
    inside = tuple(call for call in lowered.calls if call.results[0] not in early)
    passes = tuple(
        _pass(lowered, form, outputs, inside, _panels(lowered, shape, form, outputs))
        for form, outputs in groups.items()
    )
    return Plan(lowered, shape, size, natural, False, shared, lines, passes, {})


def _panels(
    lowered: Lowered, shape: Shape, form: Form | None, outputs: Sequence[int]
) -> Panels | None:
    if form is None or form.inner <= moments.WIDEST:
        return None
    for at in outputs:
        reduction = lowered.sinks[at].reduction
        if reduction is not None and reduction.kind == "moments":
            inside = range(max(reduction.axes) + 1, len(shape))
            axis = next(axis for axis in inside if shape[axis] > 1)
            return Panels(axis, max(1, moments.WIDEST // _volume(shape[axis + 1 :])))
    return None


def _pass(
    lowered: Lowered,
    form: Form | None,
    outputs: list[int],
    inside: Sequence[Call],
    panels: Panels | None,
) -> Pass:
    sinks = [lowered.sinks[at] for at in outputs]
    ends = {n for sink in sinks for n in (sink.value, sink.mask) if n is not None}
    wanted = set(ends)
    calls: list[Call] = []
    for call in reversed(inside):
        if not wanted.isdisjoint(call.results):
            wanted.update(call.operands)
            calls.append(call)
    calls.reverse()
    given = {n for call in calls for n in call.results}
    into = {n for call in calls if _has_out(call) for n in call.results}
    direct: dict[int, int] = {}
    for at, sink in enumerate(sinks):
        if sink.reduction is None and sink.value in into:
            direct.setdefault(sink.value, at)
    slotted, slots = _buffers(lowered, calls, ends, direct)
    return Pass(
        form,
        tuple(outputs),
        tuple(sorted(wanted - given)),
        frozenset(ends - given),
        slotted,
        slots,
        tuple(direct.items()),
        panels,
    )


def _has_out(call: Call) -> bool:
    return call.op is CAST or isinstance(call.op, np.ufunc)


def _buffers(
    lowered: Lowered, calls: Sequence[Call], ends: set[int], direct: dict[int, int]
) -> tuple[tuple[tuple[Call, tuple[int, ...]], ...], tuple[np.dtype[Any], ...]]:
    """Give each result a buffer of its dtype that holds nothing that is still needed."""
    last = {n: at for at, call in enumerate(calls) for n in call.operands}
    last.update(dict.fromkeys(ends, len(calls)))
    slots: list[np.dtype[Any]] = []
    free: list[int] = []
    held: dict[int, int] = {}
    found = []
    for at, call in enumerate(calls):
        done = [held.pop(n) for n in set(call.operands) if n in held and last[n] == at]
        in_place = len(call.results) == 1
        if in_place:
            free += done
        given, unread = [], []
        for number in call.results:
            dtype = lowered.dtypes[number]
            if number in direct or not _has_out(call):
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
            else:  # not before the call is over: its other results need places of their own
                unread.append(slot)
        free += unread if in_place else [*done, *unread]
        found.append((call, tuple(given)))
    return tuple(found), tuple(slots)
