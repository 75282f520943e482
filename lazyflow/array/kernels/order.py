"""Kinds of reductions, and the one order in which they go through values.

The order depends on the shape of the block alone, not on its values or on threads.

A reduction is brought to rounds of the form (kept, reduced, kept): `Form`. Sums and products of
floats are reduced by blocks within the outer kept indices, and then from block to block::

    kind      a block                          within it            then
    rows      2,048 of the reduced elements    NumPy's own order    the blocks, as one block
    columns   16 of the reduced elements,      one by one           a tree: 16 results of a
              for all inner kept ones                               level are one of the next

`Kind.write_blocks` is what reads the values; generated kernels do it in registers, merge columns
while they go on, and get the same bits. `from_blocks` does the rest. The error is like that of a
pairwise sum: a handful of roundings in sequence a level. Whole numbers, extremes and truth don't
depend on the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

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
    forms = []
    inner = 1
    while runs:
        reduced, length = runs.pop()
        if reduced:
            outer = 1
            for _, other in runs:
                outer *= other
            forms.append(Form(outer, length, inner))
        else:
            inner *= length
    return tuple(forms) or (Form(inner, 1, 1),)


def in_blocks(form: Form, values: Any) -> Iterator[tuple[slice, Any]]:
    """Yield places of blocks and their values: the full blocks at once, then the last one.

    Contiguous values get the form (outer, blocks, elements, inner).
    """
    values = values.reshape(form.outer, form.length, form.inner)
    full = form.length // form.size
    cut = full * form.size
    if full:
        yield slice(full), values[:, :cut].reshape(form.outer, full, form.size, form.inner)
    if cut < form.length:
        yield slice(full, None), values[:, None, cut:]


def contiguous(array: Any) -> Any:
    """Return the array, or a copy, in C order; 0-d ones stay 0-d."""
    return np.asarray(array, order="C")


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with reduced axes of length 1."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


# -- kinds of reductions ------------------------------------------------------------------


class Kind:
    """A kind of reduction: how partial results are made of values, and how these are merged.

    This class reduces by a ufunc; subclasses override the steps of other kinds.

    Attributes
    ----------
    parts
        The first axes of a partial result, before those of the value: () or (3,) of moments.
    ordered
        Kinds of dtypes whose values give a result that depends on their order.
    on_the_way
        Results are written in C order during the pass over a block.
    rows_in_tree
        Blocks of rows are merged as those of columns are: in the tree, not as one block.
    adds_to_zero
        It begins at 0, so that the result of -0.0 alone is 0.0.
    lanes
        The results that NumPy's functions make beside each other along a row of floats.
    reported_name
        The operation in NumPy's warnings.
    """

    parts: tuple[int, ...] = ()
    ordered = "fc"
    on_the_way = False
    rows_in_tree = False
    adds_to_zero = False
    lanes = 1
    reported_name = "reduce"

    def __init__(self, name: str, ufunc: Any = None) -> None:
        self.__name__ = name
        self.ufunc = ufunc

    def __reduce__(self) -> str:
        return self.__name__.upper()  # the name below: kinds are compared by identity

    @property
    def total(self) -> Kind:
        """The kind of the first results of a block: for moments, sums."""
        return self

    def identity(self, dtype: np.dtype[Any]) -> Any:
        """Return the neutral element for a dtype, or None."""
        return dtype.type(self.ufunc.identity) if dtype.kind in "biufc" else None

    def in_order(self, dtype: np.dtype[Any]) -> bool:
        """Return whether the result depends on the order of values of a dtype."""
        return dtype.kind in self.ordered

    def partial_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of partial results for values of a dtype."""
        return dtype

    def new_partial(self, form: Form, dtype: np.dtype[Any], masked: bool) -> Any:
        """Return the array for the results of blocks: (*parts, outer, blocks, inner)."""
        return np.empty(form.partial, dtype)

    def write_blocks(self, values: Any, mask: Any, into: Any) -> None:
        """Write the results of blocks: of (outer, blocks, elements, inner), without elements."""
        self.ufunc.reduce(values, axis=2, out=into)

    def merge_level(self, stack: Any, into: Any) -> None:
        """Write what rows come to one by one: of (*parts, ..., n, c), without n."""
        self.ufunc.reduce(stack, axis=-2, out=into)

    def merge_rows(self, stack: Any) -> Any:
        """Merge (*parts, k, n, c) to (*parts, k, c): sixteen of a level are one of the next."""
        *outer, n, c = stack.shape
        while n > 1:
            full, rest = divmod(n, GROUP) if n > GROUP else (0, n)
            up = np.empty((*outer, full + (rest > 0), c), stack.dtype)
            if full:
                groups = stack[..., : full * GROUP, :].reshape(*outer, full, GROUP, c)
                self.merge_level(groups, up[..., :full, :])
            if rest:
                self.merge_level(stack[..., full * GROUP :, :], up[..., full, :])
            stack, n = up, up.shape[-2]
        return stack[..., 0, :]

    def reduce_whole(self, reduction: Reduction, values: Any, mask: Any, one_zero: bool) -> Any:
        """Reduce an array of the partial results' dtype; the reduced axes stay with length 1.

        one_zero
            Whether an extreme's choice of 0.0 or -0.0 must not depend on the order.
        """
        if not values.size or not self.in_order(values.dtype):
            return contiguous(self.in_any_order(values, reduction.axes, one_zero))
        form = rounds(values.shape, reduction.axes)[0]
        partial = self.new_partial(form, values.dtype, mask is not None)
        masks = None if mask is None else in_blocks(form, contiguous(mask))
        for where, blocks in in_blocks(form, contiguous(values)):
            own = None if masks is None else next(masks)[1]
            self.write_blocks(blocks, own, partial[..., where, :])
        return from_blocks(reduction, values.shape, partial)

    def in_any_order(self, values: Any, axes: tuple[int, ...], one_zero: bool) -> Any:
        """Reduce values in any order; `one_zero` as of `reduce_whole`."""
        dtype = values.dtype
        of: Any = None  # as the values are
        if dtype.kind in "biu" or not values.size:
            of = dtype.type if dtype.kind in "mM" else dtype
        return self.ufunc.reduce(values, axis=axes, keepdims=True, dtype=of)


