"""Chunked arrays with masks: ``la.ma``, as ``np.ma`` and ``dask.array.ma``.

    >>> import lazyflow.array as la
    >>> x = la.ma.masked_greater(la.arange(6, chunks=2), 3)
    >>> (x + 1).compute().tolist(), x.mean().compute()
    ([1, 2, 3, 4, None, None], np.float64(1.5))

A `MaskedArray` is two chunked arrays of equal chunks, the values and whether each is masked. So
blocks are plain, and every scheduler, `persist`, kernels and views of arrays serve it. Functions of
NumPy and of `lazyflow.array` that have a rule for masks (`masked_call`) take it; all others raise
TypeError, instead of computing with values that are masked.

Masks, values that are not masked, and fill values are those of ``np.ma``, except:

- Values below a mask are not specified after an operation; NumPy's depend on the function.
- ``x.mask`` is always an array, never ``np.ma.nomask``.
- Python's numbers take the type of the array, as with arrays without masks; with NumPy's operators
  of masked arrays they don't: there ``x * 2`` of uint8 is int64.
- The mean of float32 is float32 whether something is masked or not.
- A masked array as a key is refused: NumPy ignores its mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from inspect import signature
from operator import or_
from typing import Any, NoReturn, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lazyflow.api import evaluate
from lazyflow.api.collection import Collection
from lazyflow.array.as_objects import AsObjects
from lazyflow.array.core import Array, as_node
from lazyflow.array.dispatch import FunctionMethod, FunctionMethods, functions, of_numpy
from lazyflow.array.foreign import defers, refuse_mask
from lazyflow.array.functions.arguments import NUMBERS, as_array
from lazyflow.array.functions.reductions.means import SpreadOfMoments, spread_weights
from lazyflow.array.kernels.order import MOMENTS
from lazyflow.array.nodes.reductions import reduced
from lazyflow.array.nodes.user_calls import OfPairs
from lazyflow.graph.task import Task

nomask = np.ma.nomask
masked = np.ma.masked
_CORE: Any = np.ma.core  # where ufuncs are defined, by ufunc


class MaskedArray(Collection, AsObjects, FunctionMethods, NDArrayOperatorsMixin):
    """A chunked array whose elements may be masked, made by `masked_array` and similar functions.

    Attributes
    ----------
    data, mask
        The values, and the mask: chunked arrays. A write into them changes the masked array, and
        vice versa.
    fill_value
        The value of masked elements in `filled`; it may be set.

    The attributes for shape, dtype and chunks are those of `lazyflow.array.Array`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.ma.masked_equal(la.asarray([1, 0, 3]), 0)
    >>> x
    lazyflow.MaskedArray<memory, shape=(3,), dtype=int64, chunksize=(3,)>
    >>> x[0] = np.ma.masked
    >>> x.compute()
    masked_array(data=[--, --, 3],
                 mask=[ True,  True, False],
           fill_value=0)
    """

    __slots__ = ("_data", "_fill", "_mask")
    __array_priority__ = 16  # above that of ``np.ma.MaskedArray``

    def __init__(self, data: Array, mask: Array, fill_value: Any = None) -> None:
        if data.dtype.names:
            raise TypeError(
                "arrays with fields would have a mask for each of them: make one masked array of "
                "each field, la.ma.masked_array(x[name])"
            )
        if None not in data.shape and mask.chunks != data.chunks:
            mask = functions["rechunk"](mask, data.chunks)
        self._data, self._mask, self._fill = data, mask, fill_value

    data = property(lambda self: self._data)
    mask = property(lambda self: self._mask)
    shape = property(lambda self: self._data.shape)
    dtype = property(lambda self: self._data.dtype)
    ndim = property(lambda self: self._data.ndim)
    size = property(lambda self: self._data.size)
    itemsize = property(lambda self: self._data.itemsize)
    nbytes = property(lambda self: self._data.nbytes)
    chunks = property(lambda self: self._data.chunks)
    chunksize = property(lambda self: self._data.chunksize)
    numblocks = property(lambda self: self._data.numblocks)
    npartitions = property(lambda self: self._data.npartitions)
    T = property(lambda self: functions["transpose"](self))
    real = property(lambda self: functions["real"](self))
    imag = property(lambda self: functions["imag"](self))

    @property
    def fill_value(self) -> Any:
        """The value of masked elements in `filled`; by default NumPy's for the dtype."""
        return _checked_fill(self._fill, self.dtype)

    @fill_value.setter
    def fill_value(self, value: Any) -> None:
        if getattr(value, "shape", ()):
            raise ValueError("a fill value is one value, not an array")
        self._fill = None if value is None else _checked_fill(value, self.dtype)

    def filled(self, fill_value: Any = None) -> Array:
        """Return a chunked array with `fill_value` for masked elements; as ``np.ma.filled``.

        Raises
        ------
        ValueError
            The fill value does not broadcast to the array.
        """
        value = self.fill_value if fill_value is None else _checked_fill(fill_value, self.dtype)
        return self._with(value)

    def _with(self, value: Any) -> Array:
        """Return the values with another one where they are masked."""
        filler = np.asarray(value, self.dtype)[()]
        found: Array = functions["where"](self._mask, filler, self._data)
        return found

    def count(self, axis: Any = None, keepdims: bool = False) -> Array:
        """Return how many elements over axes are not masked."""
        found: Array = functions["sum"](~self._mask, axis, dtype=np.intp, keepdims=keepdims)
        return found

    # -- views, which share what is written -------------------------------------------------

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> MaskedArray:
        _check_key(key)
        return MaskedArray(self._data[key], self._mask[key], self._fill)

    def __setitem__(self, key: Any, value: Any) -> None:
        _check_key(key)
        if value is not masked:
            self._data[key] = _data_of(value)
        self._mask[key] = _mask_of(value) if _has_mask(value) else False

    # -- arithmetic -------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, how: str, *inputs: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        if how != "__call__" or ufunc.signature is not None:
            _refuse(f"np.{ufunc.__name__}" + f".{how}" * (how != "__call__"))
        return _ufunc(ufunc, inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = of_numpy(func)
        if found is None:
            _refuse(f"{func.__module__}.{func.__name__}".replace("numpy.", "np.", 1))
        return found(*args, **kwargs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        refuse_mask(self)
        raise AssertionError

    def __truediv__(self, other: Any) -> Any:
        return _finite(np.true_divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _finite(np.true_divide, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _finite(np.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _finite(np.floor_divide, other, self)

    def __pow__(self, other: Any) -> Any:
        return _finite(np.power, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _finite(np.power, other, self)

    def __hash__(self) -> NoReturn:
        raise TypeError("unhashable type: 'MaskedArray'")

    # -- as a collection --------------------------------------------------------------------

    def compute(self, **options: Any) -> Any:
        """Return NumPy's masked array; without axes, a scalar or ``np.ma.masked``."""
        __tracebackhide__ = True  # for IPython and pytest
        return evaluate.compute(self, **options)[0]

    def persist(self, **options: Any) -> MaskedArray:
        """Start computing it; return an equal array whose blocks are, or will be, kept."""
        found: MaskedArray = evaluate.persist(self, **options)[0]
        return found

    def __lazyflow_tasks__(self) -> Sequence[Task]:
        return [*self._data.__lazyflow_tasks__(), *self._mask.__lazyflow_tasks__()]

    def __lazyflow_finalize__(self, values: list[Any]) -> Any:
        n = len(self._data.__lazyflow_tasks__())
        data = self._data.__lazyflow_finalize__(values[:n])
        return _joined(data, self._mask.__lazyflow_finalize__(values[n:]), self._fill)

    def __lazyflow_rebuild__(self, tasks: Sequence[Task]) -> Self:
        n = len(self._data.__lazyflow_tasks__())
        data = self._data.__lazyflow_rebuild__(tasks[:n])
        return type(self)(data, self._mask.__lazyflow_rebuild__(tasks[n:]), self._fill)

    def _finalizer(self) -> Any:
        n = len(self._data.__lazyflow_tasks__())
        return _Joined(n, self._data._finalizer(), self._mask._finalizer(), self._fill)

    @classmethod
    def __lazyflow_optimize__(cls, wanted: Sequence[Self], keep: bool = True) -> Sequence[Self]:
        parts = [part for x in wanted for part in (x._data, x._mask)]
        found = Array.__lazyflow_optimize__(parts, keep)
        made = []
        for k, x in enumerate(wanted):
            one = cls.__new__(cls)  # not rechunked, whatever chunks are cheaper
            one._data, one._mask, one._fill = found[2 * k], found[2 * k + 1], x._fill
            made.append(one)
        return made

    def __reduce__(self) -> Any:
        return MaskedArray, (self._data, self._mask, self._fill)

    def __repr__(self) -> str:
        return repr(self._data).replace("Array<", "MaskedArray<", 1)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"chunked arrays with masks have no attribute {name!r}; x.filled(value), x.data and "
            "x.mask are arrays without masks"
        )

    flatten = FunctionMethod("ravel")
    transpose = FunctionMethod("transpose")


@dataclass(frozen=True)
class _Joined:
    """Makes NumPy's masked array of the blocks of the values and of the mask."""

    count: int
    data: Any
    mask: Any
    fill: Any

    def finalize(self, values: list[Any]) -> Any:
        data = self.data.finalize(values[:self.count])
        return _joined(data, self.mask.finalize(values[self.count:]), self.fill)


def _joined(data: Any, mask: Any, fill: Any) -> Any:
    if not isinstance(data, np.ndarray):
        return masked if mask else data
    return np.ma.MaskedArray(data, mask, fill_value=fill)


# -- arguments --------------------------------------------------------------------------------


def _refuse(name: str) -> NoReturn:
    raise TypeError(
        f"{name} has no rule for masks, so arrays with masks are refused. Fill them first, "
        "x.filled(value), or compute it from x.data and x.mask"
    )


def _check_key(key: Any) -> None:
    if any(_has_mask(each) for each in (key if isinstance(key, tuple) else (key,))):
        raise TypeError(
            "the index has a mask. Fill it, to say whether its masked elements are selected: "
            "x[key.filled(False)]"
        )


def _has_mask(x: Any) -> bool:
    return isinstance(x, MaskedArray | np.ma.MaskedArray)


def _data_of(x: Any) -> Any:
    """Return the values of arrays with masks, also in lists; anything else as it is."""
    if isinstance(x, list | tuple):
        return type(x)([_data_of(each) for each in x])
    return as_masked(x)._data if _has_mask(x) else x


def _mask_of(x: Any) -> Any:
    """Return masks for arrays and lists of them: of nothing, where they have none."""
    if isinstance(x, list | tuple):
        return type(x)([_mask_of(each) for each in x])
    return as_masked(x)._mask


def _fill_of(values: Any, dtype: Any) -> Any:
    """Return the fill value of the first array that has one, if elements of a type can be that."""
    for x in values:
        if _has_mask(x):
            fill = x._fill if isinstance(x, MaskedArray) else x._fill_value
            try:
                if fill is None or (np.iscomplexobj(fill) and dtype.kind != "c"):
                    return None
                return _checked_fill(fill, dtype)
            except (TypeError, ValueError):
                return None
    return None


def _checked_fill(value: Any, dtype: Any) -> Any:
    if getattr(value, "shape", ()) or isinstance(value, Array):
        raise ValueError("a fill value is one value, not an array")
    return np.ma.MaskedArray(np.zeros((), dtype), fill_value=value).fill_value


def as_masked(x: Any, **chunks: Any) -> MaskedArray:
    """Return any array as a chunked masked array."""
    if isinstance(x, MaskedArray):
        return x
    if isinstance(x, np.ma.MaskedArray):
        data = functions["from_array"](x.data, **chunks)
        mask = None if x.mask is nomask else functions["from_array"](x.mask, data.chunks)
        fill = x._fill_value  # type: ignore[attr-defined]  # x.fill_value is never None
    else:
        data = x if isinstance(x, Array) else functions["asarray"](x, **chunks)
        mask = fill = None
    if mask is None and None in data.shape:  # zeros_like would compute the lengths
        mask = functions["map_blocks"](np.ma.getmaskarray, data, dtype=bool)
    elif mask is None:
        mask = functions["zeros_like"](data, dtype=bool)
    return MaskedArray(data, mask, fill)


def _zipped(data: Any, mask: Any, values: Any) -> Any:
    if isinstance(data, list | tuple):
        return type(data)([_zipped(*pair, values) for pair in zip(data, mask, strict=True)])
    return MaskedArray(data, mask, _fill_of(values, data.dtype))


# -- element by element -----------------------------------------------------------------------


def _outside(ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """Return where a ufunc is not defined, as ``np.ma`` has it; None: it is everywhere."""
    domain = _CORE.ufunc_domain.get(ufunc)
    if domain is None:
        return None
    with np.errstate(all="ignore"):
        if ufunc.nin == 1:
            return domain(*inputs)
        a, b = inputs
        return abs(a) * np.finfo(float).tiny >= abs(b)


def _ufunc(
    ufunc: np.ufunc, inputs: Sequence[Any], out: Any = None, where: Any = True,
    finite: bool = False, **kwargs: Any,
) -> Any:
    """Return what a ufunc gives: masked where an operand is, or where it is not defined.

    finite
        Also where the result is not finite, as NumPy's operators of division and power.
    """
    if where is not True:
        _refuse(f"np.{ufunc.__name__} with where=")
    call = functions["call_ufunc"]
    values = [x if type(x) in NUMBERS else as_array(_data_of(x)) for x in inputs]
    hidden = reduce(or_, [as_masked(x)._mask for x in inputs if type(x) not in NUMBERS])
    outside = _outside(ufunc, values)
    hidden = hidden if outside is None else hidden | outside
    if outside is not None or finite:  # no warnings of values that nobody sees
        fills: Any = _CORE.ufunc_fills.get(ufunc, 1)
        fills = fills if isinstance(fills, tuple) else (fills,)
        values[-1] = _shown(hidden, fills[-1], values[-1])
    computed = call(ufunc, tuple(values), **kwargs)
    if finite and computed.dtype.kind in "fc":
        hidden = hidden | ~np.isfinite(computed)
    made = [_zipped(x, hidden, inputs) for x in (computed if ufunc.nout > 1 else (computed,))]
    if out is not None:
        made = [_into(target, x) for target, x in
                zip(out if isinstance(out, tuple) else (out,), made, strict=True)]
    return made[0] if ufunc.nout == 1 else tuple(made)


def _shown(hidden: Array, fill: Any, value: Any) -> Any:
    """Return a value for all that is hidden, of the type of the operand."""
    if type(value) in NUMBERS:
        return value or functions["where"](hidden, type(value)(fill), value)
    return functions["where"](hidden, np.asarray(fill).astype(value.dtype)[()], value)


def _into(target: Any, made: MaskedArray) -> Any:
    """Write the values and the mask of a result into an operand, as ``x += y`` does."""
    if target is None:
        return made
    if not isinstance(target, MaskedArray):
        _refuse("an operation in place on an array without a mask")
    if not np.can_cast(made.dtype, target.dtype, "same_kind"):
        raise TypeError(f"Cannot cast ufunc output from {made.dtype!r} to {target.dtype!r}")
    target._data[...] = made._data
    target._mask[...] = made._mask
    return target


def _finite(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    __tracebackhide__ = True  # for IPython and pytest
    return NotImplemented if defers(a) or defers(b) else _ufunc(ufunc, (a, b), finite=True)


# -- rules for masks, by name -----------------------------------------------------------------


def _check(name: str, x: Any, args: Any, kwargs: Any) -> None:
    """Refuse a mask that only another argument than the first has, and an array to write to."""
    if not any(map(_has_mask, x if isinstance(x, list | tuple) else [x])):
        _refuse(f"la.{name}, but of its first argument,")
    if signature(functions[name]).bind(x, *args, **kwargs).arguments.get("out") is not None:
        _refuse(f"la.{name} with out=")


def _both(name: str, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Do the same to the values and to the mask."""
    _check(name, x, args, kwargs)
    data = functions[name](_data_of(x), *args, **kwargs)
    mask = functions[name](_mask_of(x), *args, **kwargs)
    return _zipped(data, mask, x if isinstance(x, list | tuple) else [x])


def _values(name: str, x: Any, *args: Any, fill: Any = None, **kwargs: Any) -> MaskedArray:
    """Do something to values, which stay masked as they are."""
    _check(name, x, args, kwargs)
    x = as_masked(x)
    data = x._data if fill is None else x._with(fill)
    data = functions[name](data, *args, **kwargs)
    if data.shape != x.shape:
        _refuse(f"la.{name} to another shape")
    return _zipped(data, functions["copy"](x._mask), [x])


def _over_axes(name: str, x: Any, args: Any, kwargs: Any) -> tuple[MaskedArray, dict[str, Any]]:
    _check(name, x, args, kwargs)
    x = as_masked(x)
    given = signature(functions[name]).bind(x, *args, **kwargs).arguments
    del given["a"]
    given.pop("split_every", None)
    given.pop("out", None)
    for key in "where", "initial":
        value = given.pop(key, None)
        if value is not None and value is not np._NoValue and value is not True:
            _refuse(f"la.{name} with {key}=")
    return x, {"axis": None, **given}


def _total(name: str, x: Any, *args: Any, fill: Any, **kwargs: Any) -> MaskedArray:
    """Reduce what is not masked; masked where all is."""
    x, given = _over_axes(name, x, args, kwargs)
    value = fill(x.dtype) if callable(fill) else fill
    data = functions[name](x._with(value), **given)
    return MaskedArray(data, _all_masked(x, given))


def _all_masked(x: MaskedArray, given: dict[str, Any]) -> Any:
    return functions["all"](x._mask, given["axis"], keepdims=given.get("keepdims", False))


def _mean(x: Any, *args: Any, **kwargs: Any) -> MaskedArray:
    x, given = _over_axes("mean", x, args, kwargs)
    dtype = np.dtype(given.pop("dtype", None) or ("f8" if x.dtype.kind in "biu" else x.dtype))
    inner = np.dtype("f4") if dtype == np.float16 else dtype
    count = x.count(given["axis"], given.get("keepdims", False))
    total = functions["sum"](x._with(0), dtype=inner, **given)
    result = "f8" if dtype.kind in "biu" else dtype  # as in NumPy, which divides the sum
    return MaskedArray((total / np.maximum(count, 1)).astype(result), count == 0)


def _spread(name: str, x: Any, *args: Any, **kwargs: Any) -> MaskedArray:
    x, given = _over_axes(name, x, args, kwargs)
    keepdims, ddof = given.get("keepdims", False), given.get("ddof", 0)
    if (correction := given.get("correction", np._NoValue)) is not np._NoValue:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    inner = np.dtype(given.get("dtype") or ("f8" if x.dtype.kind in "biu" else x.dtype))
    if x.dtype.kind not in "biufc" or inner.kind in "biu":  # NumPy rounds the mean alone
        _refuse(f"la.{name} of {x.dtype} with dtype={inner}")
    result = np.empty(0, inner).real.dtype
    finish = SpreadOfMoments(ddof, name == "std", result)
    inner = np.result_type(inner, "f4")
    data = reduced(
        as_node(x._data), MOMENTS, given["axis"], keepdims, inner, result, finish,
        as_node(~x._mask),
    )
    return MaskedArray(Array(data), x.count(given["axis"], keepdims) <= ddof)


def _place(name: str, fill: Any, x: Any, *args: Any, **kwargs: Any) -> Array:
    """Return where an extreme is: an array without a mask, as in NumPy."""
    _check(name, x, args, kwargs)
    x = as_masked(x)
    found: Array = functions[name](x._with(fill(x.dtype)), *args, **kwargs)
    return found


def _product(name: str, a: Any, b: Any, *args: Any, **kwargs: Any) -> MaskedArray:
    """Return sums of products of what is not masked; masked where there is nothing to add."""
    _check(name, [a, b], (b, *args), kwargs)
    one, other = as_masked(a), as_masked(b)
    data = functions[name](one._with(0), other._with(0), *args, **kwargs)
    pairs = functions[name](~one._mask, ~other._mask, *args, **kwargs)
    return MaskedArray(data, ~pairs.astype(bool))


def _map_blocks(func: Any, *args: Any, **kwargs: Any) -> MaskedArray:
    paired = tuple(map(_has_mask, args))
    given = [part for x, two in zip(args, paired, strict=True)
             for part in ((as_masked(x)._data, as_masked(x)._mask) if two else (x,))]
    found = functions["map_blocks"](OfPairs(func, paired), *given, **kwargs)
    mask = found.map_blocks(np.ma.getmaskarray, dtype=bool)
    return MaskedArray(found.map_blocks(np.ma.getdata, dtype=kwargs.get("dtype")), mask)


def _from_array(x: Any, chunks: Any = "auto", *, asarray: Any = None, **kwargs: Any) -> Any:
    if kwargs:
        _refuse(f"la.from_array of a masked array with {min(kwargs)}=")
    return as_masked(x, chunks=chunks)


_SHAPES = (
    "array_split atleast_1d atleast_2d atleast_3d broadcast_to column_stack concat concatenate "
    "copy copy_method diagonal dsplit dstack expand_dims flip fliplr flipud hsplit hstack "
    "matrix_transpose moveaxis permute_dims ravel rechunk repeat reshape reshape_method roll "
    "rollaxis rot90 split squeeze stack swapaxes take tile transpose unstack vsplit vstack"
)
_ELEMENTS = "around astype clip conj_of empty_like full_like imag ones_like real round zeros_like"

_RULES: dict[str, Callable[..., Any]] = {
    **{name: partial(_both, name) for name in _SHAPES.split()},
    **{name: partial(_values, name) for name in _ELEMENTS.split()},
    "cumsum": partial(_values, "cumsum", fill=0),
    "cumprod": partial(_values, "cumprod", fill=1),
    "sum": partial(_total, "sum", fill=0),
    "prod": partial(_total, "prod", fill=1),
    "all": partial(_total, "all", fill=True),
    "any": partial(_total, "any", fill=False),
    **{name: partial(_total, name, fill=np.ma.maximum_fill_value) for name in ("max", "amax")},
    **{name: partial(_total, name, fill=np.ma.minimum_fill_value) for name in ("min", "amin")},
    "ptp": lambda x, *args, **kwargs: functions["max"](x, *args, **kwargs)
    - functions["min"](x, *args, **kwargs),
    "mean": _mean,
    "var": partial(_spread, "var"),
    "std": partial(_spread, "std"),
    "argmax": partial(_place, "argmax", np.ma.maximum_fill_value),
    "argmin": partial(_place, "argmin", np.ma.minimum_fill_value),
    "dot": partial(_product, "dot"),
    "tensordot": partial(_product, "tensordot"),
    "asanyarray": as_masked,
    "from_array": _from_array,
    "map_blocks": _map_blocks,
    "map_blocks_of": lambda x, func, *args, **kwargs: _map_blocks(func, x, *args, **kwargs),
    "call_ufunc": _ufunc,
    "__call__": lambda ufunc, *inputs, **kwargs: _ufunc(ufunc.ufunc, inputs, **kwargs),
}


def masked_call(name: str) -> Callable[..., Any]:
    """Return the masked counterpart of a function of `lazyflow.array`."""
    return _RULES.get(name) or partial(_refused, name)


def _refused(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    _refuse(f"la.{name}")


# -- as np.ma ---------------------------------------------------------------------------------


def masked_array(
    data: Any, mask: Any = nomask, dtype: Any = None, copy: bool = False, fill_value: Any = None,
    keep_mask: bool = True, chunks: Any = "auto",
) -> MaskedArray:
    """Return an array with a mask; parameters are those of ``np.ma.masked_array``.

    chunks
        As of `from_array`, for data that is not chunked yet.

    Raises
    ------
    MaskError
        The mask has another shape.
    TypeError
        The elements have fields, which would have a mask each.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.ma.masked_array([1, 2, 3], mask=[True, False, False]).sum().compute()
    np.int64(5)
    """
    x = as_masked(data, chunks=chunks)
    values = x._data if dtype is None else x._data.astype(dtype)
    hidden = x._mask
    if mask is not nomask:
        given = as_array(mask).astype(bool)
        if given.size == 1:
            given = functions["broadcast_to"](given.reshape(()), x.shape)
        elif given.shape != x.shape:
            raise np.ma.MaskError(
                f"Mask and data not compatible: data shape is {x.shape}, and mask shape is "
                f"{given.shape}"
            )
        hidden = hidden | given if keep_mask else given
    made = MaskedArray(values, hidden, _fill_of([x], values.dtype))
    if fill_value is not None:
        made.fill_value = fill_value
    return made.copy() if copy else made


def masked_where(condition: Any, a: Any, copy: bool = True) -> MaskedArray:
    """Return an array that is masked where a condition holds, or is masked itself.

    Raises
    ------
    IndexError
        The condition has another shape.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(4, chunks=2)
    >>> la.ma.masked_where(x % 2 == 0, x).compute().tolist()
    [None, 1, None, 3]
    """
    x = as_masked(a)
    hides = filled(condition, True).astype(bool)
    if hides.ndim and hides.shape != x.shape:
        raise IndexError(
            f"Inconsistent shape between the condition and the input (got {hides.shape} and "
            f"{x.shape})"
        )
    return MaskedArray(Array(x._data.expr) if copy else x._data, x._mask | hides, x._fill)


def _masked_if(name: str, compare: np.ufunc, with_fill: bool = False) -> Callable[..., Any]:
    def made(x: Any, value: Any, copy: bool = True) -> MaskedArray:
        x = as_masked(x)
        has_axes = getattr(value, "ndim", 0) > 0
        if with_fill and has_axes:
            raise ValueError(f"{name} takes one value, which is the fill value, not an array")
        if has_axes:
            value = as_masked(value)
            shape = np.broadcast_shapes(x.shape, value.shape)
            x = x if shape == x.shape else functions["broadcast_to"](x, shape)
        found = masked_where(_ufunc(compare, (x, value)), x, copy)
        if with_fill:
            found.fill_value = value
        return found

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"Return `x` masked where ``np.{compare.__name__}(x, value)``."
    if with_fill:
        made.__doc__ += "\n\nRaises\n------\nValueError\n    `value` is an array.\n"
    shown = [None if compare(each, 2) else each for each in (1, 2, 3)]
    made.__doc__ += f"""\n\nExamples\n--------
>>> import lazyflow.array as la
>>> la.ma.{name}(la.asarray([1, 2, 3]), 2).compute().tolist()
{shown}
"""
    return made


masked_equal = _masked_if("masked_equal", np.equal, with_fill=True)
masked_not_equal = _masked_if("masked_not_equal", np.not_equal)
masked_greater = _masked_if("masked_greater", np.greater)
masked_greater_equal = _masked_if("masked_greater_equal", np.greater_equal)
masked_less = _masked_if("masked_less", np.less)
masked_less_equal = _masked_if("masked_less_equal", np.less_equal)
masked_object = _masked_if("masked_object", np.equal, with_fill=True)


def masked_inside(x: Any, v1: Any, v2: Any, copy: bool = True) -> MaskedArray:
    """Return `x` masked inside of an interval, whose ends may be in any order.

    >>> import lazyflow.array as la
    >>> la.ma.masked_inside(la.arange(5), 3, 1).compute().tolist()
    [0, None, None, None, 4]
    """
    data = as_masked(x)._data
    return masked_where((data >= min(v1, v2)) & (data <= max(v1, v2)), x, copy)


def masked_outside(x: Any, v1: Any, v2: Any, copy: bool = True) -> MaskedArray:
    """Return `x` masked outside of an interval, whose ends may be in any order.

    >>> import lazyflow.array as la
    >>> la.ma.masked_outside(la.arange(5), 3, 1).compute().tolist()
    [None, 1, 2, 3, None]
    """
    data = as_masked(x)._data
    return masked_where((data < min(v1, v2)) | (data > max(v1, v2)), x, copy)


def masked_values(
    x: Any, value: Any, rtol: float = 1e-5, atol: float = 1e-8, copy: bool = True,
    shrink: bool = True,
) -> MaskedArray:
    """Return `x` masked where it is close to a value, within the tolerances of `isclose`.

    Raises
    ------
    ValueError
        `value` is an array.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.ma.masked_values(la.asarray([1.0, 2.0]), 1.000001).compute().tolist()
    [None, 2.0]
    """
    if getattr(value, "shape", ()):
        raise ValueError("masked_values takes one value, which is the fill value, not an array")
    data = filled(x, value)
    is_close = partial(functions["isclose"], rtol=rtol, atol=atol)
    near = is_close(data, value) if data.dtype.kind == "f" else data == value
    found = masked_where(near, data, copy)
    found.fill_value = value
    return found


def masked_invalid(a: Any, copy: bool = True) -> MaskedArray:
    """Return `a` masked where it is NaN or infinite.

    >>> import lazyflow.array as la
    >>> la.ma.masked_invalid(la.asarray([1.0, float("nan")])).compute().tolist()
    [1.0, None]
    """
    return masked_where(~np.isfinite(as_masked(a)._data), a, copy)


def fix_invalid(
    a: Any, mask: Any = nomask, copy: bool = True, fill_value: Any = None
) -> MaskedArray:
    """Return `a` masked where it is NaN or infinite, with the fill value there.

    >>> import lazyflow.array as la
    >>> la.ma.fix_invalid(la.asarray([1.0, float("inf")]), fill_value=0).data.compute().tolist()
    [1.0, 0.0]
    """
    x = masked_array(a, mask)
    invalid = ~np.isfinite(x._data)
    value = x.fill_value if fill_value is None else _checked_fill(fill_value, x.dtype)
    return MaskedArray(functions["where"](invalid, value, x._data), x._mask | invalid, x._fill)


def filled(a: Any, fill_value: Any = None) -> Array:
    """Return a chunked array without a mask; masked elements get the fill value.

    >>> import lazyflow.array as la
    >>> la.ma.filled(la.ma.masked_equal(la.arange(3), 1), 9).compute().tolist()
    [0, 9, 2]
    """
    return as_masked(a).filled(fill_value) if _has_mask(a) else as_array(a)


def getdata(a: Any) -> Array:
    """Return the values, masked or not; after operations, masked ones are unspecified.

    >>> import lazyflow.array as la
    >>> la.ma.getdata(la.ma.masked_equal(la.arange(3), 1)).compute().tolist()
    [0, 1, 2]
    """
    return as_masked(a)._data


def getmaskarray(a: Any) -> Array:
    """Return which elements are masked, as an array of booleans.

    >>> import lazyflow.array as la
    >>> la.ma.getmaskarray(la.ma.masked_equal(la.arange(3), 1)).compute().tolist()
    [False, True, False]
    """
    return as_masked(a)._mask


def set_fill_value(a: Any, fill_value: Any) -> None:
    """Set the fill value of a masked array; other arrays are left alone.

    >>> import lazyflow.array as la
    >>> x = la.ma.masked_equal(la.arange(3), 1)
    >>> la.ma.set_fill_value(x, 7)
    >>> x.filled().compute()
    array([0, 7, 2])
    """
    if isinstance(a, MaskedArray):
        a.fill_value = fill_value


def count(a: Any, axis: Any = None, keepdims: bool = False, split_every: Any = None) -> Array:
    """Return how many elements over axes are not masked.

    >>> import lazyflow.array as la
    >>> la.ma.count(la.ma.masked_equal(la.asarray([[1, 2], [1, 3]]), 1), axis=0).compute()
    array([0, 2])
    """
    return as_masked(a).count(axis, keepdims)


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: bool = False,
) -> Any:
    """Return the weighted mean of unmasked elements; parameters as of ``np.average``.

    Raises
    ------
    TypeError
        The shapes of `a` and `weights` differ, and there is no `axis`.
    ValueError
        The shape of `weights` does not fit the axis.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> float(la.ma.average(la.ma.masked_equal(la.arange(4), 1), weights=[1, 1, 1, 3]).compute())
    2.2
    """
    x = as_masked(a)
    if weights is None:
        found, total = _mean(x, axis, keepdims=keepdims), x.count(axis, keepdims)
        return (found, total.astype(found.dtype)) if returned else found
    w = as_masked(weights)
    spread = [
        functions["broadcast_to"](Array(spread_weights(part.expr, x._data.expr, axis)), x.shape)
        for part in (w._data, w._mask)
    ]
    w = MaskedArray(spread[0], spread[1] | x._mask)
    dtype = np.result_type(x.dtype, w.dtype, *(["f8"] if x.dtype.kind in "biu" else []))
    scale = w.sum(axis, dtype=dtype, keepdims=keepdims)
    total = (x * w).sum(axis, dtype=dtype, keepdims=keepdims)
    return (total / scale, scale) if returned else total / scale


ones_like = partial(_values, "ones_like")
zeros_like = partial(_values, "zeros_like")
empty_like = partial(_values, "empty_like")


def nonzero(a: Any) -> tuple[Array, ...]:
    """Return where elements are neither masked nor zero, an array for each axis.

    >>> import lazyflow.array as la
    >>> [at.compute().tolist() for at in la.ma.nonzero(la.ma.masked_equal(la.arange(4), 1))]
    [[2, 3]]
    """
    return tuple(functions["nonzero"](as_masked(a)._with(0)))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Return elements of `x` where the condition holds, else of `y`; masked where that is masked.

    With the condition alone it is `nonzero`.

    Raises
    ------
    ValueError
        Only one of `x` and `y` is given.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.ma.where(la.arange(3) > 0, la.ma.masked_equal(la.arange(3), 1), 5).compute().tolist()
    [5, None, 2]
    """
    if (x is None) != (y is None):
        raise ValueError("either both or neither of x and y should be given")
    if x is None:
        return nonzero(condition)
    chosen = as_masked(condition)
    data = functions["where"](chosen._data, *[
        np.zeros((), getattr(other, "dtype", None)) if each is masked else _data_of(each)
        for each, other in ((x, y), (y, x))
    ])
    mask = functions["where"](chosen._data, _mask_of(x), _mask_of(y)) | chosen._mask
    return MaskedArray(data, mask, _fill_of([x, y], data.dtype))


_RULES.update(average=average, nonzero=nonzero, where=where)
