"""Memory that one process writes and others read without a copy.

A process that gives values to others writes them into *arenas*: a few large memory files without
a name, so nothing is left behind however the processes end. A *segment* ``(arena, offset, size)``
is a page-aligned part of one. Others get a read-only descriptor of the arena and map it once.
(A file for each value would end at 1,024 descriptors, a mapping for each at 65,530 mappings.)

Freed ranges are written again while their pages are still there; beyond `keep` bytes the pages go
back to the machine at once. New pages are filled by `pwrite`, which needs no page tables on the
writer's side (27 ms for 80 MB, through a mapping 42), pages that are there through the writer's
mapping (2 GB: 280 ms by `pwrite`, 187 the first time that they are mapped, 80 from then on).

State, under the ``_lock`` of each::

    Arenas._held :: {(arena, offset): (length, size)}    ranges in use; all else follows from it
    Arenas._warm, _cold :: Ranges                        free ones, with and without pages
    Arenas.in_use, _leaving :: int                       bytes held; bytes whose pages are on return
    Arenas._is_torn :: bool                              a Ctrl-C came in a change: the next one
                                                         makes the free ranges again

    Mappings._files, _maps :: {arena: descriptor}, {arena: mmap}
    Mappings._seen :: {segment: int}                     live views of it
    Mappings._dead, _done                                references of views that have died, and the
                                                         segments that can be reported

The writer must not take a segment back before every reader has reported it as released
(`Mappings.take_released`): it would write under live arrays.
"""

from __future__ import annotations

import mmap
import os
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from mmap import PAGESIZE
from pickle import PickleBuffer
from typing import Any

from lazyflow.finalizers import Gone, gone
from lazyflow.store.memory.arena import Arena
from lazyflow.store.memory.available import STEP, Budget, available_memory, store_full
from lazyflow.store.sizes import format_bytes
from lazyflow.system import owned

# -- free ranges of memory: taken best fit, given back merged with their neighbours -------

#: (arena, offset, size in bytes): where a buffer is.
Segment = tuple[int, int, int]

#: (arena, offset, length in whole pages, as bytes)
Range = tuple[int, int, int]


