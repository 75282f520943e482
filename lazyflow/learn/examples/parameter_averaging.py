"""Parameter averaging: workers train copies of one model, each on data of its own.

In every round each of them starts from the same weights and takes some steps; the mean of where
they come out is where the next round starts. Nothing but weights moves between workers, and they
move as futures: the program below asks for the first value when all rounds are submitted.
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
from lazyflow.weights import get_weights, mean_weights, set_weights

WORKERS, ROUNDS, STEPS = 2, 20, 10

#: Each is built once in a worker that uses it; no task sees what another left in it.
models = {name: lazyflow.worker_state(make, reset=clear) for name, make in MODELS.items()}


def trained(framework: str, weights: Any, *seed: int) -> Any:
    """Train this worker's copy from `weights` on one batch; return its new weights."""
    mine = models[framework].get()
    set_weights(mine, weights)
    mine.train(*batch(*seed), STEPS)
    return get_weights(mine)


def train_with_state(framework: str) -> list[Any]:
    """Return the future of the weights before each round, and after the last."""
    weights = lazyflow.put(first_weights(framework))
    history = [weights]
    for k in range(ROUNDS):
        copies = [
            lazyflow.submit(trained, framework, weights, k, worker) for worker in range(WORKERS)
        ]
        weights = lazyflow.submit(mean_weights, copies)
        history.append(weights)
    return history


class Trainer:
    """The same with a model that one actor keeps: for state that must outlive a task."""

    def __init__(self, framework: str, worker: int) -> None:
        self.worker = worker
        self.model: Any = MODELS[framework]()

    def trained(self, weights: Any, k: int) -> Any:
        """Train from `weights` on the batch of round `k`; return the new weights."""
        set_weights(self.model, weights)
        self.model.train(*batch(k, self.worker), STEPS)
        return get_weights(self.model)


def train_with_actors(framework: str) -> list[Any]:
    """Do what `train_with_state` does, with an actor for each worker."""
    trainers = [lazyflow.actor(Trainer)(framework, worker) for worker in range(WORKERS)]
    weights = lazyflow.put(first_weights(framework))
    history = [weights]
    for k in range(ROUNDS):
        weights = lazyflow.submit(mean_weights, [t.trained(weights, k) for t in trainers])
        history.append(weights)
    return history


def main(
    scheduler: str = "threads", framework: str = "numpy", with_actors: bool = False
) -> FittedLine:
    """Fit y = 0.1 x + 0.3 and print how; `framework` is one of `frameworks.MODELS`."""
    train = train_with_actors if with_actors else train_with_state
    print(
        f"Parameter averaging: {WORKERS} copies, {STEPS} steps a round, {framework}, "
        f"scheduler {scheduler}{', actors' if with_actors else ''}"
    )
    with lazyflow.config.set(scheduler=scheduler):
        return print_history(train(framework), "round", every=4)
