"""Rechunks that do not fit into `memory_limit` go through a file, and are what they were."""

import os
import pickle
import platform
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyflow as lf
import lazyflow.array as la
from lazyflow.store import exchange_file
from lazyflow.store.exchange_file import ExchangeFile

MIB = 1 << 20


@st.composite
def rechunks(draw):
    """Return an array, its chunks, and those that it is to have."""
    shape = draw(st.lists(st.integers(2, 9), min_size=1, max_size=3))

    def chunks():
        found = []
        for n in shape:
            inner = draw(st.lists(st.integers(1, 8), min_size=2, unique=True))
            edges = sorted({0, n, *[at for at in inner if at < n]})
            found.append(tuple(int(b - a) for a, b in pairwise(edges)))
        return tuple(found)

    dtype = draw(st.sampled_from(["f8", ">i4", "?", "M8[s]", "U3", "i2,f4"]))
    made = np.arange(np.prod(shape)).astype("i8" if dtype == "M8[s]" else "f8").astype(
        dtype if dtype != "i2,f4" else "f4")
    return made.reshape(shape), chunks(), chunks()


@settings(max_examples=40, deadline=None)
@given(rechunks(), st.sampled_from(["sync", "threads"]), st.booleans())
def test_blocks_that_go_through_a_file_equal_numpys(made, scheduler, is_turned):
    x, old, new = made
    blocks = la.from_array(x, chunks=old).map_blocks(np.copy, dtype=x.dtype)
    other = blocks.rechunk(new)
    if is_turned:
        x, other = x.T, blocks.T.rechunk(new[::-1])
    kept = other.map_blocks(np.array, dtype=x.dtype)  # of blocks in these chunks
    largest = max(prod(map(max, chunks)) for chunks in (old, new))
    found = kept.compute(memory_limit=3 * largest * x.itemsize, scheduler=scheduler)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)


SIDE = 128
LIMIT = SIDE * SIDE * 4  # half of the bytes of `columns`, whose blocks are too small to be spilled


def columns():
    """Return an array in chunks of rows, the same in chunks of columns, and NumPy's."""
    x = la.arange(SIDE * SIDE, chunks=16 * SIDE, dtype="f8").reshape(SIDE, SIDE)
    x = x.map_blocks(np.copy) * 2  # a formula is made in any chunks
    return x, x.rechunk((-1, 16)), np.arange(SIDE * SIDE, dtype="f8").reshape(SIDE, SIDE) * 2


def test_a_file_is_made_only_where_pieces_do_not_fit(tmp_path):
    x, other, expected = columns()
    with lf.config.set(spill_folder="/nowhere"):
        for fits in ({}, {"memory_limit": "1 GB"}):
            np.testing.assert_array_equal((other + 1).compute(**fits), expected + 1)
        # Two blocks of rows become one: there are never many pieces.
        larger = x.rechunk((32, -1)).map_blocks(np.copy)
        assert larger.max().compute(memory_limit=LIMIT) == expected.max()
        with pytest.raises(lf.StoreFull, match=r"/nowhere.*spill_folder"):
            other.map_blocks(np.copy).compute(memory_limit=LIMIT)
    out = np.empty_like(expected)
    la.store(other, out, memory_limit=LIMIT, lock=False)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("index", ["rows", "columns", "points"])
def test_many_blocks_are_permuted_in_few_pieces(monkeypatch, index):
    """Neighbours are written and read together, else there were as many as blocks squared."""
    pieces, write = [], ExchangeFile.write

    def noted(file, parts):
        parts = list(parts)
        pieces.extend(parts)
        return write(file, parts)

    monkeypatch.setattr(ExchangeFile, "write", noted)
    monkeypatch.setattr(exchange_file, "_SHARE", 0)
    blocks, rows = 48, 32
    shape = (blocks * rows, 64) if index != "columns" else (64, blocks * rows)
    x = np.arange(prod(shape), dtype="f8").reshape(shape)
    rng = np.random.default_rng(0)
    order = rng.permutation(blocks * rows)
    key = {"rows": (order,), "columns": (slice(None), order),
           "points": (order, rng.integers(0, 64, len(order)))}[index]
    chunks = (rows, 64) if index != "columns" else (64, rows)
    made = la.from_array(x, chunks=chunks).map_blocks(np.copy)
    found = made[key].map_blocks(np.array).compute(memory_limit=2 * x.nbytes, num_workers=2)
    np.testing.assert_array_equal(found, x[key])
    assert blocks <= len(pieces) < blocks * blocks / 3


