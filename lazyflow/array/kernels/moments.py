"""Counts, means and sums of squared distances to the mean, in the one order of reductions.

In each block (order.py) the mean comes first, then, the block being in the cache still, the squares
of the distances to it. Means are merged sixteen at once by the formula of Chan, Golub and LeVeque
(1979) for many parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.kernels.order import Form, contiguous, in_blocks, kept_shape, rounds, tree
from lazyflow.array.kernels.program import Reduction


def new_moments(form: Form, dtype: np.dtype[Any], masked: bool) -> Any:
    """Return the array for moments of blocks: (3, outer, blocks, inner).

    It has zeros, and the counts where they are known.
    """
    found = np.zeros((3, *form.partial), dtype)
    if not masked:
        found[0] = form.size
        found[0, :, -1] = (form.length - 1) % form.size + 1
    return found


def _squares(distances: Any) -> Any:
    """Return the squares of distances, written over them where they are real."""
    if distances.dtype.kind == "c":
        return (distances.real**2 + distances.imag**2).astype(distances.dtype)
    return np.multiply(distances, distances, out=distances)


def _write(values: Any, mask: Any, into: Any) -> None:
    """Write the moments of blocks: of (outer, blocks, elements, inner) to (3, outer, ...)."""
    if mask is not None:
        into[0] = np.add.reduce(mask, axis=2, dtype=np.int64)
        values = np.where(mask, values, np.zeros((), values.dtype))
    np.add.reduce(values, axis=2, out=into[1])
    into[1] /= into[0] if mask is None else np.where(into[0] == 0, 1, into[0])
    squares = _squares(values - into[1][:, :, None])
    if mask is not None:
        squares = np.where(mask, squares, np.zeros((), values.dtype))
    np.add.reduce(squares, axis=2, out=into[2])


def _merge(stack: Any) -> Any:
    """Merge moments: (3, k, n, c) to (3, k, c)."""
    counts = stack[0]
    if stack.dtype.kind != "f":
        return _merge_any(*stack)
    alike = (counts == counts[:, :1]).all(axis=1) & (counts[:, 0] != 0)
    if not alike.any():
        return _merge_any(*stack)
    found = _merge_alike(counts[:, :1], *stack[1:])
    return found if alike.all() else np.where(alike, found, _merge_any(*stack))


def _merge_any(counts: Any, means: Any, spreads: Any) -> Any:
    total = np.add.reduce(counts, axis=1)
    some = np.where(total == 0, 1, total)
    start = means[:, 0]
    if not (counts[:, 0] != 0).all():  # the first that counts something
        first = np.argmax(counts != 0, axis=1)[:, None]
        start = np.take_along_axis(means, first, axis=1)[:, 0]
    mean = start + np.add.reduce(counts * (means - start[:, None]), axis=1) / some
    if mean.dtype.kind in "fc":
        far = ~np.isfinite(mean)  # differences of infinite means say nothing
        if far.any():
            plain = np.add.reduce(counts / some[:, None] * means, axis=1)
            mean = np.where(far, plain, mean)
    between = np.add.reduce(counts * _squares(means - mean[:, None]), axis=1)
    return np.stack([total, mean, np.add.reduce(spreads, axis=1) + between])


def _merge_alike(each: Any, means: Any, spreads: Any) -> Any:
    """Merge moments of which all that are merged count the same, with fewer operations."""
    many = means.shape[1]
    start = means[:, :1]
    far = means - start
    moved = np.add.reduce(far, axis=1, keepdims=True) / many
    mean = start + moved
    far -= moved
    far *= far
    between = np.add.reduce(far, axis=1) * each[:, 0]
    if not np.isfinite(mean).all():
        mean = np.where(np.isfinite(mean), mean, np.add.reduce(means / many, axis=1, keepdims=True))
    total = np.broadcast_to(each[:, 0] * many, between.shape)
    return np.stack([total, mean[:, 0], np.add.reduce(spreads, axis=1) + between])


def merge_tree(stack: Any) -> Any:
    """Merge (3, k, n, c) to (3, k, c): sixteen of a level are one of the next.

    One by one, also of a single column, which NumPy would add up in lanes.
    """
    if stack.shape[-1] == 1 and stack.shape[-2] > 1:
        return merge_tree(np.concatenate([stack, stack], axis=-1))[..., :1]

    def merge(some: Any, into: Any) -> None:
        _, *outer, n, c = some.shape
        into[...] = _merge(some.reshape(3, prod(outer), n, c)).reshape(into.shape)

    return tree(merge, stack)


def finish_moments(shape: tuple[int, ...], reduction: Reduction, partial: Any) -> np.ndarray:
    """Return the moments of the whole array from those of its blocks."""
    with np.errstate(all="ignore"):  # the blocks have reported already
        found = merge_tree(partial)
        for form in rounds(shape, reduction.axes)[1:]:
            found = merge_tree(found.reshape(3, form.outer, form.length, form.inner))
    return contiguous(found.reshape(3, *kept_shape(shape, reduction.axes)))


def of_whole(reduction: Reduction, values: Any, mask: Any = None) -> np.ndarray:
    """Return moments of an array: a new first axis of 3, reduced axes of length 1."""
    if not values.size:
        return np.zeros((3, *kept_shape(values.shape, reduction.axes)), values.dtype)
    form = rounds(values.shape, reduction.axes)[0]
    partial = new_moments(form, values.dtype, mask is not None)
    masks = None if mask is None else in_blocks(form, contiguous(mask))
    for where, blocks in in_blocks(form, contiguous(values)):
        _write(blocks, None if masks is None else next(masks)[1], partial[:, :, where])
    return finish_moments(values.shape, reduction, partial)


def merge_moments(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Merge the moments of neighbouring blocks, all of one shape."""
    with np.errstate(all="ignore"):
        stack = np.stack(parts, axis=1).reshape(3, 1, len(parts), -1)
        return contiguous(merge_tree(stack).reshape(parts[0].shape))
