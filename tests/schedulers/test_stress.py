"""Random graphs on few and many threads, with switches between threads as often as Python can.

After every example nothing may be left: no run in the pool's queues, no seat taken, no value
alive, no more threads than the pool has places for, and the next compute works.
"""

import gc
import random
import threading
from typing import Any

import pytest
from stress_tools import PATIENCE, Graph, Value, Wrong, assert_nothing_left, few_and_many, plus
from waiting import until

import lazyflow
from lazyflow import Cancelled, TaskTimeout, compute, delayed, persist
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.threads import threads as pool

pytestmark = pytest.mark.usefixtures("frequent_switches")


class Watched:
    """Notes every run that is made, to look at it when it is over."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seats: list[Any] = []
        start = type(pool).start

        def noting(scheduler: Any, run: Run) -> None:
            start(scheduler, run)
            self.seats.append(run.attached)

        patch.setattr(type(pool), "start", noting)

    def assert_all_given_back(self) -> None:
        for seats in self.seats:
            assert until(lambda: len(seats.free) == seats.count), (len(seats.free), seats.count)
        assert until(lambda: not pool._queued), pool._queued
        self.seats.clear()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@few_and_many(60, 4000)
def test_random_graphs(examples: int, watched: Watched) -> None:
    for seed in range(examples):
        graph = Graph(seed)
        graph.check(compute(graph.asked(), num_workers=1 + seed % 8)[0])
        assert_nothing_left()
        watched.assert_all_given_back()
    del graph
    assert until(Value.none_alive)


@few_and_many(40, 3000)
def test_random_graphs_with_failing_tasks(examples: int, watched: Watched) -> None:
    for seed in range(examples):
        graph = Graph(seed, fails=0.05)
        graph.check(compute(graph.asked(), num_workers=1 + seed % 8, on_error="collect")[0])
        failing = any(graph.expected[i] is None for i in graph.wanted)
        try:
            compute(graph.asked(), num_workers=1 + seed % 8)
            assert not failing
        except Wrong:
            assert any(value is None for value in graph.expected)
        watched.assert_all_given_back()
        assert_nothing_left()
    del graph
    assert until(Value.none_alive)


@few_and_many(200, 10_000)
def test_mutating_tasks_edit_nobody_elses_value(examples: int) -> None:
    numpy = pytest.importorskip("numpy")

    def double(x: Any) -> Any:
        x *= 2
        return x

    for seed in range(examples):
        rng = random.Random(seed)
        nodes: list[Any] = [delayed(numpy.full)(3, float(i)) for i in range(3)]
        plain = [float(i) for i in range(3)]
        for _ in range(25):
            i = rng.randrange(len(nodes))
            if rng.random() < 0.5:
                nodes.append(delayed(double, mutates=True)(nodes[i]))
                plain.append(plain[i] * 2)
            else:
                nodes.append(delayed(numpy.add)(nodes[i], 1.0))
                plain.append(plain[i] + 1)
        values = compute(nodes[-5:], num_workers=1 + seed % 8)[0]
        assert [v.tolist() for v in values] == [[p] * 3 for p in plain[-5:]]
    assert_nothing_left()


@few_and_many(40, 3000)
def test_persisted_values_dropped_and_cancelled_at_random(examples: int) -> None:
    for seed in range(examples):
        rng = random.Random(seed)
        graph = Graph(seed, fails=0.02)
        kept = dict(zip(graph.wanted, persist(*graph.asked(), num_workers=1 + seed % 8),
                        strict=True))
        followed = {}
        for i in list(kept):
            what = rng.random()
            if what < 0.3:
                del kept[i]
            elif what < 0.5:
                kept.pop(i).cancel()
            elif what < 0.8:
                followed[i] = persist(delayed(plus)(kept[i]), num_workers=1 + seed % 3)[0]
        for i, x in {**kept, **followed}.items():
            if graph.expected[i] is None:
                with pytest.raises(Wrong):
                    compute(x)
            else:
                assert compute(x)[0].number == graph.expected[i]
        kept.clear()
        followed.clear()
        x = None
        assert_nothing_left()
    del graph
    gc.collect()  # pytest.raises keeps frames in cycles
    assert until(Value.none_alive)


@few_and_many(30, 1500)
def test_a_cancelled_value_is_cancelled_or_computed(examples: int) -> None:
    for seed in range(examples):
        graph = Graph(seed)
        x, y = persist(graph.nodes[-1], graph.nodes[-2], num_workers=1 + seed % 4)
        in_time = x.cancel()
        try:
            assert compute(x)[0].number == graph.expected[-1]
            assert not in_time
        except Cancelled:
            assert in_time
        assert compute(y)[0].number == graph.expected[-2]
        del x, y
        assert_nothing_left()


@few_and_many(8, 300)
def test_several_user_threads_on_one_pool(examples: int, watched: Watched) -> None:
    def user(seed: int, found: list[Any]) -> None:
        try:
            for k in range(4):
                graph = Graph(seed * 4 + k, fails=0.02)
                graph.check(
                    compute(graph.asked(), num_workers=1 + k, on_error="collect")[0]
                )
        except BaseException as error:
            found.append(error)

    for seed in range(examples):
        found: list[Any] = []
        users = [threading.Thread(target=user, args=(seed * 5 + k, found)) for k in range(5)]
        for each in users:
            each.start()
        for each in users:
            each.join(PATIENCE)
        assert not found
        assert not any(each.is_alive() for each in users)
        watched.assert_all_given_back()
        assert_nothing_left()


@few_and_many(40, 2000)
def test_timeouts_at_random_moments(examples: int) -> None:
    for seed in range(examples):
        graph = Graph(seed)
        limit = random.Random(seed).random() * 2e-3
        try:
            graph.check(compute(graph.asked(), num_workers=1 + seed % 4, timeout=limit)[0])
        except TaskTimeout as error:
            assert f"after {limit:g} s" in str(error)
        assert_nothing_left()
    del graph
    assert until(Value.none_alive)


@few_and_many(20, 1000)
def test_shutdown_at_random_moments(examples: int) -> None:
    for seed in range(examples):
        graph = Graph(seed)
        kept = persist(*graph.asked(), num_workers=1 + seed % 4)
        lazyflow.shutdown()
        for i, x in zip(graph.wanted, kept, strict=True):
            try:
                assert compute(x, num_workers=1)[0].number == graph.expected[i]
            except Cancelled:
                pass
        del kept, x
        assert_nothing_left()
