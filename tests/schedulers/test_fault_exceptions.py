"""Exceptions that do not behave, and what is left in memory."""

import gc
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from error_tools import in_child
from waiting import until

import lazyflow
from lazyflow import RemoteTaskError, compute, delayed, persist, wait
from lazyflow.schedulers.core.run import BaseRun
from lazyflow.schedulers.threads import threads as pool
from lazyflow.testing.signals import inc

BOTH = pytest.mark.parametrize("scheduler", ["sync", "threads"])

# -- exceptions that do not behave ----------------------------------------------------------


class Hostile(Exception):
    """Every method that somebody who handles an exception may call raises."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("hostile")

    __str__ = __repr__ = add_note = with_traceback = _refuse  # type: ignore[assignment]

    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("hostile")

    @property
    def __notes__(self) -> Any:
        raise SystemExit("hostile")


class HostileEnd(SystemExit):
    __str__ = __repr__ = Hostile._refuse  # type: ignore[assignment]


def throw(error: BaseException) -> None:
    try:
        raise error
    finally:
        del error  # a frame that holds its own exception is a cycle


@BOTH
@pytest.mark.parametrize("collect", [False, True])
def test_a_hostile_exception_is_raised_all_the_same(scheduler: str, collect: bool) -> None:
    x = delayed(lambda: throw(Hostile("x")))()
    if collect:
        assert type(compute(x, scheduler=scheduler, on_error="collect")[0]) is Hostile
        return
    try:
        compute(x, scheduler=scheduler)
    except Hostile:  # pytest.raises would print it
        return
    pytest.fail("nothing was raised")


@BOTH
def test_an_ending_without_a_text_is_wrapped(scheduler: str) -> None:
    with pytest.raises(RemoteTaskError, match=r"HostileEnd\(\(its text can't be had: __str__"):
        compute(delayed(lambda: throw(HostileEnd()))(), scheduler=scheduler)


def test_a_hostile_exception_that_nobody_looked_at_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (x,) = persist(delayed(lambda: throw(Hostile("x")))())
    wait(x)
    del x
    gc.collect()
    assert compute(delayed(abs)(-1)) == (1,)
    told = "Hostile: (its text can't be had: __str__ raised RuntimeError)"
    assert until(lambda: told in caplog.text)  # a thread of its own logs it


@BOTH
def test_one_exception_raised_by_many_tasks(scheduler: str) -> None:
    shared = ValueError("shared")
    f = delayed(throw)
    for _ in range(5):
        with pytest.raises(ValueError, match="shared") as caught:
            compute(f(shared), scheduler=scheduler)
        assert caught.value is shared
        assert len(shared.__notes__) == 1  # the same task, the same note
    a, b = compute(f(shared), delayed(lambda: throw(shared))(), scheduler=scheduler,
                   on_error="collect")
    assert a is b is shared
    assert 2 <= len(shared.__notes__) <= 3


@BOTH
def test_an_exception_group_arrives_whole(scheduler: str) -> None:
    def several() -> None:
        errors = []
        for word in "ab":
            try:
                raise ValueError(word)
            except ValueError as error:
                errors.append(error)
        raise ExceptionGroup("several", errors)

    with pytest.raises(ExceptionGroup) as caught:
        compute(delayed(several)(), scheduler=scheduler)
    assert [str(e) for e in caught.value.exceptions] == ["a", "b"]
    assert all(e.__traceback__ is not None for e in caught.value.exceptions)


@BOTH
def test_a_group_of_endings_is_wrapped(scheduler: str) -> None:
    group = BaseExceptionGroup("end", [SystemExit(3)])
    with pytest.raises(RemoteTaskError) as caught:
        compute(delayed(throw)(group), scheduler=scheduler)
    assert caught.value.__cause__ is group


@BOTH
def test_cause_context_and_notes_of_the_task_are_kept(scheduler: str) -> None:
    def fails() -> None:
        try:
            raise KeyError("below")
        except KeyError as below:
            error = ValueError("above")
            error.add_note("mine")
            raise error from below

    with pytest.raises(ValueError, match="above") as caught:
        compute(delayed(fails)(), scheduler=scheduler)
    assert type(caught.value.__cause__) is KeyError
    assert caught.value.__notes__[0] == "mine" and len(caught.value.__notes__) == 2


@BOTH
def test_earlier_tries_are_no_context_of_the_last(scheduler: str) -> None:
    tries: list[int] = []

    def fails() -> None:
        tries.append(1)
        try:
            raise KeyError(len(tries))
        except KeyError:
            raise ValueError(len(tries))  # noqa: B904

    with pytest.raises(ValueError, match="3") as caught:
        compute(delayed(fails, retries=2)(), scheduler=scheduler)
    below = caught.value.__context__
    assert below.args == (3,) and below.__context__ is None


@BOTH
def test_a_recursion_error_in_a_task(scheduler: str) -> None:
    def down(n: int) -> int:
        return down(n + 1)

    with pytest.raises(RecursionError):
        compute(delayed(down)(0), scheduler=scheduler)
    assert compute(delayed(abs)(-1), scheduler=scheduler) == (1,)


@BOTH
def test_computes_nested_without_end(scheduler: str) -> None:
    def down(n: int) -> Any:
        return compute(delayed(down)(n + 1), scheduler=scheduler, num_workers=1)

    with pytest.raises((RecursionError, lazyflow.Cancelled)):
        compute(delayed(down)(0), scheduler=scheduler, num_workers=1, timeout=30)
    assert compute(delayed(abs)(-1), scheduler=scheduler, timeout=20) == (1,)


@BOTH
def test_a_memory_error_in_a_task(scheduler: str) -> None:
    with pytest.raises(MemoryError) as caught:
        compute(delayed(bytearray)(sys.maxsize), scheduler=scheduler)
    assert "in lazyflow task bytearray(" in caught.value.__notes__[0]
    assert compute(delayed(abs)(-1), scheduler=scheduler) == (1,)


# -- what is left in memory -----------------------------------------------------------------


class Value:
    """A value that counts those alive, and how many were at most."""

    lock = threading.Lock()
    alive = most = 0

    def __init__(self, *_: Any) -> None:
        with Value.lock:
            Value.alive += 1
            Value.most = max(Value.most, Value.alive)

    def __del__(self) -> None:
        with Value.lock:
            Value.alive -= 1


@pytest.fixture
def without_gc() -> Iterator[None]:
    gc.collect()
    Value.alive = Value.most = 0
    gc.disable()
    yield
    gc.enable()


def spin(rounds: int) -> None:
    for _ in range(rounds):
        pass

SCHEDULERS = [("sync", 1), ("threads", 1), ("threads", 2), ("threads", 4)]


@pytest.mark.parametrize(("scheduler", "workers"), SCHEDULERS)
def test_a_tree_holds_few_values(scheduler: str, workers: int, without_gc: None) -> None:
    """One for each level and two, for each worker that holds a path of its own.

    Usually they share one path. But a worker may be held up in a leaf while another goes on
    with all the rest; then there are two paths, and only a worker that idles could avoid it.
    """
    n = 1000
    rounds = [(i * 7919) % 400 for i in range(2 * n)]

    def leaf(i: int) -> Value:
        spin(rounds[i])
        return Value()

    def join(a: Value, b: Value, i: int) -> Value:
        spin(rounds[i])
        return Value()

    for _ in range(10):
        Value.most = 0
        row: list[Any] = [delayed(leaf)(i) for i in range(n)]
        while len(row) > 1:
            pairs = [
                delayed(join)(a, b, i)
                for i, (a, b) in enumerate(zip(row[::2], row[1::2], strict=False))
            ]
            row = pairs + row[2 * len(pairs):]
        assert compute(delayed(type)(row[0]), scheduler=scheduler, num_workers=workers)[0] is Value
        assert Value.most <= workers * math.ceil(math.log2(n)) + 2
        assert until(lambda: Value.alive == 0)

FAILURES: dict[str, Callable[[], Any]] = {
    "fails": lambda: delayed(throw)(ValueError("x")),
    "fails in Python": lambda: delayed(lambda: 1 / 0)(),
    "after retries": lambda: delayed(lambda: 1 / 0, retries=2)(),
    "with a value": lambda: delayed(lambda v: 1 / 0)(delayed(Value)()),
    "mutates": lambda: delayed(lambda v: 1 / 0, mutates=True)(delayed(Value)()),
    "with a list": lambda: delayed(lambda v: 1 / 0)([delayed(Value)(), delayed(list)("ab")]),
    "ends": lambda: delayed(sys.exit)(3),
    "nested": lambda: delayed(lambda v: compute(delayed(lambda: 1 / 0)()))(delayed(Value)()),
    "returned": lambda: delayed(lambda v: delayed(lambda w: 1 / 0)(v))(delayed(Value)()),
    "returned twice": lambda: delayed(lambda v: delayed(lambda w: delayed(lambda: 1 / 0)())(v))(
        delayed(Value)()
    ),
}


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("how", FAILURES)
@BOTH
def test_a_failed_compute_leaves_nothing(
    scheduler: str, how: str, collect: bool, without_gc: None
) -> None:
    """No cycle: once the exception is gone its values are, without the collector."""
    others = [delayed(Value)(i) for i in range(5)]
    wanted = [*others, delayed(Value)(FAILURES[how](), others)]
    if collect:
        error = compute(wanted, scheduler=scheduler, on_error="collect")[0][-1]
        assert isinstance(error, Exception)
        del error
    else:
        try:  # pytest.raises would hold the exception
            compute(wanted, scheduler=scheduler)
            pytest.fail("nothing was raised")
        except Exception:
            pass
    del wanted, others
    assert until(lambda: Value.alive == 0)


@pytest.mark.parametrize("how", FAILURES)
def test_a_failed_persist_leaves_nothing(how: str, without_gc: None) -> None:
    (x,) = persist(delayed(Value)(FAILURES[how](), delayed(Value)()))
    with pytest.raises((ZeroDivisionError, ValueError, RemoteTaskError)):
        compute(x)
    del x
    gc.collect()  # pytest.raises
    assert until(lambda: Value.alive == 0)


def test_a_timed_out_task_does_not_hold_the_callers_frames(without_gc: None) -> None:
    release = threading.Event()

    def caller() -> None:
        mine = Value()
        try:
            compute(delayed(release.wait)(20), timeout=0.01)
            pytest.fail("it was not timed out")
        except lazyflow.TaskTimeout:
            pass
        del mine

    caller()
    assert Value.alive == 0
    release.set()


def test_a_raised_error_is_not_given_to_the_tasks_it_ends() -> None:
    """They would raise it too, and write to its traceback while the caller reads it."""
    release, began, over = threading.Event(), threading.Event(), threading.Event()
    told: list[BaseException] = []

    def nested() -> None:
        first = delayed(lambda: (began.set(), release.wait(20)))()
        try:
            compute(first + (1,))  # noqa: RUF005 - first is lazy
        except BaseException as error:
            told.append(error)
            raise
        finally:
            over.set()

    def fails() -> None:
        began.wait(20)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        compute(delayed(nested)(), delayed(fails)(), num_workers=3)
    release.set()
    assert over.wait(20)
    assert type(told[0]) is lazyflow.Cancelled and told[0] is not caught.value


def a_thousand_persist_steps() -> None:
    x: Any = delayed(Value)()
    sizes = set()
    gc.collect()
    for step in range(1000):
        (x,) = persist(delayed(Value)(x))
        if step % 100 == 99:
            wait(x)
            assert until(lambda: all(t.run is None for t in pool._threads))
            gc.collect()
            sizes.add(len(gc.get_objects()))
    assert len(lazyflow.graph.plan.in_order([x])[0]) == 1
    print(max(sizes) - min(sizes))


def test_a_thousand_persist_steps_stay_small() -> None:
    """In a process of their own: threads that other tests left make objects, too."""
    here = os.path.dirname(__file__)
    child = in_child("-c", f"""
