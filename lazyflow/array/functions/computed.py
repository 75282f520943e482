"""Functions of NumPy that have no lazy form: they look at values, or write into their argument.

Those that write say what to type instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lazyflow.array.aliases import like_numpy, root_of
from lazyflow.array.core import Array, as_node
from lazyflow.array.names import PUBLIC, by_name, not_there_yet
from lazyflow.errors import LazyflowWarning
from lazyflow.graph.task import users_depth

# -- functions that write into an argument -----------------------------------------------------


def _refused(function: Any, instead: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"np.{function.__name__} writes into its argument, which it cannot do with a chunked "
            f"array. {instead}"
        )

    refuse.__name__ = function.__name__
    return refuse


put = _refused(np.put, "Write x[places] = values, where places count along an axis.")
place = _refused(np.place, "Write x[mask] = values.")
putmask = _refused(np.putmask, "Write x[mask] = values, or x = la.where(mask, values, x).")
copyto = _refused(np.copyto, "Write x[...] = values.")
put_along_axis = _refused(
    np.put_along_axis, "Write x[places] = values for each row, or use x.map_blocks(...)."
)
fill_diagonal = _refused(
    np.fill_diagonal, "Write x = la.where(la.eye(n, dtype=bool), value, x)."
)


# -- functions that look at values -------------------------------------------------------------


_warned: set[str] = set()
_PER_BLOCK = "To call it for each block: x.map_blocks(f). "


def refuse_function(func: Callable[..., Any]) -> Any:
    """Raise for a function of NumPy that no function here stands for: say what to type instead."""
    name = f"{func.__module__}.{func.__name__}".replace("numpy.", "np.", 1)
    hint = not_there_yet(func.__name__, by_name(PUBLIC))
    if "compute()" not in hint:
        hint += f"; for values in memory {name}(x.compute(), ...)"
    raise TypeError(f"{name} takes no chunked arrays{hint}")


def warn_computed(name: str, instead: str, arrays: Iterable[Array]) -> None:
    """Warn, once for each name, that arrays are computed; `instead` says what does not."""
    if name in _warned:
        return
    sizes = [None if None in x.shape else x.nbytes for x in arrays]
    shown = "of unknown size" if None in sizes else f"of {sum(sizes):,} bytes"  # type: ignore
    warnings.warn(
        f"{name} needs values, so chunked arrays {shown} are computed for it now, and its result "
        f"is in memory. {instead}If that is what you want, pass x.compute() for x. This warning "
        "comes once for each function.",
        LazyflowWarning, stacklevel=users_depth(),
    )
    _warned.add(name)  # not when the warning was raised


def numba_value(x: Array) -> np.ndarray[Any, Any]:
    """Return the values of an array that a function compiled by Numba was called with."""
    warn_computed("a function compiled by Numba", _PER_BLOCK, [x])
    return np.ascontiguousarray(x.compute())


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Tell whether a change of one array may be seen in the other, as in NumPy.

    >>> import lazyflow.array as la
    >>> x = la.ones(4)
    >>> [np.may_share_memory(x[:2], y) for y in (x, x[2:], [1])]
    [True, False, False]
    """
    return _shared(np.may_share_memory, a, b, max_work)


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Tell whether a change of one array is seen in the other, as in NumPy.

    >>> import lazyflow.array as la
    >>> x = la.ones(4)
    >>> np.shares_memory(x, x[::2]), np.shares_memory(x[::2], x[1::2]), np.shares_memory(x, x + 0)
    (True, False, False)
    """
    return _shared(np.shares_memory, a, b, max_work)


def _shared(function: Any, a: Any, b: Any, max_work: Any) -> bool:
    for one in a, b:
        as_node(one)
    if not (isinstance(a, Array) and isinstance(b, Array) and root_of(a) is root_of(b)):
        return False
    memory = np.empty((), root_of(a).dtype)
    return bool(function(like_numpy(a, memory), like_numpy(b, memory), max_work))
