"""Log losses by label and column, which can be merged: which column is a label's, all decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.utils import assert_all_finite, check_consistent_length

__all__ = ["LossTable", "loss_of_block", "loss_of_table"]

#: Labels beyond the number of columns at which one stops to collect them: they are numbers to fit.
_TOO_MANY = 100


@dataclass(frozen=True, eq=False)
class LossTable:
    """Sums of -log of probabilities by true label and by column; ``+`` merges those of rows.

    Attributes
    ----------
    labels : ndarray
        The labels that are there, sorted.
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
    weight = float(len(y_prob))
    if weights is not None:
        assert_all_finite(weights, input_name="sample_weight")
        weight = float(weights.sum(dtype=np.float64))
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


def loss_of_table(table: LossTable, labels: Any = None) -> float:
    """Return the sum of losses of all rows, where the columns are of the sorted labels.

    Parameters
    ----------
    table : LossTable
    labels : array or None
        All labels; without it, those of the table.

    Raises
    ------
    ValueError
        Labels don't fit the columns, or a value is no probability: in scikit-learn's words.

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
