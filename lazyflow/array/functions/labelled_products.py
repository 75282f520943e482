"""Products of two nodes whose axes have labels, summed over some of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.contraction import Labels, contraction
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import reduced, whole_along
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import view


def product(
    one: Expr, first: Labels, other: Expr, second: Labels, out: Labels, dtype: Any
) -> Expr:
    """Return the product of two nodes, summed over labels that are not in `out`.

    Labels stand once in each; lengths are equal, or 1 in one of both.
    """
    dtype = np.dtype(dtype)
    of_one = dict(zip(first, one.shape, strict=True))
    of_other = dict(zip(second, other.shape, strict=True))
    one, first = _narrow(one, first, of_other)
    other, second = _narrow(other, second, of_one)
    one, first = summed(one, first, (*second, *out), dtype)
    other, second = summed(other, second, (*first, *out), dtype)
    away = [label for label in first if label not in out]
    shared = set(first) & set(second)
    if away and not shared.issuperset({*first, *second}):
        return contraction(one, other, (first, second, out), dtype)
    whole = (*out, *away)
    (made,) = elementwise.ufunc(np.multiply, (
        elementwise.cast(_laid_out(one, first, whole), dtype),
        elementwise.cast(_laid_out(other, second, whole), dtype),
    ))
    return summed(made, whole, out, dtype)[0]


def summed(node: Expr, labels: Labels, kept: Labels, dtype: np.dtype[Any]) -> tuple[Expr, Labels]:
    """Return a node without the labels that are not kept, summed over them."""
    axes = tuple([k for k, label in enumerate(labels) if label not in kept])
    if not axes:
        return node, labels
    kind = "any" if dtype.kind == "b" else "sum"
    if dtype.hasobject:  # of which sums depend on the order
        node = whole_along(node, axes)
    return reduced(node, kind, axes, False, dtype), tuple([x for x in labels if x in kept])


def _narrow(node: Expr, labels: Labels, others: dict[int, Any]) -> tuple[Expr, Labels]:
    """Leave out axes of length 1 along which the other node is longer."""
    gone = [
        n == 1 and others.get(label, 1) != 1 for label, n in zip(labels, node.shape, strict=True)
    ]
    if not any(gone):
        return node, labels
    selection = Selection(
        tuple([0 if each else None for each in gone]),
        tuple([k for k, each in enumerate(gone) if not each]),
    )
    left = tuple([x for x, each in zip(labels, gone, strict=True) if not each])
    return view(node, selection), left


def _laid_out(node: Expr, labels: Labels, whole: Labels) -> Expr:
    axes = tuple([labels.index(label) if label in labels else ~1 for label in whole])
    return view(node, Selection((None,) * node.ndim, axes))
