"""What dies in a cluster of distributed, and what the caller sees: faults with real kills."""

import asyncio
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest
from engine_schedulers import both_workers, local_client, skip_without_threads_at_the_end
from fault_tools import without_heartbeats
from waiting import until

import lazyflow
import lazyflow.array as la
from lazyflow import (
    LazyflowWarning,
    RemoteTaskError,
    SchedulerLost,
    TaskTimeout,
    WorkerDied,
    compute,
    delayed,
    persist,
)
from lazyflow.api.lazy import Delayed
from lazyflow.graph.binding import new_leaf
from lazyflow.graph.task import HELD
from lazyflow.schedulers.core.future import TaskFuture
from lazyflow.schedulers.registry import scheduler_named
from lazyflow.testing.signals import Gate, Tally, add, inc, raise_it

numpy = pytest.importorskip("numpy")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

ON = {"scheduler": "distributed", "timeout": 60}


@pytest.fixture(scope="module", autouse=True)
def client():
    with local_client() as client:
        yield client


def pids():
    return set(distributed.Client.current().run(os.getpid).values())


def end(pid):
    os.kill(pid, signal.SIGKILL)


def where():
    return os.getpid()


def heavy(i):
    return numpy.full(200_000, float(i)), os.getpid()


def total(pairs):
    return sum(float(array.sum()) for array, _ in pairs)


def test_d1_a_worker_that_holds_results_is_killed():
    blocks = persist(*[delayed(heavy)(i) for i in range(8)], scheduler="distributed")
    lazyflow.wait(list(blocks))
    (one,) = compute(delayed(lambda pair: pair[1])(blocks[0]), **ON)
    end(one)
    assert compute(delayed(total)(list(blocks)), **ON) == (200_000.0 * 28,)


def test_d2_both_workers_are_killed():
    blocks = persist(*[delayed(heavy)(i) for i in range(4)], scheduler="distributed")
    lazyflow.wait(list(blocks))
    for pid in pids():
        end(pid)
    assert compute(delayed(total)(list(blocks)), **ON) == (200_000.0 * 6,)


def test_a_worker_is_killed_while_it_computes():
    killed = Tally()

    def once(i):
        if i == 5 and killed.add(os.getpid()) == 1:
            end(os.getpid())
        return i

    assert compute(delayed(sum)([delayed(once)(i) for i in range(20)]), **ON) == (190,)
    assert len(killed) == 2


def test_a_task_for_one_worker_goes_to_the_one_that_takes_its_place(client):
    started, killed = Gate(), Tally()

    def once():
        started.open()
        if killed.add(os.getpid()) == 1:
            end(os.getpid())
        return distributed.get_worker().name

    address, _ = both_workers(client)
    name = client.run(lambda dask_worker: dask_worker.name, workers=[address])[address]
    f = delayed(once, workers=name)
    after = delayed(lambda x: (x, distributed.get_worker().name), workers=name)
    assert compute(after(f()), after(1), **ON) == ((name, name), (1, name))
    assert len(killed) == 2


def holders(client, size):
    """Return the pids of workers that hold a value of at least this many bytes."""
    by_worker = client.run(
        lambda dask_worker: (os.getpid(), sum(map(sys.getsizeof, dask_worker.data.values()))))
    return [pid for pid, held in by_worker.values() if held >= size]


def test_d3_a_literal_whose_holder_died_is_sent_again(client):
    data = numpy.ones(500_000)  # 4 MB: it travels by itself
    go = Gate()
    waits = delayed(lambda: go.wait(60))()
    x = delayed(lambda array, _: float(array.sum()))(data, waits)
    (held,) = persist(x, scheduler="distributed")
    assert until(lambda: holders(client, 4_000_000), 30)
    for pid in holders(client, 4_000_000):
        end(pid)
    go.open()
    assert compute(held, **ON) == (500_000.0,)


