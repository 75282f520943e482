"""The decisions of the processes scheduler, without processes.

Random histories first: everything that can happen to jobs, workers and values in any order, with
all books checked after each event (state_checks.py). Then who runs what, case by case.
"""

from itertools import pairwise

import pytest
from fake_callers import Future, Passed, Remote, Run
from fake_worker import LARGE, SHORT, SMALL, Fake, Task, number_of
from state_checks import Checked
from state_simulator import Simulator

from lazyflow.schedulers.processes.decisions import answers, jobs, values
from lazyflow.schedulers.processes.decisions import workers as worker_events
from lazyflow.schedulers.processes.decisions.batching import AHEAD, LEAST, TARGET
from lazyflow.schedulers.processes.decisions.instructions import Deliver, Start
from lazyflow.schedulers.processes.decisions.lineage import LONGEST
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    FAILED,
    FETCHING,
    GONE,
    MISSING,
    READY,
    SENT,
    Job,
    Node,
)
from lazyflow.schedulers.processes.decisions.pace import GROWTH

HARD = {
    "nodes": 20, "workers": 4, "jobs": 6, "lazy": 0.25, "sticks": 0.2, "batches": 0.5,
    "checks": 0.3,
}
DEADLY = {"nodes": 14, "kills": 4, "dies": 0.15, "lazy": 0.15, "sticks": 0.1, "checks": 0.5}
CALM = {"kills": 0.0, "dies": 0.0, "fails": 0.0, "lazy": 0.0, "sticks": 0.0, "nodes": 25}


def play(seeds, events, limits):
    for seed in seeds:
        simulator = Simulator(seed, **limits)
        try:
            simulator.play(events)
        except BaseException:
            print(f"Simulator({seed}, **{limits}).play({events})")
            raise


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_random_histories(first):
    play(range(first, first + 25), 150, {})


def test_random_histories_of_large_jobs():
    play(range(15), 300, HARD)


def test_random_histories_with_many_deaths():
    play(range(25), 200, DEADLY)


def test_random_histories_without_trouble():
    play(range(20), 150, CALM)


@pytest.mark.slow
@pytest.mark.parametrize(("limits", "events"), [({}, 150), (HARD, 400), (DEADLY, 300), (CALM, 200)])
@pytest.mark.parametrize("first", range(100_000, 102_000, 500))  # 8,000: 40 ms each
def test_many_random_histories(first, limits, events):
    play(range(first, first + 500), events, limits)


# -- one case at a time ---------------------------------------------------------------------


