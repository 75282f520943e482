"""The faults of graphs and of threads that lazyflow is held to, and what covers each.

Tests named without a file are in this one; ``contract`` is lazyflow/testing, run for every
scheduler by test_contract.py. Faults of worker processes come with that scheduler.

====  ===========================================  ================================================
case  fault                                        covered by
====  ===========================================  ================================================
G1    a chain of 100,000 calls                     test_a_long_chain, test_what_a_long_chain_can_do
G2    a chain of 1,000,000                         the same, marked slow
G3    1,000,000 tasks and one sum                  test_a_wide_sum (100,000; the million is slow)
G4    a cycle                                      can't arise: a task never changes once made,
                                                   and its inputs are made before it; graphs given
                                                   as data (interop) will raise CycleError
G5    a missing key; one key for two tasks         missing: can't arise, inputs are objects and not
                                                   keys; two: contract, test_a_key_for_two_tasks_...
G6    a list or dict that contains itself          test_an_argument_that_contains_itself
G7    lists nested 900 and 100,000 deep            test_a_deep_argument
G8    hostile arguments                            test_hostile_arguments_arrive_unchanged
G9    bool, ==, list, len, in, x[i] = v            test_misuse.py
G10   the caller edits his array after building    test_an_array_is_captured_by_reference
G11   a task edits an input that others share      contract, values.py
T1    8 tasks that compute, on 2 threads           test_nested_computes_on_few_threads
T2    nested computes given one pool of 2          test_nested_computes_on_one_executor
T3    a task fails while a slow one runs           contract, test_an_error_does_not_wait_...; exit
                                                   in test_interrupt.py
T4    SystemExit and other endings in a task       contract, test_what_would_end_the_caller_is_...;
                                                   test_interrupt.py for whole programs
T5    Ctrl-C, twice, while tasks run               test_interrupt.py
T6    os.fork in a task                            test_interrupt.py
T7    a task changes directory or environment      test_threads_share_the_process
====  ===========================================  ================================================

Below those: exceptions that do not behave, and what is left in memory after a failure.
"""

import copy
import gc
import math
import os
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import lazyflow
from lazyflow import RemoteTaskError, compute, delayed, persist, wait
from lazyflow.schedulers.core.lifecycle import Lifecycle
from lazyflow.schedulers.threads import threads as pool

BOTH = pytest.mark.parametrize("scheduler", ["sync", "threads"])
SIZES = pytest.mark.parametrize(
    "n", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)]
)


def inc(x: int) -> int:
    return x + 1


def chain(n: int) -> Any:
    one = delayed(inc)
    x: Any = one(0)
    for _ in range(n - 1):
        x = one(x)
    return x


# -- graphs ---------------------------------------------------------------------------------


@SIZES
@BOTH
def test_a_long_chain(n: int, scheduler: str) -> None:
    assert compute(chain(n), scheduler=scheduler) == (n,)


@SIZES
@BOTH
def test_a_wide_sum(n: int, scheduler: str) -> None:
    one = delayed(inc)
    assert compute(delayed(sum)([one(i) for i in range(n)]), scheduler=scheduler) == (
        n * (n + 1) // 2,
    )


@BOTH
def test_as_many_outputs(scheduler: str) -> None:
    values = compute([delayed(inc)(i) for i in range(100_000)], scheduler=scheduler)[0]
    assert values == list(range(1, 100_001))


def test_what_a_long_chain_can_do() -> None:
    x = chain(100_000)
    assert repr(x).startswith("<Delayed inc(")
    assert copy.copy(x) is x and copy.deepcopy(x) is x
    assert compute(pickle.loads(pickle.dumps(x))) == (100_000,)
    first = weakref.ref(x._inputs[0]._inputs[0])
    del x  # without recursion: 100,000 nested deallocations would overflow the C stack
    # The copy is the same tasks, so the thread that ended the run may have them a moment longer.
    assert until(lambda: first() is None)


