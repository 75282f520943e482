"""A table that keeps the keys used last, for caches that must not grow."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The `most` keys that were used last and their values, and up to as many older ones.

    There are two dicts. A key found in the older one moves to the newer; when the newer is full, it
    becomes the older one, and the oldest keys are dropped. So a use costs as much as in a dict, any
    thread may look up and set, and keys in steady use stay. `functools.lru_cache` orders every use.

    Examples
    --------
    >>> recent = Recent(2)
    >>> for number in range(6):
    ...     recent[number] = str(number)
    ...     kept = recent.get(0)
    >>> kept, recent.get(1), recent.get(5), len(recent) <= 4
    ('0', None, '5', True)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        found = self._new.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self[key] = found
        return found

    def __setitem__(self, key: K, value: V) -> None:
        self._with_room()[key] = value

    def _with_room(self) -> dict[K, V]:
        if len(self._new) >= self.most:
            self._new, self._old = {}, self._new
        return self._new

    def setdefault(self, key: K, value: V) -> V:
        """Return the value of a key, which is this one if it has none: the same for all threads."""
        found = self.get(key)
        if found is None:
            found = self._with_room().setdefault(key, value)
        return found

    def __len__(self) -> int:
        return len(self._new.keys() | self._old.keys())
