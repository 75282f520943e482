"""A file through which tasks hand over what does not fit into the memory limit, in one pass.

Where every result is made of parts of many blocks, as for rows that become columns, all parts are
there before the first result is: the data once. An `ExchangeFile` holds them instead. A plan makes
one, and gives each part a place in it, so that what one result is made of lies in a row::

    file = ExchangeFile(n_bytes, limit)  # in the caller's process
    file.write(start, array)             # in the tasks that have blocks, once for each part
    file.read(start, n_bytes)            # in tasks that wait for those

It is an argument of tasks. Those in other processes of this machine open the file by its number in
the process that made it. It lives as long as the plan, so that tasks may run again, and has no
name, so that nothing is left whatever ends the program. The system writes it to the disk: what is
handed over soon may never get there.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any

from lazyflow.errors import SerializationError, StoreFull
from lazyflow.finalizers import LastCall
from lazyflow.graph.kinds import ATOM
from lazyflow.store.sizes import format_bytes
from lazyflow.store.spilling import folder_here, read_from
from lazyflow.system import open_descriptor_of, opened

#: Whether this system has what the file needs: Windows does not.
IS_POSSIBLE = hasattr(os, "preadv")


class ExchangeFile:
    """A file without a name, of one plan and of a given size; what is not written is zeros.

    limit
        The memory limit, for errors.

    Raises
    ------
    StoreFull
        It can't be made in the folder for spilled values, or written.
    """

    __slots__ = ("_address", "_fd", "_over", "_told")
    _lazyflow_kind = ATOM
    _lazyflow_quick = True

    def __init__(self, size: int, limit: int) -> None:
        from tempfile import TemporaryFile  # 5 ms

        self._told = folder, size, limit = folder_here(), size, limit
        try:
            with TemporaryFile(buffering=0, dir=folder) as file:
                os.ftruncate(file.fileno(), size)
                self._fd = os.dup(file.fileno())
        except OSError as error:
            raise _cant_write(*self._told, error) from None
        self._over: Any = LastCall(os.close, self._fd)
        try:
            label = os.readlink(f"/proc/self/fd/{self._fd}")
        except OSError:
            label = ""
        self._address = os.getpid(), self._fd, label

    def write(self, start: int, array: Any) -> None:
        """Write the elements of an array, in C order."""
        data = memoryview(sys.modules["numpy"].ascontiguousarray(array).reshape(-1).view("u1"))
        try:
            while data:
                done = os.pwrite(self._fd, data, start)
                start, data = start + done, data[done:]
        except OSError as error:
            raise _cant_write(*self._told, error) from None

    def read(self, start: int, size: int) -> Any:
        """Return a stretch of the file, as an array of bytes of the caller's own."""
        return read_from(self._fd, start, size)

    def mapped(self, start: int, size: int) -> Any:
        """Return a stretch of the file as `read` does, of which only pages in use are read."""
        extra = start % mmap.ALLOCATIONGRANULARITY
        data = mmap.mmap(self._fd, size + extra, access=mmap.ACCESS_READ, offset=start - extra)
        return sys.modules["numpy"].frombuffer(data, "u1", size, extra)

    def __reduce__(self) -> Any:
        return _of_other_process, (self._address, self._told)


def _of_other_process(address: tuple[int, int, str], told: tuple[str, int, int]) -> ExchangeFile:
    file = ExchangeFile.__new__(ExchangeFile)
    file._address, file._told = address, told
    try:
        file._over = opened(open_descriptor_of, *address)
    except OSError as error:
        raise SerializationError(
            f"a file of process {address[0]}, through which the blocks of an array go that are put "
            f"together anew, can't be opened here: {error}. It is made where memory_limit is set, "
            "and only processes of the same machine can open it: give the scheduler to the call "
            "that computes the array (compute(x, scheduler=...)), or set memory_limit=None"
        ) from None
    file._fd = file._over.fileno()
    return file


def _cant_write(folder: str, size: int, limit: int, error: OSError) -> StoreFull:
    return StoreFull(
        f"{format_bytes(size)} of blocks that are put together anew don't fit into memory "
        f"(memory_limit={limit}), and can't be written to a file in {folder}: {error}. Nothing is "
        "lost. Free disk space there, choose another folder by "
        "lazyflow.config.set(spill_folder=...), or raise memory_limit."
    )
