"""NumPy's floating-point reports, once per kind for a whole run.

While a program runs, NumPy's reports are collected by kind, with the first operation that made each
one; at the end they go where the caller's `np.errstate` sends them. Kinds that are to raise do so
at once. Warnings of the blocks of an array are made once, at the line where the user made it: in
this process once for the array, in a worker once for each run, as only the caller knows which ones
were shown.
"""

from __future__ import annotations

import warnings
from contextvars import ContextVar
from functools import lru_cache
from types import TracebackType
from typing import Any

import numpy as np

from lazyflow.graph.task import line_of

_KINDS = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}


@lru_cache(64)
def _collecting(*modes: str) -> dict[str, Any]:
    """Return the modes while reports are collected, given those of `np.geterr` in its order."""
    kinds = ("divide", "over", "under", "invalid")
    return {
        kind: mode if mode in ("ignore", "raise") else "call"
        for kind, mode in zip(kinds, modes, strict=True)
    }


#: Python's registries of the warnings that were shown, by file: by its filters a line warns once.
_shown: dict[str, dict[Any, Any]] = {}

#: The warnings that were made in this run, where a run has a context of its own.
_run: ContextVar[dict[ReceivedWarnings, dict[str, object]]] = ContextVar("run")


class ArrayWarnings:
    """The warnings of the blocks of one array: each is made once, at the user's line.

    made_at
        The code and the offset at which the user made the array, or the file and the line.
    """

    def __init__(self, made_at: tuple[Any, int]) -> None:
        self._made_at = made_at
        self._words: dict[str, object] = {}

    @property
    def place(self) -> tuple[str, int]:
        """The file and the line."""
        code, at = self._made_at
        return (code, at) if isinstance(code, str) else (code.co_filename, line_of(code, at))

    def warn(self, words: str) -> None:
        """Make a warning, unless it has been made."""
        mine = object()
        if self._made().setdefault(words, mine) is mine:
            file, line = self.place
            seen = _shown.setdefault(file, {})
            warnings.warn_explicit(words, RuntimeWarning, file, line, registry=seen)

    def _made(self) -> dict[str, object]:
        return self._words

    def __reduce__(self) -> Any:
        return ReceivedWarnings, (self.place,)


class ReceivedWarnings(ArrayWarnings):
    """`ArrayWarnings` in a worker, which keeps them with the function for its later runs.

    Each run warns again: the caller knows which warnings it has shown.
    """

    def _made(self) -> dict[str, object]:
        run = _run.get(None)
        if run is None:
            _run.set(run := {})
        return run.setdefault(self, {})


class FloatReports:
    """A context in which NumPy's reports are collected; at its end each is made once.

    `now` is the name of the running operation, for the report. Kinds that are to
    raise do so at once. `array_warnings` makes the warnings.
    """

    def __init__(self, array_warnings: ArrayWarnings | None = None) -> None:
        self.now: str = ""
        self._warnings = array_warnings
        self._found: dict[str, str] = {}

    @property
    def kinds(self) -> set[str]:
        """The kinds of reports so far, by the names of `np.geterr`."""
        return {_KINDS[text] for text in self._found}

    def _note(self, text: str, flag: int) -> None:
        self._found.setdefault(text, self.now)

    def __enter__(self) -> FloatReports:
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
                _report(self._before[_KINDS[text]], text, name, self._warnings)


def _report(mode: str, text: str, name: str, array_warnings: ArrayWarnings | None) -> None:
    words = f"{text} encountered in {name}"
    handler: Any = np.geterrcall()
    if mode == "warn" and array_warnings is not None:
        array_warnings.warn(words)
    elif mode == "warn":
        warnings.warn(words, RuntimeWarning, stacklevel=4)
    elif mode == "print":
        print(f"Warning: {words}")
    elif mode == "log":
        handler.write(f"Warning: {words}\n")
    elif mode == "call":
        handler(text, {"divide": 1, "over": 2, "under": 4, "invalid": 8}[_KINDS[text]])
