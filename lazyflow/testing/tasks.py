"""Functions that the contract's tasks run. Workers import them, so pytest is not imported."""

from __future__ import annotations

import contextvars
from typing import Any

from lazyflow.schedulers.core.task_resources import scheduler_here
from lazyflow.testing.signals import Level

#: A context variable of a user's module.
word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")


def inc(x: Any) -> Any:
    """Add one."""
    return x + 1


def given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what it was called with."""
    return args, kwargs


def add(x: Any, y: Any) -> Any:
    """Add."""
    return x + y


def the_word(_: Any = None) -> str:
    """Return the context variable."""
    return word.get()


def change_the_word() -> str:
    """Set the context variable and return it."""
    word.set("changed")
    return word.get()


def scheduler_name(_: Any = None) -> Any:
    """Return the name of the scheduler that a compute in this task would run on."""
    return scheduler_here.get().name


def double_in_place(x: Any) -> Any:
    """Edit the argument in place."""
    x *= 2
    return x


class Odd(Exception):
    """An exception that can't be made from its message alone."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return Odd, (self.code, self.text)


class Awkward(Exception):
    """An exception that pickle can't make again: it would call the class with the message alone."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


def fail(x: Any) -> Any:
    """Raise Odd."""
    raise Odd(7, f"no {x}")


def raise_it(kind: type[BaseException], *args: Any) -> None:
    """Raise the exception that is asked for."""
    raise kind(*args)


class Counted:
    """A value that is counted while it is alive, and so are its copies in other processes.

    It says of itself that it takes `size` bytes.
    """

    def __init__(self, alive: Level, size: int = 64) -> None:
        self.alive = alive
        self.size = size
        alive.up()

    def __sizeof__(self) -> int:
        return self.size

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.alive.up()

    def __del__(self) -> None:
        try:
            self.alive.down()
        except OSError:  # the test is over
            pass
