"""Functions of slices and of single elements, and windows that slide over arrays.

`apply_along_axis` puts its axis into one chunk and calls NumPy's function on each block; if the
dtype or the shape is missing, it tries the function at once. `frompyfunc` and `vectorize` call a
Python function for each element in the tasks of `apply_gufunc`. `piecewise` calls its functions
with the elements of one block, so a function that looks at all elements gives another result than
in NumPy.

Windows are NumPy's views of blocks that are extended by the elements after them. Copied, as the
next operation may do, they are many times larger, so chunks are cut first: the windows of a block
take at most 16 times ``config.chunk_bytes``, or the bytes that the largest block has already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from lazyflow import config
from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import as_array
from lazyflow.array.nodes.halo import Extended, Margin
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.user_calls import BLOCK, BlockCalls, BoundCall, ones, tried
from lazyflow.array.users.block_layout import input_blocks
from lazyflow.array.users.gufuncs import apply_gufunc
from lazyflow.array.users.map_blocks import blockwise

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike


# -- windows -----------------------------------------------------------------------------------


_LARGEST = 16  # times the bytes of an automatic chunk that a block of windows has at most: a guess


def sliding_window_view(
    x: ArrayLike, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None,
    automatic_rechunk: bool = True,
) -> Array:
    """Return windows that slide over an array, as ``np.lib.stride_tricks.sliding_window_view``.

    Parameters
    ----------
    x
        The array.
    window_shape
        The lengths of a window.
    axis
        The axes along which the windows slide, one for each length; None: all axes.
    automatic_rechunk
        Cut chunks so that the windows of a block, if they were copied, would take at most 16 times
        ``config.chunk_bytes``, or the bytes of the block now if these are more.

    Raises
    ------
    ValueError
        The windows don't fit the axes, are longer than these, or negative.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.sliding_window_view(la.arange(5, chunks=2), 3).sum(axis=1).compute()
    array([3, 6, 9])
    """
    source = as_array(x).with_known_sizes()
    axes, windows = _windows(source, window_shape, axis)
    grids: list[tuple[int, ...]] = []
    for k, (sizes, n) in enumerate(zip(source.chunks, source.shape, strict=True)):
        less = sum([w - 1 for a, w in zip(axes, windows, strict=True) if a == k])
        grids.append(_first(sizes, n - less) if k in axes else sizes)
    if automatic_rechunk:
        grids = _smaller(grids, prod(windows), source)
    margins = tuple([
        Margin(0, n - sum(grid), "none", grid)
        for grid, n in zip(grids, source.shape, strict=True)
    ])
    node = Array(Extended((source.expr,), margins)).expr
    call = BoundCall(
        np.lib.stride_tricks.sliding_window_view, [BLOCK],
        {"window_shape": windows, "axis": axes}, "sliding_window_view",
    )
    labels = tuple(range(source.ndim))
    own = input_blocks(labels, node, labels, dict(enumerate(node.chunks)), False)
    chunks = (*grids, *[(w,) for w in windows])
    return Array(BlockCalls((node,), call, (own,), source.expr.dtype_or_lazy, chunks))


def _windows(x: Array, window_shape: Any, axis: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    windows = tuple(window_shape) if isinstance(window_shape, Sequence | np.ndarray) else (
        window_shape,
    )
    if any(w < 0 for w in windows):
        raise ValueError("`window_shape` cannot contain negative values")
    if axis is None:
        axes = tuple(range(x.ndim))
        if len(windows) != len(axes):
            raise ValueError(
                "Since axis is `None`, must provide window_shape for all dimensions of `x`; got "
                f"{len(windows)} window_shape elements and `x.ndim` is {x.ndim}."
            )
    else:
        axes = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
        if len(windows) != len(axes):
            raise ValueError(
                "Must provide matching length window_shape and axis; got "
                f"{len(windows)} window_shape elements and {len(axes)} axes elements."
            )
    for k, n in enumerate(x.shape):
        if sum([w - 1 for a, w in zip(axes, windows, strict=True) if a == k]) > n - 1 and k in axes:
            raise ValueError("window shape cannot be larger than input array shape")
    return axes, tuple(map(int, windows))


def _first(sizes: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the chunks of the first n elements, none of them empty.

    >>> _first((3, 0, 3, 3), 5)
    (3, 2)
    """
    found: list[int] = []
    for size in sizes:
        taken = min(size, n)
        if taken:
            found.append(taken)
        n -= taken
    if n:  # there is one window of length 0 more than elements
        found[-1:] = [sum(found[-1:]) + n]
    return tuple(found)


