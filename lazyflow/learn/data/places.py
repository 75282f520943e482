"""Where the rows of a part are from: what errors call them."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from lazyflow import is_lazy

__all__ = ["Place", "places_of"]


class Place(NamedTuple):
    """One part of the rows.

    chunk
        Its number; None for a part that was cut of rows in memory, which the user does not know.
    first
        The number of rows before it, where that is known.

    Examples
    --------
    >>> print(Place(2, 40), "|", Place(None, 40), "|", Place())
    chunk 2 | X from row 40 on | a chunk
    """

    chunk: int | None = None
    first: int | None = None

    def __str__(self) -> str:
        if self.chunk is not None:
            return f"chunk {self.chunk}"
        return "a chunk" if self.first is None else f"X from row {self.first} on"

    def row(self, at: int) -> str:
        """Return what a row of the part is called.

        Examples
        --------
        >>> Place(2, 40).row(5), Place(2).row(5), Place(None, 40).row(5)
        ('chunk 2, row 5 of it (row 45 of all)', 'chunk 2, row 5 of it', 'row 45')
        """
        if self.first is None:
            return f"{self}, row {at} of it"
        whole = f"row {self.first + at}"
        return whole if self.chunk is None else f"{self}, row {at} of it ({whole} of all)"


def places_of(parts: Sequence[Sequence[Any]], chunked: bool) -> list[Place]:
    """Return the places of parts (rows, targets, weights): `chunked` by the user, or cut by us.

    Rows are counted as long as one of the three is in memory in each part.

    Examples
    --------
    >>> places_of([([[1], [2]], [1, 2], None), ([[3]], [3], None)], chunked=False)
    [Place(chunk=None, first=0), Place(chunk=None, first=2)]
    """
    counts = [_known_rows(part) for part in parts]
    known = counts.index(None) if None in counts else len(counts)
    firsts: list[int | None] = list(accumulate(counts[:known], initial=0))  # type: ignore[arg-type]
    firsts += [None] * len(parts)
    return [Place(k if chunked else None, firsts[k]) for k in range(len(parts))]


def _known_rows(part: Sequence[Any]) -> int | None:
    """Return the rows of one part, if that needs no computation."""
    for values in part:
        if values is not None and not is_lazy(values):
            shape = getattr(values, "shape", None)
            return len(values) if shape is None else int(shape[0])
    return None