class Scene(Checked):
    """Workers that do what they are told at once, and jobs that the test makes."""

    def __init__(self, workers=2):
        super().__init__(0)
        self.known = {}
        self.is_checked = True
        self.width = workers
        self.has_failed = True  # the test says how many workers there are
        for _ in range(workers):
            self._do_start(Start(1))
        for worker in tuple(self.fakes):
            worker_events.worker_up(self.state, worker)
        self.perform()

    def chance(self, of):
        return False

    def check(self):
        if self.is_checked:
            super().check()

    def takes(self, function):
        return self.known.get(function, 1e-6)

    def job(self, wanted, *, cap=None, held=False, background=False, ranked=False, retries=1):
        """Take in a job with these outputs, and all that they need which is in no job yet."""
        job = Job(None, cap or self.width, background, ranked)
        job.crash_retries = retries
        run = job.run = Run(job, held, False)
        nodes = []
        for plan in wanted:
            plan.collect(nodes)
        for plan in nodes:
            node = plan.node = self._node(run, plan.task, plan.function)
            node.job = job
            node.inputs = tuple(p.node for p in plan.inputs)
            node.distinct = tuple(dict.fromkeys(node.inputs))
            run.nodes.append(node)
            for source in node.distinct:
                if source.job is job:
                    source.users.append(node)
        for node in run.own:
            node.left = node.unsent = len(node.users)
            node.keep = 1 if node.users else 0
        for plan in wanted:
            node = plan.node
            node.want = 1 if held else 2
            run.outputs.append(node)
            run.wanted.add(node)
            if held:
                node.keep, node.pinned = 1, True
                node.left += 1
                run.futures[node] = Future(run, node)
        job.nodes = list(run.own)
        self.runs.append(run)
        self.add(run)
        self.perform()
        self.check()
        return run

    def to_run(self):
        """Return what each worker was sent and has not answered."""
        return [
            [
                [n for n in f.nodes if n.phase == SENT and self.flight_of[n] == f.number]
                for f in w.flights
            ]
            for w in self.state.workers
        ]

    def fake(self, at):
        return self.fakes[self.state.workers[at]]

    def steps(self, at, count=1):
        for _ in range(count):
            self.fake(at).step()

    def act(self, at):
        """Let a worker do all it can, and read all it says."""
        fake = self.fake(at)
        moved = False
        while fake.worker in self.fakes and (
            fake.can_step() or fake.requests or fake.answers or fake.told
        ):
            moved = True
            if fake.requests:
                fake.serve()
            elif fake.can_step():
                fake.step()
            elif fake.answers:
                self.read_answer(fake)
            else:
                self.read_told(fake)
            self.perform()
            self.check()
        return moved

    def fly(self, at=0):
        """Let a worker run one flight to its end."""
        fake = self.fake(at)
        while not fake.answers:
            fake.step()
        self.read_answer(fake)
        self.perform()
        self.check()

    def finish(self):
        while True:
            moved = [self.act(at) for at in reversed(range(len(self.state.workers)))]
            for worker, fake in tuple(self.fakes.items()):
                if not worker.up:
                    worker_events.worker_up(self.state, worker)
                    moved.append(True)
                if worker.forget:
                    self._message(fake, 0, (), ())
            while self.inbox:
                what, *details = self.inbox.popleft()
                assert what == "unpin"
                values.unpin(self.state, *details)
            self.perform()
            if not any(moved):
                self.check()
                return

    def learn(self, function, seconds=0.0005, calls=1000):
        """Let it be known how long a function takes."""
        self.known[function] = seconds
        worker = self.state.workers[0]
        answers.answered(self.state, worker, 0, [], [], {function: (calls, calls * seconds)})
        self.perform()

    def value(self, run, plan):
        value = run.results[plan.node]
        return value.node.value if isinstance(value, Remote) else value


class Plan:
    """A task in the making."""

    uids = iter(range(1, 10**9))

    def __init__(self, *inputs, kind=SHORT, fate="ok", function=1, deaths=0, sticks=False):
        self.inputs = inputs
        self.task = Task(next(self.uids), fate, kind)
        self.task.deaths = deaths
        self.task.sticks = sticks
        self.function = function
        self.node: Node | None = None

    def collect(self, nodes):
        if self.node is None and self not in nodes:
            for plan in self.inputs:
                plan.collect(nodes)
            nodes.append(self)

    @property
    def at(self):
        return self.node.home or self.node.holder


def option(plan, **options):
    for name, value in options.items():
        object.__setattr__(plan.task._options, name, value)
    return plan


def chain(length, **more):
    x = Plan(**more)
    for _ in range(length - 1):
        x = Plan(x, **more)
    return x


# -- how much goes into a flight


def test_a_function_that_was_never_measured_goes_alone():
    scene = Scene(workers=1)
    scene.job([Plan() for _ in range(100)])
    assert [[len(f) for f in w] for w in scene.to_run()] == [[1]]  # nor does another flight wait


def test_flights_grow_by_what_was_measured():
    scene = Scene(workers=1)
    scene.job([Plan() for _ in range(1000)])
    sizes = []
    while any(scene.to_run()[0]):
        sizes.append(len(scene.to_run()[0][0]))
        scene.fly()
    assert sizes[:2] == [1, GROWTH]
    assert all(after <= GROWTH * sum(sizes[:i + 1]) for i, after in enumerate(sizes[1:]))
    assert sum(sizes) == 1000 and len(sizes) < 12


def test_a_flight_takes_no_longer_than_it_should():
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET / 4)
    scene.job([Plan() for _ in range(100)])
    assert [len(f) for f in scene.to_run()[0]] == [4, 4]  # and another waits behind it


@pytest.mark.parametrize(("part", "flights"), [(0.23, [8]), (0.3, [4, 4]), (0.4, [3, 5])])
def test_workers_get_equal_parts_of_what_is_left(part, flights):
    scene = Scene(workers=2)
    scene.learn(1, seconds=part * TARGET)
    scene.job([Plan() for _ in range(16)])
    sent = [[len(f) for f in flights] for flights in scene.to_run()]
    assert sent == [flights] * 2  # with as many as fit in TARGET, one would get 9 or 10


