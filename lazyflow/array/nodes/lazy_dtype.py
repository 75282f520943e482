"""A dtype that is found out when it is first asked for, by a call of a user's function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


class LazyDtype:
    """A placeholder for the dtype of an array until it is asked for.

    find
        Called without arguments, returns the dtype.
    needs
        Lazy dtypes that `find` asks for: found first, by a loop, so that a long chain of functions
        needs no recursion.

    Examples
    --------
    >>> lazy = LazyDtype(lambda: np.dtype("f4"))
    >>> lazy.known, lazy.get(), lazy.known
    (None, dtype('float32'), dtype('float32'))
    """

    __slots__ = ("_find", "_needs", "known")

    def __init__(self, find: Callable[[], np.dtype[Any]], needs: Iterable[LazyDtype] = ()) -> None:
        self._find: Callable[[], np.dtype[Any]] | None = find
        self._needs = tuple(needs)
        self.known: np.dtype[Any] | None = None

    def get(self) -> np.dtype[Any]:
        """Return the dtype; the first call finds it out."""
        stack = [self]
        while stack:
            one = stack[-1]
            missing = [each for each in one._needs if each.known is None]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            find = one._find
            if find is not None and one.known is None:
                one.known = find()
                one._find = None
                one._needs = ()
        assert self.known is not None
        return self.known


def common_dtype(blocks: Iterable[Any]) -> np.dtype[Any]:
    """Return the dtype of an array that is made of these blocks."""
    different = {block.dtype for block in blocks}
    if len(different) == 1:  # result_type would change the order of bytes
        return different.pop()
    found: np.dtype[Any] = np.result_type(*different)
    return found
