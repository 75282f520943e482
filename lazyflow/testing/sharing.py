"""Contract: arrays in containers are protected, and what a call is given is a snapshot."""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import lazyflow
from lazyflow import InputMutated, delayed
from lazyflow.testing.base import Part
from lazyflow.testing.signals import Gate

numpy = pytest.importorskip("numpy")


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

SIZES = [3, 20_000]


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
    """What several tasks, or the caller and a task, share."""

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