def test_no_flight_is_too_small_for_its_message():
    scene = Scene(workers=2)
    scene.learn(1, seconds=LEAST / 100)
    scene.job([Plan() for _ in range(150)])
    assert [[len(f) for f in flights] for flights in scene.to_run()] == [[100], [50]]


def test_nothing_waits_behind_a_long_flight():
    scene = Scene(workers=1)
    scene.learn(1, seconds=3 * TARGET)
    scene.job([Plan() for _ in range(100)])
    assert [len(f) for f in scene.to_run()[0]] == [1]


def test_a_task_that_must_not_run_twice_goes_alone():
    scene = Scene(workers=1)
    scene.learn(1, seconds=1e-5)
    plans = [Plan() for _ in range(10)]
    option(plans[4], crash_retries=0)
    run = scene.job(plans)
    sent = []
    while any(scene.to_run()[0]):
        sent += [[n.i for n in f] for f in scene.to_run()[0] if [n.i for n in f] not in sent]
        scene.act(0)
    assert run.over
    assert [4] in sent


# -- where a task goes


def test_a_chain_stays_in_one_flight_and_its_values_in_one_worker():
    scene = Scene()
    scene.learn(1, seconds=1e-6)
    x = chain(50, kind=LARGE)
    run = scene.job([x])
    assert [[len(f) for f in w] for w in scene.to_run()] == [[50], []]
    fake = scene.fake(0)
    fake.step()
    while fake.flight:
        fake.step()
        assert len(fake.values) <= 2  # each task tells the worker to drop its input
    scene.finish()
    assert run.over and not fake.values and not fake.worker.forget


def test_a_task_goes_where_most_bytes_of_its_inputs_are():
    scene = Scene()
    scene.learn(2, seconds=1)
    small, large = Plan(kind=LARGE), Plan(kind=LARGE)
    run = scene.job([small, large], held=True)
    scene.finish()
    assert small.at is not large.at
    small.node.size, large.node.size = 1000, 2000
    both = Plan(small, large, function=2)
    scene.job([both])
    assert both.node.phase == FETCHING and both.at is large.at
    assert scene.state.queues.waiters == {small.node: {both.node: None}}
    scene.finish()
    assert run.over


def test_an_idle_worker_steals_when_it_is_worth_it():
    for size, is_stolen in [(1000, True), (10**12, False)]:
        scene = Scene()
        scene.learn(2, seconds=0.01)
        x = Plan(kind=LARGE)
        scene.job([x], held=True)
        scene.act(0)
        x.node.size = size
        users = [Plan(x, function=2) for _ in range(10)]
        scene.job(users)
        at = [u.node.home for u in users]
        assert (at.count(scene.state.workers[1]) == 1) is is_stolen, size
        if is_stolen:
            assert [u.node.phase for u in users].count(FETCHING) == 1
        scene.finish()


def test_only_so_many_tasks_wait_for_values_on_their_way():
    scene = Scene()
    many = [Plan(kind=LARGE) for _ in range(3 * AHEAD)]
    scene.learn(1, seconds=1e-6)
    scene.job(many, held=True)
    scene.act(0)
    scene.act(1)
    taker = next(w for w in scene.state.workers if w is not many[0].at)
    there = [x for x in many if x.at is not taker]
    scene.learn(2, seconds=1e-6)
    users = [Plan(x, function=2) for x in there]
    for plan in users:
        option(plan, priority=1)
    scene.job(users, ranked=True, cap=2)
    for worker in scene.state.workers:
        assert len(worker.fetching) <= AHEAD
    scene.finish()


def test_a_task_runs_beside_a_value_that_can_not_be_pickled():
    scene = Scene()
    stuck, other = Plan(kind=LARGE, sticks=True), Plan(kind=LARGE)
    scene.job([stuck, other], held=True)
    scene.finish()
    stuck.node.size, other.node.size = 1, 10**9
    both = Plan(stuck, other, function=2)
    run = scene.job([both])
    assert both.node.phase == FETCHING and both.at is other.at
    scene.finish()
    assert run.results[both.node] == run.expected[both.node]


def test_two_values_that_can_not_meet_fail_the_task():
    scene = Scene()
    one, two = (Plan(kind=LARGE, sticks=True) for _ in range(2))
    scene.job([one, two], held=True)
    scene.finish()
    assert one.at is not two.at
    run = scene.job([Plan(one, two, function=2)])
    scene.finish()
    assert run.error[0] == "sticks" and run.error[1] in (one.task.uid, two.task.uid)


