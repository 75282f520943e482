"""Values and functions of the pool, on the caller's side.

`PoolMemory` has the shared memory: `PoolMemory.argument` writes a large literal once for all tasks
of a run. `FunctionTable` gives functions their numbers; `PoolValue` is a result that stays in the
pool. Arguments that take long to pickle are pickled in a thread of their own.

State; any thread may encode values, map results and ask for functions, the driver's thread does
the rest::

    PoolMemory.arenas :: Arenas               where this process writes values
    PoolMemory.readers :: {arena: fd}         arenas of all processes, to be sent to workers
    PoolMemory.mappings :: Mappings           and mapped here
    PoolMemory.segments :: Segments           the users of each segment: freed with the last one

    FunctionTable._by_digest :: {digest: Function}    all that have a number
    FunctionTable._users :: {number: int}             how many jobs need it
    FunctionTable._idle :: {number: Function}         no job needs it; beyond 16 MiB or 1,000, the
                                                      oldest is forgotten, also by the workers
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeAlias

from lazyflow import config
from lazyflow.errors import Cancelled
from lazyflow.graph.task import Task, place_text, task_name
from lazyflow.interrupts import Event, is_users_interrupt
from lazyflow.schedulers.core.errors.failures import with_call_note
from lazyflow.schedulers.core.errors.words import summary
from lazyflow.schedulers.core.snapshots import verify
from lazyflow.schedulers.core.task_resources import asleep
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    MISSING,
    WAITING,
    Job,
    Literal,
    Node,
    WorkerRecord,
)
from lazyflow.schedulers.processes.parent.event_loop import EventLoop
from lazyflow.schedulers.remote import calls
from lazyflow.schedulers.remote.calls import (
    culprit,
    is_quick,
    is_quickly_packed,
    name_only,
    packed_call,
    unreadable_result,
)
from lazyflow.schedulers.remote.large_values import LARGE, KnownValues, named_arguments
from lazyflow.store.memory import result_memory
from lazyflow.store.memory.shared import Arenas, Mappings, Segment
from lazyflow.store.ownership import copied
from lazyflow.store.pickling.functions import FunctionCache, pack_function
from lazyflow.store.pickling.pickler import loads_owned
from lazyflow.store.pickling.serialize import Encoded, decode, encode
from lazyflow.store.pickling.unpicklable import Unpicklable, serialization_error
from lazyflow.store.sizes import format_bytes

# -- memory -------------------------------------------------------------------------------
#
# The parent's side of shared memory: its arenas, maps of the workers' arenas, and counts.
#
# The parent keeps a read-only descriptor of every worker's arena, to send on to other workers and
# to map results for the caller. So values that were shared outlive the worker that wrote them.


STEP = 1 << 24  # between the numbers of one process's arenas: number % STEP is the process


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
        """Count segments in, for a worker or (None) for this process."""
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

    def worker_gone(self, user: Any) -> None:
        """Count out all that a dead worker used."""
        self.remove(list(self._of_user[user].elements()), user)
        del self._of_user[user]


def _lower(counts: Counter[Any], key: Any) -> int:
    """Count a key down and return its count; raises KeyError if it has none."""
    left = counts.pop(key) - 1
    if left:
        counts[key] = left
    return left


class Owner(Protocol):
    """The attributes of the driver, which imports this module, that jobs and values use."""

    is_left: bool
    closing: bool
    memory: PoolMemory
    functions: FunctionTable
    copies: RepeatedCopies
    loop: EventLoop

    def hold(self, value: PoolValue) -> None:
        """Keep the result that a value stands for until the value is freed."""

    def fetch(self, value: PoolValue) -> Any:
        """Return a value of which a worker has the only copy, encoded or as it is."""

    def view(self, segment: Any) -> Any:
        """Return the bytes of a segment of shared memory."""


class Borrower(Protocol):
    """The attributes of a worker's handle that are used when it is sent values in shared memory.

    arenas
        The numbers of the arenas that it has, or gets with its next message.
    lent
        Those of them whose descriptors go with its next message.
    """

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
        Of the driver's loop: they count memory out that is not mapped here any more.
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

    def encode(self, value: Any, by_path: bool = False) -> Encoded:
        """Encode a value of the caller's, in any thread; `take_own` counts it in."""
        return encode(value, self.arenas.write, self.least, self.arenas.free, by_path)

    def encoded(self, value: Any) -> Encoded:
        """Encode a value of the caller's, and count it in once."""
        encoded = self.encode(value, by_path=True)
        self.take_own(encoded)
        return encoded

    def take_own(self, encoded: Encoded) -> None:
        """Count a value in that this process has encoded."""
        self._note_own_arenas()
        self.add(encoded)

    def argument(self, known: dict[Any, Any], new: dict[Any, Any], value: Any) -> Encoded:
        """Encode arguments, in any thread.

        Memory that is `known` from other tasks of the run is not copied again; copies are added to
        `new`, for `keep_constants`.
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
            known_segment: Segment = held[1]
            return known_segment
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
        """Free the memory to which arguments were copied for the tasks of a run."""
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
            self._drop_arena(segment[0])

    def worker_gone(self, member: Borrower) -> None:
        """Count a dead worker out, and free its memory that has no user."""
        self.segments.worker_gone(member)
        serial = member.worker.serial
        for arena in [a for a in self.readers if a % STEP == serial]:
            if not self.segments.has_any(arena):
                self._drop_arena(arena)

    def _drop_arena(self, arena: int) -> None:
        fd = self.readers.pop(arena, None)
        if fd is not None:
            os.close(fd)
        self.mappings.discard(arena)

    def trim(self) -> None:
        """Return the pages of all free memory to the machine."""
        self.arenas.trim()
        result_memory.trim()

    def close(self) -> None:
        """Close all descriptors but those of values that are still held."""
        for arena in tuple(self.readers):
            if self.segments.has_any(arena):
                os.close(self.readers.pop(arena))
            else:
                self._drop_arena(arena)
        if not self.arenas.in_use:
            self.arenas.close()
        result_memory.trim()


# -- advice on large values that are sent to the workers again and again, once for every compute

_TIMES = 3  # computes that have sent it, before advice is given; a guess


class RepeatedCopies:
    """Notices large values that are copied often."""

    def __init__(self) -> None:
        #: For the caller's thread to show: a warning needs the user's line.
        self.advice: deque[str] = deque()
        self._known = KnownValues()
        self._said: set[str] = set()

    def look(self, run: int, task: Task) -> None:
        """Look at the arguments of a task, which are sent in encoded form."""
        for name, value in named_arguments(task):
            self.note(run, value, f"{name} of {task_name(task)}")

    def note(self, run: int, value: Any, what: str) -> None:
        """Note that the run of a number sends a value; `what` describes the value."""
        seen = self._known.find(value)
        if seen is None:
            return
        seen.meet(run)
        if seen.times == _TIMES and what not in self._said:
            self._said.add(what)
            self.advice.append(
                f"{what}, {summary(value, scalars=False)}, was copied for the workers by {_TIMES} "
                f"computes, {format_bytes(seen.nbytes)} each time. Put it there once, "
                "x = lazyflow.put(x), and pass that: workers then read it where it is"
            )


# -- arguments and values that are pickled in a thread of their own -----------------------
#
# Pickling may run the user's code, or copy much memory. In the driver's thread, one slow argument
# would hold up all runs, and an error of the user's would be the pool's. So each job with such
# arguments has a thread that pickles them, in the order of the plan. It hands over the tasks of
# about a millisecond together, since each alone would be a message of its own, and all that are
# ready before it pickles an argument that runs the user's code. Plain arguments, and small ones of
# NumPy's own types, are packed when they are sent.

_TOGETHER = 0.001  # seconds of packing, after which the packed tasks may go; a guess

#: A node, the value that it had, the pickled form or the error, and memory copied for it.
Packed: TypeAlias = tuple[Node, Any, Any, BaseException | None, dict[Any, Any]]


def begin_packing(driver: Owner, nodes: list[Node], packed: Callable[..., None]) -> None:
    """Have nodes of one job packed; `packed`, see `ValueTable`, is posted for some at a time."""
    details = driver, nodes, packed
    try:
        threading.Thread(
            target=_pack_all, args=details, name="lazyflow-packing", daemon=True
        ).start()
    except RuntimeError:  # the system gives no more threads, or Python is ending
        _pack_all(*details)


def _pack_all(driver: Owner, nodes: list[Node], packed: Callable[..., None]) -> None:
    outcomes: list[Packed] = []
    begun = driver.loop.now()
    for node in nodes:
        run, literal = node.job.run, node.value
        if run is None or node.phase != WAITING or driver.closing:  # it was given up
            continue
        written: dict[Any, Any] = {}
        try:
            if outcomes and _may_take_long(node.task, literal):
                driver.loop.post(packed, outcomes)
                outcomes, begun = [], driver.loop.now()
            if literal is MISSING:
                made: Any = _arguments(driver, run, node, written)
            else:
                made = _value(driver, run, node, literal)
            verify(run.watches, node.i, node.task)
            outcomes.append((node, literal, made, None, written))
        except BaseException as broken:
            role = "args" if literal is MISSING else "value"
            error = unsendable(node.task, role, broken, driver.memory.least)
            outcomes.append((node, literal, None, error, written))
        if driver.loop.now() - begun > _TOGETHER:
            driver.loop.post(packed, outcomes)
            outcomes, begun = [], driver.loop.now()
    driver.loop.post(packed, outcomes)


def _may_take_long(task: Task, literal: Any) -> bool:
    """Tell whether pickling runs the user's code, which may even wait for tasks packed before."""
    if literal is MISSING:
        return not is_quickly_packed(task, sys.maxsize)
    return not is_quick((literal.value,), sys.maxsize)


