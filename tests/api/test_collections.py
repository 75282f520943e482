"""The collection protocol: objects made of tasks act as one value wherever a lazy value may."""

import inspect
import operator
import threading

import numpy as np
import pytest

import lazyflow
from lazyflow import Collection, Delayed, compute, delayed, is_lazy, optimize, persist, wait

inc = delayed(lambda x: x + 1)
same = delayed(lambda *a, **k: (a, k))


class Pieces(Collection):
    """A list in pieces."""

    finalized = 0

    def __init__(self, tasks):
        self.tasks = list(tasks)

    def __lazyflow_tasks__(self):
        return self.tasks

    def __lazyflow_finalize__(self, values):
        type(self).finalized += 1
        return [item for value in values for item in value]

    def __lazyflow_rebuild__(self, tasks):
        return type(self)(tasks)


def pieces(*parts, cls=Pieces):
    return cls([delayed(list)(p) for p in parts])


class Grouped(Pieces):
    """Records what its optimisation sees, and leaves the last piece away."""

    seen = []

    @classmethod
    def __lazyflow_optimize__(cls, wanted, keep=True):
        cls.seen.append(list(wanted))
        return [cls(x.tasks[:-1]) for x in wanted]


class OtherGrouped(Grouped):
    seen = []


@pytest.fixture(autouse=True)
def forget():
    Pieces.finalized = 0
    Grouped.seen, OtherGrouped.seen = [], []


# -- wherever a lazy value may stand --------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_in_compute(scheduler):
    ab, n = pieces("a", "b"), inc(1)
    found = compute(ab, [ab, {"n": n}], (pieces(), pieces("xyz")), 5, scheduler=scheduler)
    assert found == (["a", "b"], [["a", "b"], {"n": 2}], ([], ["x", "y", "z"]), 5)


def test_its_pieces_are_computed_once():
    calls = []
    task = delayed(lambda: calls.append(1) or [1])()
    both = Pieces([task, task])
    assert compute(both, task, both, [Pieces([task])]) == ([1, 1], [1], [1, 1], [[1]])
    assert calls == [1]


def test_as_an_argument():
    ab = pieces("a", "b")
    assert delayed(len)(ab).compute() == 2
    args, kwargs = same(ab, [ab, (1, ab)], inc(0), k={"x": ab}).compute()
    assert args == (["a", "b"], [["a", "b"], (1, ["a", "b"])], 1)
    assert kwargs == {"k": {"x": ["a", "b"]}}


def test_an_argument_used_twice_is_put_together_once():
    ab = pieces("a", "b")
    ((a, (b,)), k) = same(ab, [ab], k=ab).compute()
    assert a == b == k["k"] == ["a", "b"]
    assert Pieces.finalized == 1


def test_with_operators_and_in_items():
    assert (delayed(["z"]) + pieces("a", "b")).compute() == ["z", "a", "b"]
    assert delayed({("a",): 5})[delayed(tuple)(pieces("a"))].compute() == 5


def test_as_a_delayed_value():
    x = delayed(pieces("a", "b"))
    assert type(x) is Delayed
    assert x.compute() == ["a", "b"]
    assert compute(x[0], delayed([pieces("a"), 1])) == ("a", [["a"], 1])
    assert operator.add(x, ["c"]).compute() == ["a", "b", "c"]


def test_inside_other_values_without_traverse():
    ab = pieces("a", "b")
    ((found,),) = compute((ab,), traverse=False)
    assert found is ab
    assert compute(ab, traverse=False) == (["a", "b"],)
    f = delayed(lambda *a: a, traverse=False)
    assert f(ab, [ab]).compute() == (["a", "b"], [ab])


def test_returned_by_a_task():
    x = delayed(lambda: pieces("a", "b"))()
    assert x.compute() == ["a", "b"]
    assert delayed(len)(x).compute() == 2


def test_is_lazy():
    assert is_lazy(pieces("a"))
    assert not is_lazy(Pieces)
    assert not is_lazy([pieces("a")])


def test_persist_gives_the_same_class_made_of_results():
    calls = []
    ab = Pieces([delayed(lambda: calls.append(1) or [1])(), inc(1)])
    held, (n, plain) = persist(ab, [inc(2), "plain"])
    assert type(held) is Pieces
    assert plain == "plain"
    wait([held, n])
    assert calls == [1]
    assert [repr(t) for t in held.tasks] == [
        "<Delayed <lambda>: finished>", "<Delayed <lambda>: finished>",
    ]  # fmt: skip
    assert compute(held.tasks, n) == ([[1], 2], 3)
    assert calls == [1]


