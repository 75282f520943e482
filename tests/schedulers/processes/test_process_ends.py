"""How programs with worker processes end, and where they may come from: see the table in
test_process_faults.py.

Programs run in processes of their own, get real signals, and print a line when they are where the
test wants them. All that they start carries a mark in its environment, by which it is found.
"""

import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fault_tools
import pytest
from fault_tools import (
    DEATHS,
    LIMIT,
    MARK,
    ON,
    PRELUDE,
    SLACK,
    Before,
    Program,
    marked,
    new_mark,
    pids,
    until,
)

import lazyflow
from lazyflow import RemoteTaskError, StoreFull, compute, config, delayed, persist, wait
from lazyflow.schedulers.processes.scheduler import processes
from lazyflow.testing.tasks import inc

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
]

def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


GONE = 2.0  # seconds that anything may live on after its parent
BACK = 2.0  # seconds from Ctrl-C to the caller's next line


# -- Ctrl-C ---------------------------------------------------------------------------------

RUNNING = {
    "sleeping in C": "time.sleep(60)",
    "looping": "\n    while True: pass",
    "catching everything": """
    while True:
        try:
            while True: pass
        except BaseException: pass""",
    "holding the lock in C": "3 ** 300_000_000",
    "with children": "import subprocess; subprocess.run(['sleep', '60'])",
}

AFTER = """
started.append(1)
up()
from lazyflow.testing.signals import Tally
assert compute(delayed(abs)(-3), **ON) == (3,)
lazyflow.shutdown()
left = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
say("started", len(ran), "left", *left)
"""


def long_program(body: str, then: str = "") -> str:
    return f"""
from lazyflow.testing.signals import Tally
ran, started = Tally(), []
def long(i):
    ran.add(i)
    say("ready")
    {body}
up()
try:
    compute([delayed(long)(i) for i in range(12)], **ON)
except KeyboardInterrupt:
    say("interrupted")
{then}
"""


@pytest.mark.parametrize(
    ("body", "group"), [*((body, False) for body in RUNNING), ("sleeping in C", True)]
)
def test_ctrl_c(body: str, group: bool) -> None:
    with Program(long_program(RUNNING[body], AFTER)) as program:
        program.expect("ready")
        program.expect("ready")
        at = program.signal(signal.SIGINT, group)
        program.expect("interrupted")
        assert time.monotonic() - at < BACK * SLACK
        # Only the two that ran had begun; no thread is left.
        assert program.expect("started") == ["2", "left"]
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(GONE)


WAITS = {
    "persist and wait": "wait(persist(*[delayed(sleeper)(i) for i in range(4)], **ON))",
    "persist and compute": "compute(persist(*[delayed(sleeper)(i) for i in range(4)], **ON))",
    "collect": "compute([delayed(sleeper)(i) for i in range(4)], **ON, on_error='collect')",
    "timeout": "compute([delayed(sleeper)(i) for i in range(4)], **ON, timeout=50)",
    "nested": "compute([delayed(lambda i: compute(delayed(sleeper)(i)))(i) for i in range(4)],"
              " **ON)",
    "returned": "compute([delayed(lambda i: delayed(sleeper)(i))(i) for i in range(4)], **ON)",
    "shutdown": "x = sleepers()\n    lazyflow.shutdown()",
}


@pytest.mark.parametrize(
    "how", [slow(how) if how in ("timeout", "persist and compute") else how for how in WAITS]
)
def test_ctrl_c_in_every_kind_of_wait(how: str) -> None:
    script = f"""
up()
try:
    {WAITS[how]}
except KeyboardInterrupt:
    pass
say("interrupted")
up()
lazyflow.shutdown()
"""
    with Program(script) as program:
        program.expect("ready")
        if how != "shutdown":
            program.expect("ready")
        at = program.signal(signal.SIGINT)
        program.expect("interrupted")
        assert time.monotonic() - at < BACK * SLACK
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(GONE)


@pytest.mark.parametrize("group", [False, True])
def test_a_second_ctrl_c(group: bool) -> None:
    """The first ends the wait, the second the program, at its end if need be."""
    script = """
up()
try:
    compute([delayed(sleeper)(i) for i in range(4)], **ON)
except KeyboardInterrupt:
    say("interrupted")
compute([delayed(sleeper)(i) for i in range(4)], **ON)
"""
    with Program(script) as program:
        program.expect("ready")
        program.expect("ready")
        program.signal(signal.SIGINT, group)
        program.expect("interrupted")
        program.expect("ready")
        at = program.signal(signal.SIGINT, group)
        code, _, err = program.end()
        assert time.monotonic() - at < BACK * SLACK
        assert code in (-signal.SIGINT, 1, 130)
        assert err.strip().splitlines()[-1] == "KeyboardInterrupt"
        assert program.leaves_nothing(GONE)


