"""Functions of single elements: ufuncs, and others, most of them NumPy's own on each block.

A call of a ufunc becomes one node for each result, with the dtypes of NumPy's loops; the passes
fuse neighbouring nodes into one task for each block. `round`, `nan_to_num` and `sinc` of float32
and float64 are made of ufuncs. Other functions, and other dtypes, are NumPy's own function on each
block, whose dtype a call for one element or for none tells. Of the keywords of ufuncs
``signature=``, ``order="F"`` and ``subok=False`` are refused. A write to ``x.real`` or ``x.imag``
goes to `x`, as in NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from lazyflow.array.aliases import seen
from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import dtype_of_cast, resolve_lengths
from lazyflow.array.functions.arguments import (
    NUMBERS,
    ArrayLike,
    Casting,
    DTypeLike,
    as_array,
    as_numpy_tells,
    as_result,
    assign_out,
    broadcast_node,
    check_device,
    check_order,
    operand,
    operand_as,
    operands,
)
from lazyflow.array.functions.indexing.index_arrays import nonzero
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.user_calls import PerBlock
from lazyflow.array.nodes.views import with_axes
from lazyflow.graph.kinds import FOREIGN, kinds


def call_ufunc(
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
    **others: Any,
) -> Any:
    """Return the results of a ufunc for arrays; options are those of NumPy's ufuncs."""
    if others:
        raise TypeError(
            f"{ufunc.__name__}() of chunked arrays takes out=, where=, casting= and dtype=, not "
            f"{min(others)}=. To choose a loop cast the operands: x.astype(...); to call it as it "
            f"is for each block: x.map_blocks(np.{ufunc.__name__}, {min(others)}=...)"
        )
    if order not in ("K", "C", "A") or not subok:
        raise TypeError("chunked arrays take neither order= nor subok= of a ufunc")
    if ufunc is np.power and dtype is None and _has_own_power(*inputs):
        ufunc, inputs = _POWERS[inputs[1]], inputs[:1]
    operands = [_ufunc_operand(x) for x in inputs]
    if any(x is NotImplemented for x in operands):
        return NotImplemented
    given = out if isinstance(out, tuple) else (out,) * ufunc.nout
    if ufunc is np.multiply and given[0] is not None and as_node(given[0]).dtype.kind in "SU":
        nodes = _repeated_texts(operands, as_node(given[0]).dtype)
    else:
        nodes = elementwise.ufunc(ufunc, operands, dtype, casting)
    results = []
    for node, target in zip(nodes, given, strict=True):
        if where is not True:
            before = as_node(target) if target is not None else 0
            node = elementwise.where(as_node(where), node, before)
        results.append(Array(node) if target is None else assign_out(target, node, casting))
    return results[0] if len(results) == 1 else tuple(results)


def _repeated_texts(operands: list[Any], dtype: np.dtype[Any]) -> tuple[Expr, ...]:
    """Return texts as often as numbers say, cut to the type of what they are written to."""
    nodes = tuple([x if isinstance(x, Expr) else elementwise.constant(x) for x in operands])
    np.multiply.resolve_dtypes((*[x.dtype for x in nodes], dtype))  # raises for what is no number
    return (elementwise.function(_repeat, nodes, dtype, kind=dtype),)


def _repeat(a: Any, b: Any, kind: Any) -> Any:
    return np.multiply(a, b, out=np.empty(np.broadcast_shapes(a.shape, b.shape), kind))


def _ufunc_operand(x: Any) -> Any:
    if type(x) in NUMBERS:
        return x
    if isinstance(x, Array):
        return x.expr
    if isinstance(x, (np.ndarray, np.generic, list, tuple, *NUMBERS)):
        return as_node(x)
    if kinds[type(x)] == FOREIGN:
        return as_node(x)
    if hasattr(x, "_lazyflow_kind") or getattr(type(x), "__array_ufunc__", 0) != 0:
        return NotImplemented
    return as_node(x)


#: Exponents for which powers of floats are those of a ufunc of its own, as in NumPy.
_POWERS = {-1: np.reciprocal, 0.5: np.sqrt, 2: np.square}


#: Kinds of other elements whose second power is a square: NumPy 2.3 takes none of booleans.
_SQUARED = "biu" if (np.zeros(0, bool) ** 2).dtype == np.int8 else "iu"


def _has_own_power(x: Any, exponent: Any) -> bool:
    is_float = isinstance(x, Array) and x.dtype.kind == "f"
    return is_float and type(exponent) in (int, float) and exponent in _POWERS


