"""Values that lie in files, sent to other processes of this machine by path.

A part of a file that is mapped (`numpy.memmap`, and views of one) is mapped there as well, to be
read only: what this process writes to it by mode "r+" or "w+" is seen there, since both map the
same pages. Arrays of mode "c", whose edits are this process's own, and of files that were removed
or replaced, are copied. Objects of h5py are opened again, by mode "r".
"""

from __future__ import annotations

import mmap
import os
import sys
from pickle import PicklingError
from typing import Any

from lazyflow.graph.guards import base_of

__all__ = ["mapped_part", "reduce_h5py"]

def mapped_part(array: Any) -> Any:
    """Return how an array in a mapped file is made in another process; None for other arrays."""
    np = sys.modules["numpy"]
    owner = array
    while type(owner) in (np.ndarray, memoryview):
        owner = base_of(owner)
    if type(owner) is not np.memmap or owner.mode == "c" or type(owner._mmap) is not mmap.mmap:
        return None
    if owner.filename is None or not array.size:
        return None
    begin = np.frombuffer(owner._mmap, np.uint8).__array_interface__["data"][0]
    path = _path_at(begin)
    if path != os.path.realpath(owner.filename):  # it was removed or replaced
        return None
    low, high = np.lib.array_utils.byte_bounds(array)
    first = owner.offset - owner.offset % mmap.ALLOCATIONGRANULARITY  # of the map, in the file
    start = array.__array_interface__["data"][0] - low
    return part_of_file, (
        path, first + low - begin, high - low, start, array.dtype, array.shape, array.strides,
        type(array) is np.memmap,
    )


def part_of_file(
    path: str, offset: int, size: int, start: int, dtype: Any, shape: Any, strides: Any,
    is_memmap: bool,
) -> Any:
    """Return an array whose memory is a part of a file."""
    import numpy as np

    held: Any = np.memmap(path, np.uint8, "r", offset, (size,))
    found: Any = np.ndarray(shape, dtype, held, start, strides)
    if is_memmap:
        found = found.view(np.memmap)
        for name in ("_mmap", "filename", "offset", "mode"):
            setattr(found, name, getattr(held, name))
    return found


def _path_at(address: int) -> str | None:
    """Return the present path of the file that is mapped at an address, None without one."""
    try:
        with open("/proc/self/maps", "rb") as file:
            for line in file:
                if int(line[: line.index(b"-")], 16) == address:
                    return os.fsdecode(line.rstrip(b"\n").split(maxsplit=5)[5])
    except (OSError, IndexError):  # not Linux, or no file
        pass
    return None


def reduce_h5py(value: Any) -> Any:
    """Return how a dataset, group or file of h5py is opened in another process.

    Raises
    ------
    PicklingError
        The object has no name in its file, or its file has no path.
    """
    file, name = value.file, value.name
    path = os.path.abspath(os.fsdecode(file.filename))
    if name is None or file.driver in ("core", "fileobj") or not os.path.exists(path):
        raise PicklingError(
            f"{value!r} is not in a file that another process could open: h5py objects travel by "
            'path and name. Write it to a file and close that, or use scheduler="threads"'
        )
    if file.mode != "r":
        file.flush()
    return open_h5py, (path, name, value == file)


def open_h5py(path: str, name: str, is_file: bool) -> Any:
    """Open an HDF5 file to be read, and return the object of a name in it."""
    import h5py

    try:
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        error.add_note(
            "it was passed by path to another process, which opens it by mode 'r': close it where "
            "it is open for writing (libver='latest' marks it as such)"
        )
        raise
    return file if is_file else file[name]