def test_wait_counts_a_collection_as_one():
    release = threading.Event()
    slow = Pieces([inc(1), delayed(release.wait)(30)])
    held, quick = persist(slow, pieces("a"))
    try:
        done, pending = wait([held, quick], num_returns=1)
        assert (done, pending) == ([quick], [held])
    finally:
        release.set()
    assert wait([held, quick]) == ([held, quick], [])


def test_optimize_gives_the_same_class_with_merged_tasks():
    pure = delayed(abs, pure=True)
    both = Pieces([delayed(list)([pure(-1)]), delayed(list)([pure(-1)])])
    better, length = optimize(both, delayed(len)(both))
    assert type(better) is Pieces
    a, b = better.tasks
    assert a._inputs[0] is b._inputs[0]
    assert compute(better, length) == ([1, 1], 2)


# -- grouped optimisation -------------------------------------------------------------------


@pytest.mark.parametrize("run", [compute, persist, optimize])
def test_optimisation_sees_all_of_its_class_at_once(run):
    a, b, c = (pieces("a", "b", cls=Grouped) for _ in range(3))
    other = pieces("c", "d", cls=OtherGrouped)
    found = run(a, [b, {"k": other}], inc(1), (c,))
    assert Grouped.seen == [[a, b, c]]
    assert OtherGrouped.seen == [[other]]
    if run is compute:
        assert found == (["a"], [["a"], {"k": ["c"]}], 2, (["a"],))
    else:
        assert [len(x.tasks) for x in (found[0], found[1][0], found[3][0])] == [1, 1, 1]


def test_optimisation_for_an_argument():
    a = pieces("a", "b", cls=Grouped)
    x = delayed(len)(a)
    assert Grouped.seen == [[a]]
    assert x.compute() == 1


# -- failures -------------------------------------------------------------------------------


def test_a_failed_piece_fails_the_whole():
    broken = Pieces([delayed(list)("a"), delayed(operator.truediv)(1, 0)])
    for x in (broken, delayed(len)(broken), [broken]):
        with pytest.raises(ZeroDivisionError) as caught:
            compute(x)
        assert "in lazyflow task truediv(1, 0)" in caught.value.__notes__[0]
    found, good, n = compute(broken, pieces("a"), inc(1), on_error="collect")
    assert type(found) is ZeroDivisionError
    assert (good, n) == (["a"], 2)


def test_where_it_was_put_together_is_the_users_line():
    class Broken(Pieces):
        def __lazyflow_finalize__(self, values):
            raise ValueError("can't be put together")

    x = delayed(len)(pieces("a", cls=Broken))
    line = inspect.currentframe().f_lineno - 1
    with pytest.raises(ValueError, match="put together") as caught:
        x.compute()
    assert f"{__file__}:{line} in" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="put together"):
        compute(pieces("a", cls=Broken))


def test_a_class_has_to_say_everything():
    class Half(Collection):
        def __lazyflow_tasks__(self):
            return []

    with pytest.raises(TypeError, match="__lazyflow_finalize__"):
        Half()


# -- of arrays ------------------------------------------------------------------------------


class Chunks(Collection):
    def __init__(self, tasks):
        self.tasks = tasks

    def __lazyflow_tasks__(self):
        return self.tasks

    def __lazyflow_finalize__(self, values):
        return values[0] if len(values) == 1 else np.concatenate(values)

    def __lazyflow_rebuild__(self, tasks):
        return Chunks(tasks)


def test_what_a_collection_computes_is_the_callers_own():
    a = np.arange(3.0)
    one, two = Chunks([delayed(a)]), Chunks([delayed(a), delayed(np.ones)(2)])
    x, y, z = compute(one, one, two)
    x[:], y[:], z[:] = 1, 2, 3
    np.testing.assert_array_equal(a, [0, 1, 2])
    np.testing.assert_array_equal(x, 1)
    (held,) = persist(one)
    (x,) = compute(held)
    x[:] = 5
    np.testing.assert_array_equal(compute(held)[0], [0, 1, 2])


def test_visualize_takes_collections():
    assert "<svg" in lazyflow.visualize(pieces("a", "b"))._repr_svg_()
