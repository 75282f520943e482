"""The faults of graphs and of threads that lazyflow is held to, and what covers each.

Tests named without a file are in this one; ``contract`` is lazyflow/testing, run for every
scheduler by test_contract.py. Faults of worker processes come with that scheduler.

====  ===========================================  ================================================
case  fault                                        covered by
====  ===========================================  ================================================
G1    a chain of 100,000 calls                     test_a_long_chain, test_what_a_long_chain_can_do
G2    a chain of 1,000,000                         the same, marked slow
G3    1,000,000 tasks and one sum                  test_a_wide_sum (100,000; the million is slow)
G4    a cycle                                      can't arise: a task never changes once made,
                                                   and its inputs are made before it; a graph of
                                                   dask: interop/test_dask_graphs.py
G5    a missing key; one key for two tasks         a missing key can't arise: inputs are objects,
                                                   not keys; one key for two tasks: contract,
                                                   test_a_key_for_two_tasks_...
G6    a list or dict that contains itself          test_an_argument_that_contains_itself
G7    lists nested 900 and 100,000 deep            test_a_deep_argument
G8    hostile arguments                            test_hostile_arguments_arrive_unchanged
G9    bool, ==, list, len, in, x[i] = v            test_misuse.py
G10   the caller edits his array after building    test_an_array_is_captured_by_reference
G11   a task edits an input that others share      contract, values.py
T1    8 tasks that compute, on 2 threads           test_nested_computes_on_few_threads
T2    nested computes given one pool of 2          test_nested_computes_on_one_executor
T3    a task fails while a slow one runs           contract, test_an_error_does_not_wait_...; exit
                                                   in test_interrupt.py
T4    SystemExit and other endings in a task       contract, test_what_would_end_the_caller_is_...;
                                                   test_interrupt.py for whole programs
T5    Ctrl-C, twice, while tasks run               test_interrupt.py
T6    os.fork in a task                            test_interrupt.py
T7    a task changes directory or environment      test_threads_share_the_process
====  ===========================================  ================================================

Below those: exceptions that do not behave, and what is left in memory after a failure.
"""

import copy
import pickle
import threading
import weakref
from typing import Any

import pytest
from waiting import until

import lazyflow
from lazyflow import compute, delayed, persist
from lazyflow.testing.signals import inc

BOTH = pytest.mark.parametrize("scheduler", ["sync", "threads"])
SIZES = pytest.mark.parametrize(
    "n", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)]
)


def chain(n: int) -> Any:
    one = delayed(inc)
    x: Any = one(0)
    for _ in range(n - 1):
        x = one(x)
    return x


# -- graphs ---------------------------------------------------------------------------------


@SIZES
@BOTH
def test_a_long_chain(n: int, scheduler: str) -> None:
    assert compute(chain(n), scheduler=scheduler) == (n,)


@SIZES
@BOTH
def test_a_wide_sum(n: int, scheduler: str) -> None:
    one = delayed(inc)
    assert compute(delayed(sum)([one(i) for i in range(n)]), scheduler=scheduler) == (
        n * (n + 1) // 2,
    )


@BOTH
def test_as_many_outputs(scheduler: str) -> None:
    values = compute([delayed(inc)(i) for i in range(100_000)], scheduler=scheduler)[0]
    assert values == list(range(1, 100_001))


def test_what_a_long_chain_can_do() -> None:
    x = chain(100_000)
    assert repr(x).startswith("<Delayed inc(")
    assert copy.copy(x) is x and copy.deepcopy(x) is x
    assert compute(pickle.loads(pickle.dumps(x))) == (100_000,)
    first = weakref.ref(x._inputs[0]._inputs[0])
    del x  # without recursion: 100,000 nested deallocations would overflow the C stack
    # The copy is the same tasks, so the thread that ended the run may have them a moment longer.
    assert until(lambda: first() is None)


