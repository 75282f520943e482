"""A cluster started from the command line, with TLS: what users give to the engine, and its tools.

The tools look at the engine's own tasks, each a group of tasks here.
"""

import asyncio
import gc
import os
import random
import signal

import pytest
from command_line_cluster import certificate, command_line_cluster
from waiting import until

import lazyflow
import lazyflow.array as la
from lazyflow import compute, delayed, persist
from lazyflow.testing.signals import Gate, Tally, inc

numpy = pytest.importorskip("numpy")
pytest.importorskip("psutil", reason="psutil is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")
dask = pytest.importorskip("dask")


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def cluster(tls, tmp_path_factory):
    with command_line_cluster(
        tmp_path_factory.mktemp("cluster"), 1, "--resources", "GPU=1", tls=tls
    ) as cluster:
        cluster.start_worker("w1")
        yield cluster
    assert until(lambda: not cluster.processes()), cluster.logs()


@pytest.fixture(scope="module")
def client(cluster, tls):
    with distributed.Client(
        cluster.address, security=distributed.Security(**tls), set_as_default=False
    ) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def on(client):
    return {"scheduler": client, "timeout": 60}


def where():
    return distributed.get_worker().name


@pytest.mark.parametrize("given", [
    lambda: lazyflow.annotate(resources={"GPU": 1}),
    lambda: lazyflow.annotate(workers="w0"),
    lambda: dask.annotate(resources={"GPU": 1}),
    lambda: dask.annotate(workers=["w0"]),
])
def test_tasks_run_where_they_are_to(given, on):
    with given():
        assert compute([delayed(where)() for _ in range(6)], **on) == (["w0"] * 6,)


def test_an_actor_lives_where_it_is_to(client):
    class Place:
        def where(self):
            return distributed.get_worker().name

    for name in ("w0", "w1"):
        with dask.annotate(workers=[name]), lazyflow.config.set(scheduler=client):
            place = lazyflow.actor(Place)()
        assert place.where().result(timeout=60) == name


@pytest.mark.parametrize("annotate", [lazyflow.annotate, dask.annotate])
def test_what_has_priority_starts_first(annotate, client, on):
    """Each is sent by itself to a worker that is busy with another."""
    started, go, ran = Gate(), Gate(), Tally()
    with lazyflow.config.set(scheduler=client), dask.annotate(workers=["w1"]):
        held = persist(delayed(waits_here)(started, go))
        assert started.wait()
        for priority in (1, 3, 2):
            with annotate(priority=priority):
                held += persist(delayed(ran.add)(priority))
    waiting = lambda dask_worker: len(dask_worker.state.tasks)  # noqa: E731
    assert until(lambda: 4 in client.run(waiting).values())
    go.open()
    compute(*held, timeout=60)
    assert ran.items() == [3, 2, 1]


def test_what_workers_do_not_offer_or_the_cluster_does_not_know_is_refused(on, cluster):
    with pytest.raises(ValueError, match="no worker of the cluster offers"):
        compute(delayed(inc, resources={"FPGA": 1})(1), **on)
    with pytest.raises(TypeError, match=r"security=distributed.Security\(...\)\) with the files"):
        compute(delayed(inc)(1), scheduler=cluster.address)


@pytest.mark.parametrize(("word", "typed"), [
    ("num_gpus", r'resources={"GPU": 1}'), ("runtime_env", "ray_options={'runtime_env': ...}"),
    ("allow_other_workers", "dask.annotate(allow_other_workers=...)"),
])
def test_options_of_engines_are_refused_with_what_to_type(word, typed):
    for function in (
        lambda **given: delayed(inc, **given),
        lambda **given: compute(delayed(inc)(1), **given),
        lambda **given: lazyflow.actor(**given),
    ):
        with pytest.raises(TypeError) as refused:
            function(**{word: 1})
        assert word in str(refused.value) and typed in str(refused.value)


# -- what tasks may do -------------------------------------------------------------------------


def total(xs):
    return sum(xs)


def by_worker_client(n):
    with distributed.worker_client() as client:
        return sum(client.gather(client.map(inc, range(n))))


def by_secede(n):
    client = distributed.get_client()
    futures = client.map(inc, range(n))
    distributed.secede()
    found = sum(client.gather(futures))
    distributed.rejoin()
    return found


def by_lazyflow(n):
    with distributed.worker_client() as client:
        return sum(compute([delayed(inc)(i) for i in range(n)], scheduler=client)[0])