def power_by(x: Array, exponent: Any) -> Any:
    """Return ``x ** exponent`` as NumPy's operator does it."""
    if type(exponent) in (int, float) and x.dtype.kind == "c" and exponent in _POWERS:
        return call_ufunc(_POWERS[exponent], (x,))
    if type(exponent) is int and exponent == 2 and x.dtype.kind in _SQUARED:
        return call_ufunc(np.square, (x,))
    if type(exponent) is int and exponent in (3, 4) and x.dtype.kind in "iu":
        square = call_ufunc(np.square, (x,))  # products wrap as the power does
        return call_ufunc(np.multiply, (square, x if exponent == 3 else square))
    return call_ufunc(np.power, (x, exponent))


_COMPARE: dict[np.ufunc, Any] = {np.equal: operator.eq, np.not_equal: operator.ne}


def compared(ufunc: np.ufunc, x: Array, other: Any) -> Any:
    """Return ``x == other`` or ``x != other``; values of types without comparison are not equal."""
    if x.dtype.kind == "V":
        given = _ufunc_operand(other)
        if isinstance(given, Expr) and given.dtype.kind == "O":
            raise TypeError("Cannot compare structured or void to non-void arrays.")
    try:
        return call_ufunc(ufunc, (x, other))
    except TypeError:
        resolve_lengths(x, other)
        given = _ufunc_operand(other)
        nodes = x.expr, given if isinstance(given, Expr) else elementwise.constant(given)
        return Array(elementwise.function(_COMPARE[ufunc], nodes, bool))


def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None) -> Any:
    """Return elements of `x` where the condition holds, and elsewhere those of `y`.

    With the condition alone it is `nonzero`.

    Raises
    ------
    ValueError
        Only one of `x` and `y` is given.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(5, chunks=2)
    >>> la.where(x % 2 == 0, x, -1).compute()
    array([ 0, -1,  2, -1,  4])
    """
    if (x is None) != (y is None):
        raise ValueError("either both or neither of x and y should be given")
    if x is None:
        return nonzero(condition)
    return Array(elementwise.where(as_node(condition), operand(x), operand(y)))


def astype(
    x: ArrayLike, dtype: DTypeLike, order: str = "K", casting: Casting = "unsafe",
    subok: bool = True, copy: bool = True, device: Any = None
) -> Array:
    """Return the array with elements of another dtype; parameters are those of ``np.astype``.

    A `dtype` without a length (``str``, ``"S"``) or a unit (``"M8"``) gets NumPy's. For objects,
    and for texts as dates, this depends on the values: they are computed now, and again with the
    result. ``"U10"`` or ``"M8[s]"`` avoid that.

    Raises
    ------
    TypeError
        `casting` does not allow the cast.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.astype(la.arange(3), float).compute()
    array([0., 1., 2.])
    >>> la.astype(la.asarray(["a", None, 1.25], dtype=object), str).dtype
    dtype('<U4')
    """
    node = as_node(x)
    dtype = np.dtype(dtype)
    check_order(order)
    check_device(device)
    if not np.can_cast(node.dtype, dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {node.dtype!r} to {dtype!r} according to the rule "
            f"{casting!r}"
        )
    return Array(elementwise.cast(node, dtype_of_cast(node, dtype)))


_CLIP: Any = np._core.umath.clip  # type: ignore[attr-defined]  # NumPy gives it no name


