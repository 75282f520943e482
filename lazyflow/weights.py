"""The weights of models as arrays: read, set, flattened, and averaged.

A model object is large, often can't be pickled, and is best built once per worker
(`lazyflow.worker_state`, `lazyflow.actor`). Only its weights have to travel: plain NumPy arrays
in a dict or a list, which tasks get by reference like any array.

Models are recognized by their methods, so no framework is imported:

=================  ====================================  =======================================
model              methods                               weights
=================  ====================================  =======================================
Keras              ``get_weights``, ``set_weights``      list of arrays
PyTorch            ``state_dict``, ``load_state_dict``   dict of arrays, buffers included; of an
                                                         optimiser its state: "0.exp_avg"
scikit-learn       ``fit``, ``get_params``               dict of fitted arrays: ``coef_``
TensorFlow         ``variables`` with ``assign``         list of arrays; Keras's optimisers, too
dict or list       of arrays, to any depth               the same, copied
=================  ====================================  =======================================

The flat functions are for optimisers that take one float64 vector, such as SciPy's. It holds
the numbers that an optimiser may change: arrays of floats, PyTorch's parameters and Keras's
trainable weights.

    >>> model = {"w": np.zeros((2, 2), "float32"), "b": np.ones(2)}
    >>> set_flat(model, get_flat(model) + 0.5)
    >>> model["w"].dtype, model["b"].tolist()
    (dtype('float32'), [1.5, 1.5])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lazyflow.api.lazy import Delayed
from lazyflow.learn.fitted import (
    LABELS,
    array_of,
    as_dtype,
    check_changeable,
    fitted_arrays,
    fitted_to,
    leaves,
    mapped,
    place,
    replace,
    set_fitted_arrays,
    without_arrays,
)

__all__ = [
    "get_flat",
    "get_weights",
    "mean_gradients",
    "mean_weights",
    "set_flat",
    "set_weights",
]

_OF_MODELS = ("fit", "state_dict", "get_weights")


# -- the weights of a model -------------------------------------------------------------------


def get_weights(model: Any) -> Any:
    """Return copies of a model's weights as NumPy arrays, dtypes and shapes as they are.

    Parameters
    ----------
    model
        A PyTorch module, a Keras model, a ``tf.Module``, an optimiser of PyTorch's or Keras's, a
        fitted scikit-learn estimator, or a dict or list of arrays.

    Returns
    -------
    dict or list
        A list for Keras, TensorFlow and a list, else a dict by name.

    Raises
    ------
    TypeError
        The model is none of those.
    ValueError
        The estimator is not fitted, the model not built, or a weight can't be a NumPy array.

    Examples
    --------
    >>> get_weights([np.arange(3.0)])
    [array([0., 1., 2.])]
    """
    kind = _kind_of(model)
    if kind == "keras":
        if getattr(model, "built", True) is False:
            raise ValueError(
                f"this {type(model).__name__} is not built: Keras makes its weights when it knows "
                "a shape. Call model.build((None, columns)) or model(rows) once, or begin the "
                "model with keras.Input((columns,))"
            )
        own = model.get_weights()
        own = own if isinstance(own, Mapping | list | tuple) else list(own)
        return mapped(lambda where, w: array_of(w, where), [own], "weights")
    if kind == "torch":
        state = model.state_dict()
        _check_extra_state(state)
        return {name: array_of(w, name) for name, w in state.items()}
    if kind == "torch optimiser":
        return {name: array_of(w, name) for name, w in _kept_by(model)}
    if kind == "variables":
        variables = _variables_of(model)
        if not variables:
            raise ValueError(
                f"this {type(model).__name__} has no variables yet: call it once, or build it"
            )
        return [array_of(v, place("weights", k)) for k, v in enumerate(variables)]
    if kind == "sklearn":
        found = fitted_arrays(model)
        if not found:
            raise ValueError(without_arrays(model))
        return found
    return mapped(lambda where, x: array_of(x, where), [model], "weights")


def set_weights(model: Any, weights: Any) -> None:
    """Set the weights of a model, in the form that `get_weights` returns.

    Every value is copied into the model's own dtype, which must hold it. When one does not fit,
    none is set. A scikit-learn estimator that was never fitted then predicts like the estimator
    that the weights come from. If its fit makes more than arrays (SVC, MLPClassifier), set_weights
    raises: fit it first, to a few rows. State that an optimiser keeps beside the weights (Adam's
    moments) is not changed.

    Raises
    ------
    ValueError
        The names, their number, or the shapes are not those of the model.
    TypeError
        `get_weights` does not know such a model.

    Examples
    --------
    >>> model = [np.zeros(2), np.zeros(1)]
    >>> set_weights(model, [np.array([1, 2]), np.array([3])])
    >>> model
    [array([1., 2.]), array([3.])]
    """
    kind = _kind_of(model)
    if kind == "sklearn":
        set_fitted_arrays(model, weights)
        return
    if kind == "torch optimiser":
        _set_kept(model, weights)
        return
    now = get_weights(model)
    fitting = mapped(fitted_to, [now, weights], "weights")
    if kind == "keras":
        model.set_weights(fitting)
    elif kind == "torch":
        _load(model, fitting, True)
    elif kind == "variables":
        for variable, value in zip(_variables_of(model) or (), fitting, strict=True):
            variable.assign(value)
    else:
        check_changeable(model, "weights")
        replace(model, fitting)


def _check_extra_state(state: Mapping[str, Any]) -> None:
    for name, value in state.items():
        if name.endswith("_extra_state") and not hasattr(value, "detach"):
            raise ValueError(
                f"{name} is a {type(value).__name__} of the module's get_extra_state(), which "
                "can't become an array: return a tensor there, or send model.state_dict() itself"
            )


def _kept_by(optimiser: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and tensors of what an optimiser of PyTorch keeps for its parameters."""
    for at, kept in optimiser.state_dict()["state"].items():
        for key, value in kept.items():
            if value is None:
                continue
            if not hasattr(value, "detach"):
                raise ValueError(
                    f"{at}.{key} of this {type(optimiser).__name__} is a {type(value).__name__}, "
                    "not an array: send optimiser.state_dict() itself"
                )
            yield f"{at}.{key}", value


