"""What tasks may do to their process, and to the graph that they belong to."""

import ast
import io
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fault_tools import (
    LIMIT,
    MARK,
    ON,
    marked,
)
from process_fault_tools import (
    around,
)
from program_tools import slow
from waiting import until

import lazyflow
from lazyflow import (
    RemoteTaskError,
    TaskTimeout,
    WorkerDied,
    actor,
    compute,
    delayed,
    persist,
)
from lazyflow.testing.signals import Tally, inc

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("nothing_left"),
]


def test_a_stray_thread() -> None:
    """Not a daemon: it neither holds the result back nor the end of the pool."""
    def stray() -> int:
        threading.Thread(target=time.sleep, args=(1000,)).start()
        return os.getpid()

    victim = compute(delayed(stray)(), **ON)[0]
    lazyflow.shutdown()
    assert victim not in marked(os.environ[MARK])


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.parametrize("end", ["death", "shutdown"])
def test_what_a_task_starts_ends_with_its_worker(end: str) -> None:
    def start() -> int:
        return subprocess.Popen(["sleep", "60"]).pid

    def start_and_die() -> None:
        told.add(start())
        os.kill(os.getpid(), signal.SIGKILL)

    told = Tally()
    if end == "death":
        error = compute(delayed(start_and_die, crash_retries=0)(), **ON, on_error="collect")[0]
        assert type(error) is WorkerDied
        (child,) = told.items()
    else:
        child = compute(delayed(start)(), **ON)[0]
        assert until(lambda: child in marked(os.environ[MARK]))  # it has begun
        lazyflow.shutdown()
    assert until(lambda: child not in marked(os.environ[MARK]))


def test_reading_stdin() -> None:
    with pytest.raises(EOFError):
        compute(delayed(input)(), **ON)
    assert compute(delayed(lambda: sys.stdin.read())(), **ON) == ("",)


def test_a_line_without_an_end_is_there_before_the_result() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for i in range(200):
            with redirect_stdout(io.StringIO()) as printed:
                compute(delayed(print)(i, end=""), **ON, timeout=LIMIT)
                assert printed.getvalue() == str(i)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("n", [100_000, slow(500_000)])
def test_much_is_printed(n: int) -> None:
    """10 or 50 MB in lines, and 20 MB in one: whole, in order, and before the result."""
    def lines() -> int:
        for i in range(n):
            print(f"{i:099d}")
        return 1

    def one() -> int:
        sys.stdout.write("y" * 20_000_000)
        return 2

    printed = io.StringIO()
    with redirect_stdout(printed):
        assert compute(delayed(lines)(), **ON, timeout=LIMIT) == (1,)
        found = printed.getvalue()
        assert len(found) == 100 * n
        assert found == "".join(f"{i:099d}\n" for i in range(n))
        printed.seek(0)
        printed.truncate()
        assert compute(delayed(one)(), **ON, timeout=LIMIT) == (2,)
        assert printed.getvalue() == "y" * 20_000_000


def test_printing_without_end() -> None:
    """Its lines may fill the parent's time, but not stop what it does."""
    def prints() -> None:
        while True:
            print("x" * 99)

    class Nowhere(io.TextIOBase):
        def write(self, text: str) -> int:
            sum(range(10_000))  # a line takes longer to read than to print
            return len(text)

    with redirect_stdout(Nowhere()):
        with pytest.raises(TaskTimeout):
            compute(delayed(prints)(), **ON, timeout=0.3)
        assert compute(delayed(inc)(1), **ON, timeout=LIMIT) == (2,)
        lazyflow.shutdown()  # with what it had printed


def test_standard_error_of_tasks(capfd: pytest.CaptureFixture[str]) -> None:
    def says() -> None:
        print("to stdout")
        print("to stderr", file=sys.stderr)
        os.write(1, b"from C\n")

    compute(delayed(says)(), **ON)
    out, err = capfd.readouterr()
    assert (out, err) == ("to stdout\nfrom C\n", "to stderr\n")


def test_signal_handlers() -> None:
    """A worker that ignores every signal works on, and ends when it has to."""
    def ignores() -> int:
        for number in range(1, signal.NSIG):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):  # SIGKILL, SIGSTOP and those of the C library
                pass
        return os.getpid()

    victim = compute(delayed(ignores)(), **ON)[0]
    assert compute([delayed(inc)(i) for i in range(20)], **ON)[0] == list(range(1, 21))
    lazyflow.shutdown()
    assert victim not in marked(os.environ[MARK])


def test_an_interrupt_sent_to_a_worker() -> None:
    """By `kill -INT`, say: it is the task's failure, and not the caller's Ctrl-C."""
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(LIMIT)

    error = around(delayed(interrupted)())
    assert type(error) is RemoteTaskError and type(error.__cause__) is KeyboardInterrupt


def fork(what: str) -> Any:
    child = os.fork()
    if child == 0:
        if what == "exits":
            os._exit(7)
        if what == "raises":
            raise ValueError("in the child")
        if what == "computes":
            os._exit(7 if compute(delayed(abs)(-7)) == (7,) else 8)
        return "from the child"
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork in a process with threads
@pytest.mark.parametrize("what", ["exits", "raises", "returns", "computes"])
def test_a_fork_in_a_task(what: str) -> None:
    code = around(delayed(fork)(what))
    assert code == (7 if what in ("exits", "computes") else 0)
    x = delayed(fork)(what)
    after = [delayed(lambda x, i: (x, i))(x, i) for i in range(20)]
    assert compute(after, **ON)[0] == [(code, i) for i in range(20)]


def test_a_task_changes_its_surroundings(tmp_path: Path, monkeypatch: Any) -> None:
    """The caller never sees it; later runs in that worker see the environment, no directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()

    def change() -> None:
        os.chdir("inner")
        os.environ["LAZYFLOW_SEEN"] = "yes"

    def look() -> Any:
        return os.path.basename(os.getcwd()), os.environ.get("LAZYFLOW_SEEN")

    compute(delayed(change)(), **ON)
    assert os.getcwd() == str(tmp_path) and "LAZYFLOW_SEEN" not in os.environ
    for directory, _ in compute([delayed(look)() for _ in range(8)], **ON)[0]:
        assert directory == tmp_path.name
    lazyflow.shutdown()
    assert compute(delayed(look)(), **ON) == ((tmp_path.name, None),)


def children_have(_: Any) -> list[str]:
    """Return what a program has open that inherits all that it can."""
    listed = (
        "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in range(3, 300) "
        "if os.path.islink(f'/proc/self/fd/{n}')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", listed], close_fds=False, capture_output=True, text=True, check=True)
    found: list[str] = ast.literal_eval(done.stdout)
    return found


class Starter:
    def children_have(self, x: Any) -> list[str]:
        return children_have(x)


def test_programs_that_tasks_start_inherit_nothing() -> None:
    """Nor do those of the caller: memory would stay for as long as they run."""
    before = children_have(None)
    large = persist([delayed(np.ones)(1_000_000) for _ in range(3)], **ON)[0]
    of_tasks = compute([delayed(children_have)(x) for x in large], **ON)[0]
    assert of_tasks == [[]] * 3
    assert actor(Starter, scheduler="processes")().children_have(large[0]).result() == []
    compute(large, **ON)
    assert children_have(None) == before