def _arguments(driver: Owner, run: Any, node: Node, written: dict[Any, Any]) -> Any:
    """Pack the arguments of a task; memory that other tasks of the run were given is not copied."""
    memory = driver.memory
    packed = packed_call(node.task, partial(memory.argument, run.literals, written))
    if packed[0].__class__ is Encoded and packed[0].size >= LARGE and not run.is_inner:
        driver.copies.look(run.number, node.task)
    return packed


def _value(driver: Owner, run: Any, node: Node, literal: Literal) -> Encoded:
    encoded = driver.memory.encode(literal.value, by_path=True)
    if encoded.size >= LARGE and not run.is_inner:
        what = f"the lazy value made at {place_text(node.task)}"
        driver.copies.note(run.number, literal.value, what)
    return encoded


def unsendable(task: Task, role: str, error: BaseException, least: int) -> BaseException:
    """Return the error of a task whose arguments can't be sent: StoreFull, for example.

    `least` is the size in bytes from which they would go to shared memory.
    """
    if task._bind is not None and isinstance(error, Unpicklable):
        role, error = culprit(task, role, error, lambda value: encode(value, _nowhere, least))
    return calls.unsendable(task, role, error)


def _nowhere(buffer: Any) -> tuple[int, int, int]:
    return (0, 0, 0)


