"""A program whose types `test_types.py` has checkers reveal: each is in the comment of its line."""

from __future__ import annotations

from typing import reveal_type

import lazyflow
from lazyflow import Delayed, Future, compute, delayed, from_map, persist, put, submit


@delayed
def add(x: int, y: int = 2) -> int:
    return x + y


@delayed(pure=True, nout=2)
def split(text: str) -> tuple[str, float]:
    return text, 1.0


@delayed
async def fetch(url: str) -> bytes:
    return b""


class Model:
    def __init__(self, width: int) -> None:
        self.width = width

    @delayed
    def fit(self, rows: list[float]) -> float:
        return sum(rows)


class Counter:
    def add(self, k: int) -> int:
        return k


reveal_type(add)  # DelayedFunction[(x: int, y: int = 2), int]
reveal_type(delayed(add))  # DelayedFunction[(x: int, y: int = 2), int]
reveal_type(add(1))  # Delayed[int]
reveal_type(add(add(1), y=add(2), dask_key_name="sum"))  # Delayed[int]
reveal_type(add(1).compute())  # int
reveal_type(add(1).persist())  # Delayed[int]
reveal_type(split("a"))  # Delayed[tuple[str, float]]
reveal_type(fetch("u").compute())  # bytes
reveal_type(Model(1).fit([1.0]))  # Delayed[float]
reveal_type(delayed(Model)(add(3)).compute())  # Model
reveal_type(delayed(len)("abc"))  # Delayed[int]
reveal_type(delayed(5))  # Delayed[int]
reveal_type(delayed([add(1)]).compute())  # list[int]
reveal_type(add(1) + 1 - add(2))  # Delayed[Any]
reveal_type(2 * -add(1))  # Delayed[Any]
reveal_type(add(1) == 2)  # Delayed[Any]
reveal_type(add(1).real[0])  # Delayed[Any]
reveal_type(compute(add(1), split("b")))  # tuple[int, tuple[str, float]]
reveal_type(compute(add(1), scheduler="sync"))  # tuple[int]
reveal_type(compute([add(1)]))  # tuple[list[int]]
reveal_type(compute({"a": add(1)}, 3))  # tuple[Any, ...]
reveal_type(persist(add(1), split("b")))  # tuple[Delayed[int], Delayed[tuple[str, float]]]
reveal_type(submit(add, 1))  # Future[int]
reveal_type(submit(len, add(1)).result())  # int
reveal_type(submit(fetch.__wrapped__, "u").result())  # bytes
reveal_type(lazyflow.map(str, [1, 2]))  # list[Future[str]]
reveal_type(put([1.0]).result())  # list[float]
reveal_type(from_map(len, ["a"]))  # list[Delayed[int]]
reveal_type(lazyflow.actor(Counter)().add(1))  # Future[Any]


async def awaits() -> None:
    reveal_type(await add(1))  # int
    reveal_type(await submit(len, "a"))  # int


value: Delayed[int] = add(1)
future: Future[int] = submit(add, value)
text: str = value.compute()  # error
delayed(len, pur=True)  # error
delayed(pur=True)  # error
compute(value, schedular="sync")  # error
