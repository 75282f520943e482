"""Contract: no task can change what another one sees, and results are the caller's own."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from lazyflow import InputMutated, compute, config, delayed
from lazyflow.testing.base import Part

numpy = pytest.importorskip("numpy")


def double_in_place(x: Any) -> Any:
    """Edit the argument."""
    x *= 2
    return x


class Counted:
    """A value that knows how many like it are alive, and how many were at most."""

    alive = most = 0
    lock = threading.Lock()

    def __init__(self) -> None:
        with Counted.lock:
            Counted.alive += 1
            Counted.most = max(Counted.most, Counted.alive)

    def __del__(self) -> None:
        with Counted.lock:
            Counted.alive -= 1


class ValueContract(Part):
    """Values."""

    @pytest.mark.parametrize("place", ["result", "literal", "in a list", "held"])
    def test_an_array_arrives_read_only(self, place: str) -> None:
        x: Any = numpy.ones(3)
        if place == "result":
            x = delayed(numpy.ones)(3)
        elif place == "held":
            x = self.persist(delayed(numpy.ones)(3))
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

    def test_mutates_gets_a_private_writable_value(self) -> None:
        x = delayed(numpy.ones)(3)
        double = delayed(double_in_place, mutates=True)
        a, b, c = self.compute(double(x), double(x), x)
        assert (a.tolist(), b.tolist(), c.tolist()) == ([2.0] * 3, [2.0] * 3, [1.0] * 3)

    def test_mutates_leaves_literals_and_held_values_alone(self) -> None:
        mine = numpy.ones(3)
        double = delayed(double_in_place, mutates=True)
        held = self.persist(delayed(numpy.ones)(3))
        assert self.compute(double(mine), double([mine][0])) [0].tolist() == [2.0] * 3
        assert self.compute(double(held)).tolist() == [2.0] * 3
        assert mine.tolist() == [1.0] * 3
        assert self.compute(held).tolist() == [1.0] * 3

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
        address = delayed(lambda x: x.__array_interface__["data"][0], mutates=True)
        seen: list[int] = []

        def made() -> Any:
            x = numpy.ones(1000)
            seen.append(x.__array_interface__["data"][0])
            return x

        assert self.compute(address(delayed(made)())) == seen[0]

    def test_a_retried_mutation_starts_afresh(self) -> None:
        tries: list[float] = []

        def edit(x: Any) -> float:
            x += 1
            tries.append(float(x[0]))
            if len(tries) < 3:
                raise OSError("again")
            return float(x[0])

        x = delayed(numpy.zeros)(2)
        assert self.compute(delayed(edit, mutates=True, retries=5)(x)) == 1.0
        assert tries == [1.0, 1.0, 1.0]

    def test_check_mutation_finds_what_views_can_not(self) -> None:
        box = delayed(lambda: {"deep": [numpy.zeros(2)]})()

        def edit(box: Any) -> None:
            box["deep"].append(1)

        with config.set(check_mutation=True):
            with pytest.raises(InputMutated, match="edit changed its input 0 in place"):
                self.compute(delayed(edit)(box))
            assert self.compute(delayed(len)(box)) == 1

    @pytest.mark.parametrize("source", ["result", "literal", "held", "view", "given back"])
    def test_what_compute_returns_is_the_callers_own(self, source: str) -> None:
        mine = numpy.ones(4)
        x: Any = delayed(numpy.ones)(4)
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
        assert mine.tolist() == [1.0] * 4
        assert self.compute(x).tolist() == (first - 1).tolist()

    def test_two_outputs_never_share_memory(self) -> None:
        x = delayed(numpy.zeros)(4)
        a, b, c = self.compute(x, x, x[:2])
        a += 1
        b += 2
        c += 3
        assert (a.tolist(), b.tolist(), c.tolist()) == ([1.0] * 4, [2.0] * 4, [3.0] * 2)

    def test_two_outputs_never_share_a_list(self) -> None:
        x = delayed(list)("ab")
        a, b = self.compute(x, x)
        a.append("c")
        assert b == ["a", "b"]

    def test_values_are_dropped_at_their_last_use(self) -> None:
        """A tree over n leaves holds at most w + ceil(log2 n) + 2 values."""
        n, workers = 256, 2
        gc.collect()
        Counted.alive = Counted.most = 0
        leaves: list[Any] = [delayed(lambda _: Counted())(i) for i in range(n)]
        join = delayed(lambda a, b: Counted())
        while len(leaves) > 1:
            leaves = [join(a, b) for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
        self.compute(delayed(lambda x: None)(leaves[0]), num_workers=workers)
        assert Counted.most <= workers + 8 + 2
        assert Counted.alive == 0

    def test_nothing_is_kept_after_a_compute(self) -> None:
        Counted.alive = 0
        x = delayed(lambda: Counted())()
        got = compute(x, delayed(id)(x), scheduler=self.scheduler)
        assert Counted.alive == 1
        del got
        gc.collect()
        assert Counted.alive == 0
