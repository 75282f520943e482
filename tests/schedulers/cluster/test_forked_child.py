"""The child of a fork that uses its parent's client of distributed is told so."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("distributed", reason="distributed is not installed")

PROGRAM = """
import os, signal, warnings
import distributed
import lazyflow
from lazyflow import compute, config, delayed, persist, put, submit
from lazyflow.testing.signals import Gate
warnings.simplefilter("ignore", DeprecationWarning)

@lazyflow.actor
class Counter:
    def add(self, i):
        return i

if __name__ == "__main__":
    gate = Gate()
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0")
    client = distributed.Client(cluster)
    theirs = client.submit(abs, -1)
    if {used}:
        config.set(scheduler="distributed")
        compute(delayed(abs)(-1))
        held, counter = put(list(range(9))), Counter()
        counter.add(1).result()
        pending = submit(gate.wait)
        kept, = persist(delayed(range)(100000))
        lazyflow.wait(kept)
    pid = os.fork()
    if pid == 0:
        signal.alarm(50)  # what would wait for ever ends by that
        for how in {hows!r}:
            try:
                exec(how)
            except BaseException as error:
                print(type(error).__name__, "|", error, flush=True)
            else:
                print("done", flush=True)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    gate.open()
    print(code, compute(delayed(abs)(-2), scheduler=client)[0], flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(("used", "hows"), [
    (False, [
        "compute(delayed(abs)(-1), scheduler='distributed')",
        "compute(delayed(abs)(-1), scheduler=client)",
        "submit(abs, theirs).result()",
    ]),
    (True, [
        "compute(delayed(abs)(-1))",
        "submit(abs, -1)",
        "put([1])",
        "pending.result()",
        "compute(delayed(sum)(held))",
        "kept.compute()",
        "Counter()",
        "counter.add(2).result()",
    ]),
])
def test_the_parents_client_is_refused(tmp_path, used, hows):
    script = tmp_path / "forks.py"
    script.write_text(PROGRAM.format(used=used, hows=hows))
    out = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=110, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])})
    *lines, end = out.stdout.splitlines()
    assert (end, len(lines)) == ("0 2", len(hows)), out.stderr
    for how, line in zip(hows, lines, strict=True):
        name, _, words = line.partition(" | ")
        if how.startswith("counter"):
            assert name == "Cancelled"
        else:
            assert name == "SchedulerLost", how
            assert "is the child of a fork, and the distributed.Client that it uses" in words
            assert "Make a client here" in words
