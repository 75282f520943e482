"""Where results are kept on the workers of distributed, and in which parts."""

import pytest

import lazyflow
from lazyflow import compute, delayed, persist

numpy = pytest.importorskip("numpy")
dask = pytest.importorskip("dask", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")


@pytest.fixture
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


def block(i):
    return numpy.full(50_000, float(i))


def total(*blocks):
    return sum(float(each.sum()) for each in blocks)


def blocks_on(client):
    """Return kept blocks; those of the second time have places, since costs are known."""
    for _ in range(2):
        blocks = persist(*[delayed(block)(i) for i in range(8)], scheduler=client)
        lazyflow.wait(list(blocks))
    return blocks


def test_results_that_are_made_of_nothing_lie_evenly(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        kept = blocks_on(client)
        for worker in client.nthreads():  # what it says comes in order: all is known after this
            client.submit(bool, workers=[worker], pure=False).result()
        lie = client.has_what().values()
        assert [sum(isinstance(key, tuple) for key in keys) for keys in lie] == [4, 4]
        assert compute(delayed(total)(*kept), scheduler=client) == (28 * 50_000.0,)


def test_results_with_a_place_are_made_again_when_all_workers_have_ended(cluster):
    async def replace():
        for worker in tuple(cluster.workers.values()):
            await worker.close()
            await cluster.scheduler.remove_worker(worker.address, stimulus_id="test")
        return await distributed.Worker(cluster.scheduler.address, nthreads=1)

    with distributed.Client(cluster, set_as_default=False) as client:
        kept = blocks_on(client)
        other = cluster.sync(replace)
        try:
            found = compute(delayed(total)(*kept), scheduler=client, timeout=60)
        finally:
            cluster.sync(other.close)
    assert found == (28 * 50_000.0,)


def cut(whole, count):
    return tuple(numpy.array_split(whole, count))


def joined(*parts):
    return float(numpy.concatenate(parts).sum())


def bytes_moved(cluster):
    logs = [worker.transfer_outgoing_log for worker in cluster.workers.values()]
    return sum(each["total"] for log in logs for each in log)


def test_each_user_is_sent_its_own_part(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        for _ in range(2):  # the second time, costs and sizes are known
            before = bytes_moved(cluster)
            wholes = [delayed(block)(i) for i in range(8)]
            pieces = [delayed(cut, nout=8)(whole, 8) for whole in wholes]
            sums = [delayed(joined)(*[each[k] for each in pieces]) for k in range(8)]
            assert compute(delayed(sum)(sums), scheduler=client) == (28 * 50_000.0,)
        groups = {
            str(key[0]).partition("-")[0] for key, *_ in cluster.scheduler.transition_log
            if isinstance(key, tuple)
        }
    assert any(name.startswith("part_of_") for name in groups)
    assert bytes_moved(cluster) - before < 0.7 * 8 * 400_000  # whole ones would be all of that


def test_what_reads_kept_values_runs_where_they_are(cluster):
    def added(one, other):
        return one + other

    with distributed.Client(cluster, set_as_default=False) as client:
        pairs = list(zip(blocks_on(client), blocks_on(client), strict=True))
        for _ in range(2):
            before = bytes_moved(cluster)
            sums = [delayed(added)(*pair) for pair in (*pairs[1:], pairs[0])]
            lazyflow.wait(list(persist(*sums, scheduler=client)))
        assert bytes_moved(cluster) == before


def block_and_worker(i):
    return block(i), distributed.get_worker().name


def test_a_place_is_not_asked_for_where_resources_are(cluster):
    """The scheduler would drop the restrictions, that of the resources with them."""
    async def another():
        return await distributed.Worker(
            cluster.scheduler.address, nthreads=1, resources={"GPU": 1}, name="with GPU")

    with distributed.Client(cluster, set_as_default=False) as client:
        worker = cluster.sync(another)
        try:
            for _ in range(2):
                made = [delayed(block_and_worker, resources={"GPU": 1})(i) for i in range(8)]
                kept = persist(*made, scheduler=client)
                lazyflow.wait(list(kept), timeout=60)
                names = compute([delayed(pair)[1] for pair in kept], scheduler=client)
                assert names == (["with GPU"] * 8,)
        finally:
            cluster.sync(worker.close)


def more(x):
    return x + 1


def test_results_that_are_more_than_a_worker_holds_are_not_parts():
    """Each would be made where all of them are, and no worker may have as much for one task."""
    no_spilling = {f"distributed.worker.memory.{name}": False for name in ("spill", "pause")}
    with dask.config.set(no_spilling), distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, memory_limit=600_000,
        dashboard_address="127.0.0.1:0",
    ) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        for _ in range(3):
            x = delayed(block)(1)
            found = compute(x, delayed(more)(x), scheduler=client, timeout=60)
            assert [each[0] for each in found] == [1.0, 2.0]
