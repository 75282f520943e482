"""The classes of labels that are in parts, and weights for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from lazyflow import compute, delayed
from lazyflow.learn.data.inputs import RowChunk

__all__ = ["class_weighted", "classes_of"]


@delayed
def _labels(y: Any, number: int) -> np.ndarray:
    """Return the labels of one part."""
    y = np.asarray(y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.argwhere(~np.isfinite(y))[0, 0])
        name = "NaN" if np.isnan(y[row]).any() else "infinity"
        raise ValueError(f"Input y contains {name}: chunk {number}, row {row} of it")
    # Of many small parts scikit-learn's look at each, 0.3 ms, would be a quarter of a fit.
    if y.size and not (y.ndim == 1 and (y.dtype.kind in "biuUS" or _are_whole(y))):
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise ValueError(f"{error} (y of chunk {number})") from None
    return np.unique(y)


def _are_whole(y: np.ndarray) -> bool:
    return y.dtype.kind == "f" and bool((y == np.rint(y)).all())


def classes_of(parts: list[RowChunk], run: dict[str, Any]) -> np.ndarray:
    """Return the labels of all parts, ascending: a class need not be in each of them.

    Raises
    ------
    ValueError
        The targets are no labels, or all the same.

    Examples
    --------
    >>> classes_of([RowChunk(None, ["b", "a"], None), RowChunk(None, ["c"], None)], {})
    array(['a', 'b', 'c'], dtype='<U1')
    """
    each = compute(*[_labels(part.y, k) for k, part in enumerate(parts)], **run)
    found = [labels for labels in each if len(labels)]  # none have no type to be seen
    if not found:
        raise ValueError("Found array with 0 sample(s): y of all chunks is empty")
    if len({labels.dtype.kind in "US" for labels in found if labels.dtype.kind != "O"}) > 1:
        raise TypeError("y has labels that are words in some chunks, and numbers in others")
    classes = np.unique(np.concatenate(found))
    if len(classes) < 2:
        raise ValueError(
            "This solver needs samples of at least 2 classes in the data, but the data contains "
            f"only one class: {classes.tolist()[0]!r}"
        )
    return classes


@delayed
def _totals(y: Any, weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return the total weight of each class in one part."""
    return np.bincount(np.searchsorted(classes, np.ravel(y)), weight, len(classes))


@delayed
def _weights(y: Any, weight: Any, classes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return the weights of one part's rows, with those of their classes."""
    found: np.ndarray = factors[np.searchsorted(classes, np.ravel(y))]
    return found if weight is None else found * np.asarray(weight, np.float64)


def class_weighted(
    parts: list[RowChunk], classes: np.ndarray, class_weight: Mapping[Any, float] | str | None,
    run: dict[str, Any],
) -> list[RowChunk]:
    """Return parts whose weights have those of the classes in them.

    "balanced" gives each class the same total weight.

    Examples
    --------
    >>> from lazyflow import compute
    >>> parts = [RowChunk(None, np.array([0, 1, 1, 1]), None)]
    >>> (part,) = class_weighted(parts, np.array([0, 1]), "balanced", {})
    >>> compute(part.weight)[0].round(3)
    array([2.   , 0.667, 0.667, 0.667])
    """
    if class_weight is None:
        return parts
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = sum(
            compute(*[_totals(part.y, part.weight, classes) for part in parts], **run)
        )
        weighed = np.asarray(totals) > 0  # rows without weight have none by their class, either
        factors = np.zeros(len(classes))
        factors[weighed] = np.sum(totals) / (len(classes) * np.asarray(totals)[weighed])
    else:  # it knows the errors
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
    return [
        part._replace(weight=_weights(part.y, part.weight, classes, factors)) for part in parts
    ]