def test_ctrl_c_at_the_end_of_a_program() -> None:
    """What waits for running tasks then ends at once."""
    script = """
x = sleepers()
from lazyflow.schedulers.processes import scheduler
shutdown = processes.shutdown
def telling(grace):
    say("end")
    return shutdown(60.0)
processes.shutdown = telling
"""
    with Program(script) as program:
        program.expect("ready")
        program.expect("end")
        at = program.signal(signal.SIGINT)
        code, _, err = program.end()
        assert time.monotonic() - at < BACK * SLACK
        assert (code, err) in ((0, ""), (-signal.SIGINT, ""))
        assert program.leaves_nothing(GONE)


@pytest.mark.parametrize("wait_for", [0.0, 0.003, 0.05])
def test_ctrl_c_in_a_pool_that_starts(wait_for: float) -> None:
    """At any moment: workers may be on their way, and what they have inherited is half there."""
    script = """
try:
    say("ready")
    compute([delayed(time.sleep)(60) for i in range(4)], **ON)
except KeyboardInterrupt:
    say("interrupted")
assert compute(delayed(abs)(-3), **ON) == (3,)
lazyflow.shutdown()
"""
    with Program(script) as program:
        program.expect("ready")
        time.sleep(wait_for)  # not a wait for something: another moment each time
        at = program.signal(signal.SIGINT)
        program.expect("interrupted")
        assert time.monotonic() - at < BACK * SLACK
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(GONE)


def test_ctrl_c_before_a_slow_worker_has_begun(tmp_path: Path) -> None:
    """It may take its task when it is up, long after the run is over: nobody waits for that."""
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(0.4)")
    script = """
for _ in range(2):
    try:
        say("ready")
        compute([delayed(time.sleep)(60) for i in range(4)], **ON)
    except KeyboardInterrupt:
        say("interrupted")
    assert compute(delayed(abs)(-3), **ON) == (3,)
    lazyflow.shutdown()
"""
    with Program(script, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.getcwd()}") as program:
        for _ in range(2):
            program.expect("ready")
            time.sleep(0.05)  # into the wait; right whenever it comes
            program.signal(signal.SIGINT)
            program.expect("interrupted")
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(GONE)


# -- the end of the parent ------------------------------------------------------------------

STATES = {
    "idle": "up()\nsay('ready')\ntime.sleep(60)",
    "holding values": """
import numpy
x = persist([delayed(numpy.ones)(1_000_000) for _ in range(4)], **ON)[0]
both = delayed(lambda a, b: (a + b).sum())(*x[:2])
assert compute(delayed(sum)([y.sum() for y in x]), both, **ON) == (4_000_000, 2_000_000)
seen = compute(x[0])
say("ready")
time.sleep(60)
""",
    **{f"running, {what}": f"""
def long(i):
    say("begun")
    {body}
up()
x = persist([delayed(long)(i) for i in range(12)], **ON)
time.sleep(60)
""" for what, body in RUNNING.items()},
}

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
    check_parent(state, "SIGKILL")


@pytest.mark.slow
@pytest.mark.parametrize("wait_for", [i / 200 for i in range(40)])
def test_the_parent_is_killed_while_it_starts_workers(wait_for: float) -> None:
    kill_at(wait_for)


@pytest.mark.parametrize("wait_for", [0.0, 0.03])
def test_the_parent_is_killed_early(wait_for: float) -> None:
    kill_at(wait_for)


def kill_at(wait_for: float) -> None:
    script = "say('ready')\ncompute([delayed(sleeper)(i) for i in range(4)], **ON)"
    with Program(script) as program:
        program.expect("ready")
        time.sleep(wait_for)  # another moment each time
        program.signal(signal.SIGKILL)
        assert program.leaves_nothing(GONE)


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
        at = time.monotonic()
        code, out, err = program.end()
        assert time.monotonic() - at < 2 + SLACK
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
def interrupt():
    while True:
        go.wait()
        if over: return
        time.sleep(rng.random() * {span})
        if go.is_set():
            go.clear()
            os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt)
