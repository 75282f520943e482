"""Blocks of other libraries than NumPy: sparse matrices, arrays of a GPU.

Such blocks are never converted to NumPy's arrays unasked. A node that needs NumPy's arrays raises
`OtherKind` at the call, with an array like the blocks, and other_kinds.py looks for a rule for it.
Other nodes hand the blocks on, and their library cuts and joins them. An array is of another kind
if it takes part in NumPy's protocols and refuses ``__array__``, as of CuPy or sparse, or if it is a
sparse one of SciPy. No library is imported to find out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Errors by which a library tells that it can't do something with its arrays.
FAILS = (TypeError, ValueError, AttributeError, NotImplementedError)


class OtherKind(TypeError):
    """Raised where a node needs NumPy's arrays as blocks, and its input has other ones.

    meta
        An array like the blocks.
    """

    def __init__(self, meta: Any, name: str, why: str = "") -> None:
        self.meta = meta
        self.why = why
        super().__init__(
            f"{name} is not known for blocks of {kind_name(meta)}{why and f': {why}'}. Call a "
            f"function of their own library on each block, x.map_blocks(lambda block: ...), or "
            "compute with NumPy's arrays, x.todense()"
        )


def is_other_kind(x: Any) -> bool:
    """Tell whether something is an array of another library, which NumPy does not take as one.

    >>> from scipy.sparse import csr_array
    >>> is_other_kind(csr_array([[1.0]])), is_other_kind(np.ones(1)), is_other_kind(2)
    (True, False, False)
    """
    if isinstance(x, np.ndarray | np.generic) or not (hasattr(x, "shape") and hasattr(x, "dtype")):
        return False
    if type(x.shape) is not tuple or not isinstance(x.dtype, np.dtype):
        return False
    if is_scipy_sparse(x):
        return True
    takes_part = hasattr(x, "__array_function__") or hasattr(x, "__array_ufunc__")
    if not takes_part or not hasattr(x, "__array__") or hasattr(x, "_lazyflow_kind"):
        return False
    if hasattr(x, "__dask_graph__"):  # to be computed, which is not for here
        return False
    try:
        part = x[(slice(0, 0),) * len(x.shape)]  # the whole may have to be read
    except FAILS:
        return False
    try:
        part.__array__()
    except (TypeError, RuntimeError):  # CuPy, sparse: a copy must be asked for
        return True
    return False


def check_is_numpy(node: Any, name: str) -> None:
    """Raise `OtherKind` unless the blocks of a node are NumPy's arrays."""
    if node.kind is not None:
        raise OtherKind(node.kind, name)


def is_scipy_sparse(x: Any) -> bool:
    """Tell whether something is a sparse matrix or array of SciPy."""
    sparse: Any = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(x))


def kind_name(meta: Any) -> str:
    """Return the name of a kind of blocks for messages.

    >>> from scipy.sparse import csr_array
    >>> kind_name(csr_array((2, 2)))
    'scipy.sparse.csr_array'
    """
    module = type(meta).__module__.split("._")[0]
    return f"{module}.{type(meta).__name__}"


def made_up(meta: Any, block: np.ndarray[Any, Any]) -> Any:
    """Return a block of another kind with the shape and dtype of a made-up one."""
    if is_scipy_sparse(meta):
        return type(meta)(block)
    like: Callable[..., Any] = np.zeros_like  # sparse arrays of ones have another fill value
    return like(meta, shape=block.shape, dtype=block.dtype)


def in_one(blocks: Sequence[Any], axis: int) -> Any:
    """Return blocks of one kind, one after another along an axis, by their own library."""
    if any(map(is_scipy_sparse, blocks)):
        from scipy import sparse

        if blocks[0].ndim == 1:
            rows: Any = [block.reshape(1, -1) for block in blocks]
            return sparse.hstack(rows).reshape(-1)
        stacked: Any = sparse.vstack if axis == 0 else sparse.hstack
        return stacked(blocks, format=blocks[0].format)
    return np.concatenate(blocks, axis=axis)


def in_nested_lists(values: Sequence[Any], counts: Sequence[int]) -> Any:
    """Return values, given in C order, in nested lists of these lengths.

    >>> in_nested_lists([1, 2, 3, 4], (2, 2))
    [[1, 2], [3, 4]]
    """
    found = list(values)
    for n in reversed(counts[1:]):
        found = [found[i:i + n] for i in range(0, len(found), n)]
    return found


def joined(blocks: Any, axes: Sequence[int]) -> Any:
    """Return one array for nested lists of arrays, whose levels are these axes.

    >>> joined([[np.ones((1, 2)), np.ones((1, 3))]], (0, 1)).shape
    (1, 5)
    """
    if not axes:
        return blocks
    first, *others = axes
    if others:
        blocks = [joined(each, others) for each in blocks]
    return blocks[0] if len(blocks) == 1 else in_one(blocks, first)


def dense(block: Any) -> Any:
    """Return a block as NumPy's array, converted by its own library."""
    for name in ("get", "toarray", "todense"):
        if hasattr(block, name):
            return np.asarray(getattr(block, name)())
    return np.asarray(block)