def test_an_argument_that_contains_itself() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    knot: dict[str, Any] = {"a": 1}
    knot["self"] = knot

    def sees(x: Any) -> bool:
        inner = x[1] if isinstance(x, list) else x["self"]
        return inner[1] is inner if isinstance(x, list) else inner["self"] is inner

    assert compute(delayed(sees)(loop), delayed(sees)(knot)) == (True, True)


@pytest.mark.parametrize("depth", [900, 100_000])
@BOTH
def test_a_deep_argument(depth: int, scheduler: str) -> None:
    deep: Any = []
    for _ in range(depth):
        deep = [deep]

    def measure(x: Any) -> int:
        found = 0
        while x:
            x, found = x[0], found + 1
        return found

    assert compute(delayed(measure)(deep), scheduler=scheduler) == (depth,)


class Rude:
    """Raises whatever it is asked."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("leave me alone")

    __eq__ = __bool__ = __len__ = __repr__ = __getattr__ = __iter__ = _refuse  # type: ignore[assignment]
    __hash__ = _refuse  # type: ignore[assignment]

HOSTILE = [
    Rude(), float("nan"), "\ud800", 10**5000, b"\0", lambda: None, object, "inc-1", {1: Rude()}
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@BOTH
def test_hostile_arguments_arrive_unchanged(value: Any, scheduler: str) -> None:
    seen: list[Any] = []
    compute(delayed(lambda x: seen.append(x) or None)(value), scheduler=scheduler)
    if type(value) is dict:
        assert seen[0][1] is value[1]
    else:
        assert seen[0] is value

    def bad(x: Any) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        compute(delayed(bad)(value), scheduler=scheduler)
    assert "in lazyflow task bad(" in caught.value.__notes__[0]


@BOTH
def test_an_array_is_captured_by_reference(scheduler: str) -> None:
    """One rule everywhere: what the array holds when the task runs."""
    numpy = pytest.importorskip("numpy")
    mine = numpy.zeros(7)
    x = delayed(numpy.sum)(mine)
    mine += 10
    assert compute(x, scheduler=scheduler) == (70.0,)


# -- tasks that return tasks ----------------------------------------------------------------


@BOTH
def test_an_error_below_many_returned_tasks(scheduler: str) -> None:
    count = delayed(lambda n: 1 / 0 if n == 0 else count(n - 1) + 1)
    with pytest.raises(ZeroDivisionError):
        compute(count(5_000), scheduler=scheduler)
    deep = delayed(lambda n: 0 if n == 0 else deep(n - 1) + 1)
    assert compute(deep(5_000), scheduler=scheduler) == (5_000,)


def test_a_timeout_above_many_returned_tasks() -> None:
    release, started = threading.Event(), threading.Event()

    def bottom() -> int:
        started.set()
        release.wait(20)
        return 0

    deep = delayed(lambda n: delayed(bottom)() if n == 0 else deep(n - 1) + 1)
    (x,) = persist(deep(3_000))
    assert started.wait(20)
    with pytest.raises(lazyflow.TaskTimeout):
        compute(x + 1, timeout=0)
    assert x.cancel()
    release.set()
    assert compute(delayed(abs)(-1), timeout=20) == (1,)


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("collect", [False, True])
@BOTH
def test_a_returned_graph_that_can_not_be_planned(
    scheduler: str, collect: bool, depth: int
) -> None:
    def bad() -> Any:
        return delayed(max)(delayed(abs)(1, dask_key_name="k"), delayed(abs)(2, dask_key_name="k"))

    lazy: Any = delayed(bad)
    for _ in range(depth):
        lazy = delayed(lambda inner=lazy: inner(), traverse=False)
    if collect:
        error, good = compute(
            lazy(), delayed(abs)(-1), scheduler=scheduler, on_error="collect", timeout=20
        )
        assert good == 1
    else:
        with pytest.raises(lazyflow.KeyConflict) as caught:
            compute(lazy(), scheduler=scheduler, timeout=20)
        error = caught.value
    assert type(error) is lazyflow.KeyConflict
    assert "in lazyflow task bad, made at" in error.__notes__[0]
