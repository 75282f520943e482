"""Graphs on processes that meet faults, and what no table has."""

import errno
import mmap
import os
import resource
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fault_tools import (
    LIMIT,
    ON,
    strike,
)
from process_fault_tools import (
    around,
    meet,
)
from program_tools import slow

import lazyflow
from lazyflow import (
    SerializationError,
    WorkerDied,
    compute,
    config,
    delayed,
)
from lazyflow.testing.signals import inc

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("nothing_left"),
]


# -- graphs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10_000, slow(100_000)])
def test_a_long_chain(n: int) -> None:
    x: Any = delayed(inc)(0)
    for _ in range(n - 1):
        x = delayed(inc)(x)
    assert compute(x, **ON) == (n,)


@pytest.mark.parametrize("share_from", [1, 1 << 16, 1 << 20])
def test_small_arguments_may_be_large_together(share_from: int) -> None:
    import numpy

    texts = tuple(letter * 60_000 for letter in "abcdef")
    arrays = [numpy.arange(7000) + i for i in range(3)]
    calls = [(*arrays,), (texts,), (numpy.arange(3), *texts), (slice(7), *arrays, *texts)]
    lazyflow.shutdown()
    with config.set(share_from=share_from):
        found = compute([delayed(repr)(each) for each in calls], **ON)[0]
        apart = compute([delayed(_said)(*each) for each in calls], **ON)[0]
    lazyflow.shutdown()
    assert found == apart == [repr(each) for each in calls]


def _said(*args: Any) -> str:
    return repr(args)


@pytest.mark.parametrize("name", ["add", "vectorize", "float64", "e", "ma"])
def test_any_object_of_numpy_is_a_result(name: str) -> None:
    """One that stays in its worker, until the task that needs it."""
    import numpy

    kept = delayed(getattr)(delayed(lambda: numpy)(), name)
    assert compute(delayed(repr)(kept), **{**ON, "num_workers": 1}) == (repr(getattr(numpy, name)),)


