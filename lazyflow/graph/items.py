"""The length of a result that has several parts, and the parts themselves."""

from __future__ import annotations

from typing import Any


def check_length(value: Any, nout: int, name: str) -> None:
    """Raise ValueError when the length of a result is not the declared one."""
    if nout == 0 and value is None:
        return
    try:
        length = len(value)
    except TypeError:
        raise ValueError(
            f"{name} was declared to return {nout} values (nout={nout}), but returned one "
            f"{type(value).__name__}, which has no length"
        ) from None
    if length != nout:
        raise ValueError(
            f"{name} was declared to return {nout} values (nout={nout}), but returned {length}"
        )
    if isinstance(value, set | frozenset) or (
        isinstance(value, dict) and any(i not in value for i in range(nout))
    ):
        raise ValueError(
            f"{name} was declared to return {nout} values (nout={nout}), but returned a "
            f"{type(value).__name__}, whose parts have no numbers. Leave nout= out and take parts "
            "by x[key], or return a tuple"
        )


class Item:
    """Takes item `index` of a result, after a check that the result has `length` items."""

    __slots__ = ("index", "length", "maker")

    def __init__(self, index: int, length: int, maker: str) -> None:
        self.index = index
        self.length = length
        self.maker = maker

    @property
    def __name__(self) -> str:
        return f"{self.maker}[{self.index}]"

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not tuple or len(value) != self.length:
            check_length(value, self.length, self.maker)
        return value[self.index]

    def __reduce__(self) -> tuple[Any, ...]:
        return Item, (self.index, self.length, self.maker)
