"""NumPy's own functions along axes that are one chunk for that.

A task sees whole axes here, so these must fit in memory. Blocks are made shorter along the other
axes, to stay below eight times ``config.chunk_bytes``, or below the largest block that there is
(`whole_along`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import TreeReduction, kept_axes, tree, whole_along


@dataclass(frozen=True)
class NumpyOp(TreeReduction):
    """A function of NumPy's, called with a block and with what every task gets, or with blocks.

    keywords
        Of each call, as pairs.
    """

    func: Any
    keywords: tuple[tuple[str, Any], ...]

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return str(self.func.__name__)

    def first(self, block: Any, *others: Any) -> Any:
        return np.asarray(self.func(block, *others, **dict(self.keywords)))

    def __call__(self, *blocks: Any) -> Any:
        return self.first(*blocks)


def along_axis(op: TreeReduction, node: Expr, axis: int, dtype: Any) -> Expr:
    """Return what an operation that keeps the shape makes of a node along one axis."""
    layout = tuple([(n,) if k == axis else k for k, n in enumerate(node.shape)])
    return tree(op, [whole_along(node, (axis,))], layout, dtype)


def over_axes(
    op: TreeReduction, inputs: Sequence[Expr], axes: tuple[int, ...], keepdims: bool, dtype: Any
) -> Expr:
    """Return a reduction over axes that are put into one chunk first."""
    layout = kept_axes(inputs[0].ndim, axes, keepdims)
    return tree(op, [whole_along(x, axes) for x in inputs], layout, dtype)
