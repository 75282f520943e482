"""Ufuncs that Numba made: its own objects, each around a ufunc that can't be pickled.

Numba is loaded already wherever one of them is met.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np


def ufunc_for(func: Any, operands: Sequence[Any], **options: Any) -> np.ufunc:
    """Return the ufunc in an object of Numba's, with the loop that these operands take.

    The loop is compiled now if it has to be, as by a call on arrays, and errors are those of it.
    """
    func(*operands, **options)
    found: np.ufunc = func.ufunc
    return found


def owner(ufunc: np.ufunc) -> Any:
    """Return the object of Numba's that a ufunc is in, or else the ufunc.

    Their methods, and generalised ones when they are called, hand over what is in them.
    """
    registry = sys.modules.get("numba.core.registry")
    if registry is None or getattr(np, ufunc.__name__, None) is ufunc:
        return ufunc
    from numba.np.ufunc.ufunc_base import UfuncBase

    for known in list(registry.cpu_target.typing_context._globals.values()):
        found = getattr(known, "typing_key", None)
        if isinstance(found, UfuncBase) and found.ufunc is ufunc:
            return found
    return ufunc


def takes_results(func: Any) -> bool:
    """Tell whether an object of Numba's compiles its loops by the arrays for its results."""
    return bool(getattr(func, "is_dynamic", False))


class OneLoop:
    """Calls one loop of such an object, which itself asks for arrays for the results."""

    def __init__(self, func: Any, types: tuple[np.dtype[Any], ...]) -> None:
        self.__name__ = func.__name__
        self.func = func
        self.types = types

    def __call__(self, *blocks: Any, **options: Any) -> Any:
        return self.func.ufunc(*blocks, signature=self.types, **options)
