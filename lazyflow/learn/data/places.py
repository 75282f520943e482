"""Where the rows of a part are from: what errors call them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from lazyflow import is_lazy
from lazyflow.array.core import Array
from lazyflow.learn.data.inputs import groups_of_chunks, is_chunked

__all__ = ["Place", "places_of"]


class Place(NamedTuple):
    """One part of the rows.

    chunk
        Its number; None for a part that was cut of rows in memory, which the user does not know.
    first
        The number of rows before it, where that is known.
    sizes
        The rows of the chunks that it was made of, from that number on, if they are several.

    Examples
    --------
    >>> print(Place(2, 40), "|", Place(None, 40), "|", Place(), "|", Place(2, 40, (3, 3)))
    chunk 2 | X from row 40 on | a chunk | chunks 2 to 3
    """

    chunk: int | None = None
    first: int | None = None
    sizes: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.sizes:
            return f"chunks {self.chunk} to {(self.chunk or 0) + len(self.sizes) - 1}"
        if self.chunk is not None:
            return f"chunk {self.chunk}"
        return "a chunk" if self.first is None else f"X from row {self.first} on"

    def row(self, at: int) -> str:
        """Return what a row of the part is called.

        Examples
        --------
        >>> Place(2, 40).row(5), Place(2).row(5), Place(None, 40).row(5)
        ('chunk 2, row 5 of it (row 45 of all)', 'chunk 2, row 5 of it', 'row 45')
        >>> Place(2, 40, (3, 3)).row(5)
        'chunk 3, row 2 of it (row 45 of all)'
        """
        if self.first is None:
            return f"{self}, row {at} of it"
        whole = f"row {self.first + at}"
        if self.chunk is None:
            return whole
        number, own = self.chunk, at
        for size in self.sizes:
            if own < size:
                break
            number, own = number + 1, own - size
        return f"chunk {number}, row {own} of it ({whole} of all)"


def places_of(parts: Sequence[Sequence[Any]], X: Any) -> list[Place]:
    """Return the places of the parts (rows, targets, weights) of X.

    Rows are counted where X is an array, or as long as one of the three is in memory in each part.

    Examples
    --------
    >>> places_of([([[1], [2]], [1, 2], None), ([[3]], [3], None)], [[1], [2], [3]])
    [Place(chunk=None, first=0, sizes=()), Place(chunk=None, first=2, sizes=())]
    """
    if isinstance(X, Array) and None not in X.shape:
        sizes = X.chunks[0]
        firsts = list(accumulate(sizes, initial=0))
        if len(parts) == len(sizes):
            return [Place(k, firsts[k]) for k in range(len(parts))]
        return [
            Place(group[0], firsts[group[0]], tuple([sizes[k] for k in group]))
            for group in groups_of_chunks(X) or ()
        ]
    chunked = is_chunked(X)
    first: int | None = 0
    found = []
    for k, part in enumerate(parts):
        found.append(Place(k if chunked else None, first))
        rows = _known_rows(part)
        first = None if first is None or rows is None else first + rows
    return found


def _known_rows(part: Sequence[Any]) -> int | None:
    """Return the rows of one part, if that needs no computation."""
    for values in part:
        if values is not None and not is_lazy(values):
            shape = getattr(values, "shape", None)
            return len(values) if shape is None else int(shape[0])
    return None
