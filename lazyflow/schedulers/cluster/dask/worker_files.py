"""Files in workers, through which tasks exchange parts of results that do not fit into memory.

On one machine there is one file (store/exchange_file.py); here there is one for each worker that
writes: a task appends the parts of a block to that of its worker, and returns where they are
(`Written`). So each part is written once and read once, in a few tasks for each block, and nothing
of it is a value of the cluster. Readers get their stretches from the files themselves, where these
are open on the same machine, and ask the other workers for them elsewhere.

When a worker has ended, its files have, too: a group of tasks that finds one gone has the scheduler
make the results again that named it (`make_again`), as it does with lost results, and waits.

The files have no names, so that nothing is left whatever ends a worker. They live as long as the
plan, or the client; the tasks of later runs that bring lost results back begin new ones, which live
as long as the client.

Rejected: to send each part to the worker that will need it, as distributed's P2P shuffle does.
Workers have to be chosen before, and the death of one begins all anew.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import accumulate
from threading import Lock
from typing import Any, NamedTuple

import distributed
import numpy as np
from distributed.protocol import to_serialize
from distributed.utils import sync

from lazyflow import config
from lazyflow.finalizers import LastCall
from lazyflow.graph.kinds import ATOM
from lazyflow.schedulers.cluster.outcome import FileGone, InFile
from lazyflow.schedulers.core.task_resources import arrived, tell_to_drop
from lazyflow.store.exchange_file import ExchangeFile
from lazyflow.store.spilling import fill_from
from lazyflow.system import open_descriptor_of, opened

KEEP_FILES = "lazyflow_keep_files"  # the message of a client to the scheduler that it has some
_READ = "lazyflow_read"  # the request of one worker to another
_MARK = 16  # bytes at the beginning of a file, which no other one has


#: Reads that wait for another worker, by its address.
_asked_of: defaultdict[str, set[asyncio.Future[Any]]] = defaultdict(set)


class WorkerFiles:
    """The files of one plan, with the methods of an `ExchangeFile`.

    Parameters
    ----------
    name
        Theirs alone; it begins with that of the client.
    size, limit
        For errors: bytes that are handed over, and the memory of the smallest worker.
    """

    __slots__ = ("_given", "_over")
    _lazyflow_kind = ATOM
    _lazyflow_quick = True

    def __init__(self, name: str, size: int, limit: int) -> None:
        self._given = name, size, limit
        self._over: Any = None

    @classmethod
    def of_client(cls, client: Any, size: int, limit: int) -> WorkerFiles:
        """Return new ones, which workers drop when this object or the client is gone."""
        client._send_to_scheduler({"op": KEEP_FILES})
        made = cls(f"{client.id}/{uuid.uuid4().hex}", size, limit)
        made._over = LastCall(tell_to_drop, made._given[0])
        return made

    @property
    def limit(self) -> int:
        """Return the memory of the smallest worker, in bytes."""
        return self._given[-1]

    def write(self, parts: Iterable[tuple[int, Any]]) -> Written:
        """Append the elements of arrays, in C order; return where they are, by their starts."""
        worker, (name, size, limit) = distributed.get_worker(), self._given
        own = arrived.get(name)
        if own is None:
            worker.handlers.setdefault(_READ, _read_here)
            with config.set(spill_folder=config.get("spill_folder") or worker.local_directory):
                own = arrived.setdefault(name, _OwnFile(worker.address, name, size, limit))
        return own.append(parts)

    def read(self, start: int, size: int, written: Iterable[Written]) -> Any:
        """Return a stretch of the whole, as an array of bytes; raise FileGone."""
        found = np.empty(size, "u1")
        spans: defaultdict[_Source, list[_Span]] = defaultdict(list)
        for each in written:
            spans[each.source] += each.within(start, start + size)
        for source, wanted in spans.items():
            if not source.read_near(wanted, found):
                source.read_far(wanted, found)
        return found

    def mapped(self, start: int, size: int, written: Iterable[Written]) -> Any:
        """Return the result of `read`: the parts may be in several files, and on other machines."""
        return self.read(start, size, written)

    def __reduce__(self) -> Any:
        return WorkerFiles, self._given


class _Span(NamedTuple):
    """A stretch of a file, and its place in the result of a read."""

    offset: int
    size: int
    at: int


class _Source(NamedTuple):
    """The file of a worker, as others find it.

    address
        See `ExchangeFile.address`.
    mark
        Its first bytes.
    """

    worker: str
    name: str
    address: tuple[int, int, str]
    mark: bytes

    def read_near(self, wanted: Sequence[_Span], into: Any) -> bool:
        """Read stretches; return False if the file is not open on this machine."""
        try:
            file = opened(open_descriptor_of, *self.address)
        except OSError:
            return False
        with closing(file):
            number = file.fileno()
            if os.pread(number, _MARK, 0) != self.mark:  # another machine's of the same number
                return False
            for offset, size, at in wanted:
                fill_from(number, offset, memoryview(into[at:at + size]))
        return True

    def read_far(self, wanted: Sequence[_Span], into: Any) -> None:
        """Ask the worker for stretches; raise FileGone."""
        reader = distributed.get_worker()
        spans = [(offset, size) for offset, size, _ in wanted]
        try:
            data = sync(reader.loop, self._asked, reader, spans)
        except OSError as error:
            raise FileGone(self) from error
        if data is None:
            raise FileGone(self)
        start = 0
        for _, size, at in wanted:
            into[at:at + size] = data[start:start + size]
            start += size

    async def _asked(self, reader: Any, spans: Sequence[tuple[int, int]]) -> Any:
        """Return stretches that the worker sends; None: it is gone, or its file.

        distributed tries for half a minute to reach a worker that has been killed, each task for
        itself. The scheduler knows at once: it is asked here, and calls `forget_worker` later.
        """
        answer = asyncio.ensure_future(
            reader.rpc(self.worker).lazyflow_read(name=self.name, mark=self.mark, spans=spans))
        _asked_of[self.worker].add(answer)
        try:
            if await reader.scheduler.lazyflow_is_there(worker=self.worker):
                await asyncio.wait([answer])
                return None if answer.cancelled() else answer.result()
        finally:
            _asked_of.get(self.worker, set()).discard(answer)
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)
        return None


class Written(InFile):
    """Where the parts are that a task has written.

    source
        The file.
    table
        For each part, ascending: where it begins in the whole, and in the file, and its bytes.
    """

    __slots__ = ("table",)
    _lazyflow_kind = ATOM

    def __init__(self, source: _Source, table: bytes) -> None:
        self.source = source
        self.table = table

    def within(self, start: int, end: int) -> list[_Span]:
        """Return the written parts of a stretch of the whole, and their places in it."""
        begins, offsets, sizes = np.frombuffer(self.table, np.int64).reshape(3, -1)
        first = int(np.searchsorted(begins + sizes, start, side="right"))
        last = int(np.searchsorted(begins, end))
        low = begins[first:last].clip(min=start)
        high = (begins + sizes)[first:last].clip(max=end)
        offset = offsets[first:last] + low - begins[first:last]
        return list(map(_Span, offset.tolist(), (high - low).tolist(), (low - start).tolist()))

    def __reduce__(self) -> Any:
        return Written, (self.source, self.table)


class _OwnFile:
    """The file of this worker for one plan: it is closed when no task writes there any more."""

    def __init__(self, worker: str, name: str, size: int, limit: int) -> None:
        self._file = ExchangeFile(0, limit, size)
        self._end, self._lock = _MARK, Lock()
        mark = uuid.uuid4().bytes
        self._file.write([(0, np.frombuffer(mark, "u1"))])
        self.source = _Source(worker, name, self._file.address, mark)

    def append(self, parts: Iterable[tuple[int, Any]]) -> Written:
        """Write arrays one after the other."""
        given = sorted(parts, key=lambda part: part[0])
        begins, sizes = [start for start, _ in given], [each.nbytes for _, each in given]
        with self._lock:
            offset = self._end
            self._end += sum(sizes)
        offsets = list(accumulate(sizes, initial=offset))[:-1]
        self._file.write(
            [(at, each) for at, (_, each) in zip(offsets, given, strict=True)])
        table = np.array([begins, offsets, sizes], np.int64)
        return Written(self.source, table.tobytes())

    def read(self, spans: Sequence[tuple[int, int]]) -> Any:
        """Return stretches, one after the other."""
        return np.concatenate([self._file.read(*span) for span in spans])

    def close(self) -> None:
        """Do nothing: the file ends with this object."""


async def _read_here(name: str, mark: bytes, spans: Sequence[tuple[int, int]]) -> Any:
    """Answer another worker with stretches of a file, or with None: it is gone."""
    own = arrived.get(name)
    if own is None or own.source.mark != mark:
        return None
    return to_serialize(await asyncio.to_thread(own.read, spans))


def forget_worker(worker: str) -> None:
    """End the reads that wait for a worker that is gone."""
    for answer in _asked_of.pop(worker, ()):
        answer.cancel()


def forget_client(client: str) -> None:
    """Drop the files of a client that is gone."""
    for name in tuple(arrived):
        if name.startswith(f"{client}/"):
            arrived.pop(name, None)
