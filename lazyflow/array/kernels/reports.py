"""NumPy's floating-point reports, once per kind for a whole run."""

from __future__ import annotations

import warnings
from functools import lru_cache
from types import TracebackType
from typing import Any

import numpy as np

_KINDS = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}


@lru_cache(64)
def _collecting(*modes: str) -> dict[str, Any]:
    """Return the modes while reports are collected, given those of np.geterr in its order."""
    kinds = ("divide", "over", "under", "invalid")
    return {
        kind: mode if mode in ("ignore", "raise") else "call"
        for kind, mode in zip(kinds, modes, strict=True)
    }


class Collected:
    """A block in which reports are collected; at its end each is made once, as was asked for.

    `now` is what is running, for the words of the report. Kinds that raise still do at once.
    """

    def __init__(self) -> None:
        self.now: str = ""
        self._found: dict[str, str] = {}

    def _note(self, text: str, flag: int) -> None:
        self._found.setdefault(text, self.now)

    def __enter__(self) -> Collected:
        before: Any = np.geterr()
        self._before = before
        modes = _collecting(*before.values())
        self._state = np.errstate(call=self._note, **modes)
        self._state.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._state.__exit__(kind, error, trace)
        if kind is None and self._found:
            for text, name in self._found.items():
                _report(self._before[_KINDS[text]], text, name)


def _report(mode: str, text: str, name: str) -> None:
    words = f"{text} encountered in {name}"
    handler: Any = np.geterrcall()
    if mode == "warn":
        warnings.warn(words, RuntimeWarning, stacklevel=4)
    elif mode == "print":
        print(f"Warning: {words}")
    elif mode == "log":
        handler.write(f"Warning: {words}\n")
    elif mode == "call":
        handler(text, {"divide": 1, "over": 2, "under": 4, "invalid": 8}[_KINDS[text]])
