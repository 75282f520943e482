"""Contract: no task can change a value that another task sees, and results are the caller's.

Arrays in containers are protected, too, and the arguments of a call are snapshots.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import lazyflow
from lazyflow import InputMutated, compute, config, delayed
from lazyflow.testing.base import Part
from lazyflow.testing.signals import Barrier, Counted, Gate, Level, Tally, double_in_place

numpy = pytest.importorskip("numpy")

#: Of arrays of floats: one that travels in a message, and one that is worth sharing.
SIZES = [3, 20_000]


class ValueContract(Part):
    """Values."""

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("place", ["result", "literal", "in a list", "held"])
    def test_an_array_arrives_read_only(self, place: str, size: int) -> None:
        x: Any = numpy.ones(size)
        if place == "result":
            x = delayed(numpy.ones)(size)
        elif place == "held":
            x = self.persist(delayed(numpy.ones)(size))
        f = delayed(lambda x: double_in_place(x[0] if isinstance(x, list) else x))
        with pytest.raises(ValueError, match="read-only") as caught:
            self.compute(f([x] if place == "in a list" else x))
        assert "in lazyflow task" in caught.value.__notes__[0]

    def test_every_reader_sees_the_pristine_array(self) -> None:
        def edit_copy(x: Any) -> float:
            x = x.copy()
            x += 1
            return float(x.sum())

        x = delayed(numpy.zeros)(5)
        assert self.compute([delayed(edit_copy)(x) for _ in range(4)]) == [5.0] * 4

    @pytest.mark.parametrize("size", SIZES)
    def test_two_tasks_read_one_array_at_the_same_time(self, size: int) -> None:
        self.needs(self.parallel, "one task at a time")
        made, meeting = Tally(), Barrier(2)

        def make() -> Any:
            made.add("x")
            return numpy.arange(size)

        def read(x: Any) -> tuple[int, bool]:
            meeting.wait()
            return int(x.sum()), x.flags.writeable

        x = delayed(make)()
        found = self.compute(delayed(read)(x), delayed(read)(x), num_workers=2)
        assert found == ((size * (size - 1) // 2, False),) * 2
        assert made.items() == ["x"]

    def test_a_value_of_a_class_made_in_a_function_keeps_its_type(self) -> None:
        class Local:
            def __init__(self, inside: Any) -> None:
                self.inside = inside

        x = delayed(Local)(5)
        got, is_one = self.compute(x, delayed(lambda value: type(value) is Local)(x))
        assert type(got) is Local and got.inside == 5
        assert is_one is True
        assert type(self.compute(delayed(lambda value: value)(Local(6)))) is Local

    @pytest.mark.parametrize("made", [list, dict, set])
    def test_edits_of_a_container_are_private(self, made: Any) -> None:
        x = delayed(made)()

        def edit(x: Any) -> int:
            if isinstance(x, list):
                x.append(1)
            elif isinstance(x, dict):
                x[1] = 1
            else:
                x.add(1)
            return len(x)

        lengths = self.compute([delayed(edit)(x) for _ in range(4)] + [delayed(len)(x)])
        assert lengths == [1, 1, 1, 1, 0]
        assert self.compute(x) == made()

    def test_edits_of_a_literal_list_are_private(self) -> None:
        x = delayed(lambda xs: xs.append(1) or len(xs))([])
        assert (self.compute(x), self.compute(x)) == (1, 1)

    def test_edits_of_a_frame_are_private(self) -> None:
        pandas = pytest.importorskip("pandas")
        x = delayed(lambda: pandas.DataFrame({"a": [1, 2]}))()

        def edit(frame: Any) -> int:
            frame.loc[0, "a"] = 10
            return int(frame["a"].sum())

        assert self.compute(delayed(edit)(x), delayed(edit)(x)) == (12, 12)
        assert int(self.compute(x)["a"].sum()) == 3

    @pytest.mark.parametrize("size", SIZES)
    def test_mutates_gets_a_private_writable_value(self, size: int) -> None:
        x = delayed(numpy.ones)(size)
        double = delayed(double_in_place, mutates=True)
        a, b, c = self.compute(double(x), double(x), x)
        assert a.tolist() == b.tolist() == [2.0] * size
        assert c.tolist() == [1.0] * size

    @pytest.mark.parametrize("size", SIZES)
    def test_mutates_leaves_literals_and_held_values_alone(self, size: int) -> None:
        mine = numpy.ones(size)
        double = delayed(double_in_place, mutates=True)
        held = self.persist(delayed(numpy.ones)(size))
        assert self.compute(double(mine), double([mine][0]))[0].tolist() == [2.0] * size
        assert self.compute(double(held)).tolist() == [2.0] * size
        assert mine.tolist() == [1.0] * size
        assert self.compute(held).tolist() == [1.0] * size

    def test_a_result_that_is_an_iterator_can_be_read_by_several(self) -> None:
        x = delayed(lambda n: (i * i for i in range(n)))(4)
        assert self.compute(delayed(sum)(x)) == 14
        assert self.compute(delayed(sum)(x), delayed(list)(x)) == (14, [0, 1, 4, 9])
        held = self.persist(x)
        assert [self.compute(delayed(sum)(held)) for _ in range(2)] == [14, 14]
        assert [list(self.compute(held)) for _ in range(2)] == [[0, 1, 4, 9]] * 2

    def test_a_generator_that_fails_is_a_failed_task(self) -> None:
        x = delayed(lambda n: (1 // (2 - i) for i in range(n)), name="gen")(4)
        with pytest.raises(ZeroDivisionError) as caught:
            self.compute(delayed(sum)(x), delayed(list)(x))
        assert "in lazyflow task gen" in caught.value.__notes__[0]

    @pytest.mark.parametrize("source", ["result", "literal", "held"])
    def test_mutates_gets_a_private_copy_of_anything(self, source: str) -> None:
        class Box:
            def __init__(self) -> None:
                self.inside = {"deep": [1]}

        def edit(box: Any) -> int:
            box.inside["deep"].append(1)
            return len(box.inside["deep"])

        mine = Box()
        x: Any = {"result": delayed(Box)(), "literal": mine, "held": mine}[source]
        if source == "held":
            x = self.persist(delayed(lambda: mine)())
        change = delayed(edit, mutates=True)
        look = delayed(lambda box: len(box.inside["deep"]))
        assert self.compute([change(x), change(x), look(x)]) == [2, 2, 1]
        assert self.compute(change(x)) == 2
        assert mine.inside == {"deep": [1]}

    def test_mutates_edits_the_value_itself_when_nobody_else_holds_it(self) -> None:
        seen = Tally()

        def address(x: Any) -> list[int]:
            return [os.getpid(), x.__array_interface__["data"][0]]

        def made() -> Any:
            x = numpy.ones(1000)
            seen.add(address(x))
            return x

        there = self.compute(delayed(address, mutates=True)(delayed(made)()), num_workers=1)
        assert [there] == seen.items()

    def test_a_retried_mutation_starts_afresh(self) -> None:
        tries = Tally()

        def edit(x: Any) -> float:
            x += 1
            if tries.add(float(x[0])) < 3:
                raise OSError("again")
            return float(x[0])

        x = delayed(numpy.zeros)(2)
        assert self.compute(delayed(edit, mutates=True, retries=5)(x)) == 1.0
        assert tries.items() == [1.0, 1.0, 1.0]

    def test_check_mutation_finds_what_views_can_not(self) -> None:
        box = delayed(lambda: {"deep": [numpy.zeros(2)]})()

        def edit(box: Any) -> None:
            box["deep"].append(1)

        with config.set(check_mutation=True):
            with pytest.raises(InputMutated, match="edit changed its input 0 in place"):
                self.compute(delayed(edit)(box))
            assert self.compute(delayed(len)(box)) == 1

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("source", ["result", "literal", "held", "view", "given back"])
    def test_what_compute_returns_is_the_callers_own(self, source: str, size: int) -> None:
        mine = numpy.ones(size)
        x: Any = delayed(numpy.ones)(size)
        if source == "literal":
            x = delayed(mine)
        elif source == "held":
            x = self.persist(x)
        elif source == "view":
            x = x[1:]
        elif source == "given back":
            x = delayed(lambda a: a)(mine)
        first = self.compute(x)
        first += 1  # writable
        assert mine.tolist() == [1.0] * size
        assert self.compute(x).tolist() == (first - 1).tolist()

    @pytest.mark.parametrize("size", SIZES)
    def test_two_outputs_never_share_memory(self, size: int) -> None:
        x = delayed(numpy.zeros)(size)
        a, b, c = self.compute(x, x, x[:-1])
        a += 1
        b += 2
        c += 3
        assert a.tolist() == [1.0] * size
        assert b.tolist() == [2.0] * size
        assert c.tolist() == [3.0] * (size - 1)

    def test_two_outputs_never_share_a_list(self) -> None:
        x = delayed(list)("ab")
        a, b = self.compute(x, x)
        a.append("c")
        assert b == ["a", "b"]

    @pytest.mark.parametrize("workers", [1, 2, 4])
    def test_values_are_dropped_at_their_last_use(self, workers: int) -> None:
        """A tree over n leaves needs ceil(log2 n) + 2 values at once on one worker.

        On several whose tasks take unequal times, at most about as many for each (Blumofe and
        Leiserson, 1999); that is asked of each process, since values are copied on their way. There
        may be tasks beside that wait for a value from another worker, see `waits_ahead`.
        They are large: of small ones an engine may make many before it joins them.
        """
        n, alive, size = 256, Level(), 1 << 20
        leaves: list[Any] = [delayed(lambda _: Counted(alive, size))(i) for i in range(n)]
        join = delayed(lambda a, b: Counted(alive, size))
        while len(leaves) > 1:
            leaves = [join(a, b) for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
        self.compute(delayed(lambda x: None)(leaves[0]), num_workers=workers)
        ahead = self.waits_ahead if workers > 1 else 0
        on_their_way = 0 if self.shares_memory else 2 * workers + ahead
        assert 2 < alive.most_in_a_process() <= workers * 8 + 2 + on_their_way
        if self.shares_memory:  # whatever the garbage collector does
            assert alive.now() == 0
        assert self.comes_to(alive, 0)

    def test_nothing_is_kept_after_a_compute(self) -> None:
        alive = Level()
        x = delayed(lambda: Counted(alive))()
        got = compute(x, delayed(id)(x), scheduler=self.scheduler)
        if self.shares_memory:
            assert alive.now() == 1
        assert self.comes_to(alive, 1)
        del got
        assert self.comes_to(alive, 0)


@dataclass
class Holder:
    """A dataclass with something in it."""

    inside: Any


class Attributes:
    """An object of a class that nothing is known of."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside


