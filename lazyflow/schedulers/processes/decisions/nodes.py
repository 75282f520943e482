"""Records of tasks, values, jobs and workers, and the instructions for the driver.

Records can describe themselves, and no more; the modules beside this one change them. The phases of
a `Node`, and what sets them::

    WAITING     for inputs: at first; when a worker gave it back or died (`RefCounts.unsend`); when
     |          its value was lost and is needed (`Lineage.remake`)
    READY       in a queue: all inputs are made (`Queues.make_ready`)
     |
    FETCHING    has a worker, where some of its inputs are on their way (`Queues.fetch`)
     |
    SENT        in a batch; inputs were sent there before, or are made (`RefCounts.sent`)
     |
    DONE        its value is here or at a worker (`State.done`, `State.provided`)
     |
    GONE        its value was dropped (`RefCounts.release`), or it was given up (`give_up_one`)

    FAILED      it raised, or an input of it failed (`RefCounts.fail_all`)

A task may skip `READY` and `FETCHING`: it follows its inputs to the worker that makes them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from lazyflow.graph.task import Task, task_name

# -- nodes --------------------------------------------------------------------------------
#
# A `Node` is a task of a run. An input or a user counts once, however often it is used. While a
# node has to run, it counts its inputs:
#
#     open        inputs that are neither made nor sent to a worker to be made
#     under_way   inputs that were sent to a worker and are not made yet; `site` is that worker, or
#                 MIXED when there are several
#
# Always, ``left`` is the number of users that are not done, and one more while the node is pinned,
# which means that a future or the caller holds the value. ``unsent`` is the number of users that
# were not sent to any worker.


# These are guesses.
BANDWIDTH = 2e9  # bytes a second from worker to worker: a copy out, and the reader's page faults
MAPPING = 1e10  # bytes a second to map shared memory: page faults alone
FETCH = 0.0003  # seconds to have a small value from another worker
_MOST_NAMES = 5  # tasks of a batch that are named in a report

WAITING, READY, FETCHING, SENT, DONE, GONE, FAILED = range(7)  # in this order: see above

IF_SMALL = 1  # the parent wants the value of a node if it is small
ALWAYS = 2  # the parent wants the value of a node, large or small


class _NoValue:
    def __repr__(self) -> str:
        return "MISSING"


#: Stands for a value that this process does not have.
MISSING: Any = _NoValue()


@dataclass(slots=True, eq=False)
class Literal:
    """A value of the caller's that is encoded when the first worker needs it.

    The value outlives its encoded form: a task that has to run again may need it again.
    """

    value: Any
    encoded: Any = None


@dataclass(slots=True, eq=False)
class Lane:
    """The tasks that should run at one worker, of foreground jobs or of background jobs.

    Entries may be out of date: the phase and the home of a task decide where it is.

    following
        Tasks whose inputs are made by tasks that were sent to the worker last: a stack.
    arrived
        Tasks that waited for inputs from elsewhere, and can be sent.
    queue
        Ready tasks whose inputs are at the worker: a stack, of which others steal the oldest.
    """

    following: list[Node] = field(default_factory=list)
    arrived: deque[Node] = field(default_factory=deque)
    queue: deque[Node] = field(default_factory=deque)


class WorkerRecord:
    """The record of one worker process.

    up
        Whether it can be sent tasks.
    batches
        The batches that were sent to it and are not answered, oldest first.
    lanes
        The tasks that should run there: those of foreground jobs, and those of background jobs.
    holding
        The nodes whose values are in its memory, by id.
    to_drop
        Ids of values that it can drop; they are sent with the next message.
    fetching
        Tasks that wait for inputs on their way to it: how many are still missing.
    recalling
        It was asked to give tasks back, and has not answered: no batch may follow meanwhile, since
        its tasks could need those that come back.
    doomed
        It is being ended: nothing is sent to it any more.
    """

    def __init__(self, serial: int) -> None:
        self.serial = serial
        self.up = False
        self.doomed = False
        self.batches: deque[Batch] = deque()
        self.lanes = (Lane(), Lane())
        self.holding: dict[int, Node] = {}
        self.to_drop: list[int] = []
        self.fetching: dict[Node, int] = {}
        self.recalling = False

    def story(self) -> str:
        """Describe its batches, for the report of an error of lazyflow's own."""
        batches = "; ".join(map(str, self.batches)) or "no batch"
        flags = [name for name in ("up", "doomed", "recalling") if getattr(self, name)]
        lists = [x for lane in self.lanes for x in (lane.following, lane.arrived, lane.queue)]
        waiting = sum(map(len, lists))
        return (
            f"worker {self.serial} ({', '.join(flags) or 'starting'}), {len(self.holding)} values "
            f"held, {waiting} tasks queued, {len(self.fetching)} fetching: {batches}"
        )

    @property
    def queue(self) -> bool:
        """Whether tasks may wait for this worker that it was not sent yet."""
        return bool(self.lanes[0].queue or self.lanes[1].queue or self.fetching)

    def __repr__(self) -> str:
        return f"<WorkerRecord {self.serial}>"


