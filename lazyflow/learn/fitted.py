"""The learned arrays of scikit-learn's estimators, in dicts and lists, to any depth.

A *tree* is an array, or a dict or list of trees: the form in which `lazyflow.weights` gives
weights. `mapped` walks several trees of one form at once, `replace` writes one into the user's
containers. For an estimator the tree is a dict of its attributes that a fit leaves and a prediction
reads (`fitted_arrays`), with a dict for each estimator within. Estimators that keep what they
learned in other objects are refused, rather than set in part.

Errors name the place of an array in its tree:

>>> mapped(lambda where, a, b: a + b, [{"coef_": [1]}, {"coef_": [1, 2]}], "weights")
Traceback (most recent call last):
...
ValueError: weights['coef_'] has 1 arrays in one and 2 in another (entry 1); all must have ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import numpy as np

# -- arrays in dicts and lists ----------------------------------------------------------------

LABELS = "['classes_']"  # in the places of labels, which have no mean

_NUMBERS = (int, float)


def array_of(value: Any, where: str) -> Any:
    """Return a copy as a NumPy array; a plain number stays one.

    Examples
    --------
    >>> array_of([1, 2], "weights['coef_']"), array_of(0.5, "weights['rate_']")
    (array([1, 2]), 0.5)
    """
    if type(value) in _NUMBERS:
        return value
    try:
        if hasattr(value, "detach"):  # a tensor, maybe on another device, maybe with a history
            value = value.detach().cpu()
            is_bfloat16 = str(getattr(value, "dtype", "")) == "torch.bfloat16"
            value = _of_bfloat16(value) if is_bfloat16 else value.numpy()
        array = np.array(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{where} ({type(value).__name__}) does not become an array: {error}. Convert it "
            "first, for example model.float() for types that NumPy has not"
        ) from error
    if array.dtype.kind == "O" and not are_labels(array):
        raise ValueError(f"{where} is {type(value).__name__}, not an array of numbers or labels")
    return array


def _of_bfloat16(tensor: Any) -> Any:
    """Return a tensor of PyTorch's bfloat16, which NumPy has by ml_dtypes alone."""
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        raise TypeError("NumPy knows bfloat16 by ml_dtypes only: pip install ml_dtypes") from None
    return tensor.float().numpy().astype(ml_dtypes.bfloat16)


def are_labels(array: np.ndarray) -> bool:
    """Whether an array of objects has labels alone: texts and numbers, as pandas keeps them.

    Examples
    --------
    >>> are_labels(np.array(["a", 1], object)), are_labels(np.array([print, None]))
    (True, False)
    """
    return array.size > 0 and all(
        isinstance(label, str | bytes | int | float | np.generic) for label in array.ravel()
    )


def fitted_to(where: str, own: Any, new: Any) -> Any:
    """Return a new value in the dtype of the old one, whose shape it must have.

    Examples
    --------
    >>> fitted_to("weights['coef_']", np.zeros(2), np.array([1, 2]))
    array([1., 2.])
    """
    array = np.asarray(array_of(new, where))
    if array.shape != np.shape(own):
        raise ValueError(
            f"{where} has shape {array.shape}, and the model's has {np.shape(own)}: the weights "
            "are of a model of another form"
        )
    if type(own) in _NUMBERS:
        return type(own)(array)
    if LABELS in where or (own.dtype.kind in "US" and array.dtype.kind in "USO"):
        return array  # labels may be longer, and of another kind
    return as_dtype(array, own.dtype, where)


def as_dtype(array: np.ndarray, dtype: np.dtype[Any], where: str) -> np.ndarray:
    """Return numbers in another dtype; only digits of floats may be lost.

    Examples
    --------
    >>> as_dtype(np.array([1.0, 2.0]), np.dtype(int), "weights['steps']")
    array([1, 2])
    >>> as_dtype(np.array([1.5]), np.dtype(int), "weights['steps']")
    Traceback (most recent call last):
    ...
    ValueError: weights['steps'] is float64, and the model's is int64, which can't hold 1.5
    """
    kinds = array.dtype.kind + dtype.kind
    if np.can_cast(array.dtype, dtype, "same_kind") or "V" in kinds:
        return array.astype(dtype, copy=False)
    lost = array.ravel()
    if not set(kinds) & set("USOmM"):
        with np.errstate(invalid="ignore"):
            cast = (array if dtype.kind == "c" else array.real).astype(dtype)
        lost = array[cast != array]
        if not lost.size:
            return cast
    if not lost.size:
        return array.astype(dtype)
    raise ValueError(
        f"{where} is {array.dtype}, and the model's is {dtype}, which can't hold "
        f"{lost.tolist()[0]!r}"
    )


