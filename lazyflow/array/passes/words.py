"""Words that the passes share when they say what they did, and why not more."""

from __future__ import annotations

from lazyflow.array.nodes.expr import Expr
from lazyflow.store.sizes import format_bytes

_MOST_SHOWN = 3  # sentences of one pass


def in_a_line(sentences: list[str]) -> str:
    """Return sentences in one line: the first ones, and how many more there are.

    >>> in_a_line(["a stays", "b stays"]), in_a_line(["a", "b", "c", "d", "e"])
    ('a stays; b stays', 'a; b; c; and 2 more')
    """
    more = len(sentences) - _MOST_SHOWN
    shown = "; ".join(sentences[:_MOST_SHOWN])
    return f"{shown}; and {more:,} more" if more > 0 else shown


def size_of(node: Expr) -> str:
    """Return the bytes of an array, in words.

    >>> import lazyflow.array as la
    >>> x = la.arange(1000, chunks=100)
    >>> size_of(x.expr), size_of(x[x > 3].expr)
    ('8 kB', 'unknown bytes')
    """
    if None in node.shape or node.known_dtype is None:
        return "unknown bytes"
    return format_bytes(node.size * node.known_dtype.itemsize)
