"""The model of the averaging examples: y = w x + b by gradient descent, in NumPy.

It stands for one of a framework: it has the methods by which `lazyflow.weights` knows a Keras
model, and it can't be pickled, so what travels are its weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lazyflow.weights import get_flat

__all__ = [
    "GOAL", "INTERCEPT", "RATE", "SLOPE", "FittedLine", "LinearModel", "batch", "print_history",
]

SLOPE, INTERCEPT = 0.1, 0.3
GOAL = 1e-3
RATE = 0.5


def batch(*seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 100 places x and the values y there; the same for the same seed.

    >>> x, y = batch(0, 1)
    >>> x.shape, bool(np.allclose(y, 0.1 * x + 0.3))
    ((100,), True)
    """
    x = np.random.default_rng(seed).random(100)
    return x, SLOPE * x + INTERCEPT


class LinearModel:
    """One slope and one intercept, both 0 at first."""

    def __init__(self) -> None:
        self._parameters = [np.zeros(1), np.zeros(1)]

    def __reduce__(self) -> Any:
        raise TypeError("a LinearModel stays where it was made; send get_weights(model)")

    def get_weights(self) -> list[np.ndarray]:
        """Return slope and intercept."""
        return list(self._parameters)

    def set_weights(self, weights: list[np.ndarray]) -> None:
        """Take slope and intercept."""
        self._parameters = list(weights)

    def gradients(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        """Return the gradient of the mean squared error, in the form of the weights."""
        w, b = self._parameters
        residual = w * x + b - y
        return [2 * (residual * x).mean(keepdims=True), 2 * residual.mean(keepdims=True)]

    def apply(self, gradients: list[np.ndarray]) -> None:
        """Take one step down."""
        moved = zip(self._parameters, gradients, strict=True)
        self._parameters = [value - RATE * gradient for value, gradient in moved]

    def train(self, x: np.ndarray, y: np.ndarray, steps: int) -> None:
        """Take several steps down on one batch."""
        for _ in range(steps):
            self.apply(self.gradients(x, y))


class FittedLine(NamedTuple):
    """The line that an averaging example has fitted."""

    slope: float
    intercept: float

    @property
    def error(self) -> float:
        """How far the line is from y = 0.1 x + 0.3."""
        return max(abs(self.slope - SLOPE), abs(self.intercept - INTERCEPT))

    @property
    def reached(self) -> bool:
        """Whether the error is small enough."""
        return self.error <= GOAL


def print_history(history: list[Any], unit: str, every: int) -> FittedLine:
    """Print some of the futures' weights; return the line of the last."""
    print(f"  {unit:>6}  {'slope':>10}  {'intercept':>10}")
    for at, future in enumerate(history):
        if at % every == 0 or at == len(history) - 1:
            w, b = get_flat(future.result())
            print(f"  {at:>6}  {w:>10.6f}  {b:>10.6f}")
    line = FittedLine(float(w), float(b))
    verdict = "ok" if line.reached else "MISSED"
    print(f"  y = 0.1 x + 0.3 up to {line.error:.1e}; goal <= {GOAL:g}  {verdict}")
    return line
