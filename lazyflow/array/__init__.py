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
#   ufuncs, reductions, creation, routines, ...         functions of arrays

from importlib import import_module
from typing import Any

from lazyflow.array.array import Array
from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.dispatch import functions
from lazyflow.array.ufuncs import UFUNCS

__all__ = ["Array", "normalize_chunks"]

# Modules whose functions register themselves by name.
for _module in (
    "creation", "reductions", "routines", "block_functions", "block_reductions",
    "gufuncs", "along_axes", "overlap", "windows",
):
    import_module(f"lazyflow.array.{_module}")


def __getattr__(name: str) -> Any:
    found = UFUNCS.get(name) or functions.get(name)
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
    return sorted({*globals(), *UFUNCS, *functions, *_CONSTANTS})
