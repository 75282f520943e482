"""Functions of slices and of single elements: `apply_along_axis`, `vectorize`, `piecewise` ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from lazyflow.array.core import Array, as_node
from lazyflow.array.dispatch import implements
from lazyflow.array.nodes.bound_call import BLOCK, BoundCall, ones, tried
from lazyflow.array.users.gufuncs import apply_gufunc
from lazyflow.array.users.map_blocks import blockwise


@implements(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, dtype: Any = None,
    shape: Any = None, **kwargs: Any,
) -> Array:
    """Return what a function gives for each 1-d slice along an axis, as ``np.apply_along_axis``.

    Parameters
    ----------
    func1d
        Called with slices, `args` and `kwargs`.
    axis, arr
        The axis, and the array.
    dtype, shape
        Of what `func1d` returns. If one of them is left out, `func1d` is called at once with a
        made-up slice of ones.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=2).rechunk(3)
    >>> la.apply_along_axis(sorted, 0, -x, dtype=int, shape=(6,)).compute()
    array([-5, -4, -3, -2, -1,  0])
    """
    x = arr if isinstance(arr, Array) else Array(as_node(arr))
    x.with_known_sizes()
    axis = normalize_axis_index(axis, x.ndim)
    if dtype is None or shape is None:
        call = BoundCall(func1d, [BLOCK, *args], kwargs, "apply_along_axis")
        found = np.asarray(tried(call, [ones((x.shape[axis],), x.dtype)], {}))
        dtype = found.dtype if dtype is None else dtype
        shape = found.shape if shape is None else shape
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    labels = [("axis", k) for k in range(x.ndim)]
    new = [("new", k) for k in range(len(shape))]
    return blockwise(
        AlongAxis(func1d, axis, shape, np.dtype(dtype)),
        (*labels[:axis], *new, *labels[axis + 1:]),
        x.rechunk({axis: -1}), labels, args, None, kwargs, None,
        dtype=dtype, new_axes=dict(zip(new, shape, strict=True)), concatenate=True,
    )


class AlongAxis:
    """Applies a function to the slices of a block, also when there is none."""

    def __init__(
        self, func: Callable[..., Any], axis: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.__name__ = getattr(func, "__name__", type(func).__name__)
        self.func = func
        self.axis = axis
        self.shape = shape
        self.dtype = dtype

    def __call__(self, block: Any, args: Any, kwargs: Any) -> Any:
        others = block.shape[: self.axis] + block.shape[self.axis + 1:]
        if not prod(others):  # np.apply_along_axis refuses
            whole = others[: self.axis] + self.shape + others[self.axis:]
            return np.empty(whole, self.dtype)
        return np.apply_along_axis(self.func, self.axis, block, *args, **kwargs)


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Array:
    """Return what a function of an array and an axis gives, axis after axis, all axes kept.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.apply_over_axes(la.sum, la.ones((2, 3), chunks=2), [0, 1]).compute()
    array([[6.]])
    """
    found = a if isinstance(a, Array) else Array(as_node(a))
    ndim = found.ndim
    for axis in np.atleast_1d(np.asarray(axes)).tolist():
        axis += ndim * (axis < 0)  # the function says which axes there are
        made = func(found, axis)
        if made.ndim == ndim - 1:
            made = made[(slice(None),) * axis + (None,)]
        if made.ndim != ndim:
            raise ValueError(
                "function is not returning an array of the correct shape: "
                f"{getattr(func, '__name__', func)} gave {made.ndim} axes of {ndim} for axis {axis}"
            )
        found = made
    return found


# -- of single elements ---------------------------------------------------------------------------


class PyFunc:
    """A Python function of single objects that broadcasts, as ``np.frompyfunc`` makes it."""

    def __init__(self, func: Callable[..., Any], nin: int, nout: int) -> None:
        np.frompyfunc(func, nin, nout)  # raises for what it can't be made of
        self.func = func
        self.nin = nin
        self.nout = nout
        self.__name__ = getattr(func, "__name__", type(func).__name__)
        self.__doc__ = getattr(func, "__doc__", None)
        self.signature = f"{','.join(['()'] * nin)}->{','.join(['()'] * nout)}"

    def __call__(self, *args: Any) -> Any:
        """Return an array of objects, or a tuple of them, of what the function returns."""
        if len(args) != self.nin:
            raise TypeError(
                f"{self.__name__}() takes {self.nin} arrays; {len(args)} were given"
            )
        return apply_gufunc(
            OfObjects(self), self.signature, *args, output_dtypes=[object] * self.nout
        )

    def __repr__(self) -> str:
        return f"<lazyflow.array.frompyfunc {self.__name__!r}>"


class OfObjects:
    """Calls a `PyFunc`'s function for each element of blocks."""

    def __init__(self, pyfunc: PyFunc) -> None:
        self.__name__ = pyfunc.__name__
        self.details = pyfunc.func, pyfunc.nin, pyfunc.nout

    def __call__(self, *blocks: Any) -> Any:
        found = np.frompyfunc(*self.details)(*blocks)
        if isinstance(found, tuple):
            return tuple([_objects(each) for each in found])
        return _objects(found)