thread.start()
def work(i):
    time.sleep(0.001)
    return i
up()
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
            time.sleep(0.0005)  # one may be on its way
    except KeyboardInterrupt:
        stopped += 1
        if {restart}: lazyflow.shutdown()
over.append(1)
go.set()
thread.join()
up()
assert processes.info()["jobs"] == 0
lazyflow.shutdown()
"""


@pytest.mark.parametrize(
    ("times", "span", "restart"),
    [(60, 0.03, False), slow(500, 0.03, False), slow(100, 0.12, True)],
)
def test_ctrl_c_at_any_moment(times: int, span: float, restart: bool) -> None:
    """Each is a KeyboardInterrupt in the caller or comes too late; nothing else, and no hang."""
    script = INTERRUPTED.format(seed=7, times=times, span=span, restart=restart)
    with Program(script) as program:
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(GONE)


def test_the_end_of_a_program_says_nothing_when_nothing_runs() -> None:
    script = """
assert compute([delayed(abs)(-i) for i in range(100)], **ON) == (list(range(100)),)
x, = persist(delayed(abs)(-1), **ON)
wait(x)
lazy = persist(delayed(abs)(-1), **ON)
say("done")
"""
    with Program(script) as program:
        program.expect("done")
        at = time.monotonic()
        assert program.end() == (0, "", "")
        assert time.monotonic() - at < SLACK
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
from test_process_faults import bad_task
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


# -- where programs come from ---------------------------------------------------------------

#: Without a guard; classes and functions of `__main__`, and a side effect that must come once.
UNGUARDED = """
import os
import lazyflow
from lazyflow import compute, delayed
print("once")
scale = 3
class Point:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return type(other) is Point and other.x == self.x
class Odd(Exception): pass
@delayed
def point(x): return Point(scale * x)
@delayed
def total(points):
    assert all(type(p) is Point for p in points)
    return sum(p.x for p in points)
def fails(): raise Odd("mine")
points = [point(i) for i in range(10)]
found, whole = compute(total(points), points, scheduler="processes", num_workers=2)
print(found, whole == [Point(3 * i) for i in range(10)], type(whole[0]) is Point)
try: compute(delayed(fails)(), scheduler="processes")
except Odd as error: print("Odd", error)

print("pid" if compute(delayed(os.getpid)(), scheduler="processes")[0] != os.getpid() else "same")
"""
SAID = ["once", "135 True True", "Odd mine", "pid"]


@pytest.mark.parametrize("how", ["script", "-c", "stdin", "prompt", "-m", "guarded"])
def test_where_a_program_may_come_from(how: str, tmp_path: Path) -> None:
    script = UNGUARDED
    if how == "guarded":
        script = "if __name__ == '__main__':\n" + textwrap.indent(UNGUARDED, "    ")
    file = tmp_path / "program.py"
    file.write_text(script)
    path = str(Path(lazyflow.__file__).parent.parent)
    if how in ("script", "guarded"):
        program = Program("", (str(file),), PYTHONPATH=path)
    elif how == "-c":
        program = Program(script, prelude="", PYTHONPATH=path)
    elif how == "-m":
        program = Program("", ("-m", "program"), PYTHONPATH=f"{tmp_path}{os.pathsep}{path}")
    elif how == "stdin":
        program = Program("", ("-",), stdin=script, PYTHONPATH=path)
    else:
        blocks = script  # which end with an empty line there
        for start in ("@delayed", "class Odd", "def fails", "points ="):
            blocks = blocks.replace(f"\n{start}", f"\n\n{start}")
        program = Program("", ("-i", "-q"), stdin=blocks, PYTHONPATH=path)
    with program:
        code, out, err = program.end()
        assert (code, out.splitlines()) == (0, SAID)
        assert "".join(err.split()).strip(">.") == ""  # the prompt writes its signs there
        assert program.leaves_nothing(0)


def test_the_input_of_a_program_is_its_own() -> None:
    """A task that reads finds the end, and takes nothing away from its parent."""
    script = """
try:
    compute(delayed(input)(), **ON)
except EOFError:
    say("end of file for the task")
