"""Programs on processes in little memory."""

import gc
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fault_tools import (
    HAS_LINUX,
    LIMIT,
    MARK,
    ON,
    PRELUDE,
    Before,
    marked,
    new_mark,
    pids,
)
from waiting import until

import lazyflow
from lazyflow import RemoteTaskError, StoreFull, compute, config, delayed, persist, wait
from lazyflow.schedulers.processes.scheduler import processes
from lazyflow.testing.signals import inc

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
]


@pytest.fixture
def fresh(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A pool that is started in the test and ended after it."""
    lazyflow.shutdown()
    mark = os.environ[MARK] = new_mark()
    before = Before(mark)
    files = len(os.listdir("/proc/self/fd"))
    try:
        yield
        before.check()
        lazyflow.shutdown()
        assert not marked(mark)
        gc.collect()
        assert until(lambda: len(os.listdir("/proc/self/fd")) <= files)
        assert capfd.readouterr() == ("", "")
    finally:
        del os.environ[MARK]
        lazyflow.shutdown()

FULL = ["argument", "literal", "result", "held result", "between workers"]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("what", FULL)
def test_the_store_is_full(what: str) -> None:
    """An error of its own, for that task alone; the rest is kept, and less works at once."""
    numpy = pytest.importorskip("numpy")
    large, small = 2_000_000, 500_000  # of 8 bytes, with 10 MB to have
    with limited(10 << 20):
        good = [delayed(inc)(i) for i in range(8)]

        def attempt(size: int) -> Any:
            if what == "argument":
                bad = delayed(numpy.sum)(numpy.ones(size))
            elif what == "literal":
                bad = delayed(numpy.sum)(delayed(numpy.ones(size)))
            elif what == "result":
                bad = delayed(numpy.ones)(size)
            elif what == "held result":
                (bad,) = persist(delayed(numpy.ones)(size), **ON)
            else:
                from lazyflow.testing.signals import Barrier

                meeting = Barrier(2)
                made = [delayed(meet_and_make)(meeting, size) for _ in range(2)]
                bad = delayed(lambda a, b: float((a + b).sum()) / 2)(*made)
            found = compute([*good[:4], bad, *good[4:]], **ON, on_error="collect")[0]
            value = found.pop(4)
            assert found == list(range(1, 9))
            return value

        before = set(pids())
        error = attempt(large)
        assert type(error) is StoreFull
        assert "16" in str(error) and "10.5 MB" in str(error) and "store_limit" in str(error)
        assert "in lazyflow task " in error.__notes__[-1]
        assert before <= set(pids())
        value = attempt(small)
        assert (value.sum() if what in ("result", "held result") else value) == small
        del value


def meet_and_make(meeting: Any, size: int) -> Any:
    import numpy

    meeting.wait(LIMIT)
    return numpy.ones(size)


class limited:
    """A store limit for the pool that is started inside."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __enter__(self) -> None:
        lazyflow.shutdown()
        config.set(store_limit=self.limit)

    def __exit__(self, *_: object) -> None:
        config.set(store_limit=None)
        lazyflow.shutdown()


@pytest.mark.usefixtures("fresh")
def test_what_does_not_fit_where_it_must_pass_can_stay_where_it_is() -> None:
    """Only what passes between processes needs room in the store."""
    numpy = pytest.importorskip("numpy")
    with limited(1 << 20):
        x = delayed(numpy.ones)(2_000_000)
        assert compute(x.sum(), **ON) == (2_000_000,)


@pytest.mark.skipif(
    not shutil.which("unshare") or os.geteuid() != 0 or not HAS_LINUX,
    reason="needs a mount of its own, and memory files that are in no folder",
)
def test_a_tiny_dev_shm() -> None:
    """It is not used: 16 MB pass between processes where it has room for 1."""
    script = """
import numpy
x, = persist(delayed(numpy.ones)(2_000_000), **ON)
y = numpy.ones(2_000_000)
a, b = compute(delayed(numpy.sum)(y), x, **ON)
say("sums", int(a), int(b.sum()), *os.listdir("/dev/shm"))
"""
    inner = PRELUDE + script
    command = ["unshare", "--mount", "sh", "-c",
               'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" -c "$1"',
               sys.executable, inner]
    process = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    if "unshare" in process.stderr or "mount" in process.stderr:
        pytest.skip(f"no mount of one's own here: {process.stderr.strip()}")
    assert (process.stdout, process.stderr) == ("sums 2000000 2000000\n", "")


@pytest.mark.usefixtures("fresh")
def test_arrays_outlive_the_pool() -> None:
    """What compute returned stays as it is, and can be written, when nobody else has it."""
    numpy = pytest.importorskip("numpy")
    x, y = compute(delayed(numpy.full)(1_000_000, 7.0), delayed(numpy.full)(10, 3.0), **ON)
    (held,) = persist(delayed(numpy.full)(1_000_000, 2.0), **ON)
    lent = compute(held)[0]
    lazyflow.shutdown()
    assert x.sum() == 7_000_000 and y.sum() == 30 and lent.sum() == 2_000_000
    x[:10] = 0
    assert x.sum() == 6_999_930
    assert compute(delayed(numpy.sum)(x), **ON) == (6_999_930,)
    del x, y, lent, held
    assert compute(delayed(inc)(1), **ON) == (2,)


@pytest.mark.usefixtures("fresh")
def test_shutdown_while_others_compute() -> None:
    """They are told, and nobody is left waiting."""
    from lazyflow.testing.signals import Level

    running, told = Level(), []

    def long() -> None:
        with running:
            time.sleep(1000)

    def user() -> None:
        try:
            compute([delayed(long)() for _ in range(4)], **ON, timeout=LIMIT)
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=user)
    thread.start()
    assert running.wait_for(2)
    lazyflow.shutdown()
    thread.join(LIMIT)
    assert [type(e) for e in told] == [lazyflow.Cancelled]


