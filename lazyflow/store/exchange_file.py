"""A file through which tasks exchange parts of results beyond the memory limit, in one pass.

Where every result is made of parts of many blocks, as for rows that become columns, all parts are
there before the first result is: the data once. An `ExchangeFile` holds them instead. A plan makes
one, and gives each part a place in it, so that the parts of one result lie in a row::

    file = ExchangeFile(n_bytes, limit)            # in the caller's process
    written = file.write([(start, array), ...])    # in the tasks that have blocks
    file.read(start, n_bytes, [written, ...])      # in tasks that wait for those

It is an argument of tasks. Those in other processes of this machine open the file by its number in
the process that made it. It lives as long as the plan, so that tasks may run again, and has no
name, so that nothing is left whatever ends the program. The system writes it to the disk: parts
that are read soon may never get there. Where workers are on other machines, each writes to a file
of its own, and the results of tasks tell where (cluster/dask/worker_files.py).
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from lazyflow.errors import SerializationError, StoreFull
from lazyflow.finalizers import LastCall
from lazyflow.graph.kinds import ATOM
from lazyflow.store.sizes import format_bytes
from lazyflow.store.spilling import folder_here, read_from
from lazyflow.system import open_descriptor_of, opened

#: Whether this system has the calls that the file needs: Windows lacks them.
IS_POSSIBLE = hasattr(os, "preadv")

#: The share of the memory above which parts go through a file. A guess: other parts of a plan have
#: some, too.
_SHARE = 0.2

#: Returns the file for parts, given their bytes in all, and how many of them memory would hold at
#: once; None: memory holds them.
Exchange: TypeAlias = Callable[[int, int], Any]


def need_a_file(at_once: int, limit: float) -> bool:
    """Tell whether parts of so many bytes go through a file rather than to be held."""
    return at_once > _SHARE * limit


def file_within(limit: int, size: int, at_once: int) -> ExchangeFile | None:
    """Return a file for parts under a memory limit; None: memory holds them."""
    return ExchangeFile(size, limit) if need_a_file(at_once, limit) else None


class ExchangeFile:
    """A file without a name, of one plan and of a given size; unwritten bytes are zeros.

    limit, total
        For errors: the memory limit, and the bytes that are handed over where the size is not that.

    Raises
    ------
    StoreFull
        It can't be made in the folder for spilled values, or written.
    """

    __slots__ = ("_fd", "_over", "_told", "address")
    _lazyflow_kind = ATOM
    _lazyflow_quick = True

    def __init__(self, size: int, limit: int, total: int = 0) -> None:
        from tempfile import TemporaryFile  # 5 ms

        folder = folder_here()
        self._told = folder, total or size, limit
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
        #: The process that has it open, its number there, and the name that the system shows.
        self.address = os.getpid(), self._fd, label

    @property
    def limit(self) -> int:
        """Return the memory limit, in bytes."""
        return self._told[-1]

    def write(self, parts: Iterable[tuple[int, Any]]) -> None:
        """Write the elements of arrays, in C order, each from its start on."""
        try:
            for start, array in parts:
                flat = sys.modules["numpy"].ascontiguousarray(array).reshape(-1)
                data = memoryview(flat.view("u1"))
                while data:
                    done = os.pwrite(self._fd, data, start)
                    start, data = start + done, data[done:]
        except OSError as error:
            raise _cant_write(*self._told, error) from None

    def read(self, start: int, size: int, written: Iterable[None] = ()) -> Any:
        """Return a stretch of the file, as an array of bytes of the caller's own.

        written
            The results of `write` in the tasks that have written there; here all is in one file.
        """
        return read_from(self._fd, start, size)

    def mapped(self, start: int, size: int, written: Iterable[None] = ()) -> Any:
        """Return a stretch of the file as `read` does, of which only pages in use are read."""
        extra = start % mmap.ALLOCATIONGRANULARITY
        data = mmap.mmap(self._fd, size + extra, access=mmap.ACCESS_READ, offset=start - extra)
        return sys.modules["numpy"].frombuffer(data, "u1", size, extra)

    def __reduce__(self) -> Any:
        return _of_other_process, (self.address, self._told)


def _of_other_process(address: tuple[int, int, str], told: tuple[str, int, int]) -> ExchangeFile:
    file = ExchangeFile.__new__(ExchangeFile)
    file.address, file._told = address, told
    try:
        file._over = opened(open_descriptor_of, *address)
    except OSError as error:
        raise SerializationError(
            f"a file of process {address[0]}, through which regrouped blocks of an array go, "
            f"can't be opened here: {error}. It is made where memory_limit is set, and only "
            "processes of the same machine can open it: give the scheduler to the call that "
            "computes the array (compute(x, scheduler=...)), or set memory_limit=None"
        ) from None
    file._fd = file._over.fileno()
    return file


def _cant_write(folder: str, size: int, limit: int, error: OSError) -> StoreFull:
    return StoreFull(
        f"{format_bytes(size)} of regrouped blocks don't fit into memory "
        f"(memory_limit={limit}), and can't be written to a file in {folder}: {error}. Nothing is "
        "lost. Free disk space there, choose another folder by "
        "lazyflow.config.set(spill_folder=...), or raise memory_limit."
    )