def _set_kept(optimiser: Any, weights: Any) -> None:
    """Set what an optimiser of PyTorch keeps, also one that has made no step yet."""
    if not isinstance(weights, Mapping):
        raise ValueError(
            f"the weights of a {type(optimiser).__name__} are a dict by name, such as "
            f"'0.exp_avg'; got a {type(weights).__name__}"
        )
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    now = dict(_kept_by(optimiser))
    state: dict[int, dict[str, Any]] = {}
    for name, value in weights.items():
        at, _, key = str(name).partition(".")
        array = np.asarray(value)
        if not (at.isdecimal() and key and int(at) < len(parameters)):
            raise ValueError(
                f"a {type(optimiser).__name__} of {len(parameters)} parameters has no state named "
                f"{name!r}: a name is the number of a parameter, a dot and a word, as '0.exp_avg'"
            )
        parameter = parameters[int(at)]
        shapes = {tuple(now[name].shape)} if name in now else {(), tuple(parameter.shape)}
        if array.shape not in shapes:
            raise ValueError(
                f"{name} has shape {array.shape}, but that of the optimiser has "
                f"{' or '.join(map(str, sorted(shapes)))}"
            )
        like = now.get(name, parameter)
        state.setdefault(int(at), {})[key] = like.new_tensor(_as_plain(array))
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def _load(module: Any, weights: dict[str, Any], strict: bool) -> None:
    own = module.state_dict()
    tensors = {name: own[name].new_tensor(_as_plain(value)) for name, value in weights.items()}
    module.load_state_dict(tensors, strict=strict)


def _as_plain(value: Any) -> Any:
    """Return an array that PyTorch takes: it knows no bfloat16 of NumPy's."""
    is_other = getattr(value, "dtype", None) is not None and value.dtype.kind == "V"
    return value.astype(np.float32) if is_other else value


def get_flat(model: Any) -> np.ndarray:
    """Return all floats that an optimiser may change as one float64 vector.

    They are in the order of `get_weights`. For a dict of gradients with the same names, the result
    is the gradient with respect to the vector. Integers, labels and (PyTorch, Keras) weights that
    are not trained are left out.

    Raises
    ------
    ValueError
        There are no floats, or some that float64 can't hold (complex, long double).
    TypeError
        `get_weights` does not know such a model.

    Examples
    --------
    >>> get_flat({"w": np.eye(2), "b": np.array([7.0], "float32"), "steps": np.array(3)})
    array([1., 0., 0., 1., 7.])
    """
    parts = [value.ravel() for _, value in _moved(model)]
    return np.concatenate(parts).astype(np.float64)


