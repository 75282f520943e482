"""One `as_completed` that several threads or coroutines iterate over."""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import pytest

from lazyflow import TaskTimeout, as_completed, config, map, submit
from lazyflow.testing.signals import Gate

PATIENCE = 20.0  # seconds


def in_threads(iterate: Callable[[], Any], count: int = 3) -> Callable[[], list[Any]]:
    """Call a function in some threads; return a function that waits for what they return."""
    got: list[Any] = []

    def call() -> None:
        try:
            got.append(iterate())
        except Exception as error:
            got.append(error)

    threads = [threading.Thread(target=call, daemon=True) for _ in range(count)]
    for each in threads:
        each.start()

    def joined() -> list[Any]:
        for each in threads:
            each.join(PATIENCE)
        assert not any(each.is_alive() for each in threads)
        return got

    return joined


WAYS: dict[str, Callable[[Any], list[Any]]] = {
    "for": list,
    "next_batch": lambda ended: list(chain.from_iterable(iter_batches(ended))),
    "batches": lambda ended: list(chain.from_iterable(ended.batches())),
    "async for": lambda ended: asyncio.run(listed(ended)),
}


def iter_batches(ended: Any) -> Any:
    while True:
        try:
            yield ended.next_batch()
        except StopIteration:
            return


async def listed(ended: Any) -> list[Any]:
    return [each async for each in ended]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [0, 1, 2, 40])  # futures, for three threads
def test_threads_share_what_ends_and_all_of_them_end(way: str, count: int) -> None:
    gate = Gate()
    with config.set(scheduler="threads"):
        futures = [submit(_after, gate, k) for k in range(count)]
        ended = as_completed(futures)
        joined = in_threads(lambda: WAYS[way](ended))
        gate.open()
        got = joined()
    assert Counter(map_ids(chain.from_iterable(got))) == Counter(map_ids(futures))


def test_each_goes_to_one_thread_when_they_change_places_often(
    request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    for _ in range(20):
        futures = map(abs, range(30), scheduler="threads")
        ended = as_completed(futures, with_results=True)
        got = in_threads(lambda ended=ended: list(ended))()
        assert sorted(value for _, value in chain.from_iterable(got)) == list(range(30))


def test_coroutines_share_what_ends() -> None:
    async def main() -> list[list[int]]:
        with config.set(scheduler="threads"):
            gate = Gate()
            futures = [submit(_after, gate, k) for k in range(20)]
            ended = as_completed(futures, with_results=True)

            async def taken() -> list[int]:
                return [value async for _, value in ended]

            tasks = [asyncio.create_task(taken()) for _ in range(3)]
            given_up = asyncio.create_task(taken())
            await asyncio.sleep(0)
            given_up.cancel()  # what it waited for is for the others
            gate.open()
            return await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)

    assert sorted(chain.from_iterable(asyncio.run(main()))) == list(range(20))


def test_clear_and_an_end_of_time_end_all() -> None:
    gate = Gate()
    with config.set(scheduler="threads"):
        held = submit(_after, gate, 1)
        ended = as_completed([held])
        joined = in_threads(lambda: list(ended))
        ended.clear()
        assert joined() == [[], [], []]
        in_time = as_completed([held], timeout=0.05)
        errors = in_threads(lambda: list(in_time))()
        assert [type(error) for error in errors] == [TaskTimeout] * 3
        gate.open()
        assert held.result() == 1


def test_what_is_added_while_threads_wait_goes_to_one_of_them() -> None:
    first, second = Gate(), Gate()
    with config.set(scheduler="threads", num_workers=2):
        ended = as_completed([submit(_after, second, 1)], with_results=True)
        joined = in_threads(lambda: [value for _, value in ended])
        ended.add(submit(_after, first, 2))
        first.open()
        second.open()
        assert sorted(chain.from_iterable(joined())) == [1, 2]


def _after(gate: Gate, value: Any) -> Any:
    gate.wait()
    return value


def map_ids(futures: Any) -> list[int]:
    return [id(each) for each in futures]