Pair = namedtuple("Pair", "first second")

#: Containers around a value, and how it is found in them.
CONTAINERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "alone": (lambda x: x, lambda c: c),
    "tuple": (lambda x: (x, 1), lambda c: c[0]),
    "list": (lambda x: [2, x], lambda c: c[1]),
    "dict": (lambda x: {"k": x}, lambda c: c["k"]),
    "named": (lambda x: Pair(x, 0), lambda c: c.first),
    "deque": (lambda x: deque([x]), lambda c: c[0]),
    "defaultdict": (lambda x: defaultdict(list, k=x), lambda c: c["k"]),
    "ordered": (lambda x: OrderedDict(k=(x,)), lambda c: c["k"][0]),
    "deep": (lambda x: [({"k": [1, (x,)]},)], lambda c: c[0][0]["k"][1][0]),
}

WITH_DATACLASSES = {
    **CONTAINERS,
    "dataclass": (Holder, lambda c: c.inside),
    "list of dataclasses": (lambda x: [Holder([x])], lambda c: c[0].inside[0]),
}


def _edited(array: Any, unlocked: bool) -> str:
    try:
        if unlocked:
            array.setflags(write=True)
        array *= 2
    except ValueError:
        return "refused"
    return f"edited: {array[0]}"


def _largest(array: Any, _: Any = None) -> float:
    return float(array.max())


