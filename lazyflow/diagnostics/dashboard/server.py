"""`dashboard`: a live page of the runs in this process, served by a thread of its own::

    threads that run tasks --> Monitor (monitor.py) <-- take_in, news -- Server --> the page

`Server` has one thread, with an event loop. It takes events in four times a second while something
runs, else every two seconds; `_wake` shortens that pause when a run begins. State::

    token :: str            in each address: it grants access, and changes with each dashboard
    port :: int             free, on loopback only
    changed :: asyncio.Event, _is_quiet :: bool     how a run wakes pages: `_is_quiet` is set by the
                            thread of the loop, and cleared by the thread that begins the run

Every user of the machine, and every web page in a browser, can ask on loopback. So requests without
the token, or from another page, are refused, and no request changes anything.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import json
import secrets
import socket
import threading
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

try:
    from tornado.httpserver import HTTPServer
    from tornado.iostream import IOStream, StreamClosedError
    from tornado.netutil import bind_sockets
    from tornado.web import Application, RequestHandler
except ImportError as error:
    raise ImportError(
        "the dashboard is served by Tornado, which is not installed. Type: pip install "
        '"lazyflow[diagnostics]"'
    ) from error

from lazyflow import config
from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import compute
from lazyflow.diagnostics.dashboard.monitor import Monitor
from lazyflow.logs import WARNING, log

# -- who may ask the dashboard, and the headers of its answers ----------------------------
#
# The page is served on loopback only, where every user of the machine and every web page that a
# browser shows could ask: so an address has a token in it, and requests from another page are
# refused. There is only GET, and no request changes anything.

_NOTEBOOKS = "http://localhost:* http://127.0.0.1:*"  # which may show the page inside of theirs

#: The headers of every answer.
HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {_NOTEBOOKS}"
    ),
    "X-Frame-Options": "DENY",  # for browsers that don't know frame-ancestors
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address has the token in it
    "Cache-Control": "no-store",
}


def refusal(
    headers: Mapping[str, str], port: int, token: str, given: str, is_page: bool
) -> int | None:
    """Return the status with which a request is refused, None if it may be answered.

    Parameters
    ----------
    given
        The token in the address that was asked for.
    is_page
        Whether it is the page itself, which a link or a notebook on another port may open.

    Examples
    --------
    >>> refusal({"Host": "127.0.0.1:80"}, 80, "secret", "secret", True)
    >>> refusal({"Host": "evil.example"}, 80, "secret", "secret", True)
    403
    >>> refusal({"Host": "localhost:80"}, 80, "secret", "guessed", True)
    401
    """
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
    if headers.get("Host", "").lower() not in hosts:
        return 403  # a name of somebody else's that was made to lead here
    origin = headers.get("Origin")
    if origin is not None and origin.lower().removeprefix("http://") not in hosts:
        return 403
    is_opened = is_page and headers.get("Sec-Fetch-Mode") == "navigate"
    if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not is_opened:
        return 403
    if not hmac.compare_digest(given.encode(), token.encode()):
        return 401
    return None


_EVERY = 0.25  # seconds between two messages to a page; a guess
_QUIET = 2.0  # the same while nothing runs: memory may still change; a guess
_PATIENCE = 10.0  # seconds for the headers of a request; a guess
_HEADERS = 16_384  # bytes of them
_STRANGERS = 32  # connections that have not shown the token; each takes a descriptor; a guess
_AGAIN = 1.0  # seconds until one is accepted again that the system has refused; a guess
_STATIC = Path(__file__).with_name("static")
_FILES = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
}


# -- the server ---------------------------------------------------------------------------


class Server:
    """Serves one monitor on a free port of loopback until it is closed.

    Attributes
    ----------
    port, token
        Parts of the address, ``http://127.0.0.1:{port}/{token}/``.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.token = secrets.token_urlsafe(24)
        self._sockets = bind_sockets(0, "127.0.0.1")
        self.port = int(self._sockets[0].getsockname()[1])
        self._ready = threading.Event()
        self._is_quiet = False
        self._thread = threading.Thread(
            target=self._serve, name="lazyflow-dashboard", daemon=True
        )
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """End all connections and the thread."""
        with contextlib.suppress(RuntimeError):  # it is closed already
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.run(self._until_end())

    async def _until_end(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end, self.changed = asyncio.Event(), asyncio.Event()
        self.monitor.wake = self._wake
        app = Application(
            [(r"/([^/]*)/(page\.js|page\.css|)", _FileHandler, {"server": self}),
             (r"/([^/]*)/events", _EventsHandler, {"server": self})],
            default_handler_class=_NothingHandler, default_handler_args={"server": self},
            log_function=lambda handler: None,
        )
        self.http = _Server(
            app, max_header_size=_HEADERS, max_body_size=0, body_timeout=_PATIENCE,
            idle_connection_timeout=_PATIENCE,
        )
        for sock in self._sockets:
            self._loop.add_reader(sock, self._accept, sock)
        collecting = asyncio.create_task(self._collect())
        self._ready.set()
        await self._end.wait()
        collecting.cancel()
        self.monitor.wake = lambda: None
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        await self.http.close_all_connections()

    def _accept(self, sock: socket.socket) -> None:
        """Accept a connection, or pause: there may be no descriptors left in this process."""
        try:
            connection, address = sock.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            log(WARNING, "the dashboard can't take a connection: %s", error)
            self._loop.remove_reader(sock)
            self._loop.call_later(_AGAIN, self._accept_again, sock)
            return
        self.http.handle_stream(IOStream(connection), address)

    def _accept_again(self, sock: socket.socket) -> None:
        if sock.fileno() >= 0:
            self._loop.add_reader(sock, self._accept, sock)

    async def _collect(self) -> None:
        """Take in events, which would pile up while no page is open."""
        while True:
            self.monitor.take_in()
            await self.pause()

    def _wake(self) -> None:
        """Have pages told soon, if they are told seldom now: that costs as much as a small run."""
        if not self._is_quiet:
            return
        self._is_quiet = False
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.changed.set)

    async def pause(self) -> None:
        """Wait until there may be news for a page."""
        if self.monitor.is_busy():
            await asyncio.sleep(_EVERY)
            return
        self.changed.clear()
        self._is_quiet = True
        if self.monitor.is_busy():  # since just now, without waking this thread
            return
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.changed.wait(), _QUIET)


