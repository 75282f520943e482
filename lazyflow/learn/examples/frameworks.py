"""The model of the averaging examples: y = w x + b by gradient descent, in NumPy and in frameworks.

`LinearModel`, in NumPy, has the methods by which `lazyflow.weights` knows a Keras model, and can't
be pickled, so what travels are its weights. The others are TensorFlow's, PyTorch's and Keras's.
Each is made in the worker that needs it, and nothing of the framework travels. A framework is
imported when its first model is made.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lazyflow.learn.parallel import KerasTrainer
from lazyflow.weights import get_flat, get_weights, set_weights

SLOPE, INTERCEPT = 0.1, 0.3
GOAL = 1e-3  # error of the line
RATE = 0.5  # of learning


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


# -- the same in frameworks -------------------------------------------------------------------


def torch_model() -> Any:
    """Return a PyTorch module of one slope and one intercept."""
    import torch

    class TorchModel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(1, 1)

        def gradients(self, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
            places, values = (torch.tensor(v, dtype=torch.float32)[:, None] for v in (x, y))
            loss = torch.nn.functional.mse_loss(self.linear(places), values)
            names, parameters = zip(*self.named_parameters(), strict=True)
            found = torch.autograd.grad(loss, parameters)
            return {name: g.numpy() for name, g in zip(names, found, strict=True)}

        def apply(self, gradients: dict[str, np.ndarray]) -> None:
            with torch.no_grad():
                for name, parameter in self.named_parameters():
                    parameter -= RATE * parameter.new_tensor(gradients[name])

        def train(self, x: Any = True, y: Any = None, steps: int = 0) -> Any:
            if isinstance(x, bool):  # of every module: to train or to predict
                return super().train(x)
            for _ in range(steps):
                self.apply(self.gradients(x, y))
            return self

    return zeroed(TorchModel())


def tensorflow_model() -> Any:
    """Return a module of TensorFlow with one slope and one intercept."""
    import tensorflow as tf

    class TensorFlowModel(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = tf.Variable([0.0])  # variables are in the order of these names
            self.offset = tf.Variable([0.0])

        def gradients(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
            places, values = (tf.constant(v, tf.float32) for v in (x, y))
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self.kernel * places + self.offset - values) ** 2)
            return [each.numpy() for each in tape.gradient(loss, self.variables)]

        def apply(self, gradients: list[np.ndarray]) -> None:
            for variable, gradient in zip(self.variables, gradients, strict=True):
                variable.assign_sub(RATE * gradient)

        def train(self, x: np.ndarray, y: np.ndarray, steps: int) -> None:
            for _ in range(steps):
                self.apply(self.gradients(x, y))

    return TensorFlowModel()


def keras_model() -> Any:
    """Return a Keras model of one slope and one intercept; it trains by Keras' own loop.

    Keras itself tells no gradients: `lazyflow.learn.DataParallel` has them from its backend.
    """
    import keras

    class KerasModel(keras.Sequential):
        def train(self, x: np.ndarray, y: np.ndarray, steps: int) -> None:
            for _ in range(steps):
                self.train_on_batch(x[:, None], y[:, None])

        @cached_property
        def _trainer(self) -> KerasTrainer:
            def squared(y: Any, predicted: Any) -> Any:
                return keras.ops.mean((predicted - y) ** 2)

            return KerasTrainer(self, squared, lambda _: keras.optimizers.SGD(RATE))

        def gradients(self, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
            places, values = (v.astype(np.float32)[:, None] for v in (x, y))
            return self._trainer.gradients(places, values)[1]

        def apply(self, gradients: list[np.ndarray]) -> None:
            self._trainer.apply(gradients)

    model = KerasModel([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(RATE), loss="mse")
    return zeroed(model)


def zeroed(model: Any) -> Any:
    """Set all weights to 0."""
    clear(model)
    return model


def clear(model: Any) -> None:
    """Make a model as new."""
    weights = get_weights(model)
    for name in weights if isinstance(weights, dict) else range(len(weights)):
        weights[name] = np.zeros_like(weights[name])
    set_weights(model, weights)


#: How each framework's model is made.
MODELS = {
    "numpy": LinearModel, "tensorflow": tensorflow_model, "torch": torch_model,
    "keras": keras_model,
}


def first_weights(framework: str) -> Any:
    """Return the weights that training begins with."""
    return get_weights(MODELS[framework]())