def clip(
    a: ArrayLike, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None,
    out: Array | None = None, *, min: ArrayLike | None = None, max: ArrayLike | None = None,
    dtype: DTypeLike | None = None
) -> Array:
    """Return elements limited to an interval; parameters are those of ``np.clip``.

    Raises
    ------
    TypeError
        `out` is no chunked array, or of a type that cannot hold the result.
    ValueError
        Bounds are given in both ways.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.clip(la.arange(6, chunks=2), 1, 4).compute()
    array([1, 1, 2, 3, 4, 4])
    >>> la.clip(la.arange(6, chunks=2), min=3).compute()
    array([3, 3, 3, 3, 4, 5])
    """
    if (a_min is not None or a_max is not None) and (min is not None or max is not None):
        raise ValueError(
            "clip() takes the bounds as a_min and a_max or as min= and max=, not both"
        )
    low: Any = a_min if min is None else min
    high: Any = a_max if max is None else max
    x: Any = Array(as_node(a))
    if x.dtype.kind in "iu":  # numbers that the dtype does not have bound nothing, as in NumPy
        limits = np.iinfo(x.dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    if low is not None and high is not None:
        x = call_ufunc(_CLIP, (x, low, high), dtype=dtype)
    elif low is not None:
        x = call_ufunc(np.maximum, (x, low), dtype=dtype)
    elif high is not None:
        x = call_ufunc(np.minimum, (x, high), dtype=dtype)
    else:
        x = call_ufunc(np.positive, (x,), dtype=dtype)  # as NumPy, which refuses booleans so
    return x if out is None else as_result(x.expr, out)


def round(a: ArrayLike, decimals: int = 0, out: Array | None = None) -> Array:
    """Return elements rounded to some decimals, halves to the even neighbour.

    Raises
    ------
    TypeError
        `out` is no chunked array, or of a type that cannot hold the result.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.round(la.asarray([0.5, 1.5, 2.25])).compute()
    array([0., 2., 2.])
    """
    node = as_node(a)
    decimals, x = operator.index(decimals), Array(node)
    if decimals == 0 and node.dtype.kind == "f":
        made = call_ufunc(np.rint, (x,)).expr
    elif abs(decimals) <= 30 and node.dtype in (np.float32, np.float64):
        power, ways = 10.0 ** abs(decimals), (np.multiply, np.divide)
        before, after = ways if decimals > 0 else ways[::-1]
        whole = call_ufunc(np.rint, (call_ufunc(before, (x, power)),))
        made = call_ufunc(after, (whole, power)).expr
    else:
        few = 0 if node.dtype.hasobject else 1  # nothing is known of what objects can do
        dtype = np.round(np.zeros(few, node.dtype), decimals).dtype
        made = elementwise.function(np.round, (node,), dtype, decimals=decimals)
    return as_result(made, out)


around = round


def of_each(function: Any, x: Any, out: Any = None, **keywords: Any) -> Array:
    """Apply a function of NumPy; the dtype of the result is found by a call for one element."""
    node = as_node(x)
    dtype = function(np.ones(1, node.dtype), **keywords).dtype
    return as_result(elementwise.function(function, (node,), dtype, **keywords), out)


def real(x: ArrayLike) -> Array:
    """Return the real parts of elements.

    >>> import lazyflow.array as la
    >>> la.real(la.asarray([1 + 2j, 3])).compute()
    array([1., 3.])
    """
    kind = as_node(x).dtype.kind
    return _part_seen(as_array(x), "real") if kind in "cO" else as_array(x)


def imag(x: ArrayLike) -> Array:
    """Return the imaginary parts of elements.

    >>> import lazyflow.array as la
    >>> la.imag(la.asarray([1 + 2j, 3])).compute()
    array([2., 0.])
    """
    node = as_node(x)
    if node.dtype.kind not in "cO":
        return Array(broadcast_node(elementwise.constant(np.zeros((), node.dtype)), node.shape))
    return _part_seen(as_array(x), "imag")


def _part_seen(x: Array, part: str) -> Array:
    def put(base: Array, new: Array) -> None:
        base._expr = elementwise.function(
            _with_part, (base.expr, new.expr), base.dtype, part=part
        )

    look = operator.attrgetter(part)
    part_seen = look(np.empty(0, x.dtype))
    node = elementwise.function(look, (x.expr,), part_seen.dtype)
    return cast(Array, seen(x, node, look, put)) if part_seen.flags.writeable else Array(node)


def _with_part(x: Any, values: Any, part: str) -> Any:
    found = x.copy()
    operator.attrgetter(part)(found)[...] = values
    return found


def conjugated(x: Any) -> Array:
    """Return complex conjugates; real numbers as by NumPy's function."""
    return call_ufunc(np.conjugate, (as_array(x),))


def conj_of(x: Array, out: Array | None = None) -> Array:
    """Return complex conjugates; unlike ``la.conj``, the method leaves real numbers as they are."""
    return as_result((x if x.dtype.kind in "biuf" else conjugated(x)).expr, out)


def angle(x: ArrayLike, deg: bool = False) -> Array:
    """Return the angles of complex numbers, in radians, or with ``deg=True`` in degrees.

    >>> import lazyflow.array as la
    >>> la.angle(la.asarray([1, 1j, -1]), deg=True).compute()
    array([  0.,  90., 180.])
    """
    return of_each(np.angle, x, deg=bool(deg))


_PLAIN = {int, float, type(None)}


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Array:
    """Return elements with NaN and infinities replaced; parameters are those of ``np.nan_to_num``.

    With ``copy=False`` they are replaced in the array itself. Values may be arrays, lazy ones too.

    Raises
    ------
    ValueError
        An array of values has no shape that `x` can be given.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.nan_to_num(la.asarray([1.0, np.nan, np.inf]), posinf=9.0).compute()
    array([1., 0., 9.])
    """
    node = as_node(x)
    if node.dtype in (np.float32, np.float64) and {type(nan), type(posinf), type(neginf)} <= _PLAIN:
        limits = np.finfo(node.dtype)
        y = Array(node)
        for bound, given, other in (-np.inf, neginf, limits.min), (np.inf, posinf, limits.max):
            y = where(Array(node) == bound, other if given is None else given, y)
        made = where(call_ufunc(np.isnan, (Array(node),)), nan, y).expr
    else:
        given = [nan, posinf, neginf]
        values = [as_node(each) for each in given if each is not None]
        made = elementwise.function(
            _nan_to_num, (node, *values), node.dtype, given=tuple(v is not None for v in given)
        )
        if made.shape != node.shape:
            raise ValueError(
                f"values of the shape {made.shape} cannot replace elements of one of {node.shape}"
            )
    return as_result(made, None if copy else x)


def _nan_to_num(x: Any, *values: Any, given: tuple[bool, ...]) -> Any:
    rest = iter(values)
    nan, posinf, neginf = [next(rest) if each else None for each in given]
    replaced: Any = nan
    return np.nan_to_num(x, nan=replaced, posinf=posinf, neginf=neginf)


def copy(a: ArrayLike, order: str = "K") -> Array:
    """Return an independent copy: in-place operations on `a` do not change it.

    Parameters are those of ``np.copy``, without `subok`.

    >>> import lazyflow.array as la
    >>> x = la.zeros(3)
    >>> y = la.copy(x)
    >>> y[0] = 1
    >>> x.compute(), y.compute()
    (array([0., 0., 0.]), array([1., 0., 0.]))
    """
    check_order(order)
    made = Array(as_node(a))
    if order == "C":
        made._order = tuple(range(made.ndim))
    return made


def copy_method(x: Array, order: str = "C") -> Array:
    """Return ``la.copy(x, order)``: in C order, unlike the function, as NumPy's methods do."""
    return copy(x, order)


def field(x: Array, key: Any) -> Array:
    """Return a field of records, or records of several; fields that are arrays have more axes."""
    node = as_node(x)
    few = np.zeros(1, node.dtype)[key]
    names = key if isinstance(key, str) else tuple(key)
    inner = few.shape[1:]
    if not inner:
        return Array(elementwise.function(_field, (node,), few.dtype, names=names))
    chunks = (*[(n,) for n in inner], *node.chunks)
    made = PerBlock((node,), named("getitem", _axes_first, names, len(inner)), few.dtype, chunks)
    axes = range(made.ndim)
    return Array(with_axes(made, (*axes[len(inner):], *axes[:len(inner)])))


def _field(x: Any, names: Any) -> Any:
    return x[names if isinstance(names, str) else list(names)]


def _axes_first(name: str, count: int, x: Any) -> Any:
    return np.moveaxis(x[name], range(-count, 0), range(count))


# -- special functions -------------------------------------------------------------------------


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

    Raises
    ------
    TypeError
        The elements are complex numbers, or are none.

    Examples
    --------
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
    return Array(elementwise.function(_isnull, (as_node(values),), bool))


def notnull(values: ArrayLike) -> Array:
    """Return whether elements are not missing: the opposite of `isnull`.

    >>> import lazyflow.array as la
    >>> la.notnull(la.asarray([1.0, np.nan])).compute()
    array([ True, False])
    """
    found: Any = np.logical_not(isnull(values))
    return found


def _isnull(x: Any) -> Any:
    if x.dtype.kind == "O":
        none, unequal = np.equal(x, None), np.not_equal(x, x)  # type: ignore[call-overload]
        return none.astype(bool) | unequal.astype(bool)
    if x.dtype.kind in "mM":
        return np.isnat(x)
    return np.isnan(x) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Return for each element that of the first choice whose condition holds, else the default.

    Raises
    ------
    TypeError
        A condition is not boolean, or a choice does not fit the dtype of the result.
    ValueError
        There is no condition, or another number of choices.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=2)
    >>> la.select([x < 2, x > 3], [-x, x**2], default=10).compute()
    array([ 0, -1, 10, 10, 16, 25])
    """
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    conditions = [as_array(x) for x in condlist]
    for i, condition in enumerate(conditions):
        if condition.dtype != bool:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    choices, dtype = operands((*choicelist, default))
    for given, choice in zip(choicelist, choices, strict=False):
        kind = choice.dtype if isinstance(choice, Expr) else np.asarray(choice).dtype
        if not np.can_cast(kind, dtype, "same_kind"):  # the default is cast in any way
            raise TypeError(
                f"Cannot cast a choice of {kind!r} to {dtype!r} according to the rule 'same_kind'. "
                f"Write np.{dtype}({given!r:.20}) as the choice"
            )
    *chosen, result = [Array(operand_as(x, dtype)) for x in choices]
    for condition, choice in zip(reversed(conditions), reversed(chosen), strict=True):
        result = where(condition, choice, result)
    return result


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
    """Return dates some working days later; parameters are those of ``np.busday_offset``.

    Dates that `roll` refuses raise when they are computed.

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
