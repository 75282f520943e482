"""The blocks of several arrays that go together, by labels of their axes.

Axes of one label go together, and there are two rules for their chunks. `aligned` rechunks the
arrays to common chunks, which needs known lengths if chunks differ. `as_they_are` rechunks nothing:
blocks go together by number, numbers of blocks must be equal or 1, and lengths may differ. An array
with one block along an axis gives it to all blocks of the result. Of an axis that the result lacks,
a function gets all blocks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import isnan
from numbers import Number
from typing import Any

from lazyflow.array.chunks import Chunks, length
from lazyflow.array.nodes.align import fitting
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.user_calls import AxisBlocks, InputBlocks

Labels = tuple[Hashable, ...]
Sizes = dict[Hashable, tuple[Any, ...]]


def aligned(nodes: Sequence[Expr], labels: Sequence[Labels]) -> tuple[list[Expr], Sizes]:
    """Return nodes in chunks that fit, and the chunks of each label.

    Raises
    ------
    ValueError
        Axes of one label have different lengths, and neither is 1.
    SizesNeeded
        Lengths are unknown, and it is not certain that they are equal.
    """
    given: dict[Hashable, set[tuple[Any, ...]]] = {}
    for node, each in zip(nodes, labels, strict=True):
        for sizes, label in zip(node.chunks, each, strict=True):
            given.setdefault(label, set()).add(sizes)
    chosen: Sizes = {label: _common(label, found) for label, found in given.items()}
    made = []
    for node, each in zip(nodes, labels, strict=True):
        made.append(rechunk(node, tuple([
            (1,) if n == 1 else sizes if None in sizes else chosen[label]
            for n, sizes, label in zip(node.shape, node.chunks, each, strict=True)
        ])))
    return made, chosen


def _common(label: Hashable, found: set[tuple[Any, ...]]) -> tuple[Any, ...]:
    long = {sizes for sizes in found if None in sizes or sum(sizes) != 1}
    if not long:
        return (1,)
    lengths = {length(sizes) for sizes in long}
    if len(lengths) > 1 and None not in lengths:
        raise ValueError(f"Shapes do not align {{{label!r}: {lengths}}}")
    return fitting(long)


def as_they_are(nodes: Sequence[Expr], labels: Sequence[Labels]) -> Sizes:
    """Return the chunks of each label, of nodes whose numbers of blocks must be equal or 1.

    Raises
    ------
    ValueError
        The numbers of blocks are neither.
    """
    chosen: Sizes = {}
    for node, each in zip(nodes, labels, strict=True):
        for sizes, label in zip(node.chunks, each, strict=True):
            chosen[label] = max(chosen.get(label, ()), sizes, key=len)
    for node, each in zip(nodes, labels, strict=True):
        for axis, (sizes, label) in enumerate(zip(node.chunks, each, strict=True)):
            if len(sizes) not in (1, len(chosen[label])):
                counts = " and ".join(str(x.numblocks) for x in nodes)
                raise ValueError(
                    f"blocks do not fit: the arrays have {counts} blocks, and in axis {axis} "
                    f"{len(sizes)} meet {len(chosen[label])}. Numbers of blocks must be equal, or "
                    "1; rechunk one array like the other"
                )
    return chosen


def from_last(nodes: Sequence[Expr]) -> list[Labels]:
    """Return labels of the axes, counted from the last axis, as NumPy broadcasts."""
    ndim = max([x.ndim for x in nodes], default=0)
    return [tuple(range(ndim - x.ndim, ndim)) for x in nodes]


def axis_numbers(axes: int | Iterable[int] | None, ndim: int, parameter: str) -> list[int]:
    """Return the numbers, from 0, of an axis or several; None: no axis.

    >>> axis_numbers((0, -1), 3, "drop_axis"), axis_numbers(None, 3, "new_axis")
    ([0, 2], [])
    """
    given = [] if axes is None else list(axes) if isinstance(axes, Iterable) else [axes]
    for axis in given:
        if not -ndim <= axis < ndim:
            raise ValueError(f"{parameter}={axis} is out of range: there are {ndim} axes")
    return [axis % ndim for axis in given]


def input_blocks(
    labels: Labels, node: Expr, out: Labels, sizes: Sizes, concatenate: bool
) -> InputBlocks:
    """Return the blocks of a node that belong to a block of the result."""
    return InputBlocks(
        tuple([
            AxisBlocks(
                out.index(label) if label in out else None,
                None,
                len(sizes[label]),
                len(own) == 1,
            )
            for label, own in zip(labels, node.chunks, strict=True)
        ]),
        concatenate,
    )


def changed(sizes: tuple[Any, ...], how: Any, axis: Any) -> tuple[Any, ...]:
    """Return the chunks of an axis whose blocks get other lengths.

    how
        A function of a length, one length for all, or a length for each; None or NaN: not known.

    >>> changed((2, 3), lambda n: 2 * n, 0), changed((2, 3), 1, 0), changed((2, 3), (5, None), 0)
    ((4, 6), (1, 1), (5, None))
    """
    if callable(how):
        return tuple([None if n is None else _length(how(n)) for n in sizes])
    if how is None or isinstance(how, Number):
        return (_length(how),) * len(sizes)
    found = tuple(map(_length, how))
    if len(found) != len(sizes):
        raise ValueError(
            f"Dimension {axis} has {len(sizes)} blocks, chunks specified with {len(found)} blocks"
        )
    return found


def new_chunks(how: Any) -> tuple[Any, ...]:
    """Return the chunks of a new axis: one chunk of a length, or the given ones.

    >>> new_chunks(3), new_chunks((1, 2))
    ((3,), (1, 2))
    """
    if how is None or isinstance(how, Number):
        return (_length(how),)
    return tuple(map(_length, how))


def _length(n: Any) -> int | None:
    if n is None or (isinstance(n, float) and isnan(n)):
        return None
    if int(n) != n or n < 0:
        raise ValueError(f"a chunk can't have length {n!r}")
    return int(n)


def result_chunks(
    out: Labels, sizes: Sizes, new_axes: Mapping[Hashable, Any], adjust: Mapping[Hashable, Any]
) -> Chunks:
    """Return the chunks of a result with these labels."""
    found = []
    for axis, label in enumerate(out):
        own = new_chunks(new_axes[label]) if label in new_axes else sizes[label]
        found.append(changed(own, adjust[label], axis) if label in adjust else own)
    return tuple(found)
