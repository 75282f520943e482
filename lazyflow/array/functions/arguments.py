"""The arguments that functions share: arrays or what makes one, axes, ``order=``, ``out=``.

Keywords of dask's and NumPy's that change nothing here are taken, and say so once.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import DTypeLike as DTypeLike

from lazyflow.array.core import Array, as_node
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.align import SizesNeeded, broadcast_shape
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import view
from lazyflow.errors import LazyflowWarning as PerformanceWarning
from lazyflow.graph.task import users_depth

# -- keywords that change nothing --------------------------------------------------------------


_told: set[str] = set()


def changes_nothing(keyword: str, why: str) -> None:
    """Warn, once for each keyword, that it is not needed here; `why` is a sentence's end."""
    if keyword not in _told:
        warnings.warn(
            f"{keyword} changes nothing here: {why}. Leave it out. This warning comes once.",
            PerformanceWarning, stacklevel=users_depth(),
        )
        _told.add(keyword)  # not when the warning was raised


def takes_dasks_keywords(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes an array of a formula and takes ``like=``, ``meta=``, ``name=``.
    """

    @wraps(function)
    def make(
        *args: Any, like: Any = None, meta: Any = None, name: Any = None, **kwargs: Any
    ) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        check_like(like)
        check_like(meta)
        if isinstance(name, str):
            changes_nothing("name=", "formulas have no tasks of their own, which it would name")
        if kwargs.get("device") is None:  # NumPy's functions hand it on for ``like=``
            kwargs.pop("device", None)
        return function(*args, **kwargs)

    own = signature(function)
    added = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in _TAKEN]
    make.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), *added]
    )
    return make


_TAKEN = ("like", "meta", "name")


def check_like(like: Any) -> None:
    """Raise for a ``like=`` whose type chunks do not have: they are NumPy's arrays."""
    if not isinstance(like, Array | np.ndarray | np.generic | int | float | complex | None):
        raise TypeError(
            f"like= a {type(like).__name__}, but chunks are made as NumPy's arrays. Make them that "
            "type afterwards: x.map_blocks(function, dtype=x.dtype)"
        )


# -- arguments ---------------------------------------------------------------------------------


#: Axes of a reduction: one, several, or all.
Axes = int | Sequence[int] | None

#: Lengths of axes; an array with one axis may have a number.
ShapeLike = int | Sequence[int]

#: Chunks as `normalize_chunks` takes them.
ChunksLike = int | str | Sequence[Any] | Mapping[int, Any] | None

#: What NumPy's casts are allowed to do.
Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]

#: What NumPy's functions have as the default of ``initial=``, ``keepdims=`` and others: not given.
MISSING: Any = np._NoValue

NUMBERS = (bool, int, float, complex)


def as_array(x: Any) -> Array:
    """Return an array of anything that NumPy makes one of; arrays as they are."""
    return x if isinstance(x, Array) else Array(as_node(x))


def operand(x: Any) -> Any:
    """Return Python's numbers as they are, which take the dtype of others, else a node."""
    return x if type(x) in NUMBERS else as_node(x)


def operands(given: Sequence[Any]) -> tuple[list[Any], np.dtype[Any]]:
    """Return each `operand`, and the dtype that NumPy's promotion gives for them."""
    found = [operand(x) for x in given]
    return found, np.result_type(*[x.dtype if isinstance(x, Expr) else x for x in found])


def operand_as(x: Any, dtype: Any) -> Expr:
    """Return an `operand` as a node of a dtype."""
    return elementwise.cast(x, dtype) if isinstance(x, Expr) else elementwise.wrapped(x, dtype)


def as_numpy_tells(function: Any, *args: Any, **keywords: Any) -> Any:
    """Return what NumPy's function gives; its warnings are those of the user's line."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = function(*args, **keywords)
    for each in told:
        warnings.warn(each.message, each.category, stacklevel=users_depth())
    return found


def lengths_of(shape: Any) -> tuple[int, ...]:
    """Return the lengths that a ``shape=`` means: one of several, or a number.

    >>> lengths_of(3), lengths_of([2, -1])
    ((3,), (2, -1))
    """
    given = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    return tuple([operator.index(n) for n in given])


def new_lengths(shape: Any) -> tuple[int, ...]:
    """Return the lengths of an array that is made; raise if one is negative."""
    found = lengths_of(shape)
    if any(n < 0 for n in found):
        raise ValueError("negative dimensions are not allowed")
    return found


def check_order(order: Any, allowed: Sequence[Any] = ("C", "K", "A", None)) -> None:
    """Raise for an ``order=`` that NumPy does not know; say that Fortran's is not made here."""
    if order == "F":
        changes_nothing("order='F'", "results have the order of their operands, or C order")
    elif order not in allowed:
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")