def whole_pages(size: int) -> int:
    """Return the bytes of the pages that `size` bytes take: one page at least."""
    return max(1, -(-size // PAGESIZE)) * PAGESIZE


class Ranges:
    """A set of ranges that do not touch each other within one arena.

    >>> free = Ranges()
    >>> free.add((0, 0, 100)); free.add((0, 200, 50)); free.add((0, 100, 100))
    >>> free.total, free.take(40)
    (250, (0, 0, 40))
    """

    def __init__(self) -> None:
        self.total = 0
        self._sizes: list[Range] = []  # (length, arena, offset), sorted
        self._starts: dict[tuple[int, int], int] = {}  # (arena, offset) -> length
        self._ends: dict[tuple[int, int], int] = {}  # (arena, end) -> length

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, free: Range) -> None:
        """Add a range, which may touch ranges that are there but not overlap them."""
        arena, start, length = free
        self.total += length
        below = self._ends.get((arena, start))
        if below is not None:
            start -= below
            self._remove((arena, start, below))
            length += below
        above = self._starts.get((arena, start + length))
        if above is not None:
            self._remove((arena, start + length, above))
            length += above
        self._insert((arena, start, length))

    def take(self, length: int) -> Range | None:
        """Take a range of exactly this length out of the smallest range that has it."""
        at = bisect_left(self._sizes, (length, -1, -1))
        if at == len(self._sizes):
            return None
        size, arena, start = self._sizes[at]
        self._remove((arena, start, size))
        if size > length:
            self._insert((arena, start + length, size - length))
        self.total -= length
        return arena, start, length

    def take_any(self, most: int, spare: tuple[int, int] | None = None) -> Range | None:
        """Take the end of the largest range, `most` bytes or less.

        The range that holds ``spare`` (arena, offset) is taken only when there is no other.
        """
        if not self._sizes:
            return None
        length, arena, start = self._sizes[-1]
        is_spare = spare is not None and (arena, start) <= spare < (arena, start + length)
        if is_spare and len(self._sizes) > 1:
            length, arena, start = self._sizes[-2]
        self._remove((arena, start, length))
        cut = min(length, most)
        if cut < length:
            self._insert((arena, start, length - cut))
        self.total -= cut
        return arena, start + length - cut, cut

    def _insert(self, free: Range) -> None:
        arena, start, length = free
        insort(self._sizes, (length, arena, start))
        self._starts[arena, start] = length
        self._ends[arena, start + length] = length

    def _remove(self, free: Range) -> None:
        arena, start, length = free
        del self._sizes[bisect_left(self._sizes, (length, arena, start))]
        del self._starts[arena, start]
        del self._ends[arena, start + length]


# -- mappings: memory of other processes, and which views of it are alive -----------------
#
# An arena is mapped once, read-only or privately: the views of a private mapping can be edited, the
# edits stay in this process, and pages that are not edited are not copied.

_DONTNEED = getattr(mmap, "MADV_DONTNEED", None)


def _no_room(size: int, error: OSError) -> MemoryError:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return MemoryError(
        f"a value of {format_bytes(size)} in shared memory can't be read in process {os.getpid()}: "
        f"{error}. A limit on address space (ulimit -v, now "
        f"{'none' if limit == resource.RLIM_INFINITY else format_bytes(limit)}) or on mappings "
        "(vm.max_map_count) is the usual cause: raise it, drop values that are not needed (del), "
        "make the chunks smaller, or use scheduler='threads', which copies nothing."
    )


class Mappings:
    """The reader's side: arenas of other processes, and the live views of them.

    Parameters
    ----------
    private : bool
        True: views are writable and edits stay in this process, False: views are read-only.
    steps, released
        A queue that gets ``(released, (segment,), False)`` when a view dies; None: `take_released`
        returns the segments.

    Examples
    --------
    >>> from lazyflow.store.memory.shared import Arenas
    >>> arenas, mappings = Arenas(0, 1), Mappings(private=False)
    >>> segment = arenas.write(b"abc")
    >>> for arena, fd in arenas.take_new():
    ...     mappings.add(arena, fd)
    >>> view = mappings.view(segment)
    >>> bytes(view), mappings.in_use, mappings.take_released()
    (b'abc', 3, [])
    >>> del view
    >>> mappings.take_released()
    [(0, 0, 3)]
    """

    def __init__(
        self, private: bool, steps: deque[Any] | None = None,
        released: Callable[[Segment], None] | None = None,
    ) -> None:
        self.in_use = 0  # bytes that live views look at
        self._private = private
        self._lock = threading.Lock()
        self._files: dict[int, Any] = {}  # by arena, see `owned`
        self._maps: dict[int, mmap.mmap] = {}
        self._views: dict[int, list[Gone]] = {}  # by id of the first: they have to live
        self._seen: dict[Segment, int] = {}  # how many live views a segment has
        self._dead: deque[Gone] = deque()  # of `_views`, those that have gone
        self._done: list[Segment] = []
        self._steps, self._released = steps, released

    def add(self, arena: int, fd: int) -> None:
        """Make an arena known by a descriptor, which is closed by this object."""
        with self._lock:
            if arena not in self._files:
                self._files[arena] = owned(fd)
                return
        os.close(fd)

    def knows(self, arena: int) -> bool:
        """Tell whether an arena was added."""
        return arena in self._files

    def discard(self, arena: int) -> None:
        """Forget an arena whose writer is gone; live views of it stay as they are."""
        with self._lock:
            file = self._files.pop(arena, None)
            self._maps.pop(arena, None)
        if file is not None:
            file.close()

    def view(self, segment: Segment) -> Any:
        """Return the bytes of a segment as a one-dimensional uint8 array, without a copy.

        When the array and everything made from it are gone, `take_released` returns the segment,
        once for each call of this method.

        Raises
        ------
        KeyError
            The arena is not known.
        MemoryError
            The system gives this process no more address space.
        """
        import numpy as np

        arena, offset, size = segment
        with self._lock:
            file = self._files.get(arena)
            if file is None:
                raise KeyError(f"arena {arena} is not mapped here; known: {sorted(self._files)}")
            if self._private:
                self._settle()  # views that have died need no copy
                if self._seen.get(segment):
                    return self._copied(file.fileno(), segment)
            held = self._maps.get(arena)
            if held is None:
                try:
                    held = self._maps[arena] = self._mapped(file.fileno())
                except OSError as error:
                    self._note(segment)  # there will be no view to end
                    raise _no_room(size, error) from error
            # Straight from the mapping: an array keeps its source alive, but a slice of a
            # memoryview or array dies before what was made from it (and memory would be reused).
            view = np.frombuffer(held, np.uint8, size, offset)
            later = [] if self._steps is None else [
                gone(view, self._steps.append, (self._released, (segment,), False))
            ]
            known = gone(view, self._dead.append, segment)  # called first, since it is the newest
            self._views[id(known)] = [known, *later]
            self._seen[segment] = self._seen.get(segment, 0) + 1
            self.in_use += size
        return view

    def take_released(self) -> list[Segment]:
        """Return the segments whose views have died since the last call."""
        with self._lock:
            self._settle()
            released, self._done = self._done, []
        return released

    def settle(self) -> None:
        """Let go of the pages of views that have died."""
        with self._lock:
            self._settle()

    def close(self) -> None:
        """Close all descriptors; live views stay as they are."""
        for arena in list(self._files):
            self.discard(arena)

    def _mapped(self, fd: int) -> mmap.mmap:
        size = os.fstat(fd).st_size
        if not self._private:
            return mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        return mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)

    def _copied(self, fd: int, segment: Segment) -> Any:
        """Return a copy: two private views of one range would see each other's edits."""
        import numpy as np

        _, offset, size = segment
        copy: Any = np.empty(size, np.uint8)
        done = 0
        while done < size:
            done += os.preadv(fd, [copy[done:]], offset + done)
        self._note(segment)
        return copy

    def _note(self, segment: Segment) -> None:
        """Note that a segment is not looked at, though it was asked for."""
        if self._steps is None:
            self._done.append(segment)
        else:
            self._steps.append((self._released, (segment,), False))

    def _settle(self) -> None:
        """Note the views that died.

        A private range loses its pages: otherwise a later view would show this process's old
        edits instead of the writer's data.
        """
        while self._dead:
            known = self._dead.popleft()
            del self._views[id(known)]
            segment = known.then
            arena, offset, size = segment
            self.in_use -= size
            left = self._seen.pop(segment) - 1
            if left:
                self._seen[segment] = left
            held = self._maps.get(arena)
            if self._private and held is not None and _DONTNEED is not None:
                held.madvise(_DONTNEED, offset, whole_pages(size))
            if self._steps is None:
                self._done.append(segment)


