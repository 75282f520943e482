"""How many bytes a value takes, as an estimate that costs little, and such numbers as text.

The estimate serves placement and accounting, not limits.
"""

from __future__ import annotations

import sys
from typing import Any

_SAMPLED_ITEMS = 100  # items of a container whose sizes are read; a guess


def format_bytes(count: int) -> str:
    """Return a number of bytes as text, with three digits and a decimal unit.

    >>> format_bytes(80_000_000), format_bytes(999_999), format_bytes(512)
    ('80 MB', '1 MB', '512 bytes')
    """
    if count < 1000:
        return f"{count} bytes"
    size, units = count / 1000, iter(("kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while size >= 999.5:  # as three digits it would be 1000
        size, unit = size / 1000, next(units, "EB")
    return f"{size:.3g} {unit}"


def size_of(value: Any) -> int:
    """Return the bytes of a value: of an array or frame, or of the items of a container.

    >>> size_of(b"x" * 1000) > 1000, size_of([b"x" * 1000] * 200) > 200_000
    (True, True)
    """
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return sys.getsizeof(value) + _of_items(value, len(value))
    if kind is dict:
        return sys.getsizeof(value) + _of_items(value.values(), len(value))
    return _of_one(value)


def _of_items(items: Any, count: int) -> int:
    total = 0
    for at, item in enumerate(items):
        if at == _SAMPLED_ITEMS:  # the other items are assumed to be like these
            return total * count // _SAMPLED_ITEMS
        total += _of_one(item)
    return total


def _of_one(value: Any) -> int:
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    try:
        if library in ("numpy", "pyarrow"):
            return int(value.nbytes)
        if library == "polars" and hasattr(value, "estimated_size"):
            return int(value.estimated_size())
        if library == "pandas" and hasattr(value, "memory_usage"):
            usage = value.memory_usage(deep=False)
            return int(usage if isinstance(usage, int) else usage.sum())
        if library == "scipy" and hasattr(value, "data") and hasattr(value.data, "nbytes"):
            return int(value.data.nbytes)
        return sys.getsizeof(value)
    except Exception:  # a class that only looks like one of these
        return 64
