"""The common part of all worker processes: sockets, memory, and the caller's modules and settings.

A page of memory that is shared with the parent has two words: the number of the task or call that
runs here, and that of the value that is being pickled for others. They stay until the answer is
sent, so that the parent knows which task to charge when this process dies.

Policy: a worker looks like the caller's process to tasks. It has the caller's version of the user's
modules (`Follower`), its settings, and its filters of warnings and levels of loggers (`Reporter`),
which come by messages before the tasks that need them. It may die at any
time: what other processes need of it is in its answers, or can be made again elsewhere.

Two threads, each with a socket::

    parent ---- `batches` ----> main thread: `serve`, `_take`
           <--- answers, notices ----           FOLLOW    Follower.follow
                                                SETTINGS  take_over
                                                FUNCTION  functions[number] = payload
                                                others    `_take_work`: tasks, or calls of an actor
           ---- `requests` ---> service thread: `Requests.serve`, main.py
           <--- values, tasks that are given back ----

State of a `WorkerProcess`, and who writes it::

    words :: memoryview of two int64   RUNNING by the main thread, PICKLING by the service thread
    functions :: {number: payload or function}    main thread
    skipped :: {number}                service thread; the actor's thread removes them
    announced :: ({arena}, {arena})    announced by `batches`, and by `requests`
    arenas, mappings                   both threads: they lock by themselves
    follower, reporter                 main thread; `reporter.waiting` by any thread that logs
    _sending :: Lock                   held by the thread that writes to `batches`
"""

from __future__ import annotations

import builtins
import importlib
import marshal
import pickle
import select
import socket
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

from lazyflow import config
from lazyflow.errors import StoreFull
from lazyflow.schedulers.core.task_resources import drop
from lazyflow.schedulers.processes.protocol import Incoming, send
from lazyflow.schedulers.remote.calls import DROP, FOLLOW, FUNCTION, NOTICES, SETTINGS, unreadable
from lazyflow.schedulers.remote.environment import Stat, is_users, stat_of, take_over
from lazyflow.store import spilling
from lazyflow.store.memory import result_memory
from lazyflow.store.memory.shared import Arenas, Mappings, Segment
from lazyflow.store.pickling.functions import load_function
from lazyflow.store.pickling.serialize import encode
from lazyflow.system import at_fork

# -- in a worker: the user's modules are kept at the version that the caller has ----------
#
# A finder in front of all others notes imports, and refuses a source that is not the caller's
# version. Modules that only tasks import are looked at once per run, and reloaded when their source
# has changed.


class Follower:
    """The versions of the caller's modules, and of those that this process has imported.

    Attributes
    ----------
    broken
        Why no function can be opened: a module of the caller can't be imported here.
    """

    def __init__(self) -> None:
        self.broken: RuntimeError | None = None
        self._versions: dict[str, tuple[int, int, int]] = {}
        self._refused: dict[str, str] = {}
        self._mine: dict[str, tuple[str, Stat, int]] = {}  # with the caller's reloads so far
        self._path = list(sys.path)  # the caller's
        self._in_place = False
        self._old: dict[Any, Any] = {}  # of IPython's: objects of before reloads
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Called by each import."""
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                if is_users(name, spec):
                    self._note(name, spec.origin)
                return spec
        return None

    def _note(self, name: str, origin: str) -> None:
        stat = stat_of(origin)
        why = self._refused.get(name)
        theirs = self._versions.get(name)
        if why is None and theirs is not None and theirs[:2] != stat:
            why = f"{origin} is not what the program has imported: it was edited since"
        if why is not None:
            raise RuntimeError(
                f"this worker can't import the program's version of module {name}: {why}. Reload "
                f"it there (importlib.reload({name}), or %autoreload 2 in a notebook), or start "
                "the program again."
            )
        if stat is not None:
            self._mine[name] = origin, stat, 0 if theirs is None else theirs[2]

    def opened(self, payload: bytes) -> tuple[Any, bool]:
        """Return a function that was sent, and whether tasks may share it: it is code alone.

        Raises
        ------
        RuntimeError
            A module that it needs has another version here.
        SerializationError
            It can't be unpickled.
        """
        if self.broken is not None:
            raise RuntimeError(*self.broken.args)
        try:
            return load_function(payload)
        except (MemoryError, RuntimeError):
            raise
        except BaseException as error:
            raise unreadable("the function", error) from error

    def follow(self, versions: tuple[Any, ...]) -> None:
        """Bring modules to the caller's versions: the arguments are fields of `ModuleVersions`."""
        before = self._versions
        _, _, path, self._versions, self._refused, self._in_place = versions
        for name in before.keys() - self._versions.keys():  # the program has removed it
            sys.modules.pop(name, None)
            self._mine.pop(name, None)
        if path != self._path:
            sys.path[:] = path + [each for each in sys.path if each not in self._path]
            self._path = path
            importlib.invalidate_caches()
        mine = {
            name: (*stat, reloads)
            for name, (_, stat, reloads) in self._mine.items()
            if name in sys.modules
        }
        self.broken = None
        # In the order in which the program ran them: `sys.modules` has them as they were done.
        self._reload([n for n, theirs in self._versions.items() if mine.get(n, theirs) != theirs])

    def look(self) -> None:
        """Reload edited modules that only tasks have imported."""
        own = self._mine.keys() - self._versions.keys()
        edited = [n for n in own if stat_of(self._mine[n][0]) != self._mine[n][1]]
        if edited:
            self._reload([n for n in tuple(sys.modules) if n in edited])

    def _reload(self, names: list[str]) -> None:
        """Reload modules, in this order."""
        if not names:
            return
        importlib.invalidate_caches()
        for name in names:
            try:
                if self._in_place:
                    from IPython.extensions.autoreload import superreload

                    superreload(sys.modules[name], importlib.reload, self._old)
                else:
                    importlib.reload(sys.modules[name])
            except BaseException as error:
                self.broken = RuntimeError(
                    f"the program has reloaded module {name}, and its worker can't: "
                    f"{type(error).__name__}: {error}"
                )


