"""Gradient averaging: one set of weights, moved by the mean of what all workers would do.

Each step asks every worker for the gradient of its own batch at the same weights. All steps are
submitted before the first value is asked for; weights and gradients stay with the workers.
"""

from __future__ import annotations

from typing import Any

import lazyflow
from lazyflow.learn.examples.linear import LinearModel, Outcome, batch, told
from lazyflow.weights import get_weights, mean_gradients, set_weights

__all__ = ["main", "train_with_actors", "train_with_state"]

WORKERS, STEPS = 2, 200

#: Built once in each worker; no task sees what another left in it.
model = lazyflow.worker_state(LinearModel, reset=LinearModel.clear)


def gradient(weights: Any, *seed: int) -> Any:
    """Return the gradient at `weights` of one batch."""
    mine = model.get()
    set_weights(mine, weights)
    return mine.gradients(*batch(*seed))


def moved(weights: Any, gradients: list[Any]) -> Any:
    """Return the weights after a step along the mean of some gradients."""
    mine = model.get()
    set_weights(mine, weights)
    mine.apply(mean_gradients(gradients))
    return get_weights(mine)


def train_with_state() -> list[Any]:
    """Return the future of the weights before each step, and after the last."""
    weights = lazyflow.put(get_weights(LinearModel()))
    history = [weights]
    for k in range(STEPS):
        gradients = [lazyflow.submit(gradient, weights, k, worker) for worker in range(WORKERS)]
        weights = lazyflow.submit(moved, weights, gradients)
        history.append(weights)
    return history


class Network:
    """A model that an actor keeps, with the weights that it had last."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.model = LinearModel()

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


def train_with_actors() -> list[Any]:
    """Do what `train_with_state` does: one actor has the weights, the others give gradients."""
    server = lazyflow.actor(Network)(WORKERS)
    workers = [lazyflow.actor(Network)(worker) for worker in range(WORKERS)]
    weights = server.weights()
    history = [weights]
    for k in range(STEPS):
        weights = server.apply([w.gradient(weights, k) for w in workers])
        history.append(weights)
    return history


def main(scheduler: str = "threads") -> Outcome:
    """Fit y = 0.1 x + 0.3 and print how."""
    print(f"Gradient averaging: {WORKERS} gradients a step, {STEPS} steps, scheduler {scheduler}")
    with lazyflow.config.set(scheduler=scheduler):
        return told(train_with_state(), "step", every=40)
