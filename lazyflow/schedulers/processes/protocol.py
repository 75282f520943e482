"""What the parent and a worker send each other, as named tuples.

They are written by `marshal`, which knows plain tuples only, so a message travels as the tuple of
its fields; requests and notes, of which there are several kinds on one socket, with the number of
their class in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

Segment: TypeAlias = tuple[int, int, int]

# -- tasks and answers ----------------------------------------------------------------------


class FlightMessage(NamedTuple):
    """Tasks for a worker, with what they need and the worker does not have.

    number
        The number of the flight; 0: there are no tasks, only things to forget.
    run, environment
        The number of the run, and the caller's environment if the worker does not have it.
    functions
        Numbers and pickles.
    loads
        Values by id: ``[value]``, or an `Encoded` as a tuple.
    records
        The tasks, see ``remote/calls.py``.
    blobs
        Indices of the records whose arguments are in shared memory.
    forget, old_runs, old_functions
        Numbers of values, runs and functions that are not needed any more.
    arenas
        Numbers of the arenas whose descriptors come along.
    """

    number: int = 0
    run: int = 0
    environment: bytes | None = None
    functions: Sequence[tuple[int, bytes]] = ()
    loads: Sequence[tuple[int, Any]] = ()
    records: list[Any] = []
    blobs: Sequence[int] = ()
    forget: Sequence[int] = ()
    arenas: Sequence[int] = ()
    old_runs: Sequence[int] = ()
    old_functions: Sequence[int] = ()


class Answer(NamedTuple):
    """What a worker has done of a flight.

    done
        Results: (id,), or (id, kind, ...) with one of the kinds below.
    failed
        (id, error record, words of the arguments), or (id, id of the input that had failed).
    deferred
        Ids of tasks that were not run, since an input turned out to be a lazy value.
    times
        Calls and seconds, by function.
    released
        Segments of other processes that the worker does not map any more.
    arenas
        Numbers of the arenas whose descriptors come along.
    stats
        Bytes of the worker's shared memory that are in use, that are kept for later values, and
        that it maps of other processes.
    """

    number: int
    done: list[tuple[Any, ...]]
    failed: list[tuple[Any, ...]]
    deferred: list[int]
    times: dict[int, tuple[int, float]]
    released: list[Segment]
    arenas: list[int]
    stats: tuple[int, int, int]


#: Kinds of results, and what follows in their tuple.
PLAIN = 0  # the value as it is
PLAIN_KEPT = 1  # likewise; the worker has it still
KEPT = 2  # its size in bytes: the worker has it
ENCODED_KEPT = 3  # payload, buffers and size; the worker has it still
ENCODED = 4  # payload, buffers and size
LAZY = 5  # payload, buffers and size of a lazy value, to be computed in its place


# -- requests, which a worker answers while a task runs -------------------------------------


class ShareRequest(NamedTuple):
    """Send the value of an id to the parent."""

    i: int


class RecallRequest(NamedTuple):
    """Give back what was not begun of these flights, the newest first; answer what is done."""

    numbers: list[int]


class GiveUpRequest(NamedTuple):
    """Stop what a task computes, if it is running: nobody wants it."""

    i: int


class SkipRequest(NamedTuple):
    """Do not begin a call of an actor: nobody wants its result."""

    number: int


class FreeRequest(NamedTuple):
    """Use shared memory again that nothing refers to any more."""

    segments: list[Segment]


class TrimRequest(NamedTuple):
    """Give memory back that was kept for later; answer with an `Unmapped`."""


Request: TypeAlias = (
    ShareRequest | RecallRequest | GiveUpRequest | SkipRequest | FreeRequest | TrimRequest
)
_REQUESTS: tuple[Any, ...] = (
    ShareRequest, RecallRequest, GiveUpRequest, SkipRequest, FreeRequest, TrimRequest
)


# -- notes of a worker, which come while a task runs ----------------------------------------


class Shared(NamedTuple):
    """The value that the parent has asked for.

    answer
        An `Encoded` as a tuple; a tuple of an error record, if it can't leave the worker; an
        empty one, if it was dropped meanwhile.
    """

    i: int
    answer: tuple[Any, ...]
    arenas: list[int]


class Recalled(NamedTuple):
    """Tasks that were not begun: their ids by the number of their flight; None: all of it."""

    groups: list[tuple[int, list[int] | None]]


class Unmapped(NamedTuple):
    """Segments of other processes that are not mapped any more, and `Answer.stats`."""

    released: list[Segment]
    stats: tuple[int, int, int]


Note: TypeAlias = Shared | Recalled | Unmapped
_NOTES: tuple[Any, ...] = (Shared, Recalled, Unmapped)

_KINDS = {kind: n for kinds in (_REQUESTS, _NOTES) for n, kind in enumerate(kinds)}


def as_tuple(message: Request | Note) -> tuple[Any, ...]:
    """Return a request or a note as it travels."""
    return (_KINDS[type(message)], *message)


def as_request(data: tuple[Any, ...]) -> Request:
    """Return the request that has travelled as this."""
    request: Request = _REQUESTS[data[0]](*data[1:])
    return request


def as_note(data: tuple[Any, ...]) -> Note:
    """Return the note that has travelled as this."""
    note: Note = _NOTES[data[0]](*data[1:])
    return note