def test_an_argument_that_contains_itself() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    knot: dict[str, Any] = {"a": 1}
    knot["self"] = knot

    def sees(x: Any) -> bool:
        inner = x[1] if isinstance(x, list) else x["self"]
        return inner[1] is inner if isinstance(x, list) else inner["self"] is inner

    assert compute(delayed(sees)(loop), delayed(sees)(knot)) == (True, True)


@pytest.mark.parametrize("depth", [900, 100_000])
@BOTH
def test_a_deep_argument(depth: int, scheduler: str) -> None:
    deep: Any = []
    for _ in range(depth):
        deep = [deep]

    def measure(x: Any) -> int:
        found = 0
        while x:
            x, found = x[0], found + 1
        return found

    assert compute(delayed(measure)(deep), scheduler=scheduler) == (depth,)


class Rude:
    """Raises whatever it is asked."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("leave me alone")

    __eq__ = __bool__ = __len__ = __repr__ = __getattr__ = __iter__ = _refuse  # type: ignore[assignment]
    __hash__ = _refuse  # type: ignore[assignment]


HOSTILE = [
    Rude(), float("nan"), "\ud800", 10**5000, b"\0", lambda: None, object, "inc-1", {1: Rude()}
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@BOTH
def test_hostile_arguments_arrive_unchanged(value: Any, scheduler: str) -> None:
    seen: list[Any] = []
    compute(delayed(lambda x: seen.append(x) or None)(value), scheduler=scheduler)
    if type(value) is dict:
        assert seen[0][1] is value[1]
    else:
        assert seen[0] is value

    def bad(x: Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        compute(delayed(bad)(value), scheduler=scheduler)
    assert "in lazyflow task bad(" in caught.value.__notes__[0]


@BOTH
def test_an_array_is_captured_by_reference(scheduler: str) -> None:
    """One rule everywhere: what the array holds when the task runs."""
    numpy = pytest.importorskip("numpy")
    mine = numpy.zeros(7)
    x = delayed(numpy.sum)(mine)
    mine += 10
    assert compute(x, scheduler=scheduler) == (70.0,)


# -- threads --------------------------------------------------------------------------------


def test_nested_computes_on_few_threads() -> None:
    lazyflow.shutdown()
    before = threading.active_count()

    def outer(i: int) -> int:
        return sum(compute([delayed(inc)(i + k) for k in range(8)], num_workers=2)[0])

    found = compute([delayed(outer)(i) for i in range(8)], num_workers=2)[0]
    assert found == [sum(i + k + 1 for k in range(8)) for i in range(8)]
    assert threading.active_count() <= before + 2 + 2  # and one for each that sleeps


def test_nested_computes_on_one_executor() -> None:
    with ThreadPoolExecutor(2) as executor:
        def outer(i: int) -> int:
            return sum(compute([delayed(inc)(i + k) for k in range(4)], scheduler=executor)[0])

        found = compute([delayed(outer)(i) for i in range(8)], scheduler=executor)[0]
    assert found == [sum(i + k + 1 for k in range(4)) for i in range(8)]


ONE = {"num_workers": 1}


@pytest.mark.parametrize(
    "inner", [{"scheduler": "threads", **ONE}, {"scheduler": "sync"}], ids=["threads", "sync"]
)
@pytest.mark.parametrize("middle", ["sync", "executor", "threads"])
@pytest.mark.parametrize("outer", ["threads", "executor"])
def test_a_thread_that_sleeps_gives_its_place_whoever_lets_it_sleep(
    outer: str, middle: str, inner: dict[str, Any]
) -> None:
    """Each scheduler has one worker, and each waits for the next inside its task."""
    lazyflow.shutdown()
    with ThreadPoolExecutor(1) as executor:
        where = {
            "threads": {"scheduler": "threads", **ONE},
            "sync": {"scheduler": "sync"},
            "executor": {"scheduler": executor},
        }

        def third() -> Any:
            (x,) = persist(delayed(abs)(-1), **where["threads"])
            return compute(x + 1, delayed(abs)(-3), **inner)

        def second() -> Any:
            return compute(delayed(third)(), **where[middle])[0]

        found = compute(delayed(second)(), **where[outer], timeout=20)
    assert found == ((2, 3),)


def test_a_task_waits_for_another_of_its_run_two_levels_down() -> None:
    box: list[Any] = []
    ready = threading.Event()

    def inner() -> Any:
        return compute(box[0])

    def first() -> Any:
        ready.wait(20)
        return compute(delayed(inner)(), num_workers=1)

    a, b = persist(delayed(first)(), delayed(abs)(-5), num_workers=1)
    box.append(b)
    ready.set()
    assert compute(a, timeout=20) == (((5,),),)


def test_a_thread_too_many_hands_on_what_it_was_woken_for() -> None:
    """Two threads idle and one awake again are three for two places."""
    lazyflow.shutdown()
    gate, asleep, pinged = threading.Event(), threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as executor:
        (late,) = persist(delayed(gate.wait)(20), scheduler=executor)

        def task() -> bool:
            asleep.set()
            wait(late)
            ping = persist(delayed(pinged.set)(), num_workers=2)
            return pinged.wait(10) and bool(ping)

        (x,) = persist(delayed(task)(), num_workers=2)
        assert asleep.wait(20) and until(lambda: bool(pool._sleeping))
        meeting = threading.Barrier(2, timeout=20)
        compute([delayed(meeting.wait)() for _ in range(2)], num_workers=2)
        assert until(lambda: len(pool._idle) == 2)
        gate.set()
        assert compute(x, timeout=20) == (True,)


def test_a_mutating_task_edits_nothing_that_a_running_one_reads() -> None:
    numpy = pytest.importorskip("numpy")
    reading, edited = threading.Event(), threading.Event()

    def read(x: Any) -> float:
        reading.set()
        assert edited.wait(20)
        return float(x.sum())

    def edit(x: Any, _: bool) -> float:
        x += 1
        edited.set()
        return float(x.sum())

    x = delayed(numpy.zeros)(3)
    after = delayed(reading.wait)(20)  # so that the edit is the last to ask for x
    found = compute(delayed(read)(x), delayed(edit, mutates=True)(x, after), num_workers=3)
    assert found == (0.0, 3.0)


def test_threads_share_the_process(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documented, and the same as for any thread: a task's chdir is everybody's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAZYFLOW_SEEN", raising=False)
    (tmp_path / "inner").mkdir()

    def change() -> None:
        os.chdir("inner")
        os.environ["LAZYFLOW_SEEN"] = "yes"

    try:
        compute(delayed(change)())
        assert os.path.basename(os.getcwd()) == "inner"
        assert os.environ["LAZYFLOW_SEEN"] == "yes"
    finally:
        os.environ.pop("LAZYFLOW_SEEN", None)


def test_a_persist_waits_only_for_unfinished_ones() -> None:
    release = threading.Event()
    (slow,) = persist(delayed(release.wait)(20), num_workers=4)
    for i in range(40):
        (x,) = persist(delayed(abs)(i), num_workers=4)
        wait(x)
    assert wait(slow, timeout=0) == ([], [slow])
    release.set()
    assert compute(slow) == (True,)


def test_cancelled_endless_tasks_do_not_stop_the_next_compute() -> None:
    release, started = threading.Event(), threading.Semaphore(0)

    def endless() -> None:
        started.release()
        release.wait(20)

    xs = persist([delayed(endless)(), delayed(endless)()], num_workers=2)[0]
    assert started.acquire(timeout=20) and started.acquire(timeout=20)
    for x in xs:
        assert x.cancel()
    assert compute([delayed(abs)(-i) for i in range(5)], num_workers=2, timeout=20)[0] == [
        0, 1, 2, 3, 4
    ]
    release.set()


def test_a_nested_compute_of_a_task_that_was_given_up_starts_nothing() -> None:
    release, began, ran = threading.Event(), threading.Event(), []
    told: list[BaseException] = []
    over = threading.Event()

    def task() -> None:
        began.set()
        release.wait(20)
        try:
            compute(delayed(ran.append)(1))
        except BaseException as error:
            told.append(error)
        over.set()

    with pytest.raises(lazyflow.TaskTimeout):
        compute(delayed(task)(), timeout=0.05)
    assert began.is_set()
    release.set()
    assert over.wait(20)
    assert ran == []
    assert type(told[0]) is lazyflow.Cancelled


def test_polling_a_pending_value_does_not_grow_anything() -> None:
    release = threading.Event()
    (x,) = persist(delayed(release.wait)(20))
    for _ in range(50):
        assert wait(x, timeout=0)[0] == []
    assert len(x._args[0]._callbacks) == 0
    release.set()
    assert compute(x) == (True,)


# -- tasks that return tasks ----------------------------------------------------------------


@BOTH
def test_an_error_below_many_returned_tasks(scheduler: str) -> None:
    count = delayed(lambda n: 1 / 0 if n == 0 else count(n - 1) + 1)
    with pytest.raises(ZeroDivisionError):
        compute(count(5_000), scheduler=scheduler)
    deep = delayed(lambda n: 0 if n == 0 else deep(n - 1) + 1)
    assert compute(deep(5_000), scheduler=scheduler) == (5_000,)


def test_a_timeout_above_many_returned_tasks() -> None:
    release, started = threading.Event(), threading.Event()

    def bottom() -> int:
        started.set()
        release.wait(20)
        return 0

    deep = delayed(lambda n: delayed(bottom)() if n == 0 else deep(n - 1) + 1)
    (x,) = persist(deep(3_000))
    assert started.wait(20)
    with pytest.raises(lazyflow.TaskTimeout):
        compute(x + 1, timeout=0)
    assert x.cancel()
    release.set()
    assert compute(delayed(abs)(-1), timeout=20) == (1,)


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("collect", [False, True])
@BOTH
def test_a_returned_graph_that_can_not_be_planned(
    scheduler: str, collect: bool, depth: int
) -> None:
    def bad() -> Any:
        return delayed(max)(delayed(abs)(1, dask_key_name="k"), delayed(abs)(2, dask_key_name="k"))

    lazy: Any = delayed(bad)
    for _ in range(depth):
        lazy = delayed(lambda inner=lazy: inner(), traverse=False)
    if collect:
        error, good = compute(
            lazy(), delayed(abs)(-1), scheduler=scheduler, on_error="collect", timeout=20
        )
        assert good == 1
    else:
        with pytest.raises(lazyflow.KeyConflict) as caught:
            compute(lazy(), scheduler=scheduler, timeout=20)
        error = caught.value
    assert type(error) is lazyflow.KeyConflict
    assert "in lazyflow task bad, made at" in error.__notes__[0]


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
    assert "Hostile: (its text can't be had: __str__ raised RuntimeError)" in caplog.text


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


def until(condition: Callable[[], bool]) -> bool:
    """Give threads that are on their way out the time to get there."""
    end = time.monotonic() + 5
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0)
    return True


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
        try:
            compute(wanted, scheduler=scheduler)
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


def test_a_thousand_persist_steps_stay_small() -> None:
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
    assert max(sizes) - min(sizes) < 200  # of some 100,000
    del x
    gc.collect()


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
    fail = Lifecycle._fail

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
    monkeypatch.setattr(Lifecycle, "_fail", slow_fail)
    with pytest.raises(ZeroDivisionError):
        compute(delayed(later)(), delayed(divmod)(1, 0), num_workers=2, scheduler="threads")
