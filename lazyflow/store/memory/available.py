"""How much memory the machine can still give, and when a store has to stop growing.

Memory files have no limit of their own: the kernel hands out their pages until its out-of-memory
killer ends a process, and `posix_fallocate` succeeds all the same. So the store asks before it
grows, and again while it fills a large range, since other processes grow meanwhile. It leaves a
reserve free for growth between two readings.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from lazyflow.clock import Clock
from lazyflow.errors import StoreFull
from lazyflow.store.sizes import format_bytes
from lazyflow.system import free_memory, group_memory, total_memory

#: Bytes filled between two readings of the machine's free memory; a guess, like those below.
STEP = 64 << 20
_RESERVE = 64 << 20  # bytes kept free at least
_SHARE = 50  # one part in so many of the machine's memory is kept free, if that is more
_FRESH = 0.05  # seconds for which one reading is valid
_PART = 16  # one part in so many of a reading may be taken without another one


def available_memory() -> int | None:
    """Return the bytes that processes may still take; None: unknown.

    That is the least of the kernel's available memory and the rest that control groups allow.
    """
    return min((n for n in (free_memory(), group_memory()) if n is not None), default=None)


def _reserve() -> int:
    return max(_RESERVE, (total_memory() or 0) // _SHARE)


class Budget:
    """Decides whether a store may grow.

    Parameters
    ----------
    limit : int, optional
        Bytes that the store may hold; None: all memory of the machine.
    available : callable
        Returns the bytes that the machine can still give, or None.
    now
        The clock by which a reading becomes old.
    """

    def __init__(
        self, limit: int | None, available: Callable[[], int | None], now: Clock = monotonic
    ) -> None:
        self.limit = limit
        self._now = now
        self.available = available
        self.reserve = _reserve()
        self._credit = 0  # bytes that may be taken without another reading
        self._until = 0.0

    def shortage(self, size: int, held: int) -> str:
        """Return why a store that holds `held` bytes may not take `size` more, "" if it may."""
        if self.limit is not None and held + size > self.limit:
            return (
                f"this process holds {format_bytes(held)} of it already and may hold "
                f"{format_bytes(self.limit)} (store_limit)"
            )
        return self.machine_lacks(size)

    def machine_lacks(self, size: int) -> str:
        """Return why the machine can't give `size` bytes more, "" if it can."""
        if size <= self._credit and self._now() < self._until:
            self._credit -= size
            return ""
        left = self.available()
        if left is None:
            return ""
        if left - self.reserve < size:
            self._credit = 0
            return (
                f"the machine has {format_bytes(left)} left, of which "
                f"{format_bytes(self.reserve)} are kept free"
            )
        self._credit = (left - self.reserve) // _PART - size
        self._until = self._now() + _FRESH
        return ""


def store_full(size: int, why: str) -> StoreFull:
    """Return the error for a value of `size` bytes that does not fit."""
    return StoreFull(
        f"a value that passes between processes needs {format_bytes(size)} of shared memory, but "
        f"{why}. Usually too many large results are alive at once: drop the ones that are not "
        f"needed (del), compute fewer at a time, make the chunks smaller, raise a limit by "
        f"lazyflow.config.set(store_limit=...), or use scheduler='threads', which copies nothing."
    )
