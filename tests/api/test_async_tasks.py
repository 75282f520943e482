"""`async def` functions as tasks: they run to their end on every scheduler."""

import asyncio
import contextvars
import threading
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine_schedulers import DISTRIBUTED, SCHEDULERS

import lazyflow
from lazyflow import Cancelled, compute, config, delayed, submit
from lazyflow.finalizers import wait_for_last_calls
from lazyflow.testing.signals import Gate

variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)


#: Ray ends the worker process of a group that is given up.
CANCELLING = ["threads", "processes", DISTRIBUTED]


@pytest.fixture(params=SCHEDULERS)
def scheduler(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.set(scheduler=request.param, num_workers=2):
        yield request.param


async def add(x: int, y: int) -> int:
    await asyncio.sleep(0)
    return x + y


async def broken() -> None:
    await asyncio.sleep(0)
    raise KeyError("in the coroutine")


async def nested(x: int) -> int:
    one, other = await asyncio.gather(submit(abs, x), submit(add, x, 1))
    (third,) = compute(delayed(add)(one, other))
    return int(third) + await delayed(add)(1, 1)


async def at_last(path: str) -> int:
    try:
        open(path, "x").close()
    except FileExistsError:
        return 1
    raise OSError("at first")


def test_they_are_called_as_others(scheduler: str) -> None:
    assert delayed(add)(delayed(add)(1, 2), 3).compute() == 6
    assert submit(add, 1, 2).result() == 3
    assert [f.result() for f in lazyflow.map(add, [1, 2], [3, 4])] == [4, 6]
    assert [f.result() for f in lazyflow.map(add, [1, 2], [3, 4], batch=2)] == [4, 6]
    assert submit(partial(add, 1), 2).result() == 3
    assert delayed(add).__name__ == "add"


class Adder:
    def __init__(self, y: int) -> None:
        self.y = y

    async def __call__(self, x: int) -> int:
        return await add(x, self.y)

    def method(self, x: int) -> Any:
        return add(x, self.y)


def again(x: int) -> Any:
    async def first() -> Any:
        return add(x, 1)  # a coroutine that gives a coroutine

    return first()


def a_pair(x: int) -> Any:
    async def pair() -> tuple[int, list[int]]:
        return x, [x]

    return pair()


def made_by_a_function(path: str) -> Any:
    return at_last(path)


#: Callables that are no coroutine functions and return coroutines: each adds one.
RETURNING = {
    "an object with async __call__": Adder(1),
    "a partial of it": partial(Adder(1)),
    "a function": lambda x: add(x, 1),
    "a method": Adder(1).method,
    "a coroutine in a coroutine": again,
    "a partial of a function": partial(lambda y, x: add(x, y), 1),
}


@pytest.mark.parametrize("func", RETURNING.values(), ids=RETURNING)
def test_coroutines_that_a_call_returns_are_awaited(scheduler: str, func: Any) -> None:
    lazy = delayed(func)
    assert (lazy(lazy(1)) + lazy(5)).compute() == 9
    assert submit(func, 1).result() == 2
    assert [f.result() for f in lazyflow.map(func, [1, 2, 3], batch=2)] == [2, 3, 4]
    assert delayed(func, mutates=True, retries=1)(delayed(int)(1)).compute() == 2


def test_what_they_give_is_a_result_as_any_other(scheduler: str) -> None:
    one, other = delayed(a_pair, nout=2)(1)
    assert compute(one, other) == (1, [1])
    assert delayed(lambda x: add(x, 0))(2).compute() == 2
    lazy = delayed(lambda: _lazily())()
    assert lazy.compute() == 3


async def _lazily() -> Any:
    return delayed(add)(1, 2)


def test_errors_of_returned_coroutines(scheduler: str, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="in the coroutine") as caught:
        delayed(lambda: broken())().compute()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "broken"
    assert not {"run_until_complete", "run", "to_the_end"} & set(names)
    assert delayed(made_by_a_function, retries=1)(str(tmp_path / "x")).compute() == 1
    with pytest.raises(OSError, match="at first"):
        delayed(made_by_a_function)(str(tmp_path / "y")).compute()


@pytest.mark.parametrize("scheduler", CANCELLING, indirect=True)
def test_a_returned_one_that_is_given_up_is_cancelled(scheduler: str) -> None:
    began, ended = Gate(), Gate()
    future = submit(lambda: until_cancelled(began, ended))
    assert began.wait(60)
    assert future.cancel()
    assert ended.wait(60)


def test_they_may_compute_and_await(scheduler: str) -> None:
    assert submit(nested, -3).result() == 3


def test_with_one_worker_what_they_await_has_its_place() -> None:
    with config.set(scheduler="threads", num_workers=1):
        assert submit(nested, -3).result() == 3


def test_an_error_keeps_its_type_and_its_frames(scheduler: str) -> None:
    with pytest.raises(KeyError, match="in the coroutine") as caught:
        delayed(broken)().compute()
    assert "in lazyflow task broken" in caught.value.__notes__[0]
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "broken"
    assert not {"run_until_complete", "run", "to_the_end"} & set(names)


def test_retries(scheduler: str, tmp_path: Path) -> None:
    assert delayed(at_last, retries=1)(str(tmp_path / "x")).compute() == 1


def test_inside_a_running_loop_as_in_a_notebook(scheduler: str) -> None:
    async def cell() -> Any:
        return delayed(add)(1, 2).compute(), await delayed(add)(3, 4)

    assert asyncio.run(cell()) == (3, 7)


def test_errors_inside_a_running_loop_show_the_users_lines_too() -> None:
    async def cell() -> None:
        delayed(broken)().compute(scheduler="sync")

    with pytest.raises(KeyError, match="in the coroutine") as caught:
        asyncio.run(cell())
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[names.index("cell") :] == ["cell", "compute", "broken"]


@pytest.mark.parametrize("on", ["sync", "threads"])
def test_they_see_the_callers_context(on: str) -> None:
    async def look() -> int:
        return variable.get()

    def in_a_context() -> Any:
        variable.set(5)
        return delayed(look)().compute(scheduler=on)

    assert contextvars.copy_context().run(in_a_context) == 5


def test_one_loop_for_all_tasks_of_a_thread() -> None:
    async def loop() -> int:
        return id(asyncio.get_running_loop())

    loops = compute([delayed(loop)() for _ in range(5)], scheduler="threads", num_workers=1)[0]
    assert len(set(loops)) == 1


def test_the_loop_of_a_thread_is_closed_with_it_though_an_error_stays() -> None:
    loops, errors = [], []

    async def fails() -> None:
        loops.append(asyncio.get_running_loop())
        raise KeyError("kept")

    def in_a_thread() -> None:
        try:
            delayed(fails)().compute(scheduler="sync")
        except KeyError as error:
            errors.append(error)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    wait_for_last_calls()
    assert loops[0].is_closed() and errors


async def until_cancelled(began: Gate, ended: Gate) -> None:
    began.open()
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        ended.open()
        raise


def fails_after(began: Gate) -> None:
    began.wait(60)
    raise KeyError("beside it")


@pytest.mark.parametrize("scheduler", CANCELLING, indirect=True)
def test_one_that_is_given_up_is_cancelled(scheduler: str) -> None:
    began, ended = Gate(), Gate()
    future = submit(until_cancelled, began, ended)
    assert began.wait(60)
    assert future.cancel()
    assert ended.wait(60)
    with pytest.raises(Cancelled):
        future.result()


@pytest.mark.parametrize("scheduler", CANCELLING, indirect=True)
def test_one_whose_run_fails_is_cancelled(scheduler: str) -> None:
    began, ended = Gate(), Gate()
    with pytest.raises(KeyError, match="beside it"):
        compute(delayed(until_cancelled)(began, ended), delayed(fails_after)(began))
    assert ended.wait(60)
    assert delayed(add)(1, 2).compute() == 3


@pytest.mark.parametrize("scheduler", CANCELLING, indirect=True)
def test_one_that_a_coroutine_computes_is_cancelled_with_it(scheduler: str) -> None:
    async def outer(began: Gate, ended: Gate) -> Any:
        return delayed(until_cancelled)(began, ended).compute()

    began, ended = Gate(), Gate()
    future = submit(outer, began, ended)
    assert began.wait(60)
    assert future.cancel()
    assert ended.wait(60)
