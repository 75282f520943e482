"""Operations that need the value now: lazy values refuse them, and say what to type instead."""

from __future__ import annotations

import sys
from typing import Any


def advice(what: str, instead: str) -> TypeError:
    """Return the error for a question that only the value can answer."""
    return TypeError(f"{what} of a lazy value is not known before it is computed. {instead}")


def dtype_advice() -> TypeError:
    """Return the error for a use as a dtype."""
    return advice("The dtype", "Write np.dtype(x.dtype.compute())")


class NeedsValue:
    """The part of `Delayed` that refuses operations which need the value."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise advice(
            "The truth", "Write x.compute() in the condition, or put the 'if' inside a delayed "
            "function; where sorted, max, 'in' or a library asked for it, call that lazily: "
            "delayed(max)(a, b). To compare two lazy values for identity use 'is'."
        )

    def __contains__(self, item: Any) -> bool:
        raise advice("What is in the result", "Write: delayed(operator.contains)(x, item)")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "lazy values can't be changed: x[...] = value would change what other tasks see. "
            "Return a changed copy from a delayed function instead."
        )

    def __delitem__(self, index: Any) -> None:
        self.__setitem__(index, None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(
            f"lazy values can't be changed: x.{name} = value would change what other tasks see. "
            "Return a changed object from a delayed function instead."
        )

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __index__(self) -> int:
        raise advice("The number", "Write x.compute(), or call lazily: delayed(range)(x)")

    def __float__(self) -> float:
        raise advice("The number", "Write float(x.compute()), or delayed(float)(x)")

    def __int__(self) -> int:
        raise advice("The number", "Write int(x.compute()), or delayed(int)(x)")

    def __complex__(self) -> complex:
        raise advice("The number", "Write complex(x.compute()), or delayed(complex)(x)")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if getattr(dtype, "char", dtype) in ("O", object):  # for an array of lazy values
            cells = sys.modules["numpy"].empty(1, object)
            cells[0] = self
            return cells.reshape(())
        raise advice("The array", "Write np.asarray(x.compute()), or delayed(np.asarray)(x)")

    @property
    def __numpy_dtype__(self) -> Any:
        raise dtype_advice()
