"""`pad`: one axis after the other, by concatenation with parts made of the array itself.

The edges of each axis are made of the array as padded so far, so that corners follow as in NumPy.
An edge that is no wider than the largest chunk becomes part of the chunk beside it; a wider one
gets chunks of its own. Reflections go on in NumPy's steps, since infinite values become NaN by
them. A function as `mode` needs each axis in one chunk, one after the other, and gets vectors of
copied blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.creation import full, zeros
from lazyflow.array.functions.elementwise import around, where
from lazyflow.array.functions.manipulation.joining import concatenate
from lazyflow.array.functions.manipulation.rearranging import along, flip
from lazyflow.array.functions.manipulation.shaping import broadcast_to
from lazyflow.array.functions.one_chunk import NumpyOp, along_axis
from lazyflow.array.functions.ranges import arange
from lazyflow.array.functions.reductions import totals
from lazyflow.array.functions.reductions.means import mean
from lazyflow.array.functions.reductions.quantiles import median
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.task_parts import named

_OPTIONS = {
    "constant": "constant_values", "linear_ramp": "end_values", "maximum": "stat_length",
    "mean": "stat_length", "median": "stat_length", "minimum": "stat_length",
    "reflect": "reflect_type", "symmetric": "reflect_type", "edge": None, "wrap": None,
    "empty": None,
}
_DEFAULTS = {
    "constant_values": 0, "end_values": 0, "stat_length": None, "reflect_type": "even",
}
_REDUCTIONS: dict[str, Any] = {
    "maximum": totals.max, "minimum": totals.min, "mean": mean, "median": median,
}

#: Of these NumPy refuses types and values that don't fit, where nothing is added, too.
_CHECKED = (*_REDUCTIONS, "constant", "linear_ramp")


def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """Return an array with more elements around it; parameters as ``np.pad``.

    Narrow edges become part of the chunks beside them. A function as `mode` is called for each
    vector along an axis, which is one chunk in the meantime.

    Raises
    ------
    TypeError
        `pad_width` is no whole number.
    ValueError
        There is no such `mode`, or option of it; a width is negative; an empty axis has nothing to
        extend it by.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.pad(la.arange(5, chunks=3), (2, 1), "reflect")
    >>> x.chunks, x.compute()
    (((5, 3),), array([2, 1, 0, 1, 2, 3, 4, 3]))
    """
    value: Any = None if callable(mode) else _option(mode, kwargs)
    x = as_array(array).with_known_sizes()
    widths = _widths(pad_width, x.ndim)
    if callable(mode):
        return _filled_by(mode, pad(x, widths), widths, kwargs)
    if not x.size and mode not in ("constant", "empty"):
        return _of_nothing(x, widths)
    padded = x
    for axis, (left, right) in enumerate(widths):
        if mode in ("reflect", "symmetric"):
            padded = _reflected(padded, axis, left, right, mode == "symmetric", value)
            continue
        parts = [padded]
        for after, n in enumerate((left, right)):
            if n or mode in _CHECKED:
                part = _added(padded, axis, bool(after), n, mode, value)
                parts.insert(after * len(parts), part.astype(x.dtype))
        padded = concatenate(parts, axis)
    padded = padded.rechunk(tuple(map(_beside, x.chunks, widths, padded.chunks)))
    return padded.astype(x.dtype)


def _filled_by(
    func: Any, padded: Array, widths: list[tuple[int, int]], options: dict[str, Any]
) -> Array:
    """Return an array whose edges, now zeros, a function of vectors fills, axis after axis."""
    found = padded
    for axis, pair in enumerate(widths):
        op = NumpyOp(named("pad", _fill_vectors, func, pair, axis, options), ())
        found = Array(along_axis(op, found.expr, axis, found.dtype)).rechunk(padded.chunks)
    return found


def _fill_vectors(func: Any, pair: tuple[int, int], axis: int, options: Any, block: Any) -> Any:
    found = block.copy()
    vectors = np.moveaxis(found, axis, -1)
    for place in np.ndindex(vectors.shape[:-1]):
        func(vectors[place], pair, axis, options)
    return found


def _option(mode: Any, given: dict[str, Any]) -> Any:
    """Return the value of the keyword that a mode takes."""
    if mode not in _OPTIONS:
        raise ValueError(f"mode '{mode}' is not supported")
    option = _OPTIONS[mode]
    wrong = set(given) - {option}
    if wrong:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {wrong}")
    return given.get(option or "", _DEFAULTS.get(option or ""))


def _widths(given: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(given, dict):
        pairs: list[Any] = [(0, 0)] * ndim
        for axis, width in given.items():
            pairs[axis] = (width, width) if np.ndim(width) == 0 else tuple(width)
        given = pairs
    widths = np.asarray(given)
    if widths.dtype.kind != "i" and widths.size:
        raise TypeError("`pad_width` must be of integral type.")
    found = [(int(left), int(right)) for left, right in _pairs(widths, ndim)]
    if any(width < 0 for pair in found for width in pair):
        raise ValueError("index can't contain negative values")
    return found


def _pairs(given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Return two values for each axis."""
    if given is None:
        return [(None, None)] * ndim
    values = np.asarray(given)
    if values.size == 1 or (values.size == 2 and values.shape != (2, 1)):
        values = values.ravel()
        return [(values[0], values[-1])] * ndim
    return list(map(tuple, np.broadcast_to(values, (ndim, 2)).tolist()))  # of Python's, as NumPy


