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
    found: list[Any] = []
    used = sum([_width(each) for each in keys if each is not None and each is not Ellipsis])
    ellipses = sum([each is Ellipsis for each in keys])
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {used} were "
            "indexed"
        )
    for at, each in enumerate(keys):
        if each is Ellipsis:
            found.extend([slice(None)] * (len(shape) - used))
            if used == len(shape) and _has_arrays(found) and _has_arrays(keys[at:]):
                found.append(each)  # stands for no axis, and between index arrays all the same
        else:
            found.append(_entry(each))
    if not ellipses:
        found.extend([slice(None)] * (len(shape) - used))
    return found


def _width(each: Any) -> int:
    """Count the axes that an entry is for."""
    if isinstance(each, list):
        each = np.asarray(each)
    is_mask = isinstance(each, bool) or getattr(each, "dtype", None) == np.bool_
    return int(getattr(each, "ndim", 0)) if is_mask else 1


def _entry(each: Any) -> Any:
    if each is None or isinstance(each, slice):
        return each
    if isinstance(each, bool | np.bool_):
        return np.asarray(each)
    if isinstance(each, list | tuple):
        each = np.asarray(each)
        if each.size == 0:
            each = each.astype(np.intp)
    if hasattr(each, "dtype") and hasattr(each, "ndim"):
        if each.dtype.kind not in "iub":
            raise IndexError(
                "arrays used as indices must be of integer (or boolean) type; got "
                f"{each.dtype}"
            )
        if isinstance(each, np.generic | np.ndarray) and each.ndim == 0 and each.dtype != bool:
            return int(each)
        return each
    try:
        return operator.index(each)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and integer or boolean arrays are "
            f"valid indices; got {each!r:.100}"
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
