"""Gradient averaging: one set of weights, moved by the mean of what all workers would do.

Each step asks every worker for the gradient of its own batch at the same weights. All steps are
submitted before the first result is read; weights and gradients stay with the workers.
"""

from __future__ import annotations

from typing import Any

import lazyflow
from lazyflow.learn.examples.frameworks import (
    MODELS,
    FittedLine,
    batch,
    clear,
    first_weights,
    print_history,
)
from lazyflow.weights import get_weights, mean_gradients, set_weights

WORKERS, STEPS = 2, 200

#: Each is built once in a worker that uses it; no task sees what another left in it.
models = {name: lazyflow.worker_state(make, reset=clear) for name, make in MODELS.items()}


def gradient(framework: str, weights: Any, *seed: int) -> Any:
    """Return the gradient at `weights` of one batch."""
    mine = models[framework].get()
    set_weights(mine, weights)
    return mine.gradients(*batch(*seed))


def moved(framework: str, weights: Any, gradients: list[Any]) -> Any:
    """Return the weights after a step along the mean of some gradients."""
    mine = models[framework].get()
    set_weights(mine, weights)
    mine.apply(mean_gradients(gradients))
    return get_weights(mine)


def train_with_state(framework: str) -> list[Any]:
    """Return the future of the weights before each step, and after the last."""
    weights = lazyflow.put(first_weights(framework))
    history = [weights]
    for k in range(STEPS):
        gradients = [
            lazyflow.submit(gradient, framework, weights, k, worker) for worker in range(WORKERS)
        ]
        weights = lazyflow.submit(moved, framework, weights, gradients)
        history.append(weights)
    return history


class Network:
    """A model that an actor keeps, with the weights that it had last."""

    def __init__(self, framework: str, worker: int) -> None:
        self.worker = worker
        self.model: Any = MODELS[framework]()

    def weights(self) -> Any:
        """Return the weights."""
        return get_weights(self.model)

    def gradient(self, weights: Any, k: int) -> Any:
        """Return the gradient at `weights` of the batch of step `k`."""
        set_weights(self.model, weights)
        return self.model.gradients(*batch(k, self.worker))

    def apply(self, gradients: list[Any]) -> Any:
        """Take a step along the mean of some gradients; return the new weights."""
        self.model.apply(mean_gradients(gradients))
        return get_weights(self.model)


def train_with_actors(framework: str) -> list[Any]:
    """Do what `train_with_state` does: one actor has the weights, the others give gradients."""
    server = lazyflow.actor(Network)(framework, WORKERS)
    workers = [lazyflow.actor(Network)(framework, worker) for worker in range(WORKERS)]
    weights = server.weights()
    history = [weights]
    for k in range(STEPS):
        weights = server.apply([w.gradient(weights, k) for w in workers])
        history.append(weights)
    return history


def main(
    scheduler: str = "threads", framework: str = "numpy", with_actors: bool = False
) -> FittedLine:
    """Fit y = 0.1 x + 0.3 and print how; `framework` is one of `frameworks.MODELS`."""
    train = train_with_actors if with_actors else train_with_state
    print(
        f"Gradient averaging: {WORKERS} gradients a step, {STEPS} steps, {framework}, "
        f"scheduler {scheduler}{', actors' if with_actors else ''}"
    )
    with lazyflow.config.set(scheduler=scheduler):
        return print_history(train(framework), "step", every=40)
