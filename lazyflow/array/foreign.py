"""Arguments of other kinds: lazy values and masks are refused, dask's arrays are converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.api.collection import Collection
from lazyflow.array.dispatch import MaskGiven, functions
from lazyflow.array.nodes.expr import Expr
from lazyflow.graph.task import Task


def refuse_lazy(x: Any) -> None:
    """Raise TypeError for a lazy value other than an array; the message says how to make one."""
    refuse_mask(x)
    if isinstance(x, Collection) or hasattr(x, "_lazyflow_kind"):
        raise TypeError(
            f"{x!r:.100} is lazy and its shape is not known: make an array of it by "
            "la.from_delayed(x, shape, dtype)"
        )


def refuse_mask(x: Any) -> None:
    """Raise `MaskGiven` for an array with a mask, NumPy's or ours.

    >>> refuse_mask(np.ma.masked_equal([1, 2], 1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    lazyflow.array.dispatch.MaskGiven: the mask of an array would be lost. Fill it first: ...
    """
    if isinstance(x, np.ndarray | Collection) and hasattr(x, "_mask"):  # as np.ma.getmask finds it
        raise MaskGiven(
            "the mask of an array would be lost. Fill it first: x.filled(value), for example "
            "x.filled(np.nan); or keep it: la.ma.masked_array(x)"
        )


def defers(x: Any) -> bool:
    """Tell whether an operand wants to be asked instead of an array, as those of NumPy do."""
    return getattr(type(x), "__array_ufunc__", x is not None) is None


def plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array without the rules of its own that ``np.matrix`` has; refuse a mask."""
    refuse_mask(array)
    return np.asarray(array) if isinstance(array, np.matrix) else array


def of_dask(x: Any, task: Task) -> Expr:
    """Return the expression of an array of dask that a task computes."""
    if type(getattr(x, "shape", None)) is not tuple or not hasattr(x, "dtype"):
        raise TypeError(
            f"{x!r:.100} belongs to dask and has no shape: la.from_delayed(x, shape, dtype) makes "
            "an array of it"
        )
    shape = [None if n != n else n for n in x.shape]  # unknown lengths are nan
    found: Expr = functions["from_delayed"](task, shape, x.dtype).expr
    return found
