"""What is refused before arrays are written, and what is said when a write fails half-way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lazyflow.api.evaluate import observers
from lazyflow.array.functions.storage.store_targets import StoreTarget
from lazyflow.schedulers.core.base import AnyRun, Observer

_SHOWN = 8  # places of chunks in a message


def refuse_overlaps(writers: Sequence[StoreTarget]) -> None:
    """Raise ValueError where two sources are written to the same elements of one target.

    They are looked at in the order of their first places along the first axis, so that many parts
    of one target, one after the other, are compared with their neighbours only.
    """
    by_target: dict[Any, list[tuple[int, int, int, Any]]] = {}
    for number, writer in enumerate(writers):
        if not hasattr(writer.store, "shape"):
            continue
        places = [range(p, p + 1) if isinstance(p, int) else p for p in writer.along_axes()]
        if all(map(len, places)):
            low, high = (min(places[0]), max(places[0])) if places else (0, 0)
            by_target.setdefault(writer.same, []).append((int(low), int(high), number, places))
    for found in by_target.values():
        before: list[tuple[int, int, int, Any]] = []
        for each in sorted(found, key=lambda one: one[:3]):
            before = [one for one in before if one[1] >= each[0]]
            for one in before:
                if all(map(_meet, one[3], each[3])):
                    first, second = sorted([one[2], each[2]])
                    raise ValueError(
                        f"sources {first} and {second} would be written to the same elements of "
                        "one target, and the order of writes is not defined. Give them regions "
                        "that do not overlap, or store one after the other"
                    )
            before.append(each)


def _meet(a: Any, b: Any) -> bool:
    """Tell whether places along an axis have one in common.

    >>> _meet(range(0, 6, 2), range(1, 6, 2)), _meet(range(3), np.array([9, 2]))
    (False, True)
    """
    if max(min(a), min(b)) > min(max(a), max(b)):
        return False
    if isinstance(a, range) and isinstance(b, range) and abs(a.step) == abs(b.step) == 1:
        return True
    return bool(np.intersect1d(a, b).size)


class _Writes(Observer):
    """Knows which tasks of a run have ended."""

    def __init__(self) -> None:
        self.run: AnyRun | None = None
        self.ended: set[int] = set()

    def run_started(self, run: AnyRun) -> None:
        self.run = self.run or run  # not those that its tasks start

    def task_ended(self, run: AnyRun, i: int) -> None:
        if run is self.run:
            self.ended.add(i)


@contextmanager
def telling_what_is_there(places: Sequence[tuple[int, Any]]) -> Iterator[None]:
    """Add to an error which blocks had been written.

    places
        For each write of the run, in the order of its results: the number of the target, and where
        in it.
    """
    writes = _Writes()
    token = observers.set((*observers.get(), writes))
    try:
        yield
    except BaseException as error:
        if writes.run is not None:
            pairs = zip(writes.run.plan.outputs, places, strict=True)
            BaseException.add_note(error, _said([at for i, at in pairs if i in writes.ended],
                                                len(places)))
        raise
    finally:
        observers.reset(token)


def _said(done: Sequence[tuple[int, Any]], count: int) -> str:
    """Return the note.

    >>> _said([(0, (slice(0, 2), 1))], 3)  # doctest: +ELLIPSIS
    'lazyflow: 1 of 3 chunks were written before that: target 0 at [0:2, 1]. They can be read...'
    """
    shown = ", ".join(f"target {target} at {_place(at)}" for target, at in done[:_SHOWN])
    more = f", and {len(done) - _SHOWN} more" if len(done) > _SHOWN else ""
    return (
        f"lazyflow: {len(done)} of {count} chunks were written before that{': ' if done else ''}"
        f"{shown}{more}. They can be read. Others that were being written then may be there, too"
    )


def _place(at: Any) -> str:
    each = [
        f"{one.start}:{one.stop}" + (f":{one.step}" if one.step not in (None, 1) else "")
        if isinstance(one, slice) else str(one)
        for one in at
    ]
    return f"[{', '.join(each)}]"