def die_once(block, marker):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return block + 1
    os._exit(3)


@pytest.mark.parametrize("dies", ["before", "after"])
def test_workers_share_the_file_also_when_one_of_them_dies(tmp_path, dies):
    x, _, expected = columns()
    other = x
    for when in ("before", "after"):
        marker = str(tmp_path / "died") if when == dies else None
        func = die_once if marker else np.add
        other = other.map_blocks(func, marker or 1, dtype="f8")
        other = other.rechunk((-1, 16)) if when == "before" else other
    found = other.compute(scheduler="processes", num_workers=2, memory_limit=LIMIT)
    np.testing.assert_array_equal(found, expected + 2)


def test_what_is_planned_for_later_needs_no_file_of_this_process(tmp_path):
    program = run_program(
        f"""
import pickle
x = la.arange({SIDE * SIDE}, chunks={16 * SIDE}, dtype="f8").reshape({SIDE}, {SIDE})
x = x.map_blocks(np.copy) * 2  # a formula is made in any chunks
other = x.rechunk((-1, 16)).map_blocks(np.copy)
open({str(tmp_path / 'graph')!r}, "wb").write(pickle.dumps([other, la.to_delayed(other)[0, 1]]))
""",
        tmp_path, LIMIT,
    )
    program.communicate()
    other, block = pickle.loads((tmp_path / "graph").read_bytes())
    expected = columns()[2]
    np.testing.assert_array_equal(other.compute(), expected)
    np.testing.assert_array_equal(block.compute(memory_limit=LIMIT), expected[:, 16:32])


@pytest.mark.parametrize("limit, patience", [(256 * MIB, 0.3), (1100 * MIB, 30)])
def test_no_more_tasks_run_at_once_than_fit(limit, patience):
    """Each of these tasks reads 200 MiB, and waits for another one to run at the same time."""
    two = threading.Barrier(2)
    made = lf.delayed(lambda k: np.broadcast_to(float(k), (25 * MIB,)))
    x = la.concatenate([la.from_delayed(made(k), (25 * MIB,), "f8") for k in range(8)])

    def look(block):
        try:
            two.wait(patience)
        except threading.BrokenBarrierError:  # from the first time on that it was in vain
            return np.array([-1.0])
        return np.array([block[-1]])

    found = la.map_blocks(look, x, chunks=((1,) * 8,), dtype="f8")
    expected = [-1] * 8 if limit == 256 * MIB else list(range(8))
    assert found.compute(memory_limit=limit, num_workers=4).tolist() == expected


def run_program(text, folder, limit, **more):
    program = f"""
import os, resource, sys, numpy as np, lazyflow as lf, lazyflow.array as la
lf.config.set(spill_folder={str(folder)!r}, memory_limit={limit})
{text}
"""
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, **more,
    )


PEAK = 128 * MIB  # the limit of four times as many bytes


