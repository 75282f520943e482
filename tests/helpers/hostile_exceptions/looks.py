"""Exceptions whose text, attributes or class raise when they are looked at."""

import dataclasses
from typing import Any

from hostile_exceptions.cases import case, says
from hostile_exceptions.pickling import StaysBehind
from lazyflow.errors import RemoteTaskError


class StrRaises(Exception):
    __str__ = __repr__ = says(RuntimeError("no str"))


@case(StrRaises, None)
def str_raises() -> None:
    raise StrRaises("text")


class StrExits(StaysBehind):
    __str__ = __repr__ = says(SystemExit(5))


@case(RemoteTaskError, "StrExits((its text can't be had: __str__ raised SystemExit))")
def str_exits() -> None:
    raise StrExits


class StrGivesInt(StaysBehind):
    def __str__(self) -> Any:
        return 3


@case(RemoteTaskError, "StrGivesInt((its text can't be had: __str__ raised TypeError))")
def str_gives_an_int() -> None:
    raise StrGivesInt


class Words(str):
    __slots__ = ()
    __len__ = __getitem__ = __str__ = __format__ = says(RuntimeError("no words"))


class StrGivesSubclass(StaysBehind):
    def __str__(self) -> str:
        return Words("words")


@case(RemoteTaskError, "StrGivesSubclass(words)")
def str_gives_a_hostile_subclass() -> None:
    raise StrGivesSubclass


class AttributesRaise(Exception):
    __getattribute__ = __setattr__ = __delattr__ = says(RuntimeError("no attributes"))


@case(AttributesRaise, "text")
def attributes_raise() -> None:
    raise AttributesRaise("text")


class Overrides(Exception):
    """Has the names that an exception is read by."""

    args = __cause__ = __context__ = __traceback__ = __notes__ = __dict__ = property(  # type: ignore[assignment]
        says(RuntimeError("no property"))
    )


@case(Overrides, "text")
def properties_raise() -> None:
    raise Overrides("text")


class Lies(Exception):
    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return int


@case(Lies, "text")
def class_lies() -> None:
    raise Lies("text")


class Meta(type):
    __eq__ = says(RuntimeError("no meta"))  # type: ignore[assignment]
    __hash__ = type.__hash__
    __mro__ = __dict__ = property(says(RuntimeError("no meta")))  # type: ignore[assignment]


class Metaclassed(Exception, metaclass=Meta):
    pass


@case(Metaclassed, "text")
def metaclass_raises() -> None:
    raise Metaclassed("text")


@case(RemoteTaskError, "Hashless(text)")
def metaclass_has_no_hash() -> None:
    # Made here, in the child: libraries that register all exception classes would stumble.
    class HashlessMeta(type):
        __hash__ = says(RuntimeError("no hash"))  # type: ignore[assignment]

    class Hashless(Exception, metaclass=HashlessMeta):
        pass

    raise Hashless("text")


class Slotted(Exception):
    __slots__ = ("unset", "x", "y")

    def __init__(self, x: int, y: int) -> None:
        super().__init__()
        self.x, self.y = x, y

    def __str__(self) -> str:
        return f"{self.x}, {self.y}"


@case(Slotted, "1, None")
def slots() -> None:
    raise Slotted(1, None)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    x: int

    def __str__(self) -> str:
        return f"x is {self.x}"


@case(Frozen, "x is 3")
def frozen() -> None:
    raise Frozen(3)


class NewNeeds(Exception):
    def __new__(cls, *args: Any, must: int) -> Any:
        return super().__new__(cls, *args)

    def __init__(self, *args: Any, must: int) -> None:
        super().__init__(*args)
        self.must = must


@case(NewNeeds, "text")
def new_needs_a_keyword() -> None:
    raise NewNeeds("text", must=1)