# -- the order


def test_higher_priorities_go_first():
    scene = Scene(workers=1)
    scene.learn(1, seconds=2 * TARGET)
    plans = [option(Plan(), priority=p) for p in (1, 3, 2, 3)]
    scene.job(plans, ranked=True)
    order = []
    while scene.to_run()[0]:
        order += [n.i for n in scene.to_run()[0][0]]
        scene.fly()
    assert order == [1, 3, 2, 0]


def test_higher_priorities_go_first_whose_job_they_are_of():
    scene = Scene(workers=1)
    scene.learn(1, seconds=2 * TARGET)
    scene.job([chain(3)])
    for ranks in ((-1,), (2, 0, -2), (), (1, 2)):
        plans = [option(Plan(), priority=p) for p in ranks] or [Plan(), Plan()]
        scene.job(plans, ranked=bool(ranks))
    order = []
    while scene.to_run()[0]:
        order += [n.task._options.priority for n in scene.to_run()[0][0]]
        scene.fly()
    assert order == [0, 2, 2, 1, 0, 0, 0, 0, 0, -1, -2]  # the first was sent before


def test_jobs_with_and_without_priorities_take_turns_where_those_are_0():
    scene = Scene(workers=1)
    scene.learn(1, seconds=2 * TARGET)
    jobs = [scene.job([Plan() for _ in range(6)], ranked=ranked).job for ranked in (False, True)]
    order = []
    while scene.to_run()[0]:
        order.append(jobs.index(scene.to_run()[0][0][0].job))
        scene.fly()
    assert sum(order[:6]) in (2, 3, 4), order


def test_a_flight_ends_before_what_is_less_urgent_than_other_jobs():
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET / 4)
    scene.job([Plan() for _ in range(20)])
    scene.job([option(Plan(), priority=p) for p in (5, 5, -5)], ranked=True)
    scene.fly()
    scene.fly()
    flights = [[n.task._options.priority for n in f] for f in scene.to_run()[0]]
    assert flights == [[5, 5], [0, 0, 0, 0]]
    scene.finish()


def test_the_first_in_the_plan_go_first():
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET / 4)
    scene.job([Plan() for _ in range(20)])
    assert [[n.i for n in f] for f in scene.to_run()[0]] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_jobs_that_somebody_waits_for_go_first():
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET)
    behind = [chain(3) for _ in range(3)]
    scene.job(behind, held=True, background=True)
    assert len(scene.to_run()[0]) == 2
    run = scene.job([Plan() for _ in range(5)])
    order = []
    while any(scene.to_run()[0]):
        order.append(scene.to_run()[0][0][0].job is run.job)
        scene.fly()
    assert order == [False] * 2 + [True] * 5 + [False] * 7


def test_jobs_take_turns():
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET)
    first = scene.job([Plan() for _ in range(6)])
    second = scene.job([Plan() for _ in range(6)])
    order = []
    while any(scene.to_run()[0]):
        order.append(scene.to_run()[0][0][0].job)
        scene.fly()
    turns = [job is first.job for job in order[2:9]]
    assert all(a is not b for a, b in pairwise(turns)), order
    assert first.over and second.over


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_a_job_has_no_more_workers_than_it_may(cap):
    scene = Scene(workers=4)
    scene.job([Plan() for _ in range(20)], cap=cap)
    assert len([w for w in scene.to_run() if w]) == cap
    scene.finish()
    assert scene.runs[0].over


def test_a_job_that_may_have_one_worker_stays_there():
    scene = Scene(workers=2)
    scene.job([Plan()], cap=1)
    run = scene.job([Plan(function=number) for number in (2, 3, 4)], cap=1)
    scene.fly(0)  # that one has nothing to do, too, when the other has
    while not run.over:
        assert [len(flights) for flights in scene.to_run()] == [0, 1]
        scene.act(1)


# -- workers


def test_no_more_workers_are_asked_for_than_there_is_work_for():
    scene = Scene(workers=0)
    scene.width = 8
    scene.has_failed = False
    scene.job([Plan(), Plan(), Plan()])
    assert len(scene.fakes) == 3
    scene.job([Plan() for _ in range(20)])
    assert len(scene.fakes) == 8
    scene.job([Plan() for _ in range(20)])
    assert len(scene.fakes) == 8
    scene.finish()