@pytest.mark.parametrize("way", [by_worker_client, by_secede, by_lazyflow])
def test_tasks_that_use_the_cluster_do_not_fill_it(way, on):
    found = compute([delayed(way)(n) for n in range(2, 8)], **on)[0]
    assert found == [n * (n + 1) // 2 for n in range(2, 8)]


def test_a_task_sees_what_the_engine_tells_its_own(on):
    def tell():
        worker = distributed.get_worker()
        return str(worker.get_current_task()), distributed.get_client().scheduler.address

    (key, address), = compute(delayed(tell, name="told")(), **on)
    assert key.startswith("('told-") and address == on["scheduler"].scheduler.address


# -- what its pages show -----------------------------------------------------------------------


def prefixes(client):
    return client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))


def test_groups_are_named_after_what_they_do(client, on):
    load, join = delayed(lambda i: i, name="load-part"), delayed(total)
    for _ in range(2):  # then the costs are known
        compute(join([load(i) for i in range(12)]), **on)
    lazyflow.wait(list(persist(*[load(i) for i in range(12)], scheduler=client)))
    assert {"load_part", "total", "load_part+total~16", "load_part~16"} <= prefixes(client)


def waits_here(started, go):
    started.open()
    go.wait()


def test_stacks_and_groups_of_what_runs_are_shown(client):
    started, go = Gate(), Gate()
    (held,) = persist(delayed(waits_here)(started, go), scheduler=client)
    assert started.wait()
    (stacks,) = client.call_stack().values()
    ((key, frames),) = stacks.items()
    assert key[0].startswith("waits_here-")
    assert any("in waits_here" in frame or "waits_here" in frame for frame in frames)
    go.open()
    compute(held, timeout=60)


def test_spans_of_the_caller_and_plugins_see_the_groups(client, on):
    class Seen(distributed.SchedulerPlugin):
        name = "seen"

        def __init__(self):
            self.keys = set()

        def transition(self, key, start, finish, *args, **given):
            self.keys.add(str(key))

    client.register_plugin(Seen())
    with distributed.span("of the caller"):
        compute(delayed(inc, name="seen")(1), **on)
    names, keys = client.run_on_scheduler(lambda dask_scheduler: (
        list(dask_scheduler.extensions["spans"].spans_search_by_name),
        dask_scheduler.plugins["seen"].keys,
    ))
    assert ("of the caller",) in names
    assert any(key.startswith("('seen-") for key in keys)


# -- asynchronous clients ----------------------------------------------------------------------


def test_values_are_awaited_on_the_loop_of_an_asynchronous_client(cluster, tls):
    async def main():
        security = distributed.Security(**tls)
        async with distributed.Client(
            cluster.address, asynchronous=True, security=security, set_as_default=False
        ) as client:
            with lazyflow.config.set(scheduler=client):
                assert await delayed(inc)(1) == 2
                (kept,) = persist(delayed(numpy.arange)(300_000))
                assert (await kept).sum() == numpy.arange(300_000).sum()
                assert await asyncio.gather(*[delayed(inc)(i) for i in range(9)]) == [*range(1, 10)]
                with pytest.raises(ZeroDivisionError):
                    await delayed(lambda: 1 // 0)()
                for wait in (delayed(inc)(1).compute, kept.compute, lazyflow.submit(inc, 1).result,
                             lambda: lazyflow.put(numpy.ones(9))):
                    with pytest.raises(TypeError, match="Write `await x` instead of compute"):
                        wait()
                assert await delayed(inc)(2) == 3

    asyncio.run(main())


# -- workers that come and go ------------------------------------------------------------------


def test_workers_that_join_get_of_what_others_wait_for(client, cluster):
    """Though nothing is known of the function, and nothing ends meanwhile."""
    started, go = Tally(), Gate()

    def waits(i):
        started.add(i)
        go.wait()
        return i

    held = persist(*[delayed(waits)(i) for i in range(9)], scheduler=client)
    assert until(lambda: len(started) == 2, 30)
    for name in ("x0", "x1"):
        cluster.start_worker(name, "--no-nanny")
    assert until(lambda: len(started) == 4, 60)
    go.open()
    assert compute(*held, timeout=60) == tuple(range(9))
    assert len(started) == 9
    client.retire_workers(names=["x0", "x1"])


def test_nothing_is_lost_and_made_again_when_workers_leave_orderly(client, cluster):
    made = Tally()
    cluster.start_worker("y0", "--no-nanny")
    client.wait_for_workers(3, timeout=60)

    def make(i):
        made.add(os.getpid())
        return numpy.full(50_000, i)

    (there,) = [
        a for a, w in client.run(lambda dask_worker: dask_worker.name).items() if w == "y0"]
    kept = persist(*[delayed(make)(i) for i in range(9)], scheduler=client)
    with dask.annotate(workers=[there]):
        kept += persist(*[delayed(make)(i) for i in range(9, 12)], scheduler=client)
    lazyflow.wait(list(kept))
    assert client.retire_workers([there], close_workers=True)
    sums = [delayed(lambda x: int(x.sum()))(x) for x in kept]
    assert compute(*sums, timeout=60) == tuple(50_000 * i for i in range(12))
    assert len(made) == 12


# -- workers that are killed -------------------------------------------------------------------

ROUNDS = pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.slow)])


