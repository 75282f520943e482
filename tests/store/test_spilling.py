"""Values beyond `memory_limit` are in a file, and are what they were."""

import gc
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import lazyflow as lf
import lazyflow.array as la
from lazyflow.api import evaluate
from lazyflow.finalizers import wait_for_last_calls
from lazyflow.schedulers.core.base import Observer

BLOCK = 1 << 20  # bytes of an array of these tests
LIMIT = 4 * BLOCK  # of which 2.4 blocks may be kept


@pytest.fixture(autouse=True)
def _none_kept():
    yield
    gc.collect()
    wait_for_last_calls()
    spilled = lf.info()["memory"]
    assert (spilled["held_bytes"], spilled["spilled_bytes"]) == (0, 0)


def arrays(count, **layout):
    """Return lazy arrays of a block each, all different."""
    made = lf.delayed(lambda k: np.full((BLOCK // 64, 8), float(k), **layout))
    return [made(k) for k in range(count)]


def memory():
    return lf.info()["memory"]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_persisted_arrays_beyond_the_limit_are_spilled_and_right(scheduler):
    kept = lf.persist(*arrays(12), scheduler=scheduler, memory_limit=LIMIT)
    lf.wait(kept)
    found = memory()
    # The last may have been in use as it was kept.
    assert found["held_bytes"] <= 4 * BLOCK
    assert found["held_bytes"] + found["spilled_bytes"] == 12 * BLOCK
    total = lf.delayed(lambda *all_: [float(x.sum()) for x in all_])(*kept)
    assert total.compute(scheduler=scheduler) == [k * BLOCK / 8.0 for k in range(12)]
    first = kept[0].compute(scheduler=scheduler)
    first[:] = 5.0  # the caller's own
    assert not kept[0].compute(scheduler=scheduler).any()
    del kept, total


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_what_tasks_pass_on_is_spilled(scheduler):
    held = []

    def last(*given):
        held.append(memory()["spilled_bytes"])
        return [float(x[-1, -1]) for x in given]

    result = lf.delayed(last)(*arrays(12)).compute(scheduler=scheduler, memory_limit="4.2 MB")
    assert result == [float(k) for k in range(12)]
    assert held[0] >= 8 * BLOCK


def test_workers_share_the_limit_and_spill_what_they_keep():
    def spilled(*_):
        return os.getpid(), lf.info()["memory"]

    kept = lf.persist(*arrays(12), scheduler="processes", num_workers=2, memory_limit=LIMIT)
    lf.wait(kept)
    found = dict(lf.compute(*[lf.delayed(spilled)(x) for x in kept], scheduler="processes"))
    assert os.getpid() not in found
    assert sum(each["spilled_bytes"] for each in found.values()) >= 8 * BLOCK
    together = lf.delayed(lambda *all_: [float(x[-1, -1]) for x in all_])(*kept)
    assert together.compute() == [float(k) for k in range(12)]
    assert [float(x[0, 0]) for x in lf.compute(*kept)] == [float(k) for k in range(12)]
    with pytest.raises(lf.StoreFull, match=r"spill_folder.*/nowhere|/nowhere.*spill_folder"):
        with lf.config.set(spill_folder="/nowhere"):
            more = lf.delayed(lambda *all_: len(all_))(*arrays(12))
            more.compute(scheduler="processes", memory_limit=LIMIT)
    del kept, together, more


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(BLOCK // 8.0).reshape(64, -1).T,
        lambda: np.asfortranarray(np.arange(BLOCK // 8.0).reshape(64, -1)),
        lambda: np.arange(BLOCK // 8.0).reshape(4, 8, -1).transpose(1, 0, 2),
        lambda: np.arange(BLOCK // 8.0)[::-3],
        lambda: np.arange(BLOCK // 8).astype("M8[s]"),
        lambda: np.arange(BLOCK // 8).astype(">i8"),
        lambda: np.zeros(BLOCK // 16, [("a", "i4"), ("b", "f8")]),
        lambda: np.broadcast_to(np.arange(BLOCK // 8.0), (3, BLOCK // 8)),
        lambda: np.array(["text", "ß"] * (BLOCK // 32)),
        lambda: np.array([object()] * (BLOCK // 8)),
        lambda: np.ma.masked_less(np.arange(BLOCK // 8.0), 7),
    ],
)
def test_spilled_arrays_keep_type_layout_and_values(make):
    kept = lf.delayed(make)().persist(memory_limit=1, scheduler="sync")
    more = lf.delayed(make)().persist(memory_limit=1, scheduler="sync")  # the first goes
    expected = make()

    def look(x):
        return type(x), x.dtype, x.strides, x.flags.writeable, x.tolist() if (
            x.dtype.hasobject) else x.copy()

    kind, dtype, strides, can_write, values = lf.delayed(look)(kept).compute(scheduler="sync")
    assert (kind, dtype, strides) == (type(expected), expected.dtype, expected.strides)
    assert not can_write
    if not dtype.hasobject:
        np.testing.assert_array_equal(values, expected)
    del kept, more


def test_memory_that_values_share_counts_once_and_is_written_once():
    (whole,) = lf.persist(arrays(1)[0], scheduler="sync", memory_limit=LIMIT)
    parts = lf.persist(*[whole[k::4] for k in range(4)], scheduler="sync", memory_limit=LIMIT)
    assert memory()["held_bytes"] == BLOCK
    others = lf.persist(*arrays(8), scheduler="sync", memory_limit=LIMIT)
    found = memory()
    assert found["held_bytes"] + found["spilled_bytes"] == 9 * BLOCK
    assert [float(x.sum()) for x in lf.compute(*parts, scheduler="sync")] == [0.0] * 4
    del whole, parts, others


def test_no_memory_is_written_that_a_task_reads():
    begun, go_on = threading.Event(), threading.Event()

    def read(x):
        before = x.sum()
        begun.set()
        assert go_on.wait(30)
        return before == x.sum()

    (x,) = lf.persist(arrays(1)[0], memory_limit=LIMIT)
    lf.wait(x)
    reader = lf.submit(read, x)
    assert begun.wait(30)
    others = lf.persist(*arrays(8), memory_limit=LIMIT)
    lf.wait(others)
    is_mapped = lf.delayed(lambda value: type(value.base) is not np.ndarray)
    try:
        assert memory()["spilled_bytes"] >= 6 * BLOCK
        assert not is_mapped(x).compute() and is_mapped(others[0]).compute()
    finally:
        go_on.set()
    assert reader.result()
    del x, reader, others


def test_chunked_arrays_beyond_the_limit_equal_numpys():
    x = la.arange(12 * BLOCK // 8, chunks=BLOCK // 8, dtype="f8")
    (kept,) = lf.persist(x * 3 + 1, memory_limit=LIMIT)
    expected = np.arange(12 * BLOCK // 8.0) * 3 + 1
    with lf.config.set(memory_limit=LIMIT):
        assert kept.max().compute() == expected[-1]
        np.testing.assert_array_equal(kept.compute(), expected)
        np.testing.assert_array_equal((kept[::-1] + kept).compute(), expected[::-1] + expected)
        np.testing.assert_array_equal(kept.rechunk(999_983).compute(), expected)
    del kept


def test_more_mappings_than_descriptors():
    import resource

    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    made = lf.delayed(lambda k: np.full(1 << 14, k))
    kept = lf.persist(*[made(k) for k in range(80)], scheduler="sync", memory_limit=1)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 30, old[1]))
    try:
        total = lf.delayed(lambda *all_: sum(int(x[-1]) for x in all_))(*kept)
        assert total.compute(scheduler="sync") == sum(range(80))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
    del kept, total


def run_program(text, folder, **more):
    path = os.pathsep.join(sys.path)
    program = f"""
import os, resource, sys, numpy as np, lazyflow as lf
lf.config.set(spill_folder={str(folder)!r}, memory_limit={LIMIT})
made = lf.delayed(lambda k: np.full({BLOCK // 8}, float(k)))
def spilled(): return lf.info()["memory"]["spilled_bytes"]
{text}
"""
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path}, **more,
    )


def test_nothing_is_left_after_kill_9(tmp_path):
    program = run_program(
        """
kept = lf.persist(*[made(k) for k in range(12)])
lf.wait(kept)
print(spilled(), flush=True)
sys.stdin.read()
""",
        tmp_path,
        stdin=subprocess.PIPE,
    )
    assert int(program.stdout.readline()) >= 8 * BLOCK
    deleted = [os.readlink(f"/proc/{program.pid}/fd/{n}") for n in
               os.listdir(f"/proc/{program.pid}/fd")]
    assert any(str(tmp_path) in link and "(deleted)" in link for link in deleted)
    assert not os.listdir(tmp_path)
    program.send_signal(signal.SIGKILL)
    program.communicate()
    assert not os.listdir(tmp_path)


def test_a_full_disk_is_an_error_that_names_folder_setting_and_size_and_nothing_is_lost(tmp_path):
    program = run_program(
        f"""
resource.setrlimit(resource.RLIMIT_FSIZE, ({3 * BLOCK + 100}, {3 * BLOCK + 100}))
first = lf.persist(*[made(k) for k in range(3)])
lf.wait(first)
second = lf.persist(*[made(k) for k in range(3, 12)])
try:
    lf.compute(*second)
except lf.StoreFull as error:
    print(error)
print([float(x.mean()) for x in lf.compute(*first)])
del second
with lf.config.set(memory_limit=None):
    print([float(x.mean()) for x in lf.compute(*first, made(9))])
""",
        tmp_path,
    )
    error, first, more = program.communicate()[0].splitlines()
    assert str(tmp_path) in error and "memory_limit=4194304" in error and "spill_folder" in error
    assert "MB of values are kept" in error
    assert first == "[0.0, 1.0, 2.0]"
    assert more == "[0.0, 1.0, 2.0, 9.0]"


def test_the_child_of_a_fork_reads_what_its_parent_has_dropped(tmp_path):
    program = run_program(
        """
kept = lf.persist(*[made(k) for k in range(12)], scheduler="sync")
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.read(read, 1)
    more = lf.persist(*[made(-k) for k in range(12)], scheduler="sync")
    print([float(x[-1]) for x in lf.compute(*kept, *more, scheduler="sync")], flush=True)
    os._exit(0)
del kept
lf.shutdown()  # waits until the ranges were given back
kept = lf.persist(*[made(-99) for k in range(12)], scheduler="sync")
os.write(write, b"a")
os.waitpid(child, 0)
""",
        tmp_path,
    )
    assert program.communicate()[0].strip() == str([float(k) for k in range(12)] + [
        float(-k) for k in range(12)])


def test_a_task_that_does_not_fit_is_refused_before_the_run_with_name_line_and_sizes():
    calls = []
    x = la.arange(16 * BLOCK // 8, chunks=BLOCK // 8, dtype="f8").map_blocks(
        lambda block: calls.append(None) or block, dtype="f8")
    whole = (x * 2).rechunk(-1)
    added = la.cumsum(whole)
    with lf.config.set(memory_limit=LIMIT, scheduler="sync"):
        with pytest.raises(lf.StoreFull, match="Nothing was run") as told:
            added.persist()
        assert not calls
        assert (x.sum() + x[::-1].max()).compute() > 0  # nothing is told of what fits
    message = str(told.value)
    assert f"{__file__}:" in message and "33.6 MB" in message and "4.19 MB" in message
    assert "memory_limit='34 MB'" in message
    (kept,) = lf.persist(added, memory_limit="34 MB")  # as it says
    assert kept.compute()[-1] == added.compute()[-1]
    del kept


def test_what_may_fit_is_not_refused():
    length = 4 * LIMIT // 8
    one = la.from_array(np.zeros(length), chunks=-1)  # the caller's own memory
    repeated = la.broadcast_to(la.arange(3.0), (length, 3))
    views = one.map_blocks(lambda block: np.broadcast_to(1.0, block.shape), dtype="f8")
    with lf.config.set(memory_limit=LIMIT, scheduler="sync"):
        assert one.sum().compute() == 0
        assert (one + 1).compute().shape == (length,)  # it is the caller's, too
        assert (la.ones(length, chunks=-1) * 2).sum().compute() == 2 * length
        assert repeated[::LIMIT // 64].max().compute() == 2
        with pytest.warns(lf.LazyflowWarning, match="can't be spilled"):  # not known beforehand
            assert views.persist()[-1].compute() == 1


@pytest.mark.slow
def test_the_peak_of_four_times_the_limit_is_below_1_2_of_it(tmp_path):
    """Beside what a process holds anyway: libraries, and the compiler of kernels."""
    limit = 240 << 20
    program = run_program(
        f"""
import lazyflow.array as la
from benchmarks.memory import forget_peak, peak_bytes
lf.config.set(memory_limit={limit}, kernels="native")
def total(n_bytes):
    (x,) = lf.persist(la.arange(n_bytes // 8, chunks={1 << 19}, dtype="f8") * 2)
    return float(x.sum().compute()), spilled()
total({limit // 16})
forget_peak("self")
before = peak_bytes()
found = total({4 * limit})
print(*found, peak_bytes() - before)
""",
        tmp_path,
    )
    total, spilled, peak = program.communicate()[0].split()
    count = 4 * limit // 8
    assert float(total) == count * (count - 1.0)
    assert int(peak) <= 1.2 * limit and int(spilled) >= 3.3 * limit


@pytest.mark.parametrize("given", ["4 pounds", 0, -1, 2.5, True])
def test_wrong_limits_are_refused(given):
    with pytest.raises(ValueError, match="memory_limit must be a number of bytes"):
        lf.delayed(abs)(-1).compute(memory_limit=given)


def test_auto_is_a_share_of_what_there_is():
    with lf.config.set(memory_limit="auto"):
        assert 1 << 26 < lf.config.memory_limit() < os.sysconf("SC_PAGE_SIZE") * os.sysconf(
            "SC_PHYS_PAGES")


class Spills(Observer):
    """Notes what observers hear of spilled values."""

    def __init__(self):
        self.spilled, self.restored = [], []

    def task_ran(self, *_):
        """Have tasks timed, without which workers take no notes."""

    def values_spilled(self, run, i, count, size, seconds):
        self.spilled.append((run.task_name(i), count, size, seconds >= 0))

    def values_restored(self, run, i, size):
        self.restored.append((run.task_name(i), size))


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_observers_hear_what_is_spilled_and_restored(scheduler, monkeypatch):
    given = {"scheduler": scheduler, "num_workers": 2, "memory_limit": LIMIT}
    heard = Spills()
    make = lf.delayed(lambda k: np.full(BLOCK // 8, float(k)), name="make")
    monkeypatch.setattr(evaluate, "always_observers", [heard])
    last = lf.delayed(lambda *all_: float(sum(x[-1] for x in all_)), name="last")
    assert last(*[make(k) for k in range(16)]).compute(**given) == 120.0
    sizes = [size for _, count, size, _ in heard.spilled if size == count * BLOCK]
    assert len(sizes) == len(heard.spilled) > 0 and all(timed for *_, timed in heard.spilled)
    restored = sum(size for name, size in heard.restored)
    # On processes what another worker asks for is written to shared memory.
    assert (restored <= sum(sizes)) if scheduler == "processes" else (restored == sum(sizes))


def test_info_tells_who_keeps_what_and_is_readable():
    lf.shutdown()  # workers tell what they have dropped with a later answer
    (x,) = lf.persist(arrays(1)[0], scheduler="sync", memory_limit="1 GB")
    others = lf.persist(*arrays(8), scheduler="processes", num_workers=2, memory_limit=LIMIT)
    lf.wait(others)
    passed_on = x * 2
    seen = lf.delayed(lambda _: lf.info()["memory"]["runs"])(passed_on)
    seen = lf.delayed(lambda _, found: found)(passed_on, seen)
    assert seen.compute(scheduler="sync", memory_limit="1 GB") == {
        "held_bytes": BLOCK, "spilled_bytes": 0}
    info = lf.info()
    assert info["memory"]["persisted"] == {"held_bytes": BLOCK, "spilled_bytes": 0}
    assert info["memory"]["runs"] == {"held_bytes": 0, "spilled_bytes": 0}
    theirs = info["memory"]["workers"]
    assert theirs["held_bytes"] + theirs["spilled_bytes"] == 8 * BLOCK
    assert theirs["spilled_bytes"] >= 4 * BLOCK
    workers = info["processes"]["workers"]
    assert theirs["spilled_bytes"] == sum(worker["spilled_bytes"] for worker in workers)
    lines = str(info).splitlines()
    assert "  persisted:" in lines and "    held: 1.05 MB" in lines
    assert f"    workers {workers[0]['pid']}:" in lines
    assert "<td style='text-align:left'>1.05 MB</td>" in info._repr_html_()
    del x, others, seen, passed_on


def test_a_profile_tells_what_was_spilled():
    with lf.profile(sample=None) as profiled:
        last = lf.delayed(lambda *all_: float(sum(x[-1, -1] for x in all_)))
        last(*arrays(16)).compute(scheduler="sync", memory_limit=LIMIT)
    (run,) = profiled.runs
    assert run.spilled.values * BLOCK == run.spilled.size == run.spilled.read > 0
    assert "MB were written to a file below memory_limit" in str(profiled.summary())