def test_d3_a_put_value_whose_holder_died_is_sent_again(client):
    scheduler = scheduler_named("distributed")
    inner = TaskFuture("put", scheduler)
    inner.set_value(scheduler.put(numpy.ones(500_000), delayed(0)))
    x = new_leaf(Delayed, HELD, inner)
    f = delayed(lambda array: float(array.sum()))
    assert compute(f(x), **ON) == (500_000.0,)
    for pid in holders(client, 4_000_000):
        end(pid)
    assert compute(f(x) + 1, **ON) == (500_001.0,)
    assert compute(x, **ON)[0].nbytes == 4_000_000


@pytest.fixture
def only_worker():
    with local_client(1, set_as_default=False) as client:
        yield client


def test_a_group_that_is_dropped_on_its_way_to_the_worker_takes_no_slot(only_worker):
    gate = Gate()
    with lazyflow.config.set(scheduler=only_worker):
        compute(delayed(inc)(0), timeout=60)
        for i in range(12):
            dropped = persist(delayed(gate.wait)())
            del dropped
            assert compute(delayed(inc)(i), timeout=30) == (i + 1,)


@pytest.mark.parametrize("given", [numpy.asarray, lazyflow.put])
def test_d3_a_kept_result_that_can_not_be_made_again_is_named(only_worker, given):
    with lazyflow.config.set(scheduler=only_worker):
        (made,) = persist(delayed(numpy.negative, name="turned")(given(numpy.ones(500_000))))
        lazyflow.wait([made])
        end(*only_worker.run(os.getpid).values())
        gone = "the result of turned, made at .*test_distributed_faults.py:.* was kept in the clus"
        found = compute(delayed(numpy.sum)(made), delayed(inc)(1), timeout=60, on_error="collect")
        assert type(found[0]) is WorkerDied and re.match(gone, str(found[0]))
        assert found[1] == 2
        for lost in (made, delayed(numpy.sum)(made)):
            with pytest.raises(WorkerDied, match=gone):
                compute(lost, timeout=60)


@pytest.mark.filterwarnings("ignore:the cluster at")  # the worker may take its time to begin
def test_d4_a_poison_task_fails_alone():
    with local_client(1, threads=4, set_as_default=False) as client:
        struck = Gate()

        def beside(i):  # under way at the first death
            struck.wait(60)
            return i

        def poison():
            struck.open()
            os._exit(3)

        good = [delayed(beside)(i) for i in range(3)]
        poison = delayed(poison)()
        found = compute(good, poison, scheduler=client, on_error="collect", timeout=100)
        assert found[0] == [0, 1, 2]
        assert type(found[1]) is WorkerDied
        assert "3 workers ended while running this task, the last" in str(found[1])
        assert found[1].__notes__[0].startswith("in lazyflow task poison, made at ")
        assert compute(delayed(inc)(1), scheduler=client, timeout=60) == (2,)


def deep(n):
    return deep(n + 1)


class Unpicklable(Exception):
    def __reduce__(self):
        raise OSError("not me")


OFTEN = """
import os, signal
import dask
import lazyflow
from lazyflow import compute, delayed
if __name__ == "__main__":
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"})  # no worker starts as soon
    lazyflow.config.set(num_workers=1, scheduler="distributed")
    pids = compute(delayed(os.getpid)())
    for _ in range(2):
        os.kill(pids[-1], signal.SIGKILL)
        pids += compute(delayed(os.getpid)(), timeout=50)
    print(len(set(pids)))
"""


def test_the_workers_of_a_cluster_of_ours_are_started_again_each_time(tmp_path):
    script = tmp_path / "often.py"
    script.write_text(OFTEN)
    out = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=110, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])})
    assert (out.returncode, out.stdout) == (0, "3\n"), out.stderr


GONE = """
import os, signal, warnings
from distributed.deploy.spec import SpecCluster
import lazyflow
from lazyflow import compute, delayed
if __name__ == "__main__":
    lazyflow.config.set(num_workers=2, scheduler="distributed")
    assert compute(delayed(abs)(-1)) == (1,)
    (cluster,) = SpecCluster._instances
    before = {nanny.pid for nanny in cluster.workers.values()}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for nanny in list(cluster.workers.values()):
            cluster.sync(nanny.close)
        (pid,) = compute(delayed(os.getpid)(), timeout=60)
    assert pid not in before
    for warning in heard:
        print(warning.category.__name__, str(warning.message).split(" of lazyflow's")[0])
"""