# -- functions by number: each travels to a worker once, and is forgotten when it is long unused

_IDLE_BYTES = 16 << 20  # of functions that no job needs; closures may hold large data; a guess
_IDLE_COUNT = 1000  # of these functions; a guess


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
    """Functions by a digest of their code and closure.

    A function that is made of the same code and closure as an earlier one has its number. Any
    thread may ask for a number; `retain` and `release` are the driver's.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self._packed = FunctionCache(pack_function)
        self._by_digest: dict[bytes, Function] = {}
        self._known: dict[int, Function] = {}
        self._users: Counter[int] = Counter()
        self._idle: OrderedDict[int, Function] = OrderedDict()
        self._idle_bytes = 0
        self.identity = self.function_of(passed_on).number
        self.retain([self.function_of(passed_on)])

    def function_of(self, function: Any) -> Function:
        """Return a function as it travels, or raise Unpicklable."""
        digest, payload = self._packed.of(function)
        numbered = self._by_digest.get(digest)
        if numbered is None:
            new = Function(next(self._numbers), digest, payload)
            numbered = self._by_digest.setdefault(digest, new)
        return numbered

    def payload(self, number: int) -> bytes:
        """Return the pickle of a function that a job needs."""
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
        """Count functions out that a job needed; return the numbers that are dropped now."""
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


# -- values that stay in the pool, as the rest of the library sees them: results, and `put` values


class PoolValue:
    """A value of the pool, of which this process has at most an encoded form.

    While this object lives the value is kept where it is; `get` opens it anew each time, so its
    result is the caller's own.
    """

    __slots__ = ("__weakref__", "driver", "node", "task", "value")

    _lazyflow_remote = True

    def __init__(self, driver: Owner, node: Node | None, task: Task, value: Any) -> None:
        self.driver = driver
        self.node = node  # whose value to fetch when `value` is None
        self.task = task  # for messages: where the value may live long, only its name
        self.value = value  # an Encoded, counted in
        if node is not None or value.segments():  # else there is nothing to free
            driver.hold(self)

    def get(self) -> Any:
        """Return the value, fetched if need be.

        Raises
        ------
        SerializationError
            It can't leave its worker, or can't be opened here.
        """
        if self.driver.is_left:
            raise not_here(task_name(self.task))
        value = self.value
        if value is None:
            value = self.driver.fetch(self)
        if type(value) is not Encoded:
            return copied(value.value) if type(value) is Literal else value
        try:
            return opened(value, self.driver)
        except BaseException as error:
            if is_users_interrupt(error):
                raise
            if type(error) is MemoryError:  # whose message has the remedy
                raise with_call_note(error, self.task, None) from None
            raise with_call_note(unreadable_result(error), self.task, None) from error


def not_here(what: str) -> Cancelled:
    """Return the error for a value that is missing in the child of a fork."""
    return Cancelled(
        f"{what} is not in this process, the child of a fork: the workers, and the memory that "
        "they share, are the parent's. Ask for it before the fork, or compute it again here."
    )


def opened(value: Encoded, driver: Owner) -> Any:
    """Open an encoded value for the caller: its large parts are mapped, not copied."""
    return loads_owned(partial(decode, value, driver.view))


class Fetch:
    """A thread that waits for a value to be brought here."""

    def __init__(self) -> None:
        self._arrived = Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def done(self, value: Any, error: BaseException | None = None) -> None:
        """Wake the thread that waits."""
        self.value, self.error = value, error
        self._arrived.set()

    def wait(self) -> Any:
        """Return the value, or raise why there is none."""
        with asleep():
            self._arrived.wait()
        if self.error is not None:
            raise self.error
        return self.value


# -- values that are put --------------------------------------------------------------------


def put(driver: Owner, value: Any, task: Task) -> PoolValue:
    """Encode a value once, for all runs, in the caller's thread; `task` has its name and place.

    Its node is made, and of a job that is over and cleared: it is kept while the `PoolValue`
    lives, or the lineage of another job's value needs it.

    Raises
    ------
    SerializationError
        It can't be pickled.
    StoreFull
        There is no room for it.
    """
    try:
        encoded = driver.memory.encode(value)
    except Unpicklable as error:
        text = f"{task._args[0].name}, at {place_text(task)},"
        raise serialization_error(text, "value", error) from None
    node = held_node(task)
    node.phase = DONE
    node.value = encoded
    node.size = encoded.size
    driver.loop.post(driver.memory.take_own, encoded)
    return PoolValue(driver, node, name_only(task), None)


def held_node(task: Task) -> Node:
    """Return the node of a value that no task of the pool makes, and that the caller holds."""
    job = Job(None, 0, background=True)
    job.over = True
    node = Node(job, 0, name_only(task), 0)
    node.pinned = node.stays = True
    node.left = 1
    job.delivered.add(node)
    return node
