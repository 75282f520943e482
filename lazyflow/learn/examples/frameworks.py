"""The model of the averaging examples in TensorFlow, PyTorch, Keras: what `linear` has in NumPy.

Each is made in the worker that needs it, and nothing of the framework travels. A framework is
imported when its first model is made.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from lazyflow.learn.examples.linear import RATE, LinearModel
from lazyflow.learn.parallel import KerasTrainer
from lazyflow.weights import get_weights, set_weights

__all__ = ["MODELS", "clear", "first_weights"]


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
            def squared(y: Any, found: Any) -> Any:
                return keras.ops.mean((found - y) ** 2)

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