class SharingContract(Part):
    """Objects that several tasks, or the caller and a task, share."""

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("form", WITH_DATACLASSES)
    @pytest.mark.parametrize("source", ["result", "literal", "held"])
    def test_no_task_changes_an_array_that_others_see(
        self, source: str, form: str, size: int
    ) -> None:
        wrap, find = WITH_DATACLASSES[form]
        mine = wrap(numpy.ones(size))
        x: Any = mine if source == "literal" else delayed(lambda: wrap(numpy.ones(size)))()
        if source == "held":
            x = self.persist(x)
        edit = delayed(lambda x, unlocked: _edited(find(x), unlocked))
        tasks = [edit(x, False), edit(x, False)]
        if source != "literal" or self.shares_memory:  # each task has a copy that came by itself
            tasks += [edit(x, True), edit(x, True)]
        assert set(self.compute(tasks)) == {"refused"}
        assert self.compute(delayed(lambda x: _largest(find(x)))(x)) == 1.0
        find(mine)[:] = 5  # the caller's own

    @pytest.mark.parametrize("form", WITH_DATACLASSES)
    def test_what_a_task_got_is_writable_for_the_caller(self, form: str) -> None:
        wrap, find = WITH_DATACLASSES[form]
        x = delayed(lambda: wrap(numpy.ones(4)))()
        a, _, b = self.compute(x, delayed(lambda x: None)(x), x)
        find(a)[:] = 5
        find(b)[:] = 6
        assert (find(a)[0], find(b)[0]) == (5, 6)

    @pytest.mark.parametrize("form", WITH_DATACLASSES)
    def test_a_function_that_mutates_gets_writable_arrays_in_containers(self, form: str) -> None:
        wrap, find = WITH_DATACLASSES[form]
        x = delayed(lambda: wrap(numpy.ones(4)))()
        edit = delayed(lambda x: _edited(find(x), False), mutates=True)
        look = delayed(lambda x: _largest(find(x)))
        assert self.compute([edit(x), edit(x), look(x)]) == ["edited: 2.0", "edited: 2.0", 1.0]
        assert self.compute(edit(x)) == "edited: 2.0"

    def test_one_array_met_twice_in_a_result_is_one_array(self) -> None:
        def twice() -> Any:
            x = numpy.ones(3)
            return (x, x), [x, {"k": x}]

        is_one = delayed(lambda v: v[0][0] is v[0][1] and v[1][0] is v[1][1]["k"])
        x = delayed(twice)()
        assert self.compute(is_one(x), is_one(x)) == (True, True)

    @pytest.mark.parametrize("form", WITH_DATACLASSES)
    def test_what_the_program_keeps_stays_writable_for_it(self, form: str) -> None:
        self.needs(self.shares_memory, "the tasks have a copy of it")
        wrap, find = WITH_DATACLASSES[form]
        kept = wrap(numpy.ones(4))
        views = [find(kept)[1:], find(kept)[::2]]
        for give in (lambda: kept, lambda: [kept], lambda: (views[0], kept), lambda: views):
            x = delayed(give)()
            read = delayed(lambda x: None)
            self.compute(read(x), read(x))
            taken = self.compute(x, read(x))[0]
            del taken
            find(kept)[:] = 7
            views[0][:] = 8
            find(kept)[:] = 1

    # -- snapshots --------------------------------------------------------------------------

    def _in_background(self, func: Any, x: Any, gate: Gate, how: str) -> Any:
        passed = True if self.eager else delayed(gate.wait)()
        if how == "persist":
            return self.persist(delayed(func)(x, passed))
        with lazyflow.config.set(scheduler=self.scheduler):
            return lazyflow.submit(func, x, passed)

    @pytest.mark.parametrize("how", ["submit", "persist"])
    @pytest.mark.parametrize("form", CONTAINERS)
    def test_an_edit_after_the_start_is_not_seen(self, form: str, how: str) -> None:
        wrap, find = CONTAINERS[form]
        numbers, array = [1], numpy.ones(8000)
        buffer = bytearray(b"old")
        x = wrap([numbers, array, array[::-2], buffer])

        def read(x: Any, _: Any) -> Any:
            numbers, array, view, buffer = find(x)
            return list(numbers), float(array.sum()), float(view.sum()), bytes(buffer)

        with Gate() as gate:
            future = self._in_background(read, x, gate, how)
            numbers.append(9)
            array[:] = 5
            buffer[:] = b"new"
            find(x).append(None)
            gate.open()
            assert self.compute(future, timeout=60) == ([1], 8000.0, 4000.0, b"old")

    @pytest.mark.parametrize("how", ["submit", "persist"])
    @pytest.mark.parametrize("place", ["argument", "list", "leaf"])
    def test_a_large_array_that_is_filled_again_is_noticed(self, place: str, how: str) -> None:
        array = numpy.ones((300, 200))
        x: Any = {"argument": array.T, "list": [array], "leaf": delayed(array)}[place]

        def read(x: Any, _: Any) -> float:
            return _largest(x[0] if type(x) is list else x)

        with Gate() as gate:
            future = self._in_background(read, x, gate, how)
            array[:] = 5
            gate.open()
            try:
                assert self.compute(future, timeout=60) == 1.0
            except InputMutated as error:
                assert not self.eager
                words = r"wrote into an array that (read|value) reads .float64, shape"
                assert re.search(words, str(error))

    @pytest.mark.parametrize("part", ["data", "indices", "indptr"])
    def test_a_large_sparse_matrix_is_watched_in_all_its_parts(self, part: str) -> None:
        sparse = pytest.importorskip("scipy.sparse")
        matrix = sparse.csr_matrix(numpy.ones((10, 4000)))
        values = getattr(matrix, part).tolist()

        def read(matrix: Any, _: Any) -> Any:
            return getattr(matrix, part).tolist()

        with Gate() as gate:
            future = self._in_background(read, matrix, gate, "submit")
            getattr(matrix, part)[:] = 0
            gate.open()
            try:
                assert self.compute(future, timeout=60) == values
            except InputMutated:
                assert not self.eager

    @pytest.mark.parametrize("size", [8, 100_000])
    def test_a_buffer_filled_again_in_a_loop_gives_no_wrong_value(self, size: int) -> None:
        buffer, futures = numpy.zeros(size), []
        for k in range(6):
            buffer[:] = k
            futures.append(lazyflow.map(_largest, [buffer], scheduler=self.scheduler)[0])
        for k, future in enumerate(futures):
            try:
                assert future.result(60) == k
            except InputMutated:
                assert size > 8192

    def test_an_array_may_be_filled_again_once_the_result_is_there(self) -> None:
        buffer = numpy.zeros(100_000)
        for k in range(3):
            buffer[:] = k
            assert lazyflow.map(_largest, [buffer], scheduler=self.scheduler)[0].result(60) == k

    def test_edits_of_nested_literals_are_private(self) -> None:
        x = delayed(lambda xs: xs[0].append(1) or len(xs[0]))([[], 1])
        assert (self.compute(x), self.compute(x)) == (1, 1)
