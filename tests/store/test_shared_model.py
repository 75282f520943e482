"""Free ranges and shared memory against simple models, by random steps."""

import os
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from store_tools import PAGE
from weaker_systems import RETURNS_PAGES

from lazyflow.store.memory.shared import Arenas, Mappings, Ranges, whole_pages

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
            for segment in reader.take_released():
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
        assert all(arena % 3 == 2 for arena in self.readers[0]._files)

    @precondition(lambda self: RETURNS_PAGES)
    @invariant()
    def no_other_pages(self):
        for file in self.readers[0]._files.values():
            assert os.fstat(file.fileno()).st_blocks * 512 <= (
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
