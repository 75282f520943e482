"""Arrays that runs and `persist` keep below `memory_limit`; those beyond it are in a file.

A `KeptArray` stands for an array: it has the array's layout, and the memory that the array shows;
`kept_values` finds the arrays in other values. While more than a share of the limit is held, a
thread writes memory to a file, the oldest first: a depth-first run reads its first results last.
Memory of which a task holds a view stays. Tasks that use what was written get mappings of the file,
one for each use, whose pages leave with the task. A task whose result is beyond the limit waits
until the thread has made room, so that tasks are no faster than the disk.

Memory counts once, however many values show it, and each memory is written at most once, as no task
can change it. The file has no name, so nothing is left whatever ends the program.

Rejected: to map the file over the memory itself, without stand-ins for arrays. The allocator uses
its memory again, and expects zeros in pages that it gave back.

State, one `_ledger` for the process; a fork starts the child with a new one::

    held, _known, memories       what is in memory, and all that is kept; any thread, under `_lock`
    _dead :: deque[Gone]         freed memory: put in as it goes; `settle` takes it off `held`
    _orders :: SimpleQueue       any thread that needs room puts one in, the writing thread takes it
    file :: SpillFile            made by the writing thread; a fork has it begin another one
    KeptMemory.bytes, .range     the writing thread sets `range`, and then drops `bytes`
"""

from __future__ import annotations

import mmap
import os
import sys
from collections import deque
from collections.abc import Callable
from math import prod
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import Any

from lazyflow import config
from lazyflow.errors import StoreFull
from lazyflow.finalizers import Gone, LastCall, WeakTable, gone
from lazyflow.graph.guards import base_of
from lazyflow.graph.kinds import KEPT, kinds
from lazyflow.interrupts import Event, uninterrupted
from lazyflow.store.sizes import format_bytes
from lazyflow.system import at_fork, is_in_memory, process_usage, return_freed_memory

LEAST = 1 << 16  # bytes of an array that counts: for a smaller one a call costs more; a guess
_SHARE = 0.6  # of the limit at most is for kept values; tasks and program get the rest; a guess
_LEAST_SHARE = 0.1  # of the limit is for kept values even if the program takes all of it; a guess
_FULL = 0.9  # of the limit is the most that the whole process should use; a guess
_LOOKS = 64  # looks at the process's memory while values of one limit's size are kept; a guess
_EARLY = 0.75  # of the room for values: the thread writes from there on, as tasks go on; a guess
_PART = 64 << 20  # bytes of one write; a guess
_ON_DISK = "/var/tmp"  # for large files; the folder of temporary ones is often in memory


# -- the file ---------------------------------------------------------------------------------


class _Mapping(mmap.mmap):
    """A part of the file in use; it holds its range."""

    held: Any


class _Range:
    """A part of the file, which is given back when neither a value nor a mapping has it."""

    __slots__ = ("__weakref__", "_over", "file", "offset", "size")

    def __init__(self, file: SpillFile, offset: int, size: int) -> None:
        self.file, self.offset, self.size = file, offset, size
        self._over = LastCall(file.give_back, offset, size)

    def opened(self, is_private: bool) -> Any:
        """Return a buffer of the bytes: private ones, or such that can't be written to."""
        access = mmap.ACCESS_COPY if is_private else mmap.ACCESS_READ
        try:
            mapping = _Mapping(self.file.fileno, self.size, access=access, offset=self.offset)
        except OSError:  # each takes a descriptor, of which a process has some hundreds
            found = self.file.read(self.offset, self.size)
            found.flags.writeable = is_private
            return found
        mapping.held = self
        return mapping


class SpillFile:
    """A file without a name, which one thread writes.

    Attributes
    ----------
    used
        Bytes of its ranges.
    is_shared
        The child of a fork may read it: its contents stay.
    """

    def __init__(self, folder: str) -> None:
        from tempfile import TemporaryFile  # 5 ms

        with TemporaryFile(buffering=0, dir=folder) as file:
            self.fileno = os.dup(file.fileno())
        self._over = LastCall(os.close, self.fileno)
        self.folder = folder
        self.used = self._end = 0
        self.is_shared = False
        self._lock = Lock()

    def write(self, data: Any) -> _Range:
        """Return the range that has a copy of some bytes; called by one thread only."""
        size, view = data.nbytes, memoryview(data)
        os.lseek(self.fileno, self._end, os.SEEK_SET)
        done = 0
        while done < size:
            done += os.write(self.fileno, view[done : done + _PART])
        made = _Range(self, self._end, size)
        self._end += -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        self._add(size)
        return made

    def read(self, offset: int, size: int) -> Any:
        """Return a copy of a range, as an array."""
        return read_from(self.fileno, offset, size)

    def give_back(self, offset: int, size: int) -> None:
        """Return the blocks of a range to the disk, where the system can do so for a part."""
        self._add(-size)
        if hasattr(mmap, "MADV_REMOVE") and not self.is_shared:
            try:
                with mmap.mmap(self.fileno, size, offset=offset) as mapping:
                    mapping.madvise(mmap.MADV_REMOVE)
            except OSError:
                pass

    def _add(self, size: int) -> None:
        with self._lock:
            self.used += size


