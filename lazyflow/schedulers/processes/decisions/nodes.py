"""What the decisions are about: tasks, jobs and workers, and the instructions that come of them."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from lazyflow.graph.task import Task


# -- nodes --------------------------------------------------------------------------------
#
# What the decisions know of tasks, of jobs, of workers with their flights, and of functions.
#
# A `Node` is a task of a run. Its counts are over distinct inputs and distinct users. For a node
# that still has to run,
#
#     open     inputs that are neither made nor sent to a worker to be made
#     flying   inputs that were sent to a worker and are not made yet; `site` is that worker, or
#              MIXED when there are several
#
# and for every node ``left`` counts the users that are not done (and one for a pin: somebody
# outside holds the value), ``unsent`` the users that were not sent anywhere.


BANDWIDTH = 2e9  # bytes a second from worker to worker: a copy out, and the reader's page faults
MAPPING = 1e10  # bytes a second to map what is in shared memory: page faults alone
FETCH = 0.0003  # seconds to have a small value from another worker

WAITING = 0  # for inputs
READY = 1  # in a queue
FETCHING = 2  # has a worker, and waits until the inputs made elsewhere can be had
SENT = 3  # to a worker
DONE = 4
GONE = 5  # done, and its value dropped; or never to be run
FAILED = 6

IF_SMALL = 1  # the parent wants the value of a node if it is small
ALWAYS = 2  # the parent wants the value of a node, large or small

GROWTH = 4  # times as many tasks of one function in a flight as were measured so far
_MOST = 1 << 20  # tasks of one function in a flight


class _NoValue:
    def __repr__(self) -> str:
        return "MISSING"


#: Stands for a value that this process does not have.
MISSING: Any = _NoValue()


class Literal:
    """A value of the caller's that is encoded when the first worker needs it.

    The value outlives its encoded form: a task that has to run again may need it again.
    """

    __slots__ = ("encoded", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.encoded: Any = None


class Lane:
    """The tasks that should run at one worker, of foreground jobs or of background jobs.

    Entries may be out of date: the phase and the home of a task decide where it is.

    following
        Tasks whose inputs are made by what was sent to the worker last: a stack.
    arrived
        Tasks that waited for inputs from elsewhere, and can be sent.
    queue
        Ready tasks whose inputs are at the worker: a stack, of which others steal the oldest.
    """

    def __init__(self) -> None:
        self.following: list[Node] = []
        self.arrived: deque[Node] = deque()
        self.queue: deque[Node] = deque()


class WorkerRecord:
    """What is known of one worker process.

    up
        Whether it can be sent tasks.
    flights
        The flights that it was sent and has not answered, oldest first.
    lanes
        The tasks that should run there: those of foreground jobs, and those of background jobs.
    holding
        The nodes whose values are in its memory, by id.
    forget
        Ids of values that it can drop; they are sent with the next message.
    fetching
        Tasks that wait for inputs on their way to it: how many are still missing.
    recalling
        It was asked to give tasks back, and did not answer yet: nothing may follow meanwhile,
        since that could build on what is coming back.
    doomed
        It is being ended: nothing is sent to it any more.
    """

    def __init__(self, serial: int) -> None:
        self.serial = serial
        self.up = False
        self.doomed = False
        self.flights: deque[Flight] = deque()
        self.lanes = (Lane(), Lane())
        self.holding: dict[int, Node] = {}
        self.forget: list[int] = []
        self.fetching: dict[Node, int] = {}
        self.recalling = False

    @property
    def queue(self) -> bool:
        """Whether tasks may wait for this worker that it was not sent yet."""
        return bool(self.lanes[0].queue or self.lanes[1].queue or self.fetching)

    def flight(self, number: int) -> Flight | None:
        """Return the flight of a number, unless all of it was answered."""
        return next((f for f in self.flights if f.number == number), None)

    def __repr__(self) -> str:
        return f"<WorkerRecord {self.serial}>"


MIXED = WorkerRecord(-1)


class Flight:
    """Tasks that are sent to a worker in one message.

    forget
        The ids of values that the worker drops before it begins: those that were to be dropped
        when the flight was made. A later id may be of a value that the flight needs.
    loads
        The nodes whose values go along, since the worker does not have them yet.
    drops
        For each task the ids of the values that the worker drops after it: no later task there
        needs them.
    cost
        Seconds that the flight should take, as far as known.
    is_short
        All its tasks are known to be short, so that another flight may be sent after it.
    joins
        The number of tasks that wait for it and for what was sent nowhere yet; it is lower by those
        that earlier flights of the worker have left so, and that it lets go along.
    is_late
        It takes longer than it should.
    unanswered
        The number of tasks whose outcome has not come.
    """

    __slots__ = (
        "cost", "drops", "forget", "is_late", "is_short", "joins", "loads", "nodes", "number",
        "unanswered",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.nodes: list[Node] = []
        self.forget: list[int] = []
        self.loads: list[Node] = []
        self.drops: list[tuple[int, ...]] = []
        self.cost = 0.0
        self.joins = 0
        self.is_short = True
        self.is_late = False
        self.unanswered = 0


_ids = count(1)  # 0 and below mean "no task" in the word for what a worker runs


class Node:
    """One task of one run, or a value that one run takes from elsewhere.

    inputs, distinct
        The nodes of its inputs, as they are given and without repetition.
    value
        What this process has of the result: a small one as it is, an `Encoded`, or MISSING.
    holder, copies
        The worker that made the value, and other workers that have it, or None.
    home
        The worker that the task was sent to, or is to be sent to.
    dropped
        The holder drops the value after a task that was sent to it: no message is needed for that.
    stays
        The holder drops the value after no task, since something else may read it there: it is
        dropped by `WorkerRecord.forget` only.
    sharing
        The holder was asked to send the value to the parent.
    keep
        0: only the end of the run needs the value; 1: other tasks do.
    want
        0: the value may stay where it is; IF_SMALL: it goes to the parent if it is small; ALWAYS.
    packed
        The arguments as they are sent; (): another thread has to pickle them, or the `Literal`
        that is the node's value, which counts as an open input; None: they are pickled when the
        task is sent.
    """

    __slots__ = (
        "copies", "distinct", "dropped", "flying", "function", "holder", "home", "i", "id",
        "inputs", "job", "keep", "left", "open", "packed", "phase", "pinned", "sharing", "site",
        "size", "stays", "task", "unsent", "users", "value", "want",
    )

    def __init__(self, job: Job, i: int, task: Task, function: int) -> None:
        self.id = next(_ids)
        self.job = job
        self.i = i
        self.task = task
        self.function = function
        self.inputs: tuple[Node, ...] = ()
        self.distinct: tuple[Node, ...] = ()
        self.users: list[Node] = []
        self.phase = WAITING
        self.open = 0
        self.flying = 0
        self.left = 0
        self.unsent = 0
        self.site: WorkerRecord | None = None
        self.home: WorkerRecord | None = None
        self.holder: WorkerRecord | None = None
        self.copies: list[WorkerRecord] | None = None
        self.value: Any = MISSING
        self.size = 0
        self.pinned = False
        self.dropped = False
        self.stays = False
        self.sharing = False
        self.keep = 1
        self.want = 0
        self.packed: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        names = ("waiting", "ready", "fetching", "sent", "done", "gone", "failed")
        return f"<Node {self.id} {names[self.phase]}>"


class Job:
    """The tasks of one run.

    Parameters
    ----------
    run
        The `RemoteRun`; opaque here.
    cap
        How many workers may have tasks of it at once.
    background
        Whether it is a background job: no caller waits for it, and foreground jobs go first.
    has_priorities
        Whether its tasks have priorities: `ready` is a heap of (-priority, id, number, node) then.

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
        The worker that got its last flight.
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
        Tasks with ``crash_retries=0``, and those that returned such tasks: whether it was made.
        Their values are kept as long as the job is.
    verdicts
        Errors of tasks that were sent somewhere: what they fail with if they come back.
    unsafe
        Delivered nodes whose values this process does not have: this job, and those that it
        depends on, have to be kept to make them again.
    depends, dependents
        Jobs whose values it uses; the number of those that use its own.
    seconds
        What its tasks took so far, and what those of the jobs that it depends on did.
    lineage_size
        The number of tasks that a lost value of this job might need again.
    """

    __slots__ = (
        "active", "background", "cap", "crash_retries", "crashes", "delivered", "dependents",
        "depends", "given", "has_priorities", "last", "later", "lineage_size", "listed", "nodes",
        "once", "over", "ready", "run", "seconds", "unsafe", "verdicts",
    )

    def __init__(
        self, run: Any, cap: int, background: bool = False, has_priorities: bool = False
    ) -> None:
        self.run = run
        self.cap = cap
        self.background = background
        self.has_priorities = has_priorities
        self.nodes: list[Node] = []
        self.ready: list[Any] = []
        self.active: dict[WorkerRecord, int] = {}
        self.last: WorkerRecord | None = None
        self.crash_retries = 2  # of tasks that have no crash_retries of their own
        self.crashes: dict[Node, int] = {}
        self.listed = False
        self.over = False
        self.given: set[Node] = set()
        self.delivered: set[Node] = set()
        self.later: dict[Node, Any] = {}
        self.once: dict[Node, bool] = {}
        self.verdicts: dict[Node, Any] = {}
        self.unsafe: set[Node] = set()
        self.depends: set[Job] = set()
        self.dependents = 0
        self.lineage_size = 0
        self.seconds = 0.0

    def crash_retries_of(self, task: Task) -> int:
        """Return how often a task is run again after a death of its worker."""
        own: int | None = task._options.crash_retries
        return self.crash_retries if own is None else own


class Pace:
    """What was measured of one function.

    mean
        Seconds that a call takes; before the first is measured, a guess.
    allowed
        How many tasks of the function may go in one flight with others; 0: none was measured.
    """

    __slots__ = ("allowed", "mean")

    def __init__(self) -> None:
        self.mean = 0.01
        self.allowed = 0

    def measured(self, calls: int, seconds: float) -> None:
        """Take in that so many calls took so long."""
        mean = seconds / calls
        # Recent calls count for more: half of what is known comes from the last answer.
        self.mean = (self.mean + mean) / 2 if self.allowed else mean
        self.allowed = max(self.allowed, min(calls * GROWTH, _MOST))


# -- what the decisions have the driver do: a class for each kind of instruction ----------
#
# They are appended to `State.out`, and done once each, in order. A worker also has ids of values in
# `WorkerRecord.forget` that go with its next flight, or with a message of their own.


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
