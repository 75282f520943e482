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
#   sources, views, elementwise, rechunking, reduce ...    kinds of nodes
#   fuse, optimize  passes over expressions
#   lowering        from nodes to tasks
#   places          lines of users' code, for messages
#   core            Array
#   gather, exchange, masks, assign    what index arrays and masks take, and what is written
#   ufuncs, reductions, creation, routines, ...         functions of arrays
#   random/         random arrays
#
# Functions are found by the table in names.py; their modules, and what makes and runs kernels, are
# loaded when they are first needed.

import builtins
from importlib.util import find_spec
from typing import Any

import numpy as np

from lazyflow.array.core import Array as Array
from lazyflow.array.dispatch import functions
from lazyflow.array.names import MODULES, OF_NUMPY
from lazyflow.evaluate import compute as compute
from lazyflow.evaluate import persist as persist

_UFUNCS = {
    name for name, found in vars(np).items()
    if isinstance(found, np.ufunc) and found.signature is None
}

_PUBLIC = {"compute", "persist", *functions, *_UFUNCS, *MODULES, *OF_NUMPY.split()}

#: A star gets all but what Python has under the same name: ``sum`` stays Python's.
__all__ = sorted(name for name in _PUBLIC if not hasattr(builtins, name))


def __getattr__(name: str) -> Any:
    if name in _UFUNCS:
        from lazyflow.array.ufuncs import UFUNCS

        found: Any = UFUNCS[name]
    elif name in functions:
        found = functions[name]
    elif name in _PUBLIC and name not in MODULES:
        found = getattr(np, name)
    elif name == "random":
        import lazyflow.array.random as found
    elif name == "overlap":
        import lazyflow.array.overlap as found
    else:
        hint = "."
        if find_spec(f"{__name__}.{name}") is None:  # else Python asks, before it imports a module
            from lazyflow import config

            hint = config.nearest(name, _PUBLIC)
        raise AttributeError(f"module 'lazyflow.array' has no attribute {name!r}{hint}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*_PUBLIC, *(name for name in globals() if name.startswith("__"))})