def set_flat(model: Any, vector: npt.ArrayLike) -> None:
    """Set the floats of a model, in its own dtypes, from a vector like that of `get_flat`.

    ``set_flat(model, get_flat(model))`` changes no bit.

    Raises
    ------
    ValueError
        The vector has another length, or more than one dimension.
    TypeError
        `get_weights` does not know such a model.

    Examples
    --------
    >>> model = {"w": np.zeros((2, 2), "float32"), "b": np.ones(2)}
    >>> set_flat(model, [1, 2, 3, 4, 5, 6])
    >>> model["w"].tolist(), model["b"]
    ([[1.0, 2.0], [3.0, 4.0]], array([5., 6.]))
    """
    vector = as_dtype(np.asarray(vector), np.dtype(np.float64), "the vector")
    moved = list(_moved(model))
    total = sum(value.size for _, value in moved)
    if vector.shape != (total,):
        parts = ", ".join(f"{where} {value.shape}" for where, value in moved)
        raise ValueError(
            f"the vector has shape {vector.shape}, but the model has {total} numbers: {parts}. "
            "Make the vector from get_flat(model), and keep its order and length"
        )
    new = {}
    at = 0
    for where, value in moved:
        new[where] = vector[at : at + value.size].reshape(value.shape)
        at += value.size
    weights = get_weights(model)
    changed = mapped(lambda where, own: new.get(where, own), [weights], "weights")
    if _kind_of(model) == "torch":
        # Not the others: the old value of a tied parameter's second name would win.
        changed = {k: value for k, value in changed.items() if place("weights", k) in new}
        _load(model, {k: fitted_to(k, weights[k], value) for k, value in changed.items()}, False)
    else:
        set_weights(model, changed)


# -- averages ---------------------------------------------------------------------------------


def mean_weights(weights: Sequence[Any]) -> Any:
    """Return the mean of several models' weights, in the same form.

    Floats are added from first to last and divided by their number, in their own dtype. Integers
    (steps taken, batches seen) are rounded; labels and strings must be the same in all models.

    Raises
    ------
    ValueError
        The list is empty, or names, lengths or shapes differ.
    TypeError
        The argument is not a list, or an entry is a lazy value or a model itself.

    Examples
    --------
    >>> mean_weights([{"w": np.array([1.0, 2.0])}, {"w": np.array([3.0, 6.0])}])
    {'w': array([2., 4.])}
    """
    trees = _several(weights, "mean_weights", "get_weights(model)")
    return mapped(_mean, trees, "weights")


def mean_gradients(gradients: Sequence[Any]) -> Any:
    """Return the mean of several gradients: arrays, or dicts or lists of arrays, of one form.

    Frameworks return None for weights without a gradient: an entry must be None in all or in none.

    Raises
    ------
    ValueError
        The list is empty, or names, lengths or shapes differ.
    TypeError
        The argument is not a list, or an entry is a lazy value or a model itself.

    Examples
    --------
    >>> mean_gradients([[np.array([1.0]), None], [np.array([2.0]), None]])
    [array([1.5]), None]
    """
    trees = _several(gradients, "mean_gradients", "the gradient of each batch")
    return mapped(_mean_or_none, trees, "gradients")


def _several(trees: Any, function: str, what: str) -> list[Any]:
    if isinstance(trees, Mapping | np.ndarray) or not isinstance(trees, Sequence):
        raise TypeError(
            f"{function} takes a list with one entry per model, not {type(trees).__name__}: "
            f"{function}([{what}, ...])"
        )
    for tree in trees:
        if isinstance(tree, Delayed):
            raise TypeError(
                f"{function} of lazy values: compute them first, or call it in a task, "
                f"delayed({function})([...])"
            )
        if any(callable(getattr(tree, name, None)) for name in _OF_MODELS):
            raise TypeError(
                f"{function} takes [{what}, ...], and one of these is a {type(tree).__name__}"
            )
    if not len(trees):
        raise ValueError(f"{function} got an empty list; pass {what} of at least one model")
    return list(trees)


def _mean_or_none(where: str, *values: Any) -> Any:
    absent = [k for k, value in enumerate(values) if value is None]
    if len(absent) == len(values):
        return None
    if absent:
        raise ValueError(
            f"{where} is None in entry {absent[0]} and an array in another; give zeros of its "
            "shape where there is no gradient"
        )
    return _mean(where, *values)


def _mean(where: str, *values: Any) -> Any:
    arrays = [array_of(value, where) for value in values]
    first = arrays[0]
    for k, array in enumerate(arrays):
        if np.shape(array) != np.shape(first):
            raise ValueError(
                f"{where} has shape {np.shape(array)} in entry {k} and {np.shape(first)} in "
                "entry 0; all must come from models of one form"
            )
    dtype = np.result_type(*arrays)
    if not (dtype.kind in "ciu" or _is_float(dtype)) or LABELS in where:
        for k, array in enumerate(arrays):
            if not np.array_equal(array, first):
                advice = (
                    "Train all on the same labels (partial_fit has classes=)"
                    if LABELS in where else f"Only numbers have one, and it is {dtype}"
                )
                raise ValueError(
                    f"{where} differs between entry 0 and entry {k}, so it has no mean: "
                    f"{_short(first)} and {_short(array)}. {advice}"
                )
        return first
    total = np.zeros(np.shape(first), _adding(dtype))
    for array in arrays:
        total = total + array
    mean = total / len(arrays)
    mean = np.asarray(np.rint(mean) if dtype.kind in "iu" else mean).astype(dtype)
    return mean if isinstance(first, np.ndarray) else type(first)(mean)


