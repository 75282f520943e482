"""`scheduler="distributed"`: the contract, and what is its own."""

import importlib
import os
import pathlib
import random
import re
import subprocess
import sys

import pytest
from engine_schedulers import local_client

import lazyflow
import lazyflow.array as la
from lazyflow import SchedulerLost, compute, delayed, persist
from lazyflow.schedulers.cluster.run import EngineRun
from lazyflow.schedulers.registry import scheduler_named
from lazyflow.testing.contract import SchedulerContract
from lazyflow.testing.signals import Gate, add, inc, raise_it

numpy = pytest.importorskip("numpy")

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")


@pytest.fixture(scope="module", autouse=True)
def client():
    with local_client() as client:
        yield client


class TestContract(SchedulerContract):
    scheduler = "distributed"
    shares_memory = False
    survives_fork = False


ON = {"scheduler": "distributed", "timeout": 60}


def random_graph(seed):
    """Return some wanted tasks over a random graph of at most 60, and what a loop gives for them.

    Some inputs are in containers, some results are iterators, some tasks return tasks.
    """
    rng = random.Random(seed)
    shapes = [
        (lambda *xs: sum(xs) % 997),
        (lambda *xs: [*xs, len(xs)]),
        (lambda *xs: (x for x in xs)),
        (lambda *xs: delayed(len)(xs)),
    ]
    combine = delayed(lambda f, xs: f(*map(_number, xs)))
    tasks = [delayed(seed % 7)]
    for _ in range(rng.randint(1, 60)):
        inputs = rng.choices(tasks[-rng.randint(1, 15):], k=rng.randint(0, 4))
        tasks.append(combine(rng.choice(shapes), inputs))
    return rng.sample(tasks, min(len(tasks), rng.randint(1, 6)))


def _number(x):
    if isinstance(x, int):
        return x
    return sum(map(_number, x)) % 997


def plain(found):
    return [x if isinstance(x, int) else list(x) for x in found]


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_as_on_sync(seed):
    wanted = random_graph(seed)
    assert plain(compute(*wanted, **ON)) == plain(compute(*wanted, scheduler="sync"))
    kept = persist(*wanted, scheduler="distributed")
    assert plain(compute(*kept, **ON)) == plain(compute(*wanted, scheduler="sync"))


