"""Metrics of chunked arrays: one computation, of which a few numbers of each chunk are left."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import assert_all_finite, check_consistent_length

from lazyflow.learn.chunked.losses import loss_of_block, loss_of_table
from lazyflow.learn.chunked.moments import moments_of
from lazyflow.learn.chunked.rows import any_chunked, cut_alike, sum_of_parts

__all__ = ["accuracy_score", "log_loss", "mean_squared_error", "r2_score"]


def log_loss(
    y_true: Any, y_pred: Any, *, normalize: bool = True, sample_weight: Any = None,
    labels: Any = None,
) -> float:
    """Return the mean of -log of the probabilities that were predicted for the true labels.

    Parameters
    ----------
    y_true : array of shape (rows,)
        Labels: numbers or text.
    y_pred : array of shape (rows, classes) or (rows,)
        Probabilities of the sorted labels; of the second one, where there is one axis.
    normalize : bool, default: True
        False: the sum.
    sample_weight : array of shape (rows,) or None
    labels : array or None
        All labels; without it, those in `y_true`.

    Raises
    ------
    ValueError
        Lengths differ, a probability is none, or there are not as many labels as columns.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> labels = la.from_array(np.array(["a", "b", "b"]), chunks=2)
    >>> round(log_loss(labels, [0.5, 0.5, 1.0]), 6)
    0.462098
    """
    if not any_chunked(y_true, y_pred, sample_weight):
        return float(metrics.log_loss(
            y_true, y_pred, normalize=normalize, sample_weight=sample_weight, labels=labels
        ))
    table = sum_of_parts(loss_of_block, *_alike(y_pred, y_true, sample_weight))
    total = loss_of_table(table, labels)
    return _mean(total, table.weight) if normalize else total


def accuracy_score(
    y_true: Any, y_pred: Any, *, normalize: bool = True, sample_weight: Any = None
) -> float:
    """Return the share of rows whose label was predicted.

    Parameters
    ----------
    y_true, y_pred : array of shape (rows,) or (rows, labels)
        Labels; with several columns, all of a row must be right.
    normalize : bool, default: True
        False: the number of rows, or the sum of their weights.
    sample_weight : array of shape (rows,) or None

    Raises
    ------
    ValueError
        Lengths differ, or predictions are no labels.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> accuracy_score(la.asarray([0, 1, 1, 1]), [0, 1, 0, 1])
    0.75
    """
    if not any_chunked(y_true, y_pred, sample_weight):
        return float(metrics.accuracy_score(
            y_true, y_pred, normalize=normalize, sample_weight=sample_weight
        ))
    hits, weight = sum_of_parts(_hits_of_block, *_alike(y_true, y_pred, sample_weight))
    return _mean(hits, weight) if normalize else float(hits)


def mean_squared_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Return the mean of squared errors; that of all columns, if there are several.

    Parameters
    ----------
    y_true, y_pred : array of shape (rows,) or (rows, outputs)
        Numbers.
    sample_weight : array of shape (rows,) or None

    Raises
    ------
    ValueError
        Lengths differ, or a number is not finite.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> mean_squared_error(la.asarray([1.0, 2.0, 3.0]), [1.0, 2.0, 6.0])
    3.0
    """
    if not any_chunked(y_true, y_pred, sample_weight):
        return float(metrics.mean_squared_error(y_true, y_pred, sample_weight=sample_weight))
    *errors, weight = sum_of_parts(_errors_of_block, *_alike(y_true, y_pred, sample_weight))
    return _mean(np.mean(errors), weight)