# -- reports of logs and warnings ---------------------------------------------------------
#
# In a worker: log records and warnings of tasks are sent to the caller, whose settings hold here.
#
# Handlers that the caller's loggers have as well are not called here. Nothing is installed in
# `logging` before the caller has it configured, and a task that neither logs nor warns is not
# slowed down.


class Reporter:
    """Sends records and warnings of this process.

    Parameters
    ----------
    send
        Sends the waiting reports, now or by the thread that is sending.

    Attributes
    ----------
    is_forked
        This is a copy of a worker that a task has forked: the caller hears of the original only.
    waiting
        Reports that were not sent yet. The thread that has the socket sends them: a finalizer may
        log at any time.
    """

    def __init__(self, send: Callable[[], None]) -> None:
        self.is_forked = False
        self.waiting: deque[tuple[str, Any]] = deque()
        self._send = send
        self._filters: list[Any] | None = None
        self._has_warned = False
        self._loggers: dict[str, tuple[int, tuple[str, ...], bool]] = {}
        self._show = warnings.showwarning
        self._call: Any = None  # Logger.callHandlers as it was
        warnings.showwarning = self._warned

    def configure(self, settings: tuple[Any, ...]) -> None:
        """Take over the caller's settings, which are `NoticeSettings`."""
        _, disabled, loggers, filters = settings
        self._filters = [entry for each in filters if (entry := _loaded(each)) is not None]
        self._set_filters()
        if disabled is not None or self._call is not None:
            self._set_loggers(disabled or 0, loggers)

    def begin_run(self) -> None:
        """Let warnings of earlier runs appear again: the caller leaves out those it has shown."""
        if self._filters is not None and (self._has_warned or warnings.filters != self._filters):
            self._set_filters()
            self._has_warned = False

    def _set_filters(self) -> None:
        warnings.resetwarnings()
        warnings.filters.extend(self._filters or ())  # type: ignore[attr-defined]

    def _set_loggers(self, disabled: int, loggers: dict[str, Any]) -> None:
        import logging

        if self._call is None:
            self._call = logging.Logger.callHandlers
            logging.Logger.callHandlers = (  # type: ignore[method-assign]
                lambda logger, record: self.logged(logger, record)  # type: ignore[assignment]
            )
        logging.disable(disabled)
        for name in self._loggers.keys() - loggers.keys():
            logging.getLogger(name).setLevel(logging.NOTSET)
            logging.getLogger(name).disabled = False
        for name, (level, _, is_disabled) in loggers.items():
            logging.getLogger(name).setLevel(level)
            logging.getLogger(name).disabled = is_disabled
        self._loggers = loggers

    def logged(self, logger: Any, record: Any) -> None:
        """Send a record, and call the handlers that only this process has."""
        from lazyflow.schedulers.remote.environment import handler_key

        if self.is_forked:
            self._call(logger, record)
            return
        self._report("log", _plain(record))
        while logger is not None:
            theirs = self._loggers.get(logger.name, (0, (), False))[1]
            for handler in logger.handlers:
                if record.levelno >= handler.level and handler_key(handler) not in theirs:
                    handler.handle(record)
            logger = logger.parent if logger.propagate else None

    def _warned(
        self, message: Any, category: Any, filename: str, lineno: int, file: Any = None,
        line: str | None = None,
    ) -> None:
        """Stand in for `warnings.showwarning`."""
        if file is not None or self.is_forked:
            self._show(message, category, filename, lineno, file, line)
            return
        self._has_warned = True
        frame: Any = sys._getframe(1)
        while frame and (frame.f_code.co_filename, frame.f_lineno) != (filename, lineno):
            frame = frame.f_back
        module = frame.f_globals.get("__name__") if frame else None
        kinds = [(each.__module__, each.__qualname__) for each in category.__mro__]
        self._report("warning", (str(message), kinds, filename, lineno, module))

    def _report(self, kind: str, details: Any) -> None:
        self.waiting.append((kind, details))
        self._send()


