"""The one order in which values are reduced, which depends on the shape of the block alone.

A reduction is brought to rounds of the form (kept, reduced, kept): `Form`. Within one, for each
of the outer kept indices, the elements in C order lie in lanes, and 16 rows of lanes are a block::

    kind      lanes                           block        then
    columns   the inner kept elements         16 rows      a tree: 16 results of a level, one by
                                                           one, are one of the next
    rows      16, 256 or 4,096 of the reduced 16 x lanes   the lanes of each block by NumPy's own
              elements: what 16 rows cover                 reduction (pairwise), then the blocks

The first part (`partial_blocks`) is what reads the values: each lane of each block is reduced one
by one, so generated kernels do it with vector registers and get the same bits. `finish` does the
rest. The error is like that of a pairwise sum: a handful of roundings in sequence a level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from lazyflow.array.kernels.lowering import KINDS
from lazyflow.array.kernels.program import Reduction

GROUP = 16  # rows of lanes in a block, and parts that are merged at once


@dataclass(frozen=True)
class Form:
    """One round of a reduction: (outer, length, inner) to (outer, inner)."""

    outer: int
    length: int
    inner: int

    @cached_property
    def lanes(self) -> int:
        """The number of elements that are reduced side by side."""
        if self.inner > 1:
            return self.inner
        wide = 16 if self.length <= 256 else 256 if self.length <= 4096 else 4096
        return min(wide, self.length)

    @cached_property
    def elements(self) -> int:
        """The number of elements of an outer index."""
        return self.length * self.inner

    @cached_property
    def block(self) -> int:
        """The number of elements of a block; the last block of an outer index may have fewer."""
        return GROUP * self.lanes

    @cached_property
    def blocks(self) -> int:
        """The number of blocks of an outer index."""
        return -(-self.elements // self.block)


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
    if dtype.kind == "b":
        return dtype.type(kind == "min")
    if dtype.kind == "f":
        return dtype.type(np.inf if kind == "min" else -np.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if kind == "min" else limits.min)


def reduce_blocks(ufunc: np.ufunc, lanes: int, values: Any, into: Any) -> None:
    """Reduce the lanes of blocks, the last of them perhaps short: (k, n) to (k, blocks, lanes)."""
    k, count = values.shape
    full, rest = divmod(count, GROUP * lanes)
    if full:
        stack = values[:, : count - rest].reshape(k, full, GROUP, lanes)
        ufunc.reduce(stack, axis=2, out=into[:, :full])
    if not rest:
        return
    tail, last = values[:, count - rest :], into[:, full]
    rows, over = divmod(rest, lanes)
    if rows:
        stack = tail[:, : rows * lanes].reshape(k, rows, lanes)
        ufunc.reduce(stack, axis=1, out=last)
    if over and rows:
        ufunc(last[:, :over], tail[:, -over:], out=last[:, :over])
    elif over:
        last[:, :over] = tail


def partial_blocks(ufunc: np.ufunc, form: Form, values: Any) -> Any:
    """Reduce the lanes of all blocks of contiguous values: to (outer, blocks, lanes)."""
    into = np.empty((form.outer, form.blocks, form.lanes), values.dtype)
    reduce_blocks(ufunc, form.lanes, values.reshape(form.outer, form.elements), into)
    return into


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


def finish(ufunc: np.ufunc, form: Form, partial: Any) -> Any:
    """Reduce the lanes of blocks to one result: (outer, blocks, lanes) to (outer, inner)."""
    if form.inner > 1:
        return columns(ufunc, partial)
    over = form.elements - (form.blocks - 1) * form.block
    # NumPy would make sums of short integers longer ones
    dtype = partial.dtype if partial.dtype.kind in "biu" else None
    if form.blocks == 1:
        return ufunc.reduce(partial[:, 0], axis=1, dtype=dtype)[:, None]
    sums = np.empty(partial.shape[:2], partial.dtype)
    ufunc.reduce(partial[:, :-1], axis=2, out=sums[:, :-1])
    ufunc.reduce(partial[:, -1, : min(over, form.lanes)], axis=1, out=sums[:, -1])
    return ufunc.reduce(sums, axis=1, dtype=dtype)[:, None]


def contiguous(array: Any) -> Any:
    """Return the array, or a copy, in C order; 0-d ones stay 0-d."""
    return np.asarray(array, order="C")


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with reduced axes of length 1."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def rest_of_rounds(ufunc: np.ufunc, forms: Sequence[Form], result: Any) -> Any:
    """Return the result of the rounds after the first."""
    for form in forms:
        result = finish(ufunc, form, partial_blocks(ufunc, form, contiguous(result)))
    return result


def reduce_whole(reduction: Reduction, values: Any) -> Any:
    """Reduce a contiguous array of the reduction's dtype; the reduced axes stay with length 1."""
    ufunc = KINDS[reduction.kind]
    forms = rounds(values.shape, reduction.axes)
    if not values.size:
        dtype = reduction.dtype.type if reduction.dtype.kind in "mM" else reduction.dtype
        return ufunc.reduce(values, axis=reduction.axes, keepdims=True, dtype=dtype)
    result = rest_of_rounds(ufunc, forms, values)
    return result.reshape(kept_shape(values.shape, reduction.axes))


def merge_reduced(reduction: Reduction, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Reduce partial results, all of one shape, elementwise in the order of `columns`."""
    stack = np.stack(parts).reshape(1, len(parts), -1)
    return contiguous(columns(KINDS[reduction.kind], stack).reshape(parts[0].shape))