def test_a_late_flight_is_shared_out():
    scene = Scene()
    scene.learn(1, seconds=1e-6)
    run = scene.job([Plan() for _ in range(40)], cap=1)
    scene.learn(2, seconds=1)
    busy = scene.state.workers[0]
    (flight,) = busy.flights
    assert len(flight.nodes) == 40
    scene.steps(0, 2)  # it begins with the first
    run.job.cap = 2
    scene.rng.randint = lambda low, high: high  # it gives back all that it can
    worker_events.overdue(scene.state, busy, flight.number)
    scene.perform()
    scene.fake(0).serve()
    while scene.fake(0).told:
        scene.read_told(scene.fake(0))
    scene.perform()
    scene.check()
    at = [[len(f) for f in w] for w in scene.to_run()]
    assert at == [[1], [39]]  # nothing behind the one that is late
    scene.finish()
    assert run.over


def test_a_late_flight_stays_where_its_job_may_have_no_other_worker():
    scene = Scene()
    scene.learn(1, seconds=1e-6)
    scene.job([Plan() for _ in range(40)], cap=1)
    scene.steps(0, 2)
    busy = scene.state.workers[0]
    worker_events.overdue(scene.state, busy, busy.flights[0].number)
    scene.perform()
    assert busy.flights[0].is_late and not busy.recalling
    scene.job([Plan() for _ in range(2)], cap=2)  # it goes to the other
    assert [len(flights) for flights in scene.to_run()] == [1, 1]


# -- what is kept


def test_a_held_value_is_made_again_with_what_it_was_made_from():
    scene = Scene(workers=1)
    a = Plan(kind=LARGE)
    b = Plan(a, kind=LARGE)
    run = scene.job([b], held=True)
    scene.act(0)
    assert run.over and a.node.phase == GONE and b.node.value is MISSING
    assert not run.is_cleared
    scene.kill(scene.fake(0), forced=True)
    assert (a.node.phase, scene.charges) == (READY, {})
    (remote,) = scene.remotes
    scene.fetches[b.node] += 1
    values.want(scene.state, b.node)
    scene.finish()
    assert not scene.fetches and b.node.value.number == run.expected[b.node]
    assert run.is_cleared  # the value is here, and needs no recipe
    scene._release(remote)
    scene.finish()
    assert b.node.phase == GONE and not scene.held


def test_a_literal_is_there_again_when_it_is_needed_again():
    scene = Scene(workers=1)
    job = Job(None, 1)
    run = job.run = Run(job, True, False)
    given = scene._literal(run, 5)
    scene.chance, chance = (lambda of: False), scene.chance
    node = scene._node(run, Task(1, "ok", LARGE), 1)
    node.inputs = node.distinct = (given,)
    given.users.append(node)
    given.left = given.unsent = given.keep = 1
    node.want, node.keep, node.pinned, node.left = 1, 1, True, 1
    run.wanted.add(node)
    run.outputs.append(node)
    run.futures[node] = Future(run, node)
    job.nodes = list(run.own)
    scene.runs.append(run)
    scene.add(run)
    scene.perform()
    scene.act(0)
    assert node.phase == DONE and given.phase == GONE and not given.value.is_encoded
    scene.kill(scene.fake(0), forced=True)
    assert given.phase == DONE and node.phase == READY
    scene.finish()
    assert node.phase == DONE and given.phase == GONE
    scene.chance = chance


def test_a_value_of_a_forgotten_job_is_kept_for_those_that_may_need_it_again():
    scene = Scene(workers=1)
    x = Plan(kind=LARGE)
    first = scene.job([x], held=True)
    scene.finish()
    values.make_safe(scene.state)
    scene.perform()
    scene.finish()
    assert first.is_cleared
    y = Plan(x, kind=LARGE, function=2)
    second = scene.job([y], held=True)
    scene.act(0)
    scene._release(scene.remotes[0])
    scene.finish()
    assert second.over and x.node.phase == GONE
    scene.kill(scene.fake(0), forced=True)
    scene.finish()
    assert y.node.phase == DONE and scene.fake(0).values[y.node.id] == second.expected[y.node]
    scene._release(scene.remotes[0])
    scene.finish()
    assert not scene.held and second.is_cleared


