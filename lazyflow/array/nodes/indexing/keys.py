"""The entries of an index, ``x[...]``, and the views that slices and integers are.

Only the key and the shape are read here, never the values of index arrays. Slices, integers and new
axes together become one selection, as a view; index arrays are left to gather.py and masks.py. An
integer, or a slice other than ``:``, along an axis of unknown length raises `SizesNeeded`. An
ellipsis between index arrays stays in the list, even for no axes: it decides where their axes
stand.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.selection import Pick, Selection
from lazyflow.array.nodes.views import view


def is_field(key: Any) -> bool:
    """Tell whether a key names a field of records, or several.

    >>> is_field("a"), is_field(["a", "b"]), is_field(("a",))
    (True, True, False)
    """
    return isinstance(key, str) or (
        isinstance(key, list) and bool(key) and isinstance(key[0], str)
    )


def parse(key: Any, shape: tuple[int | None, ...]) -> list[Any]:
    """Return one entry for each axis of an array, and None for each new axis.

    Slices, arrays and lists are unchanged, integers become int; a boolean array stands for as many
    axes as it has.

    Raises
    ------
    IndexError
        Too many entries, or one that is not an index.
    """
    keys = key if isinstance(key, tuple) else (key,)
    entries: list[Any] = []
    used = sum([_width(entry) for entry in keys if entry is not None and entry is not Ellipsis])
    ellipses = sum([entry is Ellipsis for entry in keys])
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {used} were "
            "indexed"
        )
    for at, entry in enumerate(keys):
        if entry is Ellipsis:
            entries.extend([slice(None)] * (len(shape) - used))
            if used == len(shape) and _has_arrays(entries) and _has_arrays(keys[at:]):
                entries.append(entry)  # stands for no axis, and between index arrays all the same
        else:
            entries.append(_entry(entry))
    if not ellipses:
        entries.extend([slice(None)] * (len(shape) - used))
    return entries


def _width(each: Any) -> int:
    """Count the axes that an entry is for."""
    if isinstance(each, list):
        each = np.asarray(each)
    is_mask = isinstance(each, bool) or getattr(each, "dtype", None) == np.bool_
    return int(getattr(each, "ndim", 0)) if is_mask else 1


def _entry(entry: Any) -> Any:
    if entry is None or isinstance(entry, slice):
        return entry
    if isinstance(entry, bool | np.bool_):
        return np.asarray(entry)
    if isinstance(entry, list | tuple):
        entry = np.asarray(entry)
        if entry.size == 0:
            entry = entry.astype(np.intp)
    if hasattr(entry, "dtype") and hasattr(entry, "ndim"):
        if entry.dtype.kind not in "iub":
            raise IndexError(
                "arrays used as indices must be of integer (or boolean) type; got "
                f"{entry.dtype}"
            )
        if isinstance(entry, np.generic | np.ndarray) and entry.ndim == 0 and entry.dtype != bool:
            return int(entry)
        return entry
    try:
        return operator.index(entry)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays are "
            f"valid indices; got {entry!r:.100}"
        ) from None


def _has_arrays(entries: Sequence[Any]) -> bool:
    """Tell whether there are index arrays, or integers, which count as index arrays here."""
    return not all(each is None or isinstance(each, slice | EllipsisType) for each in entries)


def is_basic(entries: list[Any]) -> bool:
    """Tell whether there are only slices, integers and new axes."""
    return all(each is None or isinstance(each, slice | int | EllipsisType) for each in entries)


def basic(node: Expr, entries: list[Any]) -> Expr:
    """Return the view that slices, integers and new axes give."""
    return view(node, basic_spec(node.shape, entries))


def basic_spec(shape: tuple[int | None, ...], entries: list[Any]) -> Selection:
    """Return the selection of slices, integers and new axes for an array of a shape."""
    picks: list[Pick | int | None] = []
    axes: list[int] = []
    for each in entries:
        if each is Ellipsis:
            continue
        if each is None:
            axes.append(~1)
            continue
        axis = len(picks)
        n = shape[axis]
        if isinstance(each, int):
            picks.append(_place(each, axis, n))
        else:
            picks.append(_pick(each, n))
            axes.append(axis)
    return Selection(tuple(picks), tuple(axes))


def _place(at: int, axis: int, n: int | None) -> int:
    if n is None:
        raise SizesNeeded
    if not -n <= at < n:
        raise IndexError(f"index {at} is out of bounds for axis {axis} with size {n}")
    return at % n


def _pick(each: slice, n: int | None) -> Pick | None:
    if each == slice(None):
        return None
    if n is None:
        raise SizesNeeded
    places = range(n)[each]
    if len(places) == n and places.step == 1:
        return None
    return Pick(places.start if len(places) else 0, places.step, len(places))
