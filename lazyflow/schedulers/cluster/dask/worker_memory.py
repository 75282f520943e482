"""Large results in a worker of distributed, in lazyflow's own file of spilled values.

distributed writes spilled values in the thread of its event loop, reads a value as a whole each
time it is used, and then writes it again. So results of groups, and those that come from other
workers, are kept as those of a run with a `memory_limit` are: written once, by a thread, and mapped
where they are read. A task whose result is beyond the limit waits for that thread.

The limit is the share of the worker's memory down to which distributed spills. The scheduler knows
how large results are, and goes by that; the worker's own buffer is told to count them as nothing.
If the process has too much memory, the buffer writes them nevertheless: a word for each.
Results that can't be written to the file stay in memory, and distributed treats them as all values.
It does so with those that something else holds: the user's code or, for a moment, distributed's
profiler, which looks at the frame that returns one (52 of 480 results on a busy machine if it looks
each millisecond, 0 if it is off).
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import distributed
from distributed.protocol import dask_deserialize, dask_serialize

from lazyflow import config
from lazyflow.finalizers import LastCall
from lazyflow.graph.kinds import ARRAY, kinds
from lazyflow.schedulers.cluster.outcome import (
    KEEPER,
    ROWS,
    GroupOutcome,
    PackedValue,
    kept,
    receivers,
)
from lazyflow.store.protected import protected
from lazyflow.store.spilling import stand_in_again
from lazyflow.store.values import references

_FRESH = references(2)


_known: list[WorkerMemory | None] = []


class WorkerMemory(distributed.WorkerPlugin):
    """The results that lazyflow keeps for the one worker of this process, below `limit` bytes."""

    name = "lazyflow-memory"

    def __init__(self, worker: Any, limit: int) -> None:
        self._loop = worker.loop
        self._data = worker.data
        self._folder = worker.local_directory
        self._limit = limit
        self._written: dict[str, GroupOutcome] = {}  # for which distributed has words, by key

    def keep(self, outcome: GroupOutcome) -> None:
        """Keep the large results of a group that has run here; sleep until there is room."""
        values = outcome.values
        with config.set(spill_folder=config.get("spill_folder") or self._folder):
            for i in list(values):
                if kinds[type(values[i])] == ARRAY or type(values[i]) in ROWS:
                    value, values[i] = values[i], None
                    value = protected(value, sys.getrefcount(value) <= _FRESH)
                    is_row = type(value) in ROWS
                    values[i] = (
                        type(value)(map(self._kept, value)) if is_row else self._kept(value))

    def _kept(self, value: Any) -> Any:
        if kinds[type(value)] != ARRAY:
            return value
        return stand_in_again(value, KEEPER) or kept(value, self._limit)

    def receive(self, outcome: GroupOutcome) -> None:
        """Keep a result that has come from another worker, or from the client."""
        with config.set(spill_folder=config.get("spill_folder") or self._folder):
            for value in outcome.values.values():
                if type(value) is PackedValue:
                    value.keep_buffers(self._limit)
        self.count(outcome)

    def count(self, outcome: GroupOutcome) -> None:
        """Have the worker's buffer not count the kept bytes, until the outcome is gone."""
        size = outcome.kept_bytes()
        if size:
            self._loop.add_callback(self._add, -size)
            outcome.end = LastCall(self._post, size)

    def word_for(self, outcome: GroupOutcome) -> str:
        """Return the stand-in for an outcome on distributed's disk: from now on it counts there."""
        end, outcome.end = outcome.end, None
        if end is not None:
            end.cancel()
            self._post(outcome.kept_bytes())
        word = str(outcome.key)
        self._written[word] = outcome
        return word

    def outcome_of(self, word: str) -> GroupOutcome:
        """Return the outcome for which a word stands."""
        return self._written[word]

    def transition(self, key: Any, start: str, finish: str, **more: Any) -> None:
        """Be told that the worker does not keep a value any more."""
        if start == "memory" and self._written:
            self._written.pop(str(key), None)

    def _post(self, size: int) -> None:
        with suppress(RuntimeError):  # the worker has closed
            self._loop.add_callback(self._add, size)

    def _add(self, size: int) -> None:
        self._data.offset += size


def memory_of(worker: Any) -> WorkerMemory | None:
    """Return the memory of a worker; None if it has no limit, or shares its process."""
    if not _known:
        manager = worker.memory_manager
        share = manager.memory_limit and (
            manager.memory_target_fraction or manager.memory_spill_fraction)
        made = None
        if share and worker.nanny is not None and hasattr(worker.data, "offset"):
            made = WorkerMemory(worker, int(manager.memory_limit * share))
            receivers.append(made.receive)
            worker.loop.add_callback(worker.plugin_add, made)
        _known.append(made)
    return _known[0]


@dask_serialize.register(GroupOutcome)
def _dumps(outcome: GroupOutcome, context: Any = None) -> tuple[Any, list[Any]]:
    """Return a word for an outcome that goes to the disk: messages have a context."""
    memory = _known[0] if _known else None
    if context is not None or memory is None or outcome.key is None or not outcome.kept_bytes():
        raise NotImplementedError  # then it is pickled
    return {"word": memory.word_for(outcome)}, [b""]


@dask_deserialize.register(GroupOutcome)
def _loads(header: dict[str, Any], frames: list[Any]) -> GroupOutcome:
    memory = _known[0]
    assert memory is not None
    return memory.outcome_of(header["word"])
