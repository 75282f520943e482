"""One part of the rows: brought into the types of the kernels, or an error that names the row."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from lazyflow import delayed
from lazyflow.learn.data.targets import Targets

__all__ = ["as_numbers", "check_finite", "checked", "checked_weights"]


@delayed(nout=3)
def checked(
    X: Any, y: Any, weight: Any, targets: Targets, number: int
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return rows (C order or CSR, float64 or float32), encoded targets, and weights.

    Raises
    ------
    ValueError
        Something of the part can't be trained on; the message names chunk and row.
    """
    where = f"chunk {number}"
    X = as_numbers(X, f"{where} of X")
    if X.ndim != 2:
        raise ValueError(f"{where} of X has the shape {X.shape}; needed is (rows, features)")
    check_finite(X, where)
    y = np.asarray(y)
    if len(y) != X.shape[0]:
        raise ValueError(f"{where} has {X.shape[0]} rows of X and {len(y)} of y")
    encoded = targets.encoded(y, f"y of {where}")
    return X, encoded, None if weight is None else checked_weights(weight, X.shape[0], where)


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


def check_finite(X: Any, where: str) -> None:
    """Refuse rows that have NaN or infinity, by the first of them.

    Examples
    --------
    >>> check_finite(np.array([[1.0]]), "chunk 0")
    """
    values = X.data if issparse(X) else X
    # A sum costs a third of looking at each number, and is finite if they all are (or too large).
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
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
        f"Input X contains {name}: {where}, row {row} of it, column {column}; fill such values or "
        "drop their rows"
    )


def checked_weights(weight: Any, rows: int, where: str) -> np.ndarray:
    """Return the weights of so many rows as float64, or an error that names the row.

    Examples
    --------
    >>> checked_weights([1, 2], 2, "chunk 0")
    array([1., 2.])
    """
    found = np.asarray(weight)
    if found.dtype.kind not in "fiub":
        raise ValueError(
            f"sample_weight of {where} has the dtype {found.dtype}; needed are real numbers"
        )
    found = np.ascontiguousarray(found, np.float64)
    if found.shape != (rows,):
        raise ValueError(
            f"sample_weight of {where} has the shape {found.shape}; needed is ({rows},)"
        )
    if not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0, 0])
        name = "NaN" if np.isnan(found[row]) else "infinity"
        raise ValueError(f"Input sample_weight contains {name}: {where}, row {row} of it")
    if (found < 0).any():
        row = int(np.argwhere(found < 0)[0, 0])
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: {where}, row {row} of it, has "
            f"{found[row]}"
        )
    return found
