"""Each rule of advice speaks of its mistake, and not of programs that are well made."""

import pathlib
import time

import pytest
from advice_records import found, rules, run, runs_in_turn, task

import lazyflow
from lazyflow import compute, delayed
from lazyflow.diagnostics.profiling.advice import RULES


class TestGapsBetweenComputes:
    def test_the_caller_works_between_computes(self):
        (one,) = found([], runs_in_turn(1.0, 1.0, 5, tasks=100))
        assert str(one) == (
            "for 4 s of 10 s no task ran: 4 times the caller worked on its own after a compute, "
            "before the next one (main.py:7 in main) - workers have nothing to do meanwhile - "
            "make that work tasks too, delayed(f)(x), and compute once at the end; or go on while "
            "tasks run: x, = lazyflow.persist(x)"
        )

    @pytest.mark.parametrize(
        "runs",
        [
            runs_in_turn(1.0, 0.1, 9, tasks=100),
            runs_in_turn(1.0, 4.0, 2, tasks=100),  # once is no habit
            [run(5, 6, tasks=100)],  # what is before and after is no gap between computes
            runs_in_turn(1.0, 1.0, 5, tasks=100, scheduler="sync"),  # the caller is the worker
            runs_in_turn(1.0, 1.0, 5, tasks=100, user=False),
            [run(0, 1, tasks=50), run(0, 9, tasks=50), run(2, 3, tasks=50)],  # another one runs
        ],
    )
    def test_quiet(self, runs):
        assert rules([], runs) == []


class TestComputesInALoop:
    def test_small_graphs_in_turn(self):
        (one,) = found([], runs_in_turn(0.1, 0.0, 100))
        assert one.seen == (
            "100 computes of 1 task each, one after the other, took 10 s"
        )
        assert "lazyflow.compute([f(x) for x in xs])" in one.do
        assert one.place == "main.py:7 in main"

    @pytest.mark.parametrize(
        "runs",
        [
            runs_in_turn(0.1, 0.0, 100, tasks=20),
            runs_in_turn(0.1, 0.0, 9),  # few
            runs_in_turn(0.001, 0.0, 100),  # they take no time
            runs_in_turn(0.1, 0.0, 100, user=False),
            [run(0, 5) for _ in range(100)],  # persists, all at once
            [run(k / 10, k / 10 + 0.1, place=f"main.py:{k}") for k in range(100)],  # no loop
        ],
    )
    def test_quiet(self, runs):
        assert rules([], runs) == []

    def test_quiet_on_one_core(self):
        assert rules([], runs_in_turn(0.1, 0.0, 100), cores=1) == []


class TestTasksTooShort:
    def test_many_of_a_microsecond(self):
        tasks = [task(k * 1e-5, k * 1e-5 + 1e-6, name="inc") for k in range(100_000)]
        (one,) = found(tasks, [run(0, 1, tasks=100_000)], 1.0)
        assert one.seen == (
            "100,000 calls of inc took 1 µs each; on threads a task costs about 3 µs beyond its "
            "work"
        )
        assert "partition_all(1000, items)" in one.do

    @pytest.mark.parametrize(
        ("seconds", "count", "name"),
        [(1e-5, 100_000, "inc"), (1e-6, 1_000, "inc"), (1e-6, 100_000, "split[0]")],
    )
    def test_quiet(self, seconds, count, name):
        tasks = [task(k * 1e-5, k * 1e-5 + seconds, name=name) for k in range(count)]
        assert rules(tasks, [run(0, 1, tasks=count)], 1.0) == []


