"""A file for bars whose errors change nothing for the program."""

import logging
from collections.abc import Callable
from typing import Any

__all__ = ["QuietFile"]


class QuietFile:
    """A file for tqdm, whose errors are logged once, and after which nothing is written.

    tqdm writes with the lock taken that all bars of the program share, and lets an error pass
    without giving it back: every later bar would wait for ever.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._failed = False

    def __eq__(self, other: object) -> bool:  # tqdm asks whether it is standard error
        return self._file is other

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._file, name)
        except Exception as error:
            raise AttributeError(name) from error

    def write(self, text: str) -> None:
        self._try(lambda: self._file.write(text))

    def flush(self) -> None:
        self._try(lambda: self._file.flush())

    def _try(self, function: Callable[[], Any]) -> None:
        if self._failed:
            return
        try:
            function()
        except Exception:
            self._failed = True
            logging.getLogger("lazyflow").exception(
                "a progress bar can't be written, and is given up; results are not affected"
            )
