"""Shared memory: places are never given out twice, nothing is copied, everything comes back."""

import gc
import json
import mmap
import os
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest
from store_tools import MB, PAGE, mapped
from weaker_systems import seals_memory

from lazyflow.store.memory.shared import Arenas, Mappings, Ranges


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


@seals_memory
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
        assert gone() is not None
        assert mappings.take_released() == [] and mappings.in_use == 8000
        made.pop()
    assert mappings.in_use == 8000
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
    assert mappings.knows(arena) and not mappings.knows(7)
    with pytest.raises(KeyError, match=r"arena 7 is not mapped here; known: \[0\]"):
        mappings.view((7, 0, 3))
    view = mappings.view(segment)
    mappings.discard(arena)
    assert not mappings.knows(arena) and bytes(view) == b"abc"
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
    monkeypatch.delattr(os, "memfd_create", raising=False)
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
    print(json.dumps([float(part.sum()), mappings.in_use > 0]))
    del view
    print(json.dumps([float(part.sum()), mappings.in_use > 0]))
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
                assert json.loads(process.stdout.readline()) == [expected, True]
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