MIXED = WorkerRecord(-1)


@dataclass(slots=True, eq=False)
class Batch:
    """Tasks that are sent to a worker in one message.

    to_drop
        The ids of values that the worker drops before it begins: those that were to be dropped
        when the batch was made. A later id may be of a value that the batch needs.
    loads
        The nodes whose values go along, since the worker does not have them yet.
    drops
        For each task the ids of the values that the worker drops after it: no later task there
        needs them.
    cost
        Seconds that the batch should take, as far as known.
    is_short
        All its tasks are known to be short, so that another batch may be sent after it.
    joins
        About how many tasks have some inputs at the worker and need others that were not sent to
        any. One more when the batch sends the first input of such a task; one fewer when it sends
        the last, if all went to this worker. Above 1 the batch would leave several values for later
        tasks if it ended here.
    is_late
        It takes longer than it should.
    unanswered
        The number of tasks whose outcome has not come.
    """

    number: int
    nodes: list[Node] = field(default_factory=list)
    to_drop: list[int] = field(default_factory=list)
    loads: list[Node] = field(default_factory=list)
    drops: list[tuple[int, ...]] = field(default_factory=list)
    cost: float = 0.0
    joins: int = 0
    is_short: bool = True
    is_late: bool = False
    unanswered: int = 0

    def __str__(self) -> str:
        tasks = [f"{task_name(n.task)} {n!r}" for n in self.nodes[:_MOST_NAMES]]
        more = len(self.nodes) - len(tasks)
        named = ", ".join(tasks) + (f" and {more:,} more" if more else "")
        return f"batch {self.number}, {self.unanswered} of it unanswered: {named}"


_ids = count(1)  # 0 and below mean "no task" in the word for the task that a worker runs


@dataclass(slots=True, eq=False)
class Node:
    """One task of one run, or a value that one run takes from elsewhere.

    inputs, distinct
        The nodes of its inputs, as they are given and without repetition.
    value
        The result in this process: a small one as it is, an `Encoded`, or MISSING.
    holder, copies
        The worker that made the value, and other workers that have it, or None.
    home
        The worker that the task was sent to, or is to be sent to.
    dropped
        The holder drops the value after a task that was sent to it: no message is needed for that.
    stays
        The holder drops the value after no task, since something else may read it there: it is
        dropped by `WorkerRecord.to_drop` only.
    sharing
        The holder was asked to send the value to the parent.
    keep
        0: only the end of the run needs the value; 1: other tasks do.
    want
        0: the value may stay where it is; IF_SMALL: it goes to the parent if it is small; ALWAYS.
    packed
        The arguments as they are sent. None: they are pickled when the task is sent. (): another
        thread has to pickle them, or the node's value if that is a `Literal`; until that is done it
        counts as an open input.
    """

    job: Job
    i: int
    task: Task
    function: int
    id: int = field(default_factory=partial(next, _ids))
    inputs: tuple[Node, ...] = ()
    distinct: tuple[Node, ...] = ()
    users: list[Node] = field(default_factory=list)
    phase: int = WAITING
    open: int = 0
    under_way: int = 0
    left: int = 0
    unsent: int = 0
    site: WorkerRecord | None = None
    home: WorkerRecord | None = None
    holder: WorkerRecord | None = None
    copies: list[WorkerRecord] | None = None
    value: Any = MISSING
    size: int = 0
    pinned: bool = False
    dropped: bool = False
    stays: bool = False
    sharing: bool = False
    keep: int = 1
    want: int = 0
    packed: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        names = ("waiting", "ready", "fetching", "sent", "done", "gone", "failed")
        counts = f"{self.open} inputs open, {self.left} uses left"
        return f"<Node {self.id} {names[self.phase]}, {counts}>"


