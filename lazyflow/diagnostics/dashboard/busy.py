"""Work to look at: ``python -m lazyflow dashboard --demo``."""

from __future__ import annotations

import argparse
import threading

import numpy as np

from lazyflow import compute, config, delayed
from lazyflow.diagnostics.dashboard.live import dashboard

__all__ = ["main"]


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
