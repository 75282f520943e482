"""A model behind HTTP: requests are gathered into batches, which replicas of the model answer.

``POST /predict`` with ``{"rows": [[...], ...]}`` answers ``{"predictions": [...]}``. Rows of
several requests go to a replica together, once there are `size` of them or the first has waited
`patience` seconds; replicas are actors of an `ActorPool`, so the next batch goes to one that is
free. When `limit` rows wait, further requests are refused with status 503, and clients come again
later. A replica that dies loses the requests that it ran (status 500), and starts again.

By default the server listens on this machine only.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import lazyflow

REPLICAS, CLIENTS, REQUESTS = 2, 8, 400


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the handwritten digits, 8 by 8 pixels from 0 to 1, and what they are."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16, y


class DigitModel:
    """Knows the handwritten digits with odd numbers, and finds those that are nearest."""

    def __init__(self) -> None:
        from sklearn.neighbors import KNeighborsClassifier

        X, y = digits()
        self._model = KNeighborsClassifier(3).fit(X[1::2], y[1::2])

    def predict(self, rows: np.ndarray) -> list[int]:
        """Return the digit of each row."""
        return [int(digit) for digit in self._model.predict(rows)]


class Overloaded(Exception):
    """More rows wait than may: the caller comes again later."""


class Batcher:
    """Gathers rows of requests, and has batches of them predicted by a pool.

    Parameters
    ----------
    pool
        Of actors with a method ``predict(rows)``.
    size
        The most rows of a batch, unless a single request has more.
    patience
        The most seconds that a row waits for others.
    limit
        The most rows that wait or are under way; `Overloaded` is raised for more.
    """

    def __init__(
        self, pool: lazyflow.ActorPool, size: int = 64, patience: float = 0.003, limit: int = 1024
    ) -> None:
        self._pool = pool
        self._size = size
        self._patience = patience
        self._limit = limit
        self._rows = 0  # that wait or are under way
        self._waiting: list[tuple[np.ndarray, asyncio.Future[Any]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.batches: list[int] = []  # rows of each

    async def predict(self, rows: np.ndarray) -> list[Any]:
        """Return the predictions of some rows."""
        if self._rows + len(rows) > self._limit:
            raise Overloaded(f"{self._rows} rows wait already")
        if sum(len(each) for each, _ in self._waiting) + len(rows) > self._size:
            self._send()
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[Any]] = loop.create_future()
        self._waiting.append((rows, found))
        self._rows += len(rows)
        if sum(len(each) for each, _ in self._waiting) >= self._size:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(self._patience, self._send)
        try:
            return await found
        finally:
            self._rows -= len(rows)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        task = asyncio.get_running_loop().create_task(self._answer(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, batch: list[tuple[np.ndarray, asyncio.Future[Any]]]) -> None:
        rows = np.concatenate([each for each, _ in batch])
        self.batches.append(len(rows))
        try:
            predicted = await self._pool.submit(lambda model, rows: model.predict(rows), rows)
        except Exception as error:
            for _, found in batch:
                if not found.done():
                    found.set_exception(error)
            return
        at = 0
        for each, found in batch:
            if not found.done():  # its client may be gone
                found.set_result(predicted[at : at + len(each)])
            at += len(each)


def application(make: Callable[[], Batcher], columns: int) -> Any:
    """Return an application of Starlette; `make` is called in its event loop."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        app.state.batcher = make()
        yield
        app.state.batcher = None

    async def predict(request: Request) -> JSONResponse:
        try:
            rows = np.asarray((await request.json())["rows"], float)
            if rows.ndim != 2 or rows.shape[1] != columns or not len(rows):
                raise ValueError(f"rows must be lists of {columns} numbers, one row at least")
        except (ValueError, TypeError, KeyError) as error:
            return JSONResponse({"error": str(error)}, 400)
        try:
            return JSONResponse({"predictions": await app.state.batcher.predict(rows)})
        except Overloaded as error:
            return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1"})
        except lazyflow.WorkerDied as error:
            return JSONResponse({"error": str(error)}, 500)

    app = Starlette(routes=[Route("/predict", predict, methods=["POST"])], lifespan=lifespan)
    return app


@contextmanager
def serving(app: Any, host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """Serve an application by uvicorn in a thread; yield its port, a free one if `port` is 0."""
    import uvicorn

    began = threading.Event()  # or it could not

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            began.set()

    server = Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))

    def run() -> None:
        try:
            server.run()
        finally:
            began.set()

    thread = threading.Thread(target=run, name="serving")
    thread.start()
    try:
        began.wait()
        if not server.started:
            raise OSError(f"the server could not start at {host}:{port}")
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def ask(connection: http.client.HTTPConnection, rows: Any) -> tuple[int, dict[str, Any]]:
    """Send a request; return status and content of the answer."""
    connection.request("POST", "/predict", json.dumps({"rows": np.asarray(rows).tolist()}))
    answer = connection.getresponse()
    found: dict[str, Any] = json.loads(answer.read())
    return answer.status, found


class Served(NamedTuple):
    """The results of the clients: answers that were right, requests a second, rows a batch."""

    right: int
    rate: float
    rows: float

    @property
    def reached(self) -> bool:
        """Whether all were answered, nearly all rightly."""
        return self.right >= 0.95 * REQUESTS


def main(scheduler: str = "threads") -> Served:
    """Serve the digits with even numbers to eight clients on this machine and print how."""
    X, y = (each[::2] for each in digits())
    print(
        f"Serving: {REPLICAS} replicas, {CLIENTS} clients, {REQUESTS} requests of one digit, "
        f"scheduler {scheduler}"
    )
    with lazyflow.config.set(scheduler=scheduler):
        model = lazyflow.actor(DigitModel, restarts=3)
        batcher = Batcher(lazyflow.ActorPool([model() for _ in range(REPLICAS)]))
        with serving(application(lambda: batcher, columns=64)) as port:
            def client(k: int) -> int:
                connection = http.client.HTTPConnection("127.0.0.1", port)
                mine = range(k, REQUESTS, CLIENTS)
                answers = [ask(connection, X[i : i + 1])[1] for i in mine]
                connection.close()
                return sum(a["predictions"] == [y[i]] for i, a in zip(mine, answers, strict=True))

            client(CLIENTS - 1)  # the replicas are there now
            batcher.batches.clear()
            began = perf_counter()
            with ThreadPoolExecutor(CLIENTS) as clients:
                right = sum(clients.map(client, range(CLIENTS)))
            seconds = perf_counter() - began
    served = Served(right, REQUESTS / seconds, float(np.mean(batcher.batches)))
    print(f"  {served.rate:.0f} requests/s, {served.rows:.1f} rows a batch")
    verdict = "ok" if served.reached else "MISSED"
    print(f"  {right} of {REQUESTS} answers right; goal >= 95 %  {verdict}")
    return served
