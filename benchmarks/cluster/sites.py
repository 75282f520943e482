"""Where programs run: clusters that can be started anew, and what their workers count."""

from __future__ import annotations

import logging
from typing import Any

import psutil

from benchmarks.memory import forget_peak, peak_of, touched
from benchmarks.sides import MIB, Distributed, Ray

MB = 1e6


class DaskSite:
    """A LocalCluster on loopback; `memory` is the limit of each worker, in MiB.

    number
        Grows when the cluster ends; the next use starts another one.
    """

    def __init__(self, workers: int, memory: int) -> None:
        self._engine = Distributed(workers, memory)
        self._limit = memory * MIB
        self._metered = 0
        self.number = 1

    @property
    def client(self) -> Any:
        client = self._engine()
        if self._metered != self.number:
            from benchmarks.cluster import meters

            self._metered = self.number
            logging.getLogger("distributed").setLevel(logging.ERROR)  # shuffles warn of each step
            client.register_plugin(meters.Meter())
            client.run(touched, self._limit // 3)
        return client

    def start(self) -> None:
        """Begin a turn, when the workers have been told of all that was released before."""
        from benchmarks.cluster import meters

        client = self.client
        for worker in client.nthreads():  # what is sent to a worker arrives in order
            client.submit(bool, workers=[worker], pure=False).result()
        client.run(meters.start)

    def counts(self) -> dict[str, float]:
        """Return what the workers counted since then."""
        from benchmarks.cluster import meters

        moved, written, peak, held = zip(*self.client.run(meters.counts_of).values(), strict=True)
        found = {"moved": sum(moved) / MB, "spilled": sum(written) / MB, "peak": max(peak) / MB}
        return found | {"share": max(held) * len(held) / (sum(held) or 1)}

    def shutdown(self) -> None:
        self.number += 1
        self._engine.shutdown()


class RaySite:
    """A Ray on this machine, whose workers are told from its other processes by their names."""

    def __init__(self, workers: int) -> None:
        self.engine = Ray(workers=workers)
        self.number = 1

    def start(self) -> None:
        """Begin a turn."""
        self.engine()
        for worker in self._workers():
            forget_peak(worker)

    def counts(self) -> dict[str, float]:
        """Return what the workers counted since then."""
        return {"peak": max(map(peak_of, self._workers()), default=0.0) / MB}

    def _workers(self) -> list[int]:
        found = []
        for child in psutil.Process().children(recursive=True):
            try:
                if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::"):
                    found.append(child.pid)
            except psutil.Error:  # it has just ended
                continue
        return found

    def shutdown(self) -> None:
        self.number += 1
        self.engine.shutdown()
