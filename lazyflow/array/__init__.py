"""Chunked arrays with NumPy's semantics: whole expressions become one kernel per chunk.

    >>> import lazyflow.array as la
    >>> x = la.arange(10.0, chunks=4)
    >>> ((x - x.mean()) ** 2).sum().compute()
    np.float64(82.5)
"""

# Modules, from the bottom up:
#
#   kernels/        programs of steps over blocks, by tiles or by generated code
#   expr, align     expressions; making shapes and chunks fit
#   sources, views, elementwise, rechunk, reduce ...    kinds of nodes
#   fuse, optimize  passes over expressions
#   lowering        from nodes to tasks
#   array           Array
#   gather, exchange, masks, assign    what index arrays and masks take, and what is written
#   ufuncs, reductions, creation, routines, ...         functions of arrays
#   random/         random arrays, loaded when first used

from typing import Any

from lazyflow.array import (
    along_axes,
    block_functions,
    block_reductions,
    blocks,
    creation,
    differences,
    distinct,
    einstein,
    extremes,
    gufuncs,
    histograms,
    indexing,
    joining,
    layout,
    order_statistics,
    overlap,
    padding,
    products,
    rearranging,
    reductions,
    reporting,
    routines,
    scans,
    searching,
    setting,
    shaping,
    statistics,
    storing,
    windows,
)
from lazyflow.array.array import Array
from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.creation import array  # hides the module of that name, as la.array
from lazyflow.array.dispatch import functions
from lazyflow.array.kernels.run import wait_compiled
from lazyflow.array.ufuncs import UFUNCS

__all__ = ["Array", "array", "normalize_chunks", "wait_compiled"]

#: What they define is found by name: see dispatch.py.
_MODULES = (
    along_axes,
    block_functions,
    block_reductions,
    blocks,
    creation,
    differences,
    distinct,
    einstein,
    extremes,
    gufuncs,
    histograms,
    indexing,
    joining,
    layout,
    order_statistics,
    overlap,
    padding,
    products,
    rearranging,
    reductions,
    reporting,
    routines,
    scans,
    searching,
    setting,
    shaping,
    statistics,
    storing,
    windows,
)


def __getattr__(name: str) -> Any:
    found: Any = UFUNCS.get(name) or functions.get(name)
    if name == "random":
        import lazyflow.array.random as found
    if found is None:
        import numpy as np

        from lazyflow import config

        if name in _CONSTANTS:
            return getattr(np, name)
        hint = config.nearest(name, [*UFUNCS, *functions])
        raise AttributeError(f"module 'lazyflow.array' has no attribute {name!r}{hint}")
    return found


_CONSTANTS = {"pi", "e", "inf", "nan", "newaxis", "euler_gamma"}


def __dir__() -> list[str]:
    return sorted({*globals(), "random", *UFUNCS, *functions, *_CONSTANTS})
