"""Where extremes are, and reductions by any ufunc."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node, known
from lazyflow.array.dispatch import helper, implements
from lazyflow.array.functions.ufuncs import counting, into, stretched
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.moments import axes_of, count_over, keeps, without_empty
from lazyflow.array.nodes.tree import Op, kept_axes, tree, whole_along

_MISSING: Any = np._NoValue


def result(node: Expr, out: Any, casting: str = "same_kind") -> Array:
    """Return an array of a node, or `out` once it is that."""
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        return Array(node)
    found: Array = into(out, node, casting)
    return found


# -- argmin and its like ------------------------------------------------------------------------


@dataclass(frozen=True)
class ArgExtreme(Op):
    """Finds the place of the first extreme: values and places of blocks, the first best wins.

    func
        np.argmin or np.argmax, which say what is best, NaN included.
    axis
        None: places are those of the raveled whole, of this shape.
    fill
        What NaN are taken for, or None: NaN win.
    """

    func: Any
    axis: int | None
    shape: tuple[int, ...]
    keepdims: bool
    fill: float | None

    placed = True

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return f"{'' if self.fill is None else 'nan'}{self.func.__name__}"

    def first(self, where: Any, block: Any) -> Any:
        numbers = True
        if self.fill is not None and block.dtype.kind in "fcO":
            is_nan = np.not_equal(block, block, dtype=bool)
            numbers = ~is_nan.all(axis=self.axis, keepdims=True)
            block = np.where(is_nan, np.asarray(self.fill).astype(block.dtype), block)
        if self.axis is not None:
            at = self.func(block, axis=self.axis, keepdims=True)
            best = np.take_along_axis(block, at, self.axis)
            return best, at + where.regions[self.axis], numbers
        at = np.unravel_index(self.func(block), block.shape)
        place = [i + start for i, start in zip(at, where.regions, strict=True)]
        flat = np.ravel_multi_index(place, self.shape) if self.shape else np.intp(0)
        return np.asarray(block[at]).reshape(1), np.reshape(flat, 1), np.reshape(numbers, 1)

    def merge(self, parts: Sequence[Any]) -> Any:
        axis = self.axis or 0
        best, at, numbers = zip(*parts, strict=True)
        bests, ats = np.concatenate(best, axis), np.concatenate(at, axis)
        if self.axis is None:
            order = np.argsort(ats)
            bests, ats = bests[order], ats[order]
        first = self.func(bests, axis=axis, keepdims=True)
        any_number = np.logical_or.reduce(np.broadcast_arrays(*numbers))
        return (
            np.take_along_axis(bests, first, axis), np.take_along_axis(ats, first, axis),
            any_number,
        )

    def last(self, part: Any) -> Any:
        _, at, numbers = part
        if not np.all(numbers):
            raise ValueError("All-NaN slice encountered")
        if self.axis is None:
            return at.reshape((1,) * len(self.shape) if self.keepdims else ()).astype(np.intp)
        return (at if self.keepdims else at.squeeze(self.axis)).astype(np.intp, copy=False)


def _arg(
    func: Any, a: Any, axis: Any, out: Any, keepdims: Any, fill: float | None = None
) -> Array:
    known(a)
    node = as_node(a)
    if axis is not None:
        axis = operator.index(axis)
    axes = axes_of(axis, node.ndim)
    if axis is not None:
        axis = axes[0] if axes else None
    if node.dtype.kind == "V":
        raise TypeError("data type not ordered")
    if count_over(node, axes) == 0:
        raise ValueError(f"attempt to get {func.__name__} of an empty sequence")
    if axis is not None and 0 in node.shape:
        at: Expr = constant(0, np.intp)
        shape = [1 if k == axis else n for k, n in enumerate(node.shape)]
        if not keeps(keepdims):
            del shape[axis]
        return result(stretched(at, tuple(shape)), out)
    node = without_empty(node, axes)
    whole: Any = () if axis is not None else node.shape
    op = ArgExtreme(func, axis, whole, keeps(keepdims), fill)
    return result(tree(op, [node], kept_axes(node.ndim, axes, keeps(keepdims)), np.intp), out)


@implements(np.argmin)
def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    """Return where the smallest element is; parameters are those of ``np.argmin``.

    >>> import lazyflow.array as la
    >>> int(la.argmin(la.asarray([3, 1, 2, 1])).compute())
    1
    """
    return _arg(np.argmin, a, axis, out, keepdims)


@implements(np.argmax)
def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    """Return where the largest element is; parameters are those of ``np.argmax``."""
    return _arg(np.argmax, a, axis, out, keepdims)


@implements(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    """Return where the smallest element is that is not NaN."""
    return _arg(np.argmin, a, axis, out, keepdims, np.inf)


@implements(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    """Return where the largest element is that is not NaN."""
    return _arg(np.argmax, a, axis, out, keepdims, -np.inf)


# -- any ufunc ----------------------------------------------------------------------------------

#: Ufuncs whose results of blocks can be combined by themselves.
ASSOCIATIVE = frozenset({
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or,
    np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm, np.logaddexp,
    np.logaddexp2, np.hypot,
})


@dataclass(frozen=True)
class ByUfunc(Op):
    """``ufunc.reduce`` over axes; `dtype` and `initial` as given to NumPy."""

    ufunc: np.ufunc
    axes: tuple[int, ...]
    dtype: Any
    keepdims: bool
    initial: Any

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return f"{self.ufunc.__name__}.reduce"

    def first(self, block: Any, mask: Any = None) -> Any:
        options: dict[str, Any] = {} if self.initial is _MISSING else {"initial": self.initial}
        if mask is not None:
            options["where"] = mask
        found = self.ufunc.reduce(
            block, axis=self.axes, dtype=self.dtype, keepdims=True, **options
        )
        return np.asarray(found)

    def merge(self, parts: Sequence[Any]) -> Any:
        found = parts[0]
        for part in parts[1:]:
            found = self.ufunc(found, part, dtype=self.dtype)
        return found

    def last(self, part: Any) -> Any:
        return part if self.keepdims else part.squeeze(self.axes)


@helper()
def ufunc_reduce(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: Any = False, initial: Any = _MISSING, where: Any = True,
) -> Array:
    """Return ``ufunc.reduce(x, ...)``; parameters are those of NumPy's.

    Ufuncs that are not associative, like ``np.subtract``, and those with `initial`, take the
    axes as one chunk.
    """
    known(x, where)
    node = as_node(x)
    axes = axes_of(axis, node.ndim)
    masked = where is not True and where is not _MISSING
    # NumPy's own checks, and its type of the result, on as few elements as can be
    shape = [min(n, 2) if k in axes else 1 for k, n in enumerate(node.shape)]  # type: ignore
    given = {} if initial is _MISSING else {"initial": initial}
    if masked:
        given["where"] = np.ones((1,) * node.ndim, bool)
    count = 0 if node.dtype.hasobject else 1  # of results: nothing is known of what objects can do
    kind = ufunc.reduce(
        np.ones((count, *shape), node.dtype), axis=tuple([k + 1 for k in axes]), dtype=dtype,
        **given,
    ).dtype
    inputs = [node]
    if masked:
        inputs.append(counting(where, node.shape))
    by_blocks = (
        ufunc in ASSOCIATIVE and initial is _MISSING and bool(count_over(node, axes))
        and not (masked and ufunc.identity is None)
        and not (ufunc is np.multiply and kind.kind == "c")
    )
    if by_blocks and node.dtype.kind in "cO" and any(node.numblocks[k] > 1 for k in axes[1:]):
        # axis by axis: so NaN and what is equal meet in C order, which says what is taken
        inner = ufunc_reduce(ufunc, x, axes[-1], dtype, None, True, initial, where)
        found = ufunc_reduce(ufunc, inner, axes[:-1], None, None, True)
        if not keeps(keepdims):
            found = found[tuple([0 if k in axes else slice(None) for k in range(node.ndim)])]
        return result(found.expr, out)
    inputs = [without_empty(x, axes) if by_blocks else whole_along(x, axes) for x in inputs]
    op = ByUfunc(ufunc, axes, dtype, keeps(keepdims), initial)
    made = tree(op, inputs, kept_axes(node.ndim, axes, keeps(keepdims)), kind)
    return result(made, out)
