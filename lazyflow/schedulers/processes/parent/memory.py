"""What the parent has of shared memory: its arenas, maps of the workers' arenas, and counts.

The parent keeps a read-only descriptor of every worker's arena, to send on to other workers and
to map results for the caller. So values that were shared outlive the worker that wrote them.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from lazyflow import config
from lazyflow.schedulers.processes.decisions.nodes import Literal, WorkerRecord
from lazyflow.store.memory import lent
from lazyflow.store.memory.shared import Arenas, Mappings, Segment
from lazyflow.store.pickling.serialize import Encoded, encode

STEP = 1 << 24  # between the numbers of one process's arenas: what is left of one is its owner


class Segments:
    """Counts of the users of shared memory, which is freed with the last one.

    The users of a segment are values that the parent knows (one count for each `Encoded`), and
    processes that map it: one count for each time it was sent to a worker or opened here. When none
    is left, its owner, a worker or this process, may use the memory again.

    Parameters
    ----------
    free
        Called with a segment that has no user any more.
    """

    def __init__(self, free: Callable[[Segment], None]) -> None:
        self._free = free
        self._counts: Counter[Segment] = Counter()
        self._of_user: defaultdict[Any, Counter[Segment]] = defaultdict(Counter)
        self._by_arena: Counter[int] = Counter()
        self.bytes = 0

    def has_any(self, arena: int) -> bool:
        """Tell whether anything in an arena has a user."""
        return arena in self._by_arena

    def add(self, segments: Iterable[Segment], user: Any = None) -> None:
        """Count segments in, for a worker or (None) for what this process knows."""
        for segment in segments:
            self._of_user[user][segment] += 1
            if segment not in self._counts:
                self.bytes += segment[2]
                self._by_arena[segment[0]] += 1
            self._counts[segment] += 1

    def remove(self, segments: Iterable[Segment], user: Any = None) -> None:
        """Count segments out again, for the same user."""
        for segment in segments:
            _lower(self._of_user[user], segment)
            if not _lower(self._counts, segment):
                self.bytes -= segment[2]
                _lower(self._by_arena, segment[0])
                self._free(segment)

    def forget_worker(self, user: Any) -> None:
        """Count out all that a dead worker used."""
        self.remove(list(self._of_user[user].elements()), user)
        del self._of_user[user]


def _lower(counts: Counter[Any], key: Any) -> int:
    """Count one less of a key, and return how many are left; of one that is not there, KeyError."""
    left = counts.pop(key) - 1
    if left:
        counts[key] = left
    return left


class Borrower(Protocol):
    """A worker as it borrows memory: the arenas that it has, and those that it has yet to get."""

    worker: WorkerRecord
    arenas: set[int]
    lent: list[int]


class PoolMemory:
    """Arenas, maps and counts of one pool.

    Parameters
    ----------
    tell_owner
        Passes a free segment on to the worker of a serial number; False when that is dead.
    steps
        Of the driver's loop: what is not mapped here any more is counted out by one of them.
    """

    def __init__(
        self, tell_owner: Callable[[int, Segment], bool], steps: deque[Any]
    ) -> None:
        self._tell_owner = tell_owner
        self.arenas = Arenas(0, STEP, config.get("store_limit"))
        self.mappings = Mappings(True, steps, self._unmapped)
        self.readers: dict[int, int] = {}  # descriptors by arena
        self.segments = Segments(self._free)
        self.least: int = config.get("share_from")

    # -- values -----------------------------------------------------------------------------

    def encoded(self, value: Any) -> Encoded:
        """Encode a value of the caller's, and count it in once."""
        encoded = encode(value, self.arenas.write, self.least, self.arenas.free, by_path=True)
        self.take_own(encoded)
        return encoded

    def take_own(self, encoded: Encoded) -> None:
        """Count a value in that this process has encoded."""
        self._note_own_arenas()
        self.add(encoded)

    def argument(self, known: dict[Any, Any], new: dict[Any, Any], value: Any) -> Encoded:
        """Encode arguments, in any thread.

        Memory that is `known` of other tasks of the run is not copied again; what is copied is
        added to `new`, for `keep_constants`.
        """
        write = partial(self._constant, known, new)
        return encode(value, write, self.least, by_path=True)

    def _constant(self, known: dict[Any, Any], new: dict[Any, Any], buffer: Any) -> Segment:
        if isinstance(buffer, bytes | bytearray | memoryview):  # of a pickle: no other has it
            segment = self.arenas.write(buffer)
            new[segment] = (None, segment)
            return segment
        import numpy as np

        flat = np.frombuffer(buffer, np.uint8)
        key = (flat.__array_interface__["data"][0], flat.nbytes)
        held = known.get(key) or new.get(key)
        if held is not None:
            found: Segment = held[1]
            return found
        segment = self.arenas.write(buffer)
        # The buffer is held: its memory must not become another's while it is known by address.
        new[key] = (buffer, segment)
        return segment

    def keep_constants(self, known: dict[Any, Any] | None, new: dict[Any, Any]) -> None:
        """Count memory in that was written for a run's tasks; free it if the run is forgotten."""
        self._note_own_arenas()
        for key, (buffer, segment) in new.items():
            if known is None:
                self.arenas.free(segment)
            else:
                self.segments.add([segment])
                while key in known:  # two threads wrote it, for a task that ran again
                    key = (*key, 0)
                known[key] = (buffer, segment)

    def drop_constants(self, known: dict[Any, Any]) -> None:
        """Let go of the memory of arguments that was copied for the tasks of a run."""
        for _, segment in known.values():
            self.segments.remove([segment])
        known.clear()

    def add(self, value: Encoded) -> None:
        """Count a value in that this process knows."""
        self.segments.add(value.segments())

    def remove(self, value: Any) -> None:
        """Count a value out; nothing happens if it is not encoded."""
        if type(value) is Literal:
            literal, value = value, value.encoded
            literal.encoded = None
        if type(value) is Encoded:
            self.segments.remove(value.segments())

    def view(self, segment: Segment) -> Any:
        """Count a segment in that is mapped here, and return its bytes; in the driver's thread."""
        self.segments.add([segment])
        return self.mappings.view(segment)

    # -- arenas -----------------------------------------------------------------------------

    def lend(self, member: Borrower, segments: list[Segment]) -> None:
        """Count segments in that are sent to a worker, and note which arenas it has to get."""
        self.segments.add(segments, member)
        for arena, _, _ in segments:
            if arena not in member.arenas:
                member.arenas.add(arena)
                member.lent.append(arena)

    def note_arenas(self, arenas: list[int], descriptors: list[int]) -> None:
        """Take over the descriptors of arenas."""
        for arena, fd in zip(arenas, descriptors, strict=True):
            if arena in self.readers:  # a worker announces it by each of its sockets
                os.close(fd)
            else:
                self.readers[arena] = fd
                self.mappings.add(arena, os.dup(fd))

    def _note_own_arenas(self) -> None:
        new = self.arenas.take_new()
        if new:
            self.note_arenas([arena for arena, _ in new], [fd for _, fd in new])

    def _unmapped(self, segment: Segment) -> None:
        """Count a segment out that was mapped here: after the step that has counted it in."""
        self.mappings.settle()
        self.segments.remove([segment])

    def _free(self, segment: Segment) -> None:
        owner = segment[0] % STEP
        if not owner:
            self.arenas.free(segment)
        elif not self._tell_owner(owner, segment) and not self.segments.has_any(segment[0]):
            self._forget_arena(segment[0])

    def forget_worker(self, member: Borrower) -> None:
        """Count a dead worker out, and let go of its memory that has no user."""
        self.segments.forget_worker(member)
        serial = member.worker.serial
        for arena in [a for a in self.readers if a % STEP == serial]:
            if not self.segments.has_any(arena):
                self._forget_arena(arena)

    def _forget_arena(self, arena: int) -> None:
        fd = self.readers.pop(arena, None)
        if fd is not None:
            os.close(fd)
        self.mappings.discard(arena)

    def trim(self) -> None:
        """Return the pages of all free memory to the machine."""
        self.arenas.trim()
        lent.trim()

    def close(self) -> None:
        """Close all descriptors but those of values that somebody holds still."""
        for arena in tuple(self.readers):
            if self.segments.has_any(arena):
                os.close(self.readers.pop(arena))
            else:
                self._forget_arena(arena)
        if not self.arenas.in_use:
            self.arenas.close()
        lent.trim()