@pytest.mark.parametrize("n", [10_000, slow(100_000)])
def test_a_wide_sum(n: int) -> None:
    one = delayed(inc)
    assert compute(delayed(sum)([one(i) for i in range(n)]), **ON) == (n * (n + 1) // 2,)


def test_an_argument_that_contains_itself() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    knot: dict[str, Any] = {"a": 1}
    knot["self"] = knot

    def sees(x: Any) -> bool:
        inner = x[1] if isinstance(x, list) else x["self"]
        return inner[1] is inner if isinstance(x, list) else inner["self"] is inner

    assert compute(delayed(sees)(loop), delayed(sees)(knot), **ON) == (True, True)


def nested(depth: int) -> Any:
    deep: Any = []
    for _ in range(depth):
        deep = [deep]
    return deep


@pytest.mark.parametrize("where", ["argument", "result", "value"])
@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_a_deep_argument(depth: int, where: str) -> None:
    def measure(x: Any) -> int:
        found = 0
        while x:
            x, found = x[0], found + 1
        return found

    if where == "argument":
        x = delayed(measure)(nested(depth))
    elif where == "result":
        x = delayed(nested)(depth)
    else:
        x = delayed(measure)(delayed(nested)(depth))
    found = around(x)
    if where == "result":
        found = measure(found)
    assert found == depth


def test_an_object_in_a_deep_argument_that_can_not_be_pickled() -> None:
    deep: Any = threading.Lock()
    for _ in range(900):
        deep = [deep]
    error = around(delayed(len)(deep))
    assert type(error) is SerializationError and "'_thread.lock'" in str(error)


class Rude:
    """Raises whatever it is asked."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("leave me alone")

    __eq__ = __bool__ = __len__ = __repr__ = __getattr__ = __iter__ = _refuse  # type: ignore[assignment]
    __hash__ = _refuse  # type: ignore[assignment]


def describe(x: Any) -> Any:
    return type(x).__name__, x.encode("utf-8", "surrogatepass") if type(x) is str else None

HOSTILE = [
    Rude(), float("nan"), "\ud800", 10**5000, b"\0", lambda: None, object, "inc-1", {1: Rude()},
    -0.0, float("inf"), "", (), b"", "x" * 200_000, 1 << 20_000,
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_arguments_arrive_unchanged(value: Any) -> None:
    """And as results and inputs of others."""
    same = delayed(lambda x: x)
    back, told, far = compute(
        same(value), delayed(describe)(value), delayed(describe)(same(same(value))), **ON
    )
    assert type(back).__name__ == type(value).__name__
    assert told == far == describe(value)
    if type(value) in (str, bytes, int, tuple):
        assert back == value and type(back) is type(value)
    elif type(value) is float:
        assert str(back) == str(value)

    def bad(x: Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        compute(delayed(bad)(value), **ON)
    assert "in lazyflow task bad(" in caught.value.__notes__[0]


def test_an_array_is_captured_by_reference() -> None:
    """One rule everywhere: what the array holds when the task runs."""
    numpy = pytest.importorskip("numpy")
    mine = numpy.zeros(7)
    x = delayed(numpy.sum)(mine)
    mine += 10
    assert compute(x, **ON) == (70.0,)
    mine += 1
    assert compute(x, **ON) == (77.0,)


@pytest.mark.parametrize("workers", [1, 2])
def test_nested_computes(workers: int) -> None:
    here = {"scheduler": "processes", "num_workers": workers}

    def outer(i: int) -> Any:
        return sum(compute([delayed(inc)(i + k) for k in range(8)], **here)[0])

    def twice(i: int) -> Any:
        return compute(delayed(outer)(i), **here)[0]

    found = compute([delayed(twice)(i) for i in range(8)], **here, timeout=LIMIT)[0]
    assert found == [sum(i + k + 1 for k in range(8)) for i in range(8)]


# -- beyond the table -----------------------------------------------------------------------


class Computes:
    """Asks for a compute when it is pickled."""

    def __init__(self, scheduler: str) -> None:
        self.scheduler = scheduler

    def __reduce__(self) -> Any:
        return int, (compute(delayed(inc)(1), scheduler=self.scheduler)[0],)


def test_a_compute_inside_pickling() -> None:
    assert around(delayed(inc)(Computes("processes"))) == 3
    assert around(delayed(inc)(Computes("threads"))) == 3
    lazyflow.shutdown()

#: What workers are started as, and what is said of it.
PROGRAMS = {
    "no such program": ("/nowhere/python", "FileNotFoundError.* '/nowhere/python'"),
    "ends at once": ("/bin/true", "the last by exit code 0: .* started as /bin/true"),
    "none": (None, "sys.executable is empty"),
}


@pytest.mark.parametrize("why", PROGRAMS)
def test_workers_that_can_not_start(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lazyflow.shutdown()
    program, said = PROGRAMS[why]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", program)
        with pytest.raises(WorkerDied, match=said):
            compute([delayed(inc)(i) for i in range(9)], **ON, timeout=LIMIT)
        lazyflow.shutdown()
    assert meet()


MEMORY = "os.memfd_create" if hasattr(os, "memfd_create") else "tempfile.mkstemp"


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


@pytest.mark.parametrize("what", ["subprocess.Popen", MEMORY, "mmap.mmap"])
def test_no_memory_for_a_worker(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lazyflow.shutdown()
    with monkeypatch.context() as patch:
        patch.setattr(what, refuse)
        with pytest.raises(lazyflow.WorkerDied, match=r"ulimit -v.*has no memory left.*fewer"):
            compute([delayed(inc)(i) for i in range(9)], **ON, timeout=LIMIT)
        with config.set(scheduler="processes"):
            called = lazyflow.actor(list)().copy()
        with pytest.raises(lazyflow.WorkerDied, match=r"the actor list .*ulimit -v.*has no memory"):
            called.result(LIMIT)
    assert meet()


def test_no_address_space_for_what_a_task_needs() -> None:
    """The worker can't map the memory in which its argument comes."""

    def limited(by: int) -> int:
        import numpy as np

        words = Path("/proc/self/status").read_text().split()
        used = int(words[words.index("VmSize:") + 1]) << 10
        resource.setrlimit(resource.RLIMIT_AS, (used + by if by else -1, -1))
        return os.getpid() + 0 * np.int64(1).item()

    np = pytest.importorskip("numpy")
    lazyflow.shutdown()
    one = {"scheduler": "processes", "num_workers": 1, "timeout": LIMIT}
    values = (np.full(1 << 18, i) for i in range(1, 9))
    (pid,) = compute(delayed(limited)(100 << 20), **one)
    for _ in range(2):
        with pytest.raises(MemoryError, match=rf"in process {pid}: .*ulimit -v, n") as why:
            compute(delayed(np.sum)(next(values)), **one)
        assert "in lazyflow task sum, made at" in why.value.__notes__[0]
        with pytest.raises(MemoryError, match="ulimit -v, now"):
            compute(delayed(np.sum)(delayed(np.negative)(next(values))), **one)
    with pytest.raises(lazyflow.StoreFull, match="refuses a new arena"):
        compute(delayed(np.ones)(1 << 18), **one)
    assert compute(delayed(limited)(0), **one) == (pid,)
    assert compute(delayed(np.sum)(next(values)), **one) == (5 << 18,)


def test_no_address_space_for_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    np = pytest.importorskip("numpy")
    lazyflow.shutdown()
    made = delayed(np.ones)(1 << 18)
    with monkeypatch.context() as patch:
        patch.setattr("lazyflow.store.memory.shared.mmap.mmap", refuse_private)
        for _ in range(2):
            with pytest.raises(MemoryError, match=f"2.1 MB .* in process {os.getpid()}: .*ulimit"):
                compute(made, **ON, timeout=LIMIT)
    assert compute(made, **ON)[0].sum() == 1 << 18

_MMAP = mmap.mmap


def refuse_private(fd: int, size: int, flags: int = mmap.MAP_SHARED, *rest: Any) -> Any:
    return refuse() if flags == mmap.MAP_PRIVATE else _MMAP(fd, size, flags, *rest)


def test_no_thread_to_drive_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    lazyflow.shutdown()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread") as caught:
            compute(delayed(inc)(1), **ON, timeout=LIMIT)
        assert "ulimit -u" in caught.value.__notes__[0]
    assert compute(delayed(inc)(1), **ON, timeout=LIMIT) == (2,)


def no_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_directory_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazyflow.shutdown()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert compute(delayed(inc)(1), **ON) == (2,)


def test_a_program_that_waits_for_all_its_children() -> None:
    """It takes exit codes away; the death is seen all the same."""
    stop = threading.Event()

    def reap() -> None:
        while not stop.is_set():
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pass

    thread = threading.Thread(target=reap)
    thread.start()
    try:
        error = around(delayed(strike, crash_retries=0)("os._exit"))
    finally:
        stop.set()
        thread.join()
    assert type(error) is WorkerDied
    assert "exit code 3" in str(error) or "an exit status that is not known" in str(error)
