"""Memory comes back when it is not used any more, and growth stops before the machine's ends."""

import os
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_tools import MB, PAGE, mapped
from weaker_systems import RETURNS_PAGES, returns_pages

from lazyflow import system
from lazyflow.errors import StoreFull
from lazyflow.store.memory import available as memory
from lazyflow.store.memory.shared import Arenas, Ranges

# -- memory comes back ----------------------------------------------------------------------


def resident(fd):
    return os.fstat(fd).st_blocks * 512


@returns_pages
def test_pages_beyond_what_is_kept_are_returned_at_once(make):
    arenas = make(0, 1, keep=2 * MB)
    ((_, fd),) = (arenas.write(b""), arenas.take_new())[1]
    segments = [arenas.write(bytes(MB)) for _ in range(5)]
    assert resident(fd) == 5 * MB
    for segment in segments:
        arenas.free(segment)
    assert (arenas.in_use, arenas.recycled) == (PAGE, 2 * MB) and resident(fd) == 2 * MB
    arenas.write(bytes(MB))
    assert arenas.recycled == MB and resident(fd) == 2 * MB  # no new pages
    arenas.trim()
    assert arenas.recycled == 0 and resident(fd) == MB
    os.close(fd)


@returns_pages
def test_less_is_kept_below_a_memory_limit(make):
    arenas = make(0, 1, keep=4 * MB)
    for limit, kept in ((16 * MB, MB), (1024 * MB, 4 * MB), (None, 4 * MB)):
        arenas.recycle_within(limit)
        for segment in [arenas.write(bytes(MB)) for _ in range(5)]:
            arenas.free(segment)
        assert arenas.recycled == kept


@pytest.mark.parametrize("keep", [2 * MB + 1, 2 * MB - 1, PAGE // 2])
def test_what_is_kept_need_not_be_whole_pages(make, keep):
    arenas = make(0, 1, keep=keep)
    for segment in [arenas.write(bytes(MB)) for _ in range(4)]:
        arenas.free(segment)
    assert keep - PAGE < arenas.recycled <= keep and not arenas.recycled % PAGE
    arenas.write(bytes(MB))


def test_each_reader_is_told_of_each_arena_once(make):
    arenas, one, other = make(0, 1), set(), set()
    arenas.write(bytes(PAGE))
    ((_, first),) = arenas.take_new(one)
    assert arenas.take_new(one) == []
    ((_, second),) = arenas.take_new(other)
    assert first != second and os.fstat(first).st_ino == os.fstat(second).st_ino
    assert arenas.take_new(other) == []
    os.close(first)
    os.close(second)


def test_the_range_just_freed_is_kept_rather_than_others(make):
    arenas = make(0, 1, keep=2 * MB)
    segments = [arenas.write(bytes(size * MB)) for size in (1, 2, 1, 2)]
    arenas.free(segments[0])
    arenas.free(segments[3])
    assert arenas.recycled == 2 * MB
    assert arenas.write(bytes(2 * MB)) == segments[3]
    large = arenas.write(bytes(5 * MB))
    arenas.free(large)
    assert arenas.recycled == 2 * MB
    assert arenas.write(bytes(2 * MB))[1] >= large[1]


def test_free_neighbours_become_one(make):
    arenas = make(0, 1, keep=100 * MB)
    segments = [arenas.write(bytes(MB)) for _ in range(6)]
    for i in (0, 2, 4, 5, 3, 1):
        arenas.free(segments[i])
    assert arenas.recycled == 6 * MB
    assert arenas.write(bytes(6 * MB)) == (0, 0, 6 * MB)
    assert arenas.recycled == 0


def test_several_threads_write_and_free(make):
    arenas = make(0, 1, keep=20 * PAGE)
    arenas.write(b"")
    mappings = mapped(arenas)
    wrong = []

    def work(number):
        random = np.random.default_rng(number)
        mine = []
        for i in range(300):
            size = int(random.integers(1, 6 * PAGE))
            mine.append((arenas.write(bytes([number]) * size), i))
            if random.random() < 0.55:
                segment, _ = mine.pop(int(random.integers(len(mine))))
                if set(mappings.view(segment).tobytes()) != {number}:
                    wrong.append(segment)
                arenas.free(segment)
        for segment, _ in mine:
            if set(mappings.view(segment).tobytes()) != {number}:
                wrong.append(segment)
            arenas.free(segment)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong and arenas.in_use == PAGE
    mappings.take_released()
    assert mappings.in_use == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 25), st.lists(st.integers(1, 4), min_size=6, max_size=6))