class Killer:
    """Kills a worker of the cluster when it is called for the time of a chosen number."""

    def __init__(self, victim, number):
        self.victim = victim
        self.number = number
        self.calls = Tally()

    def __call__(self, x=None):
        if self.calls.add(os.getpid()) == self.number:
            os.kill(self.victim, signal.SIGKILL)
        return x


def alive(client, cluster):
    """Return the pids of the workers, without those that are ending."""
    pids = client.run(os.getpid, on_error="ignore").values()
    return sorted(set(pids).intersection(cluster.processes()))


@pytest.fixture
def killer(client, cluster):
    """Makes a killer by a random number generator; at the end the scheduler keeps nothing."""
    def make(rng, calls):
        assert until(lambda: len(alive(client, cluster)) == 2, 60)
        return Killer(rng.choice(alive(client, cluster)), rng.randint(1, calls))

    with lazyflow.config.set(scheduler=client):
        yield make
    gc.collect()
    kept = lambda dask_scheduler: [*map(str, dask_scheduler.tasks)]  # noqa: E731
    assert until(lambda: not client.run_on_scheduler(kept), 30), client.run_on_scheduler(kept)


def lazily(kill, i):
    """Return a lazy value: what it becomes is made in the same worker."""
    return delayed(lambda xs: kill(sum(xs)))([delayed(inc)(i), i])


@ROUNDS
def test_expressions_while_workers_are_killed(rounds, killer):
    for seed in range(rounds):
        rng = random.Random(seed)
        kill = killer(rng, 60)
        parts = [delayed(kill)(delayed(inc)(i)) for i in range(30)]
        parts += [delayed(lazily)(kill, i) for i in range(30)]
        x = la.arange(300_000, chunks=30_000)
        found = compute(delayed(sum)(parts), (x * 2 + x[::-1]).sum(), timeout=60)
        assert found == (465 + 900, 3 * sum(range(300_000)))
        kept = persist(*[delayed(lazily)(kill, i) for i in range(4)])
        lazyflow.wait(list(kept))
        killer(rng, 1)()
        assert compute(delayed(sum)(list(kept)), timeout=60) == (16,)


@ROUNDS
def test_persisted_arrays_while_workers_are_killed(rounds, killer):
    plain = (numpy.arange(160_000) * 2).reshape(400, 400)
    for seed in range(rounds):
        rng = random.Random(seed)
        x = (la.arange(160_000, chunks=10_000) * 2).reshape(400, 400).persist()
        lazyflow.wait(x)
        killer(rng, 1)()  # what is kept has to be made again
        kill = killer(rng, 2)
        y = x.map_blocks(kill, dtype=x.dtype).persist()
        found = compute(y.sum(), (x.T @ x)[:3, :3], x.cumsum(0)[-1], y, timeout=60)
        expected = plain.sum(), (plain.T @ plain)[:3, :3], plain.cumsum(0)[-1], plain
        for one, other in zip(found, expected, strict=True):
            numpy.testing.assert_array_equal(one, other)


class Sums:
    """Keeps a sum, as its checkpoints do."""

    def __init__(self, kill):
        self.kill = kill
        self.sum = 0

    def add(self, x):
        self.kill()
        self.sum += x
        return self.sum

    def get_state(self):
        return self.sum

    def set_state(self, state):
        self.sum = state


@ROUNDS
def test_actors_while_workers_are_killed(rounds, killer):
    """A call under way when the worker dies fails by name, and no other one."""
    for seed in range(rounds):
        kill = killer(random.Random(seed), 30)
        settings = {"restarts": 1, "checkpoint": "get_state"}
        actors = [lazyflow.actor(Sums, **settings)(kill) for _ in range(3)]
        calls = [(one, one.add(i)) for i in range(10) for one in actors]
        sums = dict.fromkeys(actors, 0)
        failed = 0
        for i, (one, call) in enumerate(calls):
            error = call.exception(timeout=60)
            if error is not None:
                assert type(error) is lazyflow.WorkerDied and "add" in str(error)
                failed += 1
            else:
                sums[one] += i // 3
                assert call.result() == sums[one]
        assert failed <= 3