@dataclass(slots=True, eq=False, repr=False)
class Job:
    """The tasks of one run.

    Parameters
    ----------
    run
        The `PoolRun`; opaque here.
    cap
        How many workers may have tasks of it at once.
    background
        Whether it is a background job: no caller waits for it, and foreground jobs go first.
    has_priorities
        Whether its tasks have priorities: `ready` is a heap of (-priority, id, number, node) then.
    is_limited
        Whether its values are kept below a memory limit: then none is copied to be safe.

    Attributes
    ----------
    nodes
        By number in the plan.
    active
        Workers that have tasks of it, and how many.
    ready, listed
        Ready tasks that may go anywhere, a stack; whether the job is in the queues' `rota`, or
        `by_priority` if it has priorities. Entries may be out of date.
    last
        The worker that got its last batch.
    crashes
        How many workers its tasks have killed.
    given
        Values that no task makes: they are kept, whatever else is dropped.
    delivered
        Wanted nodes that were announced to the caller, which holds their pins.
    later
        Tasks that returned a lazy value, while another run makes it, and that run's parent if it is
        not the job's own run.
    once
        Tasks that must not run again after a crash: those with ``crash_retries=0``, and those that
        returned such tasks. True for a task whose value was made. These values are kept as long as
        the job is.
    verdicts
        Errors of tasks that were sent to a worker: they fail with these if they come back.
    unsafe
        Delivered nodes whose values this process does not have: this job, and those that it
        depends on, have to be kept to make them again.
    depends, dependents
        Jobs whose values it uses; the number of those that use its own.
    seconds
        The time that its tasks took so far, and those of the jobs that it depends on.
    lineage_size
        The number of tasks that a lost value of this job might need again.
    """

    run: Any
    cap: int
    background: bool = False
    has_priorities: bool = False
    is_limited: bool = False
    crash_retries: int = 2  # of tasks that have no crash_retries of their own
    nodes: list[Node] = field(default_factory=list)
    ready: list[Any] = field(default_factory=list)
    active: dict[WorkerRecord, int] = field(default_factory=dict)
    last: WorkerRecord | None = None
    crashes: dict[Node, int] = field(default_factory=dict)
    listed: bool = False
    over: bool = False
    given: set[Node] = field(default_factory=set)
    delivered: set[Node] = field(default_factory=set)
    later: dict[Node, Any] = field(default_factory=dict)
    once: dict[Node, bool] = field(default_factory=dict)
    verdicts: dict[Node, Any] = field(default_factory=dict)
    unsafe: set[Node] = field(default_factory=set)
    depends: set[Job] = field(default_factory=set)
    dependents: int = 0
    lineage_size: int = 0
    seconds: float = 0.0

    def crash_retries_of(self, task: Task) -> int:
        """Return how often a task is run again after a death of its worker."""
        own: int | None = task._options.crash_retries
        return self.crash_retries if own is None else own


@dataclass(slots=True)
class Pace:
    """Measurements of one function.

    mean
        Seconds that a call takes; before the first is measured, a guess.
    allowed
        How many tasks of the function may go in one batch with others; 0: none was measured.
    """

    mean: float = 0.01
    allowed: int = 0


# -- instructions for the driver: a class for each kind -----------------------------------
#
# They are appended to `State.out`, and done once each, in order. A worker also has ids of values in
# `WorkerRecord.to_drop` that go with its next batch, or with a message of their own.


class Send(NamedTuple):
    """Send a batch of tasks."""

    worker: WorkerRecord
    batch: Batch


class Share(NamedTuple):
    """Have a worker send the value of a node to the parent."""

    worker: WorkerRecord
    node: Node


class Recall(NamedTuple):
    """Have a worker give back tasks that it did not begin, and send the results that it has."""

    worker: WorkerRecord


class Deliver(NamedTuple):
    """Hand a wanted value to its run; MISSING: it is at the node's holder."""

    node: Node
    value: Any


class Arrived(NamedTuple):
    """Report that a delivered value is in this process, or is here again."""

    node: Node
    value: Any


class ReportFailure(NamedTuple):
    """Report the error of a task that failed, or of something that it needs."""

    node: Node
    error: Any


class Lost(NamedTuple):
    """Report why a delivered value is lost for good."""

    node: Node
    error: Any


class EndLater(NamedTuple):
    """End the run that makes a node's value in the place of its task: it is not needed.

    `parent` is the parent of that run if it is not the job's own run.
    """

    node: Node
    parent: Any


class Pack(NamedTuple):
    """Have the arguments of a node pickled, or its `Literal`; the event `packed` follows."""

    node: Node


class DropJob(NamedTuple):
    """Drop the run of a job: nothing of it can be needed again."""

    job: Job


class Free(NamedTuple):
    """Free this `Encoded`, or that of this `Literal`: it is not needed any more."""

    value: Any


class Start(NamedTuple):
    """Start so many more workers."""

    number: int


#: Those that are void when their worker dies before they are carried out.
ToWorker: TypeAlias = Send | Share | Recall
Instruction: TypeAlias = (
    ToWorker | Deliver | ReportFailure | Arrived | Lost | EndLater | Pack | DropJob | Free | Start
)
