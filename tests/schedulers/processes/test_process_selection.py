"""Which worker runs which tasks, and in what order: case by case, without processes."""

from itertools import pairwise

import pytest
from fake_worker import LARGE
from state_scene import Plan, Scene, chain, option

from lazyflow.schedulers.processes.decisions import events
from lazyflow.schedulers.processes.decisions.assignment import AHEAD, LEAST, SERVED, TARGET
from lazyflow.schedulers.processes.decisions.events import GROWTH
from lazyflow.schedulers.processes.decisions.nodes import FETCHING

# -- how much goes into a batch


def test_a_function_that_was_never_measured_goes_alone():
    scene = Scene(workers=1)
    scene.job([Plan() for _ in range(100)])
    assert [[len(f) for f in w] for w in scene.to_run()] == [[1]]  # nor does another batch wait


def test_batches_grow_by_what_was_measured():
    scene = Scene(workers=1)
    scene.job([Plan() for _ in range(1000)])
    sizes = []
    while any(scene.to_run()[0]):
        sizes.append(len(scene.to_run()[0][0]))
        scene.fly()
    assert sizes[:2] == [1, GROWTH]
    assert all(after <= GROWTH * sum(sizes[:i + 1]) for i, after in enumerate(sizes[1:]))
    assert sum(sizes) == 1000 and len(sizes) < 12


def test_a_batch_takes_no_longer_than_it_should():
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET / 4)
    scene.job([Plan() for _ in range(100)])
    assert [len(f) for f in scene.to_run()[0]] == [4, 4]  # and another waits behind it


@pytest.mark.parametrize("workers", [1, 4, 8, 16])
def test_the_caller_sends_no_more_batches_a_second_however_many_the_workers(workers):
    scene = Scene(workers)
    scene.learn(1, seconds=TARGET / 4)
    scene.job([Plan() for _ in range(200 * workers)])
    longest = max(1, workers / SERVED) * TARGET
    for batches in scene.to_run():
        assert [len(batch) * TARGET / 4 for batch in batches] == [longest] * 2


def tree(leaves, fan_in):
    while len(leaves) > 1:
        parts = [leaves[i:i + fan_in] for i in range(0, len(leaves), fan_in)]
        leaves = [part[0] if len(part) == 1 else Plan(*part, kind=LARGE) for part in parts]
    return leaves[0]


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize(("fan_in", "depth"), [(2, 10), (3, 7), (4, 5)])
@pytest.mark.parametrize("part", [0.17, 0.09, 0.05])
def test_a_batch_of_a_tree_leaves_one_value_that_waits_for_what_is_sent_later(
    part, fan_in, depth, workers
):
    """Several would be held until other workers have made the rest of the same subtrees."""
    scene = Scene(workers)
    scene.learn(1, seconds=part * TARGET)
    scene.job([tree([Plan(kind=LARGE) for _ in range(fan_in**depth)], fan_in)])
    for batch in (w.batches[0] for w in scene.state.workers):
        joins = {user for node in batch.nodes for user in node.users if user.open}
        assert len(joins) <= 1 or batch.cost >= 2 * TARGET
        assert batch.cost < (2 + part) * TARGET


@pytest.mark.parametrize(("part", "batches"), [(0.23, [8]), (0.3, [8]), (0.4, [3, 5])])
def test_workers_get_equal_parts_of_what_is_left(part, batches):
    scene = Scene(workers=2)
    scene.learn(1, seconds=part * TARGET)
    scene.job([Plan() for _ in range(16)])
    sent = [[len(f) for f in batches] for batches in scene.to_run()]
    assert sent == [batches] * 2  # with as many as fit in TARGET, one would get 9 or 10


def test_no_batch_is_too_small_for_its_message():
    scene = Scene(workers=2)
    scene.learn(1, seconds=LEAST / 100)
    scene.job([Plan() for _ in range(150)])
    assert [[len(f) for f in batches] for batches in scene.to_run()] == [[100], [50]]


def test_nothing_waits_behind_a_long_batch():
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


def test_what_was_pickled_together_goes_together():
    scene = Scene(workers=1)
    scene.learn(1, seconds=1e-5)
    plans = [Plan() for _ in range(10)]
    scene.job(plans, unpacked=True)
    scene.packed(plans[:4])
    scene.packed(plans[4:])
    assert [[n.i for n in f] for f in scene.to_run()[0]] == [[3, 2, 1, 0], [9, 8, 7, 6, 5, 4]]


