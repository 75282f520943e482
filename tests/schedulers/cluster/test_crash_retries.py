"""How often a task that ends its worker runs on the engines: ``crash_retries=``."""

import os
import signal
from contextlib import contextmanager, nullcontext

import pytest
from engine_schedulers import DISTRIBUTED, RAY, local_client

import lazyflow
from lazyflow import WorkerDied, compute, config, delayed
from lazyflow.testing.signals import Tally, inc

numpy = pytest.importorskip("numpy")

pytestmark = pytest.mark.parametrize("engine", [DISTRIBUTED, RAY], indirect=True)


@contextmanager
def ray_here():
    with config.set(num_workers=2):
        yield "ray"
        lazyflow.shutdown()


@pytest.fixture(scope="module")
def engine(request):
    if request.param == "ray":
        with ray_here() as name:
            yield name
    else:
        with local_client(2, set_as_default=False) as client:
            yield client


def says(how, count):
    """Return a block, and the options of the task, by which ``crash_retries`` is said."""
    if how == "delayed":
        return nullcontext(), {"crash_retries": count}
    if how == "annotate":
        return lazyflow.annotate(crash_retries=count), {}
    return config.set(crash_retries=count), {}


@pytest.mark.parametrize(
    ("how", "count"), [("delayed", 0), ("annotate", 0), ("config", 0), ("config", 1),
                       ("delayed", 1), ("delayed", 5), (None, 2)])
def test_a_task_that_ends_its_worker_runs_so_often(engine, how, count):
    ran, beside = Tally(), Tally()

    def ends(_=None):
        ran.add(os.getpid())
        os._exit(3)

    def runs(i):
        beside.add(i)
        return i + 1

    block, options = says(how, count) if how else (nullcontext(), {})
    compute(delayed(runs)(9), scheduler=engine, timeout=100)  # its cost is known: it is packed
    with block:
        bad = delayed(ends, name="bad", **options)(delayed(runs)(8))
        good = [delayed(runs)(i) for i in range(8)]
        (*found, error) = compute(
            *good, bad, scheduler=engine, timeout=100, on_error="collect")
    assert len(ran) == count + 1
    assert found == list(range(1, 9))
    assert type(error) is WorkerDied
    deaths = "the worker ended" if not count else f"{count + 1} workers ended"
    assert str(error).startswith(f"{deaths} while running this task, the last one while it ran ")
    assert error.__notes__[0].startswith("in lazyflow task bad, made at ")
    if engine == "ray" or (how == "config" and not count):  # else what died with a worker is remade
        most = count if how == "config" else 2
        assert max(map(beside.items().count, range(9))) <= most + 1


def test_a_task_that_ends_its_worker_once_has_its_result(engine):
    ran = Tally()

    def once():
        if ran.add(os.getpid()) == 1:
            os._exit(3)
        return 5

    assert compute(delayed(once, crash_retries=1)(), scheduler=engine, timeout=100) == (5,)
    assert len(ran) == 2


def test_tasks_that_run_once_and_did_not_begin_are_not_lost(engine):
    """They wait in the queues of workers that others end."""
    ran = Tally()

    def ends(i):
        os._exit(3)

    def runs(i):
        ran.add(i)
        return i

    bad = [delayed(ends, crash_retries=0)(i) for i in range(6)]
    good = [delayed(runs, crash_retries=0)(i) for i in range(20)]
    found = compute(bad + good, scheduler=engine, timeout=100, on_error="collect")[0]
    assert [type(each) for each in found[:6]] == [WorkerDied] * 6
    assert sorted(ran.items()) == list(range(20))
    assert found[6:] == list(range(20))


def test_what_needs_a_task_that_ended_its_worker_fails_with_it(engine):
    ran = Tally()

    def ends():
        ran.add(0)
        os._exit(3)

    bad = delayed(ends, crash_retries=0)()
    users = [delayed(inc, crash_retries=k)(bad) for k in (0, 1, 2)]
    found = compute(*users, delayed(inc)(1), scheduler=engine, timeout=100, on_error="collect")
    assert [type(each) for each in found[:3]] == [WorkerDied] * 3
    assert found[3] == 2
    assert len(ran) == 1


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_value_that_is_lost_is_not_made_again(engine, is_kept):
    """The worker that has the result of a task that must not run twice is ended by another."""
    if engine == "ray":
        pytest.skip("Ray's values outlive its workers")
    ran = Tally()

    def large():
        ran.add(os.getpid())
        return numpy.ones(50_000), os.getpid()

    def ends(pair):
        os.kill(pair[1], signal.SIGKILL)
        return pair[0].sum()

    made = delayed(large, name="made", crash_retries=0)()
    if is_kept:
        (made,) = lazyflow.persist(made, scheduler=engine)
        lazyflow.wait([made])
    with pytest.raises(WorkerDied, match="crash_retries=0 and must not run twice"):
        compute(delayed(ends, crash_retries=3)(made), scheduler=engine, timeout=100)
    if is_kept:
        with pytest.raises(WorkerDied, match="the result of made, .*must not run twice"):
            made.compute()
    assert len(ran) == 1
