"""The end of the caller's own process leaves nothing behind."""

import os
import signal
import sys

import fault_tools
import pytest
from fault_tools import (
    DEATHS,
    HAS_LINUX,
    Program,
)
from program_tools import (
    GONE,
    STATES,
    slow,
)
from waiting import until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
]


# -- the end of the parent ------------------------------------------------------------------


#: How it is done; SIGKILL of the group takes all that a cleaner could be.
PARENTS_END = {
    "SIGTERM": (signal.SIGTERM, False), "SIGKILL": (signal.SIGKILL, False),
    "SIGHUP": (signal.SIGHUP, False), "SIGKILL of the group": (signal.SIGKILL, True),
}


def check_parent(state: str, end: str) -> None:
    number, group = PARENTS_END[end]
    with Program(STATES[state]) as program:
        for word in ["begun"] * 2 if state.startswith("running") else ["ready"]:
            program.expect(word)
        assert until(lambda: len(program.left()) >= 2)
        program.signal(number, group)
        assert program.leaves_nothing(GONE)
        code, out, err = program.end()
        assert (code, out, err) == (-number, "", "")


@pytest.mark.parametrize("end", PARENTS_END)
@pytest.mark.parametrize("state", ["idle", "running, sleeping in C"])
def test_the_parent_ends(state: str, end: str) -> None:
    check_parent(state, end)


@pytest.mark.parametrize("state", list(STATES)[1:])
def test_the_parent_is_killed(state: str) -> None:
    if "lock in C" in state and not HAS_LINUX:
        pytest.skip("a thread has to wait for the GIL to see the parent's end")
    check_parent(state, "SIGKILL")


@pytest.mark.slow
@pytest.mark.parametrize("more", range(24))
def test_the_parent_is_killed_while_it_starts_workers(more: int) -> None:
    """Another moment each time: when it has opened so many descriptors more, or is done."""
    with starting() as program:
        opened = f"/proc/{program.process.pid}/fd"
        count = len(os.listdir(opened)) + more
        assert until(lambda: len(os.listdir(opened)) >= count or len(program.left()) >= 2)
        program.signal(signal.SIGKILL)
        assert program.leaves_nothing(GONE)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_the_parent_is_killed_when_it_has_started_so_many_workers(workers: int) -> None:
    with starting() as program:
        assert until(lambda: len(program.left()) >= workers)
        program.signal(signal.SIGKILL)
        assert program.leaves_nothing(GONE)


def starting() -> Program:
    """Start a program that is about to start two workers."""
    program = Program("say('ready')\ncompute([delayed(sleeper)(i) for i in range(4)], **ON)")
    program.expect("ready")
    return program


@pytest.mark.parametrize(
    ("state", "how"),
    [("idle", "os._exit(3)"), ("idle", "sys.exit(3)"), ("idle", "1 / 0"),
     ("running", "os._exit(3)"), ("running", "sys.exit(3)")],
)
def test_the_program_ends_itself(state: str, how: str) -> None:
    """With running tasks it gives them two seconds and says which had to be ended."""
    script = f"""
up()
{"x = sleepers()" if state == "running" else ""}
{how}
"""
    with Program(script) as program:
        if state != "idle":
            program.expect("ready")
        code, out, err = program.end()
        assert (code, out) == (1 if how == "1 / 0" else 3, "")
        lines = [x for x in err.splitlines() if x.startswith("lazyflow")]
        if state == "idle" or how == "os._exit(3)":
            assert lines == []
        else:
            assert [x.split(", made at ")[0] for x in lines] == [
                "lazyflow: still running when Python ended: sleeper"
            ] * 2
        assert "ZeroDivisionError" in err if how == "1 / 0" else len(lines) == len(err.splitlines())
        assert program.leaves_nothing(GONE)

INTERRUPTED = """
import random
rng = random.Random({seed})
go, over = threading.Event(), []
is_deciding = False
def interrupt():
    global is_deciding
    while True:
        go.wait()
        if over: return
        time.sleep(rng.random() * {span})
        is_deciding = True
        if go.is_set():
            go.clear()
            os.kill(os.getpid(), signal.SIGINT)
        is_deciding = False
thread = threading.Thread(target=interrupt)
thread.start()
def work(i):
    time.sleep(0.001)
    return i
def settle():
    while processes.info()["jobs"]:  # a job ends after its result is there
        time.sleep(0)
up()
settle()  # what finalizes the barrier must not get the interrupt
done = stopped = 0
while stopped < {times}:
    try:
        try:
            go.set()
            assert compute(delayed(sum)([delayed(work)(i) for i in range(16)]), **ON) == (120,)
            x, = persist(delayed(sum)([delayed(work)(i) for i in range(8)]), **ON)
            wait(x)
            assert compute(x + 1) == (29,)
            done += 1
        finally:
            go.clear()
            while is_deciding:  # an interrupt on its way is to come here
                time.sleep(0)
    except KeyboardInterrupt:
        stopped += 1
        if {restart}: lazyflow.shutdown()
over.append(1)
go.set()
thread.join()
up()
settle()
lazyflow.shutdown()
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("times", "span", "restart"),
    [(60, 0.03, False), slow(500, 0.03, False), slow(100, 0.12, True)],
)
def test_ctrl_c_at_any_moment(times: int, span: float, restart: bool) -> None:
    """Each is a KeyboardInterrupt in the caller or comes too late; nothing else, and no hang."""
    script = INTERRUPTED.format(seed=7, times=times, span=span, restart=restart)
    with Program(script) as program:
        code, out, err = program.end(120)  # a hundred pools take a quarter of it
        assert (code, out, err) == (0, "", ""), err
        assert program.leaves_nothing(GONE)


def test_the_end_of_a_program_says_nothing_when_nothing_runs() -> None:
    script = """
lazyflow.interrupts.EXIT_GRACE = 600
assert compute([delayed(abs)(-i) for i in range(100)], **ON) == (list(range(100)),)
x, = persist(delayed(abs)(-1), **ON)
wait(x)
lazy = persist(delayed(abs)(-1), **ON)
say("done")
"""
    with Program(script) as program:
        program.expect("done")
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(0)


def test_sys_exit_in_a_task() -> None:
    script = """
try:
    compute(delayed(sys.exit)(7), **ON)
except lazyflow.RemoteTaskError as error:
    say("told", type(error.__cause__).__name__)
"""
    with Program(script) as program:
        assert program.expect("told") == ["SystemExit"]
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(0)


# -- faults that end the caller itself ------------------------------------------------------


@pytest.mark.parametrize("fault", DEATHS)
@pytest.mark.parametrize("place", ["argument pickling", "function pickling", "result unpickling"])
def test_a_fault_in_the_callers_own_process(place: str, fault: str) -> None:
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.path[:0] = {[os.path.dirname(each) for each in (__file__, fault_tools.__file__)]!r}
from test_process_fault_matrix import bad_task
up()
say("ready")
compute([delayed(abs)(-1), bad_task({place!r}, {fault!r}), delayed(abs)(-1)], **ON)
"""
    with Program(script) as program:
        program.expect("ready")
        code, out, err = program.end()
        assert code == {"os._exit": 3, "SIGSEGV": -11, "SIGKILL": -9}[fault]
        assert (out, err) == ("", "")
        assert program.leaves_nothing(GONE)
