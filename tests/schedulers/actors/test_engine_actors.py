"""Actors on distributed: where values go, what dies, and what is left of them."""

import asyncio
import gc
import glob
import os
import signal
import socket
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from actor_examples import Counter, Weights
from engine_schedulers import local_client
from fault_tools import without_heartbeats
from waiting import until

import lazyflow
from lazyflow import (
    LazyflowWarning,
    RemoteTaskError,
    SchedulerLost,
    SerializationError,
    WorkerDied,
    actor,
    compute,
    config,
    delayed,
    persist,
    put,
    submit,
    wait,
)
from lazyflow.schedulers.cluster.actors import journal
from lazyflow.schedulers.registry import scheduler_named
from lazyflow.testing.signals import Gate, inc, raise_it

distributed = pytest.importorskip("distributed", reason="distributed is not installed")

PATIENCE = 20.0  # seconds
SIZE = 100_000  # numbers of an array that stays in its worker


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("journals"))
        patch.setenv("TMPDIR", folder)  # of the workers
        patch.setattr(tempfile, "tempdir", folder)  # of this process, which has looked
        with local_client() as client:
            yield client


@pytest.fixture(autouse=True)
def on_distributed(client):
    with config.set(scheduler="distributed"):
        yield


def journals():
    """Return the files there: none of actors whose caller is on this machine."""
    return set(glob.glob(os.path.join(os.environ["TMPDIR"], "lazyflow-*", "actor-*")))


def without_actors(client):
    """Wait until those of earlier tests are gone, and workers that were killed are there again."""
    gc.collect()
    assert until(lambda: actors_in(client) == [0, 0])
    return journals()


def actors_in(client):
    """Return how many each worker has that answers."""
    return sorted(actors for _, actors in client.run(where, on_error="ignore").values())


def test_actors_leave_no_names_in_the_scheduler(client):
    without_actors(client)
    scheduler = client.cluster.scheduler

    def names():
        return {name for name in scheduler.task_prefixes if "lazyflow_actor" in name}

    for _ in range(5):
        weights = Weights(SIZE)
        kept = weights.step(np.ones(SIZE))
        total = submit(np.sum, kept)  # of a value that stays there
        assert total.result() == SIZE
        del weights, kept, total
    without_actors(client)
    assert names() == {"lazyflow_actor"}
    assert until(lambda: not [name for name in scheduler.task_groups if "lazyflow_actor" in name])


# -- values ---------------------------------------------------------------------------------


def test_values_stay_in_the_cluster(client, monkeypatch):
    from lazyflow.schedulers.cluster.dask.engine import DaskEngine

    brought = []
    bring = DaskEngine.bring
    monkeypatch.setattr(
        DaskEngine, "bring", lambda self, remotes: brought.extend(
            r for r in remotes if r.short is None) or bring(self, remotes))
    one, two = Weights(SIZE), Weights(SIZE)
    held = put(np.ones(SIZE))
    (made,) = persist(delayed(np.ones)(SIZE))
    first = one.step(held, made)
    second = two.step(first, held)
    total = delayed(np.sum)([first, second])
    assert total.compute() == 5 * SIZE
    assert brought == []
    assert second.result()[0] == 3
    assert len(brought) == 1


def with_late_ends(seconds, dask_worker):
    """Have a worker tell the scheduler late that tasks have ended: after lazyflow's reports."""
    send = type(dask_worker).batched_send

    def send_late(message):
        if message["op"] == "task-finished":
            dask_worker.loop.call_later(seconds, send, dask_worker, message)
        else:
            send(dask_worker, message)

    if seconds:
        dask_worker.batched_send = send_late
    else:
        del dask_worker.batched_send


def test_an_actor_gets_a_value_that_the_scheduler_has_not_heard_of_yet(client, monkeypatch):
    from lazyflow.schedulers.cluster.dask.engine import DaskEngine

    brought = []
    bring = DaskEngine.bring
    monkeypatch.setattr(
        DaskEngine, "bring", lambda self, remotes: brought.append(remotes) or bring(self, remotes))
    weights = Weights(1)
    assert weights.get().result().shape == (1,)
    client.run(with_late_ends, 0.1)
    try:
        made = persist(*(delayed(np.full)(SIZE, float(i)) for i in range(3)))
        steps = [weights.set(each) for each in made]
        assert [step.result() for step in steps] == [None] * 3
    finally:
        client.run(with_late_ends, 0)
    assert brought == []


def test_a_value_whose_holder_died_is_brought_again(client):
    without_actors(client)
    counters = [Counter(), Counter()]
    pids = [c.pid().result() for c in counters]
    assert pids[0] != pids[1]  # one on each worker
    held = put(np.ones(SIZE))
    (made,) = persist(delayed(np.full)(SIZE, 2.0))
    wait(made)
    keys = client.run(
        lambda dask_worker: (os.getpid(), sum(map(sys.getsizeof, dask_worker.data.values()))))
    holder = max(keys.values(), key=lambda pair: pair[1])[0]
    counter = counters[pids.index(holder) - 1]
    gate, begun = Gate(), Gate()
    blocked = counter.wait_at(gate, begun)
    assert begun.wait()
    os.kill(holder, signal.SIGKILL)
    total = counter.total(held, made)  # it may be sent before or after the death is known
    gate.open()
    assert blocked.result() == "passed"
    assert total.result().sum() == 3 * SIZE