@pytest.mark.usefixtures("fresh")
def test_held_values_survive_a_shutdown() -> None:
    numpy = pytest.importorskip("numpy")
    x, y = persist(delayed(numpy.full)(100_000, 2.0), delayed(inc)(1), **ON)
    wait([x, y])
    lazyflow.shutdown()
    assert compute(delayed(numpy.sum)(x), y, **ON) == (200_000.0, 2)


@pytest.mark.usefixtures("fresh")
def test_descriptors_run_out() -> None:
    """The error says so; with room again the next compute works."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(fd) for fd in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 50, hard))
    taken: list[int] = []
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for _ in range(8):
            os.close(taken.pop())
        with pytest.raises(lazyflow.WorkerDied, match=r"Too many open files.*\(ulimit -n, now \d"):
            compute([delayed(inc)(i) for i in range(9)], **ON, timeout=LIMIT)
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    lazyflow.shutdown()
    assert compute([delayed(inc)(i) for i in range(9)], **ON)[0] == list(range(1, 10))


@pytest.mark.usefixtures("fresh")
def test_an_ending_in_a_task_that_nobody_waits_for() -> None:
    (x,) = persist(delayed(sys.exit)(3), **ON)
    wait(x)
    with pytest.raises(RemoteTaskError):
        compute(x)
    assert processes.info()["deaths"] == 0


def test_memory_that_is_let_go_of_before_it_was_counted_in_stays_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread opens a value and drops it just after the driver has run what was posted."""
    with config.set(scheduler="processes"):
        held = lazyflow.submit(bytes, 1 << 20)
    assert held.result() == bytes(1 << 20)  # its arena is known here
    driver = processes._driver
    assert driver is not None
    run_steps, tell_owner = driver.loop.run_steps, driver.memory._tell_owner
    opened, freed = [], []

    def run_steps_and_open() -> None:
        run_steps()
        if not opened:
            reader = threading.Thread(target=lambda: opened.append(len(held.result())))
            reader.start()
            reader.join()

    def noted(owner: int, segment: Any) -> bool:
        freed.append(segment)
        return tell_owner(owner, segment)

    monkeypatch.setattr(driver.memory, "_tell_owner", noted)
    monkeypatch.setattr(driver.loop, "run_steps", run_steps_and_open)
    driver.loop.ring(None)
    assert until(lambda: opened)
    assert held.result() == bytes(1 << 20)
    assert compute(delayed(inc)(1), **ON) == (2,)  # what is to be freed has been by now
    assert not freed
    lazyflow.shutdown()  # before its thread loses what was patched


def test_memory_that_is_let_go_of_during_a_shutdown_stays_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread opens a value twice while the workers are ended."""
    with config.set(scheduler="processes"):
        held = lazyflow.submit(bytes, 1 << 20)
    assert held.result() == bytes(1 << 20)
    driver = processes._driver
    assert driver is not None
    end_all = driver.pool.end_all

    def open_and_end_all(*given: Any) -> Any:
        for _ in range(2):
            reader = threading.Thread(target=held.result)
            reader.start()
            reader.join()
        return end_all(*given)

    monkeypatch.setattr(driver.pool, "end_all", open_and_end_all)
    lazyflow.shutdown()
    assert not isinstance(driver.why, lazyflow.errors.SchedulerLost)
    assert held.result() == bytes(1 << 20)