def _plain(record: Any) -> dict[str, Any]:
    """Return the attributes of a record that can travel; its message and exception as text."""
    import logging

    attributes = dict(record.__dict__)
    attributes["msg"], attributes["args"] = record.getMessage(), None
    if record.exc_info:
        traceback = record.exc_text or logging.Formatter().formatException(record.exc_info)
        attributes["exc_text"] = traceback
        attributes["exc_info"] = None
    for name, value in attributes.items():
        try:
            marshal.dumps(value)
        except ValueError:
            attributes[name] = str(value)
    return attributes


class _CategoryByName(type):
    """The class of a category that is known by its name, whether it is imported here or not."""

    name: tuple[str, str]

    def __subclasscheck__(cls, other: type) -> bool:
        return any((each.__module__, each.__qualname__) == cls.name for each in other.__mro__)


def _loaded(data: bytes) -> tuple[Any, ...] | None:
    """Return a filter as `warnings` has it: it looks for the category by `issubclass`."""
    try:
        action, message, (module, name), *place = pickle.loads(data)
    except Exception:  # a text of a class of the program's own: a worker must start all the same
        return None
    category: Any = vars(builtins).get(name) if module == "builtins" else None
    if category is None:
        members = {"__module__": module, "name": (module, name)}
        category = _CategoryByName(name, (Warning,), members)
    return action, message, category, *place


# -- the process --------------------------------------------------------------------------

RUNNING, PICKLING = 0, 1  # words of the page shared with the parent


