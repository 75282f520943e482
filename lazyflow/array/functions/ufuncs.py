"""The methods of NumPy's ufuncs on chunked arrays, and ufuncs by the names ``la.name``.

``reduce`` of the common ufuncs is the function of that name, such as `sum`, unless a keyword needs
the general one; ``accumulate`` is a scan; ``outer`` an operation on broadcast views. ``at`` and
``reduceat`` of NumPy's ufuncs raise TypeError, which names `map_blocks`; ``la.name`` has neither.
It gives chunked arrays for any argument that makes an array. Generalised ufuncs are
not here (users/gufuncs.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.dispatch import with_lengths
from lazyflow.array.functions.arguments import as_array
from lazyflow.array.functions.elementwise import call_ufunc
from lazyflow.array.functions.reductions import totals
from lazyflow.array.functions.reductions.totals import ufunc_accumulate, ufunc_reduce
from lazyflow.array.names import UFUNCS
from lazyflow.array.nodes.elementwise import owner
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import view

#: What the reduce method of a ufunc is called when it has a name of its own.
_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: totals.sum, np.multiply: totals.prod, np.maximum: totals.max, np.minimum: totals.min,
    np.logical_and: totals.all, np.logical_or: totals.any,
}

#: Keywords of those that have not all that reduce has.
_OPTIONS: dict[Any, set[str]] = {
    totals.all: (_OF_TRUTH := {"axis", "out", "keepdims", "where"}), totals.any: _OF_TRUTH,
    totals.max: (_OF_EXTREMES := {*_OF_TRUTH, "initial"}), totals.min: _OF_EXTREMES,
}


@with_lengths
def ufunc_method(ufunc: np.ufunc, how: str, *inputs: Any, **kwargs: Any) -> Any:
    """Return what a method of a ufunc gives for arrays: reduce, accumulate or outer."""
    if how == "outer":
        return _outer(owner(ufunc), *inputs, **kwargs)
    if how == "reduce":
        return _reduce(ufunc, *inputs, **{"axis": 0, **kwargs})
    if how == "accumulate":
        return ufunc_accumulate(owner(ufunc), *inputs, **kwargs)
    raise TypeError(
        f"np.{ufunc.__name__}.{how} does not work on chunked arrays. Compute them first, or apply "
        "it to each block by x.map_blocks(...)"
    )


def _reduce(ufunc: np.ufunc, *inputs: Any, **kwargs: Any) -> Any:
    if kwargs.get("dtype") is None:
        kwargs.pop("dtype", None)
    named = _REDUCTIONS.get(ufunc)
    if named is None or not kwargs.keys() <= _OPTIONS.get(named, kwargs.keys()):
        return ufunc_reduce(owner(ufunc), *inputs, **kwargs)
    return named(*inputs, **kwargs)


def _outer(ufunc: np.ufunc, a: Any, b: Any, **kwargs: Any) -> Any:
    if ufunc.nin != 2:
        raise ValueError("outer product only supported for binary functions")
    one, other = as_node(a), as_node(b)
    selection = Selection((None,) * one.ndim, (*range(one.ndim), *[~1] * other.ndim))
    return call_ufunc(ufunc, (Array(view(one, selection)), Array(other)), **kwargs)


@cache
def _signature(nin: int, nout: int) -> Signature:
    """Return the parameters of ufuncs, which NumPy itself tells only from 2.4 on."""
    names = [f"x{i + 1}" for i in range(nin)] if nin > 1 else ["x"]
    options = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}
    return Signature([
        *[Parameter(name, Parameter.POSITIONAL_ONLY) for name in names],
        Parameter("out", Parameter.POSITIONAL_OR_KEYWORD,
                  default=None if nout == 1 else (None,) * nout),
        *[Parameter(name, Parameter.KEYWORD_ONLY, default=default)
          for name, default in options.items()],
    ])


class UFunc:
    """A ufunc of NumPy by the name ``la.name``: gives chunked arrays whatever it gets.

    >>> import lazyflow.array as la
    >>> la.add([1, 2], 10).compute(), la.hypot.reduce([3.0, 4.0]).compute()
    (array([11, 12]), np.float64(5.0))
    """

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc = ufunc
        self.__name__ = ufunc.__name__
        self.__doc__ = f"As ``np.{ufunc.__name__}``, of chunked arrays or what makes one."
        self.__signature__ = _signature(ufunc.nin, ufunc.nout)
        self.nin = ufunc.nin
        self.nout = ufunc.nout
        self.nargs = ufunc.nargs
        self.types, self.ntypes = ufunc.types, ufunc.ntypes
        self.identity = ufunc.identity
        self.signature = ufunc.signature

    @with_lengths
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs, outputs = args[: self.nin], args[self.nin:]
        if len(inputs) != self.nin or len(outputs) > self.nout:
            raise TypeError(
                f"{self.__name__}() takes from {self.nin} to {self.nin + self.nout} positional "
                f"arguments but {len(args)} were given"
            )
        if outputs:
            kwargs["out"] = (*outputs, *[None] * (self.nout - len(outputs)))
        found = call_ufunc(self.ufunc, inputs, **kwargs)
        if found is NotImplemented:
            for x in inputs:
                as_node(x)  # raises for what is lazy
            raise TypeError(f"{self.__name__}() takes arrays; got {inputs!r:.100}")
        return found

    def reduce(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As ``np.ufunc.reduce``."""
        kwargs.update(zip(("axis", "dtype", "out", "keepdims", "initial", "where"), args,
                          strict=False))
        return ufunc_method(self.ufunc, "reduce", as_array(x), **kwargs)

    def accumulate(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As ``np.ufunc.accumulate``."""
        return ufunc_method(self.ufunc, "accumulate", as_array(x), *args, **kwargs)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        """As ``np.ufunc.outer``."""
        return ufunc_method(self.ufunc, "outer", a, b, **kwargs)

    def __repr__(self) -> str:
        return f"<lazyflow.array ufunc {self.__name__!r}>"


#: All ufuncs of NumPy that work element by element, by name.
BY_NAME: dict[str, UFunc] = {name: UFunc(getattr(np, name)) for name in UFUNCS}
