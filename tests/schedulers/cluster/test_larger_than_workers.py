"""Arrays of more than the workers of distributed may have in memory."""

import pytest
from waiting import until

import lazyflow
import lazyflow.array as la
from lazyflow import compute, delayed, persist
from lazyflow.store import exchange_file

np = pytest.importorskip("numpy")
dask = pytest.importorskip("dask", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")
iostream = pytest.importorskip("tornado.iostream")

ROWS, COLUMNS, CHUNK = 4096, 512, 256  # 16 MiB, in chunks of one MiB


@pytest.fixture(scope="module")
def client():
    """Two workers that may keep little: the process itself has more than the target.

    Without distributed's profiler, which holds frames for moments, and with them their results:
    those that something else holds are not moved to the file.
    """
    options = {
        "distributed.worker.memory.target": 0.01, "distributed.worker.profile.enabled": False}
    with dask.config.set(options), distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=":0"
    ) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        with lazyflow.config.set(scheduler=client):
            yield client


def facts(dask_worker):
    from lazyflow.store import spilling

    found = spilling.facts()
    found["offset"] = dask_worker.data.offset
    found["theirs"] = dask_worker.data.spilled_total.disk
    found["values"] = len(dask_worker.data)
    return found


def evict_all(dask_worker):
    while dask_worker.data.fast:
        dask_worker.data.evict()


def of_all(client, name):
    return sum(each[name] for each in client.run(facts).values())


def numbers(lib, columns=COLUMNS, **chunks):
    return (lib.arange(ROWS * columns, dtype="f8", **chunks) % 1009 / 1009).reshape(ROWS, columns)


def kept(columns=COLUMNS, rows=CHUNK):
    x = numbers(la, columns, chunks=rows * columns).persist()
    lazyflow.wait([x])
    return x


def nothing_is_left(client):
    return until(lambda: all(
        of_all(client, name) == 0 for name in ("values", "spilled_bytes", "held_bytes", "offset")
    ), 30)


def test_results_beyond_the_memory_are_in_one_file_and_are_numpys(client):
    x, expected = kept(), numbers(np)
    assert of_all(client, "spilled_bytes") > expected.nbytes // 2
    cases = (
        lambda x: (x - x.mean(0)) / x.std(0), lambda x: x[x > 0.5], lambda x: x.cumsum(axis=0))
    for what in cases:
        found = what(x).persist().compute()
        np.testing.assert_allclose(found, what(expected), atol=1e-12)
    assert of_all(client, "theirs") == 0  # distributed has written nothing
    del x
    assert nothing_is_left(client)


def test_what_distributed_spills_is_a_word_and_comes_back(client):
    x, expected = kept(), numbers(np)
    client.run(evict_all)
    assert 0 < of_all(client, "theirs") < expected.nbytes // 100
    np.testing.assert_array_equal(x.compute(), expected)
    client.run(evict_all)
    del x
    assert nothing_is_left(client)


@pytest.mark.parametrize("share", [1, 0])  # of memory from which it goes through files
def test_what_is_regrouped_goes_between_workers_and_not_through_the_caller(
    client, monkeypatch, share
):
    monkeypatch.setattr(exchange_file, "_SHARE", share)
    passed, columns = [], 4 * COLUMNS
    expected = numbers(np, columns)

    def counted(given):
        def passes(self, data):
            size = given(self, data)
            passed.append(size or 0)
            return size

        return passes

    for name in ("read_from_fd", "write_to_fd"):
        monkeypatch.setattr(iostream.IOStream, name, counted(getattr(iostream.IOStream, name)))
    for _ in range(2):  # the second time, costs and sizes are known
        x = kept(columns, 2 * CHUNK)
        before = sum(passed)
        y = x.rechunk((-1, columns // 8)).persist()
        total = float(y.sum().compute())
        through_caller = sum(passed) - before  # and to and from the scheduler, which is here, too
        np.testing.assert_allclose(total, expected.sum())
        np.testing.assert_array_equal(y[:, -40:].compute(), expected[:, -40:])
        del x, y
    assert through_caller < 0.01 * expected.nbytes
    assert nothing_is_left(client)


def test_an_array_that_a_module_holds_is_not_changed_nor_kept_for_good(client):
    def held(i):
        import builtins

        if not hasattr(builtins, "lazyflow_test_array"):
            builtins.lazyflow_test_array = np.zeros(1 << 16)
        builtins.lazyflow_test_array[:] = i
        return builtins.lazyflow_test_array

    for i in (1.0, 2.0):
        (value,) = persist(delayed(held)(i))
        lazyflow.wait([value])
        assert compute(delayed(np.sum)(value)) == (i * (1 << 16),)
        del value
    assert nothing_is_left(client)


def test_a_limit_of_lazyflows_own_is_refused_in_words(client):
    with pytest.raises(ValueError, match="limits of"):
        numbers(la, chunks=CHUNK * COLUMNS).sum().compute(memory_limit="1 GB")