def test_ctrl_c_in_the_middle_of_a_change_gives_nothing_out_twice(moment, sizes):
    """Whichever step of the books an interrupt falls into."""
    arenas = Arenas(0, 1, available=lambda: None, keep=3 * PAGE)
    count = 0

    def interrupted(method):
        def step(*args):
            nonlocal count
            count += 1
            if count == moment:
                raise KeyboardInterrupt
            return method(*args)

        return step

    live = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_insert", "_remove"):
            patch.setattr(Ranges, name, interrupted(getattr(Ranges, name)))
        for i, size in enumerate(sizes):
            try:
                live[arenas.write(bytes([i + 1]) * size * PAGE)] = i + 1
                if i % 2 and live:
                    segment = next(iter(live))
                    del live[segment]
                    arenas.free(segment)
            except KeyboardInterrupt:
                pass
    for _ in range(12):
        segment = arenas.write(b"z" * 2 * PAGE)
        assert segment not in live
        live[segment] = ord("z")
    mappings = mapped(arenas)
    if RETURNS_PAGES:
        assert resident(mappings._files[0].fileno()) <= arenas.in_use + arenas.recycled
    for segment, number in live.items():
        assert set(mappings.view(segment).tobytes()) == {number}
    mappings.close()
    arenas.close()


# -- memory that is not there ---------------------------------------------------------------


def test_the_limit(make):
    arenas = make(0, 1, limit=10 * MB)
    held = arenas.write(bytes(6 * MB))
    with pytest.raises(StoreFull) as caught:
        arenas.write(bytes(5 * MB))
    assert str(caught.value) == (
        "a value that passes between processes needs 5.24 MB of shared memory, but this process "
        "holds 6.29 MB of it already and may hold 10.5 MB (store_limit). Usually too many large "
        "results are alive at once: drop the ones that are not needed (del), compute fewer at a "
        "time, make the chunks smaller, raise a limit by lazyflow.config.set(store_limit=...), or "
        "use scheduler='threads', which copies nothing."
    )
    assert isinstance(caught.value, MemoryError) and arenas.in_use == 6 * MB
    arenas.free(held)
    arenas.write(bytes(9 * MB))  # free pages that do not fit make room
    assert arenas.in_use == 9 * MB and arenas.recycled <= MB


def test_the_machine_has_too_little(make):
    left = 100 * MB
    reserve = memory._reserve()
    arenas = make(0, 1, available=lambda: reserve + left)
    arenas.write(bytes(MB))
    with pytest.raises(StoreFull, match=r"the machine has .* left, of which .* are kept free"):
        arenas.write(bytes(101 * MB))
    assert arenas.in_use == MB


@returns_pages
def test_others_take_the_memory_while_it_is_filled(make, monkeypatch):
    monkeypatch.setattr("lazyflow.store.memory.shared.STEP", MB)
    monkeypatch.setattr(memory, "_FRESH", -1)
    looks = []

    def available():
        looks.append(1)
        return memory._reserve() + (100 * MB if len(looks) < 4 else 0)

    arenas = make(0, 1, available=available)
    with pytest.raises(StoreFull, match="needs 10.5 MB"):
        arenas.write(bytes(10 * MB))
    ((_, fd),) = arenas.take_new()
    assert (arenas.in_use, arenas.recycled, resident(fd)) == (0, 0, 0)
    os.close(fd)


