"""Exceptions that pickle badly, or not at all."""

import copyreg
import os
import threading
from typing import Any

from hostile_exceptions.cases import case, says
from lazyflow.errors import RemoteTaskError

PARENT = os.environ.get("LAZYFLOW_TEST_PARENT") is None

class TwoArguments(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


@case(TwoArguments, "7: no")
def two_arguments() -> None:
    raise TwoArguments(7, "no")


class Wraps(Exception):
    def __init__(self, what: object) -> None:
        super().__init__(f"failed with {what}")


@case(Wraps, "failed with 3")
def a_message_made_of_its_argument() -> None:
    raise Wraps(3)


class Holds(Exception):
    """Needs another exception."""

    def __init__(self, code: int, inner: BaseException) -> None:
        super().__init__(inner)


@case(Holds, "7: no")
def one_that_holds_another() -> None:
    raise Holds(1, TwoArguments(7, "no"))


class Locked(Exception):
    def __init__(self) -> None:
        super().__init__("it holds a lock")
        self.lock = threading.Lock()


@case(Locked, "it holds a lock")
def a_lock() -> None:
    raise Locked


@case(ValueError, "('text', <locked>, 3)")
def an_argument_with_a_lock() -> None:
    error: Any = ValueError("text", Shown(), 3)
    error.me, error.lock, error.code = [error], threading.Lock(), 7
    raise error


class Shown:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __repr__(self) -> str:
        return "<locked>"


class StaysBehind(Exception):
    __reduce__ = says(TypeError("cannot pickle it"))


@case(RemoteTaskError, "Stays(it) ... (ValueError: not ready)")
def a_class_that_stays_behind() -> None:
    class Stays(Exception):
        x = FailsToTravel()

    raise Stays("it")


class FailsToTravel:
    __reduce__ = says(ValueError("not ready"))


class ReduceRaises(Exception):
    __reduce__ = says(RuntimeError("no reduce"))


@case(RemoteTaskError, "ReduceRaises(text) ... . It can't be pickled (RuntimeError: no reduce)")
def reduce_raises() -> None:
    raise ReduceRaises("text")


class ReduceExits(Exception):
    __reduce__ = says(SystemExit(3))


@case(RemoteTaskError, "ReduceExits(text)")
def reduce_exits() -> None:
    raise ReduceExits("text")


class ReduceInterrupts(Exception):
    __reduce_ex__ = says(KeyboardInterrupt())


@case(RemoteTaskError, "ReduceInterrupts(text)")
def reduce_interrupts() -> None:
    raise ReduceInterrupts("text")


class ReduceJunk(Exception):
    def __reduce__(self) -> Any:
        return 3


@case(RemoteTaskError, "ReduceJunk(text)")
def reduce_gives_junk() -> None:
    raise ReduceJunk("text")


class ReduceOther(Exception):
    def __reduce__(self) -> Any:
        return ValueError, ("other",)


@case(RemoteTaskError, "ReduceOther(text) ... (TypeError: unpickling it gives ValueError)")
def reduce_gives_another_type() -> None:
    raise ReduceOther("text")


class ReduceWell(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")
        self.a, self.b, self.lock = a, b, threading.Lock()

    def __reduce__(self) -> Any:
        return ReduceWell, (self.a, self.b)


@case(ReduceWell, "1 and 2")
def reduce_leaves_out_a_lock() -> None:
    raise ReduceWell(1, 2)


class Registered(Exception):
    pass


copyreg.pickle(Registered, lambda error: (Registered, ("registered",)))  # type: ignore[arg-type]


@case(Registered, "registered")
def registered_with_copyreg() -> None:
    raise Registered("first")


def unpickled(place: str, text: str) -> Exception:
    if (place == "caller") == PARENT:
        raise RuntimeError("not here")
    return Unpickles(place, text)


class Unpickles(Exception):
    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place

    def __reduce__(self) -> Any:
        return unpickled, (self.place, self.args[0])


@case(RemoteTaskError, "Unpickles(text) ... . It can't be unpickled here (RuntimeError: not here)")
def unpickling_fails_in_the_caller() -> None:
    raise Unpickles("caller", "text")


@case(RemoteTaskError, "Unpickles(text) ... . It can't be pickled (RuntimeError: not here)")
def unpickling_fails_in_the_worker() -> None:
    raise Unpickles("worker", "text")


def junk_in_the_caller() -> Any:
    return 3 if PARENT else GivesJunk("text")


class GivesJunk(Exception):
    def __reduce__(self) -> Any:
        return junk_in_the_caller, ()


@case(RemoteTaskError, "GivesJunk(text) ... . It can't be unpickled here (it gives int)")
def unpickling_gives_junk_in_the_caller() -> None:
    raise GivesJunk("text")


class Renamed(Exception):
    pass


Renamed.__name__ = "Another"


@case(Renamed, "text")
def a_class_of_another_name() -> None:
    raise Renamed("text")


OfNoModule = eval("type('OfNoModule', (Base,), {})", {"Base": StaysBehind})


@case(RemoteTaskError, "a task raised OfNoModule(text)")
def a_class_of_no_module() -> None:
    raise OfNoModule("text")


class StateRaises(Exception):
    __setstate__ = says(SystemExit(4))

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.x = 1


@case(RemoteTaskError, "StateRaises(text)")
def setstate_exits() -> None:
    raise StateRaises("text")