class Sum(Kind):
    """Sums: NumPy adds the elements of a row to 0, in eight lanes."""

    adds_to_zero = True
    lanes = 8


class Extreme(Kind):
    """Extremes, for which -0.0 is less than 0.0 wherever they lie.

    least
        The least of the values is wanted, or the largest.
    skips_nan
        NaN are left out.
    """

    ordered = ""

    def __init__(self, name: str, ufunc: np.ufunc, least: bool, skips_nan: bool) -> None:
        super().__init__(name, ufunc)
        self.least = least
        self.skips_nan = skips_nan

    def identity(self, dtype: np.dtype[Any]) -> Any:
        if dtype.kind not in ("f" if self.skips_nan else "biuf"):
            return None
        if dtype.kind == "b":
            return dtype.type(self.least)
        if dtype.kind == "f":
            return dtype.type(np.nan if self.skips_nan else np.inf if self.least else -np.inf)
        limits = np.iinfo(dtype)
        return dtype.type(limits.max if self.least else limits.min)

    def in_any_order(self, values: Any, axes: tuple[int, ...], one_zero: bool) -> Any:
        found, dtype = super().in_any_order(values, axes, one_zero), values.dtype
        if one_zero and dtype in (np.float32, np.float64):
            zero = found == 0
            if zero.any():  # of zeros of both signs, NumPy gives the one that its order comes to
                if self.skips_nan:
                    values = np.where(np.isnan(values), np.inf if self.least else -np.inf, values)
                bits = values.view(f"i{dtype.itemsize}")
                signs = self.ufunc.reduce(bits, axis=axes, keepdims=True)
                found = np.where(zero, np.copysign(found, signs, dtype=dtype), found)
        return found


