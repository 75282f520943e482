"""Small neighbours as one: what a task costs is then small beside what it does."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.sparse import issparse, vstack

__all__ = ["PART_BYTES", "check_dense", "groups_of", "together"]

#: Bytes of the rows of one part, if it is ours to choose: a pass over them takes 0.4 ms, beside
#: which a task's cost is small, and there are enough parts for the workers.
PART_BYTES = 1 << 23

_SMALL = PART_BYTES // 4  # bytes; smaller chunks are brought together


def groups_of(nbytes: Sequence[int]) -> list[list[int]]:
    """Return the numbers of chunks of so many bytes in groups, where small neighbours are one.

    Examples
    --------
    >>> groups_of([100, 100, 10_000_000, 100])
    [[0, 1], [2], [3]]
    """
    groups: list[list[int]] = []
    room = 0
    for k, each in enumerate(nbytes):
        if not groups or each > min(room, _SMALL):
            groups.append([])
            room = PART_BYTES
        groups[-1].append(k)
        room -= each
    return groups


def check_dense(values: Any, name: str, where: str = "") -> None:
    """Refuse sparse targets or weights; `where` is what has them.

    Examples
    --------
    >>> check_dense([1, 2], "y")
    """
    if issparse(values):
        raise TypeError(
            f"Sparse data was passed for {name}, but dense data is required{where}. Use "
            f"{name}.toarray().ravel(), one number for each row"
        )


def together(parts: Sequence[Any]) -> Any:
    """Return several dense or sparse chunks as one; views of one memory are not copied.

    Examples
    --------
    >>> rows = np.arange(6.0).reshape(3, 2)
    >>> together([rows[:1], rows[1:]]).base is not None, together([rows, rows[:1]]).shape
    (True, (4, 2))
    """
    if len(parts) == 1:
        return parts[0]
    if any(map(issparse, parts)):
        return vstack(parts, format="csr")
    arrays = [np.asarray(part) for part in parts]
    if not _are_neighbours(arrays):
        return np.concatenate(arrays)
    shape = sum(map(len, arrays)), *arrays[0].shape[1:]
    # Its own strides may be any, where it has one row.
    strides = [arrays[0].itemsize]
    for length in reversed(shape[1:]):
        strides.insert(0, strides[0] * length)
    return as_strided(arrays[0], shape, strides, writeable=False)


def _are_neighbours(arrays: Sequence[np.ndarray]) -> bool:
    """Whether arrays are views of one array, each beginning where the one before it ends."""
    first = arrays[0]
    owner, end = _owner(first), first.ctypes.data
    if owner is None:
        return False
    for array in arrays:
        alike = array.dtype == first.dtype and array.shape[1:] == first.shape[1:]
        if not alike or not array.flags.c_contiguous or array.ctypes.data != end:
            return False
        if _owner(array) is not owner:
            return False
        end += array.nbytes
    return True


def _owner(array: np.ndarray) -> np.ndarray | None:
    """Return the array that has the memory of another one, and lives as long as that.

    None if no array has it: memory of a store is let go as soon as one of its values is.
    """
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array if array.flags.owndata else None