# -- where a task goes


def test_a_chain_stays_in_one_batch_and_its_values_in_one_worker():
    """A task follows its input into the batch, through `Lane.following`.

    ::

        batch        x0       x0 x1       x0 x1 x2 ..
        following    x1       x2          x3 ..       what follows is taken next
        drops                 x0          x0, x1 ..   each after the task that reads it
    """
    scene = Scene()
    scene.learn(1, seconds=1e-6)
    x = chain(50, kind=LARGE)
    run = scene.job([x])
    assert [[len(f) for f in w] for w in scene.to_run()] == [[50], []]
    fake = scene.fake(0)
    fake.step()
    while fake.batch:
        fake.step()
        assert len(fake.values) <= 2  # each task tells the worker to drop its input
    scene.finish()
    assert run.over and not fake.values and not fake.worker.to_drop


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


def test_tasks_that_become_ready_one_by_one_go_to_the_workers_in_turn():
    scene = Scene(workers=3)
    scene.learn(1, seconds=1e-5)
    plans = [Plan(kind=LARGE) for _ in range(9)]
    scene.job(plans, held=True, background=True, unpacked=True)
    for plan in plans:
        scene.packed([plan])
        scene.finish()
    assert [plan.at for plan in plans] == scene.state.workers * 3


def test_held_values_lie_evenly_however_short_their_tasks_are():
    scene = Scene(workers=2)
    scene.learn(1, seconds=LEAST / 100)
    plans = [Plan(kind=LARGE) for _ in range(9)]
    scene.job(plans, held=True, background=True, unpacked=True)
    scene.packed(plans[:1])
    scene.finish()
    scene.packed(plans[1:])
    assert sorted(scene.state.workers.index(plan.at) for plan in plans) == [0] * 5 + [1] * 4


def test_an_idle_worker_steals_when_it_is_worth_it():
    """The idle one takes the oldest task of a queue, if it can have x before that would run here.

    ::

        x ---> ten tasks of 10 ms           worker 0 made x, so all ten are queued there

        worker 0   [x]  oldest .. newest    it runs the newest first
                          |
        worker 1   []     +--> FETCHING     x of 1 kB is there in less than 1 ms; 1 TB would take
                                            minutes: then all ten stay
    """
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


def test_tasks_on_values_in_shared_memory_are_shared_out_evenly():
    scene = Scene()
    scene.learn(2, seconds=TARGET / 4)
    many = [Plan(kind=LARGE) for _ in range(8)]
    scene.learn(1, seconds=1e-6)
    scene.job(many, held=True)
    scene.act(0)
    first = scene.state.workers[0]
    assert {x.at for x in many} == {first}
    for are_shared, sent in [(False, [8, 0]), (True, [4, 4])]:
        for x in many:
            x.node.size = 20_000_000  # 2 ms to map, 10 ms to move
            if are_shared:
                events.want(scene.state, x.node)
        scene.perform()
        scene.finish()
        scene.job([Plan(x, function=2) for x in many])
        assert [sum(map(len, batches)) for batches in scene.to_run()] == sent
        scene.finish()


def test_only_so_many_tasks_wait_for_values_on_their_way():
    scene = Scene()
    many = [Plan(kind=LARGE) for _ in range(3 * AHEAD)]
    scene.learn(1, seconds=1e-6)
    scene.job(many, held=True)
    scene.act(0)
    assert {x.at for x in many} == {scene.state.workers[0]}
    scene.learn(2, seconds=0.01)
    users = [Plan(x, function=2) for x in many]
    for plan in users:
        option(plan, priority=1)
    scene.job(users, has_priorities=True, cap=2)
    assert [len(worker.fetching) for worker in scene.state.workers] == [0, AHEAD]
    assert not any(scene.to_run()[1])
    owner = scene.fake(0)
    while owner.requests or owner.told:  # it sends values, and runs nothing
        owner.serve() if owner.requests else scene.read_told(owner)
        scene.perform()
        scene.check()
    assert any(scene.to_run()[1])  # though more urgent ones have to wait
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
    """Of tasks that could all run we want the urgent ones first, and of equal ones the first."""
    scene = Scene(workers=1)
    scene.learn(1, seconds=2 * TARGET)
    plans = [option(Plan(), priority=p) for p in (1, 3, 2, 3)]
    scene.job(plans, has_priorities=True)
    order = []
    while scene.to_run()[0]:
        order += [n.i for n in scene.to_run()[0][0]]
        scene.fly()
    assert order == [1, 3, 2, 0]


