"""Shared memory: places are never given out twice, nothing is copied, everything comes back."""

import gc
import json
import mmap
import os
import resource
import subprocess
import sys
import threading
import types
import weakref
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lazyflow.errors import StoreFull
from lazyflow.store.memory import available as memory
from lazyflow.store.memory.ranges import Ranges, whole_pages
from lazyflow.store.memory.shared import Arenas, Mappings

PAGE = mmap.PAGESIZE
MB = 1 << 20


@pytest.fixture
def make():
    """Return a function that makes `Arenas`, which are closed at the end."""
    made = []

    def arenas(*args, **options):
        made.append(Arenas(*args, **{"available": lambda: None, **options}))
        return made[-1]

    yield arenas
    for each in made:
        each.close()


def mapped(arenas, private=False):
    mappings = Mappings(private)
    for arena, fd in arenas.take_new():
        mappings.add(arena, fd)
    return mappings


def descriptors():
    """Return those of shared memory in this process, each with what it is of."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            if "memfd:" in os.readlink(f"/proc/self/fd/{fd}"):
                found.add((fd, os.stat(f"/proc/self/fd/{fd}").st_ino))
        except OSError:  # closed meanwhile, as that of the folder
            continue
    return found


# -- the allocator against a model ----------------------------------------------------------


class FreeRanges(RuleBasedStateMachine):
    """`Ranges` against a set of (arena, place)."""

    def __init__(self):
        super().__init__()
        self.free = Ranges()
        self.model = {(arena, at) for arena in (0, 1) for at in range(40)}
        self.taken = []
        for arena in (0, 1):
            self.free.add((arena, 0, 40))

    def took(self, found):
        arena, start, length = found
        places = {(arena, at) for at in range(start, start + length)}
        assert length > 0 and places <= self.model
        self.model -= places
        self.taken.append(found)

    def lengths(self):
        """Lengths of the longest possible free ranges."""
        found, run = [], 0
        for arena in (0, 1):
            for at in range(41):
                if (arena, at) in self.model:
                    run += 1
                elif run:
                    found.append(run)
                    run = 0
        return sorted(found)

    def around(self, place, other):
        """Length of the free range around a place, and whether another place is in it."""
        if place[:2] not in self.model:
            return 0, False
        arena, start = place[:2]
        end = start
        while (arena, start - 1) in self.model:
            start -= 1
        while (arena, end) in self.model:
            end += 1
        return end - start, (arena, start) <= other < (arena, end)

    @rule(length=st.integers(1, 45))
    def take(self, length):
        fitting = [each for each in self.lengths() if each >= length]
        found = self.free.take(length)
        assert (found is None) == (not fitting)
        if found is not None:
            assert found[2] == length
            before = self.lengths()
            self.took(found)
            expected = before.copy()
            expected.remove(fitting[0])  # the smallest that has room
            if fitting[0] > length:
                expected.append(fitting[0] - length)
            assert self.lengths() == sorted(expected)

    @rule(most=st.integers(1, 45), place=st.tuples(st.integers(0, 1), st.integers(0, 39)))
    def take_any(self, most, place):
        lengths = self.lengths()
        found = self.free.take_any(most, place)
        assert (found is None) == (not lengths)
        if found is not None:
            length, is_spared = self.around(found, place)
            assert found[2] == min(most, length)
            # Of the largest range, or of the next one when the largest has the place.
            assert not is_spared or len(lengths) == 1
            assert length == lengths[-1] or (length == lengths[-2] and self.around(place, place)[1])
            self.took(found)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def add(self, data):
        found = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        self.free.add(found)
        arena, start, length = found
        self.model |= {(arena, at) for at in range(start, start + length)}

    @invariant()
    def agree(self):
        assert self.free.total == len(self.model)
        assert len(self.free) == len(self.lengths())


TestFreeRanges = FreeRanges.TestCase


class SharedMemory(RuleBasedStateMachine):
    """Writes, views, edits and frees in any order: what a live array shows never changes."""

    KEEP = 6 * PAGE

    def __init__(self):
        super().__init__()
        self.arenas = Arenas(5, 3, available=lambda: None, keep=self.KEEP)
        self.readers = [Mappings(private=False), Mappings(private=True)]
        self.counts = {}  # of each segment: users that were told of it
        self.content = {}
        self.alive = []  # (array made from a view, what it has to show)
        self.written = 0

    @rule(size=st.one_of(st.integers(0, 3), st.integers(0, 5 * PAGE)))
    def write(self, size):
        self.written += 1
        data = bytes([self.written % 251]) * size
        segment = self.arenas.write(data)
        for arena, fd in self.arenas.take_new():
            self.readers[0].add(arena, os.dup(fd))
            self.readers[1].add(arena, fd)
        assert segment not in self.counts and segment[2] == size
        self.counts[segment] = 0
        self.content[segment] = data

    @precondition(lambda self: self.counts)
    @rule(data=st.data(), reader=st.integers(0, 1), edit=st.booleans())
    def view(self, data, reader, edit):
        segment = data.draw(st.sampled_from(sorted(self.counts)))
        whole = self.readers[reader].view(segment)
        self.counts[segment] += 1
        assert whole.tobytes() == self.content[segment]
        part = whole[1:].reshape(-1, 1)[::2] if len(whole) > 3 else whole
        assert part.flags.writeable == bool(reader)
        if edit and reader:
            part[...] = 255
        self.alive.append((part, part.copy()))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def let_go(self, data):
        self.alive.pop(data.draw(st.integers(0, len(self.alive) - 1)))

    @rule()
    def settle(self):
        for reader in self.readers:
            told = reader.released
            found = reader.take_released()
            assert len(found) == told
            for segment in found:
                self.counts[segment] -= 1
                assert self.counts[segment] >= 0
        for segment in [each for each, count in self.counts.items() if count == 0]:
            self.arenas.free(segment)
            del self.counts[segment], self.content[segment]

    @rule()
    def trim(self):
        self.arenas.trim()
        assert self.arenas.recycled == 0

    @invariant()
    def nothing_changes_under_an_array(self):
        for array, expected in self.alive:
            assert array.tobytes() == expected.tobytes()

    @invariant()
    def counted(self):
        assert self.arenas.in_use == sum(whole_pages(size) for _, _, size in self.counts)
        assert self.arenas.recycled <= self.KEEP
        places = sorted((a, offset, whole_pages(size)) for a, offset, size in self.counts)
        for (a, start, length), (b, below, _) in pairwise(places):
            assert a != b or start + length <= below
        for arena, file in self.readers[0]._files.items():
            assert arena % 3 == 2 and os.fstat(file.fileno()).st_blocks * 512 <= (
                self.arenas.in_use + self.arenas.recycled
            )

    def teardown(self):
        self.alive.clear()
        self.settle()
        assert self.arenas.in_use == 0 and [each.in_use for each in self.readers] == [0, 0]
        self.arenas.close()
        for reader in self.readers:
            reader.close()


TestSharedMemory = SharedMemory.TestCase
TestSharedMemory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# -- writing and looking --------------------------------------------------------------------


@pytest.mark.parametrize(
    "buffer",
    [
        b"",
        b"abc",
        bytearray(b"abc"),
        memoryview(b"abcdef")[2:4],
        np.arange(7.0),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.zeros((0, 3)),
    ],
)
def test_what_is_written_is_seen(make, buffer):
    arenas = make(0, 1)
    segment = arenas.write(buffer)
    view = mapped(arenas).view(segment)
    expected = buffer.tobytes("A") if hasattr(buffer, "tobytes") else bytes(buffer)
    assert view.dtype == np.uint8 and view.shape == (len(expected),)
    assert view.tobytes() == expected and segment[1] % PAGE == 0


def test_a_buffer_with_gaps_is_refused_and_holds_nothing(make):
    arenas = make(0, 1)
    with pytest.raises(BufferError):
        arenas.write(np.zeros((10, 10))[:, ::2])
    with pytest.raises(TypeError):
        arenas.write("text")
    assert arenas.in_use == 0


def test_numbers_of_arenas_are_this_writers_own(make):
    arenas = make(3, 10)
    for _ in range(3):
        arenas.write(bytes(PAGE))
    arenas._cold = Ranges()  # all of it is taken
    arenas.write(bytes(PAGE))
    arenas._cold = Ranges()
    arenas.write(bytes(PAGE))
    found = arenas.take_new()
    assert [arena for arena, _ in found] == [3, 13, 23]
    assert arenas.take_new() == []
    for _, fd in found:
        os.close(fd)


def test_one_arena_holds_many_and_a_large_one_gets_its_own(make):
    before = descriptors()
    arenas = make(0, 1)
    for _ in range(2000):
        arenas.write(bytes(PAGE))
    mappings = mapped(arenas)
    views = [mappings.view((0, PAGE * i, PAGE)) for i in range(2000)]
    assert len(descriptors() - before) <= 4 and len(views) == 2000
    arenas._new_place(300 * MB)
    ((arena, fd),) = arenas.take_new()
    assert (arena, os.fstat(fd).st_size) == (1, 512 * MB)
    os.close(fd)


def test_descriptors_come_back():
    before = descriptors()
    for private in (False, True):
        arenas = Arenas(0, 1)
        segment = arenas.write(b"abc")
        mappings = mapped(arenas, private)
        view = mappings.view(segment)
        arenas.write(b"x")
        arenas.close()
        mappings.close()
        assert bytes(view) == b"abc"  # stays while somebody looks
        del view
    gc.collect()
    assert descriptors() <= before


def test_a_reader_can_not_write(make):
    arenas = make(0, 1)
    segment = arenas.write(bytes(100))
    ((_, fd),) = arenas.take_new()
    with pytest.raises(PermissionError):
        mmap.mmap(fd, PAGE)
    with pytest.raises(OSError):
        os.pwrite(fd, b"x", 0)
    with pytest.raises(PermissionError):  # nor make it shorter, which would kill other readers
        os.truncate(f"/proc/self/fd/{fd}", 0)
    mappings = Mappings(private=False)
    mappings.add(0, fd)
    view = mappings.view(segment)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True


def test_private_edits_stay_private_and_the_next_view_does_not_see_them(make):
    arenas = make(0, 1)
    segment = arenas.write(bytes(3 * PAGE))
    mappings = mapped(arenas, private=True)
    view = mappings.view(segment)
    view[:] = 7
    other = mappings.view(segment)  # while the first lives
    assert not other.any()
    other[:] = 9
    assert (view == 7).all()
    assert mappings.take_released() == [segment]  # the copy needs no memory of the writer's
    del view, other
    view = mappings.view(segment)  # before anybody asked for what was released
    assert not view.any()
    assert mappings.take_released() == [segment]  # no copy this time
    del view
    assert mappings.take_released() == [segment] and mappings.in_use == 0


def test_a_recycled_range_does_not_show_old_private_pages(make):
    arenas = make(0, 1)
    first = arenas.write(b"a" * PAGE)
    mappings = mapped(arenas, private=True)
    mappings.view(first)[:] = 7
    (released,) = mappings.take_released()
    arenas.free(released)
    second = arenas.write(b"b" * 100)
    assert second[:2] == first[:2]
    assert bytes(mappings.view(second)) == b"b" * 100


@pytest.mark.parametrize("can_map", [True, False])
@pytest.mark.parametrize("size", [(1 << 20) - 1, (5 << 20) + 3, (33 << 20) + 1])
def test_recycled_memory_is_written_whole(make, monkeypatch, size, can_map):
    """Pages that are there are written through a mapping; large values by two threads."""
    if not can_map:
        monkeypatch.setattr("lazyflow.store.memory.arena._POPULATE_WRITE", 999)
    arenas = make(0, 1)
    first = arenas.write(np.zeros(size, np.uint8))
    mappings = mapped(arenas)
    for seed in (1, 2):
        arenas.free(first)
        values = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
        again = arenas.write(values)
        assert again == first
        assert np.array_equal(np.frombuffer(mappings.view(again), np.uint8), values)
        mappings.take_released()


def test_recycled_memory_is_written_where_no_thread_can_be_had(make, monkeypatch):
    def refused(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    arenas = make(0, 1)
    arenas.free(arenas.write(np.zeros(33 << 20, np.uint8)))
    values = np.random.default_rng(1).integers(0, 256, 33 << 20, np.uint8)
    again = arenas.write(values)
    assert np.array_equal(np.frombuffer(mapped(arenas).view(again), np.uint8), values)


def test_recycled_memory_is_written_while_another_thread_imports_numpy(make, monkeypatch):
    arenas = make(0, 1)
    arenas.free(arenas.write(bytes(33 << 20)))
    values = np.random.default_rng(1).integers(0, 256, 33 << 20, np.uint8)
    data = values.tobytes()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "numpy", types.ModuleType("numpy"))
        again = arenas.write(data)
    assert np.array_equal(np.frombuffer(mapped(arenas).view(again), np.uint8), values)


@pytest.mark.parametrize("private", [False, True])
def test_what_is_made_from_a_view_keeps_the_segment(make, private):
    arenas = make(0, 1)
    segment = arenas.write(np.arange(1000.0))
    mappings = mapped(arenas, private)
    view = mappings.view(segment)
    made = [
        np.frombuffer(view)[10:20],
        np.ndarray((10, 10), "f8", view),
        memoryview(view)[8:16].cast("d"),
        view[::2].view("u2")[:1] if view[::2].flags.c_contiguous else view[::2],
        np.asarray(memoryview(view)[3:5]),
    ]
    gone = weakref.ref(view)
    del view
    while made:
        assert gone() is not None and mappings.released == 0
        assert mappings.take_released() == [] and mappings.in_use == 8000
        made.pop()
    assert mappings.released == 1 and mappings.in_use == 8000
    assert mappings.take_released() == [segment] and mappings.in_use == 0


def test_each_view_is_reported(make):
    arenas = make(0, 1)
    segment = arenas.write(b"abc")
    mappings = mapped(arenas)
    views = [mappings.view(segment) for _ in range(3)]
    assert mappings.in_use == 9
    views.pop()
    assert mappings.take_released() == [segment] and mappings.in_use == 6
    views.clear()
    assert mappings.take_released() == [segment, segment]


def test_an_arena_told_twice_and_an_unknown_one(make):
    arenas = make(0, 1)
    segment = arenas.write(b"abc")
    ((arena, fd),) = arenas.take_new()
    mappings = Mappings(private=False)
    inode = os.fstat(fd).st_ino

    def of_the_arena():
        return [each for each in descriptors() if each[-1] == inode]

    before = len(of_the_arena())
    mappings.add(arena, os.dup(fd))
    mappings.add(arena, fd)
    assert len(of_the_arena()) == before
    assert arena in mappings and 7 not in mappings
    with pytest.raises(KeyError, match=r"arena 7 is not mapped here; known: \[0\]"):
        mappings.view((7, 0, 3))
    view = mappings.view(segment)
    mappings.discard(arena)
    assert arena not in mappings and bytes(view) == b"abc"
    del view
    assert mappings.take_released() == [segment]


def test_freed_twice(make):
    arenas = make(0, 1)
    segment = arenas.write(b"abc")
    with pytest.raises(ValueError, match="not in use: freed twice, or never written"):
        arenas.free((0, 0, 4))
    arenas.free(segment)
    for wrong in (segment, (9, 0, 3), (0, PAGE, 3)):
        with pytest.raises(ValueError, match="not in use: freed twice, or never written"):
            arenas.free(wrong)
    assert (arenas.in_use, arenas.recycled) == (0, PAGE)


def test_without_memfd(make, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    arenas = make(0, 1)
    segment = arenas.write(b"abc" * PAGE)
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("lazyflow")]
    assert bytes(mapped(arenas).view(segment)) == b"abc" * PAGE
    arenas.free(segment)
    arenas.trim()
    assert arenas.recycled == 0


def test_closed(make):
    arenas = make(0, 1)
    segment = arenas.write(b"abc")
    arenas.close()
    arenas.close()
    arenas.free(segment)  # what readers report late
    arenas.trim()
    with pytest.raises(ValueError, match="the store is closed"):
        arenas.write(b"abc")
    assert arenas.take_new() == []


# -- other processes ------------------------------------------------------------------------

CHILD = """
import json, sys
import numpy as np
from lazyflow.store.memory.shared import Mappings
private, fds, segments = json.loads(sys.argv[1])
mappings = Mappings(private)
for arena, fd in fds:
    mappings.add(arena, fd)
