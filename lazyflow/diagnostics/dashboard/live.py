"""`dashboard`: a live page of the runs in this process."""

from __future__ import annotations

import argparse
import threading
from html import escape
from types import TracebackType

import numpy as np

from lazyflow import config
from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import compute
from lazyflow.diagnostics.dashboard.monitor import Monitor

__all__ = ["Dashboard", "dashboard", "main"]


class Dashboard:
    """A page, served until it is closed: see `dashboard`.

    Attributes
    ----------
    url : str
        Its address, for browsers on this machine; it contains the token that grants access.

    Examples
    --------
    >>> import lazyflow
    >>> page = lazyflow.dashboard()
    >>> page.url.startswith("http://127.0.0.1:")
    True
    >>> page.close()
    """

    def __init__(self) -> None:
        try:
            from lazyflow.diagnostics.dashboard.server import Server
        except ImportError as error:
            raise ImportError(
                "the dashboard is served by Tornado, which is not installed. Type: pip install "
                '"lazyflow[diagnostics]"'
            ) from error
        self._monitor = Monitor()
        self._server = Server(self._monitor)
        self.url = f"http://127.0.0.1:{self._server.port}/{self._server.token}/"
        self._monitor.open()

    def close(self) -> None:
        """Stop watching and serving; a second call does nothing.

        Examples
        --------
        >>> import lazyflow
        >>> lazyflow.dashboard().close()
        """
        self._monitor.close()
        self._server.close()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Dashboard at {self.url}>" if self._monitor.is_open else "<Dashboard, closed>"

    def _repr_html_(self) -> str:
        if not self._monitor.is_open:
            return escape(repr(self))
        url = escape(self.url)
        return (
            f'<a href="{url}" target="_blank">lazyflow dashboard</a>'
            f'<iframe src="{url}" width="100%" height="460" style="border:1px solid #ccc"></iframe>'
        )


def dashboard(*, open: bool = False) -> Dashboard:
    """Serve a live page of the runs of this process; a notebook shows it inline.

    It shows the stream of tasks, the progress of each function and the memory of workers during
    runs on threads, processes or in the caller's thread; for clusters it links to their own pages.
    It listens on a free port, for this machine only. While the page is open, a run costs about a
    microsecond more per task. If there are many small runs, it watches some hundreds per second,
    and the page says so.

    Parameters
    ----------
    open
        Show it in a web browser at once.

    Returns
    -------
    Dashboard
        With ``url`` and ``close()``; also a context manager.

    Raises
    ------
    ImportError
        Tornado is not installed; the message says what to type.

    Examples
    --------
    >>> import lazyflow
    >>> with lazyflow.dashboard() as page:
    ...     lazyflow.delayed(sum)([1, 2]).compute()
    3
    """
    page = Dashboard()
    if open:
        import webbrowser

        webbrowser.open(page.url)
    return page


# -- work to look at: ``python -m lazyflow dashboard --demo`` -----------------------------


def load(part: int) -> np.ndarray:
    """Return rows that take a moment to make."""
    found: np.ndarray = np.random.default_rng(part).normal(size=(20_000 + 5_000 * (part % 3), 50))
    return found


def clean(rows: np.ndarray) -> np.ndarray:
    """Return rows without what is far out."""
    return np.clip(rows, -3.0, 3.0)


def gram(rows: np.ndarray) -> np.ndarray:
    """Return the products of all columns."""
    found: np.ndarray = rows.T @ rows
    return found


def add(*parts: np.ndarray) -> np.ndarray:
    """Return the sum of arrays."""
    return np.sum(parts, axis=0)


def work(seed: int) -> float:
    """Compute one graph of about a second, by the scheduler that is set."""
    parts = [delayed(gram)(delayed(clean)(delayed(load)(seed + part))) for part in range(60)]
    while len(parts) > 1:
        parts = [delayed(add)(*parts[k:k + 4]) for k in range(0, len(parts), 4)]
    return float(np.trace(compute(parts[0])[0]))


def main(argv: list[str]) -> int:
    """Serve a dashboard, with work behind it until Ctrl-C; return the exit status."""
    parser = argparse.ArgumentParser("python -m lazyflow dashboard", description=main.__doc__)
    parser.add_argument("--demo", action="store_true", required=True, help="run graphs to look at")
    parser.add_argument("--scheduler", default="threads", help="threads, processes or sync")
    parser.add_argument("--rounds", type=int, help="end after so many graphs; else at Ctrl-C")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two graphs")
    options = parser.parse_args(argv)
    with dashboard() as page, config.set(scheduler=options.scheduler):
        print(f"dashboard: {page.url}\nend it by Ctrl-C", flush=True)
        paused = threading.Event()
        seed = 0
        try:
            while options.rounds is None or seed < options.rounds:
                work(seed)
                seed += 1
                paused.wait(options.pause)
        except KeyboardInterrupt:
            print("closed")
    return 0