# -- the writer's side --------------------------------------------------------------------

_ARENA = 256 << 20  # bytes of address space; pages come when they are written
_KEEP = 128 << 20  # bytes of freed memory that keep their pages; a guess
_LIMITED = 16  # at most such a part of a memory limit keeps its pages; a guess
_FILLING, _LEAVING = -1, -2  # instead of the size of a range that is held
_MAPPED_FROM = 1 << 20  # bytes from which pages that exist are written through a mapping; a guess


class Arenas:
    """The writer's side: memory that this process gives to others. Any thread may use it.

    Parameters
    ----------
    first, step : int
        The arenas are numbered first, first + step, ..., so that no two writers share a number.
    limit : int, optional
        Bytes that this process may hold; None: all memory of the machine.
    available : callable
        Returns the free bytes of the machine; None: unknown.
    keep : int
        Bytes of freed memory that keep their pages.

    Examples
    --------
    >>> arenas = Arenas(0, 1)
    >>> segment = arenas.write(b"abc")
    >>> segment, arenas.in_use, arenas.recycled
    ((0, 0, 3), 4096, 0)
    >>> arenas.free(segment)
    >>> arenas.in_use, arenas.recycled
    (0, 4096)
    >>> arenas.close()
    """

    def __init__(
        self,
        first: int,
        step: int,
        limit: int | None = None,
        available: Callable[[], int | None] = available_memory,
        keep: int = _KEEP,
    ) -> None:
        self.in_use = 0  # bytes, in whole pages
        self._next, self._step = first, step
        self._keep = self._most_kept = keep
        self._budget = Budget(limit, available)
        self._lock = threading.Lock()
        self._arenas: dict[int, Arena] = {}
        self._told: set[int] = set()
        # (arena, offset) -> (length, size) of ranges in use, from which all else follows.
        self._held: dict[tuple[int, int], tuple[int, int]] = {}
        self._warm = Ranges()  # free, with pages
        self._cold = Ranges()  # free, without pages
        self._leaving = 0  # bytes whose pages are being returned
        self._is_torn = False
        self._is_closed = False

    @property
    def recycled(self) -> int:
        """Bytes that are free and still have their pages."""
        return self._warm.total + self._leaving

    def write(self, buffer: Any) -> Segment:
        """Copy a contiguous buffer into a segment.

        Raises
        ------
        StoreFull
            The limit or the machine's memory does not allow it. Nothing is held then.
        BufferError
            The buffer is not contiguous.
        """
        with PickleBuffer(buffer).raw() as data:
            size = data.nbytes
            place, is_new = self._take(size)
            try:
                self._fill(place, data, is_new)
            except BaseException:
                self._give_back(place)
                raise
        arena, offset, length = place
        self._held[arena, offset] = length, size
        return arena, offset, size

    def free(self, segment: Segment) -> None:
        """Take a segment back that no reader uses any more.

        Raises
        ------
        ValueError
            It is not in use.
        """
        arena, offset, size = segment
        length = whole_pages(size)
        with self._lock:
            if self._is_closed:
                return
            if self._held.get((arena, offset)) != (length, size):
                raise ValueError(f"segment {segment} is not in use: freed twice, or never written")
            self._begin()
            del self._held[arena, offset]
            self.in_use -= length
            self._warm.add((arena, offset, length))
            excess = self._to_return(self._keep, (arena, offset))
            self._is_torn = False
        self._return_pages(excess)

    def recycle_within(self, limit: int | None) -> None:
        """Have less of the memory that is freed keep its pages, below a memory limit."""
        self._keep = self._most_kept if limit is None else min(self._most_kept, limit // _LIMITED)

    def trim(self) -> None:
        """Return the pages of all free memory to the machine."""
        with self._lock:
            self._begin()
            excess = self._to_return(0)
            self._is_torn = False
        self._return_pages(excess)

    def take_new(self, told: set[int] | None = None) -> list[tuple[int, int]]:
        """Return (arena, descriptor) of arenas made since the last call.

        The descriptors can only read, and the caller has to close them. A caller that has
        several readers keeps the numbers that each was `told`; this method adds to them.
        """
        told = self._told if told is None else told
        if len(told) == len(self._arenas):
            return []
        with self._lock:
            new = [(n, arena.reader()) for n, arena in self._arenas.items() if n not in told]
            told.update(number for number, _ in new)
        return new

    def close(self) -> None:
        """Drop all arenas; readers keep the parts that they have mapped."""
        with self._lock:
            self._is_closed = True
            arenas = list(self._arenas.values())
            self._arenas.clear()
            self._told.clear()
            self._held.clear()
            self._warm, self._cold = Ranges(), Ranges()
            self.in_use = self._leaving = 0
        for arena in arenas:
            arena.close()

    # -- ranges -----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin a change; repair the state if a Ctrl-C came in the middle of an earlier one.

        Two sets of free ranges that do not agree would hand a range out twice. They are made
        again from the ranges that are not free: those are in one dict, whose changes can't be
        interrupted.
        """
        if self._is_torn:
            self._warm, self._cold = Ranges(), Ranges()
            held = sorted((*place, length) for place, (length, _) in self._held.items())
            leaving = [length for length, size in self._held.values() if size == _LEAVING]
            self._leaving = sum(leaving)
            self.in_use = sum(length for _, _, length in held) - self._leaving
            for number, arena in self._arenas.items():
                start = 0
                ends = [(offset, length) for a, offset, length in held if a == number]
                for offset, length in [*ends, (arena.size, 0)]:
                    if offset > start:
                        arena.drop_pages(start, offset - start)
                        self._cold.add((number, start, offset - start))
                    start = offset + length
        self._is_torn = True

    def _take(self, size: int) -> tuple[Range, bool]:
        """Return a range, counted as in use, and whether its pages have to be made."""
        length = whole_pages(size)
        for _ in range(2):
            with self._lock:
                if self._is_closed:
                    raise ValueError("the store is closed: lazyflow.shutdown() was called")
                self._begin()
                place = self._warm.take(length)
                is_new = place is None
                why = ""
                if place is None:
                    why = self._budget.shortage(length, self.in_use + self._warm.total)
                    place = None if why else self._new_place(length)
                if place is not None:
                    self._held[place[0], place[1]] = length, _FILLING
                    self.in_use += length
                excess = self._to_return(0) if why else []
                self._is_torn = False
            if place is not None:
                return place, is_new
            self._return_pages(excess)  # and try again, once
        raise store_full(size, why)

    def _new_place(self, length: int) -> Range | None:
        place = self._cold.take(length)
        if place is not None:
            return place
        size = max(_ARENA, 1 << (length - 1).bit_length())
        try:
            arena = Arena(size)
        except (OSError, ValueError, OverflowError) as error:
            raise store_full(length, f"the system refuses a new arena: {error}") from error
        number = self._next
        self._next += self._step
        self._arenas[number] = arena
        self._cold.add((number, 0, size))
        return self._cold.take(length)

    def _give_back(self, place: Range) -> None:
        """Undo `_take`: some of the pages may be there."""
        arena, offset, length = place
        with self._lock:
            if self._is_closed:
                return
            self._begin()
            self.in_use -= length
            self._leaving += length
            self._held[arena, offset] = length, _LEAVING
            self._is_torn = False
        self._return_pages([place])

    # -- pages ------------------------------------------------------------------------------

    def _fill(self, place: Range, data: memoryview, is_new: bool) -> None:
        arena, offset, length = place
        fd = self._arenas[arena].fd
        done, size = 0, data.nbytes
        if not is_new and size >= _MAPPED_FROM and self._arenas[arena].map_pages(offset, length):
            self._arenas[arena].copy_in(offset, data)
            return
        while done < size:
            step = min(STEP, size - done)
            if is_new and done:  # other processes may have taken what the first reading found
                why = self._budget.machine_lacks(step)
                if why:
                    raise store_full(size, why)
            try:
                done += os.pwrite(fd, data[done : done + step], offset + done)
            except OSError as error:
                raise store_full(size, f"the system refuses more: {error}") from error

    def _to_return(self, keep: int, freed: tuple[int, int] | None = None) -> list[Range]:
        """Return the warm ranges beyond `keep` bytes, preferably not the one just `freed`."""
        places: list[Range] = []
        while self._warm.total > keep:
            place = self._warm.take_any(whole_pages(self._warm.total - keep), freed)
            assert place is not None
            arena, offset, length = place
            self._held[arena, offset] = length, _LEAVING
            self._leaving += length
            places.append(place)
        return places

    def _return_pages(self, places: list[Range]) -> None:
        """Return pages without the lock: 80 MB take 10 ms, and no other thread has these ranges."""
        for place in places:
            arena, offset, length = place
            held = self._arenas.get(arena)
            if held is None:  # closed meanwhile
                continue
            held.drop_pages(offset, length)
            with self._lock:
                if not self._is_closed:
                    self._begin()
                    self._leaving -= length
                    del self._held[arena, offset]
                    self._cold.add(place)
                    self._is_torn = False
