"""How programs with worker processes end, and where they may come from: see the table in
test_process_faults.py.

Programs run in processes of their own, get real signals, and print a line when they are where the
test wants them; their tasks sleep for longer than the test waits. All that they start carries a
mark in its environment, by which it is found.
"""

import os
import signal
import sys
from pathlib import Path

import pytest
from fault_tools import (
    Program,
)
from program_tools import (
    GONE,
    RUNNING,
    slow,
)
from waiting import until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
]

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
        program.signal(signal.SIGINT, group)
        program.expect("interrupted")
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
        program.signal(signal.SIGINT)
        program.expect("interrupted")
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
        program.signal(signal.SIGINT, group)
        code, _, err = program.end()
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
    return shutdown(600)
processes.shutdown = telling
"""
    with Program(script) as program:
        program.expect("ready")
        program.expect("end")
        program.signal(signal.SIGINT)
        code, _, err = program.end()
        assert (code, err) in ((0, ""), (-signal.SIGINT, ""))
        assert program.leaves_nothing(GONE)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_ctrl_c_in_a_pool_that_starts(workers: int) -> None:
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
        assert until(lambda: len(program.left()) >= workers)
        program.signal(signal.SIGINT)
        program.expect("interrupted")
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(GONE)


def test_ctrl_c_before_a_slow_worker_has_begun(tmp_path: Path) -> None:
    """It may take its task when it is up, long after the run is over: nobody waits for that."""
    go_on = tmp_path / "go on"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\n"
        f"while not os.path.exists({str(go_on)!r}): time.sleep(0.001)\n"
    )
    go_on.touch()
    script = f"""
for _ in range(2):
    os.unlink({str(go_on)!r})
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
            assert until(lambda: len(program.left()) >= 2)
            program.signal(signal.SIGINT)
            program.expect("interrupted")
            go_on.touch()
        assert program.end() == (0, "", "")
        assert program.leaves_nothing(GONE)
