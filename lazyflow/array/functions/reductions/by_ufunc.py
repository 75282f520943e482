"""``ufunc.reduce`` and ``ufunc.accumulate`` of any ufunc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.evaluation import known
from lazyflow.array.functions.arguments import (
    MISSING,
    as_array,
    as_result,
    check_out,
    node_and_mask,
    out_dtype,
)
from lazyflow.array.functions.one_chunk import along_axis, over_axes
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import (
    TreeReduction,
    axes_of,
    axis_of,
    count_over,
    keeps,
    kept_axes,
    tree,
    without_empty,
)
from lazyflow.array.nodes.scan import scan

#: Ufuncs that can combine their own results of blocks.
ASSOCIATIVE = frozenset({
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or,
    np.logical_xor, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm, np.logaddexp,
    np.logaddexp2, np.hypot,
})


@dataclass(frozen=True)
class ByUfunc(TreeReduction):
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
        options: dict[str, Any] = {} if self.initial is MISSING else {"initial": self.initial}
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


def dtype_with_out(ufunc: np.ufunc, dtype: Any, given: np.dtype[Any], out: Any) -> Any:
    """Return the dtype in which NumPy reduces or scans: that of both, where only `out` has one."""
    wanted = out_dtype(out)
    if dtype is not None or wanted is None or wanted.hasobject or given.hasobject:
        return dtype
    *_, found = ufunc.resolve_dtypes((wanted, given, None), casting="unsafe", reduction=True)
    return None if found.kind in "mM" else found  # which have a unit, that dtype= can't have


def ufunc_reduce(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: Any = False, initial: Any = MISSING, where: Any = True,
) -> Array:
    """Return ``ufunc.reduce(x, ...)``; parameters are those of NumPy's.

    Ufuncs that are not associative, like ``np.subtract``, and those with `initial`, take the
    axes as one chunk.
    """
    known(x, where)
    node, mask = node_and_mask(x, where)
    axes = axes_of(axis, node.ndim)
    check_out(ufunc.reduce, node.dtype, out, dtype=dtype)
    dtype = dtype_with_out(ufunc, dtype, node.dtype, out)
    found_dtype = _dtype_of_reduce(ufunc, node, axes, dtype, initial, mask)
    by_blocks = (
        ufunc in ASSOCIATIVE and initial is MISSING and bool(count_over(node, axes))
        and (mask is None or ufunc.identity is not None)
        and not (ufunc is np.multiply and found_dtype.kind == "c")
    )
    if by_blocks and node.dtype.kind in "cO" and any(node.numblocks[k] > 1 for k in axes[1:]):
        # axis by axis, so that NaN and equal elements meet in C order, which decides among them
        inner = ufunc_reduce(ufunc, x, axes[-1], dtype, None, True, initial, where)
        found = ufunc_reduce(ufunc, inner, axes[:-1], None, None, True)
        if not keeps(keepdims):
            found = found[tuple([0 if k in axes else slice(None) for k in range(node.ndim)])]
        return as_result(found.expr, out, "unsafe")
    op = ByUfunc(ufunc, axes, dtype, keeps(keepdims), initial)
    inputs = [node] if mask is None else [node, mask]
    if not by_blocks:
        made = over_axes(op, inputs, axes, keeps(keepdims), found_dtype)
        return as_result(made, out, "unsafe")
    inputs = [without_empty(each, axes) for each in inputs]
    layout = kept_axes(node.ndim, axes, keeps(keepdims))
    return as_result(tree(op, inputs, layout, found_dtype), out, "unsafe")


def _dtype_of_reduce(
    ufunc: np.ufunc, node: Expr, axes: tuple[int, ...], dtype: Any, initial: Any,
    mask: Expr | None,
) -> np.dtype[Any]:
    """Return the dtype of NumPy's result for as few elements as can be, after its checks."""
    given = {} if initial is MISSING else {"initial": initial}
    if mask is not None:
        given["where"] = np.ones((1,) * node.ndim, bool)
    count = 0 if node.dtype.hasobject else 1  # of results: nothing is known of what objects can do
    shape: list[Any] = [min(n or 0, 2) if k in axes else 1 for k, n in enumerate(node.shape)]
    few = np.ones((count, *shape), node.dtype)
    found: np.dtype[Any] = ufunc.reduce(
        few, axis=tuple([k + 1 for k in axes]), dtype=dtype, **given
    ).dtype
    return found


@dataclass(frozen=True)
class Accumulate(TreeReduction):
    """``ufunc.accumulate`` along an axis in one chunk."""

    ufunc: np.ufunc
    axis: int
    dtype: Any

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return f"{self.ufunc.__name__}.accumulate"

    def first(self, block: Any) -> Any:
        return self.ufunc.accumulate(block, axis=self.axis, dtype=self.dtype)


def ufunc_accumulate(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, *,
    method: str = "sequential",
) -> Array:
    """Return ``ufunc.accumulate(array, ...)``; parameters are those of NumPy's.

    method
        How blocks get what is before them: one after the other ("sequential"), or by a tree
        ("blelloch"). Either way all blocks are scanned at the same time.
    """
    if method not in ("sequential", "blelloch"):
        raise ValueError(f"method must be 'sequential' or 'blelloch'; got {method!r}")
    x = as_array(array).with_known_sizes()
    node = x.expr
    if node.ndim == 0:
        raise TypeError("cannot accumulate on a scalar")
    axis = axis_of(axis, node.ndim)
    check_out(ufunc.reduce, node.dtype, out, dtype=dtype)
    dtype = dtype_with_out(ufunc, dtype, node.dtype, out)
    found = ufunc.accumulate(np.ones((1,) * node.ndim, node.dtype), dtype=dtype).dtype
    ordered = found.hasobject or (ufunc is np.multiply and found.kind == "c")
    if ufunc in ASSOCIATIVE and not ordered:  # of which NaN, zeros and rounding depend on the order
        return as_result(scan(node, ufunc, axis, found, method == "blelloch"), out, "unsafe")
    return as_result(along_axis(Accumulate(ufunc, axis, dtype), node, axis, found), out, "unsafe")
