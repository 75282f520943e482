"""Signals between a test and its tasks, in whichever thread or process those run; and these tasks.

A tally of events, a gate to wait at, a barrier, a level that goes up and down. Each is the path of
files that its pickled copies reach too, so tasks must see the test's file system. No wait polls,
none is for ever, and all end when the test's process does. The files go with the object that was
made first. Named pipes are needed: POSIX only.

Workers import this module, so pytest is not imported.
"""

from __future__ import annotations

import contextvars
import json
import os
import select
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lazyflow.clock import Deadline
from lazyflow.schedulers.core.task_resources import scheduler_here

# -- signals -----------------------------------------------------------------------------------


_LONGEST = 60.0  # seconds of any wait


class _Files:
    """A folder for the object that is made here; copies made by pickle only know its path."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="lazyflow-test-")
        weakref.finalize(self, _remove, self.folder, os.getpid())


def _remove(folder: str, maker: int) -> None:
    if os.getpid() == maker:  # a forked child has the finalizers too
        shutil.rmtree(folder, ignore_errors=True)


class Tally(_Files):
    """A list of events, in order: items that JSON can hold.

    >>> ran = Tally()
    >>> ran.add("first"), ran.add("second"), ran.items(), len(ran)
    (1, 2, ['first', 'second'], 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._file = os.path.join(self.folder, "items")

    def add(self, item: Any) -> int:
        """Append an item; return how many there are with it."""
        # One write at the end of the file is atomic, and the position after it is its own end.
        fd = os.open(self._file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, json.dumps(item).encode() + b"\n")
            return os.pread(fd, os.lseek(fd, 0, os.SEEK_CUR), 0).count(b"\n")
        finally:
            os.close(fd)

    def items(self) -> list[Any]:
        """Return all items so far."""
        try:
            with open(self._file, encoding="ascii") as file:
                return [json.loads(line) for line in file]
        except FileNotFoundError:
            return []

    def __len__(self) -> int:
        return len(self.items())


class Gate(_Files):
    """A gate that is closed until it is opened, and then open for ever.

    As a context manager it is opened at the end of the block.

    >>> gate = Gate()
    >>> gate.wait(0)
    False
    >>> gate.open()
    >>> gate.wait()
    True
    """

    def __init__(self) -> None:
        super().__init__()
        self._pipe = _make_pipe(self)

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *error: object) -> None:
        self.open()

    def open(self) -> None:
        """Let all pass, those that wait and those that come later."""
        with _held(self._pipe) as rope:
            _ring(rope)

    def wait(self, timeout: float = _LONGEST) -> bool:
        """Sleep until it is open; False after `timeout` seconds, or when its maker is gone."""
        return _rung(self._pipe, timeout)


class Barrier:
    """A barrier that lets `parties` pass together, once."""

    def __init__(self, parties: int) -> None:
        self.parties = parties
        self._came = Tally()
        self._gate = Gate()

    def wait(self, timeout: float = _LONGEST) -> int:
        """Sleep until all have come; return how many came before; TimeoutError if some don't."""
        at = self._came.add(os.getpid())
        if at == self.parties:
            self._gate.open()
        elif not self._gate.wait(timeout):
            raise TimeoutError(
                f"{len(self._came)} of {self.parties} came to the barrier in {timeout:g} s"
            )
        return at - 1