def test_a_large_result_is_gone_with_its_worker():
    weights = Weights(SIZE)
    large, small = weights.step(np.ones(SIZE)), weights.pid()
    wait([large, small])
    os.kill(small.result(), signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"result of Weights.step, .*kept in the cluster and is"):
        large.result()
    assert small.result() > 0


def test_a_method_computes_and_has_actors_of_its_own():
    assert actor(Nesting)().sum_of(5).result() == 10 + 5


class Nesting:
    def sum_of(self, n):
        counter = Counter()
        for i in range(n):
            counter.add(i)
        return counter.add(0).result() + sum(compute(*[delayed(inc)(0) for _ in range(n)]))


def test_values_go_between_schedulers():
    with config.set(num_workers=1):
        large, small = lazyflow.map(np.ones, [SIZE, 3], scheduler="processes")
        weights, counter = Weights(SIZE), Counter()
        first = weights.step(large)
        assert counter.total(small, [first]).exception() is not None  # of other shapes
        assert counter.total(large, [first]).result().sum() == 2 * SIZE
        assert delayed(np.sum)(first).compute(scheduler="processes") == SIZE
        assert delayed(np.sum)(first).compute(scheduler="threads") == SIZE
        (kept,) = persist(delayed(np.ones)(SIZE))
        assert delayed(np.sum)(kept).compute(scheduler="processes") == SIZE
        gate = Gate()
        late = counter.wait_at(gate)
        (joined,) = persist(delayed("-".join)([late, "on"]), scheduler="processes")
        gate.open()
        assert joined.compute() == "passed-on"
        for scheduler in ("threads", "processes"):
            home = Counter.options(scheduler=scheduler)()
            assert home.total(first, counter.add(1)).result().sum() == 2 * SIZE
            counter.add(-1)


def test_a_client_is_a_scheduler_of_actors(client):
    counter = Counter.options(scheduler=client)(1)
    assert counter.add(1).result() == 2


# -- errors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [
    GeneratorExit, asyncio.CancelledError, KeyboardInterrupt, StopIteration,
])
def test_d5_what_would_hang_the_engine_is_a_record(kind):
    raiser = actor(Raiser)()
    with pytest.raises(RemoteTaskError, match=kind.__name__):
        raiser.throw(kind).result(timeout=PATIENCE)
    with pytest.raises(RecursionError):
        raiser.deep(0).result(timeout=PATIENCE)


class Raiser:
    def throw(self, kind):
        raise_it(kind)

    def deep(self, n):
        return self.deep(n + 1)


def test_a_class_that_workers_can_not_import(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("class Here:\n    def get(self): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(SerializationError, match="the class of an actor .* No module named") as e:
        actor(only_here.Here)().get().result()
    assert "set PYTHONPATH before they start" in str(e.value)


# -- deaths ---------------------------------------------------------------------------------


def test_what_had_ended_is_over_though_its_answer_was_not_sent():
    counter = Counter.options(restarts=1, checkpoint="get_state")()
    ended = [counter.add(1) for _ in range(20)]
    fatal, later = counter.die("SIGKILL"), counter.add(1)
    assert [f.result() for f in ended] == list(range(1, 21))
    with pytest.raises(WorkerDied, match="while it ran Counter.die"):
        fatal.result()
    assert later.result() == 21


def test_a_journal_is_read_by_others_of_its_machine(client, monkeypatch):
    without_actors(client)

    monkeypatch.setattr(journal, "claimed", lambda *_: None)  # as on another machine
    test_what_had_ended_is_over_though_its_answer_was_not_sent()


def test_all_that_was_sent_may_have_run_when_nobody_has_the_journal(client, monkeypatch):
    monkeypatch.setattr(journal, "claimed", lambda *_: None)
    before = without_actors(client)
    gate, begun = Gate(), Gate()
    counter = Counter.options(restarts=1)()
    blocked, sent = counter.wait_at(gate, begun), counter.add(1)  # they go together
    assert begun.wait()
    (lost,) = journals() - before
    os.unlink(lost)
    (pid,) = [pid for pid, actors in client.run(where).values() if actors]
    os.kill(pid, signal.SIGKILL)
    for future in (blocked, sent):
        with pytest.raises(WorkerDied, match="The call is not run again"):
            future.result()
    assert counter.add(1).result() == 1


def test_an_actor_whose_machine_can_not_keep_a_journal_goes_on(client, tmp_path):
    before = without_actors(client)
    (tmp_path / "file").touch()
    folders = client.run(folder_of_temporary_files, str(tmp_path / "file"))
    try:
        with pytest.warns(LazyflowWarning, match="Counter .* can't keep a journal .*Error") as told:
            counter = Counter()
            assert [counter.add(1).result() for _ in range(3)] == [1, 2, 3]
            assert until(lambda: told)
    finally:
        for address, folder in folders.items():
            client.run(folder_of_temporary_files, folder, workers=[address])
    assert "It goes on without" in str(told[0].message)
    assert journals() == before


def folder_of_temporary_files(folder):
    before, tempfile.tempdir = tempfile.tempdir, folder
    return before


def where(dask_worker):
    return os.getpid(), len(dask_worker.state.actors)


def test_several_calls_at_once_are_all_to_blame():
    gate, begun = Gate(), Gate()
    several = Counter.options(max_concurrency=2, restarts=1)()
    pid = several.pid().result()
    both = [several.wait_at(gate), several.wait_at(gate, begun)]
    queued = several.add(1)
    assert begun.wait()
    os.kill(pid, signal.SIGKILL)
    for future in both:
        with pytest.raises(WorkerDied, match="while it ran Counter.wait_at"):
            future.result()
    assert queued.result() == 1


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.filterwarnings("ignore")
def test_d7_the_scheduler_is_killed():
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1",
         "--port", str(port), "--no-dashboard"], **quiet)
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1",
         "--no-nanny", "--host", "127.0.0.1", "--no-dashboard"],
        **quiet, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        gate, begun = Gate(), Gate()
        counter = Counter.options(scheduler=address, restarts=3)()
        blocked = counter.wait_at(gate, begun)
        assert begun.wait()
        scheduler.kill()
        for future in (blocked, counter.add(1)):
            with pytest.raises(SchedulerLost, match="the connection to the scheduler"):
                future.result(timeout=30)
    finally:
        scheduler.kill()
        worker.kill()
        scheduler.wait()
        worker.wait()
        scheduler_named(address).shutdown()


