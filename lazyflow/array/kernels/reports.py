"""NumPy's floating-point reports, once per kind for a whole run."""

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
    """Return the modes while reports are collected, given those of np.geterr in its order."""
    kinds = ("divide", "over", "under", "invalid")
    return {
        kind: mode if mode in ("ignore", "raise") else "call"
        for kind, mode in zip(kinds, modes, strict=True)
    }


#: What was shown, by file: with Python's own filters a line warns once.
_shown: dict[str, dict[Any, Any]] = {}

#: What was told in this run, where a run has a context of its own.
_run: ContextVar[dict[Arrived, dict[str, object]]] = ContextVar("run")


class Told:
    """What the blocks of one array have warned of: each warning is made once, at the user's line.

    made_at
        Code and offset that made the array, or file and line.
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
        """Warn, unless it was done."""
        mine = object()
        if self._told().setdefault(words, mine) is mine:
            file, line = self.place
            seen = _shown.setdefault(file, {})
            warnings.warn_explicit(words, RuntimeWarning, file, line, registry=seen)

    def _told(self) -> dict[str, object]:
        return self._words

    def __reduce__(self) -> Any:
        return Arrived, (self.place,)


class Arrived(Told):
    """One that came to a worker, which keeps it with the function for later runs of the same.

    Each run warns again: the caller knows what it has shown.
    """

    def _told(self) -> dict[str, object]:
        run = _run.get(None)
        if run is None:
            _run.set(run := {})
        return run.setdefault(self, {})


class Collected:
    """A block in which reports are collected; at its end each is made once, as was asked for.

    `now` is what is running, for the words of the report. Kinds that raise still do at once.
    `told` makes the warnings.
    """

    def __init__(self, told: Told | None = None) -> None:
        self.now: str = ""
        self._told = told
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
                _report(self._before[_KINDS[text]], text, name, self._told)


def _report(mode: str, text: str, name: str, told: Told | None) -> None:
    words = f"{text} encountered in {name}"
    handler: Any = np.geterrcall()
    if mode == "warn" and told is not None:
        told.warn(words)
    elif mode == "warn":
        warnings.warn(words, RuntimeWarning, stacklevel=4)
    elif mode == "print":
        print(f"Warning: {words}")
    elif mode == "log":
        handler.write(f"Warning: {words}\n")
    elif mode == "call":
        handler(text, {"divide": 1, "over": 2, "under": 4, "invalid": 8}[_KINDS[text]])