class Level(_Files):
    """A count of something that comes and goes: tasks that run, values that are alive.

    >>> running = Level()
    >>> with running:
    ...     running.now()
    1
    >>> running.now(), running.most()
    (0, 1)
    """

    def __init__(self) -> None:
        super().__init__()
        self._changes = Tally()
        self._bell = _make_pipe(self)

    def _change(self, by: int) -> None:
        with _held(self._bell) as rope:  # who sees the change may be gone before the bell rings
            self._changes.add((os.getpid(), by))
            _ring(rope)

    def up(self) -> None:
        """Count one more."""
        self._change(1)

    def down(self) -> None:
        """Count one less, in the process that has counted it up."""
        self._change(-1)

    def __enter__(self) -> Level:
        self.up()
        return self

    def __exit__(self, *error: object) -> None:
        self.down()

    def now(self) -> int:
        """Return how many there are, all processes together."""
        return sum(by for _, by in self._changes.items())

    def most(self) -> int:
        """Return how many there were at most, all processes together."""
        return _highest([by for _, by in self._changes.items()])

    def most_in_a_process(self) -> int:
        """Return how many there were at most in any one process."""
        by_process: dict[int, list[int]] = {}
        for process, by in self._changes.items():
            by_process.setdefault(process, []).append(by)
        return max(map(_highest, by_process.values()), default=0)

    def wait_for(self, level: int, timeout: float = _LONGEST) -> bool:
        """Sleep until the count is `level`; False after `timeout` seconds. For one waiter."""
        deadline = Deadline(timeout)
        while self.now() != level:
            if not _rung(self._bell, deadline.left() or 0.0):
                return False
            _silence(self._bell)
        return True


def _highest(changes: list[int]) -> int:
    now = most = 0
    for by in changes:
        now += by
        most = max(most, now)
    return most


# A named pipe is a bell that goes on ringing: a late reader finds the byte, until one has read it.
# Its maker keeps it open both ways: without a reader no one could write, and when the maker is gone
# those who wait for it hear so.


def _make_pipe(maker: _Files) -> str:
    path = os.path.join(maker.folder, "pipe")
    os.mkfifo(path, 0o600)
    weakref.finalize(maker, os.close, os.open(path, os.O_RDWR | os.O_NONBLOCK))
    return path


@contextmanager
def _held(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        yield fd
    finally:
        os.close(fd)


def _ring(rope: int) -> None:
    try:
        os.write(rope, b"!")
    except BlockingIOError:  # full: it rings already
        pass
    except BrokenPipeError:  # the reader is gone
        pass


def _rung(path: str, timeout: float) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:  # its maker is gone
        return False
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return any(event & select.POLLIN for _, event in poll.poll(max(timeout, 0) * 1000))
    finally:
        os.close(fd)


def _silence(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.read(fd, 1 << 16)
    finally:
        os.close(fd)


# -- tasks of the contract ---------------------------------------------------------------------


#: A context variable of a user's module.
word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")


def inc(x: Any) -> Any:
    """Add one."""
    return x + 1


def given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments."""
    return args, kwargs


def add(x: Any, y: Any) -> Any:
    """Add."""
    return x + y


def the_word(_: Any = None) -> str:
    """Return the context variable."""
    return word.get()


def change_the_word() -> str:
    """Set the context variable and return it."""
    word.set("changed")
    return word.get()


def scheduler_name(_: Any = None) -> Any:
    """Return the name of the scheduler that a compute in this task would run on."""
    return scheduler_here.get().name


def double_in_place(x: Any) -> Any:
    """Edit the argument in place."""
    x *= 2
    return x


class Odd(Exception):
    """An exception that can't be made from its message alone."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return Odd, (self.code, self.text)


class Awkward(Exception):
    """An exception that pickle can't make again: it would call the class with the message alone."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


def fail(x: Any) -> Any:
    """Raise Odd."""
    raise Odd(7, f"no {x}")


def raise_it(kind: type[BaseException], *args: Any) -> None:
    """Raise the exception that is asked for."""
    raise kind(*args)


class Counted:
    """A value that is counted while it is alive, and so are its copies in other processes.

    It says of itself that it takes `size` bytes.
    """

    def __init__(self, alive: Level, size: int = 64) -> None:
        self.alive = alive
        self.size = size
        alive.up()

    def __sizeof__(self) -> int:
        return self.size

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.alive.up()

    def __del__(self) -> None:
        try:
            self.alive.down()
        except OSError:  # the test is over
            pass
