"""What is kept, lost, failed and given up: case by case, without processes."""

import pytest
from fake_callers import Future, Passed, Run
from fake_worker import LARGE, SHORT, SMALL, Task, number_of
from state_scene import Plan, Scene, chain, option

from lazyflow.schedulers.processes.decisions import events
from lazyflow.schedulers.processes.decisions.assignment import TARGET
from lazyflow.schedulers.processes.decisions.nodes import (
    DONE,
    FAILED,
    GONE,
    MISSING,
    READY,
    SENT,
    Deliver,
    Job,
)
from lazyflow.schedulers.processes.decisions.pool_state import LONGEST

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
    events.want(scene.state, b.node)
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
    events.make_safe(scene.state)
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
        events.make_safe(scene.state)
        scene.perform()
        assert len(scene.fake(0).requests) == 1
        scene.finish()
    assert not scene.state.refcounts.unsafe and run.is_cleared


def test_a_value_with_a_long_lineage_is_copied_out_at_once():
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


def test_small_values_need_no_lineage():
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
    task = scene.tasks[bad.node]
    task._options = task._options.replace(crash_retries=retries)
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
    x = Plan(kind=LARGE)
    scene.job([x], held=True, retries=0)
    scene.act(0)
    scene.fetches[x.node] += 1
    events.want(scene.state, x.node)
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
    events.give_up(scene.state, (n for n in unneeded if n.phase != SENT))
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
    said = [(i.node.job, i.node, i.value) for i in scene.state.out if type(i) is Deliver]
    assert said == [(run.job, x.node, MISSING)]
    events.end_job(scene.state, run.job)  # before that was carried out
    scene.perform()
    scene.finish()
    assert not scene.remotes and run.is_cleared and not fake.values


def test_a_task_that_waits_for_a_failed_run_fails_even_if_it_was_sent():
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
    events.fail(scene.state, node, ("outside", 0))
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
    events.want(scene.state, user.node)
    scene.finish()
    scene.provide()
    scene.perform()
    scene.finish()
    assert number_of(user.node.value) == run.expected[user.node] and not scene.fetches


@pytest.mark.parametrize("fate", ["ok", "lazy"])
@pytest.mark.parametrize("room", [1 << 30, 150, 0])
def test_what_must_not_run_twice_is_kept_for_what_was_made_of_it(fate, room):
    """The fake worker sees a task that runs twice."""
    scene = Scene(workers=1)
    scene.limits.room = scene.state.refcounts.room = room
    once = [option(Plan(kind=LARGE, fate=fate), crash_retries=0) for _ in range(2)]
    users = [Plan(x, kind=LARGE, function=2) for x in once]
    run = scene.job(users, held=True)
    for _ in range(3):  # the first is lost again and again
        scene.finish()
        while scene.lazy:
            scene.provide()
            scene.perform()
            scene.finish()
        assert {x.node.phase for x in once} <= {GONE, FAILED}
        for fake in list(scene.fakes.values()):  # none is started if nothing can be made
            scene.kill(fake, forced=True)
    scene.finish()
    kept = 2 if fate == "lazy" else room // 100  # what comes from elsewhere is small here
    for at, user in enumerate(users):
        if at < 2 - kept:
            assert user.node.value == ("died", once[at].task.uid, 0)
        else:
            assert scene.fake(0).values[user.node.id] == run.expected[user.node]
    for remote in list(scene.remotes):
        scene._release(remote)
    scene.finish()
    assert run.is_cleared and not scene.held and not scene.state.refcounts.kept


def test_a_run_ends_that_makes_what_nobody_needs():
    scene = Scene(workers=1)
    lazy, other = Plan(fate="lazy"), Plan(fate="lazy")
    run = scene.job([lazy, other], held=True)
    scene.act(0)
    assert {node for node, _ in scene.lazy} == {lazy.node, other.node}
    run.futures[lazy.node].is_dropped = True
    events.give_up(scene.state, [lazy.node])
    scene.perform()
    assert [node for node, _ in scene.lazy] == [other.node]
    assert list(run.job.later) == [other.node]


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
    events.want(scene.state, user.node)
    scene.finish()
    assert lazy.node in scene.postponed and not run.over
    scene._end(run)
    scene.perform()
    scene.finish()
    provide()
    assert number_of(user.node.value) == run.expected[user.node] and not scene.fetches
