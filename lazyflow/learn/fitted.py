"""The fitted arrays of scikit-learn's estimators, read and set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lazyflow.learn.trees import are_labels, array_of, fitted_to, mapped

__all__ = ["fitted_arrays", "set_fitted_arrays", "without_arrays"]

_LABELS = {"classes_"}  # which alone predict nothing


def fitted_arrays(model: Any) -> dict[str, Any]:
    """Return the fitted arrays of an estimator: by scikit-learn's rule their names end in _.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> fitted_arrays(SimpleNamespace(C=1.0, coef_=np.ones(2)))
    {'coef_': array([1., 1.])}
    """
    _refuse_models_in(model)
    found: dict[str, Any] = {}
    for name, value in vars(model).items():
        if name == "feature_names_in_":  # of the rows, not learned of them
            continue
        if not name.endswith("_") or name.startswith("_") or name.endswith("__"):
            continue
        if hasattr(value, "tocsr"):
            raise ValueError(
                f"{name} of {type(model).__name__} is sparse; call model.densify() first"
            )
        if type(value) is float or _is_array(value):
            found[name] = value if type(value) is float else np.array(value)
        elif isinstance(value, list) and value and all(_is_array(x) for x in value):
            found[name] = [np.array(x) for x in value]
    return {} if set(found) <= _LABELS else found


def _is_array(value: Any) -> bool:
    if not isinstance(value, np.ndarray | np.generic):
        return False
    return value.dtype.kind != "O" or are_labels(np.asarray(value))


def _refuse_models_in(model: Any) -> None:
    """Refuse an estimator that predicts by other objects: trees, estimators, candidates."""
    for name, value in vars(model).items():
        is_fitted = name.endswith("_") or name.startswith("_")  # and no parameter
        if is_fitted and _holds_model(value):
            raise ValueError(
                f"what this {type(model).__name__} has learned is in {name}, which is no array: "
                "its weights can't be taken out or set. Send the whole model, by pickle"
            )


def _holds_model(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_model, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_model, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "O" and any(map(_holds_model, value.ravel()))
    return not isinstance(value, type) and callable(getattr(value, "predict", None))


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
    strange = [k for k in weights if not (isinstance(k, str) and k.endswith("_"))]
    if strange:
        raise ValueError(
            f"{strange[0]!r} is not what {type(model).__name__} learns: those names end in _, "
            "as coef_ and intercept_ do. get_weights(model) of a fitted one shows its form"
        )
    if own:
        weights = mapped(fitted_to, [own, weights], "weights")
    else:
        weights = mapped(lambda where, new: array_of(new, where), [weights], "weights")
    for name, value in weights.items():
        setattr(model, name, value)
    # fit sets it and predict checks it, but it is no weight: it follows from the shape.
    if not own and "coef_" in weights and not hasattr(model, "n_features_in_"):
        model.n_features_in_ = int(np.shape(weights["coef_"])[-1])