def read_from(fileno: int, offset: int, size: int) -> Any:
    """Return a stretch of a file, as an array of bytes; OSError if it ends before."""
    found = sys.modules["numpy"].empty(size, "u1")
    fill_from(fileno, offset, memoryview(found))
    return found


def fill_from(fileno: int, offset: int, left: memoryview) -> None:
    """Read a stretch of a file into memory of its size; OSError if the file ends before."""
    while left:
        done = os.preadv(fileno, [left], offset)
        if not done:
            raise OSError(f"a file of values ends at byte {offset}, with {len(left)} to be read")
        offset, left = offset + done, left[done:]


def folder_here() -> str:
    """Return the folder for the file: a chosen one, or one of temporary files that is on a disk."""
    from tempfile import gettempdir

    chosen = config.get("spill_folder")
    if chosen is None:
        chosen = gettempdir()
        if is_in_memory(chosen) and os.access(_ON_DISK, os.W_OK):
            return _ON_DISK
    return str(chosen)


# -- kept arrays and their memory ---------------------------------------------------------------


class KeptMemory:
    """Memory that kept values show: bytes of this process, or, where these are None, of the file.
    """

    __slots__ = ("__weakref__", "bytes", "keeper", "range", "size")

    def __init__(self, data: Any, keeper: str = "") -> None:
        self.bytes = data
        self.size = getattr(data, "nbytes", 0)
        self.keeper = keeper
        self.range: _Range | None = None

    def mapped(self, is_private: bool) -> Any:
        """Return a buffer of the part of the file."""
        assert self.range is not None
        return self.range.opened(is_private)

    def is_idle(self) -> bool:
        """Tell whether only this object holds the memory."""
        data = self.bytes
        return data is not None and _holders(data) <= _IDLE


def _holders(data: Any) -> int:
    return sys.getrefcount(data) + sys.getrefcount(data.base)


class _Sample:
    def __init__(self) -> None:
        self.base = object()


def _count_idle() -> int:
    kept = KeptMemory(_Sample())
    data = kept.bytes
    return _holders(data)


_IDLE = _count_idle()


class KeptArray:
    """Stands for an array which a run or a future keeps, and whose memory may be in the file.

    Where the array could be written to, as in frames, each use gets one of its own.
    """

    _lazyflow_kind = KEPT
    __slots__ = ("_is_private", "_layout", "_memory", "_offset")

    def __init__(self, memory: KeptMemory, array: Any, offset: int) -> None:
        self._memory = memory
        self._layout = array.shape, array.dtype, array.strides
        self._offset = offset
        self._is_private = array.flags.writeable

    def in_file(self) -> int:
        """Return the bytes of the array that are in the file."""
        return self.size if self._memory.bytes is None else 0

    @property
    def size(self) -> int:
        """Bytes of the array."""
        shape, dtype, _ = self._layout
        return prod(shape) * int(dtype.itemsize)

    def opened(self) -> Any:
        """Return the array."""
        data = self._memory.bytes  # read once: the thread sets the range first
        if data is None:
            return self._shown(self._memory.mapped(self._is_private))
        shown = self._shown(data)
        return shown.copy("K") if self._is_private else shown

    def in_memory(self) -> Any:
        """Return the array if its memory is this process's, else None."""
        data = self._memory.bytes
        return None if data is None else self._shown(data)

    def _shown(self, data: Any) -> Any:
        shape, dtype, strides = self._layout
        return sys.modules["numpy"].ndarray(shape, dtype, data, self._offset, strides)


def opened(value: Any) -> Any:
    """Return a value, opened if it is a stand-in."""
    return value.opened() if kinds[type(value)] == KEPT else value


def in_memory(value: Any) -> Any:
    """Return a value itself, or the parts in memory of the value that it stands for."""
    return value.in_memory() if kinds[type(value)] == KEPT else value