def _smaller(grids: list[tuple[int, ...]], factor: int, x: Array) -> list[tuple[int, ...]]:
    """Cut chunks so that the windows of a block, written out, are not too large."""
    itemsize = x.dtype.itemsize or 1
    before = prod([max(sizes) for sizes in x.chunks]) * itemsize
    limit = max(_LARGEST * config.get("chunk_bytes"), before)
    largest = prod([max(grid) for grid in grids]) * factor * itemsize
    if largest <= limit:
        return grids
    shape = tuple(map(sum, grids))
    wanted = normalize_chunks("auto", shape, max(limit // factor, itemsize), x.dtype, None)
    return [
        min(grid, tuple(other), key=max) for grid, other in zip(grids, wanted, strict=True)
    ]


# -- slices and elements -----------------------------------------------------------------------


def _name_of(func: Any) -> str:
    return str(getattr(func, "__name__", type(func).__name__))


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any,
    dtype: DTypeLike | None = None, shape: int | Sequence[int] | None = None, **kwargs: Any,
) -> Array:
    """Return the results of a function of each 1-d slice along an axis.

    Parameters
    ----------
    func1d
        Called with a slice, `args` and `kwargs`.
    axis
        The axis.
    arr
        The array.
    dtype, shape
        The dtype and the shape of the function's results. If one of them is left out, `func1d` is
        called at once with a made-up slice of ones.

    Raises
    ------
    TypeError
        `func1d` raises where it is tried, and `dtype` and `shape` are not given.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=2).rechunk(3)
    >>> la.apply_along_axis(sorted, 0, -x, dtype=int, shape=(6,)).compute()
    array([-5, -4, -3, -2, -1,  0])
    """
    x = as_array(arr)
    x.with_known_sizes()
    axis = normalize_axis_index(axis, x.ndim)
    if dtype is None or shape is None:
        call = BoundCall(func1d, [BLOCK, *args], kwargs, "apply_along_axis")
        sample = np.asarray(tried(call, [ones((x.shape[axis],), x.dtype)], {}))
        dtype = sample.dtype if dtype is None else dtype
        shape = sample.shape if shape is None else shape
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    labels = [("axis", k) for k in range(x.ndim)]
    new = [("new", k) for k in range(len(shape))]
    return blockwise(
        named(_name_of(func1d), _slices_applied, func1d, axis, shape, np.dtype(dtype)),
        (*labels[:axis], *new, *labels[axis + 1:]),
        x.rechunk({axis: -1}), labels, args, None, kwargs, None,
        dtype=dtype, new_axes=dict(zip(new, shape, strict=True)), concatenate=True,
    )


def _slices_applied(
    func: Any, axis: int, shape: tuple[int, ...], dtype: Any, block: Any, args: Any, kwargs: Any
) -> Any:
    """Apply a function to the slices of a block, which may have none."""
    others = block.shape[:axis] + block.shape[axis + 1:]
    if not prod(others):  # np.apply_along_axis refuses
        return np.empty(others[:axis] + shape + others[axis:], dtype)
    return np.apply_along_axis(func, axis, block, *args, **kwargs)


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """Return the result of a function that is applied to axis after axis; all axes are kept.

    Parameters
    ----------
    func
        Called with an array and an axis.
    a
        The array.
    axes
        The axes, in the order in which the function is applied to them.

    Raises
    ------
    ValueError
        `func` returns an array of another number of axes.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.apply_over_axes(la.sum, la.ones((2, 3), chunks=2), [0, 1]).compute()
    array([[6.]])
    """
    found = as_array(a)
    ndim = found.ndim
    for axis in np.atleast_1d(np.asarray(axes)).tolist():
        axis += ndim * (axis < 0)  # the function refuses axes that are not there
        made = func(found, axis)
        if made.ndim == ndim - 1:
            made = made[(slice(None),) * axis + (None,)]
        if made.ndim != ndim:
            raise ValueError(
                "function is not returning an array of the correct shape: for axis "
                f"{axis}, {getattr(func, '__name__', func)} returned {made.ndim} of {ndim} axes"
            )
        found = made
    return found


# -- of single elements ---------------------------------------------------------------------------


class frompyfunc:
    """A function of arrays that calls a Python function for each element, as ``np.frompyfunc``.

    Parameters
    ----------
    func
        The function.
    nin, nout
        How many arguments the function takes, and how many results it returns.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.frompyfunc(oct, 1, 1)(la.asarray([10, 30])).compute()
    array(['0o12', '0o36'], dtype=object)
    """

    def __init__(self, func: Callable[..., Any], nin: int, nout: int) -> None:
        np.frompyfunc(func, nin, nout)  # raises for what it can't be made of
        self.func = func
        self.nin = nin
        self.nout = nout
        self.__name__ = _name_of(func)
        self.__doc__ = getattr(func, "__doc__", None)
        self.signature = f"{','.join(['()'] * nin)}->{','.join(['()'] * nout)}"

    def __call__(self, *args: Any) -> Any:
        """Return an array of the function's results as objects, or a tuple of arrays."""
        if len(args) != self.nin:
            raise TypeError(
                f"{self.__name__}() takes {self.nin} arrays; {len(args)} were given"
            )
        func = named(self.__name__, _elements_applied, self.func, self.nin, self.nout)
        return apply_gufunc(func, self.signature, *args, output_dtypes=[object] * self.nout)

    def outer(self, a: Any, b: Any) -> Any:
        """Return the results for all pairs of an element of `a` and one of `b`."""
        one, other = as_array(a), as_array(b)
        return self(one[(..., *[None] * other.ndim)], other)

    def __repr__(self) -> str:
        return f"<lazyflow.array.frompyfunc {self.__name__!r}>"


def _elements_applied(func: Any, nin: int, nout: int, *blocks: Any) -> Any:
    """Call a function for each element of blocks; a ufunc that does that can't be pickled."""
    found = np.frompyfunc(func, nin, nout)(*blocks)
    return tuple(map(_objects, found)) if isinstance(found, tuple) else _objects(found)


def _objects(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        return found
    out = np.empty((), dtype=object)
    out[()] = found
    return out


class vectorize:
    """A Python function that broadcasts over the elements of arrays, as ``np.vectorize``.

    Parameters
    ----------
    pyfunc
        The function.
    otypes
        The dtype of each result; without them, `pyfunc` is tried to find them.
    signature
        Core dimensions that `pyfunc` works on, as of `apply_gufunc`; without it, the function gets
        single elements and returns one.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> larger = la.vectorize(lambda a, b: a if a > b else b, otypes=[float])
    >>> larger(la.asarray([1.0, 5.0]), 3.0).compute()
    array([3., 5.])
    """

    def __init__(
        self, pyfunc: Callable[..., Any], otypes: str | Sequence[Any] | None = None,
        signature: str | None = None,
    ) -> None:
        self.pyfunc = pyfunc
        self.otypes = list(otypes) if otypes is not None else None
        self.signature = signature
        self.__name__ = _name_of(pyfunc)
        self.__doc__ = getattr(pyfunc, "__doc__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        signature = self.signature
        if signature is None:
            results = 1 if self.otypes is None else len(self.otypes)
            signature = f"{','.join(['()'] * len(args))}->{','.join(['()'] * results)}"
        # np.vectorize casts results to otypes, and needs no element to try where these are given.
        function = np.vectorize(self.pyfunc, otypes=self.otypes, signature=self.signature)
        return apply_gufunc(function, signature, *args, output_dtypes=self.otypes, **kwargs)


def piecewise(
    x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any
) -> Array:
    """Return the results of functions where their conditions hold.

    Parameters
    ----------
    x
        The array.
    condlist
        Conditions: boolean arrays of the shape of `x`, or one of them.
    funclist
        A function or a value for each condition, and perhaps one more for where none holds.
    *args, **kw
        Further arguments of the functions.

    Raises
    ------
    ValueError
        There is neither a function for each condition, nor one more.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(-2.0, 3, chunks=2)
    >>> la.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 10]).compute()
    array([ 2.,  1.,  0., 10., 20.])
    """
    x = as_array(x)
    alone = isinstance(condlist, Array | np.ndarray) and condlist.ndim == x.ndim
    if alone or isinstance(condlist, bool | np.bool_):
        condlist = [condlist]
    conditions = [as_array(each) for each in condlist]
    count, given = len(conditions), len(funclist)
    if given not in (count, count + 1):
        raise ValueError(f"with {count} condition(s), either {count} or {count + 1} functions are "
                         "expected")
    axes = tuple(range(x.ndim))
    pairs: list[Any] = [x, axes]
    for each in conditions:
        pairs += [each, axes[x.ndim - each.ndim:]]
    return blockwise(
        _pieces, axes, *pairs, list(funclist), None, args, None, kw, None, dtype=x.dtype,
        name="piecewise",
    )


def _pieces(block: Any, *others: Any) -> Any:
    """Call functions with the elements of a block where conditions hold."""
    *conditions, funcs, args, kw = others
    whole = [np.broadcast_to(each, block.shape) for each in conditions]
    return np.piecewise(block, whole, funcs, *args, **kw)