say(sys.stdin.readline())
"""
    with Program(script, stdin="for the program\n") as program:
        code, out, err = program.end()
        assert (code, err) == (0, "")
        assert out.split("\n") == ["end of file for the task", "for the program", "", ""]


def test_a_module_in_the_working_directory_does_not_shadow(tmp_path: Path) -> None:
    """A user's socket.py is his own affair, not the workers' as they start."""
    (tmp_path / "marshal.py").write_text("raise RuntimeError('shadowed')")
    (tmp_path / "selectors.py").write_text("raise RuntimeError('shadowed')")
    script = tmp_path / "lib" / "program.py"
    script.parent.mkdir()
    script.write_text(
        "from lazyflow import compute, delayed\n"
        "print(*compute(delayed(abs)(-3), scheduler='processes'))\n"
    )
    path = str(Path(lazyflow.__file__).parent.parent)
    process = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path},
        capture_output=True, text=True, timeout=LIMIT,
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "3\n", "")


@pytest.mark.parametrize("closed", ["01", "012"])
def test_a_program_that_has_closed_its_standard_streams(closed: str) -> None:
    """Ours must not get their numbers: a worker's own streams are put there, and prints go in."""
    script = f"""
import os
from lazyflow import compute, delayed
from lazyflow.testing.signals import Barrier

both = Barrier(2)  # the tasks run in two workers
meet = delayed(lambda i: (both.wait(), print("hello " * 10), i)[2])
compute(delayed(abs)(1), scheduler="processes", num_workers=1)
told = os.dup(1)
for fd in {closed!r}:
    os.close(int(fd))
found = compute([meet(0), meet(1)], scheduler="processes", num_workers=2, timeout={LIMIT})
print("hello " * 10, flush=True)
os.write(told, repr(found).encode())
"""
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT,
        env=os.environ | {"PYTHONPATH": str(Path(lazyflow.__file__).parent.parent)},
    )
    assert (process.returncode, process.stdout) == (0, "([0, 1],)")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("state", ["idle", "running"])
def test_a_forked_program(state: str) -> None:
    """Both sides compute; the child starts a pool of its own, and neither holds up the other."""
    script = f"""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
x = delayed(sum)([delayed(abs)(-i) for i in range(50)])
keep, = persist(delayed(abs)(-1), **ON)
assert compute(x, **ON) == (1225,)
mine = set(w["pid"] for w in processes.info()["workers"])
if {state!r} == "running":
    busy, = persist(delayed(time.sleep)(0.5), **ON)
pid = os.fork()
if pid == 0:
    ok = compute(x, **ON) == (1225,)
    ok = ok and not mine & set(w["pid"] for w in processes.info()["workers"])
    lazyflow.shutdown()
    os._exit(5 if ok else 6)
assert compute(x, keep, **ON) == (1225, 1)
_, status = os.waitpid(pid, 0)
say("child", os.waitstatus_to_exitcode(status))
assert mine <= set(w["pid"] for w in processes.info()["workers"])
"""
    with Program(script) as program:
        assert program.expect("child") == ["5"]
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(GONE)


def test_what_is_pending_at_a_fork_is_refused_in_the_child() -> None:
    """As are values that only the parent's workers or its shared memory have."""
    script = """
import warnings
warnings.simplefilter("ignore")
from lazyflow import put, submit
from lazyflow.testing.signals import Gate
gate = Gate()
class Waits:
    def wait(self): return gate.wait()
with config.set(**ON):
    pending = submit(gate.wait)
    value, large, small = put(bytes(1 << 20)), submit(bytes, 1 << 20), submit(abs, -3)
    actor = lazyflow.actor(Waits)()
    call, queued = actor.wait(), actor.wait()
wait([large, small])
def refused(what):
    try:
        what()
    except lazyflow.Cancelled as error:
        return "in this process, the child of a fork: the workers" in str(error)
pid = os.fork()
if pid == 0:
    asked = [
        pending.result, value.result, large.result, call.result, queued.result,
        lambda: actor.wait().result(),
        lambda: compute(delayed(abs)(pending), **ON),
        lambda: compute(delayed(len)(value), **ON),
        lambda: compute(delayed(len)(value), scheduler="threads"),
    ]
    said = [refused(what) for what in asked]
    ok = small.result() == 3 and compute(delayed(abs)(-3), **ON) == (3,)
    lazyflow.shutdown()
    os._exit(5 if ok and all(said) else 6)
_, status = os.waitpid(pid, 0)
gate.open()
assert pending.result() and call.result() and len(value.result()) == len(large.result()) == 1 << 20
say("child", os.waitstatus_to_exitcode(status))
"""
    with Program(script) as program:
        assert program.expect("child") == ["5"]
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(GONE)


