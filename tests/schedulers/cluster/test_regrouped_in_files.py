"""What is regrouped on distributed beyond a share of the workers' memory goes through files."""

import os
import signal

import numpy as np
import pytest
from engine_schedulers import both_workers, local_client
from waiting import until

import lazyflow
import lazyflow.array as la
from lazyflow.store import exchange_file
from lazyflow.testing.signals import Tally

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
worker_files = pytest.importorskip("lazyflow.schedulers.cluster.dask.worker_files")

SHAPE = 37, 23


@pytest.fixture(scope="module")
def client():
    with local_client() as client, lazyflow.config.set(scheduler=client):
        yield client


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """The names of the files of plans. All that is regrouped needs some."""
    names, of_client = [], worker_files.WorkerFiles.of_client

    def noted(*given):
        found = of_client(*given)
        names.append(found._given[0])
        return found

    monkeypatch.setattr(exchange_file, "_SHARE", 0)
    monkeypatch.setattr(worker_files.WorkerFiles, "of_client", noted)
    return names


def held_names():
    from lazyflow.schedulers.core.task_resources import arrived

    return [name for name in arrived if "/" in name]


def nothing_is_left(client):
    return until(lambda: not any(client.run(held_names).values()), 30)


def same(block):
    return block


def data(dtype="f8"):
    x = np.random.default_rng(0).permutation(np.prod(SHAPE)).reshape(SHAPE)
    return x.astype(dtype)


def chunked(x, chunks=((5, 12, 1, 19), (9, 9, 5))):
    """The blocks are a function's, which is not run for parts of them."""
    return la.from_array(x, chunks=chunks).map_blocks(same, dtype=x.dtype)


ORDER = np.random.default_rng(1).permutation(SHAPE[0])

PROGRAMS = {
    "rows to columns": lambda lib, x: x if lib is np else x.rechunk((-1, 2)),
    "odd chunks": lambda lib, x: x if lib is np else x.rechunk(((30, 7), (1, 20, 2))),
    "of a permutation": lambda lib, x: x[ORDER],
    "points of both axes": lambda lib, x: x[ORDER[:30, None], ORDER[ORDER < 23][None]],
    "reduced": lambda lib, x: (x if lib is np else x.rechunk((-1, 3))).sum(axis=0),
    "transposed": lambda lib, x: x.T if lib is np else x.T.rechunk((2, -1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", ["f8", "M8[s]", "S3"])
def test_values_are_numpys(client, made, name, dtype):
    if name == "reduced" and dtype != "f8":
        dtype = "i2"
    x = data(dtype)
    found = PROGRAMS[name](la, chunked(x)).persist()
    np.testing.assert_array_equal(found.compute(), PROGRAMS[name](np, x), strict=True)
    assert made
    assert nothing_is_left(client)


@pytest.mark.parametrize("function", [la.sort, la.argsort])
def test_a_long_axis_is_sorted_as_numpys(client, made, function):
    x = data().ravel()
    with lazyflow.config.set(chunk_bytes=200):
        found = function(chunked(x, 50)).compute()
    np.testing.assert_array_equal(found, getattr(np, function.__name__)(x, kind="stable"))
    assert made


def cant_open(*given):
    raise OSError("on another machine")


def test_workers_of_other_machines_are_asked(client, made):
    def hide(function):
        from lazyflow.schedulers.cluster.dask import worker_files

        before, worker_files.open_descriptor_of = worker_files.open_descriptor_of, function
        return before

    before = client.run(hide, cant_open)
    try:
        x = data()
        for name in ("rows to columns", "of a permutation"):
            found = PROGRAMS[name](la, chunked(x)).persist().compute()
            np.testing.assert_array_equal(found, PROGRAMS[name](np, x))
    finally:
        client.run(hide, next(iter(before.values())))
    assert len(made) == 2


def end_worker():
    os.kill(os.getpid(), signal.SIGKILL)


def end_files():
    for name in held_names():
        from lazyflow.schedulers.core.task_resources import arrived

        del arrived[name]


@pytest.mark.parametrize("lose", [end_files, end_worker])
def test_what_is_gone_is_written_again(client, made, lose):
    x, lost, written = data(), Tally(), Tally()

    def noted(block):
        written.add(block.shape)
        return block

    def once(block):
        if lost.add(os.getpid()) == 1:
            lose()
        return block

    blocks = chunked(x).map_blocks(noted, dtype=x.dtype)
    found = blocks.rechunk((-1, 1)).map_blocks(once, dtype=x.dtype).persist()
    np.testing.assert_array_equal(found.compute(timeout=60), x)
    assert len(written) > blocks.npartitions
    assert nothing_is_left(client)


def test_readers_hear_from_the_scheduler_that_a_worker_is_gone(client):
    """distributed tries to reach it for 30 s: of as many readers, each waited that long."""
    def write(files):
        return files.write([(0, np.arange(9.0))])

    def read(files, written):
        worker_files.open_descriptor_of = cant_open  # as on another machine
        try:
            files.read(0, 72, [written])
        except worker_files.FileGone:
            return "gone"

    assert la.ones(4, chunks=2).sum().compute() == 4  # the scheduler gets lazyflow's part
    files = worker_files.WorkerFiles.of_client(client, 72, 1 << 30)
    owner, reader = both_workers(client)
    written = client.submit(write, files, workers=[owner]).result()
    before = client.run(lambda: worker_files.open_descriptor_of, workers=[reader])[reader]
    (pid,) = client.run(os.getpid, workers=[owner]).values()
    os.kill(pid, signal.SIGKILL)
    try:
        found = client.submit(read, files, written, workers=[reader], pure=False)
        assert found.result(timeout=20) == "gone"
    finally:
        client.run(lambda: setattr(worker_files, "open_descriptor_of", before), workers=[reader])


def test_files_of_a_client_that_ends_are_dropped(client):
    def write(files):
        return files.write([(0, np.arange(9.0))])

    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        files = worker_files.WorkerFiles.of_client(other, 72, 1 << 30)
        other.submit(write, files).result()
        assert any(client.run(held_names).values())
    assert nothing_is_left(client)
    del files
