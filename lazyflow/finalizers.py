"""Actions after the end of an object, without Python code in the thread that drops the object.

The main thread handles signals between two instructions of Python. In a `__del__`, or in a
weak reference's callback that is written in Python, it raises the KeyboardInterrupt where Python
discards exceptions, and the Ctrl-C is lost. Garbage may be collected anywhere, so no class here
has a `__del__` in Python, and callbacks of weak references are functions of C, such as
`deque.append` and `SimpleQueue.put`: a thread, or the next call, then does the work.
"""

from __future__ import annotations

import _thread
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, cast
from weakref import ref

from lazyflow.interrupts import uninterrupted
from lazyflow.logs import ERROR, log
from lazyflow.system import at_fork

_PATIENCE = 2.0  # seconds for the calls that are due when lazyflow is shut down; a guess

K = TypeVar("K")
V = TypeVar("V")


class Gone(ref):
    """A weak reference that carries ``then``, for the code that gets it from its callback.

    Whoever makes one has to keep it: if it is collected before `obj`, the callback is not called.
    """

    __slots__ = ("then",)
    then: Any


def gone(obj: Any, callback: Callable[[Any], Any], then: Any = None) -> Gone:
    """Return a weak reference, which `callback`, a function of C, gets when `obj` is collected."""
    made = Gone(obj, callback)
    made.then = then
    return made


# -- calls that a thread makes ----------------------------------------------------------------

_queue: SimpleQueue[Callable[[], Any]] = SimpleQueue()
_unstarted = [None]  # the thread that pops it starts the thread for calls


class LastCall:
    """Has a thread make ``call(*args)`` when this object is collected, with the one that holds it.

    The call must be short, since one thread makes all of them. It is not made at the end of
    Python. The arguments may refer to this object, as the traceback of an error does.

    >>> from threading import Event
    >>> event = Event()
    >>> last = LastCall(event.set)
    >>> del last
    >>> event.wait(10)
    True
    """

    __slots__ = ("__del__",)  # Python looks for it in the type, and finds a function of C here

    def __init__(self, call: Callable[..., Any], *args: Any) -> None:
        if _unstarted:
            try:
                uninterrupted(_start)
            except RuntimeError:  # the system gives no more threads: the next one tries again
                pass
        self.__del__: Callable[[], Any] = partial(_queue.put, partial(call, *args))

    def cancel(self) -> None:
        """Cancel the call."""
        self.__del__ = bool


def wait_for_last_calls() -> None:
    """Sleep until the calls that are due have been made, or two seconds have passed."""
    if not _unstarted:
        done = _thread.allocate_lock()
        done.acquire()
        _queue.put(done.release)
        done.acquire(timeout=_PATIENCE)


def _start() -> None:
    # A real Thread: what it calls asks for the current one, and Python never forgets the dummies
    # that it makes for others.
    thread = threading.Thread(target=_serve, name="lazyflow-last-calls", daemon=True)
    try:
        _unstarted.pop()
    except IndexError:  # another thread did
        return
    try:
        thread.start()
    except RuntimeError:
        _unstarted.append(None)
        raise


def _serve() -> None:
    while True:
        call = _queue.get()
        try:
            call()
        except Exception as error:
            log(ERROR, "a finalizer failed", error=error)
        del call


def _in_fork() -> None:
    """Start a new thread on first use in the child of a fork, which has none."""
    _unstarted[:] = [None]


at_fork(after_in_child=_in_fork)


# -- tables -----------------------------------------------------------------------------------


class _WeakEntries:
    """Entries by name, each until its object is collected; the next insertion removes it."""

    def __init__(self) -> None:
        self._entries: dict[Any, Gone] = {}
        self._dead: deque[Gone] = deque()

    def _put(self, name: Any, obj: Any, value: Any = None) -> Gone:
        while self._dead:
            try:
                dead = self._dead.popleft()
            except IndexError:  # another thread had it
                break
            if self._entries.get(dead.then[0]) is dead:
                self._entries.pop(dead.then[0], None)
        return self._entries.setdefault(name, gone(obj, self._dead.append, (name, value)))

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()


class WeakTable(_WeakEntries, Generic[K, V]):
    """Values for objects, by identity, each until its object is collected.

    >>> class Thing: pass
    >>> thing, table = Thing(), WeakTable()
    >>> table[thing] = 1
    >>> table.get(thing), list(table.living()) == [thing]
    (1, True)
    >>> del thing
    >>> list(table.living())
    []
    """

    def get(self, key: K) -> V | None:
        """Return the value of an object, None when it has none."""
        entry = self._entries.get(id(key))
        if entry is None or entry() is not key:
            return None
        value: V = entry.then[1]
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._entries.pop(id(key), None)
        self._put(id(key), key, value)

    def setdefault(self, key: K, value: V) -> V:
        """Return the value of an object; set it first when it has none."""
        if self.get(key) is None:
            self._entries.pop(id(key), None)  # of another object that was collected
        return cast(V, self._put(id(key), key, value).then[1])

    def pop(self, key: K) -> V | None:
        """Remove an object and return its value, None when it had none."""
        found = self.get(key)
        self._entries.pop(id(key), None)
        return found

    def living(self) -> Iterator[K]:
        """Yield the objects that still exist."""
        for entry in tuple(self._entries.values()):
            key = entry()
            if key is not None:
                yield key


class WeakValues(_WeakEntries, Generic[V]):
    """Objects by name, each until it is collected.

    >>> class Thing: pass
    >>> thing, table = Thing(), WeakValues()
    >>> table["a"] = thing
    >>> table.get("a") is thing
    True
    >>> del thing
    >>> table.get("a")
    """

    def get(self, name: Hashable) -> V | None:
        """Return the object, None when there is none."""
        entry = self._entries.get(name)
        return None if entry is None else entry()

    def living(self) -> Iterator[V]:
        """Yield the objects that still exist."""
        for entry in tuple(self._entries.values()):
            found = entry()
            if found is not None:
                yield found

    def __getitem__(self, name: Hashable) -> V:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __setitem__(self, name: Hashable, value: V) -> None:
        self._entries.pop(name, None)
        self._put(name, value)

    def setdefault(self, name: Hashable, value: V) -> V:
        """Return the object; put this one in its place first when there is none."""
        if self.get(name) is None:
            self._entries.pop(name, None)  # of another object that was collected
        return self._put(name, value)() or value