for segment in segments:
    view = mappings.view(tuple(segment))
    if private:
        view[:] = 9
    part = np.frombuffer(view, "f8")[1:]
    print(json.dumps([float(part.sum()), mappings.released]))
    del view
    print(json.dumps([float(part.sum()), mappings.released]))
    del part
    print(json.dumps(mappings.take_released()), flush=True)
    sys.stdin.readline()
print(json.dumps([float(np.frombuffer(mappings.view(tuple(s)), "f8").sum()) for s in segments]))
"""


def child(private, arenas, segments):
    """Start a process that looks at segments, one at each line it is sent."""
    found = arenas.take_new()
    started = subprocess.Popen(
        [sys.executable, "-c", CHILD, json.dumps([private, found, segments])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[fd for _, fd in found],
    )
    for _, fd in found:
        os.close(fd)
    return started


@pytest.mark.parametrize("private", [False, True])
def test_another_process_sees_it_without_a_copy(make, private):
    arenas = make(4, 9)
    array = np.arange(100_000.0)
    segments = [arenas.write(array), arenas.write(array * 2)]
    with child(private, arenas, segments) as process:
        for times, segment in zip((1, 2), segments, strict=True):
            nines = np.full(800_000, 9, np.uint8).view("f8")
            expected = (nines if private else array * times)[1:].sum()
            for _ in range(2):
                assert json.loads(process.stdout.readline()) == [expected, 0]
            assert json.loads(process.stdout.readline()) == [list(segment)]
            if times == 2:  # what was released is written again; the other one is not touched
                arenas.free(segments[1])
                assert arenas.write(array * 3) == segment
            process.stdin.write("\n")
            process.stdin.flush()
        assert json.loads(process.stdout.readline()) == [array.sum(), 3 * array.sum()]
        process.stdin.close()
    assert process.returncode == 0


def test_memory_outlives_its_writer_and_ends_with_the_last_reader():
    """Nothing is left of a writer that was killed, and nothing breaks for who reads."""
    code = """