def r2_score(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Return 1 - squared errors / squared deviations from the mean; the mean over columns.

    A constant column counts 1 if it was predicted exactly, 0 if not.

    Parameters
    ----------
    y_true, y_pred : array of shape (rows,) or (rows, outputs)
        Numbers.
    sample_weight : array of shape (rows,) or None

    Raises
    ------
    ValueError
        Lengths differ, or a number is not finite.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> r2_score(la.asarray([1.0, 2.0, 3.0]), [1.0, 2.0, 4.0])
    0.5
    """
    if not any_chunked(y_true, y_pred, sample_weight):
        return float(metrics.r2_score(y_true, y_pred, sample_weight=sample_weight))
    errors, moments = sum_of_parts(_fit_of_block, *_alike(y_true, y_pred, sample_weight))
    if moments.rows < 2:
        warnings.warn(
            "R^2 score is not well-defined with less than two samples.", UndefinedMetricWarning,
            stacklevel=2,
        )
        return float("nan")
    spread = moments.squares
    ratio = np.divide(errors, spread, out=np.ones(len(errors)), where=spread != 0)
    ratio[errors == 0] = 0
    return float(np.mean(1 - ratio))


def _alike(y_true: Any, y_pred: Any, sample_weight: Any) -> list[Any]:
    arrays = cut_alike(y_true, y_pred, sample_weight)
    weights = arrays[2]
    if weights is not None and weights.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar, got {weights.ndim}D array. Expected "
            f"either a scalar value or a 1D array of length {arrays[0].shape[0]}."
        )
    return arrays


def _mean(total: Any, weight: Any) -> float:
    if not weight:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return float(total / weight)


def _weight(rows: int, weights: Any) -> float:
    if weights is None:
        return rows
    assert_all_finite(weights, input_name="sample_weight")
    return float(weights.sum(dtype=np.float64))


def _hits_of_block(y_true: Any, y_pred: Any, weights: Any) -> np.ndarray[Any, Any]:
    """Return the weights of right rows and of all."""
    check_consistent_length(y_true, y_pred, weights)
    y_true, y_pred = [y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y for y in (y_true, y_pred)]
    weight = _weight(len(y_true), weights)
    if not len(y_true):
        return np.zeros(2)
    if _are_doubtful(y_true, y_pred):  # scikit-learn says what is wrong with them, if it is wrong
        hits = metrics.accuracy_score(y_true, y_pred, normalize=False, sample_weight=weights)
        return np.array([hits, weight])
    right = y_true == y_pred
    if right.ndim == 2:
        right = right.all(axis=1)
    return np.array([right.sum() if weights is None else weights[right].sum(), weight])


def _are_doubtful(y_true: Any, y_pred: Any) -> bool:
    """Tell whether these may be no labels, or not of one kind."""
    if y_true.shape != y_pred.shape:
        return True
    if (y_true.dtype.kind in "OUST") != (y_pred.dtype.kind in "OUST"):
        return True
    return any(
        y.dtype.kind == "c" or (y.dtype.kind == "f" and not (np.floor(y) == y).all())
        for y in (y_true, y_pred)
    )


def _columns(y_true: Any, y_pred: Any, weights: Any) -> list[np.ndarray[Any, Any]]:
    check_consistent_length(y_true, y_pred, weights)
    found = []
    for y in (y_true, y_pred):
        assert_all_finite(y)
        found.append((y[:, None] if y.ndim == 1 else y).astype(np.float64))
    n_true, n_pred = [y.shape[1] for y in found]
    if n_true != n_pred:
        raise ValueError(
            f"y_true and y_pred have different number of output ({n_true}!={n_pred})"
        )
    return found


def _squared_errors(y_true: Any, y_pred: Any, weights: Any) -> np.ndarray[Any, Any]:
    squares = (y_true - y_pred) ** 2
    return np.sum(squares if weights is None else squares * weights[:, None], axis=0)


def _errors_of_block(y_true: Any, y_pred: Any, weights: Any) -> np.ndarray[Any, Any]:
    """Return squared errors of columns, and the weight of the rows."""
    y_true, y_pred = _columns(y_true, y_pred, weights)
    return np.append(_squared_errors(y_true, y_pred, weights), _weight(len(y_true), weights))


def _fit_of_block(y_true: Any, y_pred: Any, weights: Any) -> np.ndarray[Any, Any]:
    """Return squared errors of columns, and the moments of true ones."""
    y_true, y_pred = _columns(y_true, y_pred, weights)
    _weight(len(y_true), weights)
    found = np.empty(2, dtype=object)
    found[:] = _squared_errors(y_true, y_pred, weights), moments_of(y_true, weights)
    return found
