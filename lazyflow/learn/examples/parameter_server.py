"""An asynchronous parameter server: it never waits for the slowest worker.

The server is an actor that holds the weights. There are two ways to drive it:

- the program takes gradients as they arrive (`as_completed`), asks the server to apply each, and
  sends the new weights to the worker that computed it;
- workers have the server's handle: each pulls, computes and pushes by itself, and the program
  only waits until they end.

A gradient may belong to weights that other workers have moved since. With the steps of
`gradient_averaging`, where all gradients of a step belong to the same weights, the weights would
diverge; here each gradient moves them by a part, as it does in the mean there.
"""

from __future__ import annotations

from typing import Any

import lazyflow
from lazyflow.learn.examples.frameworks import MODELS, FittedLine, batch, print_history
from lazyflow.weights import get_weights, set_weights

WORKERS, PUSHES = 4, 200  # pushes of each worker


def part_of(gradient: Any) -> Any:
    """Return a gradient divided by the number of workers."""
    if isinstance(gradient, dict):
        return {name: each / WORKERS for name, each in gradient.items()}
    return [each / WORKERS for each in gradient]


class WeightServer:
    """Has the weights."""

    def __init__(self, framework: str) -> None:
        self.model: Any = MODELS[framework]()
        self.pushes = 0
        self.kept: list[Any] = [get_weights(self.model)]

    def pull(self) -> Any:
        """Return the weights."""
        return get_weights(self.model)

    def push(self, gradient: Any) -> Any:
        """Take a step along one worker's gradient; return the new weights."""
        self.model.apply(part_of(gradient))
        self.pushes += 1
        if self.pushes % 100 == 0:
            self.kept.append(get_weights(self.model))
        return get_weights(self.model)

    def history(self) -> list[Any]:
        """Return the weights after every 100 pushes."""
        return self.kept


class GradientWorker:
    """Computes gradients, each of a batch of its own."""

    def __init__(self, framework: str, number: int) -> None:
        self.number = number
        self.model: Any = MODELS[framework]()
        self.batches = 0

    def gradient(self, weights: Any) -> Any:
        """Return the gradient at some weights of the next batch."""
        set_weights(self.model, weights)
        self.batches += 1
        return self.model.gradients(*batch(self.batches, self.number))

    def push_to(self, server: Any, times: int) -> int:
        """Pull, compute and push by itself; return how often."""
        weights = server.pull().result()
        for _ in range(times):
            weights = server.push(self.gradient(weights)).result()
        return times


def as_they_come(server: Any, workers: list[Any]) -> None:
    """Take gradients as they come, until each worker has given `PUSHES` on the average."""
    weights = server.pull()
    pending = {worker.gradient(weights): worker for worker in workers}
    arrivals = lazyflow.as_completed(pending)
    left = WORKERS * PUSHES - len(pending)
    for gradient in arrivals:
        weights = server.push(gradient)
        worker = pending.pop(gradient)
        if left:
            left -= 1
            following = worker.gradient(weights)
            pending[following] = worker
            arrivals.add(following)


def by_themselves(server: Any, workers: list[Any]) -> None:
    """Have workers push by themselves."""
    lazyflow.wait([worker.push_to(server, PUSHES) for worker in workers])


def main(
    scheduler: str = "threads", framework: str = "numpy", with_handles: bool = False
) -> FittedLine:
    """Fit y = 0.1 x + 0.3 and print how; any framework of `MODELS` that tells gradients."""
    drive = by_themselves if with_handles else as_they_come
    print(
        f"Asynchronous parameter server: {WORKERS} workers, {WORKERS * PUSHES} pushes, "
        f"{framework}, scheduler {scheduler}{', by themselves' if with_handles else ''}"
    )
    with lazyflow.config.set(scheduler=scheduler):
        server = lazyflow.actor(WeightServer)(framework)
        workers = [lazyflow.actor(GradientWorker)(framework, number) for number in range(WORKERS)]
        drive(server, workers)
        history = [lazyflow.put(weights) for weights in server.history().result()]
        return print_history(history, "x 100", every=1)
