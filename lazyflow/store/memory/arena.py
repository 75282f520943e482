"""One memory file: made, written by its process, and read by others.

The file has no name, so nothing is left behind however the processes end. New pages are filled by
`pwrite`; pages that are there are written through a mapping, large ones by two threads.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any

from lazyflow.store.memory.copying import copy_by_two
from lazyflow.system import owned

_REMOVE = getattr(mmap, "MADV_REMOVE", None)  # Linux: elsewhere pages stay until the arena ends
_POPULATE_WRITE = 23  # of madvise, from Linux 5.14 on: maps pages, and fails rather than kill
_TWO_FROM = 32 << 20  # bytes that are copied by two threads: 2 GB in 80 ms instead of 105
_PART = 4 << 20  # bytes copied before another thread may go on: 0.3 ms


def memory_file(size: int, label: str = "lazyflow") -> int:
    """Return the descriptor of a new nameless file of zeros; ``/proc`` shows the label."""
    if hasattr(os, "memfd_create"):
        import fcntl  # Windows has none

        fd = os.memfd_create(label, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, size)
            # A process that reads past the end of a shortened file is killed, so a seal forbids it.
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            return fd
        except BaseException:
            os.close(fd)
            raise
    import tempfile

    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    fd, path = tempfile.mkstemp(prefix=f"{label}-", dir=folder)
    try:
        os.ftruncate(fd, size)
        return fd
    except BaseException:
        os.close(fd)
        raise
    finally:
        os.unlink(path)


class Arena:
    """One memory file on the writer's side."""

    __slots__ = ("_file", "fd", "map", "mapped", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._file = owned(memory_file(size))
        self.fd: int = self._file.fileno()
        self.mapped: set[tuple[int, int]] = set()  # ranges whose pages this process has mapped
        try:
            self.map = mmap.mmap(self.fd, size)  # only to give pages back
        except BaseException:
            self.close(mapped=False)
            raise

    def reader(self) -> int:
        """Return a new descriptor, which can only read where the system opens a file once more."""
        try:
            return os.open(f"/dev/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return os.dup(self.fd)

    def drop_pages(self, offset: int, length: int) -> None:
        if _REMOVE is not None:
            self.mapped.clear()
            self.map.madvise(_REMOVE, offset, length)

    def map_pages(self, offset: int, length: int) -> bool:
        """Map pages that are there; return False where the system can't."""
        if (offset, length) not in self.mapped:
            try:
                self.map.madvise(_POPULATE_WRITE, offset, length)
            except OSError:
                return False
            self.mapped.add((offset, length))
        return True

    def copy_in(self, offset: int, data: memoryview) -> None:
        """Write to mapped pages; by two threads if large, since one does not saturate memory."""
        size = data.nbytes
        numpy: Any = sys.modules.get("numpy")  # copies without the GIL
        # While another thread imports NumPy, uint8 is the last of the names needed to appear.
        if size < _TWO_FROM or not hasattr(numpy, "uint8"):
            with memoryview(self.map) as target, data.cast("B") as source:
                for start in range(0, size, _PART):
                    end = min(start + _PART, size)
                    target[offset + start : offset + end] = source[start:end]
            return
        to = numpy.frombuffer(self.map, numpy.uint8, size, offset)
        source = numpy.frombuffer(data, numpy.uint8)
        copy_by_two(to, source)

    def close(self, mapped: bool = True) -> None:
        if mapped:
            self.map.close()
        self._file.close()
