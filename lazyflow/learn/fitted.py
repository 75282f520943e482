"""The fitted arrays of scikit-learn's estimators, read and set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from lazyflow.learn.trees import are_labels, array_of, fitted_to, mapped

__all__ = ["fitted_arrays", "set_fitted_arrays", "without_arrays"]

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
    found = _state_of(model)
    public = {name for name in found if name.endswith("_") and not name.startswith("_")}
    if public <= _LABELS:
        return {}
    features = getattr(model, "n_features_in_", None)
    if type(features) is int and np.shape(found.get("coef_", 0))[-1:] != (features,):
        found["n_features_in_"] = features
    return found


def _state_of(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    copies: dict[int, Any] = {}  # one array by two names stays one: SGD* writes by either
    for name, value in _fitted(model):
        private = name.startswith("_")
        if _is_estimator(value):
            inner = _state_of(value)
            found.update({name: inner} if inner else {})
        elif _holds_model(value):
            raise ValueError(
                f"what this {type(model).__name__} has learned is in {name}, which is no array: "
                "its weights can't be taken out or set. Send the whole model, by pickle"
            )
        elif hasattr(value, "tocsr") and not private:
            advice = "call model.densify() first" if hasattr(model, "densify") else (
                "its weights can't be taken out. Send the whole model, by pickle"
            )
            raise ValueError(f"{name} of {type(model).__name__} is sparse; {advice}")
        elif _is_array(value, private):
            found[name] = copies.setdefault(id(value), np.array(value))
        elif (type(value) is float and not private) or (name, type(value)) == _SEEN:
            found[name] = value
        elif isinstance(value, list | tuple) and value and all(
            isinstance(x, np.ndarray) and _is_array(x, private) for x in value
        ):
            found[name] = type(value)(np.array(x) for x in value)
    return found


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
            f"weights of {type(model).__name__} are labels alone, {sorted(weights)}: nothing would "
            "be set by which it predicts. Send the whole model, by pickle"
        )
    strange = [k for k in weights if not (isinstance(k, str) and "_" in (k[:1], k[-1:]))]
    if strange:
        raise ValueError(
            f"{strange[0]!r} is not what {type(model).__name__} learns: those names end in _, "
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
