"""Keywords of dask's and NumPy's that change nothing here: they are taken, and say so once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.errors import LazyflowWarning as PerformanceWarning
from lazyflow.graph.task import users_depth

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
