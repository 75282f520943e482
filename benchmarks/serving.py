"""A model behind HTTP on this machine: lazyflow's example, a plain uvicorn application, Ray Serve.

All sides serve the same model, k nearest neighbours of the digits. Clients are threads of a process
of their own, each with one connection, that send requests of one row and wait for each answer.
lazyflow and Ray have two replicas and gather rows into batches; the plain application calls the
model in its event loop, a row at a time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import bench as common
from benchmarks.command import Suite
from benchmarks.measure import Label, Table, Turn
from benchmarks.shapes import WORKERS
from benchmarks.sides import Ray

SIDES = ("lazyflow", "threads", "plain", "ray")

CLIENT = """
import http.client, json, sys, threading, time
from lazyflow.learn.examples.serving import ask, digits
port, clients, requests = map(int, sys.argv[1:])
X, y = (each[::2] for each in digits())
right = []
def client(k):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for i in range(k, requests, clients):
        _, found = ask(connection, X[i % len(X)][None])
        right.append(found["predictions"] == [int(y[i % len(X)])])
threads = [threading.Thread(target=client, args=(k,)) for k in range(clients)]
began = time.perf_counter()
for thread in threads: thread.start()
for thread in threads: thread.join()
print(time.perf_counter() - began, sum(right) / requests)
"""


@dataclass(frozen=True)
class Size(common.Turns):
    """How much is measured."""

    clients: int
    requests: int


SIZES = {
    "tiny": Size(1, 1, clients=2, requests=10),
    "small": Size(3, 1, clients=8, requests=200),
    "full": Size(5, 3, clients=16, requests=2000),
}


class Bench(common.Bench):
    """The servers, each started on first use."""

    def __init__(self, size: Size, repeat: int | None = None) -> None:
        super().__init__(size, SIZES["full"], repeat)
        self._open = ExitStack()
        self._ports: dict[str, int] = {}
        self._makers: dict[str, Callable[[], int]] = {}
        self._ray: Ray | None = None
        if self.there("starlette") and self.there("uvicorn") and self.there("sklearn"):
            self._makers = {
                "lazyflow": partial(self._lazyflow, "processes"),
                "threads": partial(self._lazyflow, "threads"), "plain": self._plain,
            }
            if self.there("ray", "ray") and self.there("ray.serve", "ray"):
                self._ray = Ray(workers=WORKERS + 2)
                self._makers["ray"] = self._on_ray

    def __exit__(self, *given: object) -> None:
        self._open.close()
        self.lazyflow.shutdown()
        if self._ray is not None:
            self._ray.shutdown()
        super().__exit__(*given)

    def port(self, side: str) -> int:
        """Return the port of a side."""
        if side not in self._ports:
            self._ports[side] = self._makers[side]()
        return self._ports[side]

    def sides(self) -> list[str]:
        """Return the sides that are there."""
        return list(self._makers)

    def _lazyflow(self, scheduler: str) -> int:
        from lazyflow.learn.examples import serving

        model = self.lazyflow.actor(serving.DigitModel, scheduler=scheduler)
        pool = self.lazyflow.ActorPool([model() for _ in range(WORKERS)])
        batcher = serving.Batcher(pool)
        app = serving.application(lambda: batcher, columns=64)
        return self._open.enter_context(serving.serving(app))

    def _plain(self) -> int:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        from lazyflow.learn.examples import serving

        model = serving.DigitModel()

        async def predict(request: Request) -> JSONResponse:
            rows = np.asarray((await request.json())["rows"], float)
            return JSONResponse({"predictions": model.predict(rows)})

        app = Starlette(routes=[Route("/predict", predict, methods=["POST"])])
        return self._open.enter_context(serving.serving(app))

    def _on_ray(self) -> int:
        from ray import serve

        from lazyflow.learn.examples import serving

        assert self._ray is not None
        self._ray()

        quietly = {"log_level": "ERROR", "enable_access_log": False}

        @serve.deployment(
            num_replicas=WORKERS, ray_actor_options={"num_cpus": 0}, logging_config=quietly,
            max_ongoing_requests=100,  # more than in a batch
        )
        class Model:
            def __init__(self) -> None:
                self.model = serving.DigitModel()

            @serve.batch(max_batch_size=64, batch_wait_timeout_s=0.003)
            async def predict(self, rows: list[Any]) -> list[Any]:
                return [[each] for each in self.model.predict(np.concatenate(rows))]

            async def __call__(self, request: Any) -> Any:
                rows = np.asarray((await request.json())["rows"], float)
                return {"predictions": await self.predict(rows)}

        made: Any = Model
        port = free_port()
        serve.start(
            http_options={"host": "127.0.0.1", "port": port}, logging_config=quietly
        )
        serve.run(made.bind(), route_prefix="/predict")
        self._open.callback(serve.shutdown)
        return port


def free_port() -> int:
    """Return a port of this machine that is free now."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def requests(bench: Bench) -> Table:
    """requests of one row; ms a request; result = plain / lazyflow"""
    size = bench.size

    def turn(side: str) -> float:
        command = [sys.executable, "-c", CLIENT, str(bench.port(side)), str(size.clients)]
        ask = partial(
            subprocess.run, check=True, capture_output=True, text=True, timeout=common.LIMIT)
        ask([*command, str(size.clients)])  # it is warm
        out = ask([*command, str(size.requests)])
        seconds, right = map(float, out.stdout.split())
        if right < 0.95:
            raise RuntimeError(f"only {right:.0%} of the answers were right")
        return seconds

    turns: dict[Label, Turn] = {
        ("a request", side): partial(turn, side) for side in bench.sides()
    }
    rows, failed = bench.measure(turns, "ms", 1e3 / size.requests)
    for row in rows:
        row.result = row.ratio("plain", "lazyflow")
    amount = f"{size.requests:,} requests by {size.clients} clients"
    return bench.table(requests, rows, failed, amount=amount)


CASES: dict[str, Callable[[Bench], Table]] = {"requests": requests}

main = Suite(
    name="serving",
    about=(__doc__ or "").splitlines()[0],
    cases=CASES,
    sizes=SIZES,
    sides=SIDES,
    packages=("lazyflow", "starlette", "uvicorn", "scikit-learn", "ray"),
    make=Bench,
    alike=f"the same model on every side; {WORKERS} replicas where there are several",
    durations="tiny and small take some seconds, full a minute",
).main
