"""Functions of single elements that are not ufuncs: most are NumPy's own on each block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.functions.arguments import (
    ArrayLike,
    as_array,
    as_numpy_tells,
    as_result,
    operand_as,
    operands,
)
from lazyflow.array.functions.elementwise import call_ufunc, of_each, where
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.task_parts import named


def sinc(x: ArrayLike) -> Array:
    """Return ``sin(pi x) / (pi x)`` of elements, which is 1 for 0.

    >>> import lazyflow.array as la
    >>> la.sinc(la.asarray([0.0, 0.5])).compute().round(4)
    array([1.    , 0.6366])
    """
    given = as_array(x)
    if given.dtype not in (np.float32, np.float64):
        return of_each(np.sinc, given)
    angle = given * np.pi
    angle = where(angle, angle, np.finfo(given.dtype).eps)
    return call_ufunc(np.sin, (angle,)) / angle


def i0(x: ArrayLike) -> Array:
    """Return the modified Bessel function of the first kind, order 0, of elements.

    >>> import lazyflow.array as la
    >>> la.i0(la.asarray([0.0, 1.0])).compute().round(4)
    array([1.    , 1.2661])
    """
    return of_each(np.i0, x)


def fix(x: ArrayLike, out: Array | None = None) -> Array:
    """Return elements rounded towards zero.

    >>> import lazyflow.array as la
    >>> la.fix(la.asarray([-1.7, 1.7])).compute()
    array([-1.,  1.])
    """
    given = as_array(x)
    as_numpy_tells(np.fix, np.zeros(0, given.dtype))
    found: Array = call_ufunc(np.trunc, (given,), out=out)
    return found


def isreal(x: ArrayLike) -> Array:
    """Return whether elements have no imaginary part other than 0.

    >>> import lazyflow.array as la
    >>> la.isreal(la.asarray([1 + 1j, 2])).compute()
    array([False,  True])
    """
    return of_each(np.isreal, x)


def iscomplex(x: ArrayLike) -> Array:
    """Return whether elements have an imaginary part other than 0.

    >>> import lazyflow.array as la
    >>> la.iscomplex(la.asarray([1 + 1j, 2])).compute()
    array([ True, False])
    """
    return of_each(np.iscomplex, x)


def isneginf(x: ArrayLike, out: Array | None = None) -> Array:
    """Return whether elements are minus infinity.

    >>> import lazyflow.array as la
    >>> la.isneginf(la.asarray([-np.inf, 0.0, np.inf])).compute()
    array([ True, False, False])
    """
    return of_each(np.isneginf, x, out)


def isposinf(x: ArrayLike, out: Array | None = None) -> Array:
    """Return whether elements are plus infinity.

    >>> import lazyflow.array as la
    >>> la.isposinf(la.asarray([-np.inf, 0.0, np.inf])).compute()
    array([False, False,  True])
    """
    return of_each(np.isposinf, x, out)


def isnull(values: ArrayLike) -> Array:
    """Return whether elements are missing: NaN, NaT, or in arrays of objects None.

    >>> import lazyflow.array as la
    >>> la.isnull(la.asarray([1.0, float("nan")])).compute()
    array([False,  True])
    """
    return Array(elementwise.function(_missing, (as_node(values),), bool))


def notnull(values: ArrayLike) -> Array:
    """Return whether elements are not missing: the opposite of `isnull`.

    >>> import lazyflow.array as la
    >>> la.notnull(la.asarray([1.0, np.nan])).compute()
    array([ True, False])
    """
    found: Any = np.logical_not(isnull(values))
    return found


def _missing(x: Any) -> Any:
    if x.dtype.kind == "O":
        none, unequal = np.equal(x, None), np.not_equal(x, x)  # type: ignore[call-overload]
        return none.astype(bool) | unequal.astype(bool)
    if x.dtype.kind in "mM":
        return np.isnat(x)
    return np.isnan(x) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Return for each element that of the first choice whose condition holds, else the default.

    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=2)
    >>> la.select([x < 2, x > 3], [-x, x**2], default=10).compute()
    array([ 0, -1, 10, 10, 16, 25])
    """
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    conditions = [as_array(each) for each in condlist]
    for i, each in enumerate(conditions):
        if each.dtype != bool:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    choices, dtype = operands((*choicelist, default))
    for given, each in zip(choicelist, choices, strict=False):
        kind = np.asarray(each).dtype if not isinstance(each, Expr) else each.dtype
        if not np.can_cast(kind, dtype, "same_kind"):  # the default is cast in any way
            raise TypeError(
                f"Cannot cast a choice of {kind!r} to {dtype!r} according to the rule 'same_kind'. "
                f"Write np.{dtype}({given!r:.20}) as the choice"
            )
    *chosen, found = [Array(operand_as(x, dtype)) for x in choices]
    for condition, choice in zip(reversed(conditions), reversed(chosen), strict=True):
        found = where(condition, choice, found)
    return found


# -- dates ----------------------------------------------------------------------------------------


def is_busday(dates: ArrayLike, *args: Any, out: Array | None = None, **options: Any) -> Array:
    """Return whether dates are working days; parameters are those of ``np.is_busday``.

    >>> import lazyflow.array as la
    >>> la.is_busday(la.asarray(["2026-11-27", "2026-11-28"], "M8[D]")).compute()
    array([ True, False])
    """
    return _of_dates(np.is_busday, 1, (dates, *args), options, out)


def busday_count(
    begindates: ArrayLike, enddates: ArrayLike, *args: Any, out: Array | None = None, **options: Any
) -> Array:
    """Return how many working days there are from dates to others; as ``np.busday_count``.

    >>> import lazyflow.array as la
    >>> la.busday_count("2026-11-01", la.asarray(["2026-11-08", "2026-12-01"], "M8[D]")).compute()
    array([ 5, 21])
    """
    return _of_dates(np.busday_count, 2, (begindates, enddates, *args), options, out)


def busday_offset(
    dates: ArrayLike, offsets: ArrayLike, *args: Any, out: Array | None = None, **options: Any
) -> Array:
    """Return dates so many working days later; parameters are those of ``np.busday_offset``.

    What `roll` refuses is told when it is computed.

    >>> import lazyflow.array as la
    >>> la.busday_offset(la.asarray(["2026-11-27"], "M8[D]"), 1).compute()
    array(['2026-11-30'], dtype='datetime64[D]')
    """
    return _of_dates(np.busday_offset, 2, (dates, offsets, *args), options, out)


def datetime_as_string(arr: ArrayLike, *args: Any, **options: Any) -> Array:
    """Return dates as texts; parameters are those of ``np.datetime_as_string``.

    >>> import lazyflow.array as la
    >>> la.datetime_as_string(la.asarray(["2026-11-27"], "M8[D]"), unit="M").compute().tolist()
    ['2026-11']
    """
    return _of_dates(np.datetime_as_string, 1, (arr, *args), options)


def _of_dates(
    function: Any, count: int, given: tuple[Any, ...], options: Any, out: Any = None
) -> Array:
    """Return what a function gives for arguments of which the first are arrays."""
    func = named(function.__name__, _with_others, function, given[count:], options)
    dates = [x if isinstance(x, Array) else np.asarray(x) for x in given[:count]]
    nodes = tuple([as_node(x.astype("M8[D]") if x.dtype.kind in "UO" else x) for x in dates])
    dtype = func(*[np.empty(0, x.dtype) for x in nodes]).dtype  # and NumPy's checks
    return as_result(elementwise.function(func, nodes, dtype), out)


def _with_others(function: Any, others: Any, options: Any, *blocks: Any) -> Any:
    return np.asarray(function(*blocks, *others, **options))