@pytest.mark.parametrize("scheduler", [
    "threads",
    pytest.param("sync", marks=pytest.mark.slow),
    pytest.param("processes", marks=pytest.mark.slow),
])
def test_the_peak_of_rows_to_columns_is_below_1_2_of_the_limit(tmp_path, scheduler):
    """Beside what processes hold anyway: libraries, and the compiler of kernels, are not arrays."""
    program = run_program(
        f"""
from benchmarks.memory import forget_peak, peak_of
lf.config.set(scheduler={scheduler!r}, num_workers=2, kernels="native")
pids = {{os.getpid(), *lf.compute(*[lf.delayed(os.getpid)() for _ in range(20)])}}
def total(n_bytes):
    x = la.arange(n_bytes // 8, chunks={MIB // 4}, dtype="f8").reshape(-1, 1024)
    x = x.map_blocks(np.copy) * 2  # a formula is made in any chunks
    return float(x.rechunk((-1, 16)).map_blocks(np.copy).sum().compute())
total({PEAK // 16})
for pid in pids:
    forget_peak(pid)
before = sum(map(peak_of, pids))
print(total({4 * PEAK}), sum(map(peak_of, pids)) - before, os.listdir({str(tmp_path)!r}))
""",
        tmp_path, PEAK,
    )
    total, peak, left = program.communicate()[0].split()
    count = 4 * PEAK // 8
    assert (float(total), left) == (count * (count - 1.0), "[]")
    assert int(peak) <= 1.2 * PEAK


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="allocators of others differ")
def test_memory_that_small_arrays_have_freed_leaves_room_for_a_large_block(tmp_path):
    """The C library keeps it, and a block of half the limit came on top of it."""
    program = run_program(
        f"""
from lazyflow.system import process_usage
def used():
    return process_usage(os.getpid())[0]
def look(block):
    seen.append(used() - block.nbytes)
    return block[:1].copy()
def compute(rows):
    x = la.arange(rows * 1024, chunks={MIB // 4}, dtype="f8").reshape(rows, 1024)
    x = x.map_blocks(np.copy) * 2  # a formula is made in any chunks
    y = x.rechunk((-1, 256)).map_blocks(look, chunks=((1,), (256,) * 4), dtype="f8")
    y.compute(num_workers=1)
lf.config.set(kernels="numpy")
seen = []
compute(1024)
small = [np.ones(8192) for _ in range(1600)]
del small[:-1]  # {1600 * 64 >> 10} MiB below the last one
before = used()
seen.clear()
compute({16 * MIB >> 10})
print(before - max(seen))
""",
        tmp_path, 64 * MIB,
    )
    assert int(program.communicate()[0]) > 40 * MIB


@pytest.mark.parametrize("limit", [None, PEAK])
def test_what_is_persisted_on_processes_does_not_pass_through_the_caller(limit):
    rows = 8 * MIB
    with lf.config.set(scheduler="processes", num_workers=2, memory_limit=limit):
        for _ in range(2):  # the second time, costs and sizes are known
            before = lf.schedulers.info().get("processes", {}).get("through_parent_bytes", 0)
            x = (la.arange(rows, chunks=rows // 16, dtype="f8").reshape(-1, 256) * 2).persist()
            y = x.rechunk((-1, 16)).persist()
            assert float(y.sum().compute()) == rows * (rows - 1.0)
            passed = lf.schedulers.info()["processes"]["through_parent_bytes"] - before
            del x, y
    assert passed < 0.01 * 8 * rows


def test_a_full_disk_is_an_error_before_the_run_or_in_it_and_nothing_is_lost(tmp_path):
    program = run_program(
        f"""
def fill(block, soft):
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
    return block
x = la.arange({SIDE * SIDE}, chunks={16 * SIDE}, dtype="f8").reshape({SIDE}, {SIDE})
x = x.map_blocks(np.copy) * 2  # a formula is made in any chunks
def compute(soft):
    try:
        print(float(x.map_blocks(fill, soft).rechunk((-1, 16)).map_blocks(np.copy).sum().compute()))
    except lf.StoreFull as error:
        print(str(error).splitlines()[0])
compute(1 << 12)
fill(None, 1 << 12)
compute(1 << 12)
fill(None, resource.RLIM_INFINITY)
compute(resource.RLIM_INFINITY)
""",
        tmp_path, LIMIT,
    )
    *errors, value = program.communicate()[0].splitlines()
    for error in errors:
        assert str(tmp_path) in error and "spill_folder" in error and f"={LIMIT})" in error
        assert error.startswith("131 kB of regrouped blocks")
    assert len(errors) == 2 and float(value) == columns()[2].sum()


def test_nothing_is_left_after_kill_9(tmp_path):
    program = run_program(
        f"""
def wait(block):
    print("reads", flush=True)
    sys.stdin.read()
x = la.arange({SIDE * SIDE}, chunks={16 * SIDE}, dtype="f8").reshape({SIDE}, {SIDE})
x = x.map_blocks(np.copy) * 2  # a formula is made in any chunks
x.rechunk((-1, 16)).map_blocks(wait, dtype="f8").compute(scheduler="sync")
""",
        tmp_path, LIMIT, stdin=subprocess.PIPE,
    )
    assert program.stdout.readline() == "reads\n"
    links = [os.readlink(f"/proc/{program.pid}/fd/{n}") for n in
             os.listdir(f"/proc/{program.pid}/fd")]
    assert any(str(tmp_path) in link and "(deleted)" in link for link in links)
    assert not os.listdir(tmp_path)
    program.send_signal(signal.SIGKILL)
    program.communicate()
    assert not os.listdir(tmp_path)
