"""One part of the rows: brought into the types of the kernels, or an error that names the row."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from lazyflow import delayed
from lazyflow.learn.data.joining import check_dense
from lazyflow.learn.data.places import Place
from lazyflow.learn.data.targets import Targets
from lazyflow.learn.kernels.tiles import column_sums

__all__ = [
    "PartSummary", "as_numbers", "check_finite", "check_names", "checked", "checked_weights",
    "names_of",
]


class PartSummary(NamedTuple):
    """What is to be known of one part.

    rows, features, nbytes, dtype
        Of X.
    weight
        The total weight, and what rounding took from it: totals are the same for any chunks.
    sums
        The sums of the columns, with weights.
    present
        How many rows have each feature, of sparse rows.
    names
        Of the columns, if the part came as a frame.

    Examples
    --------
    >>> summary(np.array([[3.0], [1.0]]), None, np.array([4.0])).weight
    (2.0, 0.0)
    """

    rows: int
    features: int
    nbytes: int
    weight: tuple[float, float]
    sums: np.ndarray
    present: np.ndarray | None
    dtype: np.dtype[Any]
    names: tuple[str, ...] | None = None


@delayed(nout=4)
def checked(
    X: Any, y: Any, weight: Any, targets: Targets, place: Place
) -> tuple[Any, np.ndarray, np.ndarray | None, PartSummary]:
    """Return rows (C order or CSR, float64 or float32), encoded targets, weights, and a summary.

    Raises
    ------
    ValueError
        Something of the part can't be trained on; the message names chunk and row.
    """
    names = names_of(X)
    X = as_numbers(X, f"{place} of X")
    if X.ndim != 2:
        raise ValueError(f"{place} of X has the shape {X.shape}; needed is (rows, features)")
    sums = _sums_of_columns(X)
    if not np.isfinite(sums).all():  # it costs a third of looking at each number
        check_finite(X, place)  # or sums are too large
    check_dense(y, "y", f": y of {place}")
    y = np.asarray(y)
    if y.shape[:1] != X.shape[:1] != X.shape[0]:
        length = len(y) if y.ndim else "one number"
        raise ValueError(f"{place} has {X.shape[0]} rows of X and {length} of y")
    encoded = targets.encoded(y, place)
    if weight is not None:
        weight = checked_weights(weight, X.shape[0], place)
    return X, encoded, weight, summary(X, weight, sums)._replace(names=names)


def names_of(X: Any) -> tuple[str, ...] | None:
    """Return the names of a frame's columns; None of an array, or where they are no text.

    Examples
    --------
    >>> names_of(np.ones((2, 2))) is None
    True
    """
    names = getattr(X, "columns", None)
    if names is None:
        return None
    are_text = [isinstance(name, str) for name in names]
    if any(are_text) and not all(are_text):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but a "
            f"chunk of X has the columns {list(names)!r:.200}. Convert them: "
            "X.columns = X.columns.astype(str)"
        )
    return tuple(names) if any(are_text) else None


def check_names(X: Any, names: Sequence[str]) -> None:
    """Refuse a frame whose columns are not those that a model was fitted on, in their order.

    Examples
    --------
    >>> check_names(np.ones((2, 2)), ["a", "b"])
    """
    own = names_of(X)
    if own is not None and own != tuple(names):
        raise ValueError(
            "The feature names should match those that were passed during fit: a chunk of X has "
            f"the columns {list(own)!r:.200}, the model was fitted on {list(names)!r:.200}. Name "
            "them in that order: chunk[model.feature_names_in_]"
        )


def _sums_of_columns(X: Any) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        if issparse(X):
            return np.ravel(X.sum(axis=0, dtype=np.float64))
        found: np.ndarray = column_sums(X)
        return found


def summary(X: Any, weight: np.ndarray | None, sums: np.ndarray) -> PartSummary:
    """Return what is to be known of one part, whose columns have these sums without weights.

    Examples
    --------
    >>> summary(np.array([[3.0], [1.0]]), np.array([2.0, 1.0]), np.array([4.0])).sums
    array([7.])
    """
    rows, d = X.shape
    total = (float(rows), 0.0)
    if weight is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.ravel(weight @ X)
        numbers = weight.tolist()
        exact = math.fsum(numbers)
        total = exact, math.fsum([*numbers, -exact])
    if issparse(X):
        nbytes = X.data.nbytes + X.indices.nbytes
        present = np.bincount(X.indices, minlength=d)
        return PartSummary(rows, d, nbytes, total, sums, present, X.dtype)
    return PartSummary(rows, d, X.nbytes, total, sums, None, X.dtype)


def as_numbers(X: Any, where: str) -> Any:
    """Return rows in C order or CSR format, float32 where they are narrow floats, else float64.

    Examples
    --------
    >>> as_numbers([[1, 2]], "X")
    array([[1., 2.]])
    """
    if not issparse(X):
        X = np.asarray(X)
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {where} is {X.dtype}")
    if X.dtype.kind not in "fiub":
        raise ValueError(
            f"{where} has the dtype {X.dtype}; convert it to real numbers first, as by "
            ".astype(float)"
        )
    narrow = X.dtype.kind == "f" and X.dtype.itemsize < 8
    dtype = np.float32 if narrow else np.float64
    if not issparse(X):
        return np.ascontiguousarray(X, dtype)
    rows = csr_array(X, dtype=dtype)
    if rows.indices.dtype != np.int32 and max(rows.nnz, rows.shape[1]) <= np.iinfo(np.int32).max:
        # Kernels that get several chunks take one type of places.
        places = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        rows = csr_array((rows.data, *places), rows.shape)
    if not rows.has_canonical_format:  # a step must see each feature of a row once
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def check_finite(X: Any, place: Place) -> None:
    """Refuse rows that have NaN or infinity, by the first of them.

    Examples
    --------
    >>> check_finite(np.array([[1.0]]), Place(0))
    """
    values = X.data if issparse(X) else X
    if np.isfinite(values).all():
        return
    if issparse(X):
        at = int(np.argwhere(~np.isfinite(values))[0, 0])
        row, column = int(np.searchsorted(X.indptr, at, "right")) - 1, int(X.indices[at])
        value = values[at]
    else:
        row, column = (int(k) for k in np.argwhere(~np.isfinite(X))[0])
        value = X[row, column]
    name = "NaN" if np.isnan(value) else "infinity"
    raise ValueError(
        f"Input X contains {name}: {place.row(row)}, column {column}; fill such values or drop "
        "their rows"
    )


def checked_weights(weight: Any, rows: int, place: Place) -> np.ndarray:
    """Return the weights of so many rows as float64, or an error that names the row.

    Examples
    --------
    >>> checked_weights([1, 2], 2, Place(0))
    array([1., 2.])
    """
    check_dense(weight, "sample_weight", f": sample_weight of {place}")
    found = np.asarray(weight)
    if found.dtype.kind not in "fiub":
        raise ValueError(
            f"sample_weight of {place} has the dtype {found.dtype}; needed are real numbers"
        )
    found = np.ascontiguousarray(found, np.float64)
    if found.shape != (rows,):
        raise ValueError(
            f"sample_weight of {place} has the shape {found.shape}; needed is ({rows},)"
        )
    if not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0, 0])
        name = "NaN" if np.isnan(found[row]) else "infinity"
        raise ValueError(f"Input sample_weight contains {name}: {place.row(row)}")
    if (found < 0).any():
        row = int(np.argwhere(found < 0)[0, 0])
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: {place.row(row)}, has "
            f"{found[row]}"
        )
    return found