def test_higher_priorities_go_first_whose_job_they_are_of():
    """A task of a later job may be wanted before all of an earlier one."""
    scene = Scene(workers=1)
    scene.learn(1, seconds=2 * TARGET)
    scene.job([chain(3)])
    for ranks in ((-1,), (2, 0, -2), (), (1, 2)):
        plans = [option(Plan(), priority=p) for p in ranks] or [Plan(), Plan()]
        scene.job(plans, has_priorities=bool(ranks))
    order = []
    while scene.to_run()[0]:
        order += [n.task._options.priority for n in scene.to_run()[0][0]]
        scene.fly()
    assert order == [0, 2, 2, 1, 0, 0, 0, 0, 0, -1, -2]  # the first was sent before


def test_jobs_with_and_without_priorities_take_turns_where_those_are_0():
    """Priority 0, which was given, is as urgent as none."""
    scene = Scene(workers=1)
    scene.learn(1, seconds=2 * TARGET)
    jobs = [
        scene.job([Plan() for _ in range(6)], has_priorities=has_priorities).job
        for has_priorities in (False, True)
    ]
    order = []
    while scene.to_run()[0]:
        order.append(jobs.index(scene.to_run()[0][0][0].job))
        scene.fly()
    assert sum(order[:6]) in (2, 3, 4), order


def test_a_batch_ends_before_what_is_less_urgent_than_other_jobs():
    """It takes the two of priority 5, and leaves that of -5 behind the tasks of the other job."""
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET / 4)
    scene.job([Plan() for _ in range(20)])
    scene.job([option(Plan(), priority=p) for p in (5, 5, -5)], has_priorities=True)
    scene.fly()
    scene.fly()
    batches = [[n.task._options.priority for n in f] for f in scene.to_run()[0]]
    assert batches == [[5, 5], [0, 0, 0, 0]]
    scene.finish()


def test_the_first_in_the_plan_go_first():
    """The plan has the order that keeps few values alive; batches follow it."""
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET / 4)
    scene.job([Plan() for _ in range(20)])
    assert [[n.i for n in f] for f in scene.to_run()[0]] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_jobs_that_somebody_waits_for_go_first():
    """What is computed in the background lets a `compute` pass, but for what was sent before.

        o - o - o   o - o - o   o - o - o       in the background
        x   x   x   x   x                       somebody waits for these
    """
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET)
    behind = [chain(3) for _ in range(3)]
    scene.job(behind, held=True, background=True)
    assert len(scene.to_run()[0]) == 2
    run = scene.job([Plan() for _ in range(5)])
    order = []
    while any(scene.to_run()[0]):
        order += [node.job is run.job for node in scene.to_run()[0][0]]
        scene.fly()
    assert order == [False] * 2 + [True] * 5 + [False] * 7


def test_jobs_take_turns():
    scene = Scene(workers=1)
    scene.learn(1, seconds=TARGET)
    first = scene.job([Plan() for _ in range(8)])
    second = scene.job([Plan() for _ in range(8)])
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
        assert [len(batches) for batches in scene.to_run()] == [0, 1]
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


def test_a_late_batch_is_shared_out():
    scene = Scene()
    scene.learn(1, seconds=1e-6)
    run = scene.job([Plan() for _ in range(40)], cap=1)
    scene.learn(2, seconds=1)
    busy = scene.state.workers[0]
    (batch,) = busy.batches
    assert len(batch.nodes) == 40
    scene.steps(0, 2)  # it begins with the first
    run.job.cap = 2
    scene.rng.randint = lambda low, high: high  # it gives back all that it can
    events.overdue(scene.state, busy, batch.number)
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


def test_a_late_batch_stays_where_its_job_may_have_no_other_worker():
    scene = Scene()
    scene.learn(1, seconds=1e-6)
    scene.job([Plan() for _ in range(40)], cap=1)
    scene.steps(0, 2)
    busy = scene.state.workers[0]
    events.overdue(scene.state, busy, busy.batches[0].number)
    scene.perform()
    assert busy.batches[0].is_late and not busy.recalling
    scene.job([Plan() for _ in range(2)], cap=2)  # it goes to the other
    assert [len(batches) for batches in scene.to_run()] == [1, 1]
