"""Executors that the user brings, schedulers that others write, and how a word finds one."""

import concurrent.futures
import importlib.metadata
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import lazyflow
from lazyflow import RemoteTaskError, WorkerDied, compute, config, delayed, persist, wait
from lazyflow.schedulers import registry
from lazyflow.schedulers.core import base
from lazyflow.schedulers.core.base import checked
from lazyflow.schedulers.core.run import Run
from lazyflow.testing.contract import SchedulerContract
from lazyflow.testing.results import ResultContract

# -- threads of others ----------------------------------------------------------------------


def test_threads_of_the_executor_do_the_work() -> None:
    with ThreadPoolExecutor(2, thread_name_prefix="theirs") as executor:
        names = compute(
            [delayed(lambda _: threading.current_thread().name)(i) for i in range(20)],
            scheduler=executor,
        )[0]
    assert all(name.startswith("theirs") for name in names)


def test_an_executor_that_was_shut_down() -> None:
    executor = ThreadPoolExecutor(2)
    executor.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        compute(delayed(abs)(-1), scheduler=executor, timeout=20)


def test_an_executor_in_config() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="theirs") as executor:
        with config.set(scheduler=executor):
            assert delayed(lambda: threading.current_thread().name)().compute() == "theirs_0"


@pytest.mark.parametrize("threads", [1, 2])
def test_what_becomes_ready_while_all_threads_sleep(threads: int) -> None:
    with ThreadPoolExecutor(threads) as executor:
        gate, asleep = threading.Event(), threading.Semaphore(0)
        (late,) = persist(delayed(gate.wait)(20), scheduler="threads")

        def task(i: int) -> Any:
            asleep.release()
            return compute(delayed(lambda v: (v, i))(late), scheduler=executor)[0]

        def opens() -> None:
            for _ in range(threads):
                asleep.acquire(timeout=20)
            gate.set()

        opener = threading.Thread(target=opens)
        opener.start()
        found = compute([delayed(task)(i) for i in range(5)], scheduler=executor, timeout=20)[0]
        opener.join()
    assert found == [(True, i) for i in range(5)]


@pytest.mark.parametrize("width", [1, 2])
def test_num_workers_caps_a_nested_compute(width: int) -> None:
    now: list[int] = []
    most: list[int] = []

    def leaf(i: int) -> int:
        now.append(i)
        most.append(len(now))
        now.remove(i)
        return i

    with ThreadPoolExecutor(4) as executor:
        def outer() -> int:
            xs = [delayed(leaf)(i) for i in range(50)]
            return sum(compute(xs, num_workers=width, scheduler=executor)[0])

        for _ in range(10):
            assert compute(delayed(outer)(), scheduler=executor, timeout=20) == (1225,)
    assert max(most) <= width


# -- executors that run a task at a time ----------------------------------------------------


class Inline(Executor):
    """Done before `submit` returns."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.submitted += 1
        future: Any = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class TestInline(ResultContract):
    """The results of the contract on an executor that we know nothing of."""

    scheduler = Inline()
    parallel = False
    survives_fork = False
    test_a_nested_compute_runs_on_the_same_scheduler = None
    test_context_variables_of_the_caller_are_seen = None
    test_config_holds_in_tasks = None
    test_numpy_errstate_holds_in_tasks = None
    test_what_a_task_sets_stays_with_it = None
    test_num_workers_caps_running_tasks = None
    test_what_waits_for_a_worker_does_not_start_after_an_error = None


@pytest.mark.parametrize("n", [5_000])
def test_a_long_chain_on_an_executor_that_calls_back_at_once(n: int) -> None:
    x: Any = delayed(abs)(0)
    for _ in range(n):
        x = x + 1
    assert compute(x, scheduler=Inline()) == (n,)


def test_a_long_chain_that_need_not_run() -> None:
    executor = Inline()
    x: Any = delayed(lambda: 1 / 0)()
    for _ in range(5_000):
        x = x + 1
    (error,) = compute(x, scheduler=executor, on_error="collect")
    assert type(error) is ZeroDivisionError
    assert executor.submitted == 1


class Refuses(Executor):
    """Takes nothing."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("not today")


