"""Data-parallel training: each actor has a copy of the model and trains it on its part of a batch.

The actors form a tree. In each step every actor adds the gradients of the actors below it to its
own, so the sum arrives at the first actor; each then takes the same step along it. All copies stay
equal, bit for bit, and equal to a single copy trained alone on the same parts::

    take_part(part k)              to each
    summed()                       0 <- 1 <- 3, 4
                                     <- 2 <- 5, 6
    apply(step, sums)              to each: a step that was made is not made again

State of a `_Replica`: ``_steps`` and ``_loss`` of the last one, the trainer with the model, and
``_below``, the handles under it in the tree. An actor whose process ends restarts with the state
after its last step (a checkpoint after each call), and the actors that have not made the step
repeat it.
"""

from __future__ import annotations

import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from lazyflow.api.actors import actor
from lazyflow.api.evaluate import SchedulerLike
from lazyflow.api.futures import Future
from lazyflow.errors import WorkerDied
from lazyflow.weights import get_weights, set_weights

# -- trainers -----------------------------------------------------------------------------
#
# What data-parallel training does with one copy of a model, for each kind of model.
#
# A gradient is a list of arrays. A trainer is made where the model is used, and nothing of the
# framework travels.


class ModelTrainer(ABC):
    """A copy of a model with its optimizer."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def weights(self) -> Any:
        """Return the weights of the model, as `lazyflow.weights.get_weights` does."""
        return get_weights(self._model)

    @abstractmethod
    def gradients(self, X: Any, y: Any) -> tuple[float, list[np.ndarray]]:
        """Return the mean loss of some rows, and its gradient."""

    @abstractmethod
    def apply(self, gradient: list[np.ndarray]) -> None:
        """Take one step along a gradient."""

    @abstractmethod
    def state(self) -> Any:
        """Return the state that later steps depend on, for pickling."""

    @abstractmethod
    def set_state(self, state: Any) -> None:
        """Continue from the state of another copy."""


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

    def gradients(self, X: Any, y: Any) -> tuple[float, list[np.ndarray]]:
        loss, gradient = self._model.gradients(X, y)
        return loss, gradient

    def apply(self, gradient: list[np.ndarray]) -> None:
        self._model.apply(gradient)

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
        super().__init__(model)
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

    def state(self) -> Any:
        import torch

        data = io.BytesIO()
        torch.save((self._model.state_dict(), self._optimizer.state_dict()), data)
        return data.getvalue()

    def set_state(self, state: Any) -> None:
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
        super().__init__(model)
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

    def state(self) -> Any:
        return get_weights(self._model), get_weights(self._optimizer)

    def set_state(self, state: Any) -> None:
        weights, optimizer = state
        set_weights(self._model, weights)
        set_weights(self._optimizer, optimizer)


T = TypeVar("T")

#: Loss and gradient, both times rows, and rows.
_Sums = tuple[float, list[np.ndarray], int]


class _Replica:
    """One copy of the model; those below it in the tree are handles of actors."""

    def __init__(self, make: Callable[[], ModelTrainer]) -> None:
        self._trainer = make()
        self._below: list[Any] = []
        self._part: tuple[Any, Any] | None = None
        self._steps = 0
        self._loss = float("nan")  # before the last step

    def join(self, below: list[Any]) -> None:
        """Take the place of the tree above some others."""
        self._below = below

    def take_part(self, X: Any, y: Any) -> None:
        """Take the rows of the next step."""
        self._part = X, y

    def summed(self) -> _Sums | None:
        """Return what this one and those below it have together; None: no rows."""
        below = [replica.summed() for replica in self._below]  # all work at once
        assert self._part is not None
        sums: _Sums | None = None
        rows = len(self._part[0])
        if rows:
            loss, gradient = self._trainer.gradients(*self._part)
            sums = loss * rows, [each * rows for each in gradient], rows
        for future in below:
            sums = _added(sums, future.result())
        return sums

    def apply(self, step: int, sums: _Sums) -> float:
        """Make a step, unless it is made; return the mean loss before it."""
        if self._steps == step:
            loss, gradient, rows = sums
            self._trainer.apply([each / rows for each in gradient])
            self._steps += 1
            self._loss = loss / rows
        return self._loss

    def steps(self) -> int:
        """Return how many steps were made."""
        return self._steps

    def weights(self) -> Any:
        """Return the weights."""
        return self._trainer.weights()

    def state(self) -> Any:
        """Return what the next steps depend on."""
        return self._steps, self._loss, self._trainer.state()

    def set_state(self, state: Any) -> None:
        """Go on from the state of another copy, or from a checkpoint."""
        self._steps, self._loss, kept = state
        self._trainer.set_state(kept)


def _added(sums: _Sums | None, others: _Sums | None) -> _Sums | None:
    if sums is None or others is None:
        return others if sums is None else sums
    gradient = [a + b for a, b in zip(sums[1], others[1], strict=True)]
    return sums[0] + others[0], gradient, sums[2] + others[2]


# -- the actors ---------------------------------------------------------------------------


class DataParallel:
    """Trains copies of a network in actors, each on its part of every batch.

    Parameters
    ----------
    model_fn
        Returns the model: a ``torch.nn.Module``, a ``keras.Model``, or an object with
        ``gradients(X, y)``, which returns the mean loss and a list of arrays, ``apply(gradient)``,
        and weights that `lazyflow.weights` can read and set. It is called in each actor; all start
        with the weights of the first.
    loss_fn
        Returns the mean loss over the rows: ``loss_fn(predictions, y)`` for PyTorch,
        ``loss_fn(y, predictions)`` for Keras.
    optimizer_fn
        Takes the parameters and returns an optimizer of the framework.
    workers
        The number of actors.
    scheduler
        The scheduler of the actors; by default chosen as for any actor.
    restarts
        How many times the process of each actor may die.

    Raises
    ------
    ValueError
        `workers` is less than 1, or `restarts` negative.
    TypeError
        The model is of an unknown kind, or `loss_fn` or `optimizer_fn` is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from lazyflow.learn import DataParallel
    >>> class Line:
    ...     def __init__(self): self.w = np.zeros(2)
    ...     def get_weights(self): return [self.w]
    ...     def set_weights(self, weights): self.w, = weights
    ...     def gradients(self, X, y):
    ...         off = X @ self.w - y
    ...         return float((off**2).mean()), [2 * X.T @ off / len(X)]
    ...     def apply(self, gradient): self.w = self.w - 0.2 * gradient[0]
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> training = DataParallel(Line, workers=3)
    >>> losses = training.fit([(X, X @ [1.0, 2.0])] * 40)
    >>> losses[-1] < 1e-4 * losses[0], training.weights()[0].round(2)
    (True, array([1., 2.]))
    """

    def __init__(
        self, model_fn: Callable[[], Any], loss_fn: Callable[..., Any] | None = None,
        optimizer_fn: Callable[..., Any] | None = None, *, workers: int = 2,
        scheduler: SchedulerLike | None = None, restarts: int = 3,
    ) -> None:
        if not isinstance(workers, int) or workers < 1:
            raise ValueError(f"workers must be a whole number, 1 or more; got {workers!r}")
        make = partial(trainer_of, model_fn, loss_fn, optimizer_fn)
        replica = actor(
            _Replica, scheduler=scheduler, restarts=restarts, checkpoint=("state", "set_state"))
        self._replicas = [replica(make) for _ in range(workers)]
        self._restarts = restarts
        self._steps = 0
        first, *others = self._replicas
        state = first.state()
        _results([each.set_state(state) for each in others])
        self._join()

    def fit(self, batches: Iterable[tuple[Any, Any]]) -> list[float]:
        """Train on batches (rows, targets); return the mean loss before each step.

        Raises
        ------
        WorkerDied
            The process of an actor has died more often than `restarts`.
        ValueError
            A batch is empty, or its numbers of rows and targets differ.

        Examples
        --------
        >>> import numpy as np
        >>> from lazyflow.learn import DataParallel
        >>> class Mean:
        ...     def __init__(self): self.w = np.zeros(1)
        ...     def get_weights(self): return [self.w]
        ...     def set_weights(self, weights): self.w, = weights
        ...     def gradients(self, X, y): return ((self.w - y)**2).mean(), [(self.w - y).mean()]
        ...     def apply(self, gradient): self.w = self.w - gradient[0]
        >>> y = np.array([1.0, 2.0, 3.0])
        >>> [round(loss, 3) for loss in DataParallel(Mean).fit([(y, y)] * 2)]
        [4.667, 0.667]
        """
        return [self._step(*batch) for batch in batches]

    def weights(self) -> Any:
        """Return the weights of the model, as `lazyflow.weights.get_weights` does.

        Examples
        --------
        >>> import numpy as np
        >>> from lazyflow.learn import DataParallel
        >>> class Nothing:
        ...     def get_weights(self): return [np.zeros(1)]
        ...     def set_weights(self, weights): pass
        ...     def gradients(self, X, y): return 0.0, [np.zeros(1)]
        ...     def apply(self, gradient): pass
        >>> DataParallel(Nothing).weights()
        [array([0.])]
        """
        return self._replicas[0].weights().result()

    def _join(self) -> None:
        replicas = self._replicas
        _results([each.join(replicas[2 * k + 1 : 2 * k + 3]) for k, each in enumerate(replicas)])

    def _step(self, X: Any, y: Any) -> float:
        if not len(X) or len(X) != len(y):
            raise ValueError(
                f"a batch must have as many rows as targets, and one at least; this one has "
                f"{len(X)} rows and {len(y)} targets"
            )
        count = len(self._replicas)
        parts = list(zip(np.array_split(X, count), np.array_split(y, count), strict=True))
        loss = self._surely(partial(self._made, parts))
        self._steps += 1
        return loss

    def _made(self, parts: list[tuple[Any, Any]]) -> float:
        """Have those make a step that have not made it; return the mean loss before it."""
        taken = [each.take_part(*part) for each, part in zip(self._replicas, parts, strict=True)]
        sums = self._replicas[0].summed()
        # Not before it is there: calls that wait for it would stand before those that it needs.
        _wait_for([*taken, sums])
        return float(_results([each.apply(self._steps, sums) for each in self._replicas])[0])

    def _surely(self, make: Callable[[], T]) -> T:
        """Return what a function returns, which is called again when an actor ends."""
        left = self._restarts * len(self._replicas)
        is_level = True
        while True:
            try:
                if not is_level:
                    self._level()
                    is_level = True
                return make()
            except WorkerDied:
                if not left:
                    raise
                left -= 1
                is_level = False

    def _level(self) -> None:
        """Bring the copies to one state, after some have started again from what they had."""
        self._join()
        steps = _results([each.steps() for each in self._replicas])
        ahead = self._replicas[steps.index(max(steps))].state()
        _results([
            each.set_state(ahead)
            for each, k in zip(self._replicas, steps, strict=True) if k < max(steps)
        ])


def _wait_for(futures: list[Future]) -> None:
    """Wait for calls, whose results may stay where they are; raise the first error."""
    errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error


def _results(futures: list[Future]) -> list[Any]:
    """Return results; raise the first error when all have ended."""
    _wait_for(futures)
    return [future.result() for future in futures]
