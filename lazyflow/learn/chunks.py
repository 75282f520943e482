"""Chunked rows for solvers: checked once, then summed over in a fixed order.

Wrong data is refused before the first iteration, in a message that names the chunk. The number
of chunks alone decides in which order sums are made, so a result has the same bits whatever the
scheduler, the number of workers and the order in which tasks end.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow import compute, delayed, persist, tree_reduce

__all__ = ["Rows", "checked_rows", "tree_sum"]


@dataclass(frozen=True)
class Rows:
    """Training rows that were checked.

    Attributes
    ----------
    chunks : list of pairs of Delayed
        For each chunk its rows X (float64, row-major) and the class of each row as an index into
        `classes`, both persisted.
    sizes : list of int
        The number of rows of each chunk.
    n_features : int
    classes : ndarray, shape (K,)
        The labels.
    penalty : float
        1 / (C n): the factor of |W|² / 2 beside a mean loss.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    >>> rows = checked_rows([(X, y)], classes=[0, 1], C=1.0)
    >>> rows.sizes, rows.n_features
    ([3], 1)
    """

    chunks: list[tuple[Any, Any]]
    sizes: list[int]
    n_features: int
    classes: np.ndarray
    penalty: float

    @property
    def n(self) -> int:
        """The number of rows in all chunks.

        Examples
        --------
        >>> Rows([], [3, 2], 1, np.array([0, 1]), penalty=0.2).n
        5
        """
        return sum(self.sizes)

    def n_blocks(self, block: int) -> int:
        """Count blocks of at most `block` rows; none crosses from chunk to chunk.

        Examples
        --------
        >>> Rows([], [3, 2], 1, np.array([0, 1]), penalty=0.2).n_blocks(2)
        3
        """
        return sum(-(-size // block) for size in self.sizes)


@delayed(nout=2)
def checked(X: Any, y: Any, classes: np.ndarray, position: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one chunk as (float64 rows, index of each row's class), or say what is wrong."""
    X, y = np.asarray(X), np.asarray(y)
    where = f"chunk {position}"
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            f"{where} has X of shape {X.shape} and y of shape {y.shape}; "
            f"needed are (rows, features) and (rows,)"
        )
    if X.dtype.kind not in "fiub":
        raise ValueError(f"{where} has X of dtype {X.dtype}; convert it to real numbers first")
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(
            f"{where} has {X[row, column]} at row {row}, column {column}: "
            f"fill such values or drop their rows"
        )
    is_class = y[:, None] == classes
    if not is_class.any(axis=1).all():
        unknown = y[~is_class.any(axis=1)].tolist()[0]
        raise ValueError(
            f"{where} has the label {unknown!r}, which is not in classes={classes.tolist()}"
        )
    return np.ascontiguousarray(X, dtype=np.float64), is_class.argmax(axis=1)


@delayed
def summary(X: np.ndarray, labels: np.ndarray, n_classes: int) -> tuple[int, int, np.ndarray]:
    """Return (rows, features, rows of each class) of one chunk."""
    return (*X.shape, np.bincount(labels, minlength=n_classes))


def checked_rows(chunks: Sequence[tuple[Any, Any]], classes: Any, C: float, **run: Any) -> Rows:
    """Check and persist `chunks`, pairs (X, y) of arrays or of Delayed.

    `run` has the keywords of `persist` (``scheduler=``, ``num_workers=``).

    Raises
    ------
    ValueError
        No model can be trained on a chunk, or on all of them; the message says why.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array(["no", "yes", "maybe"])
    >>> checked_rows([(X, y)], classes=["no", "yes"], C=1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: chunk 0 has the label 'maybe', which is not in classes=['no', 'yes']...
    """
    if not C > 0:
        raise ValueError(f"C must be positive, not {C}; the smaller C, the stronger the penalty")
    classes = np.asarray(classes)
    if classes.ndim != 1 or len(classes) < 2 or len(np.unique(classes)) < len(classes):
        raise ValueError(f"classes must be at least two different labels, not {classes.tolist()}")
    if not len(chunks):
        raise ValueError("there are no chunks: give at least one pair (X, y)")
    pairs = [checked(X, y, classes, k) for k, (X, y) in enumerate(chunks)]
    (pairs,) = persist([(X, labels) for X, labels in pairs], **run)
    summaries = compute(*[summary(X, labels, len(classes)) for X, labels in pairs], **run)
    sizes, features, counts = zip(*summaries, strict=True)
    for k, d in enumerate(features):
        if d != features[0]:
            raise ValueError(f"chunk {k} has {d} features, chunk 0 has {features[0]}")
    absent = classes[np.sum(counts, axis=0) == 0]
    if len(absent):
        raise ValueError(
            f"no row has the label {absent.tolist()[0]!r}: its intercept has no finite optimum; "
            f"leave it out of classes"
        )
    return Rows(pairs, list(sizes), features[0], classes, penalty=1 / (C * sum(sizes)))


def _added(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(operator.add, one, other))


def tree_sum(parts: Sequence[Any], fan_in: int = 8) -> Any:
    """Return the sum of lazy tuples, place by place, as a tree of tasks with `fan_in` inputs each.

    Examples
    --------
    >>> from lazyflow import compute, delayed
    >>> pair = delayed(lambda i: (i, i * i))
    >>> compute(tree_sum([pair(i) for i in range(100)]))
    ((4950, 328350),)
    """
    return tree_reduce(_added, parts, split_every=fan_in)
