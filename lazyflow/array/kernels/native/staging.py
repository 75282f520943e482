"""Which operations of a program are done in registers together, and what goes through memory.

A kernel goes over runs of elements. For each it takes turns: a group of operations in one loop
over the run, in registers, then NumPy's own loops on what the group left in scratch memory, then
the next group. An operation is done as late as its users allow, so that little is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.lowering import Call, Lowered
from lazyflow.array.kernels.native.operations import is_inline
from lazyflow.array.kernels.planning import Pass

CONSTANT, FLAT, UNIT, SAME, ANY = "cfusa"  # how a source's elements lie along a run


class Spec(NamedTuple):
    """What a kernel depends on: a pass, without shapes.

    sources
        Values 0, 1, ...: their dtypes and how they lie: one value; contiguous as the whole; and
        rows, themselves anywhere, of neighbours, of one value, or of any step.
    calls
        Their results are numbered after the sources.
    sinks
        A value, how it is reduced, or None, and the value that says what counts, or None.
    """

    sources: tuple[tuple[np.dtype[Any], str], ...]
    calls: tuple[Call, ...]
    sinks: tuple[tuple[int, str | None, int | None], ...]
    dtypes: tuple[np.dtype[Any], ...]


def make_spec(lowered: Lowered, some: Pass, ways: Sequence[str]) -> Spec:
    """Return what a kernel for a pass is, when its sources lie so."""
    new = {old: at for at, old in enumerate(some.sources)}
    dtypes = [lowered.dtypes[old] for old in some.sources]
    calls = []
    for call, _ in some.calls:
        for old in call.results:
            new[old] = len(dtypes)
            dtypes.append(lowered.dtypes[old])
        operands, results = (tuple(new[n] for n in x) for x in (call.operands, call.results))
        calls.append(call._replace(operands=operands, results=results))
    sinks = []
    for at in some.outputs:
        value, reduction, mask = lowered.sinks[at]
        kind = None if reduction is None else reduction.kind
        sinks.append((new[value], kind, None if mask is None else new[mask]))
    sources = tuple(zip(dtypes[: len(some.sources)], ways, strict=True))
    return Spec(sources, tuple(calls), tuple(sinks), tuple(dtypes))


class Group(NamedTuple):
    """One turn: operations in registers, what they leave in scratch, loops called after them."""

    inline: tuple[Call, ...]
    kept: tuple[int, ...]
    loops: tuple[Call, ...]


class Stages(NamedTuple):
    """All turns; sinks are fed in the last one.

    scratch
        Values that go through memory.
    """

    groups: tuple[Group, ...]
    scratch: tuple[int, ...]


def stages_of(spec: Spec) -> Stages:
    """Return the turns of a kernel."""
    inline = [is_inline(call.op, call.loop) for call in spec.calls]
    ready = [0] * len(spec.dtypes)
    for call, here in zip(spec.calls, inline, strict=True):
        turn = max((ready[n] for n in call.operands), default=0) + (not here)
        for n in call.results:
            ready[n] = turn
    final = max(ready, default=0)
    used = [final] * len(spec.dtypes)
    kept: set[int] = set()
    places = [0] * len(spec.calls)
    for at in range(len(spec.calls) - 1, -1, -1):
        call = spec.calls[at]
        late = min(used[n] for n in call.results)
        place = late if inline[at] else ready[call.results[0]] - 1
        places[at] = place
        for n in call.operands:
            used[n] = min(used[n], place)
    home = dict(zip((c.results[0] for c in spec.calls), places, strict=True))
    for call, here, place in zip(spec.calls, inline, places, strict=True):
        if not here:
            kept.update(call.results)
            kept.update(n for n in call.operands if _must_keep(spec, n))
        else:
            kept.update(n for n in call.operands if home.get(n, place) < place)
    ends = [n for value, _, mask in spec.sinks for n in (value, mask) if n is not None]
    kept.update(n for n in ends if home.get(n, final) < final)
    return Stages(
        tuple(_group(spec, turn, inline, places, kept, used) for turn in range(final + 1)),
        tuple(sorted(kept)),
    )


def _must_keep(spec: Spec, value: int) -> bool:
    """Tell whether a loop can't read a value where it is: strides change what loops give."""
    return value >= len(spec.sources) or spec.sources[value][1] not in (CONSTANT, FLAT)


def _group(
    spec: Spec,
    turn: int,
    inline: Sequence[bool],
    places: Sequence[int],
    kept: set[int],
    used: Sequence[int],
) -> Group:
    here = [at for at, place in enumerate(places) if place == turn]
    calls = tuple(spec.calls[at] for at in here if inline[at])
    left = [n for n in range(len(spec.sources)) if n in kept and used[n] == turn]
    left += [n for call in calls for n in call.results if n in kept]
    return Group(calls, tuple(left), tuple(spec.calls[at] for at in here if not inline[at]))
