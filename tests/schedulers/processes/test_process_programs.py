"""Programs of every origin run on processes, in little memory."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from fault_tools import (
    HAS_LINUX,
    LIMIT,
    SLACK,
    Program,
)
from program_tools import (
    GONE,
)
from waiting import until

import lazyflow

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
]

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


OPEN = (
    "import runpy, sys, types; path = sys.argv[1]; "
    "code = compile(open(path).read(), path, 'exec'); main = sys.modules['__main__']; "
)

#: What debuggers, profilers, shells and editors do: what `__main__` has is theirs to say.
LAUNCHERS = {
    "pdb": ("-m", "pdb", "-c", "continue", "-c", "quit"),
    "cProfile": ("-m", "cProfile"),
    "trace": ("-m", "trace", "--count", "--coverdir", "HERE"),
    "run_path": ("-c", OPEN + "runpy.run_path(path)"),
    "run_path as the program": ("-c", OPEN + "runpy.run_path(path, run_name='__main__')"),
    "exec": ("-c", OPEN + "exec(code, {})"),
    "exec here": ("-c", OPEN + "exec(code)"),
    "a new module": (
        "-c", OPEN + "m = sys.modules['__main__'] = types.ModuleType('__main__'); "
        "exec(code, m.__dict__)"),
    "an empty module": (
        "-c", OPEN + "(lambda d, code, b: (d.clear(), d.update(__name__='__main__', "
        "__builtins__=b), exec(code, d)))(vars(main), code, __builtins__)"),
    "no module": (
        "-c", OPEN + "del sys.modules['__main__']; exec(code, {'__name__': '__main__'})"),
}


@pytest.mark.parametrize("how", LAUNCHERS)
def test_what_may_start_a_program(how: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(UNGUARDED)
    path = str(Path(lazyflow.__file__).parent.parent)
    words = [word.replace("HERE", str(tmp_path)) for word in LAUNCHERS[how]]
    with Program("", (*words, str(file)), PYTHONPATH=path) as program:
        code, out, err = program.end()
    said = [line for line in out.splitlines() if line in SAID]
    assert (code, said) == (0, SAID), err


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None or not HAS_LINUX,
    reason="only root can take /proc away, and only Linux needs it")
def test_a_machine_without_proc() -> None:
    code = """
        import numpy
        from lazyflow import compute, config, delayed
        config.set(scheduler="processes", num_workers=2)
        given = numpy.ones(1_000_000)
        made = delayed(numpy.ones)(1_000_000)
        print(*compute(delayed(abs)(-1), delayed(numpy.sum)(given), delayed(numpy.sum)(made)))
    """
    without = (
        "mount --make-rprivate / && umount -l /proc && exec \"$@\"", "sh", sys.executable, "-c",
        textwrap.dedent(code),
    )
    path = str(Path(lazyflow.__file__).parent.parent)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", *without], capture_output=True, text=True, timeout=50,
        env={**os.environ, "PYTHONPATH": path},
    )
    if "mount" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert (done.stdout, done.stderr) == ("1 1000000.0 1000000.0\n", "")


def test_an_error_shows_the_lines_of_the_program(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "from lazyflow import delayed\n"
        "def half(x):\n"
        "    return (lambda y: y / 0)(x)\n"
        "delayed(half)(1).compute(scheduler='processes')\n"
    )
    path = str(Path(lazyflow.__file__).parent.parent)
    with Program("", (str(file),), PYTHONPATH=path) as program:
        code, _, err = program.end()
    assert code == 1
    assert f'File "{file}", line 3, in half\n    return (lambda y: y / 0)(x)' in err
    assert f'File "{file}", line 3, in <lambda>\n    return (lambda y: y / 0)(x)' in err


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
os.environ.pop("OPENBLAS_NUM_THREADS", None)  # the suite's own
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
