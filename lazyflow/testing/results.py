"""Contract: results are right, whatever the graph's shape and the thread that computes.

So are those of tasks that `persist` started, also when they are not wanted any more.
"""

from __future__ import annotations

import contextvars
import decimal
import gc
import logging
import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import lazyflow
from lazyflow import Delayed, annotate, config, delayed, persist, trace, wait
from lazyflow.graph.plan import in_order
from lazyflow.testing.base import Part
from lazyflow.testing.signals import (
    Barrier,
    Counted,
    Gate,
    Level,
    Tally,
    add,
    change_the_word,
    given,
    inc,
    scheduler_name,
    the_word,
    word,
)


def tree(leaves: list[Delayed]) -> Delayed:
    """Add pairwise."""
    plus = delayed(add)
    while len(leaves) > 1:
        pairs = [plus(a, b) for a, b in zip(leaves[::2], leaves[1::2], strict=False)]
        leaves = pairs + leaves[len(pairs) * 2 :]
    return leaves[0]


class ResultContract(Part):
    """Results."""

    def test_tasks_run_where_the_scheduler_says(self) -> None:
        assert (self.compute(delayed(os.getpid)()) == os.getpid()) is self.shares_memory

    def test_values_in_their_places(self) -> None:
        x = delayed(inc)(1)
        found = self.compute(x, [x, {"k": (x, 5)}], "plain", 3)
        assert found == (2, [2, {"k": (2, 5)}], "plain", 3)

    @pytest.mark.parametrize("seed", range(5))
    def test_calls_of_every_form(self, seed: int) -> None:
        """Positions, keywords, literals, lazy values and containers of both, in any mixture.

        The same function is called again and again: a worker takes a shorter way for it then.
        """
        rng = random.Random(seed)

        def argument() -> tuple[Any, Any]:
            n = rng.randrange(100)
            return rng.choice([
                (n, n), (str(n), str(n)), (delayed(inc)(n), n + 1), ([n, "x"], [n, "x"]),
                ([delayed(inc)(n)], [n + 1]), ({"k": (delayed(n), n)}, {"k": (n, n)}),
                (None, None), (b"b", b"b"),
            ])

        calls, right = [], []
        for _ in range(80):
            args = [argument() for _ in range(rng.randrange(4))]
            kwargs = {name: argument() for name in rng.sample("abcd", rng.randrange(4))}
            calls.append(
                delayed(given)(*(a for a, _ in args), **{k: v for k, (v, _) in kwargs.items()})
            )
            right.append((tuple(v for _, v in args), {k: v for k, (_, v) in kwargs.items()}))
        for _ in range(2):
            assert self.compute(calls) == right
        assert [self.compute(call) for call in calls[:10]] == right[:10]

    def test_an_iterator_over_lazy_values_becomes_a_list(self) -> None:
        assert self.compute(delayed(inc)(i) for i in range(3)) == [1, 2, 3]
        assert list(self.compute(iter([1, 2]))) == [1, 2]

    def test_nothing_lazy(self) -> None:
        assert lazyflow.compute(1, [2], scheduler=self.scheduler) == (1, [2])
        assert lazyflow.compute(scheduler=self.scheduler) == ()

    def test_the_same_value_twice(self) -> None:
        x = delayed(inc)(1)
        assert self.compute(x, x) == (2, 2)
        assert self.compute(delayed(add)(x, x)) == 4

    def test_shared_work_runs_once(self) -> None:
        calls = Tally()
        x = delayed(lambda: calls.add("x") and 7)()
        assert self.compute(x + 1, [x + 2], delayed(max)(x, x)) == (8, [9], 7)
        assert calls.items() == ["x"]

    def test_shapes(self) -> None:
        n = 500
        one = delayed(inc)
        chain = one(0)
        for _ in range(n - 1):
            chain = one(chain)
        wide = delayed(sum)([one(i) for i in range(n)])
        assert self.compute(chain, wide) == (n, n * (n + 1) // 2)
        assert self.compute(tree([one(i) for i in range(n)])) == n * (n + 1) // 2
        assert self.compute([one(i) for i in range(n)]) == list(range(1, n + 1))

    def test_a_deep_chain(self) -> None:
        one = delayed(inc)
        x = one(0)
        for _ in range(20_000 - 1):
            x = one(x)
        assert self.compute(x) == 20_000

    def test_butterfly(self) -> None:
        width, plus = 16, delayed(add)
        row: list[Any] = [delayed(i) for i in range(width)]
        plain: list[Any] = list(range(width))
        for step in (1, 2, 4, 8):
            row = [plus(row[i], row[i ^ step]) for i in range(width)]
            plain = [plain[i] + plain[i ^ step] for i in range(width)]
        assert self.compute(row) == plain

    def test_one_worker_and_many(self) -> None:
        x = tree([delayed(inc)(i) for i in range(64)])
        assert {self.compute(x, num_workers=n) for n in (1, 2, 5)} == {64 * 65 // 2}

    def test_nested_compute_to_depth_five_with_one_worker(self) -> None:
        def nested(depth: int) -> int:
            if depth == 0:
                return 1
            below = delayed(nested)(depth - 1)
            return sum(lazyflow.compute(below, below + 1, num_workers=1))

        def plain(depth: int) -> int:
            return 1 if depth == 0 else 2 * plain(depth - 1) + 1

        assert self.compute(delayed(nested)(5), num_workers=1) == plain(5)

    def test_many_nested_computes_at_once(self) -> None:
        def outer(i: int) -> int:
            return sum(lazyflow.compute(*[delayed(inc)(i + k) for k in range(5)]))

        expected = [sum(i + k + 1 for k in range(5)) for i in range(20)]
        assert self.compute([delayed(outer)(i) for i in range(20)], num_workers=2) == expected

    def test_a_nested_compute_runs_on_the_same_scheduler(self) -> None:
        def outside() -> tuple[Any, Any]:
            return scheduler_name(), delayed(scheduler_name)().compute()

        mine, nested = self.compute(delayed(outside)())
        assert mine == nested

    def test_a_task_that_returns_a_lazy_value_is_computed_on(self) -> None:
        f = delayed(lambda x: delayed(inc)(x))
        assert self.compute(f(1), f(f(2)) + 1, [f(f(f(3)))]) == (2, 5, [6])
        assert self.compute(delayed(lambda: delayed(5))()) == 5

    def test_recursion_by_returned_tasks(self) -> None:
        fib: Any = delayed(lambda n: n if n < 2 else fib(n - 1) + fib(n - 2))
        assert self.compute(fib(13)) == 233

    def test_a_loop_of_returned_tasks_is_as_long_as_it_likes(self) -> None:
        count: Any = delayed(lambda n: n if n == 2_000 else count(n + 1))
        assert self.compute(count(0)) == 2_000

    def test_recursion_by_nested_compute(self) -> None:
        def fib(n: int) -> int:
            return n if n < 2 else sum(lazyflow.compute(lazy(n - 1), lazy(n - 2)))

        lazy = delayed(fib)
        assert self.compute(lazy(8), num_workers=2) == 21

    def test_context_variables_of_the_caller_are_seen(self) -> None:
        token = word.set("said")
        try:
            assert self.compute([delayed(the_word)(i) for i in range(10)]) == ["said"] * 10
        finally:
            word.reset(token)
        assert self.compute(delayed(the_word)()) == "unset"

    def test_a_context_variable_that_a_task_holds(self) -> None:
        mine: contextvars.ContextVar[int] = contextvars.ContextVar("mine", default=0)
        mine.set(5)
        assert self.compute(delayed(lambda: mine.get())()) == 5

    def test_what_a_task_sets_stays_with_it(self) -> None:
        assert self.compute(delayed(change_the_word)(), num_workers=1) == "changed"
        assert word.get() == "unset"
        assert self.compute(delayed(the_word)(), num_workers=1) == "unset"

    def test_the_decimal_context_holds_in_tasks(self) -> None:
        third = delayed(lambda: str(decimal.Decimal(1) / 3))
        with decimal.localcontext(prec=5):
            assert self.compute(third()) == "0.33333"

    def test_numpy_errstate_holds_in_tasks(self) -> None:
        numpy = pytest.importorskip("numpy")
        divide = delayed(lambda: numpy.float64(1) / numpy.float64(0))
        with numpy.errstate(divide="raise"), pytest.raises(FloatingPointError):
            self.compute(divide())

    def test_config_holds_in_tasks(self) -> None:
        with config.set(max_runs_ahead=3):
            assert self.compute(delayed(config.get)("max_runs_ahead")) == 3

    def test_several_threads_may_compute_at_once(self) -> None:
        def user(k: int) -> list[Any]:
            x = tree([delayed(inc)(i * k) for i in range(200)])
            return [self.compute(x) for _ in range(3)]

        with ThreadPoolExecutor(4) as users:
            found = list(users.map(user, range(4)))
        assert found == [[sum(i * k + 1 for i in range(200))] * 3 for k in range(4)]

    def test_tasks_run_at_the_same_time(self) -> None:
        self.needs(self.parallel, "one task at a time")
        meeting = Barrier(2)
        both = [delayed(meeting.wait)() for _ in range(2)]
        assert sorted(self.compute(both, num_workers=2)) == [0, 1]

    def test_num_workers_caps_running_tasks(self) -> None:
        def work(i: int, running: Level) -> int:
            with running:
                for _ in range(50):
                    running.now()  # reads a file: other workers may begin meanwhile
            return i

        for cap in (5, 2):
            running = Level()
            work_on = delayed(work)
            self.compute([work_on(i, running) for i in range(30)], num_workers=cap)
            assert running.most() <= cap

    def test_higher_priority_starts_first(self) -> None:
        """Of tasks that could all run the urgent ones are wanted first, whatever their names."""
        for names in ("abcdef", "fedcba"):
            order = Tally()
            xs = []
            for at, name in enumerate(names):
                with annotate(priority=at):
                    xs.append(delayed(order.add)(name, dask_key_name=name))
            self.compute(xs, num_workers=1)
            assert order.items() == list(reversed(names))

    def test_priority_does_not_change_results(self) -> None:
        xs = [delayed(inc, priority=i % 3)(i) for i in range(50)]
        total = delayed(sum, priority=-1)([delayed(inc, priority=-(i % 2))(x) for i, x in
                                           enumerate(xs)])
        assert self.compute(total) == sum(i + 2 for i in range(50))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork in a process with threads
    def test_a_forked_child_can_compute(self) -> None:
        self.needs(self.survives_fork, "threads of somebody else's pool are not there in the child")
        x = tree([delayed(inc)(i) for i in range(32)])
        self.compute(x)
        pid = os.fork()
        if pid == 0:  # pragma: no cover
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(30)  # it ends, whatever it waits for
                os._exit(0 if self.compute(x) == 32 * 33 // 2 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def test_a_trace_reruns_with_other_leaves(self) -> None:
        built: list[int] = []  # here, not in a task

        def build(x: Any, y: Any) -> Any:
            built.append(1)
            return tree([delayed(add)(x, i) for i in range(16)]), {"y": y + 1}

        step = trace(build, scheduler=self.scheduler)
        for x, y in ((0, 1), (5, 2), (7, 3)):
            assert step(x, y) == (sum(x + i for i in range(16)), {"y": y + 1})
        assert built == [1]

    def test_two_threads_may_rerun_one_trace(self) -> None:
        step = trace(
            lambda x: tree([delayed(add)(x, i) for i in range(64)]), scheduler=self.scheduler
        )

        def user(k: int) -> list[Any]:
            return [step(k * j) for j in range(20)]

        with ThreadPoolExecutor(3) as users:
            found = list(users.map(user, range(3)))
        assert found == [
            [sum(k * j + i for i in range(64)) for j in range(20)] for k in range(3)
        ]


class BackgroundContract(Part):
    """Work in the background."""

    def test_persist_keeps_places_and_kinds(self) -> None:
        x, y = delayed(inc)(1), delayed(inc)(2)
        a, (b, rest), plain = self.persist(x, [y, {"k": x}], 5)
        assert plain == 5
        assert [type(v).__name__ for v in (a, b, rest["k"])] == ["Delayed"] * 3
        assert self.compute(a, b, rest["k"]) == (2, 3, 2)

    def test_persist_always_returns_a_tuple(self) -> None:
        assert isinstance(persist(delayed(inc)(1), scheduler=self.scheduler), tuple)
        assert persist(1, scheduler=self.scheduler) == (1,)

    def test_persisted_work_runs_once(self) -> None:
        calls = Tally()
        x = self.persist(delayed(lambda: calls.add("x") and 3)())
        assert self.compute(x + 1, x + 2) == (4, 5)
        assert self.compute(x) == 3
        assert calls.items() == ["x"]

    def test_persist_returns_at_once(self) -> None:
        self.needs(not self.eager, "this scheduler computes where it stands")
        release = Gate()
        x = self.persist(delayed(release.wait)(60))
        assert repr(x) == "<Delayed wait: pending>"
        release.open()
        assert self.compute(x) is True
        assert repr(x) == "<Delayed wait: finished>"

    def test_a_loop_of_persist_steps_has_a_graph_of_constant_size(self) -> None:
        x: Any = delayed(0)
        sizes = set()
        for _ in range(300):
            x = self.persist(delayed(inc)(x))
            sizes.add(len(in_order([x])[0]))
        assert sizes == {1}
        assert self.compute(x) == 300

    def test_the_history_is_dropped(self) -> None:
        alive = Level()
        x = delayed(lambda: Counted(alive))()
        y = self.persist(delayed(lambda value: 5)(x))
        del x
        wait(y)
        self.word_travels()
        assert alive.most() >= 1
        assert alive.wait_for(0)  # the thread that ran it may hold it a moment longer
        assert self.compute(y) == 5

    def test_the_value_is_freed_with_the_last_reference(self) -> None:
        alive, calls = Level(), Tally()
        x = self.persist(delayed(lambda: calls.add("x") and Counted(alive))())
        value = self.compute(x)
        assert type(value) is Counted
        del value
        self.word_travels()
        assert self.compute(delayed(lambda value: value.alive.now())(x)) >= 1
        assert calls.items() == ["x"]
        if self.shares_memory:
            assert alive.now() == 1
        del x
        assert self.comes_to(alive, 0)

    def test_an_error_surfaces_at_first_use(self) -> None:
        x, y = self.persist(delayed(lambda: 1 / 0)(), delayed(inc)(1))
        assert self.compute(y) == 2
        for _ in range(2):
            with pytest.raises(ZeroDivisionError) as caught:
                self.compute(x + 1)
            assert len(caught.value.__notes__) == 1

    def test_an_error_nobody_saw_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR, logger="lazyflow"):
            logged = threading.Event()
            caplog.handler.addFilter(lambda record: logged.set() or True)
            x = self.persist(delayed(lambda: 1 / 0, name="lost")())
            wait(x)
            del x
            gc.collect()
            assert logged.wait(20)  # the thread that ran it may hold it a moment longer
            for _ in range(3):
                self.compute(delayed(inc)(1))
        told = [r.getMessage() for r in caplog.records]
        assert len(told) == 1
        assert "nobody looked at had failed: ZeroDivisionError" in told[0]
        assert "in lazyflow task lost()" in told[0]

    def test_a_seen_error_is_not_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR, logger="lazyflow"):
            x = self.persist(delayed(lambda: 1 / 0)())
            with pytest.raises(ZeroDivisionError):
                self.compute(x)
            del x
            gc.collect()
            self.compute(delayed(inc)(1))
        assert caplog.records == []

    def test_dropped_work_is_not_started(self) -> None:
        self.needs(not self.eager, "persist is done before it can be dropped")
        release, ran = Gate(), Tally()

        def step(x: Any, name: str) -> int:
            ran.add(name)
            return 1

        first = delayed(step)(delayed(release.wait)(60), "first")
        wanted = delayed(step)(first, "wanted")
        dropped = delayed(step)(first, "dropped")
        a, b = self.persist(wanted, dropped, num_workers=1)
        del b
        self.word_travels()
        release.open()
        assert self.compute(a) == 1
        assert ran.items() == ["first", "wanted"]

    def test_work_nobody_wants_any_more_ends(self) -> None:
        self.needs(not self.eager, "persist is done before it can be dropped")
        release, started, ran = Gate(), Gate(), Tally()

        def wait_here() -> None:
            started.open()
            release.wait()

        gate = delayed(wait_here)()
        xs = self.persist([delayed(lambda _, i: ran.add(i))(gate, i) for i in range(20)],
                          num_workers=1)
        assert started.wait()
        del xs
        self.word_travels()
        release.open()
        self.compute(delayed(inc)(1))
        assert ran.items() == []

    def test_pending_values_are_inputs_like_any_other(self) -> None:
        self.needs(not self.eager, "nothing is pending here")
        release = Gate()
        x = self.persist(delayed(lambda: release.wait(60) and 5)())
        y = self.persist(delayed(add)(x, 1))
        z = self.persist(delayed(add)(y, x))
        release.open()
        assert self.compute(z, x) == (11, 5)

    def test_at_most_max_runs_ahead(self) -> None:
        self.needs(not self.eager, "nothing runs ahead here")
        release, passed = Gate(), threading.Semaphore(0)

        def user() -> None:
            kept = []
            with config.set(max_runs_ahead=3):
                for _ in range(4):
                    kept.append(self.persist(delayed(release.wait)(60), num_workers=2))
                    passed.release()
            wait(kept)

        thread = threading.Thread(target=user)
        thread.start()
        with release:
            assert all(passed.acquire(timeout=30) for _ in range(3))
            assert not passed.acquire(timeout=0.05)
        assert passed.acquire(timeout=30)
        thread.join()

    def test_wait_gives_done_and_pending_in_order(self) -> None:
        self.needs(not self.eager, "everything is done here")
        release = Gate()
        slow = self.persist(delayed(release.wait)(60), num_workers=2)
        quick = [self.persist(delayed(inc)(i), num_workers=2) for i in range(3)]
        with release:
            done, pending = wait([quick[0], slow, *quick[1:]], num_returns=3)
            assert [id(x) for x in done] == [id(x) for x in quick]
            assert pending[0] is slow and len(pending) == 1
            assert wait(slow, timeout=0.01)[0] == []
        assert wait([slow])[1] == []

    def test_wait_counts_failures_as_done(self) -> None:
        x = self.persist(delayed(lambda: 1 / 0)())
        done, pending = wait([x])
        assert len(done) == 1 and pending == []
        with pytest.raises(ZeroDivisionError):
            self.compute(x)

    def test_wait_refuses_what_is_not_running(self) -> None:
        with pytest.raises(TypeError, match=r"Write: x, = lazyflow\.persist\(x\)"):
            wait([delayed(inc)(1)])
        x = self.persist(delayed(inc)(1))
        with pytest.raises(ValueError, match=r"num_returns must be between 0 and .* \(1\); got 2"):
            wait([x], num_returns=2)

    def test_waiting_inside_a_task_with_one_worker(self) -> None:
        def task() -> int:
            x = persist(delayed(inc)(1), num_workers=1)[0]
            wait([x])
            return int(lazyflow.compute(x, num_workers=1)[0]) + 1

        assert self.compute(delayed(task)(), num_workers=1) == 3

    def test_persisted_inputs_choose_the_scheduler(self) -> None:
        x = self.persist(delayed(scheduler_name)(0))
        assert delayed(scheduler_name)(x).compute() == self.compute(x)
