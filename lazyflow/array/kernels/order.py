"""The one order in which values are reduced, which depends on the shape of the block alone.

A reduction is brought to rounds of the form (kept, reduced, kept): `Form`. Sums and products of
floats are reduced by blocks within the outer kept indices, and then from block to block::

    kind      a block                          within it            then
    rows      2,048 of the reduced elements    NumPy's own order    the blocks, as one block
    columns   16 of the reduced elements,      one by one           a tree: 16 results of a
              for all inner kept ones                               level are one of the next

`reduce_blocks` is what reads the values; generated kernels do it in registers, merge columns while
they go on, and get the same bits. `from_blocks` does the rest. The error is like that of a pairwise
sum: a handful of roundings in sequence a level. Whole numbers, extremes and truth don't depend on
the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.program import KINDS, Reduction

GROUP = 16  # rows in a block of columns, and parts that are merged at once
PIECE = 2048  # elements in a block of a row: 16 KB of doubles, which leave room in L1


class Form(NamedTuple):
    """One round of a reduction: (outer, length, inner) to (outer, inner)."""

    outer: int
    length: int
    inner: int

    @property
    def size(self) -> int:
        """The number of reduced elements in a block; the last block may have fewer."""
        return GROUP if self.inner > 1 else PIECE

    @property
    def partial(self) -> tuple[int, int, int]:
        """The shape of the results of blocks."""
        return (self.outer, -(-self.length // self.size), self.inner)


@lru_cache(1024)
def rounds(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[Form, ...]:
    """Return the rounds of a reduction in their order, innermost axes first; at least one.

    >>> rounds((5, 6), (0, 1))
    (Form(outer=1, length=30, inner=1),)
    >>> rounds((5, 6, 1, 7), (0, 3))
    (Form(outer=30, length=7, inner=1), Form(outer=1, length=5, inner=6))
    """
    runs: list[list[Any]] = []  # [is it reduced, length]: neighbours of one kind are one run
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        if runs and runs[-1][0] == (axis in axes):
            runs[-1][1] *= length
        else:
            runs.append([axis in axes, length])
    found = []
    inner = 1
    while runs:
        reduced, length = runs.pop()
        if reduced:
            outer = 1
            for _, other in runs:
                outer *= other
            found.append(Form(outer, length, inner))
        else:
            inner *= length
    return tuple(found) or (Form(inner, 1, 1),)


def identity(kind: str, dtype: np.dtype[Any]) -> Any:
    """Return the neutral element of a reduction for a dtype, or None."""
    if dtype.kind not in "biufc" or (kind in ("min", "max") and dtype.kind == "c"):
        return None
    if kind in ("sum", "any"):
        return dtype.type(0)
    if kind in ("prod", "all"):
        return dtype.type(1)
    if kind in ("fmin", "fmax"):
        return dtype.type(np.nan) if dtype.kind == "f" else None
    if dtype.kind == "b":
        return dtype.type(kind == "min")
    if dtype.kind == "f":
        return dtype.type(np.inf if kind == "min" else -np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if kind == "min" else limits.min)


#: Ufuncs whose scans have a neutral element, and its reductions.
_SCANS = {KINDS[kind]: kind for kind in ("sum", "prod", "min", "max", "fmin", "fmax")}


def neutral(ufunc: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """Return what a ufunc combines with any value to that value, the sign of zeros kept, or None.

    >>> neutral(np.add, np.dtype("f8")), neutral(np.hypot, np.dtype("f8"))
    (np.float64(-0.0), None)
    """
    if ufunc not in _SCANS or dtype.kind not in "biuf":
        return None
    found = identity(_SCANS[ufunc], dtype)
    return -found if dtype.kind == "f" and not found else found


def in_blocks(form: Form, values: Any) -> Iterator[tuple[slice, Any]]:
    """Yield contiguous values as (outer, blocks, elements, inner): full blocks, then the last.

    With the places of the blocks.
    """
    values = values.reshape(form.outer, form.length, form.inner)
    full = form.length // form.size
    cut = full * form.size
    if full:
        yield slice(full), values[:, :cut].reshape(form.outer, full, form.size, form.inner)
    if cut < form.length:
        yield slice(full, None), values[:, None, cut:]


def reduce_blocks(ufunc: np.ufunc, form: Form, values: Any) -> Any:
    """Reduce all blocks of contiguous values: to (outer, blocks, inner)."""
    partial = np.empty(form.partial, values.dtype)
    for where, blocks in in_blocks(form, values):
        ufunc.reduce(blocks, axis=2, out=partial[:, where])
    return partial


def tree(merge: Callable[[Any, Any], Any], stack: Any) -> Any:
    """Merge (..., n, c) to (..., c): sixteen of a level are one of the next.

    `merge` is called with an array (..., n, c) and with the array (..., c) for its result.
    """
    *outer, n, c = stack.shape
    while n > 1:
        full, rest = divmod(n, GROUP) if n > GROUP else (0, n)
        up = np.empty((*outer, full + (rest > 0), c), stack.dtype)
        if full:
            groups = stack[..., : full * GROUP, :].reshape(*outer, full, GROUP, c)
            merge(groups, up[..., :full, :])
        if rest:
            merge(stack[..., full * GROUP :, :], up[..., full, :])
        stack, n = up, up.shape[-2]
    return stack[..., 0, :]


def columns(ufunc: np.ufunc, stack: Any) -> Any:
    """Reduce (k, n, c) to (k, c), sixteen rows of a level one by one."""
    return tree(lambda some, into: ufunc.reduce(some, axis=-2, out=into), stack)


def contiguous(array: Any) -> Any:
    """Return the array, or a copy, in C order; 0-d ones stay 0-d."""
    return np.asarray(array, order="C")


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with reduced axes of length 1."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def reduce_whole(reduction: Reduction, values: Any, one_zero: bool) -> Any:
    """Reduce an array of the reduction's dtype; the reduced axes stay with length 1.

    one_zero
        Extremes don't depend on the order either where they are zeros of both signs.
    """
    if values.size and in_order(reduction):
        form = rounds(values.shape, reduction.axes)[0]
        partial = reduce_blocks(KINDS[reduction.kind], form, contiguous(values))
        return from_blocks(reduction, values.shape, partial)
    return contiguous(_in_any_order(reduction, values, reduction.axes, one_zero))


def from_blocks(reduction: Reduction, shape: tuple[int, ...], partial: Any) -> np.ndarray:
    """Return the result for an array of a shape from those of the first round's blocks."""
    first, *more = rounds(shape, reduction.axes)
    found = _from_form(reduction, first, partial)
    for form in more:
        partial = contiguous(found).reshape(form)
        if in_order(reduction):
            partial = reduce_blocks(KINDS[reduction.kind], form, partial)
        found = _from_form(reduction, form, partial)
    return contiguous(found).reshape(kept_shape(shape, reduction.axes))