def stand_in(array: Any, keeper: str, is_own: bool = False) -> Any:
    """Return a `KeptArray` for an array, or itself if it can't be spilled.

    With `is_own` neither can one whose memory can be written to: others hold it. `keeper` is what
    keeps it, for `facts`: "runs" or "persisted".
    """
    numpy = sys.modules["numpy"]
    owner = array
    while (below := base_of(owner)) is not None:
        owner = below
    if type(owner) is not numpy.ndarray or owner.nbytes < LEAST:  # a part of a file already
        return array
    flags = owner.flags
    if array.dtype.hasobject or owner.dtype.hasobject or not flags.owndata or (
        is_own and flags.writeable
    ):
        return array
    memory = _ledger.memory_of(owner, keeper)
    return array if memory is None else KeptArray(memory, array, _address(array) - _address(owner))


def stand_in_of_bytes(data: Any, keeper: str) -> KeptArray:
    """Return a `KeptArray` of the bytes in a buffer, which can't be written to."""
    flat = sys.modules["numpy"].frombuffer(data, "u1")
    return KeptArray(_ledger.memory_at(_address(flat), flat, keeper), flat, 0)


#: Hears how many memories were written, how many bytes these are, and for how many seconds.
TellsSpilled = Callable[[int, int, float], object]


def make_room(limit: int, tell: TellsSpilled | None = None) -> None:
    """Sleep while more is held than `limit` allows, and some of it can be written to the file.

    The thread that writes calls `tell`, before this returns or later.
    """
    _ledger.make_room(limit, tell)


def make_room_for(size: int) -> None:
    """Sleep until a task can make so many bytes, or no kept memory can be written to the file.

    Raises
    ------
    StoreFull
        It can't be written.
    """
    limit = config.memory_limit()
    if limit is not None:
        if _ledger.held + _ledger.others() + size > _FULL * limit:
            return_freed_memory()  # the C library keeps that of smaller arrays in pools of threads
        _ledger.make_room(limit, coming=size)


