"""Functions by number: each travels to a worker once, and is forgotten when it is long unused."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from itertools import count
from typing import Any

from lazyflow.store.pickling.functions import FunctionCache, pack_function

_IDLE_BYTES = 16 << 20  # of functions that no job needs; closures may hold large data
_IDLE_COUNT = 1000


def passed_on(value: Any) -> Any:
    """Hand a held value on, as a task of another run."""
    return value


class Function:
    """A function as it travels."""

    __slots__ = ("digest", "number", "payload")

    def __init__(self, number: int, digest: bytes, payload: bytes) -> None:
        self.number = number
        self.digest = digest
        self.payload = payload


class FunctionTable:
    """Functions by what they are made of.

    A function that is made of the same code and closure as an earlier one has its number. Any
    thread may ask for a number; `retain` and `release` are the driver's.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._made = FunctionCache(self._make)
        self._by_digest: dict[bytes, Function] = {}
        self._known: dict[int, Function] = {}
        self._users: Counter[int] = Counter()
        self._idle: OrderedDict[int, Function] = OrderedDict()
        self._idle_bytes = 0
        self.identity = self.function_of(passed_on).number
        self.retain([self.function_of(passed_on)])

    def function_of(self, function: Any) -> Function:
        """Return a function as it travels, or raise Unpicklable."""
        return self._made.of(function)

    def _make(self, function: Any) -> Function:
        digest, payload = pack_function(function)
        found = self._by_digest.get(digest)
        if found is None:
            new = Function(next(self._numbers), digest, payload)
            found = self._by_digest.setdefault(digest, new)
        return found

    def payload(self, number: int) -> bytes:
        """Return what is sent of a function that a job needs."""
        return self._known[number].payload

    def retain(self, functions: Iterable[Function]) -> None:
        """Count functions in that a job needs."""
        for function in functions:
            number = function.number
            if not self._users[number]:
                self._known[number] = function
                if self._idle.pop(number, None) is not None:
                    self._idle_bytes -= len(function.payload)
            self._users[number] += 1

    def release(self, functions: Iterable[Function]) -> list[int]:
        """Count functions out that a job needed; return the numbers that are forgotten now."""
        for function in functions:
            number = function.number
            self._users[number] -= 1
            if not self._users[number]:
                del self._users[number]
                self._idle[number] = function
                self._idle_bytes += len(function.payload)
        gone = []
        while len(self._idle) > _IDLE_COUNT or self._idle_bytes > _IDLE_BYTES:
            number, function = self._idle.popitem(last=False)
            self._idle_bytes -= len(function.payload)
            self._known.pop(number, None)
            self._by_digest.pop(function.digest, None)
            gone.append(number)
        return gone