def test_an_executor_that_refuses() -> None:
    with pytest.raises(RuntimeError, match="not today") as caught:
        compute(delayed(abs)(-1), scheduler=Refuses(), timeout=20)
    assert "in lazyflow task abs(-1)" in caught.value.__notes__[0]


class Forgets(Executor):
    """Cancels what it was given, as a shut down executor does."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        future: Any = concurrent.futures.Future()
        future.cancel()
        return future


def test_an_executor_that_cancels() -> None:
    # CancelledError would end the caller's event loop; Cancelled says what happened.
    with pytest.raises(lazyflow.Cancelled, match="the executor cancelled the task"):
        compute(delayed(abs)(-1), scheduler=Forgets(), timeout=20)


def test_an_executor_that_is_gone() -> None:
    executor = Inline()
    scheduler = registry.scheduler_of(executor)
    del executor
    with pytest.raises(RuntimeError, match="the Inline that this run was started on is gone"):
        compute(delayed(abs)(-1), scheduler=scheduler, timeout=20)


# -- processes ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        yield executor


class Odd(Exception):
    """Can't be made again from its message: unpickling it fails."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


class Stays(Exception):
    """Can't be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("it stays")


def test_processes_run_lambdas_and_send_results_back(processes: ProcessPoolExecutor) -> None:
    xs = [delayed(lambda i: (os.getpid(), i * i))(i) for i in range(20)]
    pids, squares = zip(*compute(xs, scheduler=processes)[0], strict=True)
    assert squares == tuple(i * i for i in range(20))
    assert os.getpid() not in pids
    total = delayed(sum)([delayed(lambda i: i)(i) for i in range(50)])
    assert compute(total, delayed(dict)(a=total), scheduler=processes) == (1225, {"a": 1225})


def test_processes_get_arrays(processes: ProcessPoolExecutor) -> None:
    numpy = pytest.importorskip("numpy")
    x = delayed(numpy.arange)(1000)
    (found,) = compute(delayed(lambda a: a * 2)(x), scheduler=processes)
    assert found.tolist() == list(range(0, 2000, 2))
    found += 1  # the caller's own


def test_errors_in_processes(processes: ProcessPoolExecutor) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        compute(delayed(lambda x: 1 / x, name="inverse")(0), scheduler=processes)
    assert "in lazyflow task inverse(0), made at " in caught.value.__notes__[0]
    assert compute(delayed(abs)(-1), scheduler=processes) == (1,)


def test_errors_that_can_not_travel(processes: ProcessPoolExecutor) -> None:
    def fails() -> None:
        raise Stays("it is here")

    with pytest.raises(RemoteTaskError, match="it is here") as caught:
        compute(delayed(fails)(), scheduler=processes, timeout=60)
    assert "in fails" in str(caught.value)
    assert "in lazyflow task fails()" in caught.value.__notes__[0]
    assert compute(delayed(abs)(-1), scheduler=processes) == (1,)


def test_errors_that_can_not_be_made_of_their_message(processes: ProcessPoolExecutor) -> None:
    """Unpickled in the parent by their own way, they would break the executor for good."""

    def fails() -> None:
        raise Odd(7, "no") from KeyError("first")

    with pytest.raises(Odd, match="^7: no") as caught:
        compute(delayed(fails)(), scheduler=processes, timeout=60)
    assert repr(caught.value.__cause__) == "KeyError('first')"
    assert caught.traceback[-1].name == "fails"
    assert "in lazyflow task fails()" in caught.value.__notes__[0]
    assert compute(delayed(abs)(-1), scheduler=processes) == (1,)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
def test_endings_in_processes(processes: ProcessPoolExecutor, kind: type[BaseException]) -> None:
    def ends() -> None:
        raise kind

    with pytest.raises(RemoteTaskError, match=kind.__name__) as caught:
        compute(delayed(ends)(), scheduler=processes, timeout=60)
    assert type(caught.value.__cause__) is kind
    assert compute(delayed(abs)(-1), scheduler=processes) == (1,)


def test_what_can_not_be_pickled_is_the_tasks_failure(processes: ProcessPoolExecutor) -> None:
    for x in (delayed(lambda _: 1)(threading.Lock()), delayed(threading.Lock)()):
        with pytest.raises(TypeError, match="cannot pickle '_thread.lock'") as caught:
            compute(x, scheduler=processes, timeout=60)
        assert "in lazyflow task" in caught.value.__notes__[0]
    assert compute(delayed(abs)(-1), scheduler=processes) == (1,)


def test_retries_in_processes(processes: ProcessPoolExecutor, tmp_path: Any) -> None:
    def flaky(path: str) -> int:
        with open(path, "a") as file:
            file.write("x")
        with open(path) as file:
            tries = len(file.read())
        if tries < 3:
            raise OSError(f"try {tries}")
        return tries

    path = str(tmp_path / "tries")
    assert compute(delayed(flaky, retries=3)(path), scheduler=processes) == (3,)
    with pytest.raises(OSError, match="try 2"):
        compute(delayed(flaky, retries=1)(path + "2"), scheduler=processes)


def test_a_wrong_number_of_results(processes: ProcessPoolExecutor) -> None:
    x = delayed(lambda: (1, 2), nout=3, name="pair")()
    with pytest.raises(ValueError, match="pair was declared to return 3 values"):
        compute(x, scheduler=processes)


def test_a_compute_inside_a_process(processes: ProcessPoolExecutor) -> None:
    def outer(n: int) -> int:
        return sum(compute([delayed(abs)(-i) for i in range(n)])[0])

    assert compute([delayed(outer)(n) for n in (3, 5)], scheduler=processes, timeout=60) == (
        [3, 10],
    )


def test_persist_and_returned_tasks_on_processes(processes: ProcessPoolExecutor) -> None:
    x, y = persist(delayed(abs)(-1), delayed(lambda: delayed(abs)(-2))(), scheduler=processes)
    assert wait([x, y], timeout=60)[1] == []
    assert compute(x + y, scheduler=processes) == (3,)


def test_a_worker_that_dies() -> None:
    context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        with pytest.raises(WorkerDied, match="ended while it ran one of: _exit, made") as caught:
            compute(delayed(os._exit, retries=2)(3), scheduler=executor, timeout=60)
        assert isinstance(caught.value.__cause__, concurrent.futures.BrokenExecutor)
        assert "make a new one" in str(caught.value)


# -- schedulers of others -------------------------------------------------------------------


def from_the_page() -> Any:
    """Make the scheduler that base.py shows, of the very lines that stand there."""
    lines = base.__doc__.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("    class Mine"))
    code = []
    for line in lines[first:]:
        if line and not line.startswith("    "):
            break
        code.append(line[4:])
    names: dict[str, Any] = {"threading": threading, "Worker": base.Worker}
    exec("\n".join(code), names)
    return names["Mine"]


class TestMine(SchedulerContract):
    """What the page shows passes the contract, except for abilities that it does not promise."""

    scheduler = from_the_page()()
    survives_fork = True
    test_higher_priority_starts_first = None
    test_num_workers_caps_running_tasks = None
    test_what_waits_for_a_worker_does_not_start_after_an_error = None
    test_values_are_dropped_at_their_last_use = None
    test_priority_does_not_change_results = None
    test_dropped_work_is_not_started = None
    test_a_forked_child_can_compute = None


def test_a_scheduler_that_lacks_a_method_is_told_so() -> None:
    mine = from_the_page()
    del mine.abandon
    with pytest.raises(TypeError, match=r"has no abandon; a scheduler has name, options, start"):
        compute(delayed(abs)(-1), scheduler=mine())


HALVES = {
    "make_actor": (lambda self, spec: None, r"has no actors_share_memory; KeepsActors has "),
    "put": (lambda self, value: value, r"^put of the scheduler .* called as put\(value, task\)"),
    "end_task": (3, r"^end_task of the scheduler .* can't be called .*: 3 is not a callable"),
    "make_run": (lambda self: None, r"can't be called as make_run\(plan, request\): too many"),
    "info": (lambda self, name: {}, r"can't be called as info\(\): missing a required argument"),
    "shutdown": (lambda self, wait: None, r"can't be called as shutdown\(\)"),
    "wait": (lambda self, run: True, r"can't be called as wait\(run, timeout\)"),
}


@pytest.mark.parametrize("name", HALVES)
def test_a_scheduler_with_half_of_a_protocol_is_refused(name: str) -> None:
    member, why = HALVES[name]
    mine = from_the_page()
    setattr(mine, name, member)
    for _ in range(2):
        with pytest.raises(TypeError, match=why):
            compute(delayed(abs)(-1), scheduler=mine())


def test_a_scheduler_with_all_of_the_protocols_is_used_by_them() -> None:
    asked: list[Any] = []

    class Mine(from_the_page()):  # type: ignore[misc]
        actors_share_memory = True

        def make_run(self, plan: Any, request: Any) -> Any:
            asked.append("make_run")
            return Run(plan, request, self)

        def put(self, value: Any, task: Any, more: Any = None) -> Any:
            asked.append(("put", value))
            return value

        def end_task(self, *where: Any) -> None:
            asked.append("end_task")

        def make_actor(self, spec: Any) -> Any:
            raise LookupError(spec.label)

    mine = Mine()
    assert compute(delayed(abs)(-1), scheduler=mine) == (1,)
    assert lazyflow.put(3, scheduler=mine).result() == 3
    gate = threading.Event()
    with config.set(scheduler=mine):
        future = lazyflow.submit(gate.wait, 20)
    assert future.cancel(force=True)
    gate.set()
    with pytest.raises(LookupError, match="object"):
        lazyflow.actor(object, scheduler=mine)()
    assert asked == ["make_run", ("put", 3), "make_run", "end_task"]


@pytest.mark.parametrize("name", ["sync", "threads", "processes"])
def test_the_schedulers_of_the_library_are_whole(name: str) -> None:
    assert checked(registry.scheduler_named(name)).name == name


def test_options_that_a_scheduler_does_not_honour_are_told() -> None:
    mine = from_the_page()
    mine.name = "mine-and-no-priorities"
    x = delayed(abs, priority=3)(-1)
    with pytest.warns(lazyflow.LazyflowWarning, match=r"priority= of abs has no effect on the "
                                                      r"'mine-and-no-priorities' scheduler"):
        assert compute(x, scheduler=mine()) == (1,)
    assert compute(x, scheduler=mine()) == (1,)  # once


@pytest.mark.parametrize("what", [3, object(), from_the_page()])
def test_what_is_no_scheduler(what: Any) -> None:
    with pytest.raises(TypeError, match="scheduler"):
        compute(delayed(abs)(-1), scheduler=what)


def test_schedulers_are_found_by_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Entry:
        name = "mine"

        def load(self) -> Any:
            return lambda: made.append(from_the_page()()) or made[-1]

    def entry_points(*, group: str) -> list[Any]:
        return [Entry()] if group == "lazyflow.schedulers" else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(registry, "installed", dict(registry.installed))
    assert compute(delayed(abs)(-1), scheduler="mine") == (1,)
    with config.set(scheduler="mine"):
        assert delayed(abs)(-2).compute() == 2
    assert len(made) == 1
    known = "distributed, mine, processes, ray, sync, threads"
    with pytest.raises(ValueError, match=rf"did you mean 'mine'\? Known: {known}"):
        compute(delayed(abs)(-1), scheduler="mines")


@pytest.mark.parametrize("word", ["synchronous", "single-threaded", "sync", "threading"])
def test_the_words_of_other_libraries(word: str) -> None:
    name = compute(delayed(lambda: threading.current_thread().name)(), scheduler=word)[0]
    assert name.startswith("lazyflow" if word == "threading" else "MainThread")
