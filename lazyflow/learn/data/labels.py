"""Labels of all parts: the classes among them, and weights of rows by their classes.

The functions of one part run in workers, and only for labels other than plain numbers
and texts do they import scikit-learn: that takes a process 1.4 s, longer than many fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lazyflow import compute, delayed, is_lazy
from lazyflow.learn.data.inputs import RowChunk, check_dense
from lazyflow.learn.data.rows import Place, checked_weights


def _labels(y: Any, place: Place) -> np.ndarray:
    """Return the labels of one part."""
    check_dense(y, "y", f": y of {place}")
    y = np.asarray(y)
    missing = _missing(y)
    if missing.any():
        row = int(np.argwhere(missing)[0, 0])
        infinite = y.dtype.kind == "f" and not np.isnan(y[row]).any()
        raise ValueError(
            f"Input y contains {'infinity' if infinite else 'NaN'}: {place.row(row)}; fill such "
            "labels or drop their rows"
        )
    labels = _sorted_labels(y, f"y of {place}")
    # Of many small parts scikit-learn's look at each, 0.3 ms, would be a quarter of a fit.
    if y.size and not (y.ndim == 1 and (y.dtype.kind in "biuUS" or _are_whole(y))):
        from sklearn.utils.multiclass import check_classification_targets

        try:
            check_classification_targets(y)
        except ValueError as error:
            raise ValueError(f"{error} (y of {place})") from None
    return labels


def _missing(y: np.ndarray) -> np.ndarray:
    """Return for each element whether it is no label."""
    if y.dtype.kind == "f":
        return ~np.isfinite(y)
    if y.dtype.kind != "O":
        return np.zeros(y.shape, bool)
    from sklearn.utils._missing import is_pandas_na, is_scalar_nan

    found = [label is None or is_scalar_nan(label) or is_pandas_na(label) for label in y.flat]
    return np.reshape(found, y.shape)


def _sorted_labels(y: np.ndarray, where: str) -> np.ndarray:
    try:
        return np.unique(y)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y.flat})
        raise TypeError(
            f"{where} has labels of several types, {' and '.join(kinds)}, which can't be sorted: "
            "make them one type, as by y.astype(str)"
        ) from None


def _are_whole(y: np.ndarray) -> bool:
    return y.dtype.kind == "f" and bool((y == np.rint(y)).all())


def classes_of(
    parts: list[RowChunk], places: list[Place], run: dict[str, Any]
) -> np.ndarray:
    """Return the labels of all parts, ascending: a class need not be in each of them.

    Raises
    ------
    ValueError
        The targets are not labels, or all the same.

    Examples
    --------
    >>> parts = [RowChunk(None, ["b", "a"], None), RowChunk(None, ["c"], None)]
    >>> classes_of(parts, [Place(0), Place(1)], {})
    array(['a', 'b', 'c'], dtype='<U1')
    """
    later = delayed(_labels)
    # To look at labels in memory costs less than a task.
    each = compute(*[
        (later if is_lazy(part.y) else _labels)(part.y, place)
        for part, place in zip(parts, places, strict=True)
    ], **run)
    found = [labels for labels in each if len(labels)]  # none have no type to be seen
    if not found:
        raise ValueError("Found array with 0 sample(s): y of all chunks is empty")
    if len({labels.dtype.kind in "US" for labels in found}) > 1:  # NumPy would write the numbers
        found = [labels.astype(object) for labels in found]
    classes = _sorted_labels(np.concatenate(found), "y")
    if len(classes) < 2:
        raise ValueError(
            "This solver needs samples of at least 2 classes in the data, but the data contains "
            f"only one class: {classes.tolist()[0]!r}"
        )
    return classes


@delayed
def _totals(y: Any, weight: Any, classes: np.ndarray, place: Place) -> np.ndarray:
    """Return the total weight of each class in one part."""
    labels, weight = _checked(y, weight, place)
    return np.bincount(np.searchsorted(classes, labels), weight, len(classes))


@delayed
def _weights(
    y: Any, weight: Any, classes: np.ndarray, factors: np.ndarray, place: Place
) -> np.ndarray:
    """Return the weights of one part's rows, with those of their classes."""
    labels, weight = _checked(y, weight, place)
    found: np.ndarray = factors[np.searchsorted(classes, labels)]
    return found if weight is None else found * weight


def _checked(y: Any, weight: Any, place: Place) -> tuple[np.ndarray, np.ndarray | None]:
    """Return labels with one axis, and their weights."""
    rows = np.shape(y)[0]
    if np.size(y) != rows:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {np.shape(y)} instead: {place}"
        )
    checked = None if weight is None else checked_weights(weight, rows, place)
    return np.ravel(y), checked


def class_weighted(
    parts: list[RowChunk], places: list[Place], classes: np.ndarray,
    class_weight: Mapping[Any, float] | str | None, run: dict[str, Any],
) -> list[RowChunk]:
    """Return parts with their weights multiplied by those of the classes.

    "balanced" gives each class the same total weight.

    Examples
    --------
    >>> from lazyflow import compute
    >>> parts = [RowChunk(None, np.array([0, 1, 1, 1]), None)]
    >>> (part,) = class_weighted(parts, [Place(0)], np.array([0, 1]), "balanced", {})
    >>> compute(part.weight)[0].round(3)
    array([2.   , 0.667, 0.667, 0.667])
    """
    if class_weight is None:
        return parts
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = sum(
            compute(*[
                _totals(part.y, part.weight, classes, place)
                for part, place in zip(parts, places, strict=True)
            ], **run)
        )
        weighed = np.asarray(totals) > 0  # rows without weight have none by their class, either
        factors = np.zeros(len(classes))
        factors[weighed] = np.sum(totals) / (len(classes) * np.asarray(totals)[weighed])
    else:  # it knows the errors
        from sklearn.utils.class_weight import compute_class_weight

        factors = compute_class_weight(class_weight, classes=classes, y=classes)
    return [
        part._replace(weight=_weights(part.y, part.weight, classes, factors, place))
        for part, place in zip(parts, places, strict=True)
    ]
