"""`ActorPool`: a group of actors, each of which takes the next work item when it is free::

    submit --> _waiting --+--> _begin: fn(actor, value) --> the actor's future --> _ended
               _free -----+                                                          |
                 ^-------------------------------------------------------------------+

State of a `_Dispatcher`, under its ``_lock``. It outlives its pool until all items are done::

    _free :: deque of Actor                   those without an item
    _waiting :: deque of (fn, value, TaskFuture)    items without an actor
    _members :: int                           free and busy actors, without those that have ended
    _has_thread :: bool                       `_serve` runs: from the first item that had to wait

The caller's thread begins an item if an actor is free. Else the pool's own thread does, since
``fn`` is the user's code, and must not run in the thread that has ended another call. While other
actors are left, an item that an ended actor refused goes first again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Any

from lazyflow.api.actors import Actor, PendingCalls
from lazyflow.api.futures import Future
from lazyflow.api.lazy import table_html
from lazyflow.api.waiting import wait
from lazyflow.finalizers import LastCall
from lazyflow.graph.task import function_name
from lazyflow.schedulers.actors.calls import CallFuture
from lazyflow.schedulers.core.future import TaskFuture

_AHEAD = 2  # calls per actor that `map` begins before the first result is taken (a guess)

Work = Callable[[Any, Any], Future]


class ActorPool:
    """A group of actors: each work item goes to the next actor that is free.

    An actor whose process ends loses only the call that it ran: if it is not restarted, the other
    actors do the rest.

    Parameters
    ----------
    actors
        Handles of actors. The functions given to the methods below are called with a handle and
        an item, and return the future of a method call.

    Raises
    ------
    TypeError
        One of `actors` is not a handle on an actor.
    ValueError
        There are no actors.

    Examples
    --------
    >>> import lazyflow
    >>> @lazyflow.actor
    ... class Doubler:
    ...     def double(self, x): return 2 * x
    >>> pool = lazyflow.ActorPool([Doubler(), Doubler()])
    >>> list(pool.map(lambda a, x: a.double(x), range(4)))
    [0, 2, 4, 6]
    """

    def __init__(self, actors: Iterable[Actor]) -> None:
        handles = list(actors)
        for handle in handles:
            if not isinstance(handle, Actor):
                raise TypeError(
                    f"ActorPool takes handles of actors; got {handle!r:.100}. Make the actors "
                    "first: ActorPool([Worker() for _ in range(4)]) with @lazyflow.actor on Worker"
                )
        if not handles:
            raise ValueError("ActorPool got no actors; pass at least one: ActorPool([Worker()])")
        self._size = len(handles)
        self._pending = PendingCalls()
        self._dispatcher = _Dispatcher(handles)
        self._end = LastCall(self._dispatcher.close)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {count}" for name, count in self._dispatcher.facts().items())
        return f"<ActorPool: {facts}>"

    def _repr_html_(self) -> str:
        facts = self._dispatcher.facts()
        return table_html("ActorPool", {name: str(count) for name, count in facts.items()})

    def submit(self, fn: Work, value: Any) -> Future:
        """Call ``fn(actor, value)`` once an actor is free; return the future of its result.

        Sleeps while ``config.max_pending_calls`` calls are pending, as a call of an actor does.

        Examples
        --------
        >>> import lazyflow
        >>> pool = lazyflow.ActorPool([lazyflow.actor(list)("aab") for _ in range(2)])
        >>> pool.submit(lambda actor, x: actor.count(x), "a").result()
        2
        """
        self._pending.make_room(self._dispatcher)
        inner = TaskFuture(f"ActorPool.submit({function_name(fn)})", self._dispatcher.scheduler)
        future: Future[Any] = Future(inner)
        self._pending.add(inner)
        self._dispatcher.take(fn, value, inner)
        return future

    def map(self, fn: Work, values: Iterable[Any]) -> Iterator[Any]:
        """Return an iterator of the results of ``fn(actor, value)``, in the order of `values`.

        The first calls begin at once, two for each actor; taking a result begins another call.
        An error is raised in place of its result, and ``next`` continues after it.

        Examples
        --------
        >>> import lazyflow
        >>> pool = lazyflow.ActorPool([lazyflow.actor(list)("aab") for _ in range(2)])
        >>> list(pool.map(lambda actor, x: actor.count(x), "abc"))
        [2, 1, 0]
        """
        calls = self._calls(fn, values)
        return map(Future.result, self._in_order(calls, deque(self._first(calls))))

    # The futures come from a generator and their results from `map`: an error ends a generator.

    @staticmethod
    def _in_order(calls: Iterator[Future], begun: deque[Future]) -> Iterator[Future]:
        while begun:
            wait(begun[0])
            begun.extend(islice(calls, 1))
            yield begun.popleft()

    def map_unordered(self, fn: Work, values: Iterable[Any]) -> Iterator[Any]:
        """Return an iterator of the results of ``fn(actor, value)``, in the order of completion.

        Errors are raised as in `map`.

        Examples
        --------
        >>> import lazyflow
        >>> pool = lazyflow.ActorPool([lazyflow.actor(list)("aab") for _ in range(2)])
        >>> sorted(pool.map_unordered(lambda actor, x: actor.count(x), "abc"))
        [0, 1, 2]
        """
        calls = self._calls(fn, values)
        return map(Future.result, self._as_they_come(calls, list(self._first(calls))))

    @staticmethod
    def _as_they_come(calls: Iterator[Future], begun: Iterable[Future]) -> Iterator[Future]:
        done: SimpleQueue[Future] = SimpleQueue()
        pending = 0
        while True:
            for future in begun:
                pending += 1
                future._inner.add_callback(lambda _, future=future: done.put(future))  # type: ignore[misc]
            if not pending:
                return
            ended = [done.get()]
            pending -= 1
            begun = islice(calls, 1)
            yield ended.pop()

    def _calls(self, fn: Work, values: Iterable[Any]) -> Iterator[Future]:
        """Return an iterator that begins a call for each future that is taken from it."""
        return map(partial(self.submit, fn), values)

    def _first(self, calls: Iterator[Future]) -> Iterator[Future]:
        return islice(calls, self._size * _AHEAD)


Item = tuple[Work, Any, TaskFuture]


class _Dispatcher:
    """The free actors and the waiting items of a pool, which it outlives until all is done."""

    def __init__(self, actors: list[Actor]) -> None:
        self.scheduler = actors[0]._core.scheduler
        self._lock = threading.Lock()
        self._hosts = [actor._core.host for actor in actors]
        self._free = deque(actors)
        self._members = len(actors)  # the free and the busy ones, without those that have ended
        self._waiting: deque[Item] = deque()
        self._calls: SimpleQueue[bool] = SimpleQueue()  # to the thread; False: the pool is gone
        self._has_thread = False
        self._has_pool = True

    @property
    def is_over(self) -> bool:
        """Whether every further call fails."""
        return all(host.is_over for host in self._hosts)

    def facts(self) -> dict[str, int]:
        """Return the numbers of actors, of those that are free or have ended, of waiting items."""
        with self._lock:
            return {
                "actors": len(self._hosts),
                "free": len(self._free),
                "ended": sum(host.is_over for host in self._hosts),
                "waiting items": len(self._waiting),
            }

    def take(self, fn: Work, value: Any, inner: TaskFuture) -> None:
        """Queue a call, and begin it if an actor is free."""
        with self._lock:
            self._waiting.append((fn, value, inner))
        self._begin_waiting()

    def close(self) -> None:
        """End the thread once no work waits; takes no lock."""
        self._calls.put(False)

    def _begin_waiting(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                if not self._free:
                    self._need_thread()
                    return
                actor = self._free.popleft()
                item = self._waiting.popleft()
            self._begin(actor, item)

    def _need_thread(self) -> None:
        """Start the thread that begins waiting calls.

        The thread that ends a call must not run the user's code.
        """
        if not self._has_thread:
            self._has_thread = True
            threading.Thread(target=self._serve, name="lazyflow-actor-pool", daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._lock:
                if not self._has_pool and not self._waiting:
                    self._has_thread = False  # a running item may come back later
                    return
            self._has_pool = self._calls.get() and self._has_pool
            self._begin_waiting()

    def _begin(self, actor: Actor, item: Item) -> None:
        fn, value, inner = item
        try:
            if inner.done():  # it was cancelled
                self._free_again(actor)
                return
            future = fn(actor, value)
            if not isinstance(future, Future):
                raise TypeError(
                    f"{function_name(fn)} must return the future of a method call, as in "
                    f"lambda actor, x: actor.method(x); it returned {type(future).__name__}"
                )
        except Exception as error:
            self._free_again(actor)
            inner.set_error(error)
            return
        future._inner.add_callback(partial(self._ended, actor, item))

    def _ended(self, actor: Actor, item: Item, done: TaskFuture) -> None:
        value, error = done.local_outcome()
        was_refused = type(done) is CallFuture and done.was_refused
        if self._free_again(actor, item if was_refused else None):
            return
        inner = item[-1]
        if error is not None:
            inner.set_error(error)
        else:
            inner.set_value(value)

    def _free_again(self, actor: Actor, refused: Item | None = None) -> bool:
        """Let an actor have the next item; return whether others get the one that it refused.

        The last one stays when it has ended, for the words of its error.
        """
        with self._lock:
            is_gone = actor._core.host.is_over and self._members > 1
            if is_gone:
                self._members -= 1
            else:
                self._free.append(actor)
            goes_on = is_gone and refused is not None
            if goes_on:
                self._waiting.appendleft(refused)  # type: ignore[arg-type]
            if self._waiting:
                self._need_thread()
                self._calls.put(True)
        return goes_on
