"""What a view selects: slices or single places of each axis, new axes, and the axes' order.

Numbers only: nothing here knows nodes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.chunks import Chunks

Index = tuple[int, ...]


class Pick(NamedTuple):
    """Places of an axis: `length` of them from `start`, `step` apart."""

    start: int
    step: int
    length: int

    def of(self, inner: Pick) -> Pick:
        """Return this pick, applied to what another one took, as one pick."""
        return Pick(inner.start + self.start * inner.step, self.step * inner.step, self.length)

    def is_all(self, n: int | None) -> bool:
        """Tell whether it takes the whole axis in order."""
        return self.start == 0 and self.step == 1 and self.length == n


class Selection(NamedTuple):
    """What a view selects of its base.

    picks
        For each axis of the base a Pick, an int (the axis is gone), or None: all of it, also of
        unknown length.
    axes
        For each axis of the view: the axis of the base, or ~n for a new one of length n.
    """

    picks: tuple[Pick | int | None, ...]
    axes: tuple[int, ...]

    @classmethod
    def of_all(cls, ndim: int) -> Selection:
        """Return the selection of everything."""
        return cls((None,) * ndim, tuple(range(ndim)))

    def then(self, outer: Selection) -> Selection:
        """Return the selection that applies this one and then `outer`."""
        picks = list(self.picks)
        for axis, pick in zip(self.axes, outer.picks, strict=True):
            if axis < 0 or pick is None:
                continue
            inner = picks[axis]
            if inner is None:
                picks[axis] = pick
            else:
                assert isinstance(inner, Pick)
                picks[axis] = (
                    pick.of(inner) if isinstance(pick, Pick) else inner.start + pick * inner.step
                )
        axes = []
        for axis in outer.axes:
            own = axis if axis < 0 else self.axes[axis]
            new = outer.picks[axis] if own < 0 <= axis else None
            axes.append(~new.length if isinstance(new, Pick) else own)
        return Selection(tuple(picks), tuple(axes))

    def is_identity(self, shape: tuple[int | None, ...]) -> bool:
        """Tell whether it changes nothing."""
        return self.axes == tuple(range(len(shape))) and all(
            pick is None or (isinstance(pick, Pick) and pick.is_all(n))
            for pick, n in zip(self.picks, shape, strict=True)
        )

    def slices(self) -> Selection:
        """Return the part that takes slices only: all axes stay, in their order."""
        picks = tuple([Pick(p, 1, 1) if isinstance(p, int) else p for p in self.picks])
        return Selection(picks, tuple(range(len(picks))))

    def rest(self) -> Selection:
        """Return the selection that is left to do after `slices`."""
        return Selection(tuple([0 if isinstance(p, int) else None for p in self.picks]), self.axes)


def cut(chunks: tuple[Any, ...], pick: Pick) -> list[tuple[int, slice, int]]:
    """Return the part of each chunk that a pick takes: the chunk's number, a slice, its length.

    >>> cut((3, 3, 4), Pick(1, 2, 4))
    [(0, slice(1, 2, 2), 1), (1, slice(0, 3, 2), 2), (2, slice(1, 2, 2), 1)]
    >>> cut((3, 3), Pick(4, -2, 3))
    [(1, slice(1, 0, -2), 1), (0, slice(2, None, -2), 2)]
    """
    start, step, count = pick
    if count == 0:
        return [(0, slice(0, 0, 1), 0)]
    ends = list(accumulate(chunks))
    found = []
    left = count
    at = start
    while left:
        number = bisect_right(ends, at)
        first = ends[number] - chunks[number]
        here = (ends[number] - 1 - at) // step if step > 0 else (at - first) // -step
        here = min(here + 1, left)
        last = at + (here - 1) * step - first
        stop = last + (1 if step > 0 else -1)
        found.append((number, slice(at - first, None if stop < 0 else stop, step), here))
        left -= here
        at += here * step
    return found


def cut_lengths(chunks: tuple[Any, ...], pick: Pick) -> tuple[int, ...]:
    """Return the lengths of the parts that `cut` returns.

    >>> cut_lengths((3, 3, 4), Pick(1, 2, 4)), cut_lengths((3, 3), Pick(4, -2, 3))
    ((1, 2, 1), (1, 2))
    """
    start, step, count = pick
    if not count:
        return (0,)
    n = sum(chunks)
    if step < 0:
        chunks, start, step = chunks[::-1], n - 1 - start, -step
    if step == 1 and 0 not in chunks:  # nothing is done for each chunk that is taken
        first, before = _skipped(chunks, start)
        last, behind = _skipped(reversed(chunks), n - start - count)
        found = list(chunks[first:len(chunks) - last])
        found[0] -= before
        found[-1] -= behind
        return tuple(found)
    ends = np.cumsum(np.fromiter(chunks, np.int64, len(chunks)))
    taken = np.clip(-((start - ends) // step), 0, count)  # by the end of each chunk
    lengths = np.diff(taken, prepend=0)
    return tuple(lengths[lengths > 0].tolist())


def _skipped(chunks: Iterable[int], places: int) -> tuple[int, int]:
    """Return how many whole chunks some places are, and how many places are left."""
    for number, n in enumerate(chunks):
        if places < n:
            return number, places
        places -= n
    raise IndexError("there are fewer places")


def as_slice(pick: Pick | int | None) -> slice | int:
    """Return the index for an array's axis that takes the places of a pick.

    >>> as_slice(Pick(3, -1, 4)), as_slice(Pick(2, 3, 2))
    (slice(3, None, -1), slice(2, 6, 3))
    """
    if pick is None:
        return slice(None)
    if isinstance(pick, int):
        return pick
    if not pick.length:
        return slice(0, 0)
    stop = pick.start + (pick.length - 1) * pick.step + (1 if pick.step > 0 else -1)
    return slice(pick.start, None if stop < 0 else stop, pick.step)


def base_region(
    selection: Selection, chunks: Chunks, index: Index, bounds: list[list[int]]
) -> tuple[slice | int, ...]:
    """Return the region of the base for a block of a view; the base may be read at any place.

    bounds
        Where the chunks of each axis of the view begin.
    """
    region: list[slice | int] = []
    at = {axis: k for k, axis in enumerate(selection.axes) if axis >= 0}
    for axis, pick in enumerate(selection.picks):
        if isinstance(pick, int):
            region.append(pick)
            continue
        k = at[axis]
        first = bounds[k][index[k]]
        n = chunks[k][index[k]]
        assert n is not None
        if pick is None:
            region.append(slice(first, first + n, 1))
        else:
            start = pick.start + first * pick.step
            stop = start + (n - 1) * pick.step + (1 if pick.step > 0 else -1)
            taken = slice(start, None if stop < 0 else stop, pick.step)
            region.append(taken if n else slice(0, 0, 1))
    return tuple(region)
