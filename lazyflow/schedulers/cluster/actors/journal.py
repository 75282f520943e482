"""A journal of an actor's calls, in a file that outlives its process.

The engine sends answers on its own time, and those that it had not sent are gone with the process.
So which call began last, and the answers to the last calls, are written down before the next call
begins. When the process is gone, a process of the same machine reads them for the caller: the
calls that had ended are over, the one that ran is to blame, and those after it never began.
"""

from __future__ import annotations

import os
import struct
import tempfile
import threading
import time
import uuid
from collections import deque
from contextlib import suppress

_NUMBER = struct.Struct("<q")
_LENGTH = struct.Struct("<I")
_PREFIX = "lazyflow-actor-"
_OLD = 7 * 86400.0  # seconds without a call after which no caller reads a file any more
_MOST = 1 << 20  # bytes after which the file is rewritten with the last answers only

#: The number of the call that began last, and the answers of the last calls.
Entries = tuple[int, list[bytes]]


class Journal:
    """The file, as the process of the actor has it, at `path`.

    Parameters
    ----------
    folder
        Its folder; None: that of temporary files.

    Attributes
    ----------
    window
        The least number of last answers that are kept.

    Examples
    --------
    >>> journal = Journal()
    >>> journal.began(1); journal.ended(b"one"); journal.began(2)
    >>> read(journal.path)
    (2, [b'one'])
    >>> read(journal.path)  # it is gone now
    """

    window = 64

    def __init__(self, folder: str | None = None) -> None:
        folder = folder or tempfile.gettempdir()
        _remove_old(folder)
        self.path = os.path.join(folder, f"{_PREFIX}{uuid.uuid4().hex}")
        self._fd = _opened(self.path)
        self._lock = threading.Lock()
        self._last = 0
        self._end = os.pwrite(self._fd, _NUMBER.pack(0), 0)
        self._answers: deque[bytes] = deque()

    def began(self, number: int) -> None:
        """Note that a call begins; numbers go up in the order in which calls begin."""
        with self._lock:
            if number > self._last:
                self._last = number
                self._write(_NUMBER.pack(number), 0)

    def ended(self, answer: bytes) -> None:
        """Note the answer of a call that has ended."""
        with self._lock:
            self._answers.append(answer)
            if len(self._answers) > self.window:
                self._answers.popleft()
            data = _LENGTH.pack(len(answer)) + answer
            self._write(data, self._end)
            self._end += len(data)
            if self._fd >= 0 and self._end > max(_MOST, 2 * sum(map(len, self._answers))):
                self._begin_anew()

    def _begin_anew(self) -> None:
        data = b"".join(_LENGTH.pack(len(each)) + each for each in self._answers)
        new = f"{self.path}-new"
        fd = _opened(new)
        os.close(self._fd)
        self._fd = fd
        self._write(_NUMBER.pack(self._last) + data, 0)
        self._end = _NUMBER.size + len(data)
        os.replace(new, self.path)

    def _write(self, data: bytes, at: int) -> None:
        with suppress(OSError):  # it was removed, or the disk is full: more calls are blamed then
            os.pwrite(self._fd, data, at)

    def close(self) -> None:
        """Remove the file: the actor ended as it should."""
        with self._lock:
            remove(self.path)
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1


def _opened(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


def _remove_old(folder: str) -> None:
    """Remove old files of actors that were killed together with their callers."""
    for name in os.listdir(folder):
        if name.startswith(_PREFIX):
            path = os.path.join(folder, name)
            with suppress(OSError):  # another process removed it
                if time.time() - os.stat(path).st_mtime > _OLD:
                    os.unlink(path)


def remove(path: str) -> None:
    """Remove a file, if it is there."""
    with suppress(OSError):
        os.unlink(path)


def read(path: str) -> Entries | None:
    """Return the entries of a journal, and remove it; None if there is no such file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        os.unlink(path)
    except OSError:
        return None
    answers = []
    at = _NUMBER.size
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        if at <= len(data):  # else it died while it wrote this
            answers.append(data[at - length : at])
    return int(_NUMBER.unpack_from(data)[0]), answers