def test_what_is_pending_on_threads_at_a_fork_is_refused_in_the_child() -> None:
    """Also by a task that forks; and the child computes on threads of its own."""
    script = """
import warnings
warnings.simplefilter("ignore")
from lazyflow import submit
from lazyflow.testing.signals import Gate
config.set(scheduler="threads", num_workers=3)
gate, began = Gate(), Gate()
class Waits:
    def wait(self): return gate.wait()
actor = lazyflow.actor(Waits)()
call, queued = actor.wait(), actor.wait()
pending = submit(lambda: (began.open(), gate.wait()))
(later,) = persist(delayed(len)(pending))
began.wait()
def refused(what):
    try:
        what()
    except lazyflow.Cancelled as error:
        return "in this process, the child of a fork: " in str(error) and "threads" in str(error)
def forked():
    pid = os.fork()
    if pid == 0:
        ok = all(map(refused, [
            pending.result, call.result, queued.result, lambda: actor.wait().result(),
            later.compute, lambda: compute(delayed(len)(pending)),
        ]))
        mine = submit(abs, -3).result(), compute(delayed(abs)(-3)), lazyflow.actor(Adds)().add(3)
        os._exit(5 if ok and mine[:2] == (3, (3,)) and mine[2].result() == 3 else 6)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
class Adds:
    def add(self, n): return n
codes = forked(), compute(delayed(forked)())[0]
gate.open()
assert call.result() and queued.result() and later.compute() == 2
say("children", *codes)
"""
    with Program(script) as program:
        assert program.expect("children") == ["5", "5"]
        assert program.end() == (0, "", "")


def test_a_forked_child_that_lives_on_does_not_keep_the_workers() -> None:
    """It has closed what it inherited: with the parent gone, they go."""
    script = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
up()
pid = os.fork()
if pid == 0:
    time.sleep(60)
    os._exit(0)
say("child", pid)
time.sleep(60)
"""
    with Program(script) as program:
        child = int(program.expect("child")[0])
        assert until(lambda: len(program.left()) == 3)
        program.signal(signal.SIGKILL)
        assert until(lambda: program.left() == {child}, GONE * SLACK), program.left()
        os.kill(child, signal.SIGKILL)
        assert program.leaves_nothing(GONE)


def test_busy_blas_threads() -> None:
    """Workers are started by exec, so locks of the caller's libraries don't matter."""
    pytest.importorskip("numpy")
    script = """
import numpy
stop = []
def multiply():
    x = numpy.ones((200, 200))
    while not stop: x @ x
busy = [threading.Thread(target=multiply) for _ in range(2)]
for thread in busy: thread.start()
for i in range(20):
    assert compute(delayed(numpy.sum)(delayed(numpy.ones)(i)), **ON) == (i,)
    if i % 7 == 0: lazyflow.shutdown()
stop.append(1)
for thread in busy: thread.join()
say("done")
"""
    with Program(script) as program:
        program.expect("done")
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(0)


# -- memory ---------------------------------------------------------------------------------


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
    not shutil.which("unshare") or os.geteuid() != 0, reason="needs a mount of its own"
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
            time.sleep(LIMIT)

    def user() -> None:
        try:
            compute([delayed(long)() for _ in range(4)], **ON, timeout=LIMIT)
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=user)
    thread.start()
    assert running.wait_for(2)
    start = time.monotonic()
    lazyflow.shutdown()
    thread.join(LIMIT)
    assert time.monotonic() - start < 2 + SLACK
    assert [type(e) for e in told] == [lazyflow.Cancelled]


@pytest.mark.usefixtures("fresh")
def test_held_values_survive_a_shutdown() -> None:
    numpy = pytest.importorskip("numpy")
    x, y = persist(delayed(numpy.full)(100_000, 2.0), delayed(inc)(1), **ON)
    wait([x, y])
    lazyflow.shutdown()
    try:
        total, two = compute(delayed(numpy.sum)(x), y, **ON)
        assert (total, two) == (200_000.0, 2)
    except lazyflow.Cancelled as error:  # it was in a worker, and says so
        assert "shut down" in str(error)


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
        with pytest.raises((OSError, lazyflow.LazyflowError)) as caught:
            compute([delayed(inc)(i) for i in range(9)], **ON, timeout=LIMIT)
        assert not isinstance(caught.value, lazyflow.TaskTimeout)
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