class Moments(Sum):
    """Counts, means and sums of squared distances to the mean, in the one order of reductions.

    In each block the mean comes first, then, the block being in the cache still, the squares of the
    distances to it. Means are merged sixteen at once by the formula of Chan, Golub and LeVeque
    (1983) for many parts.
    """

    parts = (3,)
    ordered = "fcmO"  # all that `partial_dtype` gives
    rows_in_tree = True
    reported_name = "subtract"  # of the mean

    @property
    def total(self) -> Kind:
        return SUM

    def partial_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of partial results for values of a dtype: at least double precision.

        >>> MOMENTS.partial_dtype(np.dtype("f4")), MOMENTS.partial_dtype(np.dtype("c8"))
        (dtype('float64'), dtype('complex128'))
        """
        return dtype if dtype.kind not in "biufc" else np.result_type(dtype, np.float64)

    def new_partial(self, form: Form, dtype: np.dtype[Any], masked: bool) -> Any:
        """Return the array for the moments of blocks: zeros, and the counts if they are known."""
        found = np.zeros((3, *form.partial), dtype)
        if not masked:
            found[0] = form.size
            found[0, :, -1] = (form.length - 1) % form.size + 1
        return found

    def write_blocks(self, values: Any, mask: Any, into: Any) -> None:
        if mask is not None:
            into[0] = np.add.reduce(mask, axis=2, dtype=np.int64)
            values = np.where(mask, values, np.zeros((), values.dtype))
        np.add.reduce(values, axis=2, out=into[1])
        into[1] /= into[0] if mask is None else np.where(into[0] == 0, 1, into[0])
        squares = _squares(values - into[1][:, :, None])
        if mask is not None:
            squares = np.where(mask, squares, np.zeros((), values.dtype))
        np.add.reduce(squares, axis=2, out=into[2])

    def merge_level(self, stack: Any, into: Any) -> None:
        _, *outer, n, c = stack.shape
        into[...] = _merge(*stack.reshape(3, prod(outer), n, c)).reshape(into.shape)

    def merge_rows(self, stack: Any) -> Any:
        if stack.shape[-1] == 1 and stack.shape[-2] > 1:  # which NumPy would add up in lanes
            return self.merge_rows(np.concatenate([stack, stack], axis=-1))[..., :1]
        with np.errstate(all="ignore"):  # the blocks have reported already
            return super().merge_rows(stack)

    def in_any_order(self, values: Any, axes: tuple[int, ...], one_zero: bool) -> Any:
        return np.zeros((3, *kept_shape(values.shape, axes)), values.dtype)  # of no values


class LastOfScan(Kind):
    """The last results of a scan along the axis."""

    ordered = ""
    on_the_way = True

    def reduce_whole(self, reduction: Reduction, values: Any, mask: Any, one_zero: bool) -> Any:
        return contiguous(values.take([-1], reduction.axes[0]))


class ChosenElements(Kind):
    """The elements that the mask selects, of all axes, in C order: of one axis."""

    ordered = ""
    on_the_way = True

    def reduce_whole(self, reduction: Reduction, values: Any, mask: Any, one_zero: bool) -> Any:
        return compressed(values, mask)


SUM = Sum("sum", np.add)
PROD = Kind("prod", np.multiply)
MIN = Extreme("min", np.minimum, least=True, skips_nan=False)
MAX = Extreme("max", np.maximum, least=False, skips_nan=False)
FMIN = Extreme("fmin", np.fmin, least=True, skips_nan=True)
FMAX = Extreme("fmax", np.fmax, least=False, skips_nan=True)
ANY = Kind("any", np.logical_or)
ALL = Kind("all", np.logical_and)
MOMENTS = Moments("moments", np.add)
LAST = LastOfScan("last")
CHOSEN = ChosenElements("chosen")

#: All kinds, by name.
KINDS = {
    kind.__name__: kind
    for kind in (SUM, PROD, MIN, MAX, FMIN, FMAX, ANY, ALL, MOMENTS, LAST, CHOSEN)
}


class Reduction(NamedTuple):
    """A reduction of a value over some axes, which stay with length 1 in the result.

    axes
        Axes of the program's shape, sorted.
    dtype
        The value is cast to it first ("any" and "all": bool).
    mask
        The number of a boolean value that selects the elements, or None. Only for moments and
        chosen elements: for the other kinds, WHERE with a neutral element does the same.
    together
        How many partial results are merged at a time; None: as many as in all other trees.
    """

    kind: Kind
    axes: tuple[int, ...]
    dtype: np.dtype[Any]
    mask: int | None = None
    together: int | None = None


def reduces(kind: Kind | None) -> bool:
    """Tell whether an output is reduced tile by tile, rather than written during the pass."""
    return kind is not None and not kind.on_the_way


#: Ufuncs whose scans have a neutral element, and its reductions.
_SCANS = {kind.ufunc: kind for kind in (SUM, PROD, MIN, MAX, FMIN, FMAX)}


def neutral(ufunc: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """Return the neutral element of a ufunc, which also keeps the sign of zeros, or None.

    >>> neutral(np.add, np.dtype("f8")), neutral(np.hypot, np.dtype("f8"))
    (np.float64(-0.0), None)
    """
    if ufunc not in _SCANS or dtype.kind not in "biuf":
        return None
    found = _SCANS[ufunc].identity(dtype)
    return -found if dtype.kind == "f" and not found else found


def from_blocks(reduction: Reduction, shape: tuple[int, ...], partial: Any) -> np.ndarray:
    """Return the result for an array of a shape from those of the first round's blocks."""
    kind = reduction.kind
    first, *more = rounds(shape, reduction.axes)
    found = _from_form(kind, first, partial)
    for form in more:
        found = _from_form(kind, form, contiguous(found).reshape(*kind.parts, *form))
    return contiguous(found).reshape((*kind.parts, *kept_shape(shape, reduction.axes)))


