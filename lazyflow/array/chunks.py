"""Lengths of chunks: those that users give in many forms, and those that are chosen.

``"auto"`` gives chunks of up to ``config.chunk_bytes`` with whole short rows, and for a store
multiples or parts of its own chunks. Chunks depend on shape, dtype and settings, never on the
number of workers: so the order of sums, and their bits, are the same everywhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, product
from math import prod
from typing import Any

import numpy as np

from lazyflow import config

#: Lengths of the chunks of each axis; None: not known before something is computed.
Chunks = tuple[tuple[Any, ...], ...]

#: Bytes of a row below which automatic chunks have whole rows; guessed, as the next two are.
_SHORT_ROW = 1 << 16

_LEAST = 1 << 16  # elements of joined blocks, at the least
_MOST = 1 << 20  # and at the most: 8 MiB of float64
#: Tasks that large work is cut into: three for each of sixteen workers, which is guessed. It does
#: not depend on how many there are, or bits would.
TASKS = 48

#: An array of a size in between is left in so many blocks, for as many threads; guessed.
_PARTS = 8


def normalize_chunks(
    chunks: Any = "auto",
    shape: tuple[int, ...] | None = None,
    limit: int | str | None = None,
    dtype: Any = None,
    previous_chunks: Any = None,
) -> tuple[tuple[int, ...], ...]:
    """Return the lengths of all chunks, given in one of many forms.

    Parameters
    ----------
    chunks
        ``"auto"``; a length for all axes; or for each axis a length, the lengths of its chunks,
        -1 or None (one chunk), ``"auto"``; or a dict of these by axis; or bytes of a chunk
        as text, ``"16 MiB"``, for all axes or for those that are cut to fit.
    shape
        Of the array; needed unless all lengths are given.
    limit
        Bytes of an automatic chunk, as a number or text; ``config.chunk_bytes``, 8 MiB, if left
        out: a few such chunks fit in the caches of all cores together, and a task for each costs
        nothing beside the work on it.
    dtype
        Of the array; needed for automatic chunks.
    previous_chunks
        Chunks of what is read, or one length for each axis: automatic ones are multiples or parts
        of these.

    Raises
    ------
    ValueError
        The lengths do not add up to the shape, there are more or fewer than axes, or different
        numbers of bytes are given, or a text that is no number of bytes.
    TypeError
        An entry is none of the above.

    Examples
    --------
    >>> normalize_chunks((3, -1), (7, 2))
    ((3, 3, 1), (2,))
    >>> normalize_chunks("auto", (4000, 1000), limit="8 MB", dtype="f8")
    ((1000, 1000, 1000, 1000), (1000,))
    >>> normalize_chunks(("4 kB", None), (1000, 2), dtype="f8")
    ((250, 250, 250, 250), (2,))
    """
    if isinstance(chunks, str) and chunks != "auto":
        limit, chunks = chunks, "auto"
    given, limit = _without_bytes(_by_axis(chunks, shape), limit)
    if shape is None:
        if any(isinstance(entry, int | str) or entry is None for entry in given):
            raise ValueError(f"chunks={chunks!r} needs the shape of the array; pass shape= as well")
        shape = tuple([sum(entry) for entry in given])
    chosen: list[Any] = [
        entry if isinstance(entry, str) else _axis(entry, n, axis, shape)
        for axis, (entry, n) in enumerate(zip(given, shape, strict=True))
    ]
    if any(isinstance(entry, str) for entry in chosen):
        previous = None if previous_chunks is None else [
            (entry,) if isinstance(entry, int | np.integer) else entry for entry in previous_chunks
        ]
        chosen = _automatic(chosen, shape, _bytes(limit), dtype, previous)
    return tuple(chosen)


def _by_axis(chunks: Any, shape: tuple[int, ...] | None) -> tuple[Any, ...]:
    if isinstance(chunks, Mapping):
        if shape is None:
            raise ValueError("chunks as a dict need the shape of the array; pass shape= as well")
        placed = by_axis(chunks, len(shape), "chunks name")
        return tuple([placed.get(axis, -1) for axis in range(len(shape))])
    if isinstance(chunks, str) or chunks is None or isinstance(chunks, int | np.integer | float):
        if shape is None:
            raise ValueError(f"chunks={chunks!r} needs the shape of the array; pass shape= as well")
        return tuple([chunks] * len(shape))
    if not isinstance(chunks, Sequence):
        raise TypeError(
            f"chunks must be 'auto', a length, or for each axis a length, lengths or -1; got "
            f"{chunks!r:.100}"
        )
    given = tuple(chunks)
    if shape is not None and len(given) != len(shape):
        if len(shape) == 1 and all(isinstance(entry, int | np.integer) for entry in given):
            return (given,)
        raise ValueError(
            f"chunks={chunks!r:.100} are for {len(given)} axes, but the array has {len(shape)}: "
            f"its shape is {shape}"
        )
    return given


def by_axis(given: Mapping[int, Any], ndim: int, names: str) -> dict[int, Any]:
    """Return a dict by axis, with axes counted from the first.

    Raises
    ------
    ValueError
        The array lacks the axis; the message begins with `names`.
    """
    for axis in given:
        if not isinstance(axis, int | np.integer) or not -ndim <= axis < ndim:
            raise ValueError(f"{names} axis {axis!r}, but the array has {ndim} axes")
    return {axis % ndim: each for axis, each in given.items()}


def _without_bytes(given: tuple[Any, ...], limit: Any) -> tuple[tuple[Any, ...], Any]:
    """Return chunks with "auto" in the place of numbers of bytes, and that number."""
    texts = [each for each in given if isinstance(each, str) and each != "auto"]
    if not texts:
        return given, limit
    said = {parse_bytes(text): text for text in texts}
    if limit is not None:
        said[_bytes(limit)] = str(limit)
    if len(said) > 1:
        raise ValueError(
            f"chunks can name one number of bytes only; got {', '.join(said.values())}"
        )
    return tuple(["auto" if isinstance(x, str) else x for x in given]), texts[0]


def _axis(wanted: Any, n: int, axis: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    if wanted is None or (isinstance(wanted, int | np.integer) and wanted == -1):
        return (n,)
    if isinstance(wanted, int | np.integer):
        if wanted < 1:
            if wanted == 0 and n == 0:
                return (0,)
            raise ValueError(
                f"chunks of axis {axis} have length {wanted}; it must be 1 or more, or -1 for one "
                "chunk"
            )
        return in_steps(n, int(wanted))
    try:
        sizes = tuple([int(size) for size in wanted])
    except (TypeError, ValueError):
        raise TypeError(
            f"chunks of axis {axis} must be a length, lengths, -1 or 'auto'; got {wanted!r:.100}"
        ) from None
    if any(size < 0 for size in sizes) or sum(sizes) != n:
        raise ValueError(
            f"chunks of axis {axis}, {_shown(sizes)}, add up to {sum(sizes)}, but the axis has "
            f"length {n}: the shape is {shape}"
        )
    return sizes or (0,)


def _shown(sizes: tuple[int, ...]) -> str:
    return str(sizes) if len(sizes) < 8 else f"({', '.join(map(str, sizes[:6]))}, ...)"


def _bytes(limit: int | str | None) -> int:
    if limit is None:
        limit = config.get("chunk_bytes")
    if isinstance(limit, str):
        return parse_bytes(limit)
    if not limit >= 1:
        raise ValueError(f"limit={limit!r} must be bytes, 1 or more, as a number or text")
    return int(limit)


def parse_bytes(text: str) -> int:
    """Return the number of bytes that a text means, 1 or more.

    >>> parse_bytes("16 MiB"), parse_bytes("1.5GB"), parse_bytes("100")
    (16777216, 1500000000, 100)
    """
    number = text.strip().rstrip("kKmMgGtTpPiIbB").strip()
    unit = text.strip()[len(number):].strip().lower()
    powers = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
    short = unit.removesuffix("b") if unit != "b" else ""
    base = 1024 if short.endswith("i") else 1000
    try:
        found = int(float(number) * base ** powers[short.removesuffix("i")])
        if found < 1:
            raise ValueError
        return found
    except (KeyError, ValueError, OverflowError):
        raise ValueError(
            f"{text!r} does not say how many bytes, 1 or more; write for example '16 MiB' or "
            "'100 MB'"
        ) from None


def _automatic(
    chosen: list[Any], shape: tuple[int, ...], limit: int, dtype: Any, previous: Any
) -> list[tuple[int, ...]]:
    """Return chunks for the "auto" axes so that a chunk fits: even lengths, whole rows first."""
    if dtype is None:
        raise ValueError("automatic chunks need the dtype of the array; pass dtype= as well")
    itemsize = np.dtype(dtype).itemsize or 1
    fixed = prod([max(entry, default=1) or 1 for entry in chosen if not isinstance(entry, str)])
    room = max(limit // (itemsize * fixed), 1)
    axes = [axis for axis, entry in enumerate(chosen) if isinstance(entry, str)]
    if previous is None:
        units = dict.fromkeys(axes, 1)
    else:
        units = {axis: max(min(max(previous[axis]), shape[axis]), 1) for axis in axes}
    base = prod(units.values())
    if base > room:  # the first axes are cut, so that rows stay together
        for axis in axes:
            others = base // units[axis]
            size = max(min(room // others, units[axis]), 1)
            before = previous[axis] if sum(previous[axis]) == shape[axis] else _axis(
                units[axis], shape[axis], axis, shape
            )
            chosen[axis] = tuple([part for n in before for part in _axis(_even(n, size), n, 0, ())])
            base = others * size
        return chosen
    room //= base  # how many of them go together
    for axis in reversed(axes):  # the last axis is the one that is contiguous
        left = [a for a in axes if a < axis]
        unit, n = units[axis], shape[axis]
        count = -(-n // unit)
        share = room if not left else max(int(room ** (1 / (len(left) + 1)) + 1e-9), 1)
        if count <= room and n * itemsize <= _SHORT_ROW:
            share = count
        size = min(share * unit, n)
        chosen[axis] = _axis(_even(n, size) if unit == 1 else max(size, 1), n, axis, shape)
        room = max(room // max(-(-max(chosen[axis]) // unit), 1), 1)
    return chosen


def _even(n: int, size: int) -> int:
    """Return a length of chunks, at most `size`, that leaves no small rest."""
    count = -(-n // size) if n else 1
    return max(-(-n // count), 1)


def are_parts(new: tuple[Any, ...], old: tuple[Any, ...]) -> bool:
    """Tell whether chunks of one axis are others, or parts of them.

    >>> are_parts((1, 3, 2), (4, 2)), are_parts((3, 3), (4, 2))
    (True, False)
    """
    if new == old:
        return True
    known = None not in old and None not in new and 0 not in (*old, *new)
    return known and {*accumulate(old)} <= {*accumulate(new)}


def in_steps(n: int, size: int) -> tuple[int, ...]:
    """Return chunks of one length; the last one may be shorter.

    >>> in_steps(7, 3), in_steps(0, 3)
    ((3, 3, 1), (0,))
    """
    whole, rest = divmod(n, size)
    return (size,) * whole + ((rest,) if rest or not n else ())


def length(chunks: tuple[Any, ...]) -> int | None:
    """Return the length of an axis.

    >>> length((2, 3)), length((2, None))
    (5, None)
    """
    try:
        return sum(chunks)
    except TypeError:  # a third of the time of a search for None in millions of chunks
        return None


def block_slices(chunks: Chunks) -> Iterator[tuple[slice, ...]]:
    """Return the slices of the whole array that each block is, in C order.

    >>> list(block_slices(((2, 1),)))
    [(slice(0, 2, None),), (slice(2, 3, None),)]
    """
    return product(*[
        [slice(a, b) for a, b in pairwise([0, *accumulate(sizes)])] for sizes in chunks
    ])


def chunks_of(numblocks: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> Chunks:
    """Return the chunks of an array whose blocks, in C order, have these shapes.

    >>> chunks_of((2, 1), [(3, 4), (2, 4)])
    ((3, 2), (4,))
    """
    found = []
    step = len(shapes)
    for axis, count in enumerate(numblocks):
        step //= count
        found.append(tuple([shapes[i * step][axis] for i in range(count)]))
    return tuple(found)


def in_c_order(shape: Sequence[int], most: int) -> tuple[tuple[int, ...], ...]:
    """Return chunks of at most `most` elements that are in C order one after the other.

    >>> in_c_order((4, 6), 12), in_c_order((2, 6), 4)
    (((2, 2), (6,)), ((1, 1), (4, 2)))
    """
    found: list[tuple[int, ...]] = []
    room = max(most, 1)
    for n in reversed(shape):
        size = max(min(n, room), 1)
        found.append(in_steps(n, size))
        room = room // size if size >= n else 1
    return tuple(found[::-1])


def refuse_sparse(block: Any) -> None:
    """Refuse a block of SciPy's sparse numbers where blocks are joined or cut, as arrays are.

    Examples
    --------
    >>> refuse_sparse(np.ones(2))
    """
    if hasattr(block, "tocsr"):
        raise TypeError(
            f"a chunk is sparse ({type(block).__name__}), but the function that made it was given "
            f"with the dtype alone. Say so, and chunks are joined and cut by SciPy: "
            f"map_blocks(..., meta={type(block).__module__.split('._')[0]}."
            f"{type(block).__name__}((0, 0))). Or make them dense: "
            "x.map_blocks(lambda chunk: chunk.toarray(), dtype=x.dtype)"
        )


def coalesced(chunks: Chunks) -> Chunks:
    """Return chunks in which neighbours are joined until blocks have a sensible size.

    >>> coalesced(((20,) * 100, (20,) * 100))
    ((500, 500, 500, 500), (1000, 1000))
    """
    if prod(map(len, chunks)) == 1:
        return chunks
    lengths: list[Any] = list(map(length, chunks))
    if None in lengths:
        return chunks
    block = min(max(prod(lengths) // _PARTS, _LEAST), _MOST)
    longest = [max(sizes) for sizes in chunks]
    others = prod(longest)
    if others >= block:
        return chunks
    found: list[tuple[int, ...]] = list(chunks)
    for axis in reversed(range(len(found))):
        others //= max(longest[axis], 1)
        most = max(block // max(others, 1), 1)
        if axis:  # leave room, so that blocks are not one row each
            most = min(most, max(int(block ** 0.5) * 2, longest[axis]))
        found[axis] = together(chunks[axis], most)
        others *= max(found[axis])
    return tuple(found)


def together(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return neighbours joined to lengths of at most `most`, and about even.

    >>> together((3, 3, 3, 3, 3), 9), together((3, 5), 4)
    ((9, 6), (3, 5))
    """
    ends = [0, *accumulate(sizes)]
    even = ends[-1] / max(-(-ends[-1] // most), 1)  # so that no small rest is left
    made: list[int] = []
    at = 0
    while at < len(sizes):
        start = ends[at]
        last = min(bisect_left(ends, start + even), bisect_right(ends, start + most) - 1)
        at = max(last, at + 1)
        made.append(ends[at] - start)
    return tuple(made)