def _objects(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        return found
    out = np.empty((), dtype=object)
    out[()] = found
    return out


@implements()
def frompyfunc(func: Callable[..., Any], nin: int, nout: int) -> PyFunc:
    """Return a function of arrays that calls a Python function for each element.

    Parameters
    ----------
    func
        The function.
    nin, nout
        How many arguments it takes, and results it returns.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.frompyfunc(oct, 1, 1)(la.asarray([10, 30])).compute()
    array(['0o12', '0o36'], dtype=object)
    """
    return PyFunc(func, nin, nout)


class vectorize:
    """A Python function that broadcasts over the elements of arrays, as ``np.vectorize``.

    Parameters
    ----------
    pyfunc
        The function.
    otypes
        Type of each result's elements; found out by trying `pyfunc` if left out.
    signature
        Core dimensions that `pyfunc` works on, as of `apply_gufunc`; else it gets single elements
        and returns one.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> larger = la.vectorize(lambda a, b: a if a > b else b, otypes=[float])
    >>> larger(la.asarray([1.0, 5.0]), 3.0).compute()
    array([3., 5.])
    """

    def __init__(
        self, pyfunc: Callable[..., Any], otypes: Any = None, signature: str | None = None
    ) -> None:
        self.pyfunc = pyfunc
        self.otypes = list(otypes) if otypes is not None else None
        self.signature = signature
        self.__name__ = getattr(pyfunc, "__name__", type(pyfunc).__name__)
        self.__doc__ = getattr(pyfunc, "__doc__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = self.signature
        if signature is None:
            results = 1 if self.otypes is None else len(self.otypes)
            signature = f"{','.join(['()'] * len(args))}->{','.join(['()'] * results)}"
        # It turns results into otypes, and needs no element to try where these are given.
        function = np.vectorize(self.pyfunc, otypes=self.otypes, signature=self.signature)
        return apply_gufunc(function, signature, *args, output_dtypes=self.otypes, **kwargs)


implements()(vectorize)


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Return what functions give where their conditions hold; parameters as ``np.piecewise``.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(-2.0, 3, chunks=2)
    >>> la.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 10]).compute()
    array([ 2.,  1.,  0., 10., 20.])
    """
    x = x if isinstance(x, Array) else Array(as_node(x))
    alone = isinstance(condlist, Array | np.ndarray) and condlist.ndim == x.ndim
    if alone or isinstance(condlist, bool | np.bool_):
        condlist = [condlist]
    conditions = [Array(as_node(each)) for each in condlist]
    count, given = len(conditions), len(funclist)
    if given not in (count, count + 1):
        raise ValueError(f"with {count} condition(s), either {count} or {count + 1} functions are "
                         "expected")
    axes = tuple(range(x.ndim))
    pairs: list[Any] = [x, axes]
    for each in conditions:
        pairs += [each, axes[x.ndim - each.ndim:]]
    return blockwise(
        Pieces(count), axes, *pairs, list(funclist), None, args, None, kw, None, dtype=x.dtype
    )


class Pieces:
    """Calls functions for the elements of a block for which conditions hold."""

    __name__ = "piecewise"

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, block: Any, *others: Any) -> Any:
        conditions = [np.broadcast_to(each, block.shape) for each in others[: self.count]]
        funcs, args, kw = others[self.count:]
        return np.piecewise(block, conditions, funcs, *args, **kw)
