"""Arrays with blocks of other libraries: scipy.sparse, pydata's sparse, CuPy.

The kind of blocks is found with the dtype, by `meta` or by a trial of the function on ones. Nodes
cut and join the blocks, rechunk them, and give them to users' functions. The functions here take
the place of those that would read the blocks as NumPy's: each calls the library of the blocks and,
when it is called, tries that on blocks of ones; TypeError tells what the library can't do. All
other functions raise TypeError too: only `todense` makes NumPy's arrays of such blocks.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import NUMBERS, as_array
from lazyflow.array.nodes.block_kinds import (
    FAILS,
    OtherKind,
    dense,
    is_other_kind,
    is_scipy_sparse,
    made_up,
)
from lazyflow.array.nodes.reductions import axes_of
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.users.block_layout import from_last
from lazyflow.array.users.map_blocks import blockwise, map_blocks
from lazyflow.array.users.reduction import reduction


def todense(x: Array) -> Array:
    """Return the array with NumPy's arrays as blocks, made by the library of those that it has.

    By ``toarray`` and ``todense`` of sparse matrices and arrays, and ``get`` of CuPy's arrays.

    >>> import lazyflow.array as la
    >>> from scipy.sparse import csr_array
    >>> x = la.ones((4, 2), chunks=2).map_blocks(csr_array)
    >>> type(x.compute()).__name__, x.todense().sum().compute()
    ('csr_array', np.float64(8.0))
    """
    x = as_array(x)
    return x if x.expr.kind is None else map_blocks(dense, x, name="todense", dtype=x.dtype)


def called(name: str, refused: OtherKind, args: Any, kwargs: dict[str, Any]) -> Any:
    """Return what a function gives for arrays of other blocks than NumPy's, or refuse.

    refused
        What the function for NumPy's raised.
    """
    rule = _RULES.get(name)
    shown = f"{getattr(args[0], '__name__', name) if 'call' in name else name}()"
    shown = _SHOWN.get(name, shown.replace("_method", ""))
    if rule is None:
        raise OtherKind(refused.meta, shown, refused.why) from None
    try:
        found = rule(*args, **kwargs)
        for each in found if isinstance(found, tuple) else (found,):
            _ = each.dtype  # tries it
    except OtherKind as error:
        raise OtherKind(refused.meta, shown, error.why) from None
    except FAILS as error:
        cause = error.__cause__ or error
        raise OtherKind(refused.meta, shown, f"{cause!s:.200}".rstrip(".")) from None
    return found


# -- what each block is given to, by the library of the blocks ----------------------------


def _of_blocks(ufunc: np.ufunc, *blocks: Any) -> Any:
    """Return a ufunc of blocks and numbers: scipy.sparse has no protocol of ufuncs."""
    if not any(map(is_scipy_sparse, blocks)):
        return ufunc(*blocks)
    first = blocks[0] if is_scipy_sparse(blocks[0]) else blocks[1]
    if ufunc in _OF_SPARSE:
        found = _OF_SPARSE[ufunc](*blocks)
    elif ufunc in _METHODS and len(blocks) == 2:
        if first is not blocks[0] and ufunc is np.power:
            raise TypeError("a sparse exponent")
        other = blocks[1] if first is blocks[0] else blocks[0]
        found = getattr(first, _METHODS[ufunc])(other)
    elif len(blocks) == 1 and hasattr(first, ufunc.__name__):
        found = getattr(first, ufunc.__name__)()
    else:
        raise TypeError(f"scipy.sparse has no {ufunc.__name__} that stays sparse")
    return _plain(found, first)


def _plain(found: Any, like: Any) -> Any:
    """Return what scipy.sparse gives in the format of its operand, and ``np.matrix`` as array."""
    if is_scipy_sparse(found):
        return found.asformat(like.format) if found.ndim == 2 else found
    return np.asarray(found)


_OF_SPARSE: dict[Any, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.true_divide: operator.truediv,
    np.negative: operator.neg, np.absolute: abs, np.equal: operator.eq,
    np.not_equal: operator.ne, np.less: operator.lt, np.less_equal: operator.le,
    np.greater: operator.gt, np.greater_equal: operator.ge,
}
_METHODS = {
    np.multiply: "multiply", np.power: "power", np.maximum: "maximum", np.minimum: "minimum",
}


def _ufunc(ufunc: np.ufunc, inputs: Sequence[Any], **kwargs: Any) -> Array:
    if given := [name for name, value in kwargs.items() if value is not None]:
        raise TypeError(f"keywords are not known: {', '.join(given)}=")
    if ufunc.signature is not None or ufunc.nout > 1:
        raise TypeError("it has several results or a signature")
    args = [x if type(x) in NUMBERS or isinstance(x, np.generic) else as_array(x) for x in inputs]
    labels = iter(from_last([x.expr for x in args if isinstance(x, Array)]))
    pairs = [(x, next(labels) if isinstance(x, Array) else None) for x in args]
    ndim = max(len(own) for _, own in pairs if own is not None)
    return blockwise(
        named(ufunc.__name__, _of_blocks, ufunc), range(ndim), *sum(pairs, ()), concatenate=True
    )


def _called_ufunc(ufunc: Any, *inputs: Any, **kwargs: Any) -> Array:
    return _ufunc(ufunc.ufunc, inputs, **kwargs)


def _compared(ufunc: np.ufunc, a: Any, b: Any) -> Array:
    return _ufunc(ufunc, (a, b))


def _power_by(x: Any, other: Any) -> Array:
    return _ufunc(np.power, (x, other))


def _astype(x: Array, dtype: Any, **kwargs: Any) -> Array:
    return map_blocks(operator.methodcaller("astype", dtype), x, name="astype")


def _attribute(name: str, x: Array) -> Array:
    return map_blocks(operator.attrgetter(name), x, name=name)


def _conj(x: Array) -> Array:
    return map_blocks(operator.methodcaller("conj"), x, name="conj")


# -- reductions: of each block, then of what these gave, by NumPy where it is NumPy's ----


def _reduced(name: str, block: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    if name == "count_nonzero":
        block, name = _of_blocks(np.not_equal, block, 0), "sum"
    if not is_scipy_sparse(block):
        return getattr(np, name)(block, axis=axis, keepdims=keepdims)
    along = None if len(axis) == block.ndim else axis[0]
    found = getattr(block, name)(axis=along)
    found = found.toarray() if is_scipy_sparse(found) else np.asarray(found)
    kept = [1 if k in axis else n for k, n in enumerate(block.shape)]
    return found.reshape(kept if keepdims else [n for k, n in enumerate(kept) if k not in axis])


def _total(
    name: str, then: str, x: Array, axis: Any = None, dtype: Any = None, out: Any = None,
    keepdims: bool = False,
) -> Array:
    if dtype is not None or out is not None:
        raise TypeError("keywords are not known: dtype=, out=. Use astype()")
    keepdims = keepdims is True
    first = named(name, _reduced, name)
    whole: Any = {"axis": axes_of(axis, x.ndim), "keepdims": True}
    meta = first(made_up(x.expr.kind, np.ones((1,) * x.ndim, x.dtype)), **whole)
    found: Array = reduction(
        x, first, named(name, _reduced, then), axis=axis, keepdims=keepdims,
        dtype=None if is_other_kind(meta) else meta.dtype, meta=meta, name=name,
    )
    return found


def _mean(x: Array, axis: Any = None, dtype: Any = None, out: Any = None, **kwargs: Any) -> Array:
    x.with_known_sizes()
    count = int(np.prod([x.shape[k] for k in axes_of(axis, x.ndim)]))
    kind = "f8" if x.dtype.kind in "iub" else x.dtype
    made = _total("sum", "sum", _astype(x, kind), axis, dtype, out, **kwargs)
    return made / count


def _spread(
    root: bool, x: Array, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
    keepdims: bool = False, correction: Any = None,
) -> Array:
    if is_scipy_sparse(x.expr.kind):
        raise TypeError("differences from the mean are not sparse")
    apart = abs(x - _mean(x, axis, dtype, out, keepdims=True))
    x.with_known_sizes()
    count = int(np.prod([x.shape[k] for k in axes_of(axis, x.ndim)]))
    less = ddof if correction is None else correction
    found = _total("sum", "sum", apart * apart, axis, keepdims=keepdims) / (count - less)
    return np.sqrt(found) if root else found


# -- products --------------------------------------------------------------------------


def _products(left: list[Any], right: list[Any]) -> Any:
    """Return the sum of the products of blocks that meet."""
    found: Any = None
    for a, b in zip(left, right, strict=True):
        one = a @ b
        if isinstance(one, np.ndarray | np.generic):  # of one element scipy.sparse drops axes
            one = one.reshape(a.shape[:-1] + b.shape[1:])
        found = one if found is None else found + one
    return found


def _matmul(a: Any, b: Any, out: Any = None) -> Array:
    if out is not None:
        raise TypeError("keywords are not known: out=")
    a, b = as_array(a), as_array(b)
    if not (0 < a.ndim < 3 and 0 < b.ndim < 3):
        raise TypeError(f"operands must have one axis or two; they have {a.ndim} and {b.ndim}")
    if a.shape[-1] != b.shape[0]:
        raise ValueError(f"shapes {a.shape} and {b.shape} do not fit")
    left, right = "ik"[-a.ndim:], "kj"[:b.ndim]
    return blockwise(_products, (left + right).replace("k", ""), a, left, b, right, name="matmul")


def _dot(a: Any, b: Any, out: Any = None) -> Array:
    if not np.ndim(a) or not np.ndim(b):
        return _ufunc(np.multiply, (a, b))
    return _matmul(a, b, out)


#: What messages call functions that are no public ones.
_SHOWN = {"getitem_by_arrays": "an array as index", "set_item": "assignment"}

_RULES: dict[str, Callable[..., Any]] = {
    "call_ufunc": _ufunc, "__call__": _called_ufunc, "compared": _compared,
    "power_by": _power_by, "astype": _astype,
    "conj_of": _conj, "real": partial(_attribute, "real"), "imag": partial(_attribute, "imag"),
    **{name: partial(_total, name, name) for name in ("sum", "prod", "max", "min", "all", "any")},
    "count_nonzero": partial(_total, "count_nonzero", "sum"), "mean": _mean,
    "var": partial(_spread, False), "std": partial(_spread, True),
    "matmul": _matmul, "dot": _dot,
}
