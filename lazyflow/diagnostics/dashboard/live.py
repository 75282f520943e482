"""`dashboard`: a live page of what runs in this process."""

from __future__ import annotations

from html import escape
from types import TracebackType

from lazyflow.diagnostics.dashboard.monitor import Monitor

__all__ = ["Dashboard", "dashboard"]


class Dashboard:
    """A page that is served until it is closed: see `dashboard`.

    Attributes
    ----------
    url : str
        Its address, for browsers on this machine; the token in it is what lets them in.

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
        """Stop watching and serving; a second time does nothing.

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

    It has the stream of tasks, the progress of each function and the memory of workers, while runs
    on threads, processes or in the caller's thread go on; clusters have pages of their own, to
    which it links. It is reached from this machine only, on a free port. A run costs about a
    microsecond more per task while the page is there; of many small runs a second it watches some
    hundreds, and the page says so.

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
