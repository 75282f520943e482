"""Futures of the engines' own among arguments, and ``dask.annotate(retries=)``."""

import pytest
from engine_schedulers import DISTRIBUTED, RAY

import lazyflow
from lazyflow import compute, config, delayed, persist, put, submit
from lazyflow.testing.signals import Tally

numpy = pytest.importorskip("numpy")
on_engines = pytest.mark.parametrize("engine", [DISTRIBUTED, RAY], indirect=True)


class OnDask:
    def __init__(self, client):
        self.client = client
        self.scheduler = client

    def call(self, f, *args):
        return self.client.submit(f, *args, pure=False)

    def keep(self, value):
        # Not by content: the release of an equal value's future may come in between, and drop it.
        return self.client.scatter(value, hash=False)


class OnRay:
    scheduler = "ray"

    def call(self, f, *args):
        import ray

        return ray.remote(f).remote(*args)

    def keep(self, value):
        import ray

        return ray.put(value)


@pytest.fixture(scope="module")
def engine(request):
    if request.param == "ray":
        with config.set(num_workers=2):
            compute(delayed(abs)(1), scheduler="ray")
            yield OnRay()
            lazyflow.shutdown()
    else:
        distributed = pytest.importorskip("distributed")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=False,
                dashboard_address="127.0.0.1:0",
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield OnDask(client)


def negative(x):
    return -x


@on_engines
@pytest.mark.parametrize("where", [None, "engine", "threads", "processes", "sync"])
def test_their_futures_are_their_values(engine, where):
    scheduler = engine.scheduler if where == "engine" else where
    theirs, kept = engine.call(negative, 3), engine.keep(numpy.arange(4.0))
    with config.set(scheduler=scheduler):
        assert submit(abs, theirs).result(60) == 3
        assert submit(sum, [theirs, theirs, 1]).result(60) == -5
        both = delayed(lambda d: (d["a"][0], float(d["b"].sum())))({"a": (theirs,), "b": kept})
        assert compute(both, timeout=60) == ((-3, 6.0),)
        assert compute(theirs, timeout=60) == (-3,)
        ((one, array), two) = compute([theirs, kept], theirs, timeout=60)
        assert (one, two, array.tolist()) == (-3, -3, [0.0, 1.0, 2.0, 3.0])
        assert persist(delayed(theirs) + 1)[0].compute() == -2
        assert put([theirs, kept]).result(60)[0] == -3
        assert submit(sum, put({"x": [theirs]}).result(60)["x"]).result(60) == -3


@on_engines
def test_where_they_live_is_where_the_call_runs(engine):
    future = submit(abs, engine.call(negative, 3))
    assert future._inner.scheduler.name == ("ray" if type(engine) is OnRay else "distributed")
    assert future.result(60) == 3


def fails(x):
    raise LookupError(f"not {x}")


@on_engines
@pytest.mark.parametrize("where", ["engine", "threads"])
def test_their_errors_are_errors_of_what_needs_them(engine, where):
    scheduler = engine.scheduler if where == "engine" else where
    bad = engine.call(fails, 7)
    found = compute(
        delayed(abs)(bad), delayed(abs)(-1), scheduler=scheduler, timeout=60, on_error="collect")
    assert type(found[0]) is LookupError
    assert str(found[0]) == "'not 7'" or str(found[0]) == "not 7"
    assert found[1] == 1


@on_engines
def test_a_value_of_theirs_is_not_edited(engine):
    kept = engine.keep(numpy.zeros(3))

    def edit(x):
        x += 1

    with pytest.raises(ValueError, match="read-only"):
        compute(delayed(edit)(kept), scheduler=engine.scheduler, timeout=60)
    assert compute(kept, timeout=60)[0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_put_of_futures_puts_their_values(scheduler):
    with config.set(scheduler=scheduler):
        future = submit(abs, -2)
        (kept,) = persist(delayed(abs)(-3))
        held = put([future, {"x": kept}, 5])
        assert held.result(60) == [2, {"x": 3}, 5]
        assert submit(len, held).result(60) == 3


@pytest.mark.parametrize("engine", [DISTRIBUTED], indirect=True)
@pytest.mark.parametrize("how", ["submit", "compute", "own"])
def test_retries_of_dask_annotate_hold(engine, how):
    import dask

    ran = Tally()

    def flaky():
        if ran.add(1) < 4:
            raise OSError("again")
        return 5

    with config.set(scheduler=engine.client):
        if how == "own":  # those of the task rule
            with dask.annotate(retries=5), pytest.raises(OSError, match="again"):
                submit(delayed(flaky, retries=1)).result(60)
            assert len(ran) == 2
            return
        with dask.annotate(retries=5):
            found = submit(flaky).result(60) if how == "submit" else delayed(flaky)().compute()
        assert (found, len(ran)) == (5, 4)
        with dask.annotate(retries=lambda key: 5), pytest.raises(TypeError, match="whole number"):
            submit(flaky)
