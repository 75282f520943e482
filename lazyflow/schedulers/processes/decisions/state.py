"""The state of the processes scheduler: what its decisions read and change.

Nothing here knows a clock, a process or a socket, so the decisions are tested by themselves with
random histories. An event is a function of a `State`, in answers.py (what workers send),
values.py, jobs.py and workers.py; what has to be done is appended to `out`, see instructions.py.
"""

from __future__ import annotations

from collections import defaultdict, deque

from lazyflow.schedulers.processes.decisions.instructions import Instruction
from lazyflow.schedulers.processes.decisions.lineage import Lineage
from lazyflow.schedulers.processes.decisions.nodes import Job, Pace, WorkerRecord
from lazyflow.schedulers.processes.decisions.queues import Queues
from lazyflow.schedulers.processes.decisions.refcounts import RefCounts


class State:
    """All workers, jobs and values of one pool.

    Attributes
    ----------
    out
        Instructions for the driver, the oldest first.
    jobs
        Those that are not over: foreground jobs, and background jobs.
    queues
        Tasks that wait for a worker, or for an input at their worker.
    refcounts
        What still needs a value.
    lineage
        What is kept so that a lost value can be made again.
    paces
        What was measured of each function.
    size
        The number of workers that are wanted at most.
    starting
        The number of workers that were asked for and are not known yet.
    flight_count
        The number of flights so far.
    is_job_of_priorities_next
        Whether a job with priorities is next among those whose priority is 0.
    has_moved
        Whether a task went to a worker for which work was looked for already.
    """

    def __init__(self) -> None:
        self.out: deque[Instruction] = deque()
        self.workers: list[WorkerRecord] = []
        self.jobs: tuple[dict[Job, None], dict[Job, None]] = ({}, {})
        self.queues = Queues(self.out)
        self.refcounts = RefCounts(self.out, self.queues)
        self.lineage = Lineage(self.out, self.queues, self.refcounts)
        self.paces: defaultdict[int, Pace] = defaultdict(Pace)
        self.size = 0
        self.starting = 0
        self.flight_count = 0
        self.is_job_of_priorities_next = False
        self.has_moved = False
