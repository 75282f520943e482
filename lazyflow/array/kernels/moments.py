"""How many, their mean, and the squares of distances to it, piece by piece in a fixed order.

A piece is small enough to stay in the cache between the pass for its mean and the one for the
squares. Pieces are merged by the formula of Chan, Golub and LeVeque (1979), neighbours first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.kernels.order import (
    GROUP,
    Form,
    columns,
    contiguous,
    finish,
    kept_shape,
    partial_blocks,
    rounds,
)
from lazyflow.array.kernels.program import Reduction

LIMIT = 1 << 16  # elements of a piece
WIDEST = LIMIT // GROUP  # inner elements for which pieces of a whole group of rows stay below it


def piece_rows(form: Form) -> int:
    """Return how many of the reduced elements a piece has, for each of the inner ones."""
    if form.inner == 1:
        return form.block
    return max(GROUP, min(256, LIMIT // form.inner // GROUP * GROUP))


def _sum(values: Any) -> Any:
    """Sum (k, n, c) over the middle, as a reduction of its own."""
    k, n, c = values.shape
    if c > 1:
        return columns(np.add, values) if n > 1 else values[:, 0]
    form = Form(k, n, 1)
    return finish(np.add, form, partial_blocks(np.add, form, contiguous(values)))


def _squares(distances: Any) -> Any:
    if distances.dtype.kind == "c":
        return (distances.real**2 + distances.imag**2).astype(distances.dtype)
    return distances * distances


def of_piece(values: Any, mask: Any = None) -> Any:
    """Return moments over the middle axis: (k, n, c) to (3, k, c)."""
    k, n, c = values.shape
    found = np.empty((3, k, c), values.dtype)
    if mask is None:
        found[0] = n
        found[1] = _sum(values) / found[0]
        found[2] = _sum(_squares(values - found[1][:, None]))
        return found
    found[0] = np.count_nonzero(mask, axis=1)
    zero = np.zeros((), values.dtype)
    found[1] = _sum(np.where(mask, values, zero)) / np.where(found[0] == 0, 1, found[0])
    found[2] = _sum(np.where(mask, _squares(values - found[1][:, None]), zero))
    return found


def _pair(a: Any, b: Any) -> Any:
    """Merge moments elementwise."""
    count = a[0] + b[0]
    some = np.where(count == 0, 1, count)
    share = b[0] / some
    delta = b[1] - a[1]
    mean = a[1] + delta * share
    if mean.dtype.kind in "fc":
        far = ~np.isfinite(delta)  # infinite means: their difference says nothing
        if far.any():
            mean = np.where(far, a[1] * (a[0] / some) + b[1] * share, mean)
    squares = _squares(delta) if delta.dtype.kind != "O" else delta * delta
    spread = a[2] + b[2] + squares * (a[0] * share)
    merged = np.stack([count, mean, spread])
    # what counts nothing changes nothing: neither by rounding nor by 0 * inf
    return np.where(b[0] == 0, a, np.where(a[0] == 0, b, merged))


def merge_stack(stack: Any) -> Any:
    """Merge (3, n, ...) over n: neighbours, then neighbours of those, ..."""
    while stack.shape[1] > 1:
        pairs = stack.shape[1] // 2
        up = _pair(stack[:, 0 : 2 * pairs : 2], stack[:, 1 : 2 * pairs : 2])
        stack = up if 2 * pairs == stack.shape[1] else np.concatenate([up, stack[:, -1:]], axis=1)
    return stack[:, 0]


def of_outers(form: Form, values: Any, mask: Any = None) -> Any:
    """Return moments of the pieces of outer indices: (k, n) to (3, k, pieces, inner)."""
    rows, (k, n) = piece_rows(form), values.shape
    shape = (k, n // form.inner, form.inner)
    values = values.reshape(shape)
    mask = None if mask is None else mask.reshape(shape)
    found = []
    for at in range(0, shape[1], rows):
        some = slice(at, at + rows)
        found.append(of_piece(values[:, some], None if mask is None else mask[:, some]))
    return np.stack(found, axis=2)


def finish_pieces(forms: Sequence[Form], pieces: Any) -> Any:
    """Bring moments of pieces, (3, outer, pieces, inner), to those of all rounds, (3, ...)."""
    with np.errstate(all="ignore"):  # what there was to report the pieces have reported
        found = merge_stack(np.moveaxis(pieces, 2, 1))
        for form in forms[1:]:
            stack = found.reshape(3, form.outer, form.length, form.inner)
            found = merge_stack(np.moveaxis(stack, 2, 1))
    return found


def of_whole(reduction: Reduction, values: Any, mask: Any = None) -> Any:
    """Return moments of a contiguous array: a new first axis of 3, reduced axes of length 1."""
    kept = (3, *kept_shape(values.shape, reduction.axes))
    forms = rounds(values.shape, reduction.axes)
    if not values.size:
        return np.zeros(kept, values.dtype)
    form = forms[0]
    flat = values.reshape(form.outer, form.elements)
    mask = None if mask is None else mask.reshape(form.outer, form.elements)
    return finish_pieces(forms, of_outers(form, flat, mask)).reshape(kept)


def merge_moments(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Merge moments of neighbours, all of one shape."""
    with np.errstate(all="ignore"):
        return contiguous(merge_stack(np.stack(parts, axis=1)))
