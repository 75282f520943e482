"""Faults of threads that lazyflow is held to."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from stress_tools import PATIENCE
from waiting import until

import lazyflow
from lazyflow import compute, delayed, persist, wait
from lazyflow.schedulers.core.run import Run
from lazyflow.schedulers.threads import threads as pool
from lazyflow.testing.signals import inc


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


def test_a_nested_compute_that_is_given_up_hides_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The caller gets the failure, not what it led to, however the threads take turns."""
    both, stopping, given_up = threading.Barrier(2), threading.Event(), threading.Event()
    fail, note_failure = Run._fail, Run.note_failure

    def late(run: Any, error: BaseException, *more: Any) -> None:
        if isinstance(error, ZeroDivisionError):
            stopping.set()
            assert given_up.wait(PATIENCE)
        fail(run, error, *more)

    def noted(run: Any, i: int, error: BaseException) -> None:
        note_failure(run, i, error)
        if isinstance(error, lazyflow.Cancelled):
            given_up.set()

    monkeypatch.setattr(Run, "_fail", late)
    monkeypatch.setattr(Run, "note_failure", noted)

    def divide() -> float:
        both.wait(PATIENCE)
        return 1 / 0

    def ask() -> Any:
        both.wait(PATIENCE)
        assert stopping.wait(PATIENCE)
        return compute(delayed(abs)(-1))

    with pytest.raises(ZeroDivisionError):
        compute(delayed(divide)(), delayed(ask)(), scheduler="threads", num_workers=2)


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