def test_held_values_are_copied_out_one_after_the_other():
    scene = Scene(workers=1)
    plans = [Plan(kind=LARGE) for _ in range(3)]
    run = scene.job(plans, held=True)
    scene.act(0)
    assert list(scene.state.refcounts.unsafe) == [p.node for p in plans]
    for left in (3, 2, 1):
        assert len(scene.state.refcounts.unsafe) == left
        values.make_safe(scene.state)
        scene.perform()
        assert len(scene.fake(0).requests) == 1
        scene.finish()
    assert not scene.state.refcounts.unsafe and run.is_cleared


def test_a_value_with_a_long_recipe_is_copied_out_at_once():
    scene = Scene(workers=1)
    scene.learn(1, seconds=1e-7, calls=10_000)
    scene.is_checked = False  # that takes seconds
    x = None
    for _ in range(2):
        x = Plan(*(() if x is None else (x,)), kind=LARGE)
        y = x
        for _ in range(LONGEST // 2):
            y = Plan(y, kind=LARGE)
        x = y
        scene.job([x], held=True)
        scene.act(0)
    first, second = scene.runs
    assert x.node.value is not MISSING and second.is_cleared
    assert not first.is_cleared  # that is kept until its own value is safe


def test_small_values_need_no_recipe():
    scene = Scene(workers=1)
    run = scene.job([Plan(kind=SMALL), Plan(kind=SHORT)], held=True)
    scene.finish()
    assert run.is_cleared and len(scene.remotes) == 1


# -- deaths and failures


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_task_that_kills_its_workers_is_given_up(retries):
    scene = Scene(workers=2)
    bad = Plan(deaths=100)
    good = [Plan(function=2) for _ in range(5)]
    run = scene.job([bad, *good], retries=retries)
    scene.tasks[bad.node]._options.crash_retries = retries
    scene.finish()
    assert run.error == ("died", bad.task.uid, retries + 1)
    assert scene.crashed[bad.node] == retries + 1
    assert scene.charges == {bad.node: retries + 1}


def test_what_was_only_sent_along_is_not_charged():
    scene = Scene(workers=1)
    scene.learn(1, seconds=1e-6)
    plans = [Plan() for _ in range(20)]
    plans[7].task.deaths = 1
    run = scene.job(plans)
    scene.finish()
    assert run.over and run.error is None
    assert scene.charges == {plans[7].node: 1}


def test_a_task_whose_result_has_come_is_not_charged():
    scene = Scene(workers=1)
    scene.learn(1, seconds=1e-6)
    first, second = Plan(), Plan()
    run = scene.job([first, second])
    fake = scene.fake(0)
    scene.steps(0, 3)  # the first is done, and the word still names it
    fake.answer()
    assert fake.word == first.node.id
    scene.kill(fake)
    assert not scene.charges and first.node.phase == GONE
    scene.finish()
    assert run.over and run.error is None


def test_the_pickling_of_a_result_is_charged_to_its_task():
    scene = Scene(workers=1)
    x = option(Plan(kind=LARGE), crash_retries=0)
    scene.job([x], held=True)
    scene.act(0)
    scene.fetches[x.node] += 1
    values.want(scene.state, x.node)
    scene.perform()
    scene.fake(0).serve()  # it begins to
    scene.kill(scene.fake(0))
    assert x.node.phase == FAILED and not scene.fetches
    assert x.node.value == ("died", x.task.uid, 1)


def test_what_needs_a_failed_task_fails_with_it_and_nothing_else():
    scene = Scene(workers=1)
    bad = Plan(fate="fails")
    good = Plan()
    needs = Plan(Plan(bad, good), good)
    job = scene.job([needs, good], held=True)
    job.collect = True
    scene.finish()
    assert job.results[needs.node] == ("error", "fails", bad.task.uid)
    assert job.results[good.node] == job.expected[good.node]


def test_dropped_work_is_not_begun():
    scene = Scene(workers=1)
    scene.learn(1, seconds=3 * TARGET)
    shared = Plan()
    one, two = chain(3), Plan(shared)
    both = Plan(one, shared)
    run = scene.job([both, two], held=True)
    unneeded = [both.node, one.node, *one.node.inputs]
    jobs.give_up(scene.state, (n for n in unneeded if n.phase != SENT))
    run.wanted.discard(both.node)
    run.futures[both.node].is_dropped = True
    scene.check()
    scene.finish()
    assert run.over and run.results.keys() == {two.node}
    assert [n.phase for n in unneeded[:2]] == [GONE, GONE]


def test_a_job_that_ends_is_not_run_any_further():
    scene = Scene(workers=1)
    run = scene.job([chain(5), chain(5)])
    sent = [n for f in scene.to_run()[0] for n in f]
    run.is_cancelled = True
    scene._end(run)
    scene.perform()
    scene.check()
    assert {n.phase for n in run.own if n not in sent} == {GONE}
    scene.finish()
    assert run.is_cleared and not scene.state.queues.rota[0]


def test_a_result_that_comes_after_the_end_of_its_run_is_let_go():
    scene = Scene(workers=1)
    x, y = Plan(kind=LARGE), Plan(function=2)
    run = scene.job([x, y], held=True)
    fake = scene.fake(0)
    while not fake.answers:
        fake.step()
    scene.read_answer(fake)
    assert Deliver(run.job, x.node, MISSING) in scene.state.out
    jobs.end_job(scene.state, run.job)  # before that was carried out
    scene.perform()
    scene.finish()
    assert not scene.remotes and run.is_cleared and not fake.values


def test_who_waits_for_a_run_that_fails_fails_even_if_he_was_sent():
    scene = Scene(workers=1)
    scene.learn(1, seconds=1e-6)
    lazy = Plan(fate="lazy")
    first = scene.job([lazy], held=True, background=True)
    job = Job(None, 1)
    second = job.run = Run(job, False, False)
    node = scene._passed(second, lazy.node)
    scene.tasks[node] = Passed(10**9)
    node.keep, node.want, node.function = 0, 2, 1
    second.wanted.add(node)
    second.outputs.append(node)
    second.pending.append((first.futures[lazy.node], node))
    job.nodes = list(second.own)
    scene.runs.append(second)
    scene.add(second)
    fake = scene.fake(0)
    while not fake.answers:
        fake.step()
    scene.read_answer(fake)  # the first is lazy: another run has to compute it
    scene.perform()
    assert lazy.node in scene.postponed
    first.is_cancelled = True
    scene._end(first)
    values.fail(scene.state, node, ("outside", 0))
    scene.perform()
    scene.finish()
    assert second.error == ("outside", 0)


def test_a_lost_value_that_came_from_a_lazy_one_is_made_again():
    scene = Scene(workers=1)
    lazy = Plan(fate="lazy", kind=LARGE)
    user = Plan(lazy, kind=LARGE, function=2)
    run = scene.job([user], held=True)
    scene.act(0)
    scene.provide()
    scene.perform()
    scene.finish()
    assert run.over and not run.is_cleared and lazy.node.phase == GONE
    scene.kill(scene.fake(0), forced=True)
    scene.fetches[user.node] += 1
    values.want(scene.state, user.node)
    scene.finish()
    scene.provide()
    scene.perform()
    scene.finish()
    assert number_of(user.node.value) == run.expected[user.node] and not scene.fetches


def test_what_a_run_makes_for_others_outlives_the_job_of_its_task():
    """A value is lost, and made again by a task that returns a lazy value, when its job ends."""
    scene = Scene(workers=1)
    lazy, endless = Plan(fate="lazy", kind=LARGE), Plan(fate="lazy", kind=LARGE)
    user = Plan(lazy, kind=LARGE, function=2)
    run = scene.job([user, endless], held=True)

    def provide():
        others = [each for each in scene.lazy if each[0] is not lazy.node]
        scene.lazy = [each for each in scene.lazy if each[0] is lazy.node]
        scene.provide()
        scene.lazy += others
        scene.perform()
        scene.finish()

    scene.finish()
    provide()
    assert user.node.value is MISSING and lazy.node.phase == GONE
    scene.kill(scene.fake(0), forced=True)
    scene.fetches[user.node] += 1
    values.want(scene.state, user.node)
    scene.finish()
    assert lazy.node in scene.postponed and not run.over
    scene._end(run)
    scene.perform()
    scene.finish()
    provide()
    assert number_of(user.node.value) == run.expected[user.node] and not scene.fetches


def test_a_fake_that_is_given_a_wrong_task_says_so():
    """The simulator would see a task that is sent where its input is not."""
    scene = Scene(workers=2)
    scene.job([chain(2, kind=LARGE)])
    fake: Fake = scene.fake(0)
    fake.step()
    fake.flight.todo[0].inputs = [10**9]
    with pytest.raises(KeyError):
        fake.step()