# -- ends -----------------------------------------------------------------------------------


def test_workers_get_as_many_actors(client):
    without_actors(client)
    counters = [Counter() for _ in range(12)]
    wait([c.add(1) for c in counters])
    assert actors_in(client) == [6, 6]


def test_nothing_is_left_of_an_actor(client):
    before = without_actors(client)
    held = {key for keys in client.has_what().values() for key in keys}
    counter, weights = Counter(), Weights(SIZE)
    results = [weights.step(np.ones(SIZE)) for _ in range(3)]
    assert submit(np.sum, results[2]).result() == 3 * SIZE
    assert counter.add(1).result() == 1
    assert journals() == before  # their caller has them open
    assert actors_in(client) == [1, 1]
    last = counter.wait_at(Gate())
    last.cancel()
    del counter, weights, results, last
    dead = Counter()
    with pytest.raises(WorkerDied):
        dead.die("exit").result()
    assert until(lambda: actors_in(client) == [0, 0])
    assert until(lambda: journals() <= before)
    assert until(lambda: {k for ks in client.has_what().values() for k in ks} <= held)


def test_shutdown_leaves_the_client_and_later_actors(client):
    counters = [Counter(), Counter.options(scheduler=client)()]
    assert [c.add(1).result() for c in counters] == [1, 1]
    lazyflow.shutdown()
    for counter in counters:
        with pytest.raises(lazyflow.Cancelled, match="lazyflow.shutdown"):
            counter.add(1).result()
    assert client.status == "running"
    assert Counter().add(1).result() == 1


def test_a_client_that_is_closed_ends_its_actors(client):
    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        gate, begun = Gate(), Gate()
        counter = Counter.options(scheduler=other)()
        blocked = counter.wait_at(gate, begun)
        assert begun.wait()
    for future in (blocked, counter.add(1)):
        with pytest.raises(SchedulerLost):
            future.result(timeout=PATIENCE)
    del other
    gc.collect()
    with pytest.raises(SchedulerLost):
        counter.add(1).result(timeout=PATIENCE)
    gate.open()


def test_a_task_that_waits_for_an_actor_gives_it_its_slot():
    """The actor is made when a worker has a slot, and the task that waits for it has the only."""
    with local_client(workers=1), config.set(scheduler="distributed"):
        first, gate, begun = Counter.options(name="first")(), Gate(), Gate()

        def later():
            begun.open()
            gate.wait()
            return lazyflow.get_actor("later").add(1).result()

        task = submit(later)
        assert begun.wait()
        counter = Counter.options(name="later")()
        gate.open()
        assert task.result(timeout=PATIENCE) == 1
        assert counter.add(first.add(0)).result() == 1


PROGRAM = """
import sys, lazyflow
class Speaker:
    def twice(self, x): return 2 * x
if __name__ == "__main__":
    lazyflow.config.set(num_workers=1, scheduler="distributed")
    speaker = lazyflow.actor(Speaker)()
    print(speaker.twice(3).result())
"""


def test_a_program_ends_with_its_actors(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    out = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path]),
             "TMPDIR": str(tmp_path)})
    assert (out.returncode, out.stdout, without_heartbeats(out.stderr)) == (0, "6\n", "")
    assert not list(tmp_path.glob("lazyflow-actor-*"))
