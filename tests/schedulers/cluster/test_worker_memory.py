"""What needs more memory at once than the smallest worker of distributed has."""

import logging
import threading
from contextlib import contextmanager

import pytest

import lazyflow
from lazyflow import StoreFull, compute, delayed, persist
from lazyflow.testing.signals import Tally

np = pytest.importorskip("numpy")
distributed = pytest.importorskip("distributed")

MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def client():
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="320MiB", dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        with lazyflow.config.set(scheduler=client):
            yield


@contextmanager
def logged(name):
    """Yield an event that is set when something is logged."""
    said, handler = threading.Event(), logging.Handler()
    handler.emit = lambda record: said.set()
    logging.getLogger(name).addHandler(handler)
    try:
        yield said
    finally:
        logging.getLogger(name).removeHandler(handler)


def block(i, size=30 * MIB):
    return np.full(size, i, "u1")


def first(blocks, ran):
    ran.add("first")
    return [int(each[0]) for each in blocks]


def test_what_reads_too_much_of_kept_values_is_named_before_it_starts():
    ran = Tally()
    blocks = persist([delayed(block)(i) for i in range(12)])[0]
    lazyflow.wait(blocks)
    with pytest.raises(StoreFull, match=r"first needs 377 MB of .* worker has 336 MB"):
        compute(delayed(first)(blocks, ran))
    assert len(ran) == 0
    assert compute(delayed(first)(blocks[:3], ran)) == ([0, 1, 2],)


def test_what_reads_too_much_of_the_same_graph_is_named_and_the_rest_comes():
    ran = Tally()
    blocks = [delayed(block)(i, size=31 * MIB) for i in range(12)]
    large, small = persist(delayed(first)(blocks, ran), delayed(first)(blocks[:2], ran))
    assert small.compute(timeout=60) == [0, 1]
    with pytest.raises(StoreFull, match=r"first needs 390 MB of .* worker has 336 MB"):
        large.compute(timeout=60)
    assert len(ran) == 1


def test_what_many_values_failed_of_is_logged_once(caplog):
    def fails():
        raise ValueError("the cause")

    cause = delayed(fails)()
    values = persist([delayed(abs)(cause) for _ in range(20)])[0]
    lazyflow.wait(values)
    with caplog.at_level(logging.ERROR, "lazyflow"), logged("lazyflow") as said:
        del values, cause
        assert said.wait(60)  # the engine's thread may have been the last that held them
        assert compute(delayed(abs)(-1)) == (1,)
    (record,) = [each for each in caplog.records if each.name == "lazyflow"]
    assert "nobody looked at had failed: ValueError: the cause (in" in record.getMessage()
