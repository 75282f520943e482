"""Data-parallel training of a network on handwritten digits, beside one process.

`lazyflow.learn.DataParallel` has a copy of the network in each of four actors, whose gradients go
up a tree of the actors. The losses are those of one network that is given the same parts of the
same batches one after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import lazyflow
from lazyflow.learn.parallel import DataParallel

WORKERS, EPOCHS, BATCH = 4, 8, 100
HIDDEN, RATE, MOMENTUM = 32, 0.2, 0.9
GOAL = 0.95  # share of the test rows that are classified rightly


class DigitNetwork:
    """Two layers for 10 classes, trained by gradient descent with momentum."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self._weights = [
            random.normal(size=(64, HIDDEN)) / 8, np.zeros(HIDDEN),
            random.normal(size=(HIDDEN, 10)) / HIDDEN**0.5, np.zeros(10),
        ]
        self._speeds = [np.zeros_like(w) for w in self._weights]

    def __call__(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the hidden layer, and the logarithms of the probabilities."""
        W, b, V, c = self._weights
        hidden = np.maximum(X @ W + b, 0)
        scores = hidden @ V + c
        scores = scores - scores.max(axis=1, keepdims=True)
        return hidden, scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def gradients(self, X: np.ndarray, y: np.ndarray) -> tuple[float, list[np.ndarray]]:
        """Return the mean cross-entropy and its gradient."""
        hidden, logs = self(X)
        rows = np.arange(len(X))
        off = np.exp(logs)
        off[rows, y] -= 1
        off /= len(X)
        back = (off @ self._weights[2].T) * (hidden > 0)
        gradient = [X.T @ back, back.sum(axis=0), hidden.T @ off, off.sum(axis=0)]
        return float(-logs[rows, y].mean()), gradient

    def apply(self, gradient: list[np.ndarray]) -> None:
        """Take a step."""
        self._speeds = [
            MOMENTUM * v + g for v, g in zip(self._speeds, gradient, strict=True)
        ]
        self._weights = [
            w - RATE * v for w, v in zip(self._weights, self._speeds, strict=True)
        ]

    def get_weights(self) -> list[np.ndarray]:
        """Return the weights."""
        return list(self._weights)

    def set_weights(self, weights: list[np.ndarray]) -> None:
        """Take weights."""
        self._weights = list(weights)

    def get_state(self) -> Any:
        """Return all that the next steps depend on."""
        return self._weights, self._speeds

    def set_state(self, state: Any) -> None:
        """Go on from the state of another network."""
        self._weights, self._speeds = state

    def accuracy(self, X: np.ndarray, y: np.ndarray) -> float:
        """Return the share of rows whose class it predicts."""
        return float((self(X)[1].argmax(axis=1) == y).mean())


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows and digits to train on, and a quarter of them to test with."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X / 16, y, test_size=0.25, stratify=y, random_state=0)
    X_train, X_test, y_train, y_test = parts
    return X_train, y_train, X_test, y_test


def batches(
    X: np.ndarray, y: np.ndarray, epochs: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the batches of all epochs, in random orders that are always the same."""
    random = np.random.default_rng(1)
    found = []
    for _ in range(epochs):
        order = random.permutation(len(X))
        cuts = range(0, len(X), BATCH)
        found += [(X[order[at : at + BATCH]], y[order[at : at + BATCH]]) for at in cuts]
    return found


def alone(data: list[tuple[np.ndarray, np.ndarray]]) -> tuple[list[float], DigitNetwork]:
    """Train one network on the same parts of the same batches; return the losses and the network.

    The parts are added as the tree of four adds them: 0 + (1 + 3) + 2.
    """
    network, losses = DigitNetwork(), []
    for X, y in data:
        parts = zip(np.array_split(X, WORKERS), np.array_split(y, WORKERS), strict=True)
        sums: list[list[Any]] = []
        for p, q in parts:
            loss, found = network.gradients(p, q)
            sums.append([loss * len(p), *(each * len(p) for each in found)])
        total, *gradient = [a + (b + d) + c for a, b, c, d in zip(*sums, strict=True)]
        losses.append(float(total) / len(X))
        network.apply([each / len(X) for each in gradient])
    return losses, network


class Compared(NamedTuple):
    """The outcome of both trainings."""

    losses: list[float]
    are_equal: bool
    accuracy: float

    @property
    def reached(self) -> bool:
        """Whether the losses are equal, bit for bit, and the network predicts well."""
        return self.are_equal and self.accuracy >= GOAL


def main(scheduler: str = "threads", epochs: int = EPOCHS) -> Compared:
    """Train both and print how; the goals are equal losses and an accuracy of 0.95."""
    X_train, y_train, X_test, y_test = digits()
    data = batches(X_train, y_train, epochs)
    print(
        f"Data-parallel training: {WORKERS} actors, {len(data)} batches of {BATCH} digits, "
        f"scheduler {scheduler}"
    )
    with lazyflow.config.set(scheduler=scheduler):
        training = DataParallel(DigitNetwork, workers=WORKERS)
        losses = training.fit(data)
        network = DigitNetwork()
        network.set_weights(training.weights())
    expected, _one = alone(data)
    accuracy = network.accuracy(X_test, y_test)
    compared = Compared(losses, losses == expected, accuracy)
    print(f"  {'epoch':>6}  {'loss':>8}")
    per_epoch = len(data) // epochs
    for epoch in range(epochs):
        mean = np.mean(losses[epoch * per_epoch : (epoch + 1) * per_epoch])
        print(f"  {epoch + 1:>6}  {mean:>8.4f}")
    equal = "equal" if compared.are_equal else "DIFFERENT"
    verdict = "ok" if accuracy >= GOAL else "MISSED"
    print(f"  losses of one process, bit for bit: {equal}")
    print(f"  accuracy on the test rows {accuracy:.4f}; goal >= {GOAL}  {verdict}")
    return compared
