"""Metrics of chunked arrays: one computation, which reduces each chunk to a few numbers.

Tasks return sums over the rows of a chunk, those of errors and losses in double precision; a tree
adds them. The columns of probabilities belong to the sorted labels of all chunks, so no chunk knows
which column is that of a label: `log_loss` adds up tables by label and column, and refuses numbers
that are no labels once there are 100 more of them than columns. scikit-learn computes the metric
where no argument is chunked. Its checks, messages and warnings hold for chunks, too, for which
`log_loss` calls it with a small sample that has all faults of the data.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import assert_all_finite, check_consistent_length

from lazyflow.learn.chunked.rows import (
    any_chunked,
    check_one_axis,
    cut_alike,
    moments_of,
    sum_of_parts,
)

# -- log losses by label and column, which can be merged: which column is a label's, all decide

#: If there are so many more labels than columns, they are taken for numbers, not classes, and an
#: error is raised before all are collected. A guess.
_TOO_MANY = 100


@dataclass(frozen=True, eq=False)
class LossTable:
    """Sums of -log of probabilities by true label and by column; ``+`` merges those of rows.

    Attributes
    ----------
    labels : ndarray
        The labels that occur, sorted.
    sums : ndarray, shape (labels, columns)
    weight : float
        That of all rows.
    least, most : float
        Of the probabilities.
    sums_to_one : bool
        Whether those of each row do.
    one_axis : bool
        Whether there were probabilities of the second label only.

    Examples
    --------
    >>> one = loss_of_block(np.array([[0.5, 0.5]]), np.array(["b"]))
    >>> other = loss_of_block(np.array([[0.1, 0.9]]), np.array(["a"]))
    >>> (one + other).labels.tolist()
    ['a', 'b']
    """

    labels: np.ndarray[Any, Any]
    sums: np.ndarray[Any, Any]
    weight: float
    least: float
    most: float
    sums_to_one: bool
    one_axis: bool

    def __add__(self, other: LossTable) -> LossTable:
        if not len(other.labels):
            return self
        if not len(self.labels):
            return other
        labels = np.union1d(self.labels, other.labels)
        columns = self.sums.shape[1]
        if len(labels) > columns + _TOO_MANY:
            raise ValueError(
                f"y_true and y_prob contain different number of classes: {len(labels)} or more vs "
                f"{columns}. Are the values of y_true labels? Some are {labels[:3].tolist()}"
            )
        sums = np.zeros((len(labels), columns))
        for each in self, other:
            sums[np.searchsorted(labels, each.labels)] += each.sums
        return LossTable(
            labels, sums, self.weight + other.weight, min(self.least, other.least),
            max(self.most, other.most), self.sums_to_one and other.sums_to_one, self.one_axis,
        )


def loss_of_block(y_prob: Any, y_true: Any, weights: Any = None) -> LossTable:
    """Return the table of a block.

    Parameters
    ----------
    y_prob : ndarray, shape (rows, columns) or (rows,)
    y_true : ndarray of labels, shape (rows,) or (rows, 1)
    weights : ndarray, shape (rows,), or None

    Examples
    --------
    >>> loss_of_block(np.array([1.0, 0.5]), np.array([1, 1])).sums.round(3)
    array([[36.737,  0.693]])
    """
    check_consistent_length(y_prob, y_true, weights)
    if y_prob.dtype not in (np.float16, np.float32, np.float64):
        y_prob = y_prob.astype(np.float64)
    assert_all_finite(y_prob, input_name="y_pred")
    weight = _weight(len(y_prob), weights)
    least, most = y_prob.min(initial=1), y_prob.max(initial=0)
    one_axis = y_prob.ndim == 1 or y_prob.shape[1] == 1
    if one_axis:
        y_prob = y_prob.reshape(-1, 1)
        y_prob = np.concatenate([1 - y_prob, y_prob], axis=1)
    eps = np.finfo(y_prob.dtype).eps
    to_one = bool(np.isclose(y_prob.sum(axis=1), 1, rtol=eps**0.5).all())
    loss = -np.log(np.clip(y_prob, eps, 1 - eps).astype(np.float64))
    if weights is not None:
        loss *= weights[:, None]
    labels, place = np.unique(y_true.ravel(), return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(labels)))
    sums = np.add.reduceat(loss[order], starts, axis=0) if len(loss) else loss
    return LossTable(labels, sums, weight, float(least), float(most), to_one, one_axis)


def loss_of_table(table: LossTable, labels: Any) -> float:
    """Return the sum of losses of all rows; the columns belong to the sorted labels.

    Parameters
    ----------
    table : LossTable
    labels : array or None
        All labels; without it, those of the table.

    Raises
    ------
    ValueError
        Labels don't fit the columns, or a value is not a probability (scikit-learn's messages).

    Examples
    --------
    >>> loss_of_table(loss_of_block(np.array([[0.5, 0.5]]), np.array(["b"])), ["a", "b"])
    0.6931471805599453
    """
    n = table.sums.shape[1]
    sample = np.full((len(table.labels), n), 1 / n)
    # A sample that has all that can be wrong: scikit-learn looks at it, and raises or warns.
    if table.most > 1 or table.least < 0:
        sample[0, -1] = table.most if table.most > 1 else table.least
    elif not table.sums_to_one:
        sample /= 2
    metrics.log_loss(table.labels, sample[:, 1] if table.one_axis else sample, labels=labels)
    every = table.labels if labels is None else np.unique(labels)
    columns = np.searchsorted(every, table.labels)
    return float(table.sums[np.arange(len(columns)), columns].sum())


def log_loss(
    y_true: Any, y_pred: Any, *, normalize: bool = True, sample_weight: Any = None,
    labels: Any = None,
) -> float:
    """Return the mean of -log of the predicted probabilities of the true labels.

    Parameters
    ----------
    y_true : array of shape (rows,)
        Labels: numbers or text.
    y_pred : array of shape (rows, classes) or (rows,)
        Probabilities of the sorted labels; with one axis, of the second label.
    normalize : bool, default: True
        False: the sum.
    sample_weight : array of shape (rows,) or None
    labels : array or None
        All labels; without it, those in `y_true`.

    Raises
    ------
    ValueError
        Lengths differ, a value is not a probability, or the numbers of labels and columns differ.

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
    """Return the share of rows whose label was predicted correctly.

    Parameters
    ----------
    y_true, y_pred : array of shape (rows,) or (rows, labels)
        Labels; with several columns, all of a row must be right.
    normalize : bool, default: True
        False: return the number of right rows, or the sum of their weights.
    sample_weight : array of shape (rows,) or None

    Raises
    ------
    ValueError
        Lengths differ, or predictions are not labels.

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
    """Return the mean of squared errors, over all columns if there are several.

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
    """Return 1 - squared errors / squared deviations from the mean, averaged over columns.

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
    if arrays[2] is not None:
        check_one_axis(arrays[2], arrays[0].shape[0])
    return arrays


def _mean(total: Any, weight: Any) -> float:
    if not weight:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return float(total / weight)


def _weight(rows: int, weights: Any) -> float:
    if weights is None:
        return float(rows)
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
    columns = []
    for y in (y_true, y_pred):
        assert_all_finite(y)
        columns.append((y[:, None] if y.ndim == 1 else y).astype(np.float64))
    n_true, n_pred = [y.shape[1] for y in columns]
    if n_true != n_pred:
        raise ValueError(
            f"y_true and y_pred have different number of output ({n_true}!={n_pred})"
        )
    return columns


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