def test_many_tasks_are_few_tasks_of_the_engine(handed):
    def tree():
        row = [delayed(inc)(i) for i in range(1000)]
        while len(row) > 1:
            row = [delayed(add)(*pair) for pair in zip(row[::2], row[1::2], strict=False)] + (
                row[len(row) // 2 * 2:])
        return row[0]

    compute(tree(), **ON)  # so that costs are known
    del handed[:]
    assert compute(tree(), **ON) == (500_500,)
    assert 1 <= len(handed) <= 40


def small(i):
    return [i, i * i]


def large(i):
    return numpy.full(1_000, float(i))


def fails_at_7(i):
    return i if i % 100 != 7 else 1 // 0


@pytest.fixture
def handed(client, monkeypatch):
    """What the cluster was given since."""
    names = []
    get = type(client).get
    monkeypatch.setattr(
        type(client), "get", lambda self, graph, *a, **k: names.extend(graph) or get(
            self, graph, *a, **k))
    return names


@pytest.fixture
def messages(client, monkeypatch):
    """How many tasks each graph had that the cluster was given since."""
    counts = []
    get = type(client).get
    monkeypatch.setattr(
        type(client), "get", lambda self, graph, *a, **k: counts.append(len(graph)) or get(
            self, graph, *a, **k))
    return counts


@pytest.mark.parametrize("share", [None, 1, 2, 0.5])
def test_what_is_known_goes_at_once(client, messages, share):
    """Though the costs of the last task are not, and if all workers are within the run's limit."""
    width = sum(client.nthreads().values())
    limit = None if share is None else max(1, int(share * width))

    def run(count, last):
        made = [delayed(larger)(i) for i in range(count)]
        return compute(delayed(last)(made), num_workers=limit, **ON)

    run(4, len)
    del messages[:]
    assert run(100, lambda made: (len(made), share)) == ((100, share),)
    if share == 0.5:
        assert max(messages) <= limit
    else:
        assert sum(messages) == 101
        assert len(messages) <= 10


def test_an_error_of_lazyflows_own_names_the_groups_under_way(monkeypatch):
    def broken(*_):
        raise KeyError(5)

    with monkeypatch.context() as patch:
        patch.setattr(EngineRun, "reported", broken)
        with pytest.raises(KeyError) as caught:
            compute(delayed(inc)(2), **ON)
    (note,) = caught.value.__notes__
    assert re.fullmatch(
        r"group \d+ of run \d+, of inc: 0 tries after losses, \d+ runs left", note)
    assert compute(delayed(inc)(2), **ON) == (3,)


def test_many_small_persisted_results_are_few_tasks_of_the_engine(handed):
    lazyflow.wait(list(persist(*[delayed(small)(i) for i in range(20)], scheduler="distributed")))
    del handed[:]
    kept = persist(*[delayed(small)(i) for i in range(1000)], scheduler="distributed")
    last = delayed(sum)(kept[-1])
    kept = list(kept[::2])
    assert compute(kept, last, **ON) == ([[i, i * i] for i in range(0, 1000, 2)], 999 + 999**2)
    assert len(handed) <= 60


def test_large_persisted_results_are_kept_and_freed_one_by_one(client, handed):
    lazyflow.wait(list(persist(*[delayed(large)(i) for i in range(5)], scheduler="distributed")))
    del handed[:]
    kept = persist(*[delayed(large)(i) for i in range(20)], scheduler="distributed")
    lazyflow.wait(list(kept))
    assert len(handed) == 20


def larger(i):
    return numpy.full(50_000, float(i))


@pytest.mark.parametrize(("made", "groups"), [(small, 1), (larger, 4)])
def test_large_results_of_quick_tasks_go_to_the_caller_from_several_groups(handed, made, groups):
    calls = [delayed(made)(i) for i in range(4)]
    compute(calls, **ON)  # so that costs and sizes are known
    del handed[:]
    (found,) = compute(calls, **ON)
    assert [x[0] for x in found] == [0, 1, 2, 3]
    assert len(handed) == groups


def test_of_persisted_results_that_are_made_together_each_has_its_own_failure():
    kept = persist(*[delayed(fails_at_7)(i) for i in range(50)], scheduler="distributed")
    kept = persist(*[delayed(fails_at_7)(i) for i in range(500)], scheduler="distributed")
    found = compute(list(kept), on_error="collect", **ON)[0]
    for i, value in enumerate(found):
        if i % 100 == 7:
            assert type(value) is ZeroDivisionError
            assert f"fails_at_7({i})" in "".join(value.__notes__)
        else:
            assert value == i


def test_an_error_that_is_empty_is_the_error_all_the_same():
    class EmptyError(Exception):
        def __len__(self):
            return 0

    failing = delayed(raise_it)(EmptyError, "nothing")
    found = compute(failing, delayed(inc)(failing), on_error="collect", **ON)
    assert [repr(each) for each in found] == ["EmptyError('nothing')"] * 2


def test_a_small_persisted_result_does_not_wait_for_what_may_take_long():
    go = Gate()
    lazyflow.wait(list(persist(*[delayed(inc)(i) for i in range(9)], scheduler="distributed")))
    x = delayed(inc)(1)
    x, y = persist(x, delayed(lambda x: go.wait() and x)(x), scheduler="distributed")
    assert compute(x, **ON) == (2,)
    go.open()
    assert compute(y, **ON) == (2,)


def test_a_large_literal_is_handed_over_once(client, monkeypatch):
    from lazyflow.schedulers.cluster.dask.engine import DaskEngine

    sent = []
    send = DaskEngine.send
    monkeypatch.setattr(DaskEngine, "send", lambda self, x: sent.append(x) or send(self, x))
    data = numpy.arange(300_000)
    tasks = [delayed(lambda x, i: int(x[i]))(data, i) for i in range(50)]
    assert compute(tasks, **ON)[0] == list(range(50))
    assert len(sent) == 1
    data[0] = 7  # seen by the next compute
    assert compute(tasks[0], **ON) == (7,)
    assert len(sent) == 2


def test_an_array_that_many_tasks_have_is_sent_with_a_few(client, monkeypatch):
    from lazyflow.schedulers.cluster.dask.engine import DaskEngine

    payloads = []
    submit = DaskEngine.submit
    monkeypatch.setattr(
        DaskEngine, "submit",
        lambda self, calls: payloads.extend(call[2] for call in calls) or submit(self, calls),
    )
    data = numpy.arange(10_000)  # 80 kB
    tasks = [delayed(lambda x, i: int(x[i]))(data, i) for i in range(500)]
    assert compute(tasks, **ON)[0] == list(range(500))
    assert sum(map(len, payloads)) < 2_000_000  # 40 MB, if each task brought it


def test_values_of_persist_stay_in_the_cluster(client):
    x, y = persist(delayed(numpy.ones)(300_000), delayed(inc)(1), scheduler="distributed")
    lazyflow.wait([x, y])
    assert x._args[0].is_elsewhere()
    held = client.run(lambda dask_worker: sum(map(sys.getsizeof, dask_worker.data.values())))
    assert sum(held.values()) >= 2_400_000
    assert compute(delayed(numpy.sum)(x), y, **ON) == (300_000.0, 2)


def test_a_client_and_an_address_are_schedulers(client):
    address = client.scheduler.address
    for scheduler in (client, address):
        assert compute(delayed(inc)(1), scheduler=scheduler) == (2,)
    scheduler_named(address).shutdown()
    assert client.status == "running"


def test_resources_that_nobody_offers_are_refused_in_words():
    f = delayed(inc, resources={"GPU": 1})
    with pytest.raises(ValueError, match=r"no worker of the cluster offers \{'GPU': 1\}"):
        compute(f(1), **ON)


def where_it_runs():
    return distributed.get_worker().name


def test_named_workers_alone_run_a_task(client):
    by_address = client.run(lambda dask_worker: dask_worker.name)
    for address, name in by_address.items():
        for workers in (name, address, [name, address]):
            f = delayed(where_it_runs, workers=workers)
            found = compute([f() for _ in range(20)], [inc_there(1, workers)], **ON)
            assert set(found[0]) == {name}
    with lazyflow.annotate(workers="127.0.0.1"):
        f = delayed(where_it_runs)
        assert set(compute(*[f() for _ in range(20)], **ON)) <= set(by_address.values())


def test_workers_are_known_while_the_client_looks_at_the_cluster(client, monkeypatch):
    """Its timer asks for figures without workers, and may do so at any moment."""
    update = client._update_scheduler_info

    async def with_timer(**options):
        await update(**options)
        await update(n_workers=0)

    monkeypatch.setattr(client, "_update_scheduler_info", with_timer)
    assert compute(delayed(where_it_runs, workers=0)(), **ON) == (0,)


def inc_there(x, workers):
    return delayed(inc, workers=workers)(delayed(inc)(x))


def test_groups_do_not_reach_across_workers(client):
    first, second = client.run(lambda dask_worker: dask_worker.name).values()
    compute(delayed(where_it_runs)(), **ON)  # so that its cost is known
    there = delayed(where_it_runs, workers=first)
    here = delayed(lambda before: (before, where_it_runs()), workers=second)
    assert compute(here(there()), **ON) == ((first, second),)


def test_workers_that_are_not_there_are_refused_in_words(client):
    good = delayed(inc)(1)
    f = delayed(inc, workers="nobody")
    with pytest.raises(ValueError, match="the cluster has no worker 'nobody'; it has 0 .tcp://"):
        compute(f(1), **ON)
    found = compute(good, f(1), delayed(inc, workers=[0, 9])(1), on_error="collect", **ON)
    assert found[0] == 2
    assert [type(x) for x in found[1:]] == [ValueError] * 2
    assert "no worker 9;" in str(found[2])
    f = delayed(inc, workers=0, resources={"GPU": 1})
    with pytest.raises(ValueError, match=r"no worker of \[0\] offers \{'GPU': 1\}"):
        compute(f(1), **ON)


def test_a_task_inside_a_task_can_not_choose():
    outer = delayed(lambda: compute(delayed(inc, workers=0)(1)))
    with pytest.raises(ValueError, match="which run in its own worker, can't choose"):
        compute(outer(), **ON)


def test_an_unknown_address_says_so():
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(SchedulerLost, match="no scheduler of a cluster answers at tcp://127.0.0.1:9"),
    ):
        compute(delayed(inc)(1), scheduler="tcp://127.0.0.1:9")


OWN = """
import lazyflow, os, psutil, sys
from lazyflow.testing.signals import inc
if __name__ == "__main__":
    lazyflow.config.set(num_workers=1)
    pid, = lazyflow.compute(lazyflow.delayed(os.getpid)(), scheduler="distributed")
    me = psutil.Process()
    heard = {c.laddr.ip for p in [me, *me.children(recursive=True)]
             for c in p.net_connections() if c.status == "LISTEN"}
    if sys.argv[1] == "shutdown":
        lazyflow.shutdown()
        assert not psutil.pid_exists(pid)
    print(pid, *heard)
"""


@pytest.mark.parametrize("how", ["shutdown", "exit"])
def test_a_cluster_of_ours_listens_on_loopback_and_leaves_nothing(how, tmp_path):
    psutil = pytest.importorskip("psutil")
    script = tmp_path / "own.py"
    script.write_text(OWN)
    path = os.pathsep.join([os.getcwd(), *sys.path])
    out = subprocess.run(
        [sys.executable, str(script), how], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    pid, *heard = out.stdout.split()
    assert heard == ["127.0.0.1"]
    assert not psutil.pid_exists(int(pid))


def test_an_engine_is_imported_in_its_own_folder_only():
    root = pathlib.Path(lazyflow.__file__).parent
    found = {}
    for path in root.rglob("*.py"):
        for name in ("distributed", "ray", "dask"):
            if re.search(rf"^\s*(import|from) {name}\b", path.read_text(), re.M):
                found.setdefault(name, set()).add(path.parent.relative_to(root).as_posix())
    assert found["distributed"] == {"schedulers/cluster/dask"}
    assert found["ray"] == {"schedulers/cluster/ray"}
    assert found["dask"] == {"schedulers/cluster/dask", "interop"}
    # interop reads dask's graphs and collections: of its modules, those that are named after it,
    # and the one for xarray, whose chunked arrays are dask's
    imports = re.compile(r"^\s*(import|from) dask\b", re.M)
    assert {p.stem for p in (root / "interop").glob("*.py") if imports.search(p.read_text())} == {
        "dask", "dask_collections", "dask_graphs", "xarray"}


def test_that_workers_keep_what_they_imported_is_said(tmp_path, monkeypatch):
    path = tmp_path / "reloaded_here.py"
    path.write_text("def f(x): return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reloaded_here")
    assert compute(delayed(inc)(1), **ON) == (2,)
    path.write_text("def f(x): return x + 1000\n")
    importlib.reload(module)
    words = r'reloaded_here was reloaded: the workers of scheduler="distributed" keep the'
    with pytest.warns(lazyflow.LazyflowWarning, match=words):
        assert compute(delayed(inc)(1), **ON) == (2,)
    del sys.modules["reloaded_here"]
    lazyflow.shutdown()  # a pool of processes that was there would say it to another test


def test_a_dataset_is_opened_again_in_the_cluster(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = numpy.arange(6.0)
        x = la.from_array(file["x"], chunks=3)
        assert delayed(lambda d: float(d[:].sum()))(file["x"]).compute(**ON) == 15
        assert (x + 1).compute(**ON).tolist() == [1, 2, 3, 4, 5, 6]


def asked_workers(client, kept):
    """Return the workers that the scheduler was asked to choose for each chunk of an array."""
    def ask(dask_scheduler, keys):
        return [dask_scheduler.tasks[key].worker_restrictions for key in keys]

    keys = [each._args[0].local_outcome()[0].handle.key for each in kept.__lazyflow_tasks__()]
    return [tuple(each or ()) for each in client.run_on_scheduler(ask, keys=keys)]


def test_what_is_made_of_parts_from_everywhere_is_spread_evenly(client):
    x = numpy.arange(2**20).reshape(1024, 1024)
    (rows,) = persist(la.from_array(x, chunks=(128, 1024)), scheduler="distributed")
    lazyflow.wait(rows)
    (columns,) = persist(rows.rechunk((1024, 128)), scheduler="distributed")
    lazyflow.wait(columns)
    asked = asked_workers(client, columns)
    assert sorted(map(asked.count, set(asked))) == [4, 4] and () not in asked
    (more,) = persist(columns + 1, scheduler="distributed")  # it follows what is there
    lazyflow.wait(more)
    assert asked_workers(client, more) == [()] * 8
    assert (more.compute() == x + 1).all()


def test_the_callers_choice_of_workers_holds_for_what_would_be_spread(client):
    one = next(iter(client.nthreads()))
    (rows,) = persist(la.ones((1024, 1024), chunks=(128, 1024)), scheduler="distributed")
    lazyflow.wait(rows)
    with dask.annotate(workers=[one]):
        (columns,) = persist(rows.rechunk((1024, 128)), scheduler="distributed")
    lazyflow.wait(columns)
    assert asked_workers(client, columns) == [(one,)] * 8
