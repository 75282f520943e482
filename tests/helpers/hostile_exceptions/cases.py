"""Each case raises an exception, with what is expected of it in the caller: its type and text."""

from typing import Any

CASES: dict[str, Any] = {}


def case(kind: type[BaseException], text: str | None) -> Any:
    def add(function: Any) -> Any:
        CASES[function.__name__] = (function, kind, text)
        return function

    return add


def says(*words: Any) -> Any:
    """Return a method that raises what it is given."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise words[0]

    return method