def place(where: str, at: Any) -> str:
    """Return the name of an item in messages.

    Examples
    --------
    >>> place("weights", "coef_")
    "weights['coef_']"
    """
    return f"{where}[{at!r}]"


def leaves(tree: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the place and the value of each leaf of a tree of containers.

    Examples
    --------
    >>> list(leaves({"a": [1, 2]}, "tree"))
    [("tree['a'][0]", 1), ("tree['a'][1]", 2)]
    """
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from leaves(value, place(where, name))
    elif isinstance(tree, list | tuple):
        for k, value in enumerate(tree):
            yield from leaves(value, place(where, k))
    else:
        yield where, tree


def mapped(function: Callable[..., Any], trees: list[Any], where: str) -> Any:
    """Call a function with the values at each place of several trees; return a tree of the results.

    Examples
    --------
    >>> mapped(lambda where, a, b: a + b, [{"x": [1, 2]}, {"x": [10, 20]}], "trees")
    {'x': [11, 22]}
    """
    first = trees[0]
    if isinstance(first, Mapping):
        _check_names(first, trees, where)
        return {
            name: mapped(function, [t[name] for t in trees], place(where, name))
            for name in first
        }
    if isinstance(first, list | tuple):
        for k, tree in enumerate(trees):
            if not isinstance(tree, list | tuple) or len(tree) != len(first):
                theirs = len(tree) if isinstance(tree, list | tuple) else type(tree).__name__
                raise ValueError(
                    f"{where} has {len(first)} arrays in one and {theirs} in another (entry {k}); "
                    "all must have the form that get_weights(model) returns"
                )
        made = [
            mapped(function, list(column), place(where, k))
            for k, column in enumerate(zip(*trees, strict=True))
        ]
        return made if type(first) is list else tuple(made)
    for tree in trees:
        if isinstance(tree, Mapping | list | tuple):
            raise ValueError(
                f"{where} is an array in one and a {type(tree).__name__} in another; all must "
                "have the form that get_weights(model) returns"
            )
    return function(where, *trees)


def _check_names(first: Mapping[Any, Any], trees: list[Any], where: str) -> None:
    for tree in trees:
        if not isinstance(tree, Mapping):
            raise ValueError(
                f"{where} is a dict by name in one and {type(tree).__name__} in another; all must "
                "have the form that get_weights(model) returns"
            )
        missing = [name for name in first if name not in tree]
        strange = [name for name in tree if name not in first]
        if missing or strange:
            words = [f"{names} {problem}" for names, problem in (
                (_listed(missing), "missing"), (_listed(strange), "not known"),
            ) if names]
            raise ValueError(
                f"the names in {where} are not the same: {', '.join(words)}. get_weights(model) "
                "shows those of a model"
            )


def _listed(names: list[Any]) -> str:
    text = ", ".join(map(repr, names[:5]))
    return f"{text} and {len(names) - 5} more" if len(names) > 5 else text


def check_changeable(model: Any, where: str) -> None:
    """Refuse containers that `replace` could not change, before it changes any.

    Examples
    --------
    >>> check_changeable({"x": ([1, 2], [3])}, "weights")
    >>> check_changeable({"x": [1], "y": (2,)}, "weights")
    Traceback (most recent call last):
    ...
    TypeError: weights['y'] is a tuple, which can't be changed: keep the arrays in a list or a dict
    """
    for at, value in model.items() if isinstance(model, Mapping) else enumerate(model):
        if isinstance(value, Mapping | list | tuple):
            check_changeable(value, place(where, at))
        elif not hasattr(model, "__setitem__"):
            raise TypeError(
                f"{where} is a {type(model).__name__}, which can't be changed: keep the arrays in "
                "a list or a dict"
            )


def replace(model: Any, new: Any) -> None:
    """Put new arrays in the places of the old ones, in the user's own containers.

    Examples
    --------
    >>> model = {"x": [1, 2]}
    >>> replace(model, {"x": [10, 20]})
    >>> model
    {'x': [10, 20]}
    """
    items = list(new.items() if isinstance(new, Mapping) else enumerate(new))
    for at, value in items:
        if isinstance(value, Mapping | list | tuple):
            replace(model[at], value)
        else:
            model[at] = value


# -- scikit-learn's estimators ----------------------------------------------------------------

_LABELS = {"classes_"}  # which alone predict nothing
# What scikit-learn keeps of the run or of its rows, and no prediction reads.
_HISTORY = {
    "_best_coefs", "_best_intercepts", "_optimizer", "_x_scores", "_y_scores", "alphas_",
    "best_loss_", "bound_", "coef_path_", "coefs_paths_", "component_indices_", "criterion_",
    "cv_alphas_", "dist_", "mse_path_", "outliers_", "raw_support_", "x_scores_", "y_scores_",
}
_SEEN = ("n_samples_seen_", int)  # from which partial_fit goes on
_ACTS = ("predict", "transform", "query", "get_params", "state_dict", "get_weights")
_PREDICTIONS = (
    "predict", "predict_proba", "decision_function", "transform", "inverse_transform",
    "score_samples",
)


def fitted_arrays(model: Any) -> dict[str, Any]:
    """Return the fitted arrays of an estimator: by scikit-learn's rule their names end in _.

    Arrays whose names begin with _ go with them, and the arrays of an estimator within, such as
    the labels of a classifier's encoder, are a dict. Curves and paths of the training are left
    out: no prediction reads them, and their lengths differ from fit to fit.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> fitted_arrays(SimpleNamespace(C=1.0, coef_=np.ones(2)))
    {'coef_': array([1., 1.])}
    """
    learned = _state_of(model)
    public = {name for name in learned if name.endswith("_") and not name.startswith("_")}
    if public <= _LABELS:
        return {}
    features = getattr(model, "n_features_in_", None)
    if type(features) is int and np.shape(learned.get("coef_", 0))[-1:] != (features,):
        learned["n_features_in_"] = features
    return learned


def _state_of(model: Any) -> dict[str, Any]:
    state: dict[str, Any] = {}
    copies: dict[int, Any] = {}  # one array by two names stays one: SGD* writes by either
    for name, value in _fitted(model):
        private = name.startswith("_")
        if _is_estimator(value):
            inner = _state_of(value)
            state.update({name: inner} if inner else {})
        elif _holds_model(value):
            raise ValueError(
                f"this {type(model).__name__} keeps what it learned in {name}, which is no array: "
                "its weights can't be read or set. Send the whole model, by pickle"
            )
        elif hasattr(value, "tocsr") and not private:
            advice = "call model.densify() first" if hasattr(model, "densify") else (
                "its weights can't be taken out. Send the whole model, by pickle"
            )
            raise ValueError(f"{name} of {type(model).__name__} is sparse; {advice}")
        elif _is_array(value, private):
            state[name] = copies.setdefault(id(value), np.array(value))
        elif (type(value) is float and not private) or (name, type(value)) == _SEEN:
            state[name] = value
        elif isinstance(value, list | tuple) and value and all(
            isinstance(x, np.ndarray) and _is_array(x, private) for x in value
        ):
            state[name] = type(value)(np.array(x) for x in value)
    return state


def _fitted(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a fit leaves in an estimator and its predictions may read."""
    for name, value in vars(model).items():
        if name in _HISTORY or name.startswith("__") or name.endswith("__"):
            continue
        if name == "feature_names_in_":  # of the rows, not learned of them
            continue
        if name == "labels_" and hasattr(model, "predict"):  # of the rows of the fit
            continue
        if name.endswith("_") or name.startswith("_"):  # and is no parameter
            yield name, value


def _is_array(value: Any, private: bool) -> bool:
    if not isinstance(value, np.ndarray | np.generic):
        return False
    if private:  # not the names of columns
        return value.dtype.kind in "biufc"
    return value.dtype.kind != "O" or are_labels(np.asarray(value))


def _is_estimator(value: Any) -> bool:
    """Whether a value is an estimator that changes rows or labels: those that predict are not."""
    can = [callable(getattr(value, name, None)) for name in ("fit", "get_params", "predict")]
    return can == [True, True, False] and not isinstance(value, type)


def _holds_model(value: Any) -> bool:
    """Whether a value predicts by itself (a tree, a model, candidates), or hides arrays."""
    if isinstance(value, Mapping):
        return any(map(_holds_model, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_model, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "O" and any(
            isinstance(x, np.ndarray) or _holds_model(x) for x in value.ravel()
        )
    if isinstance(value, type | np.generic | FunctionType) or hasattr(value, "tocsr"):
        return False
    hidden = getattr(value, "__dict__", {}).values()
    return any(isinstance(x, np.ndarray) for x in hidden) or any(
        callable(getattr(value, name, None)) for name in _ACTS
    )


def without_arrays(model: Any) -> str:
    """Return the message for an estimator that has no fitted arrays.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> without_arrays(SimpleNamespace(steps=[]))
    'SimpleNamespace keeps its weights in its steps: get_weights(model[-1])'
    """
    name = type(model).__name__
    if hasattr(model, "steps"):
        return f"{name} keeps its weights in its steps: get_weights(model[-1])"
    return (
        f"this {name} has no fitted arrays (attributes such as coef_): call model.fit(X, y) "
        "first, or set_weights(model, weights) with those of a fitted one"
    )


def set_fitted_arrays(model: Any, weights: Any) -> None:
    """Set the fitted arrays of an estimator, fitted or not.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(coef_=np.ones(2))
    >>> set_fitted_arrays(model, {"coef_": np.array([3, 4])})
    >>> model.coef_
    array([3., 4.])
    """
    if not isinstance(weights, Mapping):
        raise ValueError(
            f"weights of {type(model).__name__} are a dict by name, not {type(weights).__name__}; "
            "get_weights(model) shows its form"
        )
    own = fitted_arrays(model)
    if weights and set(weights) <= _LABELS:
        raise ValueError(
            f"weights of {type(model).__name__} are labels alone, {sorted(weights)}: they don't "
            "determine its predictions. Send the whole model, by pickle"
        )
    strange = [k for k in weights if not (isinstance(k, str) and "_" in (k[:1], k[-1:]))]
    if strange:
        raise ValueError(
            f"{type(model).__name__} learns nothing called {strange[0]!r}: such names end in _, "
            "as coef_ and intercept_ do. get_weights(model) of a fitted one shows its form"
        )
    if own:
        _set_again(model, own, weights)
    else:
        _set_first(model, weights)


def _set_again(model: Any, own: dict[str, Any], weights: Mapping[str, Any]) -> None:
    """Set the arrays of a fitted estimator, whose shapes they must have."""
    features, theirs = own.pop("n_features_in_", None), weights.get("n_features_in_")
    if features is not None and theirs is not None and features != theirs:
        raise ValueError(
            f"the weights are of a {type(model).__name__} of {theirs} features, and this one was "
            f"fitted to {features}: set them in one of the same form"
        )
    new = {name: value for name, value in weights.items() if name != "n_features_in_"}
    _put(model, mapped(_refitted, [own, new], "weights"), new)


def _refitted(where: str, own: Any, new: Any) -> Any:
    if np.asarray(own).dtype.kind in "iu" and np.asarray(new).dtype.kind == "f":
        own = np.asarray(own, np.float64)  # as rows that are counted by their weights
    return fitted_to(where, own, new)


def _put(model: Any, new: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    copies: dict[int, Any] = {}  # as in `_state_of`
    for name, value in new.items():
        if isinstance(value, Mapping):
            _put(vars(model)[name], value, weights[name])
        else:
            setattr(model, name, copies.setdefault(id(weights[name]), value))


def _set_first(model: Any, weights: Mapping[str, Any]) -> None:
    """Set the arrays of an estimator that was never fitted, if it predicts by them alone."""
    inner = [name for name, value in weights.items() if isinstance(value, Mapping)]
    if inner:
        raise ValueError(_unfit(model, f"only a fit makes its {inner[0]}"))
    new = mapped(lambda where, value: array_of(value, where), [dict(weights)], "weights")
    if "n_features_in_" in new:  # fit sets it and predict checks it
        new["n_features_in_"] = int(new["n_features_in_"])
    elif "coef_" in new:
        new["n_features_in_"] = int(np.shape(new["coef_"])[-1])
    before = dict(vars(model))
    _put(model, new, {**new, **weights})
    missing = _missing(model)
    if missing:
        vars(model).clear()
        vars(model).update(before)
        raise ValueError(_unfit(model, missing))


def _missing(model: Any) -> str:
    """Return what an estimator says that it lacks when it predicts a row, or ""."""
    if not hasattr(model, "n_features_in_"):
        return ""
    row = np.zeros((1, model.n_features_in_))
    for name in _PREDICTIONS:
        method = getattr(model, name, None)
        if method is None:
            continue
        try:
            with np.errstate(all="ignore"):
                method(row)
        except AttributeError as error:  # scikit-learn's NotFittedError is one
            return f"{name} fails: {error}"
        except Exception:  # it is no row of its kind, but nothing is missing
            continue
    return ""


def _unfit(model: Any, why: str) -> str:
    return (
        f"an unfitted {type(model).__name__} can't predict by arrays alone ({why}). Fit it first, "
        "to a few rows with every label, and set the weights then"
    )
