"""Exceptions that hold too much, themselves, or one another, and those of Python."""

import asyncio
import functools
import sys
import threading
from typing import Any

from hostile_exceptions.cases import case, says
from hostile_exceptions.pickling import Locked, StaysBehind, TwoArguments
from lazyflow.errors import RemoteTaskError


class NotesJunk(Exception):
    __notes__ = 5


@case(NotesJunk, "text")
def notes_are_no_list() -> None:
    raise NotesJunk("text")


class Note:
    __str__ = __repr__ = __reduce__ = says(RuntimeError("no note"))


@case(ValueError, "text")
def a_note_raises() -> None:
    error = ValueError("text")
    error.__notes__ = [Note()]  # type: ignore[list-item]
    raise error


@case(ValueError, "x" * 10_000 + "... (30000000 characters in all)")
def a_message_of_30_mb() -> None:
    raise ValueError("x" * 30_000_000)


@case(ValueError, "text")
def a_payload_of_65_mb() -> None:
    error = ValueError("text")
    error.payload = bytes(65 << 20)  # type: ignore[attr-defined]
    raise error


@case(RecursionError, "maximum recursion depth exceeded")
def recursion() -> None:
    recursion()


@case(ValueError, "<list>")
def an_argument_too_deep() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    raise ValueError(deep)


class KeepsItself(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("text")
        self.me = self


@case(KeepsItself, "text")
def one_that_keeps_itself() -> None:
    raise KeepsItself(1, 2)


@case(ValueError, "\ud800 \x00")
def a_lone_surrogate() -> None:
    raise ValueError("\ud800 \x00")


@case(SystemExit, "7")
def system_exit() -> None:
    sys.exit(7)


@case(KeyboardInterrupt, "")
def keyboard_interrupt() -> None:
    raise KeyboardInterrupt


@case(GeneratorExit, "")
def generator_exit() -> None:
    raise GeneratorExit


@case(StopIteration, "3")
def stop_iteration() -> None:
    raise StopIteration(3)


@case(asyncio.CancelledError, "text")
def cancelled() -> None:
    raise asyncio.CancelledError("text")


class Group(ExceptionGroup):
    exceptions = property(says(RuntimeError("no members")))  # type: ignore[assignment]


@case(Group, "two (2 sub-exceptions)")
def a_group_that_hides_its_members() -> None:
    raise Group("two", [ValueError(1), StaysBehind("here")])


class GroupThatStays(ExceptionGroup):
    __reduce__ = says(TypeError("cannot pickle it"))


@case(RemoteTaskError, "GroupThatStays(one (1 sub-exception))")
def a_group_that_stays_behind() -> None:
    raise GroupThatStays("one", [ValueError(1)])


@case(ExceptionGroup, "one (1 sub-exception)")
def a_group_with_a_lock() -> None:
    error: Any = ExceptionGroup("one", [Locked()])
    error.lock = threading.Lock()
    raise error


@case(RuntimeError, "text")
def a_cycle_of_causes() -> None:
    one, two = RuntimeError("text"), TwoArguments(1, "two")
    two.__cause__ = two.__context__ = one
    two.one = one  # type: ignore[attr-defined]
    one.__context__ = one
    raise one from two


@case(ValueError, "text")
def code_of_a_strange_name() -> None:
    exec(compile("raise ValueError('text')", "\ud800\n\x1b", "exec"), {"__name__": 3})


@case(RemoteTaskError, "Gone(text)")
def a_class_that_only_the_worker_has() -> None:
    Gone = type("Gone", (Exception,), {"__module__": __name__})
    globals()["Gone"] = Gone
    raise Gone("text")


@functools.cache
def hidden() -> type[Exception]:
    class Local(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__("text")

    return Local


@case(Exception, "text")
def a_local_class() -> None:
    raise hidden()(1, 2)