def test_recycled_memory_is_used_when_the_machine_has_none_left(make):
    arenas = make(0, 1, available=lambda: 0 if full else None)
    full = False
    segment = arenas.write(bytes(MB))
    arenas.free(segment)
    full = True
    assert arenas.write(bytes(MB)) == segment
    with pytest.raises(StoreFull):
        arenas.write(b"x")


def test_the_system_refuses(make, monkeypatch):
    arenas = make(0, 1)
    arenas.write(b"x")

    def refuse(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        with pytest.raises(StoreFull, match="the system refuses more: .*No space left on device"):
            arenas.write(bytes(MB))
        patch.setattr("lazyflow.store.memory.arena.memory_file", refuse)
        with pytest.raises(StoreFull, match="the system refuses a new arena: .*No space left"):
            arenas._new_place(300 * MB)
    assert arenas.in_use == PAGE
    arenas.write(bytes(MB))


def test_a_limit_on_the_size_of_files_is_no_crash():
    code = """
import resource
from lazyflow import StoreFull
from lazyflow.store.memory.shared import Arenas
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    Arenas(0, 1).write(bytes(100))
except StoreFull as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "the system refuses a new arena" in out.stdout and out.stderr == ""


def test_interrupted_while_it_is_filled(make, monkeypatch):
    arenas = make(0, 1)

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", interrupt)
        with pytest.raises(KeyboardInterrupt):
            arenas.write(bytes(MB))
    assert arenas.in_use == 0


def test_what_the_machine_has():
    found = memory.available_memory()
    with open("/proc/meminfo") as file:
        total = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemTotal"))
    assert 0 < found <= total


@pytest.mark.parametrize(
    "files, expected",
    [
        ({"max": "max", "current": "5"}, None),
        ({"max": "1000", "current": "300"}, 700),
        ({"max": "1000", "current": "1300"}, 0),
        ({"max": "1000", "current": "300", "stat": "anon 7\ninactive_file 100\n"}, 800),
        ({"current": "300"}, None),
        ({"max": "1000", "current": "300", "stat": "nonsense\n"}, 700),
    ],
)
def test_what_control_groups_have_left(tmp_path, monkeypatch, files, expected):
    for name, text in files.items():
        (tmp_path / f"memory.{name}").write_text(text)
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    outer = tmp_path / "without a limit"
    monkeypatch.setattr(system, "_group_folders", lambda controller: [str(tmp_path), str(outer)])
    system._memory_groups.cache_clear()
    try:
        assert memory.available_memory() == expected
    finally:
        system._memory_groups.cache_clear()


@pytest.mark.parametrize(
    "quotas, cores", [(["max 100000"], 64), (["250000 100000", "max 100000"], 2), (["1 10"], 1),
                      (["900000 100000", "300000 100000"], 3), ([], 64)],
)
def test_the_least_quota_of_control_groups_counts(tmp_path, monkeypatch, quotas, cores):
    folders = [tmp_path / str(level) for level in range(len(quotas) + 1)]
    for folder, text in zip(folders[:-1], quotas, strict=True):
        folder.mkdir()
        (folder / "cpu.max").write_text(text + "\n")
    monkeypatch.setattr(system, "_group_folders", lambda controller: folders)
    monkeypatch.setattr("os.process_cpu_count", lambda: 64, raising=False)
    assert system.core_count() == cores


def test_a_look_at_the_machine_counts_for_many_small_writes(make):
    looks = []

    def available():
        looks.append(1)
        return 1 << 40

    arenas = make(0, 1, available=available)
    for _ in range(200):
        arenas.write(bytes(100))
    assert len(looks) < 100


def test_address_space_is_not_memory(make):
    """An arena is 256 MiB of addresses; only what is written counts."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    arenas = make(0, 1)
    arenas.write(b"x")
    ((_, fd),) = arenas.take_new()
    assert (os.fstat(fd).st_size, resident(fd)) == (256 * MB, PAGE)
    os.close(fd)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