class Requests:
    """Requests of the parent while a task runs: one thread answers, and others can wait for it.

    Until it is done a request can be read from the socket, or `_is_busy` is set: that is set before
    the request is read.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._changed = threading.Condition()
        self._is_busy = self._is_over = False
        self._thread = 0

    def serve(self, do: Callable[[int, Any], None]) -> None:
        """Answer requests, a kind and a content each, until the parent closes the socket."""
        self._thread = threading.get_ident()
        incoming = Incoming(self.sock)
        there = self._poll()
        try:
            while not self._is_over:
                there.poll()
                self._is_busy = True
                self._is_over = not incoming.read()
                for (kind, content), _ in incoming.messages():
                    do(kind, content)
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def catch_up(self) -> None:
        """Wait until all that has come is done; the thread that does it returns at once."""
        there = self._poll()
        with self._changed:
            while (
                threading.get_ident() != self._thread
                and not self._is_over
                and (there.poll(0) or self._is_busy)
            ):
                self._changed.wait()

    def _poll(self) -> select.poll:
        there = select.poll()
        there.register(self.sock, select.POLLIN)
        return there


class WorkerProcess(ABC):
    """The state of this process.

    words
        The page shared with the parent.
    least
        Bytes from which a part of a value goes to shared memory.
    announced
        Arenas that each socket has announced: a message on one may be read before an earlier one on
        the other.
    functions
        Those of tasks, by number; one that was not called yet, or that carries state, is a pickle.
    skipped
        Numbers of calls that were cancelled on their way to an actor.
    """

    def __init__(
        self,
        batches: socket.socket,
        requests: socket.socket,
        words: memoryview,
        settings: dict[str, Any],
    ) -> None:
        self.batches = batches
        self.requests = Requests(requests)
        self.words = words
        self.least: int = settings["least"]
        self.arenas = Arenas(
            settings["arena"], settings["step"], settings["limit"], keep=settings["keep"]
        )
        self.announced: tuple[set[int], set[int]] = (set(), set())
        self.mappings = Mappings(private=False)
        result_memory.is_worker = True
        config.share_memory_limit(settings["workers"])
        self.follower = Follower()
        self.functions: dict[int, Any] = {}
        self._sending = threading.Lock()
        self.skipped: set[int] = set()
        self.reporter = Reporter(self.send_reports)
        at_fork(after_in_child=self._in_fork)

    def serve(self) -> None:
        """Take messages until the parent closes the socket."""
        incoming = Incoming(self.batches)
        while incoming.read():
            for message, descriptors in incoming.messages():
                self._take(message, descriptors)
                message = None  # it holds memory that others wait for; the next one may be long

    def _take(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        if message[0] >= 0:
            self._take_work(message, descriptors)
            return
        kind, content = message
        if kind == FOLLOW:
            self.follower.follow(content)
        elif kind == DROP:
            drop(content)
        elif kind == FUNCTION:
            self.functions[content[0]] = content[1]
        elif kind == SETTINGS:
            take_over(*content)
        else:
            self.reporter.configure(content)

    @abstractmethod
    def _take_work(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        """Take a message that only this kind of worker gets."""

    def _in_fork(self) -> None:
        """In the child of a fork inside a task: end when the task does, and touch nothing."""
        self.reporter.is_forked = True
        self.words = memoryview(bytearray(16)).cast("q")
        self._sending = threading.Lock()

    # -- for the service thread -------------------------------------------------------------

    def value_of(self, i: int, default: Any) -> Any:
        """Return the value of an id, or `default` when it is not here."""
        return default

    def give_back(self, numbers: list[int]) -> list[tuple[int, list[int] | None]]:
        """Give back tasks of batches that were not begun: ids by batch, None for all of a batch."""
        return []

    def unmapped(self) -> tuple[list[Segment], tuple[int, ...]]:
        """Return segments of other processes that are not mapped any more, and bytes of memory.

        These are bytes of shared memory, in use, kept here and mapped from other processes, and of
        values below the memory limit, in memory and in the file.
        """
        kept, arenas = spilling.amounts(), self.arenas
        released = self.mappings.take_released()
        return released, (arenas.in_use, arenas.recycled, self.mappings.in_use, *kept)

    # -- answers ----------------------------------------------------------------------------

    def encode(self, value: Any) -> tuple[Any, ...]:
        """Return payload, buffers and size of a value, its large parts in shared memory."""
        encoded = encode(value, self._write, self.least, self.arenas.free)
        for actor in encoded.held or ():
            actor.keep_for_good()
        return encoded.payload, encoded.buffers, encoded.size

    def _write(self, buffer: Any) -> Segment:
        """Copy a buffer to shared memory; if that is full, wait for pending requests to free some.

        The parent frees memory before it sends the task that needs the room, by another socket.
        """
        try:
            return self.arenas.write(buffer)
        except StoreFull:
            self.requests.catch_up()
        return self.arenas.write(buffer)

    def _send_answer(self, *outcome: Any) -> None:
        """Send an `Answer`, or that of an actor; by the thread that has `_sending`."""
        self._send_reports()
        released, stats = self.unmapped()
        arenas = self.arenas.take_new(self.announced[0])
        sys.stdout.flush()
        sys.stderr.flush()
        message = (*outcome, released, [arena for arena, _ in arenas], stats)
        send(self.batches, message, [fd for _, fd in arenas])

    def send_reports(self) -> None:
        """Send log records and warnings, now or by the thread that is sending."""
        if self._sending.acquire(blocking=False):
            try:
                self._send_reports()
            except OSError:  # the parent does not listen any more, and the task need not know
                pass
            finally:
                self._sending.release()

    def _send_reports(self) -> None:
        waiting = self.reporter.waiting
        while waiting:
            send(self.batches, (NOTICES, waiting.popleft()), [])
