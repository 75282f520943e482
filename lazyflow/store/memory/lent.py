"""Memory that one process makes and others write into.

It is a file without a name, which processes of the same user open by the number of its descriptor
in the process that made it: nothing has to be sent to them beside that number.

Files whose pages are there, and mapped by those who write, are four times as fast as new ones: up
to `KEEP` bytes are kept for the next use when nobody looks at them any more. A file that is given
up before it was read is not used again, since somebody may still be writing; nor is one that was
written by other processes than the parent's own workers: a cluster may run a task twice.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from threading import Lock
from typing import Any, NamedTuple

from lazyflow import config
from lazyflow.departures import Gone, LastCall, gone, owned
from lazyflow.store.memory.arena import memory_file
from lazyflow.store.memory.available import Budget, available_memory

__all__ = ["LentMemory", "borrowed", "trim"]

KEEP = 128 << 20  # bytes, as of shared.py
_DESCRIPTORS = "/proc/self/fd"
_MOST = 4  # mappings that a writer keeps

#: Process, descriptor and label of a file: what others need to open it.
Address = tuple[int, int, str]


class _File(NamedTuple):
    file: Any  # see `owned`
    size: int
    label: str
    process: int


is_worker = False  # whether this process is a worker of the one whose memory it borrows
_lock = Lock()
_unused: list[_File] = []  # that have pages
_views: dict[int, Gone] = {}  # by id: these references have to live
_dead: deque[Gone] = deque()  # of `_views`, those whose mapping is gone
_mapped: dict[str, mmap.mmap] = {}  # of other processes' files, by label


class LentMemory:
    """Memory for others to write into.

    Attributes
    ----------
    address
        What `borrowed` needs, in any process.

    Raises
    ------
    OSError
        The system gives none.

    Examples
    --------
    >>> lent = LentMemory(5)
    >>> other = borrowed(lent.address)
    >>> other[:3] = b"abc"
    >>> lent.edited(again=False)[:3]
    b'abc'
    """

    def __init__(self, size: int) -> None:
        self._file = _unused_file(size) or _new_file(size)
        self._given_up = LastCall(_drop_pages, self._file)
        self.address: Address = os.getpid(), self._file.file.fileno(), self._file.label

    def edited(self, again: bool) -> mmap.mmap:
        """Return what others wrote, when they are done; edits of it stay in this process.

        again
            Nobody writes any more, so that the file may be used again.
        """
        access = mmap.PROT_READ | mmap.PROT_WRITE
        fd = self._file.file.fileno()
        found = mmap.mmap(fd, self._file.size, mmap.MAP_PRIVATE, access)
        self._given_up.forget()
        if again:
            known = gone(found, _dead.append, self._file)
            _views[id(known)] = known
        return found


def _unused_file(size: int) -> _File | None:
    with _lock:
        while _dead:
            known = _dead.popleft()
            del _views[id(known)]
            if known.then.process == os.getpid():  # else this is the child of a fork
                _unused.append(known.then)
        found = next((file for file in _unused if file.size == size), None)
        if found is not None:
            _unused.remove(found)
    trim(KEEP)
    return found


def _new_file(size: int) -> _File:
    why = Budget(config.get("store_limit"), available_memory).shortage(size, 0)
    if why or not os.path.isdir(_DESCRIPTORS):
        raise OSError(why or "files of other processes can't be opened here")
    label = f"lazyflow-{os.urandom(8).hex()}"
    return _File(owned(memory_file(size, label)), size, label, os.getpid())


def trim(keep: int = 0) -> None:
    """Return the pages of unused files to the machine, but for so many bytes."""
    with _lock:
        while sum(file.size for file in _unused) > keep:
            _drop_pages(_unused.pop(0))


def _drop_pages(file: _File) -> None:
    """Return the pages of a file to the machine, which others may still have mapped."""
    if file.process == os.getpid():
        mmap.mmap(file.file.fileno(), file.size).madvise(mmap.MADV_REMOVE)


def _after_fork() -> None:
    global _lock
    _lock = Lock()
    _unused.clear()


os.register_at_fork(after_in_child=_after_fork)


def borrowed(address: Address) -> mmap.mmap | None:
    """Return a mapping to write into, or None where the memory can't be had or is gone."""
    process, number, label = address
    found = _mapped.get(label)
    if found is not None:
        return found
    try:
        fd = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if label not in os.readlink(f"{_DESCRIPTORS}/{fd}"):
            return None  # another machine's process, or another file by now
        found = mmap.mmap(fd, os.fstat(fd).st_size)
    except OSError:
        return None
    finally:
        os.close(fd)
    if is_worker and len(found) <= KEEP:
        while len(_mapped) >= _MOST:
            _mapped.pop(next(iter(_mapped)), None)
        _mapped[label] = found
    return found
