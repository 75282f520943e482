"""Memory that one process makes and others write into.

It is a file without a name, which processes of the same user open by the number of its descriptor
in the process that made it: nothing has to be sent to them beside that number.

Files whose pages are there, and mapped by those who write, are four times as fast as new ones: up
to `KEEP` bytes are kept for the next use after their last reader has gone. A file that is given
up before it was read is not used again, since a process may still be writing. Nor is a file that
other processes than the parent's own workers wrote, since a cluster may run a task twice; nor one
that the child of a fork may read.

A file with readers takes two descriptors, its own and that of the mapping, so at most `_FILES` are
made.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from threading import Lock
from typing import Any

from lazyflow import config
from lazyflow.finalizers import Gone, LastCall, WeakTable, gone
from lazyflow.store.memory.arena import memory_file
from lazyflow.store.memory.available import Budget, available_memory
from lazyflow.system import at_fork, has_descriptors_of_others, open_descriptor_of, owned

KEEP = 512 << 20  # bytes; a guess: room for the result of joining two arrays of 80 MB, and more
_FILES = 100  # that may be there at once; a guess
_MAX_MAPPINGS = 4  # mappings that a writer keeps; a guess

#: Process, descriptor and label of a file, with which other processes open it.
Address = tuple[int, int, str]


class _File:
    """A file; `is_new`: others have yet to write it, and to take its memory."""

    __slots__ = ("__weakref__", "address", "is_new", "owned", "size")

    def __init__(self, size: int) -> None:
        self.is_new = True
        label = f"lazyflow-{os.urandom(8).hex()}"
        self.size = size
        self.owned = owned(memory_file(size, label))
        self.address: Address = os.getpid(), self.owned.fileno(), label


class _Seen(mmap.mmap):
    """A mapping of data that others wrote, and the file, held as long as a view of it lives."""

    held: Any


class _Use:
    """Whatever holds it looks at a file; when it is gone, a thread trims the unused files."""

    __slots__ = ("__weakref__", "_over")

    def __init__(self) -> None:
        self._over = LastCall(trim, KEEP)


is_worker = False  # whether this process is a worker of the one whose memory it borrows
_lock = Lock()
_files: WeakTable[_File, None] = WeakTable()  # of this process
_unused: list[_File] = []  # that have pages
_uses: dict[int, Gone] = {}  # by id: these references, of `_Use`, have to live
_dead: deque[Gone] = deque()  # of `_uses`, those that have gone
_forks = 0  # of this process and those that it came from
_mapped: dict[str, mmap.mmap] = {}  # of other processes' files, by label


class LentMemory:
    """Memory for others to write into.

    Attributes
    ----------
    address
        The argument of `borrowed`, in any process.

    Raises
    ------
    OSError
        The system gives none, or there are too many of them.

    Examples
    --------
    >>> lent = LentMemory(5)
    >>> other = borrowed(lent.address)
    >>> other[:3] = b"abc"
    >>> lent.edited(again=False)[:3]
    b'abc'
    """

    def __init__(self, size: int) -> None:
        file = self._file = _unused_file(size) or _new_file(size)
        self.address = file.address
        self._given_up = LastCall(_drop_pages, file)
        access = mmap.PROT_READ | mmap.PROT_WRITE
        self._seen = [_Seen(file.owned.fileno(), size, mmap.MAP_PRIVATE, access)]
        self._seen[0].held = file

    def edited(self, again: bool) -> mmap.mmap:
        """Return, once, the data after all have written; edits of it stay in this process.

        again
            No process writes any more, so that the file may be used again.
        """
        lent = self._seen.pop()
        self._given_up.cancel()
        self._file.is_new = False
        if again:
            lent.held = _Use()
            known = gone(lent.held, _dead.append, (self._file, _forks))
            _uses[id(known)] = known
        return lent


def _unused_file(size: int) -> _File | None:
    with _lock:
        _settle()
        file_found = next((file for file in _unused if file.size == size), None)
        if file_found is not None:
            _unused.remove(file_found)
    trim(KEEP)
    return file_found


def _settle() -> None:
    """Note the files whose last reader has gone."""
    while _dead:
        known = _dead[0]
        use = _uses.pop(id(known), None)  # None: a Ctrl-C came after this step the last time
        _dead.popleft()
        if use is not None and use.then[1] == _forks:
            _unused.append(use.then[0])


def _new_file(size: int) -> _File:
    if not has_descriptors_of_others():
        raise OSError("files of other processes can't be opened here")
    count = len(list(_files.living()))
    if count >= _FILES:
        raise OSError(f"there are {count} files of lent memory already")
    why = _shortage(size)
    if why:
        trim()
        why = _shortage(size)
    if why:
        raise OSError(why)
    file = _File(size)
    _files[file] = None
    return file


def _shortage(size: int) -> str:
    """Return why there is no room for one more file, "" if there is."""
    files = list(_files.living())
    more = size + sum(file.size for file in files if file.is_new)
    held = sum(file.size for file in files if not file.is_new)
    return Budget(config.get("store_limit"), available_memory).shortage(more, held)


def trim(keep: int = 0) -> None:
    """Return the pages of unused files to the machine, but for so many bytes."""
    excess: list[_File] = []
    with _lock:
        _settle()
        _take_beyond(keep, excess)
    for file in excess:
        _drop_pages(file)


def _take_beyond(keep: int, excess: list[_File]) -> None:  # no loop in `with`: see threads.py
    while sum(file.size for file in _unused) > keep:
        excess.append(_unused.pop(0))


def _drop_pages(file: _File) -> None:
    """Return the pages of a file to the machine, which others may still have mapped.

    Mappings of larger files are not kept: their pages go with their descriptors.
    """
    if file.size <= KEEP and file.address[0] == os.getpid():
        mmap.mmap(file.address[1], file.size).madvise(mmap.MADV_REMOVE)


def _before_fork() -> None:
    global _forks
    _forks += 1


def _after_fork() -> None:
    global _lock
    _lock = Lock()
    _files.clear()
    _unused.clear()
    _uses.clear()


at_fork(before=_before_fork, after_in_child=_after_fork)


def borrowed(address: Address) -> mmap.mmap | None:
    """Return a mapping to write into, or None if the memory is missing or gone."""
    process, number, label = address
    mapping = _mapped.get(label)
    if mapping is not None:
        return mapping
    try:
        fd = open_descriptor_of(process, number, label)
    except OSError:
        return None
    try:
        mapping = mmap.mmap(fd, os.fstat(fd).st_size)
    except OSError:
        return None
    finally:
        os.close(fd)
    if is_worker and len(mapping) <= KEEP:
        while len(_mapped) >= _MAX_MAPPINGS:
            _mapped.pop(next(iter(_mapped)), None)
        _mapped[label] = mapping
    return mapping
