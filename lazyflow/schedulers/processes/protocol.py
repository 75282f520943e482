"""What the parent and a worker send each other: tuples, since `marshal` knows nothing richer.

Whoever takes a message in takes it apart in one statement, in the order of the fields here.
Requests and notes, of which there are several kinds on one socket, are a kind and its content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from lazyflow.store.memory.ranges import Segment

# -- tasks and answers ----------------------------------------------------------------------

#: Tasks for a worker, with what they need and the worker does not have.
FlightMessage: TypeAlias = tuple[
    int,  # the number of the flight; 0: there are no tasks, only things to forget
    int,  # the number of the run
    bytes | None,  # the caller's environment, if the worker does not have it
    Sequence[tuple[int, bytes]],  # functions: numbers and pickles
    Sequence[tuple[int, Any]],  # values by id: ``[value]``, or an `Encoded` as a tuple
    list[Any],  # the tasks, see ``remote/calls.py``
    Sequence[int],  # the indices of tasks whose arguments are in shared memory
    float | None,  # seconds between looks at where tasks are; 0: they are timed; None: neither
    Sequence[int],  # values that are not needed any more: their ids
    Sequence[int],  # the numbers of the arenas whose descriptors come along
    Sequence[int],  # runs that are not needed any more
    Sequence[int],  # functions that are not needed any more
]

#: The id of a task, its start and end, and its seconds of CPU time if they are known. Clocks of
#: processes on one machine agree.
TaskSpan: TypeAlias = tuple[int, float, float, float | None]

#: The id of a task and the seconds for which Numba compiled in it; or its id, a `Stack` at which
#: it was, the number of looks that found it there, and the seconds that they stand for.
TaskNote: TypeAlias = tuple[int, float] | tuple[int, Any, int, float]

#: What a worker has done of a flight.
Answer: TypeAlias = tuple[
    int,  # the number of the flight
    list[tuple[Any, ...]],  # results: (id,), or (id, kind, ...) with one of the kinds below
    # (id, error record, words of the arguments), or (id, id of the input that had failed)
    list[tuple[Any, ...]],
    list[int],  # ids of tasks that were not run, since an input turned out to be a lazy value
    dict[int, tuple[int, float]],  # calls and seconds, by function
    list[TaskSpan],  # of tasks that ran, if they are to be timed
    list[TaskNote],  # of tasks that ran or run, likewise
    list[Segment],  # segments of other processes that the worker does not map any more
    list[int],  # the numbers of the arenas whose descriptors come along
    tuple[int, int, int],  # `WorkerProcess.memory_stats`
]

#: Kinds of results, and what follows in their tuple.
PLAIN = 0  # the value as it is
PLAIN_KEPT = 1  # likewise; the worker has it still
KEPT = 2  # its size in bytes: the worker has it
ENCODED_KEPT = 3  # payload, buffers and size; the worker has it still
ENCODED = 4  # payload, buffers and size
LAZY = 5  # payload, buffers and size of a lazy value, to be computed in its place

#: Requests, which a worker answers while a task runs: their kinds, and what each contains.
SHARE = 0  # the id of the value to be sent to the parent
RECALL = 1  # numbers of flights: give back what was not begun, the newest first; answer the rest
GIVE_UP = 2  # the id of a task: stop what it computes, if it is running: nobody wants it
SKIP = 3  # the number of an actor's call that is not to be begun: nobody wants its result
FREE = 4  # segments of shared memory to be used again: nothing refers to them any more
TRIM = 5  # None: give memory back that was kept for later; answer by `UNMAPPED`

#: Notes of a worker, which come while a task runs: their kinds, and what each contains.
SHARED = 0  # a `SharedValue`
RECALLED = 1  # ids of tasks that were not begun, by the number of their flight; None: all of it
UNMAPPED = 2  # segments of other processes that are not mapped any more, and the memory's figures

#: The value that the parent has asked for.
SharedValue: TypeAlias = tuple[
    int,  # its id
    # an `Encoded` as a tuple; a tuple of an error record, if it can't leave the worker; an empty
    # one, if it was dropped meanwhile
    tuple[Any, ...],
    list[int],  # the numbers of the arenas whose descriptors come along
]