def _is_float(dtype: np.dtype) -> bool:
    """Whether a dtype is one of floats; those of ml_dtypes (bfloat16) have the kind of bytes."""
    if dtype.kind != "V" or dtype.names or dtype.subdtype:
        return dtype.kind == "f"
    return np.can_cast(dtype, np.float64) and not np.can_cast(dtype, np.int64)


def _adding(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which numbers of a dtype are added."""
    if dtype.kind in "iu":
        return np.dtype(np.float64)
    return np.result_type(dtype, np.float32)


def _short(value: Any) -> str:
    text = repr(np.asarray(value).tolist())
    return text if len(text) <= 60 else text[:57] + "..."


# -- kinds of models --------------------------------------------------------------------------


def _kind_of(model: Any) -> str:
    if isinstance(model, Delayed):
        raise TypeError(
            "this model is lazy: compute it first, or read and set its "
            "weights in tasks, as delayed(get_weights)(model)"
        )
    if isinstance(model, Mapping | list | tuple):
        return "plain"
    if not isinstance(model, type):
        for kind, names in (
            ("keras", ("get_weights", "set_weights")),  # first: on PyTorch they are modules too
            ("torch optimiser", ("state_dict", "load_state_dict", "zero_grad", "add_param_group")),
            ("torch", ("state_dict", "load_state_dict")),
            ("sklearn", ("fit", "get_params")),
        ):
            if all(callable(getattr(model, name, None)) for name in names):
                return kind
        if _variables_of(model) is not None:
            return "variables"
    what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    hint = f"; make one: {model.__name__}()" if isinstance(model, type) else ""
    raise TypeError(
        f"can't find the weights of {what}{hint}. A model is a PyTorch module (state_dict), a "
        "Keras model (get_weights), a tf.Module (variables), a scikit-learn estimator (fit), or a "
        'dict or list of arrays: put what it has learned in a dict, as {"coef": model.coef}'
    )


def _variables_of(model: Any) -> list[Any] | None:
    """Return the variables of a ``tf.Module`` or of an optimiser; None of anything else."""
    found = getattr(model, "variables", None)
    if not isinstance(found, list | tuple):
        return None
    is_it = all(callable(getattr(v, "assign", None)) for v in found)
    return list(found) if is_it and (found or hasattr(model, "trainable_variables")) else None


def _moved(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the place and the array of each part of the flat vector, in its order."""
    weights = get_weights(model)
    trained = _trained(model, weights)
    has_floats = False
    for where, value in leaves(weights, "weights"):
        array = np.asarray(value)
        if not (array.dtype.kind == "c" or _is_float(array.dtype)) or not where.startswith(trained):
            continue
        if array.dtype.kind == "c" or array.dtype.itemsize > 8:
            raise ValueError(
                f"{where} is {array.dtype}, which a float64 vector can't hold; convert it first, "
                "for example to its real and imaginary parts"
            )
        has_floats = True
        yield where, array
    if not has_floats:
        raise ValueError(f"{type(model).__name__} has no arrays of floats: nothing to optimise")


def _trained(model: Any, weights: Any) -> tuple[str, ...]:
    """Return the beginnings of the places of trained weights."""
    kind = _kind_of(model)
    if kind == "torch" and hasattr(model, "named_parameters"):
        return tuple([
            place("weights", name) for name, each in model.named_parameters()
            if getattr(each, "requires_grad", True)  # or it is frozen
        ])
    if kind == "variables":
        variables, trained = _variables_of(model), getattr(model, "trainable_variables", None)
    else:
        variables = getattr(model, "weights", None) if kind == "keras" else None
        trained = getattr(model, "trainable_weights", None)
    if variables is not None and trained is not None:
        ids = {id(v) for v in trained}
        return tuple([place("weights", k) for k, v in enumerate(variables) if id(v) in ids])
    if kind == "sklearn":
        names = [name for name in weights if name.startswith(("coef", "intercept", "offset_"))]
        if any(name.startswith("coef") for name in names):  # or all that it has
            return tuple([place("weights", name) for name in names])
    return ("",)