def test_workers_of_a_cluster_of_ours_that_ended_for_good_are_started_again(tmp_path):
    script = tmp_path / "gone.py"
    script.write_text(GONE)
    out = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=110,
        env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert out.returncode == 0, out.stderr
    told = [re.fullmatch("LazyflowWarning ([12]) of 2 workers", x) for x in out.stdout.splitlines()]
    assert sum(int(each[1]) for each in told) == 2, out.stdout  # at once, or one after the other


def late(wait):
    with pytest.raises(TaskTimeout):
        wait()


#: For a future; each ends after half a second.
WAYS_TO_WAIT = {
    "compute": lambda f, on: late(lambda: compute(delayed(inc)(1), scheduler=on, timeout=0.5)),
    "compute of it": lambda f, on: late(lambda: compute(f, timeout=0.5)),
    "result": lambda f, on: late(lambda: f.result(timeout=0.5)),
    "exception": lambda f, on: late(lambda: f.exception(timeout=0.5)),
    "wait": lambda f, on: lazyflow.wait([f], timeout=0.5),
    "wait for a collection": lambda f, on: lazyflow.wait(
        la.ones(4, chunks=2).persist(scheduler=on), timeout=0.5),
    "as_completed": lambda f, on: late(lambda: next(lazyflow.as_completed([f], timeout=0.5))),
}


