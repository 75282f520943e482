"""Conversions of arrays into objects of NumPy and Python, which compute the array.

A conversion computes the whole array into a new one, even for one element of it. Where the shape
alone shows that it fails, as for the truth of several elements, it raises before anything is
computed; so does ``np.asarray`` of arrays whose blocks are another library's. ``f"{x}"`` computes
nothing; only 0-d arrays take a format, which computes them. The only device is the CPU.
"""

from __future__ import annotations

import operator
import sys
from types import ModuleType
from typing import Any

import numpy as np

from lazyflow.array.dispatch import functions
from lazyflow.array.nodes.block_kinds import OtherKind

#: Versions of the Array API standard that the namespace has.
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


class _Namespace:
    """The method ``__array_namespace__``, which one caller must not see.

    xarray's adapter for arrays that have it refuses vectorised indexing (``isel`` and ``sel`` with
    arrays that share axes). Its adapter for arrays with NumPy's keys has all kinds, so where xarray
    chooses one, arrays are of these.
    """

    def __get__(self, x: Any, owner: Any = None) -> Any:
        caller = sys._getframe(1)
        asks = caller.f_code.co_name, caller.f_globals.get("__name__")
        if asks == ("as_indexable", "xarray.core.indexing"):
            raise AttributeError("__array_namespace__")
        return _array_namespace


def _array_namespace(*, api_version: str | None = None) -> ModuleType:
    """Return `lazyflow.array`, which has the names of the Array API standard."""
    if api_version not in (None, *_VERSIONS):
        raise ValueError(
            f"lazyflow.array has the versions {', '.join(_VERSIONS)} of the Array API standard; "
            f"got api_version={api_version!r}"
        )
    return sys.modules["lazyflow.array"]


def asked_by_sklearn() -> bool:
    """Tell whether a function of scikit-learn that computes with arrays asks for an attribute.

    With ``array_api_dispatch=True`` its classifiers and metrics count classes, and rows of a class,
    by ``shape[0]``, although the standard allows None for lengths that depend on values. Without
    it, scikit-learn only checks the arguments of `lazyflow.learn`, and nothing is computed.
    """
    name: str = sys._getframe(2).f_globals.get("__name__", "")
    if not name.startswith("sklearn."):
        return False
    is_on: bool = sys.modules["sklearn"].get_config()["array_api_dispatch"]
    return is_on


class AsObjects:
    """The part of `Array` that gives its values to NumPy, Numba and Python when they ask."""

    __slots__ = ()

    @property
    def flat(self: Any) -> Any:
        """An iterator over the computed elements; ``x.ravel()[places] = ...`` writes."""
        found = self.compute()
        found.setflags(write=False)
        return found.flat

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError(
                "chunked arrays are computed into new ones, which copy=False forbids: leave it out"
            )
        __tracebackhide__ = True  # for IPython and pytest
        if self._expr.kind is not None:
            raise OtherKind(self._expr.kind, "np.asarray")
        found = np.asarray(self.compute())
        return found if dtype is None else found.astype(dtype, copy=False)

    __array_namespace__ = _Namespace()

    @property
    def device(self: Any) -> str:
        """Where the elements are: "cpu", as of NumPy's arrays."""
        return "cpu"

    def to_device(self: Any, device: str, /, *, stream: Any = None) -> Any:
        """Return the array itself: there is one device.

        Raises
        ------
        ValueError
            There is another device than "cpu", or a stream.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> la.ones(3).to_device("cpu").device
        'cpu'
        """
        if stream is not None:
            raise ValueError(f"the device has no streams; got stream={stream!r}")
        return functions["asarray"](self, device=device)

    def __dlpack__(self: Any, /, **options: Any) -> Any:
        return np.asarray(self).__dlpack__(**options)

    def __dlpack_device__(self: Any) -> tuple[int, int]:
        return 1, 0  # kDLCPU

    @property
    def _numba_type_(self: Any) -> Any:
        from lazyflow.array.numba_type import numba_type  # Numba is there if it asks

        return numba_type(self.dtype, self.ndim)

    @property
    def _numba_value_(self: Any) -> Any:
        return functions["numba_value"](self)

    def _scalar(self: Any, convert: Any) -> Any:
        if self.size != 1:
            raise TypeError(
                "only arrays of one element can be converted to a Python number; this one has "
                f"shape {self.shape}"
            )
        __tracebackhide__ = True  # for IPython and pytest
        return convert(self.compute())

    def item(self: Any, *args: Any) -> Any:
        """Return one element as a Python number.

        >>> import lazyflow.array as la
        >>> la.arange(6, chunks=2).item(4)
        4
        """
        __tracebackhide__ = True  # for IPython and pytest
        return self._values().item(*args)

    def tolist(self: Any) -> Any:
        """Return the elements in nested lists.

        >>> import lazyflow.array as la
        >>> la.ones((2, 2), dtype=int).tolist()
        [[1, 1], [1, 1]]
        """
        __tracebackhide__ = True  # for IPython and pytest
        return self._values().tolist()

    def _values(self: Any) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        if self.ndim or not self.dtype.hasobject:
            return self.compute()
        return self[None].compute().reshape(())  # an element of objects is the object itself

    def __bool__(self: Any) -> bool:
        if self.size > 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use "
                "x.any() or x.all()"
            )
        __tracebackhide__ = True  # for IPython and pytest
        return bool(self.compute())

    def __float__(self: Any) -> float:
        __tracebackhide__ = True  # for IPython and pytest
        return float(self._scalar(float))

    def __int__(self: Any) -> int:
        __tracebackhide__ = True  # for IPython and pytest
        return int(self._scalar(int))

    def __complex__(self: Any) -> complex:
        return complex(self._scalar(complex))

    def __format__(self: Any, spec: str) -> str:
        if self.ndim or not spec:  # ``f"{x}"`` computes nothing, as ``str(x)``
            return object.__format__(self, spec)
        __tracebackhide__ = True  # for IPython and pytest
        return format(self.compute(), spec)

    def __round__(self: Any, ndigits: int | None = None) -> Any:
        if self.ndim:
            raise TypeError("type Array doesn't define __round__ method: write x.round(n)")
        if ndigits is None or self.dtype.kind not in "fiu":
            return self._scalar(lambda value: round(value, ndigits))
        return self.round(ndigits)

    def __index__(self: Any) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(self._scalar(int))

    def __contains__(self: Any, value: Any) -> bool:
        return bool((self == value).any())