def _of_nothing(x: Array, widths: list[tuple[int, int]]) -> Array:
    for axis, pair in enumerate(widths):
        if x.shape[axis] == 0 and any(pair):
            raise ValueError(
                f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
            )
    shape = [n + left + right for n, (left, right) in zip(x.shape, widths, strict=True)]
    return zeros(shape, x.dtype, chunks=-1)


def _beside(before: tuple[int, ...], widths: tuple[int, int], now: tuple[int, ...]) -> Any:
    """Return chunks with narrow edges put into the chunks that they are beside."""
    found = list(before)
    most = max(before)
    left, right = widths
    after: list[int] = []
    if left and left <= most:
        found[0] += left
    elif left:
        found[:0] = _even(left, max(most, 1))
    if right and right <= most:
        found[-1] += right
    elif right:
        after = _even(right, max(most, 1))
    assert sum(found) + sum(after) == sum(now)
    return (*found, *after)


def _even(n: int, most: int) -> list[int]:
    count = -(-n // most)
    return [n * (i + 1) // count - n * i // count for i in range(count)]


# -- what is added --------------------------------------------------------------------------------


def _added(x: Array, axis: int, after: bool, n: int, mode: str, value: Any) -> Array:
    """Return what comes before or after an array along an axis, `n` wide."""
    if mode == "wrap":
        return _wrapped(x, axis, after, n)
    if mode == "edge":
        return _wide(_edge(x, axis, after), axis, n)
    own = _pairs(0 if mode == "empty" else value, x.ndim)[axis][after]
    if mode in _REDUCTIONS:
        return _statistic(x, axis, after, n, mode, own)
    return _ramp(x, axis, after, n, own) if mode == "linear_ramp" else _constant(x, axis, n, own)


def _wide(x: Array, axis: int, n: int) -> Array:
    return broadcast_to(x, (*x.shape[:axis], n, *x.shape[axis + 1:]))


def _edge(x: Array, axis: int, after: bool) -> Array:
    return along(x, axis, slice(-1, None) if after else slice(0, 1))


def _constant(x: Array, axis: int, n: int, value: Any) -> Array:
    shape = (*x.shape[:axis], n, *x.shape[axis + 1:])
    element = np.empty(1, x.dtype)
    element[0] = value  # NumPy refuses here what the type does not have
    if x.dtype.hasobject:  # which full() would convert
        return broadcast_to(Array(constant(element.reshape(()))), shape)
    chunks = [sizes if k != axis else "auto" for k, sizes in enumerate(x.chunks)]
    return full(shape, element[0], x.dtype, chunks=chunks)


def _statistic(x: Array, axis: int, after: bool, n: int, mode: str, length: Any) -> Array:
    whole = x.shape[axis]
    taken = whole if length is None else min(int(length), whole)
    if taken < 0:
        raise ValueError("index can't contain negative values")
    if taken == 0 and mode in ("maximum", "minimum"):
        raise ValueError("stat_length of 0 yields no value for padding")
    part = along(x, axis, slice(whole - taken, None) if after else slice(0, taken))
    found = _REDUCTIONS[mode](part, axis=axis, keepdims=True)
    if x.dtype.kind in "iu" and found.dtype.kind == "f":
        found = around(found)
    return _wide(found, axis, n)


def _ramp(x: Array, axis: int, after: bool, n: int, end: Any) -> Array:
    """Return ``np.linspace(end, edge, n, endpoint=False)``, turned around after the array."""
    edge = _edge(x, axis, after)
    np.linspace(end, np.zeros(1, x.dtype), 0, endpoint=False, dtype=x.dtype)  # checks the end
    if not n and not x.dtype.hasobject:  # objects tell only when subtracted if they can be
        return along(x, axis, slice(0, 0))
    kind = np.result_type(np.asarray(end).dtype, x.dtype, 1.0)
    start = np.asarray(end).astype(kind)[()]
    at = arange(n).astype(kind)[(slice(None), *[None] * (x.ndim - axis - 1))]
    width = edge.astype(kind) - start
    if not n:
        return at * width
    step = width / n
    # as NumPy: if one of the steps is 0, all lines are made in the way that suits that
    made = where((step == 0).any(), at / n * width, at * step) + start
    if x.dtype.kind in "iu":
        made = np.floor(made)
    return flip(made, axis) if after else made


def _wrapped(x: Array, axis: int, after: bool, n: int) -> Array:
    """Return what repeats the array: its places go on periodically on both sides."""
    length = x.shape[axis]
    first, last = (length, length + n) if after else (-n, 0)
    parts = []
    for number in range(first // length, -(-last // length)):
        start = max(first - number * length, 0)
        stop = min(last - number * length, length)
        parts.append(along(x, axis, slice(start, stop)))
    return concatenate(parts, axis)


def _reflected(x: Array, axis: int, left: int, right: int, edges: bool, how: str) -> Array:
    """Return an array with what is there by now turned around at both ends, until it is enough.

    In NumPy's steps: from them it follows where infinite values become NaN.
    """
    if how not in ("even", "odd"):
        raise ValueError(f"reflect_type must be 'even' or 'odd'; got {how!r}")
    period = x.shape[axis]
    if period == 1:
        return _wide(x, axis, left + 1 + right)
    skipped = 0 if edges else 1  # the edge itself, which is not reflected
    while left or right:
        n = x.shape[axis]
        most = (n - skipped) // (period - skipped) * (period - skipped)
        before, after = min(most, left), min(most, right)
        parts = [x]
        if before:
            part = along(x, axis, slice(skipped, skipped + before))
            parts.insert(0, _turned(part, _edge(x, axis, False), axis, how))
        if after:
            part = along(x, axis, slice(n - skipped - after, n - skipped))
            parts.append(_turned(part, _edge(x, axis, True), axis, how))
        x = concatenate([part.astype(x.dtype) for part in parts], axis)
        left, right = left - before, right - after
    return x


def _turned(part: Array, edge: Array, axis: int, how: str) -> Array:
    """Return a part turned around, reflected at the edge's value if it is odd."""
    part = along(part, axis, slice(None, None, -1))
    return 2 * edge - part if how == "odd" else part