class TestLockBoundThreads:
    def two_threads(self, cpu):
        return [task(0, 5, "w-1", cpu=5 * cpu), task(0, 5, "w-2", name="g", cpu=4 * cpu)]

    def test_two_threads_use_one_core_while_another_is_idle(self):
        (one,) = found(self.two_threads(0.5), [run(0, 5, tasks=2)], 5.0, idle=5.0)
        assert one.seen == (
            "2 tasks ran at once on threads, mostly g, and used 0.9 cores together, while cores "
            "were idle"
        )
        assert 'scheduler="processes"' in one.do

    def test_quiet(self):
        held, free, waiting = (self.two_threads(share) for share in (0.5, 1.0, 0.1))
        threads = [run(0, 5, tasks=2)]
        assert rules(free, threads, 5.0, idle=0.0) == []
        assert rules(waiting, threads, 5.0, idle=8.0) == []
        assert rules(held, threads, 5.0, idle=0.5) == []  # other programs have the other core
        assert rules(held, threads, 5.0, idle=None) == []
        assert rules(held, [run(0, 5, tasks=2, scheduler="processes")], 5.0, idle=5.0) == []
        assert rules(held, threads, 5.0, idle=5.0, cores=1) == []


class TestUnbalancedTasks:
    def tasks(self, longest):
        even = [task(k // 2, k // 2 + 1, f"w-{k % 2}") for k in range(10)]
        return [*even, task(4, 4 + longest, "w-3")]

    def test_one_runs_on_alone(self):
        (one,) = found(self.tasks(6), [run(0, 10, tasks=11)])
        assert one.seen == (
            "one call of f took 6 s, others 1 s (median of 10); for 5 s of a run of 10 s it ran "
            "alone"
        )
        assert one.why == "the other 2 workers waited for it"
        assert "delayed(f, priority=1)" in one.do

    def test_quiet(self):
        assert rules(self.tasks(2), [run(0, 6, tasks=11)]) == []
        other = [*self.tasks(1), task(5, 10, "w-1", name="total")]  # has none of its like
        assert rules(other, [run(0, 10, tasks=12)]) == []
        assert rules(self.tasks(6), [run(0, 10, tasks=11, user=False)]) == []


class TestChains:
    def chain(self, **more):
        return [task(k, k + 1, f"w-{k % 2}") for k in range(10)], [
            run(0, 10, **{"tasks": 12, "chain": 10} | more)
        ]

    def test_each_needs_the_one_before(self):
        (one,) = found(*self.chain())
        assert one.seen == (
            "10 of the 12 tasks of a run form a chain, mostly f; it took 10 s on one worker at a "
            "time"
        )
        assert "lazyflow.tree_reduce(f, parts)" in one.do

    def test_quiet(self):
        assert rules(*self.chain(tasks=100)) == []
        assert rules(*self.chain(scheduler="sync")) == []
        assert rules(*self.chain(user=False)) == []
        assert rules(*self.chain(), cores=1) == []
        tasks, runs = self.chain()
        assert rules([*tasks, task(0, 9, "w-3")], runs) == []  # others run beside it


def test_the_readme_counts_the_rules():
    readme = pathlib.Path(__file__).parents[2].joinpath("README.rst").read_text()
    assert len(RULES) == 17 and "it detects seventeen" in " ".join(readme.split())


def test_every_rule_has_a_sentence_and_is_tested():
    texts = [path.read_text() for path in pathlib.Path(__file__).parent.glob("test_advice*.py")]
    for rule in RULES:
        assert rule.__doc__.endswith(".")
        name = "".join(word.capitalize() for word in rule.__name__.split("_"))
        assert any(f"class Test{name}:" in text for text in texts), name


def test_a_loop_of_computes_is_found_in_a_program():
    with lazyflow.profile() as p:
        for _ in range(20):
            delayed(time.sleep)(0.01).compute(scheduler="threads")
    if lazyflow.config.cpu_count() == 1:
        pytest.skip("nothing could run at once")
    (one,) = [each for each in p.advice() if each.rule == "computes in a loop"]
    assert "test_advice.py" in one.place
    assert one.seen.startswith("20 computes of 1 task each")


def test_a_good_program_gets_none():
    with lazyflow.profile() as p:
        compute([delayed(time.sleep)(0.02) for _ in range(10)], scheduler="threads")
        assert p.advice() == []
    assert p.advice() == []
