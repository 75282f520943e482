"""Ufuncs compiled by Numba: objects around a NumPy ufunc, which itself can't be pickled.

Numba is loaded already wherever one of them is met.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np


def ufunc_for(func: Any, operands: Sequence[Any], **options: Any) -> np.ufunc:
    """Return the ufunc inside a Numba object, with the loop that these operands need.

    The loop is compiled now if it has to be, as by a call on arrays, and errors are those of it.
    """
    func(*operands, **options)
    found: np.ufunc = func.ufunc
    return found


def owner(ufunc: np.ufunc) -> Any:
    """Return the Numba object that a ufunc belongs to, or the ufunc itself.

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
    """Tell whether a Numba object picks its loops by the arrays given for its results."""
    return bool(getattr(func, "is_dynamic", False))


def one_loop(func: Any, types: tuple[np.dtype[Any], ...], *blocks: Any, **options: Any) -> Any:
    """Call one loop of such an object, without arrays for the results."""
    return func.ufunc(*blocks, signature=types, **options)
