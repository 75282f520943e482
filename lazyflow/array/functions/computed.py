"""Functions of NumPy that look at values: they get chunked arrays computed, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lazyflow.api import evaluate
from lazyflow.array.aliases import like_numpy, root_of
from lazyflow.array.core import Array, as_node
from lazyflow.errors import LazyflowWarning
from lazyflow.graph.task import users_depth

_warned: set[str] = set()
_PER_BLOCK = "To call it for each block: x.map_blocks(f). "
_SAVES = "To write chunk by chunk: x.to_zarr(path) or la.store(x, target). "

#: What does the same without computing all at once.
_INSTEAD = {
    "save": _SAVES, "savez": _SAVES, "savez_compressed": _SAVES, "savetxt": _SAVES,
    "array_repr": "", "array_str": "", "array2string": "",
}


def computed_call(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Return what a function of NumPy gives for the values of arrays, at any depth of lists."""
    arrays: list[Array] = []
    _replaced((args, kwargs), lambda x: arrays.append(x))
    name = f"{func.__module__}.{func.__name__}"
    targets = kwargs.get("out")
    if any(isinstance(x, Array) for x in (targets if isinstance(targets, tuple) else [targets])):
        raise TypeError(
            f"{name} of chunked arrays gives NumPy's arrays and can't write into a chunked one. "
            f"Leave out= away: y = la.asarray({name}(x.compute()))"
        )
    warn_computed(name, _INSTEAD.get(func.__name__, _PER_BLOCK), arrays)
    values = iter(evaluate.compute(*arrays))
    args, kwargs = _replaced((args, kwargs), lambda _: next(values))
    return func(*args, **kwargs)


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


def _replaced(x: Any, change: Callable[[Array], Any]) -> Any:
    if isinstance(x, Array):
        return change(x)
    if type(x) in (list, tuple):
        return type(x)([_replaced(one, change) for one in x])
    if type(x) is dict:
        return {key: _replaced(one, change) for key, one in x.items()}
    return x


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
