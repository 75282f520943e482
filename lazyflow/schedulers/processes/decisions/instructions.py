"""What the decisions have the driver do: a class for each kind of instruction.

They are appended to `State.out`, and done once each, in order. A worker also has ids of values in
`WorkerRecord.forget` that go with its next message, or with one of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from lazyflow.schedulers.processes.decisions.nodes import Flight, Job, Node, WorkerRecord


@dataclass(slots=True)
class ToWorker:
    """An instruction that is void when its worker dies before it is carried out."""

    worker: WorkerRecord


@dataclass(slots=True)
class Send(ToWorker):
    """Send a flight of tasks."""

    flight: Flight


@dataclass(slots=True)
class Share(ToWorker):
    """Have a worker send the value of a node to the parent."""

    node: Node


@dataclass(slots=True)
class Recall(ToWorker):
    """Have a worker give back what it did not begin, and answer what is done."""


@dataclass(slots=True)
class Deliver:
    """Hand a wanted value to its run; MISSING: it is at the node's holder."""

    job: Job
    node: Node
    value: Any


@dataclass(slots=True)
class ReportFailure:
    """Report that a task of a job failed, or something that the task needs."""

    job: Job
    node: Node
    error: Any


@dataclass(slots=True)
class Arrived:
    """Report that a delivered value is in this process, or is here again."""

    node: Node
    value: Any


@dataclass(slots=True)
class Lost:
    """Report that a delivered value can't be had any more."""

    node: Node
    error: Any


@dataclass(slots=True)
class Pack:
    """Have the arguments of a node pickled, or its `Literal`; the event `packed` follows."""

    node: Node


@dataclass(slots=True)
class Forget:
    """Forget the run of a job: nothing of it can be needed again."""

    job: Job


@dataclass(slots=True)
class Free:
    """Free this `Encoded`, or that of this `Literal`: nobody needs it."""

    value: Any


@dataclass(slots=True)
class Start:
    """Start so many more workers."""

    count: int


Instruction: TypeAlias = (
    Send | Share | Recall | Deliver | ReportFailure | Arrived | Lost | Pack | Forget | Free | Start
)
