"""Memory of other processes as this one sees it, and which views of it are still alive.

An arena is mapped once, read-only or privately: the views of a private mapping can be edited, the
edits stay in this process, and pages that are not edited are not copied.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from lazyflow.departures import Gone, gone, owned
from lazyflow.store.memory.ranges import Segment, whole_pages
from lazyflow.store.sizes import format_bytes

__all__ = ["Mappings"]

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
        Where ``(released, (segment,), False)`` is put when a view dies, after what was put there
        before; None: `take_released` returns the segments.

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
            found, self._done = self._done, []
        return found

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
        edits instead of what the writer put there.
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
