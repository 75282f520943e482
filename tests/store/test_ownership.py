"""What a caller gets is his own: an edit of it is seen by nobody else, on every scheduler."""

import asyncio
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from engine_schedulers import SCHEDULERS

import lazyflow
from lazyflow import compute, config, delayed, persist, put, submit
from lazyflow.store.ownership import ResultHandover, copied

Pair = namedtuple("Pair", "first second")


@dataclass(frozen=True)
class Box:
    inside: Any


def _frame(n: int) -> Any:
    return pytest.importorskip("pandas").DataFrame({"a": np.zeros(n)})


def _edit_frame(frame: Any) -> None:
    frame.iloc[0, 0] += 1


def _edit_series(series: Any) -> None:
    series.iloc[0] += 1


def _edit(x: Any) -> None:
    x[0] += 1


def _edit_data(x: Any) -> None:
    x.data[0] += 1


#: How one of n elements is made, how an edit changes the sum of its elements, and that sum.
KINDS: dict[str, tuple[Callable[[int], Any], Callable[[Any], None], Callable[[Any], float]]] = {
    "array": (np.zeros, _edit, np.sum),
    "csr": (lambda n: scipy.sparse.csr_matrix(np.ones((1, n))), _edit_data, lambda x: x.sum()),
    "coo": (lambda n: scipy.sparse.coo_array(np.ones((1, n))), _edit_data, lambda x: x.sum()),
    "bytearray": (bytearray, _edit, sum),
    "frame": (_frame, _edit_frame, lambda x: x["a"].sum()),
    "series": (lambda n: _frame(n)["a"].copy(), _edit_series, lambda x: x.sum()),
}

CONTAINERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "alone": (lambda x: x, lambda c: c),
    "deep": (lambda x: {"a": [(x, [2])]}, lambda c: c["a"][0][0]),
    "kin": (
        lambda x: OrderedDict(a=Pair(1, deque([defaultdict(list, b=Box([x]))]))),
        lambda c: c["a"].second[0]["b"].inside[0],
    ),
}


def made(kind: str, container: str, n: int) -> Any:
    return CONTAINERS[container][0](KINDS[kind][0](n))


def same(x: Any) -> Any:
    return x


@lazyflow.actor
class Keeper:
    """Holds values that it gives out."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def get(self, *given: Any) -> Any:
        return self.values.setdefault(given, made(*given))


def ways(keeper: Any, *given: Any) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Yield pairs of readers of one value, named."""
    future, inputs = submit(made, *given), made(*given)
    yield "submit", future.result, future.result

    async def awaited() -> Any:
        return await future

    yield "await", lambda: asyncio.run(awaited()), future.result
    (held,) = persist(delayed(made)(*given))
    yield "persist", held.compute, held.compute
    kept = put(inputs)
    yield "put", kept.result, kept.result
    yield "put, then compute", lambda: compute(kept)[0], kept.result
    x = delayed(made)(*given)
    one, other, third = compute(x, delayed(same)(x), [x])
    yield "two outputs", lambda: one, lambda: other
    yield "outputs in a list", lambda: other, lambda: third[0]
    yield "a literal", delayed(same)(inputs).compute, lambda: inputs
    yield "a literal, submitted", submit(same, inputs).result, lambda: inputs
    yield "a literal alone", delayed(inputs).compute, lambda: inputs
    call = keeper.get(*given)
    yield "a call of an actor", call.result, keeper.get(*given).result


@pytest.fixture(params=SCHEDULERS, scope="module")
def keeper(request: pytest.FixtureRequest) -> Iterator[Any]:
    with config.set(scheduler=request.param, num_workers=2):
        yield Keeper()


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_of_what_a_caller_got_is_his_own(keeper: Any, kind: str, container: str) -> None:
    _, edit, total = KINDS[kind]
    inside = CONTAINERS[container][1]
    seen = []
    for n in (3, 20_000):  # of which one is worth sharing
        for way, one, other in ways(keeper, kind, container, n):
            mine = inside(one())
            before = total(mine)
            edit(mine)
            seen.append((way, n, total(mine) - before, total(inside(other())) - before))
    assert seen == [(way, n, 1, 0) for way, n, _, _ in seen]


@pytest.mark.parametrize("container", list(CONTAINERS))
def test_nothing_is_copied_that_nobody_else_holds(container: str) -> None:
    addresses = []

    def fresh() -> Any:
        x = np.zeros(10)
        addresses.append(x.__array_interface__["data"][0])
        return CONTAINERS[container][0](x)

    got = CONTAINERS[container][1](delayed(fresh)().compute(scheduler="threads"))
    assert [got.__array_interface__["data"][0]] == addresses
    assert got.flags.writeable


def test_a_view_of_an_input_in_a_list_is_writable_without_a_copy_if_it_can_be() -> None:
    x = delayed(np.zeros)(10)
    (got,) = delayed(lambda a: [a])(x).compute(scheduler="threads")
    assert got.flags.writeable and got.base is not None


def test_copies_keep_the_shape_of_what_they_are_copies_of() -> None:
    x = np.zeros(2)
    ring: list[Any] = [x, x, (x,)]
    ring.append((ring, x))
    mine = copied(ring)
    assert mine[0] is mine[1] is mine[2][0] is mine[3][1] is not x
    assert mine[3][0] is mine and mine is not ring
    tail = copied(ring[3])
    assert tail[0][3] is tail  # a ring that is entered by the tuple
    deep: Any = x
    for _ in range(5000):
        deep = [deep]
    mine = ResultHandover([deep])(deep)
    while type(mine) is list:
        (mine,) = mine
    assert mine is not x and mine.tolist() == [0, 0]


def test_what_holds_nothing_that_can_be_edited_is_not_looked_through() -> None:
    rows = [(1, "a")] * 3
    assert copied(tuple(rows)) == tuple(rows)
    mine = copied(rows)
    assert mine == rows and mine is not rows
    assert ResultHandover([])(rows) is rows
