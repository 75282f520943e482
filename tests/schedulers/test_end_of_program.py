"""What was submitted and is not done when the program ends: it is finished, or said to be lost."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap

import pytest
from engine_schedulers import CONCURRENT, skip_without_threads_at_the_end

from lazyflow.testing.signals import Gate, Level, Tally

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}

HEAD = """
import os, pickle, sys, threading, time
import lazyflow
from lazyflow import config, submit, delayed, persist
tally, running, main_is_over = pickle.loads({signals!r})
def this_is_all():  # what is known last is called first
    threading._register_atexit(main_is_over.open)
def run(i):
    main_is_over.wait()
    return tally.add(i)
def wait(i=0):
    tally.add("began")
    running.up()
    time.sleep(60)
    return tally.add(i)
@lazyflow.actor
class Counter:
    def add(self, i):
        main_is_over.wait()
        return tally.add(i)
if __name__ == "__main__":
    config.set(scheduler={scheduler!r}, num_workers=2)
"""


class Script:
    """A program that notes in a file what its tasks do."""

    def __init__(self, folder, scheduler, body):
        self.signals = Tally(), Level(), Gate()
        path = folder / "program.py"
        head = HEAD.format(signals=pickle.dumps(self.signals), scheduler=scheduler)
        path.write_text(head + textwrap.indent(textwrap.dedent(body), "    "))
        self.process = subprocess.Popen(
            [sys.executable, str(path)], env=ENV, cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self):
        """Return the exit code, what was told on stderr by lazyflow, and what ran."""
        _, err = self.process.communicate(timeout=120)
        told = [line for line in err.splitlines() if line.startswith("lazyflow:")]
        return self.process.returncode, told, self.signals[0].items()


@pytest.mark.parametrize("scheduler", CONCURRENT)
@pytest.mark.parametrize("how", ["", "sys.exit(3)", "1 / 0"])
def test_what_was_submitted_is_done(tmp_path, scheduler, how):
    if how and scheduler in ("distributed", "ray"):
        pytest.skip("it is the same as where the program just ends")
    skip_without_threads_at_the_end(scheduler)
    code, told, ran = Script(tmp_path, scheduler, f"""
        for i in range(10):
            submit(run, i)
        this_is_all()
        {how}
    """).end()
    assert code == {"": 0, "sys.exit(3)": 3, "1 / 0": 1}[how]
    assert sorted(ran) == list(range(10))
    assert told == []


@pytest.mark.parametrize("scheduler", CONCURRENT)
def test_calls_of_actors_are_done(tmp_path, scheduler):
    skip_without_threads_at_the_end(scheduler)
    code, told, ran = Script(tmp_path, scheduler, """
        counter = Counter()
        for i in range(10):
            counter.add(i)
        Counter().add(10)
        this_is_all()
    """).end()
    assert (code, told) == (0, [])
    assert sorted(ran) == list(range(11))


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_what_depends_on_it_and_what_it_submits_is_done(tmp_path, scheduler):
    code, told, ran = Script(tmp_path, scheduler, """
        def again(i):
            submit(run, i + 100)
            return lazyflow.compute(delayed(run)(i + 200))[0]
        futures = [submit(run, i) for i in range(5)]
        futures += [submit(run, f) for f in futures]
        submit(again, 0)
        del futures
        this_is_all()
    """).end()
    assert (code, told, len(ran)) == (0, [], 12)
    assert {100, 200}.issubset(ran)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_a_limit_of_time_says_what_is_dropped(tmp_path, scheduler):
    script = Script(tmp_path, scheduler, """
        config.set(exit_timeout=0.5)
        for i in range(10):
            submit(wait, i)
    """)
    code, told, ran = script.end()
    assert code == 0
    assert told[0] == (
        "lazyflow: dropped at the end of the program, since config.exit_timeout=0.5 passed: 10 "
        "calls, wait (10), submitted and not done. Wait for them before it, by "
        "lazyflow.wait(futures), or raise exit_timeout."
    )
    assert set(ran) <= {"began"}


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_ctrl_c_says_what_is_dropped(tmp_path, scheduler):
    """The first one ends the program, which goes on waiting; the second one ends that."""
    script = Script(tmp_path, scheduler, """
        for i in range(2):
            submit(wait, i)
        running.wait_for(2)
        print("ready", flush=True)
        time.sleep(60)
    """)
    assert script.process.stdout.readline() == "ready\n"
    script.process.send_signal(signal.SIGINT)
    while not (line := script.process.stderr.readline()).startswith("lazyflow:"):
        assert line
    assert line == (
        "lazyflow: 2 calls, wait (2), submitted and not done: waiting for them; Ctrl-C drops them\n"
    )
    script.process.send_signal(signal.SIGINT)
    _, told, ran = script.end()
    assert told[0].startswith(
        "lazyflow: dropped at the end of the program, at Ctrl-C: 2 calls, wait (2), submitted and")
    assert ran == ["began", "began"]


def test_what_is_persisted_is_for_the_program_alone(tmp_path):
    """Nobody can ask for it any more."""
    code, told, ran = Script(tmp_path, "threads", """
        kept = persist([delayed(wait)(i) for i in range(4)])
        running.wait_for(2)
    """).end()
    assert code == 0
    assert [line.split(", made")[0] for line in told] == [
        "lazyflow: still running when Python ended: wait"] * 2
    assert ran == ["began", "began"]
