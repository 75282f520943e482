"""Random graphs on few and many threads, with switches between threads as often as Python can.

After every example nothing may be left: no run in the pool's queues, no seat taken, no value
alive, no more threads than the pool has places for, and the next compute works.
"""

import _thread
import gc
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyflow
from lazyflow import Cancelled, TaskTimeout, compute, delayed, persist, wait
from lazyflow.graph.passes import make_plan
from lazyflow.graph.plan import Plan
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.threads import threads as pool

PATIENCE = 5.0  # seconds until something that must come to an end is called hanging


class Value:
    """A number that can be watched as it dies."""

    refs: list[weakref.ref[Any]] = []  # no WeakSet: a Ctrl-C in it loses what it watches

    def __init__(self, number: int) -> None:
        self.number = number
        Value.refs.append(weakref.ref(self))

    @classmethod
    def none_alive(cls) -> bool:
        cls.refs[:] = [ref for ref in cls.refs if ref() is not None]
        return not cls.refs


class Wrong(Exception):
    """What a task of these graphs raises."""


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def until(condition: Callable[[], bool]) -> bool:
    """Give threads that are on their way out the time to get there."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0)
    return True


def assert_nothing_left() -> None:
    assert until(lambda: not any(pool._queues)), "a run is still queued"
    assert until(lambda: all(t.run is None for t in (*pool._threads, *pool._sleeping))), "busy"
    assert not pool._sleeping
    assert until(lambda: len(pool._idle) == len(pool._threads)), "a thread is lost"
    assert len(pool._threads) <= max(1, pool._size)
    assert compute(delayed(abs)(-7), num_workers=1) == (7,)


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
            assert until(lambda: not seats.queued)
        self.seats.clear()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


class Graph:
    """A random graph of calls, and what plain Python makes of it."""

    def __init__(self, seed: int, size: int = 40, fails: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.fails = fails
        self.nodes: list[Any] = []
        self.expected: list[int | None] = []  # None: it fails
        for _ in range(size):
            self._add()
        count = self.random.randint(1, 6)
        self.wanted = [self.random.randrange(size) for _ in range(count)]

    def _add(self) -> None:
        inputs = self.random.choices(range(len(self.nodes)), k=self.random.randint(0, 4)) \
            if self.nodes else []
        bias, kind = self.random.randint(0, 9), self.random.random()
        values = [self.expected[i] for i in inputs]
        if None in values or kind < self.fails:
            self.expected.append(None)
        else:
            self.expected.append((sum(values) + bias) % 1009)  # type: ignore[arg-type]
        given = [self.nodes[i] for i in inputs]
        self.nodes.append(self._call(kind, given, bias))

    def _call(self, kind: float, given: list[Any], bias: int) -> Any:
        if kind < self.fails:
            return delayed(fail)(given, bias)
        if kind < 0.75:
            return delayed(plus)(*given, bias=bias)
        if kind < 0.80:
            return delayed(plus_list)(given, bias)
        if kind < 0.85:
            return delayed(plus, retries=1)(*given, bias=bias)
        if kind < 0.90:
            return delayed(plus, priority=bias)(*given, bias=bias)
        if kind < 0.95:
            return delayed(nested)(*given, bias=bias)
        return delayed(returned)(*given, bias=bias)

    def asked(self) -> list[Any]:
        return [self.nodes[i] for i in self.wanted]

    def check(self, values: list[Any]) -> None:
        for i, value in zip(self.wanted, values, strict=True):
            if self.expected[i] is None:
                assert isinstance(value, Wrong), value
            else:
                assert value.number == self.expected[i]


def plus(*values: Any, bias: int = 0) -> Value:
    return Value((sum(v.number for v in values) + bias) % 1009)


def plus_list(values: Any, bias: int) -> Value:
    return plus(*values, bias=bias)


def fail(values: Any, bias: int) -> Value:
    raise Wrong(f"bias {bias}")


def nested(*values: Any, bias: int) -> Value:
    parts = [delayed(plus)(v) for v in values]
    return compute(delayed(plus)(*parts, bias=bias), num_workers=1 + bias % 3)[0]


def returned(*values: Any, bias: int) -> Any:
    parts = [delayed(plus)(v) for v in values]
    return delayed(plus)(*parts, bias=bias)


def few_and_many(quick: int, many: int) -> Any:
    """Parametrize by the number of examples: a few for every commit, many when asked."""
    return pytest.mark.parametrize(
        "examples", [quick, pytest.param(many, marks=pytest.mark.slow)], ids=["few", "many"]
    )


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


def plans() -> Plan:
    graph = Graph(5)
    return make_plan(graph.asked())


@few_and_many(20, 1000)
def test_one_worker_and_deep_nesting(examples: int) -> None:
    """Spare threads stand in for sleeping ones only: there are never more than those."""
    most = 0

    def down(depth: int) -> int:
        nonlocal most
        most = max(most, threading.active_count())
        if depth == 0:
            return 1
        (x,) = persist(delayed(down)(depth - 1), num_workers=1)
        wait(x)
        return compute(x, num_workers=1)[0] + 1

    lazyflow.shutdown()
    before = threading.active_count()
    for _ in range(examples):
        assert compute(delayed(down)(10), num_workers=1) == (11,)
        assert_nothing_left()
    assert most <= before + 1 + 10


def test_more_workers_than_before_while_runs_are_active() -> None:
    lazyflow.shutdown()
    release, now, most = threading.Event(), [], []

    def hold(i: int) -> int:
        now.append(i)
        most.append(len(now))
        release.wait(PATIENCE)
        now.remove(i)
        return i

    slow = persist([delayed(hold)(i) for i in range(6)], num_workers=2)[0]
    meeting = threading.Barrier(5, timeout=PATIENCE)
    assert sorted(compute([delayed(meeting.wait)() for _ in range(5)], num_workers=7)[0]) == [
        0, 1, 2, 3, 4
    ]
    release.set()
    assert compute(slow) == ([0, 1, 2, 3, 4, 5],)
    assert max(most) <= 2
    del slow
    assert_nothing_left()


@few_and_many(40, 2000)
def test_num_workers_caps_running_tasks_with_nested_computes(examples: int) -> None:
    now: list[int] = []
    over: list[int] = []

    def leaf(i: int) -> int:
        now.append(i)
        if len(now) > 1:
            over.append(len(now))
        now.remove(i)
        return i

    def outer(_: int) -> int:
        return sum(compute([delayed(leaf)(i) for i in range(10)], num_workers=1)[0])

    for _ in range(examples):
        assert compute(delayed(outer)(0), num_workers=3) == (45,)
    assert not over
    assert_nothing_left()


def test_a_thread_that_slept_leaves_when_its_seat_is_taken() -> None:
    """With one worker two tasks run at once only while one of them has just woken."""
    gate, inner = threading.Event(), threading.Event()
    running: list[str] = []
    together: list[tuple[str, ...]] = []

    def wakes() -> None:
        wait(persist(delayed(gate.wait)(PATIENCE), num_workers=4))
        inner.set()

    def other(i: int) -> None:
        if i == 0:
            gate.set()
            inner.wait(PATIENCE)
        running.append(f"other {i}")
        together.append(tuple(running))
        for _ in range(100):
            pass
        running.remove(f"other {i}")

    first = delayed(wakes)()
    compute(first, [delayed(other)(i) for i in range(200)], num_workers=1)
    assert {len(names) for names in together} == {1}
    assert_nothing_left()


def wide() -> list[Any]:
    first = delayed(plus)(bias=1)
    return [delayed(plus)(first, bias=i) for i in range(4)]


#: What the main thread does; each returns when its result is there.
CALLS: dict[str, Callable[[], Any]] = {
    "compute": lambda: compute(wide(), num_workers=2),
    "one worker": lambda: compute(wide(), num_workers=1),
    "persist": lambda: compute(persist(wide(), num_workers=2)),
    "wait": lambda: wait(persist(*wide(), num_workers=1)),
    "cancel": lambda: [x.cancel() for x in persist(*wide(), num_workers=1)],
    "sync": lambda: compute(wide(), scheduler="sync"),
}


class CtrlC:
    """Interrupts the main thread, by a real signal, after a random time."""

    def __init__(self, seed: int) -> None:
        self.armed: list[None] = []
        self.before = signal.signal(signal.SIGINT, self.handle)
        spins = random.Random(seed).randrange(20_000)
        self.thread = threading.Thread(target=self.send, args=(spins,), daemon=True)

    def handle(self, *_: object) -> None:
        if self.armed:
            self.armed.clear()
            raise KeyboardInterrupt

    def send(self, spins: int) -> None:
        for _ in range(spins):
            pass
        _thread.interrupt_main()

    def into(self, call: Callable[[], Any]) -> bool:
        """Make the call; tell whether it was interrupted."""
        self.thread.start()
        try:
            try:
                self.armed.append(None)
                call()
            finally:
                self.armed.clear()
        except KeyboardInterrupt:
            return True
        finally:
            self.thread.join()
            signal.signal(signal.SIGINT, self.before)
        return False


@few_and_many(80, 10_000)
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_at_random_moments(
    call: str, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One that comes inside a finalizer is dropped by Python, and pytest's hook would keep its
    # frames, and so the values in them.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    interrupted = seed = 0
    while seed < examples or not interrupted:  # on a busy machine many come too late
        if seed % 5 == 0:
            lazyflow.shutdown()  # so that threads are started under fire too
        interrupted += CtrlC(seed).into(CALLS[call])
        seed += 1
        done: list[Any] = []
        again = threading.Thread(
            target=lambda d=done: d.append(compute(delayed(abs)(-1), num_workers=1)), daemon=True
        )
        again.start()
        again.join(PATIENCE)
        assert done == [(1,)], "no compute after an interrupt"
        assert compute(delayed(abs)(-2), num_workers=1, timeout=PATIENCE) == (2,)
    assert_nothing_left()
    gc.collect()
    assert until(Value.none_alive)
