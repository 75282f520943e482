"""The decisions of the processes scheduler, without processes: random histories.

Everything that can happen to jobs, workers and values in any order, with all counts checked after
each event (state_checks.py).
"""

import ast
from pathlib import Path

import pytest
from fake_worker import LARGE, Fake
from state_scene import Scene, chain
from state_simulator import Simulator

from lazyflow.schedulers.processes import decisions
from lazyflow.schedulers.processes.worker.task_worker import RunningBatch

HARD = {
    "nodes": 20, "workers": 4, "jobs": 6, "lazy": 0.25, "sticks": 0.2, "batches": 0.5,
    "checks": 0.3,
}
DEADLY = {"nodes": 14, "kills": 4, "dies": 0.15, "lazy": 0.15, "sticks": 0.1, "checks": 0.5}
CALM = {"kills": 0.0, "dies": 0.0, "fails": 0.0, "lazy": 0.0, "sticks": 0.0, "nodes": 25}
ONCE = CALM | {"kills": 15, "once": 0.4, "lazy": 0.2}


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


@pytest.mark.parametrize("room", [0, 250, 1 << 30])
def test_random_histories_of_tasks_that_must_not_run_twice(room):
    play(range(15), 200, ONCE | {"room": room})


def test_random_histories_without_trouble():
    play(range(20), 150, CALM)


@pytest.mark.parametrize(
    ("seed", "limits", "events"),
    [(100_012, HARD, 400), (100_612, {}, 150), (101_285, {}, 150), (100_140, CALM, 200)],
)
def test_histories_that_found_a_fault(seed, limits, events):
    play([seed], events, limits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "events"),
    [({}, 150), (HARD, 400), (DEADLY, 300), (ONCE | {"room": 250}, 300), (CALM, 200)],
)
@pytest.mark.parametrize("first", range(100_000, 102_000, 500))  # 10,000: 40 ms each
def test_many_random_histories(first, limits, events):
    play(range(first, first + 500), events, limits)


def test_a_fake_that_is_given_a_wrong_task_says_so():
    """The simulator would see a task that is sent where its input is not."""
    scene = Scene(workers=2)
    scene.job([chain(2, kind=LARGE)])
    fake: Fake = scene.fake(0)
    fake.step()
    fake.batch.todo[0].inputs = [10**9]
    with pytest.raises(KeyError):
        fake.step()


def test_times_of_tasks_that_ran_after_a_part_was_answered_are_answered_too():
    batch = RunningBatch(1, [], None)
    batch.add_time(5, 2, 0.5)
    batch.failed.append((7, None, None))
    assert batch.take_outcomes() == ([(7, None, None)], [], {5: (2, 0.5)}, [], [])
    batch.add_time(5, 1, 0.25)
    batch.add_time(6, 0, 0.25)  # no call
    assert batch.take_outcomes() == ([], [], {5: (1, 0.25)}, [], [])


def test_a_timed_batch_answers_when_each_task_ran():
    batch = RunningBatch(1, [(7, "first"), (8, "second")], 0.0)
    assert batch.take() == (7, "first")
    ((i, start, end, cpu),) = batch.take_outcomes()[3]  # by the other thread, while it runs
    assert (i, cpu) == (7, None)
    assert start <= end
    assert batch.take() == (8, "second")
    with pytest.raises(IndexError):
        batch.take()
    first, second = batch.take_outcomes()[3]
    assert (first[0], second[0]) == (7, 8)
    assert start == first[1] <= first[2] == second[1] <= second[2]
    for _, start, end, cpu in (first, second):
        assert 0 <= cpu <= end - start
    assert batch.take_outcomes()[3] == []


def test_one_module_changes_where_tasks_are_and_their_counts():
    fields = {"phase", "open", "under_way", "left", "unsent", "site", "home", "holder", "copies"}
    writers = {
        path.name
        for path in Path(decisions.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        and node.attr in fields
    }
    assert writers == {"pool_state.py"}