import sys; sys.path.append({here!r})
import test_fault_exceptions; test_fault_exceptions.a_thousand_persist_steps()""")
    assert child.stdout and int(child.stdout) < 200, child.stderr.decode()  # of some 10,000


def test_many_computes_leave_nothing() -> None:
    def measure() -> tuple[int, int, int]:
        assert until(lambda: all(t.run is None for t in pool._threads))
        gc.collect()
        files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        return threading.active_count(), files, len(gc.get_objects())

    def some() -> None:
        for i in range(200):
            compute([delayed(inc)(k) for k in range(20)], num_workers=2)
            compute(delayed(lambda: compute(delayed(inc)(1)))(), num_workers=2)
            compute(delayed(throw)(ValueError(i)), num_workers=2, on_error="collect")

    some()
    before = measure()
    some()
    after = measure()
    assert after[0] <= before[0] + 1  # a spare that was not needed before
    assert after[1] == before[1]
    assert after[2] - before[2] < 200


def test_an_error_is_that_of_the_task_though_another_returns_a_lazy_value_meanwhile(monkeypatch):
    """Between the end of the run and its error no child of it may bring another."""
    stopped, handled = threading.Event(), threading.Event()
    fail = BaseRun._fail

    def slow_fail(run, error, *args):
        if isinstance(error, ZeroDivisionError) and not stopped.is_set():
            stopped.set()
            assert handled.wait(20)
        fail(run, error, *args)

    class Part:
        pass

    def later():
        part = Part()
        watched.append(weakref.ref(part, lambda _: handled.set()))
        assert stopped.wait(20)
        return delayed(id)(part)

    watched = []
    monkeypatch.setattr(BaseRun, "_fail", slow_fail)
    with pytest.raises(ZeroDivisionError):
        compute(delayed(later)(), delayed(divmod)(1, 0), num_workers=2, scheduler="threads")