import os, signal, socket, sys
from lazyflow.store.memory.shared import Arenas
arenas = Arenas(0, 1)
segment = arenas.write(b"x" * 5_000_000)
((_, fd),) = arenas.take_new()
there = socket.socket(fileno=int(sys.argv[1]))
socket.send_fds(there, [b"%d %d %d" % segment], [fd])
os.kill(os.getpid(), signal.SIGKILL)
"""
    import socket

    here, there = socket.socketpair()
    with here, there:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(there.fileno())], pass_fds=[there.fileno()]
        )
        message, fds, _, _ = socket.recv_fds(here, 100, 1)
        assert process.wait(20) == -9
    mappings = Mappings(private=False)
    mappings.add(0, fds[0])
    view = mappings.view(tuple(map(int, message.split())))
    assert view.tobytes() == b"x" * 5_000_000
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("lazyflow")]
    mappings.close()


# -- memory comes back ----------------------------------------------------------------------


def resident(fd):
    return os.fstat(fd).st_blocks * 512


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
        patch.setattr("lazyflow.store.memory.arena._memory_file", refuse)
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
def test_what_a_control_group_has_left(tmp_path, monkeypatch, files, expected):
    for name, text in files.items():
        (tmp_path / f"memory.{name}").write_text(text)
    monkeypatch.setattr(memory, "_meminfo", dict)
    monkeypatch.setattr(memory, "_groups", [(str(tmp_path), "memory.max", "memory.current")])
    assert memory.available_memory() == expected


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