class _Server(HTTPServer):
    """Has few connections that have not shown the token: the oldest makes room for a new one.

    Any process of the machine may connect, as often as it likes.
    """

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        super().initialize(*args, **kwargs)
        self.strangers: dict[IOStream, None] = {}

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        while len(self.strangers) >= _STRANGERS:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.close()
        self.strangers[stream] = None
        super().handle_stream(stream, address)

    def on_close(self, server_conn: Any) -> None:
        self.strangers.pop(server_conn.stream, None)
        super().on_close(server_conn)


class _GuardedHandler(RequestHandler):
    """Refuses requests that are not for us, with the status alone."""

    SUPPORTED_METHODS = ("GET",)
    is_page = False

    def initialize(self, server: Server) -> None:
        self.server = server

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    def prepare(self) -> None:
        given = self.path_args[0] if self.path_args else ""
        status = refusal(
            self.request.headers, self.server.port, self.server.token, given or "", self.is_page
        )
        if status is not None:
            self.send_error(status)
            return
        connection: Any = self.request.connection
        self.server.http.strangers.pop(connection.stream, None)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code}: {self._reason}\n")


class _NothingHandler(_GuardedHandler):
    def get(self, *parts: str) -> None:
        self.send_error(404)


class _FileHandler(_GuardedHandler):
    def prepare(self) -> None:
        self.is_page = not self.path_args[1]
        super().prepare()

    def get(self, token: str, name: str) -> None:
        file, kind = _FILES[name]
        self.set_header("Content-Type", kind)
        self.finish((_STATIC / file).read_bytes())


class _EventsHandler(_GuardedHandler):
    """A stream of changes for one page, as an EventSource reads it."""

    async def get(self, token: str) -> None:
        self.set_header("Content-Type", "text/event-stream")
        seen = 0
        with contextlib.suppress(StreamClosedError, asyncio.CancelledError):  # its end, or ours
            while True:
                news = self.server.monitor.news(seen)
                seen = news["count"]
                self.write(f"data: {json.dumps(news)}\n\n")
                await self.flush()
                await self.server.pause()


# -- the command -------------------------------------------------------------------------------


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

    def __exit__(self, *error: object) -> None:
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
    """Return rows without outliers."""
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
