"""Reductions of objects: along axes in one chunk, as only the objects know what they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import known
from lazyflow.array.functions.arguments import MISSING, as_result, check_elements, node_and_mask
from lazyflow.array.functions.one_chunk import NumpyOp, over_axes
from lazyflow.array.nodes.reductions import axes_of, keeps


@dataclass(frozen=True)
class ObjectReduction(NumpyOp):
    """A reduction of NumPy's whose results are objects; a second block is the ``where=``."""

    def first(self, block: Any, *mask: Any) -> Any:
        options = {"where": mask[0]} if mask else {}
        found = self.func(block, **options, **dict(self.keywords))
        made = np.empty(np.shape(found), object)
        made[...] = found
        return made


def of_objects(
    func: Any, a: Any, axis: Any, out: Any, keepdims: Any, where: Any, **keywords: Any
) -> Array:
    """Return a reduction of an array of objects by a function of NumPy."""
    known(a)
    node, mask = node_and_mask(a, where)
    axes = axes_of(axis, node.ndim)
    keywords.update(axis=axes, keepdims=keeps(keepdims))
    op = ObjectReduction(func, tuple(keywords.items()))
    inputs = [node] if mask is None else [node, mask]
    return as_result(over_axes(op, inputs, axes, keeps(keepdims), object), out, "unsafe")


def total_of_objects(
    func: Any, ufunc: np.ufunc, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any,
    where: Any,
) -> Array:
    """Return a sum or product of objects, which depends on their order."""
    options = {} if initial is MISSING else {"initial": initial}
    _, mask = node_and_mask(a, where)
    check_elements(ufunc, bool(options) and initial is not None, mask, None)
    return of_objects(func, a, axis, out, keepdims, where, **options)


def is_objects(a: Any, dtype: Any) -> bool:
    """Tell whether a reduction is one of objects, and not cast to another type before."""
    return dtype is None and as_node(a).dtype.hasobject