def _from_form(kind: Kind, form: Form, partial: Any) -> Any:
    """Reduce the results of the blocks of a form, or its elements: to (*parts, outer, inner)."""
    if partial.shape[-2] == 1:
        return partial[..., 0, :]
    if not kind.in_order(partial.dtype):
        return kind.in_any_order(partial, (1,), one_zero=True)
    if form.inner > 1 or kind.rows_in_tree:
        return kind.merge_rows(partial)
    return kind.ufunc.reduce(partial, axis=1)


def merge_parts(reduction: Reduction, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Merge partial results, all of one shape, elementwise in the order of `Kind.merge_rows`."""
    kind = reduction.kind
    stack = np.stack(parts, axis=len(kind.parts)).reshape(*kind.parts, 1, len(parts), -1)
    return contiguous(kind.merge_rows(stack)).reshape(parts[0].shape)


_PIECE = 1 << 18  # elements of a block that are chosen at once


def compressed(values: Any, mask: Any) -> Any:
    """Return the elements that a mask of the same shape chooses, of one axis.

    It takes half of the time of NumPy's indexing, and no 8 bytes for the place of each element.
    """
    values, mask = values.reshape(-1), mask.reshape(-1)
    if mask.size <= _PIECE:
        return np.compress(mask, values)
    found = np.empty(np.count_nonzero(mask), values.dtype)
    filled = 0
    for low in range(0, mask.size, _PIECE):
        at = np.flatnonzero(mask[low:low + _PIECE])
        into = found[filled:filled + at.size]
        np.take(values[low:low + _PIECE], at, out=into, mode="clip")  # "raise" copies `into`
        filled += at.size
    return found


# -- the formulas of moments --------------------------------------------------------------


def _squares(distances: Any) -> Any:
    """Return the squares of distances, written over them where they are real."""
    if distances.dtype.kind == "c":
        return (distances.real**2 + distances.imag**2).astype(distances.dtype)
    return np.multiply(distances, distances, out=distances)


def _merge(counts: Any, means: Any, spreads: Any) -> Any:
    """Merge counts, means and squares of (k, n, c) to (3, k, c)."""
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
