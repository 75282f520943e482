"""What the decisions have the driver do: a class for each kind of instruction.

They are appended to `State.out`, and done once each, in order. A worker also has ids of values in
`WorkerRecord.forget` that go with its next flight, or with a message of their own.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from lazyflow.schedulers.processes.decisions.nodes import Flight, Job, Node, WorkerRecord


class ToWorker:
    """An instruction that is void when its worker dies before it is carried out."""

    __slots__ = ("worker",)

    def __init__(self, worker: WorkerRecord) -> None:
        self.worker = worker


class Send(ToWorker):
    """Send a flight of tasks."""

    __slots__ = ("flight",)

    def __init__(self, worker: WorkerRecord, flight: Flight) -> None:
        self.worker = worker
        self.flight = flight


class Share(ToWorker):
    """Have a worker send the value of a node to the parent."""

    __slots__ = ("node",)

    def __init__(self, worker: WorkerRecord, node: Node) -> None:
        self.worker = worker
        self.node = node


class Recall(ToWorker):
    """Have a worker give back what it did not begin, and answer what is done."""

    __slots__ = ()


class OfValue:
    """An instruction about a node's value, or about the error that is there instead."""

    __slots__ = ("node", "value")

    def __init__(self, node: Node, value: Any) -> None:
        self.node = node
        self.value = value


class Deliver(OfValue):
    """Hand a wanted value to its run; MISSING: it is at the node's holder."""

    __slots__ = ()


class Arrived(OfValue):
    """Report that a delivered value is in this process, or is here again."""

    __slots__ = ()


class ReportFailure(OfValue):
    """Report the error of a task that failed, or of something that it needs."""

    __slots__ = ()


class Lost(OfValue):
    """Report why a delivered value can't be had any more."""

    __slots__ = ()


class EndLater(OfValue):
    """End the run that makes a node's value in the place of its task: nobody needs it.

    `value` is the parent of that run if it is not the job's own run.
    """

    __slots__ = ()


class Pack:
    """Have the arguments of a node pickled, or its `Literal`; the event `packed` follows."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


class Forget:
    """Forget the run of a job: nothing of it can be needed again."""

    __slots__ = ("job",)

    def __init__(self, job: Job) -> None:
        self.job = job


class Free:
    """Free this `Encoded`, or that of this `Literal`: nobody needs it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Start:
    """Start so many more workers."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


Instruction: TypeAlias = (
    Send | Share | Recall | Deliver | ReportFailure | Arrived | Lost | EndLater | Pack | Forget
    | Free | Start
)