def _from_form(reduction: Reduction, form: Form, partial: Any) -> Any:
    """Reduce the results of the blocks of a form, or its elements: to (outer, inner)."""
    if partial.shape[1] == 1:
        return partial[:, 0]
    if not in_order(reduction):
        return _in_any_order(reduction, partial, (1,), one_zero=True)
    ufunc = KINDS[reduction.kind]
    return columns(ufunc, partial) if form.inner > 1 else ufunc.reduce(partial, axis=1)


def in_order(reduction: Reduction) -> bool:
    """Return whether the result depends on the order."""
    return reduction.kind in ("sum", "prod") and reduction.dtype.kind in "fc"


def _in_any_order(
    reduction: Reduction, values: Any, axes: tuple[int, ...], one_zero: bool
) -> Any:
    kind, _, dtype, _ = reduction
    of: Any = None  # as the values are
    if dtype.kind in "biu" or not values.size:
        of = dtype.type if dtype.kind in "mM" else dtype
    found = KINDS[kind].reduce(values, axis=axes, keepdims=True, dtype=of)
    if one_zero and kind.endswith(("min", "max")) and dtype in (np.float32, np.float64):
        zero = found == 0
        if zero.any():  # of zeros of both signs, NumPy gives the one that its order comes to
            if kind[0] == "f":
                values = np.where(np.isnan(values), np.inf if kind == "fmin" else -np.inf, values)
            bits = values.view(f"i{dtype.itemsize}")
            signs = KINDS[kind].reduce(bits, axis=axes, keepdims=True)
            found = np.where(zero, np.copysign(found, signs, dtype=dtype), found)
    return found


def merge_reduced(reduction: Reduction, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Reduce partial results, all of one shape, elementwise in the order of `columns`."""
    stack = np.stack([part.reshape(-1) for part in parts])[None]
    return contiguous(columns(KINDS[reduction.kind], stack).reshape(parts[0].shape))


# -- moments ------------------------------------------------------------------------------
#
# Counts, means and sums of squared distances to the mean, in the one order of reductions.
#
# In each block the mean comes first, then, the block being in the cache still, the
# squares of the distances to it. Means are merged sixteen at once by the formula of Chan, Golub and
# LeVeque (1979) for many parts.


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
