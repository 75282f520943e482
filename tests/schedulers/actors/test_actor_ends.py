"""How actors in processes end with their program, and that nothing of them is left."""

import gc
import signal
import sys

import numpy as np
import pytest
from actor_examples import Counter, Weights
from fault_tools import MARK, Before, Program, new_mark
from waiting import until

from lazyflow import WorkerDied, compute, config, delayed, put, wait
from lazyflow.schedulers.processes.scheduler import processes

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
    pytest.mark.timeout(60),
]

GONE = 2.0  # seconds that anything may live on after its parent

ACTORS = """
@lazyflow.actor(scheduler="processes")
class Sleeper:
    def sleep(self):
        say("ready")
        time.sleep(60)
    def wait(self, gate):
        say("ready")
        gate.wait()
    def loop(self):
        say("ready")
        while True:
            pass
    def add(self, k):
        return k + 1
"""


@pytest.mark.parametrize("call", ["sleep", "loop"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_program_is_killed(call: str, number: int) -> None:
    script = f"{ACTORS}\na, b = Sleeper(), Sleeper()\nb.add(1).result()\na.{call}().result()"
    with Program(script) as program:
        program.expect("ready")
        assert until(lambda: len(program.left()) >= 2)
        program.signal(number)
        assert program.leaves_nothing(GONE)


def test_ctrl_c_while_a_call_is_waited_for() -> None:
    script = f"""{ACTORS}
from lazyflow.testing.signals import Gate
a, gate = Sleeper(), Gate()
try:
    a.wait(gate).result()
except KeyboardInterrupt:
    say("interrupted")
gate.open()
say("then", a.add(1).result())
try:
    compute(delayed(len)(a.sleep()))
except KeyboardInterrupt:
    say("interrupted")
lazyflow.shutdown()
"""
    with Program(script) as program:
        program.expect("ready")
        program.signal(signal.SIGINT)
        program.expect("interrupted")
        assert program.expect("then") == ["2"]  # the call went on, and the next one after it
        program.expect("ready")
        program.signal(signal.SIGINT)
        program.expect("interrupted")
        code, _, err = program.end()
        assert (code, err) == (0, "")
        assert program.leaves_nothing(GONE)


def test_a_running_call_is_named_at_the_end_of_the_program() -> None:
    script = f"""
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # before there are other threads
{ACTORS}
lazyflow.config.set(exit_timeout=0)
a = Sleeper()
f, g = a.sleep(), a.add(1)
signal.sigwait([signal.SIGUSR1])
"""
    with Program(script) as program:
        program.expect("ready")
        program.signal(signal.SIGUSR1)
        code, _, err = program.end()
        assert code == 0
        assert "exit_timeout=0 passed: 2 calls, " in err
        assert "still running when Python ended: Sleeper.sleep, made at" in err
        assert program.leaves_nothing(GONE)


def test_a_child_of_a_fork_has_no_actor() -> None:
    script = f"""{ACTORS}
import warnings
warnings.simplefilter("ignore")
a = Sleeper()
a.add(1).result()
pid = os.fork()
if not pid:
    try:
        a.add(1).result(timeout=10)
    except lazyflow.Cancelled:
        say("cancelled")
    os._exit(0)
os.waitpid(pid, 0)
say("parent", a.add(2).result())
"""
    with Program(script) as program:
        program.expect("cancelled")
        assert program.expect("parent") == ["3"]
        assert program.end()[0] == 0
        assert program.leaves_nothing(GONE)


def test_nothing_is_left_of_actors_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = new_mark()
    processes.shutdown()
    monkeypatch.setenv(MARK, mark)
    with config.set(scheduler="processes", num_workers=2):
        compute(delayed(abs)(-1))
        before = Before(mark)
        use_some()
        before.check()
    processes.shutdown()


def use_some() -> None:
    size = 100_000
    weights = Weights.options(restarts=1, checkpoint=("state", "load"))(size)
    held = put(np.ones(size))
    results = [weights.step(held, np.ones(size), delayed(np.ones)(size)) for _ in range(5)]
    totals = [delayed(np.sum)(r) for r in results]
    assert compute(totals) == ([size * 3.0 * i for i in range(1, 6)],)
    assert results[4].result()[0] == 15
    assert weights.step(results[0]).result()[0] == 18
    counter = Counter.options(restarts=1)()
    dead = [counter.die("SIGKILL"), counter.note(np.ones(size)), counter.die("exit"),
            counter.note(np.ones(size)), counter.note(held)]
    wait(dead)
    with pytest.raises(WorkerDied):
        dead[-1].result()
    cancelled = [counter.note(np.ones(size)) for _ in range(3)]
    for each in cancelled:
        each.cancel()
    del weights, held, results, totals, counter, dead, cancelled
    gc.collect()
