"""Results of `compute` are written where they belong: no block is held beside the result."""

import mmap
import tracemalloc

import numpy as np
import pytest
from array_checks import same_values
from waiting import until
from weaker_systems import writes_into_results

import lazyflow as lf
import lazyflow.array as la
from lazyflow.schedulers.processes.parent import pool
from lazyflow.store.memory import result_memory

DATA = np.random.default_rng(3).random((3200, 1250))  # 32 MB

IN_PLACE = {
    "one operation": lambda m, x: x + 1,
    "several operations": lambda m, x: 3 * x * x + 2 * x + 1,
    "a cast": lambda m, x: x.astype("i8"),
    "a choice": lambda m, x: m.where(x > 0.5, x, 0),
    "a view": lambda m, x: x[::-1, ::2],
    "another shape": lambda m, x: (x + 1).reshape(100, 40, 1000),
    "one after another": lambda m, x: m.concatenate([x[:1000], x + 1, x[::-1]]),
    "rolled": lambda m, x: m.roll(x, (3, -2), axis=(0, 1)),
    "padded": lambda m, x: m.pad(x, 1),
    "repeated": lambda m, x: m.repeat(x[:1600], 2, axis=0),
}


def _cases():
    """Return each case with both ways of chunking: with one of them, in turns, at each commit."""
    each = [("numpy", "one operation"), ("numpy", "a cast"), *(("native", n) for n in IN_PLACE)]
    for i, (kernels, name) in enumerate(each):
        for j, chunks in enumerate([(400, 1250), (800, 625)]):
            marks = () if i % 2 == j else pytest.mark.slow
            yield pytest.param(kernels, name, chunks, marks=marks)


@pytest.mark.parametrize(("kernels", "name", "chunks"), list(_cases()))
def test_the_blocks_of_a_result_take_no_memory_of_their_own(name, kernels, chunks):
    check_in_place(IN_PLACE[name], kernels, chunks)


def test_what_is_taken_of_whole_rows_takes_no_memory_of_its_own():
    places = np.arange(0, 6400, 2) % 3200
    check_in_place(lambda m, x: m.take(x, places, axis=0), "numpy", (400, 1250))


def check_in_place(make, kernels, chunks):
    made = make(la, la.from_array(DATA, chunks=chunks))
    with lf.config.set(kernels=kernels, scheduler="threads", num_workers=1):
        made.compute()  # compiles
        tracemalloc.start()
        try:
            found = made.compute()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    same_values(found, make(np, DATA))
    assert found.flags.owndata and found.flags.writeable and found.flags.c_contiguous
    assert peak < found.nbytes + 3.5e6  # less than a block, which has 4 MB


def test_blocks_that_are_read_too_are_right():
    x = la.from_array(DATA, chunks=(200, 1250)) * 2
    found = lf.compute(x, x.sum(), x[::2], x)
    wanted = DATA * 2, x.sum().compute(), DATA[::2] * 2, DATA * 2
    for one, expected in zip(found, wanted, strict=True):
        same_values(one, expected)
    assert found[0] is not found[3] and not np.shares_memory(found[0], found[2])


@pytest.mark.parametrize("kernels", ["numpy", "native"])
def test_parts_of_a_result_may_lie_in_it_in_any_way(kernels):
    data = DATA[:1600].reshape(100, 20, 1000)[..., :999]
    x = la.from_array(data, chunks=((30, 70), (1, 12, 7), (1, 900, 98)))
    with lf.config.set(kernels=kernels):
        same_values((x * 2 + x.astype("f4")).compute(), data * 2 + data.astype("f4"))
        found = lf.compute(x.transpose(1, 2, 0) * x.mean(2).T[:, None], (x < 1) & (x > 0.3))
    same_values(found[0], data.transpose(1, 2, 0) * x.mean(2).compute().T[:, None])
    same_values(found[1], (data < 1) & (data > 0.3))


@writes_into_results
def test_other_processes_write_into_the_memory_of_a_result():
    with lf.config.set(scheduler="processes", num_workers=2):
        x = la.from_array(DATA, chunks=(800, 625)).persist()
        first, mapped = lf.compute(x + 1, x.map_blocks(lambda block: block + 1, dtype=float))
        first[:] = 0.0
        second = (x + 1).compute()
        del first
        third = (x * 2).compute()
    same_values(second, DATA + 1)
    same_values(mapped, DATA + 1)
    same_values(third, DATA * 2)
    for found in (second, mapped, third):
        assert isinstance(found.base, mmap.mmap)
        assert found.flags.writeable and found.flags.c_contiguous


@writes_into_results
def test_an_idle_pool_keeps_no_memory_for_results(monkeypatch):
    monkeypatch.setattr(pool, "IDLE", 0.01)
    with lf.config.set(scheduler="processes", num_workers=2):
        found = (la.from_array(DATA[:1000], chunks=(500, 625)) + 1).compute()
        assert isinstance(found.base, mmap.mmap)
        del found
        assert until(lambda: not result_memory._uses)
        assert lf.delayed(abs)(-1).compute() == 1
        assert until(lambda: not result_memory._unused)


def test_blocks_come_back_where_no_memory_can_be_lent(monkeypatch):
    asked = []

    def refused(size):
        asked.append(size)
        raise OSError("the system gives no memory")

    result_memory.trim()
    monkeypatch.setattr(result_memory, "_new_file", refused)
    x = la.from_array(DATA[:1000], chunks=(500, 625))
    same_values((x - 1).compute(scheduler="processes"), DATA[:1000] - 1)
    assert asked == [DATA[:1000].nbytes]  # once for all blocks: it takes as long as a small one


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_a_result_that_memory_cannot_hold_says_what_to_do(scheduler):
    with pytest.raises(MemoryError, match="Unable to allocate") as caught:
        la.ones(1 << 50, chunks=1 << 49).compute(scheduler=scheduler)
    (note,) = caught.value.__notes__
    assert "la.store(x, target), x.to_zarr(path)" in note