def tasks_at_once(size: int, limit: int) -> int:
    """Return how many tasks that take `size` bytes fit into a limit at once: one at least."""
    room = max((1 - _SHARE) * limit, _FULL * limit - _ledger.others())
    return max(1, int(room) // max(1, size))


def stand_in_again(array: Any, keeper: str) -> KeptArray | None:
    """Return a `KeptArray` of an array that shows a part of the file; None: it shows none."""
    owner = array
    while type(owner) is not _Mapping:
        owner = owner.obj if type(owner) is memoryview else getattr(owner, "base", None)
        if owner is None:
            return None
    memory = KeptMemory(None, keeper)
    memory.range = owner.held
    start = _address(sys.modules["numpy"].frombuffer(owner, "u1"))
    return KeptArray(memory, array, _address(array) - start)


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


# -- how much of it is in memory --------------------------------------------------------------


class _Order:
    """Asks the thread to write until no more than `most` bytes are held."""

    def __init__(self, most: int, is_early: bool, tell: TellsSpilled | None) -> None:
        self.most = most
        self.tell = tell
        self.count = self.size = 0  # of the memories that were written
        self.is_early = is_early
        self.folder = folder_here()
        self.done = Event()
        self.error: Exception | None = None


def _cant_write(order: _Order, held: int, limit: int) -> StoreFull:
    return StoreFull(
        f"{format_bytes(held)} of values are kept, of which {format_bytes(order.most)} may be in "
        f"memory (memory_limit={limit}), and the rest can't be written to a file in "
        f"{order.folder}: {order.error}. Nothing is lost. Free disk space there, choose another "
        "folder by lazyflow.config.set(spill_folder=...), raise memory_limit, or keep less: drop "
        "persisted values that are not needed (del)."
    )


class _Ledger:
    """The memory of kept values: its amount, its order by age, and the thread that writes it.

    Attributes
    ----------
    held
        Bytes in the memory of this process.
    """

    def __init__(self) -> None:
        self.held = 0
        self.file: SpillFile | None = None
        self._unseen = 0  # bytes that were kept since the last look at the process
        self._lock = Lock()
        self._known: dict[int, Gone] = {}  # of memories that are held, by id of their owners
        self.memories: WeakTable[KeptMemory, None] = WeakTable()  # all, also those in the file
        self._dead: deque[Gone] = deque()
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._unstarted = [None]  # the thread that pops it starts the one that writes
        self._early = [None]  # empty while an order is due that no thread waits for

    def memory_of(self, owner: Any, keeper: str) -> KeptMemory | None:
        """Return the memory of an array that owns it; None if it is not in one piece."""
        flat = owner.ravel("K")
        if flat.base is not owner:
            return None
        return self.memory_at(id(owner), flat.view("u1"), keeper)

    def memory_at(self, number: int, flat: Any, keeper: str) -> KeptMemory:
        """Return the memory of some bytes; `number` is their own for as long as they are held."""
        self.settle()
        entry = self._known.get(number)
        known = None if entry is None else entry()
        if known is not None and known.bytes is not None:
            return known
        flat.flags.writeable = False
        made = KeptMemory(flat, keeper)
        with self._lock:
            self._add(number, made, flat.nbytes)
            self.memories[made] = None
        return made

    def _add(self, number: int, memory: KeptMemory, size: int) -> None:
        if number in self._known:
            self._remove(self._known[number])
        self._known[number] = gone(memory, self._dead.append, (number, size))
        self.held += size
        self._unseen += size

    def _remove(self, entry: Gone) -> None:
        number, size = entry.then
        if self._known.get(number) is entry:
            del self._known[number]
            self.held -= size

    def settle(self) -> None:
        """Forget the memory that no value has any more."""
        while self._dead:
            try:
                entry = self._dead.popleft()
            except IndexError:
                return
            with self._lock:
                self._remove(entry)

    def make_room(
        self, limit: int, tell: TellsSpilled | None = None, coming: int = 0
    ) -> None:
        """Sleep until no more than their share is held, or the rest is in use.

        coming
            Bytes that a task is about to make.
        """
        if (self._unseen + coming) * _LOOKS < limit:
            return
        self._unseen = 0
        self.settle()
        most = max(0, self._most(limit) - coming)
        early = int(most * _EARLY)
        if self.held > most:
            order = _Order(most, False, tell)
            self._give(order)
            order.done.wait()
            if order.error is not None:
                raise _cant_write(order, self.held, limit) from None
        elif self.held > early and self._early:
            try:
                self._early.pop()
            except IndexError:  # another thread asks for it just now
                return
            self._give(_Order(early, True, tell))

    def _most(self, limit: int) -> int:
        """Return how many bytes may be held, given the other memory of the process."""
        return int(max(_LEAST_SHARE * limit, min(_SHARE * limit, _FULL * limit - self.others())))

    def others(self) -> int:
        """Return the bytes of memory of the process beside those held."""
        return max(0, (process_usage(os.getpid())[0] or 0) - self.held)

    def _give(self, order: _Order) -> None:
        if self._unstarted:
            uninterrupted(self._start)
        self._orders.put(order)

    def _start(self) -> None:
        try:
            self._unstarted.pop()
        except IndexError:  # another thread did
            return
        try:
            Thread(target=self._serve, name="lazyflow-spilling", daemon=True).start()
        except RuntimeError:  # the system gives no more threads: the task fails with it
            self._unstarted.append(None)
            raise

    # -- in the thread that writes ----------------------------------------------------------

    def _serve(self) -> None:
        while True:
            order, start = self._orders.get(), perf_counter()
            try:
                self._spill(order)
            except Exception as error:  # the thread that waits raises it, or the next one
                order.error = error
            if order.count and order.tell is not None:
                order.tell(order.count, order.size, perf_counter() - start)
            if order.is_early:
                self._early.append(None)
            order.done.set()
            del order

    def _spill(self, order: _Order) -> None:
        for entry in tuple(self._known.values()):
            self.settle()
            if self.held <= order.most:
                return
            memory = entry()
            if memory is not None and memory.is_idle():
                self._write(memory, entry, order.folder)
                order.count, order.size = order.count + 1, order.size + memory.size
            del memory

    def _write(self, memory: KeptMemory, entry: Gone, folder: str) -> None:
        file = self.file
        if file is None or file.folder != folder or not file.used:
            file = self.file = SpillFile(folder)
        memory.range = file.write(memory.bytes)
        memory.bytes = None
        with self._lock:
            self._remove(entry)


_ledger = _Ledger()


def amounts() -> tuple[int, int]:
    """Return the bytes of values kept below a limit: in memory, and in the file."""
    _ledger.settle()
    file = _ledger.file
    return _ledger.held, 0 if file is None else file.used


def facts() -> dict[str, Any]:
    """Return the bytes of values kept below a limit, in memory and in the file, by keeper."""
    held, spilled = amounts()
    keepers = {name: {"held_bytes": 0, "spilled_bytes": 0} for name in ("runs", "persisted")}
    for memory in _ledger.memories.living():
        where = "spilled_bytes" if memory.bytes is None else "held_bytes"
        keepers[memory.keeper][where] += memory.size
    folder = None if _ledger.file is None else _ledger.file.folder
    return {"held_bytes": held, "spilled_bytes": spilled, "folder": folder, **keepers}


def _before_fork() -> None:
    file, _ledger.file = _ledger.file, None
    if file is not None:
        file.is_shared = True


def _after_fork() -> None:
    """Start with nothing in the child: values kept before stay as they are."""
    global _ledger
    _ledger = _Ledger()


at_fork(before=_before_fork, after_in_child=_after_fork)
