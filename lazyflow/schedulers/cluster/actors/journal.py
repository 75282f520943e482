"""A journal of an actor's calls, in a file that outlives its process.

The engine sends answers on its own time, and those that it had not sent are gone with the process.
So which call began last, and the answers to the last calls, are written down before the next call
begins. When the process is gone, the journal is read for the caller: the calls that had ended are
over, the one that ran is to blame, and those after it never began.

A caller on the same machine opens the file when the actor begins, and removes its name: nothing is
left, whatever ends them. For one elsewhere a process of the actor's machine reads it. Answers are
unpickled, so a file is read only where no other user can have put it (`store.private_files`), and
the name that comes from the actor can name nothing else.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import tempfile
import threading
import time
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lazyflow.clock import Clock
from lazyflow.schedulers.actors.ports import MakeActor, SavedState, SentCall
from lazyflow.schedulers.cluster.outcome import PackedValue, packed
from lazyflow.store.ownership import is_alone
from lazyflow.store.private_files import open_private, private_folder

_HEAD = struct.Struct("<qq")  # the number of the call that began last, where the answers begin
_NUMBER = struct.Struct("<q")
_LENGTH = struct.Struct("<I")
_END = _LENGTH.pack(0)
_NAME = re.compile(r"actor-[0-9a-f]{32}")
_OLD = 7 * 86400.0  # seconds without a call after which no caller reads a file any more; a guess
_REWRITE_BYTES = 1 << 20  # bytes after which the last answers alone are written again; a guess

#: The number of the call that began last, and the answers of the last calls.
Entries = tuple[int, list[bytes]]


class Journal:
    """The file, as the process of the actor has it.

    Parameters
    ----------
    base
        The file is in a private folder, which is made in this one. None, or a folder that does not
        exist: in the folder for temporary files.

    Attributes
    ----------
    name
        Of the file; `claimed` and `read` find it.
    trouble
        Why there is no journal, or none any more; empty while there is one. The actor goes on
        without: when its process dies, every call that was sent may have run.
    window
        The least number of last answers that are kept.

    Examples
    --------
    >>> journal = Journal()
    >>> journal.began(1); journal.ended(b"one"); journal.began(2)
    >>> read(journal.name)
    (2, [b'one'])
    >>> read(journal.name)  # it is gone now
    """

    window = 64

    def __init__(self, base: str | None = None, now: Clock = time.time) -> None:
        self.name = f"actor-{uuid.uuid4().hex}"
        self.trouble = ""
        self._base = base
        self._fd = -1
        self._lock = threading.Lock()
        self._last = 0
        self._start = self._end = _HEAD.size  # of the answers
        self._answers: deque[bytes] = deque()
        try:
            with private_folder(_folder(base)) as folder:
                _remove_old(folder, now())
                self._fd = open_private(self.name, folder, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            self._write(_HEAD.pack(0, self._start), 0)
        except OSError as error:
            self._lose(error)

    def began(self, number: int) -> None:
        """Note that a call begins; numbers go up in the order in which calls begin."""
        with self._lock:
            if number > self._last and self._fd >= 0:
                self._last = number
                try:
                    self._write(_NUMBER.pack(number), 0)
                except OSError as error:
                    self._lose(error)

    def ended(self, answer: bytes) -> None:
        """Note the answer of a call that has ended."""
        with self._lock:
            self._answers.append(answer)
            if len(self._answers) > self.window:
                self._answers.popleft()
            if self._fd < 0:
                return
            try:
                data = _LENGTH.pack(len(answer)) + answer
                self._write(data, self._end)
                self._end += len(data)
                if self._end - self._start > max(_REWRITE_BYTES, 2 * sum(map(len, self._answers))):
                    self._begin_anew()
            except OSError as error:
                self._lose(error)

    def _begin_anew(self) -> None:
        """Write the last answers to a free part of the file, and after that where they begin.

        So whoever reads the file meanwhile finds the old answers. It can't be a new file: the
        caller may have this one open, and somebody may have removed its folder.
        """
        data = b"".join(_LENGTH.pack(len(each)) + each for each in self._answers) + _END
        at = _HEAD.size
        if at + len(data) > self._start:
            at = self._end + len(_END)  # a hole of zeros ends those that are there still
        self._write(data, at)
        self._write(_NUMBER.pack(at), _NUMBER.size)
        self._start, self._end = at, at + len(data) - len(_END)
        os.ftruncate(self._fd, self._end)

    def _write(self, data: bytes, at: int) -> None:
        if os.pwrite(self._fd, data, at) < len(data):  # the next one would say so
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _lose(self, error: OSError) -> None:
        """Go on without the file, whose contents would be wrong from now on."""
        self.trouble = f"{type(error).__name__}: {error}"
        if self._fd >= 0:
            with suppress(OSError):
                os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        """Remove the file: the actor ended as it should."""
        with self._lock:
            remove(self.name, self._base)
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1


def _folder(base: str | None) -> str:
    if base is None or not os.path.isdir(base):
        base = tempfile.gettempdir()
    return os.path.join(base, f"lazyflow-{os.geteuid()}")


def _remove_old(folder: int, now: float) -> None:
    """Remove old files of actors that were killed together with all that could read them."""
    for name in os.listdir(folder):
        if _NAME.fullmatch(name):
            with suppress(OSError):  # another process removed it
                if now - os.stat(name, dir_fd=folder).st_mtime > _OLD:
                    os.unlink(name, dir_fd=folder)


def remove(name: str, base: str | None = None) -> None:
    """Remove a file, if it is there."""
    fd = claimed(name, base)
    if fd is not None:
        os.close(fd)


def claimed(name: str, base: str | None = None) -> int | None:
    """Open a journal and remove its name; return the descriptor, None if it is not there."""
    if not _NAME.fullmatch(name):
        return None
    try:
        with private_folder(_folder(base)) as folder:
            fd = open_private(name, folder, os.O_RDONLY)
            os.unlink(name, dir_fd=folder)
            return fd
    except OSError:
        return None


def read(name: str, base: str | None = None) -> Entries | None:
    """Return the entries of a journal, and remove it; None if there is no such file."""
    fd = claimed(name, base)
    return None if fd is None else entries(fd)


def entries(fd: int) -> Entries | None:
    """Return the entries in the journal of a process that has ended, and close it."""
    with open(fd, "rb") as file:
        data = file.read()
    if len(data) < _HEAD.size:  # it was given up
        return None
    last, at = _HEAD.unpack_from(data)
    answers = []
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        if not length or at > len(data):
            break
        answers.append(data[at - length : at])
    return int(last), answers


# -- the messages between an actor's link and the worker of an engine, in both directions

#: Kinds of inputs of a call: (PLAIN, value), (PACKED, packed value), or (HELD, token, number) for
#: a value that the engine holds.
PLAIN, PACKED, HELD = range(3)


@dataclass(frozen=True)
class GivenInput:
    """Input `k` of a call, which the actor could not fetch; value None: it has failed."""

    number: int
    k: int
    value: PackedValue | None


@dataclass
class ActorMessages:
    """All that is sent to an actor at once; the engine pickles it, large memory out of band."""

    make: MakeActor | None = None
    calls: list[SentCall] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    given: list[GivenInput] = field(default_factory=list)

    def parts(self) -> tuple[Any, ...]:
        """Return the fields, which make an equal one, and pickle in a third of the time."""
        return self.make, self.calls, self.skipped, self.given

    def __bool__(self) -> bool:
        return bool(self.make or self.calls or self.skipped or self.given)


@dataclass(frozen=True)
class CallAnswer:
    """The outcome of a call, and the state after it; KEPT: the engine keeps that part."""

    number: int
    outcome: tuple[Any, ...]
    state: SavedState | None


@dataclass(frozen=True)
class MissingInput:
    """Input `k` of a call could not be fetched."""

    number: int
    k: int


@dataclass(frozen=True)
class JournalLost:
    """The actor has no journal any more, and goes on without; `why` is an error as text."""

    why: str


Report = CallAnswer | MissingInput | JournalLost


def pickled(value: Any) -> PackedValue:
    """Return a packed snapshot of a value; raise Unpicklable."""
    return packed(value).checked().copied()


def pickled_state(value: Any) -> PackedValue:
    """Return the packed state of an actor, which is read when its process is gone."""
    return pickled(value).leaving()


def pickled_result(box: list[Any]) -> PackedValue:
    """Return the packed result of a call, which it takes out of `box`.

    An array is copied unless the box alone holds it, since others may write to it.
    """
    only = is_alone(box)
    result = packed(box.pop()).checked().leaving()
    return result if only else result.copied()