def broadcast_node(node: Expr, shape: tuple[Any, ...]) -> Expr:
    """Return a node broadcast to a shape."""
    if node.shape == tuple(shape):
        return node
    skipped = len(shape) - node.ndim
    if any(n is None and m == 1 for n, m in zip(
        shape, (1,) * skipped + node.shape, strict=True
    )):
        raise SizesNeeded  # how often to repeat is not known
    picks: list[Any] = []
    axes: list[int] = [~n for n in shape[:skipped]]
    for axis, n in enumerate(node.shape):
        if n == 1 and shape[skipped + axis] != 1:
            picks.append(0)
            axes.append(~shape[skipped + axis])
        else:
            picks.append(None)
            axes.append(axis)
    return view(node, Selection(tuple(picks), tuple(axes)))


def check_device(device: Any) -> None:
    """Raise for a ``device=`` that chunked arrays are not on."""
    if device not in (None, "cpu"):
        raise ValueError(
            f'chunked arrays are on the device "cpu"; got device={device!r}. Blocks go to another '
            "one, and come back, within x.map_blocks(...)"
        )


def as_1d(a: Any, axis: Any) -> Array:
    """Return an array with at least one axis: with axis 0 or -1 NumPy takes a scalar as one."""
    node = as_node(a)
    return Array(node) if node.ndim or axis is None else Array(node)[None]


def as_result(node: Expr, out: Any, casting: str = "same_kind") -> Array:
    """Return an array of a node, or `out` once it is that."""
    if isinstance(out, tuple):
        (out,) = out
    return Array(node) if out is None else assign_out(out, node, casting)


def out_dtype(out: Any) -> np.dtype[Any] | None:
    """Return the dtype of what is given as ``out=``; None: nothing is."""
    if isinstance(out, tuple):
        (out,) = out
    return None if out is None else as_node(out).dtype


def check_out(function: Any, given: np.dtype[Any], out: Any, /, **keywords: Any) -> None:
    """Raise what NumPy's reduction does for an ``out=`` of such a type, given few elements."""
    wanted = out_dtype(out)
    if wanted is not None and not (wanted.hasobject or given.hasobject):  # nothing is known of them
        with np.errstate(all="ignore"):
            few = np.ones(2, given)
            as_numpy_tells(function, few, axis=0, out=np.empty((), wanted), **keywords)


def assign_out(target: Any, node: Expr, casting: str = "same_kind") -> Any:
    """Let an array given as ``out=`` have the values of a node, as in-place operations do."""
    if not isinstance(target, Array):
        raise TypeError(
            f"out= must be a chunked array; got {type(target).__name__}. To write into existing "
            "memory, use la.store(result, target)"
        )
    if not np.can_cast(node.dtype, target.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast ufunc output from {node.dtype!r} to {target.dtype!r} with casting rule "
            f"{casting!r}"
        )
    if None in (*node.shape, *target.shape) and node.chunks != target.chunks:
        raise SizesNeeded
    if broadcast_shape([node.shape, target.shape]) != target.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {target.shape} doesn't match the "
            f"broadcast shape {node.shape}"
        )
    if node.shape != target.shape:
        node = broadcast_node(node, target.shape)
    target._expr = elementwise.cast(node, target.dtype)
    return target


def where_mask(where: Any, shape: tuple[Any, ...]) -> Expr:
    """Return the mask that ``where=`` gives, broadcast to the shape of what is reduced."""
    given = where if isinstance(where, Array | np.ndarray) else np.asarray(where, bool)
    mask = as_node(given)
    if mask.dtype != bool:
        raise TypeError(
            f"where= must be an array of booleans; got {mask.dtype}. Write where=(mask != 0)"
        )
    fits = mask.ndim <= len(shape) and all(
        n in (1, m) or n is None or m is None
        for n, m in zip(mask.shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"where= of shape {mask.shape} does not broadcast to the shape {shape} of what is "
            "reduced. Broadcast that first: la.broadcast_to(x, where.shape)"
        )
    return broadcast_node(mask, shape)


def node_and_mask(a: Any, where: Any) -> tuple[Expr, Expr | None]:
    """Return the node of an array, and the mask of what a reduction counts; None: everything."""
    node = as_node(a)
    if where is True or where is MISSING:
        return node, None
    return node, where_mask(where, node.shape)


def check_elements(
    ufunc: np.ufunc, has_initial: bool, mask: Expr | None, count: int | None
) -> None:
    """Raise for a reduction that needs at least one element where there may be none."""
    if has_initial:
        return
    if mask is not None:
        raise ValueError(
            f"reduction operation {ufunc.__name__!r} does not have an identity, so to use a "
            "where mask one has to specify 'initial'"
        )
    if count == 0:
        raise ValueError(
            f"zero-size array to reduction operation {ufunc.__name__} which has no identity"
        )


def element_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value as an element of a dtype; raise what NumPy does if it cannot be one."""
    made = np.empty(1, dtype)
    made[0] = value
    return made[0]
