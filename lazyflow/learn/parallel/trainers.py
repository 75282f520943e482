"""What data-parallel training does with one copy of a model, for each kind of model.

A gradient is a list of arrays. A trainer is made where the model is used, and nothing of the
framework travels.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyflow.weights import get_weights, set_weights


class ModelTrainer(ABC):
    """A copy of a model with its optimizer."""

    @abstractmethod
    def gradients(self, X: Any, y: Any) -> tuple[float, list[np.ndarray]]:
        """Return the mean loss of some rows, and its gradient."""

    @abstractmethod
    def apply(self, gradient: list[np.ndarray]) -> None:
        """Take one step along a gradient."""

    @abstractmethod
    def weights(self) -> Any:
        """Return the weights of the model, as `lazyflow.weights.get_weights` does."""

    @abstractmethod
    def state(self) -> Any:
        """Return all that later steps depend on, to be pickled."""

    @abstractmethod
    def set_state(self, state: Any) -> None:
        """Go on from the state of another copy."""


def trainer_of(
    model_fn: Callable[[], Any], loss_fn: Callable[..., Any] | None,
    optimizer_fn: Callable[..., Any] | None,
) -> ModelTrainer:
    """Make a model and its trainer."""
    model = model_fn()
    if hasattr(model, "gradients") and hasattr(model, "apply"):
        return _OwnTrainer(model)
    if loss_fn is None or optimizer_fn is None:
        raise TypeError(
            f"DataParallel needs loss_fn and optimizer_fn for a {type(model).__name__}; only "
            "models with methods gradients(X, y) and apply(gradient) do without"
        )
    torch, keras = sys.modules.get("torch"), sys.modules.get("keras")
    if keras is not None and isinstance(model, keras.Model):
        return KerasTrainer(model, loss_fn, optimizer_fn)
    if torch is not None and isinstance(model, torch.nn.Module):
        return _TorchTrainer(model, loss_fn, optimizer_fn)
    raise TypeError(
        f"DataParallel can't train a {type(model).__name__}: model_fn has to return a "
        "torch.nn.Module, a keras.Model, or an object with gradients(X, y), which returns the "
        "loss and a list of arrays, and apply(gradient)"
    )


class _OwnTrainer(ModelTrainer):
    """An object that does it by itself; its state is its weights, or what ``get_state`` returns."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def gradients(self, X: Any, y: Any) -> tuple[float, list[np.ndarray]]:
        loss, gradient = self._model.gradients(X, y)
        return loss, gradient

    def apply(self, gradient: list[np.ndarray]) -> None:
        self._model.apply(gradient)

    def weights(self) -> Any:
        return get_weights(self._model)

    def state(self) -> Any:
        model = self._model
        return model.get_state() if hasattr(model, "get_state") else get_weights(model)

    def set_state(self, state: Any) -> None:
        model = self._model
        if hasattr(model, "get_state"):
            model.set_state(state)
        else:
            set_weights(model, state)


class _TorchTrainer(ModelTrainer):
    """A module of PyTorch."""

    def __init__(self, model: Any, loss_fn: Any, optimizer_fn: Any) -> None:
        self._model = model
        self._loss = loss_fn
        self._trained = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = optimizer_fn(self._trained)

    def gradients(self, X: Any, y: Any) -> tuple[float, list[np.ndarray]]:
        import torch

        loss = self._loss(self._model(torch.as_tensor(X)), torch.as_tensor(y))
        found = torch.autograd.grad(loss, self._trained, allow_unused=True)
        arrays = [
            np.zeros(tuple(p.shape), np.float32) if g is None else g.detach().cpu().numpy()
            for p, g in zip(self._trained, found, strict=True)
        ]
        return float(loss.detach()), arrays

    def apply(self, gradient: list[np.ndarray]) -> None:
        for parameter, array in zip(self._trained, gradient, strict=True):
            parameter.grad = parameter.new_tensor(array)
        self._optimizer.step()

    def weights(self) -> Any:
        return get_weights(self._model)

    def state(self) -> Any:
        import io

        import torch

        data = io.BytesIO()
        torch.save((self._model.state_dict(), self._optimizer.state_dict()), data)
        return data.getvalue()

    def set_state(self, state: Any) -> None:
        import io

        import torch

        weights, optimizer = torch.load(io.BytesIO(state), weights_only=True)
        self._model.load_state_dict(weights)
        self._optimizer.load_state_dict(optimizer)


class KerasTrainer(ModelTrainer):
    """A model of Keras 3, on the backends TensorFlow and PyTorch."""

    def __init__(self, model: Any, loss_fn: Any, optimizer_fn: Any) -> None:
        import keras

        self._backend = keras.backend.backend()
        if self._backend not in ("tensorflow", "torch"):
            raise ValueError(
                f"DataParallel trains Keras models on the backends tensorflow and torch, and this "
                f"is {self._backend!r}: set KERAS_BACKEND before keras is imported"
            )
        self._model = model
        self._loss = loss_fn
        self._trained = model.trainable_variables
        self._optimizer = optimizer_fn(self._trained)
        self._optimizer.build(self._trained)

    def gradients(self, X: Any, y: Any) -> tuple[float, list[np.ndarray]]:
        if self._backend == "torch":
            import torch

            loss = self._loss(torch.as_tensor(y), self._model(torch.as_tensor(X), training=True))
            values = [variable.value for variable in self._trained]
            found = torch.autograd.grad(loss, values)
            return float(loss.detach()), [each.detach().cpu().numpy() for each in found]
        import tensorflow

        with tensorflow.GradientTape() as tape:
            loss = self._loss(y, self._model(X, training=True))
        found = tape.gradient(loss, [variable.value for variable in self._trained])
        return float(loss), [np.asarray(each) for each in found]

    def apply(self, gradient: list[np.ndarray]) -> None:
        import keras

        arrays = [keras.ops.convert_to_tensor(each) for each in gradient]
        self._optimizer.apply(arrays, self._trained)

    def weights(self) -> Any:
        return get_weights(self._model)

    def state(self) -> Any:
        return get_weights(self._model), get_weights(self._optimizer)

    def set_state(self, state: Any) -> None:
        weights, optimizer = state
        set_weights(self._model, weights)
        set_weights(self._optimizer, optimizer)