@pytest.mark.filterwarnings("ignore:the cluster at")  # the worker may take its time to begin
@pytest.mark.parametrize("way", WAYS_TO_WAIT)
def test_a_cluster_without_workers_is_named_and_waited_for(way, monkeypatch):
    monkeypatch.setattr("lazyflow.schedulers.cluster.dask.workers._ALONE", 0.01)
    with (
        distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        address = re.escape(cluster.scheduler_address)
        words = rf"the cluster at {address} has had no worker .* dask worker {address} or"
        with lazyflow.config.set(scheduler=client):
            held = lazyflow.submit(inc, 1)
        with pytest.warns(LazyflowWarning, match=words) as said:
            WAYS_TO_WAIT[way](held, client)
        assert [os.path.basename(each.filename) for each in said] == [os.path.basename(__file__)]
        cluster.scale(1)
        assert held.result(timeout=60) == 2


def test_a_cluster_whose_worker_begins_again_and_again_is_not_called_empty(monkeypatch):
    """It has none whenever it is looked at, and had one between the looks."""
    monkeypatch.setattr("lazyflow.schedulers.cluster.dask.workers._ALONE", 0.01)
    asked = itertools.count()

    def nthreads(client):
        client.log_event("all", {"action": "add-worker", "worker": f"tcp://{next(asked)}"})
        return {}

    with (
        distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        monkeypatch.setattr(distributed.Client, "nthreads", nthreads)
        with pytest.raises(TaskTimeout):
            compute(delayed(inc)(1), scheduler=client, timeout=0.5)
        assert next(asked) > 3


@pytest.mark.parametrize("kind", [
    GeneratorExit, asyncio.CancelledError, SystemExit, KeyboardInterrupt, StopIteration,
])
def test_d5_what_would_hang_the_engine_is_a_record(kind):
    with pytest.raises(RemoteTaskError, match=kind.__name__):
        compute(delayed(raise_it)(kind), **ON)


def test_d5_a_recursion_error_and_an_error_that_can_not_be_pickled():
    with pytest.raises(RecursionError):
        compute(delayed(deep)(0), **ON)
    with pytest.raises(RemoteTaskError, match="Unpicklable"):
        compute(delayed(raise_it)(Unpicklable, "no"), **ON)


def test_d5_values_that_can_not_travel_fail_their_task_only():
    good = delayed(inc)(1)
    bad = delayed(threading.Lock)()
    lock = threading.Lock()
    sent = delayed(lambda lock: 1, name="wants_a_lock")(lock)
    a, b, c = compute(good, bad, sent, on_error="collect", **ON)
    assert a == 2
    assert type(b) is type(c) is lazyflow.SerializationError
    assert "wants_a_lock" in str(c) and "args[0]" in str(c)
    assert compute(delayed(lambda lock: lock.locked())(bad), **ON) == (False,)


def test_d6_nested_computes_on_a_full_cluster():
    def outer(i):
        return sum(compute(*[delayed(inc)(i + k) for k in range(5)]))

    found = compute([delayed(outer)(i) for i in range(8)], **ON)[0]
    assert found == [sum(i + k + 1 for k in range(5)) for i in range(8)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.filterwarnings("ignore")
def test_d7_the_scheduler_is_killed():
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    python = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    scheduler = subprocess.Popen(
        [*python, "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"], **quiet)
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1",
         "--no-nanny", "--host", "127.0.0.1", "--no-dashboard"],
        **quiet, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        started, go = Gate(), Gate()

        def wait_here():
            started.open()
            go.wait(60)

        assert compute(delayed(inc)(1), scheduler=address, timeout=60) == (2,)
        (x,) = persist(delayed(wait_here)(), scheduler=address)
        assert started.wait()
        scheduler.kill()
        with pytest.raises(SchedulerLost, match="the connection to the scheduler"):
            compute(x, timeout=30)
    finally:
        scheduler.kill()
        worker.kill()
        scheduler.wait()
        worker.wait()
        scheduler_named(address).shutdown()


def test_the_cluster_is_ours_only_when_we_started_it(client):
    assert compute(delayed(add)(1, 2), **ON) == (3,)
    lazyflow.shutdown()
    assert client.status == "running"
    assert compute(delayed(add)(1, 2), **ON) == (3,)


TERMINAL = """
import time
from lazyflow import compute, delayed
on = {"scheduler": "distributed", "num_workers": 1}
if __name__ == "__main__":
    compute(delayed(abs)(-3), **on)
    try:
        print("ready", flush=True)
        compute([delayed(time.sleep)(60) for _ in range(3)], **on)
    except KeyboardInterrupt:
        pass
    print(compute(delayed(abs)(-4), timeout=60, **on), flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_workers_that_are_started_here_do_not_hear_the_terminals_ctrl_c(tmp_path):
    """It goes to the whole group of processes."""
    script = tmp_path / "script.py"
    script.write_text(TERMINAL)
    child = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    guard = threading.Timer(100, os.killpg, [child.pid, signal.SIGKILL])
    guard.start()
    try:
        assert child.stdout.readline() == "ready\n"
        os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate()
    finally:
        guard.cancel()
    assert out == "(4,)\n" and "KeyboardInterrupt" not in err, err


OPEN = """
import sys
import distributed
import lazyflow.array as la
if __name__ == "__main__":
    client = distributed.Client(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    x = (la.ones((100, 100), chunks=20) + 1).persist(scheduler="distributed")
    if sys.argv[1] == "done":
        print(x.sum().compute(scheduler="distributed"))
"""


@pytest.mark.parametrize("when", ["done", "under way"])
def test_a_script_that_leaves_a_client_open_ends_quietly(when, tmp_path):
    if when == "under way":
        skip_without_threads_at_the_end()
    script = tmp_path / "script.py"
    script.write_text(OPEN)
    found = subprocess.run(
        [sys.executable, str(script), when], capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": os.getcwd()})
    said = "20000.0\n" if when == "done" else ""
    assert (found.stdout, without_heartbeats(found.stderr)) == (said, "")
    assert found.returncode == 0


NAMED = """
import sys
import distributed
import lazyflow
from lazyflow import delayed
if __name__ == "__main__":
    client = distributed.Client(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0")
    print(lazyflow.compute(delayed(abs, workers=0)(-1), scheduler="distributed"))
    kept = lazyflow.persist(delayed(abs, workers=0)(-1), scheduler="distributed")
    if sys.argv[1] == "closed":
        client.close()
"""


@pytest.mark.parametrize("end", ["closed", "left open"])
def test_a_client_whose_tasks_named_workers_ends_quietly(end, tmp_path):
    """Its scheduler has nobody to tell that it has gone."""
    script = tmp_path / "script.py"
    script.write_text(NAMED)
    found = subprocess.run(
        [sys.executable, str(script), end], capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert (found.stdout, without_heartbeats(found.stderr)) == ("(1,)\n", "")
    assert found.returncode == 0
