"""What a worker of distributed counts in a turn; this module runs in the workers, too."""

from __future__ import annotations

import logging
import sys
from collections import deque
from typing import Any

from distributed import WorkerPlugin
from distributed.shuffle._core import ShuffleRun
from distributed.sizeof import safe_sizeof

from benchmarks.memory import forget_peak, peak_of


class Meter(WorkerPlugin):
    """Counts what a worker receives, writes to disk, and holds at most.

    Its own log of transfers is short, and without those of shuffles.
    """

    name = "benchmark-meter"

    def setup(self, worker: Any) -> None:
        logging.getLogger("distributed").setLevel(logging.ERROR)  # it warns of each pause
        self.worker = worker
        self.shuffled = 0
        worker.transfer_incoming_log = deque()
        send = ShuffleRun._send

        async def counted(run: Any, address: str, shards: Any) -> Any:
            if address != run.local_address:
                self.shuffled += safe_sizeof(shards)
            return await send(run, address, shards)

        ShuffleRun._send = counted  # type: ignore[method-assign, assignment]
        self.start()

    def start(self) -> None:
        """Count from here on."""
        self.shuffled = 0
        self.worker.transfer_incoming_log.clear()
        self.held = self.worker.state.nbytes
        self.written = self._on_disk()
        forget_peak("self")

    def counts(self) -> tuple[float, float, float, float]:
        """Return bytes received and written, the peak, and how much more is held."""
        received = sum(each["total"] for each in self.worker.transfer_incoming_log)
        written = self._on_disk() - self.written
        held = self.worker.state.nbytes - self.held
        return received + self.shuffled, written, peak_of("self"), held

    def _on_disk(self) -> float:
        kept = getattr(self.worker.data, "cumulative_metrics", {})
        return float(kept.get(("disk-write", "bytes"), 0))


def start(dask_worker: Any) -> None:
    """Begin a turn on a worker; kernels that are still being compiled are not timed."""
    if "lazyflow.array" in sys.modules:
        sys.modules["lazyflow.array"].wait_compiled()
    dask_worker.plugins[Meter.name].start()


def counts_of(dask_worker: Any) -> tuple[float, float, float, float]:
    found: tuple[float, float, float, float] = dask_worker.plugins[Meter.name].counts()
    return found
