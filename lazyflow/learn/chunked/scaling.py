"""`StandardScaler` for chunked arrays.

`fit` reads each chunk once and adds up moments of columns (rows.py); `transform` is elementwise
arithmetic on the array, so it is lazy and keeps the chunks. scikit-learn's class does all for data
in memory. Output as frames is refused for chunked arrays, since it would gather them.
"""

from __future__ import annotations

import numbers
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config, preprocessing
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from lazyflow import array as la
from lazyflow.array import Array
from lazyflow.learn.chunked.rows import (
    ColumnMoments,
    any_chunked,
    check_one_axis,
    cut_alike,
    moments_of,
    sums_by_column,
)

_FLOATS = np.float16, np.float32, np.float64


class StandardScaler(preprocessing.StandardScaler):
    """Scale columns to a mean of 0 and a variance of 1.

    It is scikit-learn's class, with its parameters, attributes and methods, and treats data in
    memory as that class does. For a `lazyflow.array.Array`, `fit` and `partial_fit` read each chunk
    once, in one computation, and `transform` and `inverse_transform` return lazy arrays with the
    same chunks. These are new arrays for any `copy`. `fit` refuses infinite values; `transform`,
    which is lazy, accepts them.

    Parameters
    ----------
    copy : bool, default: True
        False: arrays in memory are changed in place where that is possible.
    with_mean : bool, default: True
        Subtract means.
    with_std : bool, default: True
        Divide by standard deviations.

    Attributes
    ----------
    mean_, var_, scale_ : ndarray, shape (features,), or None
        As scikit-learn's; means and variances ignore NaN, and a constant column has the scale 1.
    n_samples_seen_ : int or ndarray, shape (features,)
        Rows, or the sum of their weights; one per column if columns differ in their number of NaN.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        Names of columns, if `fit` got a frame.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> X = la.arange(8.0, chunks=4).reshape(4, 2)
    >>> scaler = StandardScaler().fit(X)
    >>> scaler.mean_, scaler.var_
    (array([3., 4.]), array([5., 5.]))
    >>> scaler.transform(X).mean(axis=0).compute()
    array([0., 0.])
    """

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the means and variances.

        Parameters
        ----------
        X : array of shape (rows, features)
        y
            Not used; pipelines pass it.
        sample_weight : array of shape (rows,), number or None
            Weights of the rows.

        Raises
        ------
        ValueError
            X is empty, does not have two axes, has another number of features than before, or
            infinite values; or the number of weights differs from that of rows.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> scaler = StandardScaler().fit([[0.0], [1.0]])
        >>> scaler.partial_fit(la.asarray([[5.0]])).mean_
        array([2.])
        """
        if not any_chunked(X):
            return super().partial_fit(X, y, sample_weight)
        self._validate_params()
        first = not hasattr(self, "n_samples_seen_")
        X = _rows_of_floats(self, X, reset=first)
        found = _moments(self, X, sample_weight)
        if not first:
            found = _moments_so_far(self) + found
        _set_fitted(self, found, np.dtype(int) if sample_weight is None else X.dtype)
        return self

    def transform(self, X: Any, copy: bool | None = None) -> Any:
        """Return scaled rows: a lazy array if X is chunked.

        Parameters
        ----------
        X : array of shape (rows, features)
        copy : bool or None
            For arrays in memory, instead of the scaler's.

        Raises
        ------
        NotFittedError
            `fit` was not called before.
        ValueError
            X has another number of features, or the scaler's output is set to frames, which would
            gather a chunked array.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> StandardScaler().fit([[1.0], [3.0]]).transform(la.asarray([[2.0], [4.0]])).compute()
        array([[0.],
               [2.]])
        """
        if not any_chunked(X):
            return super().transform(X, copy)
        check_is_fitted(self)
        _refuse_frames(self)
        X = _rows_of_floats(self, X, reset=False)
        if self.with_mean:
            X = X - self.mean_.astype(X.dtype)
        if self.with_std:
            X = X / self.scale_.astype(X.dtype)
        return X

    def inverse_transform(self, X: Any, copy: bool | None = None) -> Any:
        """Return the rows that `transform` scales to X: a lazy array if X is chunked.

        Parameters
        ----------
        X : array of shape (rows, features)
        copy : bool or None
            For arrays in memory, instead of the scaler's.

        Raises
        ------
        NotFittedError
            `fit` was not called before.
        ValueError
            A chunked X does not have two axes, or is complex.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> StandardScaler().fit([[1.0], [3.0]]).inverse_transform(la.asarray([[2.0]])).compute()
        array([[4.]])
        """
        if not any_chunked(X):
            return super().inverse_transform(X, copy)
        check_is_fitted(self)
        X = _floats(X)
        if self.with_std:
            X = X * self.scale_.astype(X.dtype)
        if self.with_mean:
            X = X + self.mean_.astype(X.dtype)
        return X


def _floats(X: Array) -> Array:
    """Return X in the type that scikit-learn computes in."""
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: a chunked array of shape {X.shape}.\n"
            "Reshape your data either using array.reshape(-1, 1) if your data has a single feature "
            "or array.reshape(1, -1) if it contains a single sample."
        )
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X has dtype {X.dtype}. Pass X.real?")
    return X if X.dtype in _FLOATS else X.astype(np.float64)


def _rows_of_floats(scaler: StandardScaler, X: Array, reset: bool) -> Array:
    X = _floats(X)
    if X.shape[1] is None:
        X.with_known_sizes()
    validate_data(scaler, X, reset=reset, skip_check_array=True)
    return X


def _refuse_frames(scaler: StandardScaler) -> None:
    """scikit-learn would make a frame of what `transform` returns, and so gather it."""
    own = getattr(scaler, "_sklearn_output_config", {})
    container = own.get("transform", get_config()["transform_output"])
    if container != "default":
        raise ValueError(
            f"transform() was told to return {container!r} frames, but X is a chunked array, which "
            "would have to be gathered for it. Call set_output(transform='default') first, or pass "
            "X.compute()."
        )


def _moments(scaler: StandardScaler, X: Array, sample_weight: Any) -> ColumnMoments:
    given = weights = None
    if sample_weight is not None:
        X, weights = cut_alike(X, _checked_weights(X, sample_weight))
        given = weights
        if not (scaler.with_mean or scaler.with_std):
            weights = None  # only values are counted: so does scikit-learn
    parts = sums_by_column(_moments_of_block, X, weights)
    rows = parts[0].rows
    if not rows:
        raise ValueError(
            f"Found array with 0 sample(s) (shape=(0, {X.shape[1]})) while a minimum of 1 is "
            "required by StandardScaler."
        )
    unseen = weights is None or not any(part.weight.any() for part in parts)
    # Or all values are NaN, which scikit-learn fits.
    if given is not None and unseen and not (la.asarray(given) != 0).any().compute():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    columns = [np.concatenate(each) for each in zip(
        *[(part.weight, part.origin, part.offset, part.squares) for part in parts], strict=True)]
    return ColumnMoments(rows, *columns)


def _moments_of_block(x: np.ndarray[Any, Any], weights: Any) -> ColumnMoments:
    if issparse(x):
        raise TypeError(
            "Cannot center sparse matrices: a chunk of X is one, and StandardScaler takes dense "
            "chunks: X.map_blocks(lambda chunk: chunk.toarray(), dtype=X.dtype) makes them"
        )
    assert_all_finite(x, allow_nan=True, input_name="X", estimator_name="StandardScaler")
    if weights is not None:
        assert_all_finite(weights, input_name="sample_weight")
        if len(weights) != len(x):
            raise ValueError(f"sample_weight.shape == {weights.shape}, expected {x.shape[:1]}!")
    return moments_of(x, weights)


def _checked_weights(X: Array, sample_weight: Any) -> Any:
    if isinstance(sample_weight, numbers.Number):
        X.with_known_sizes()
        return la.full(X.shape[0], float(sample_weight), chunks=X.chunks[:1])  # type: ignore[arg-type]
    weights = sample_weight if isinstance(sample_weight, Array) else np.asarray(sample_weight)
    check_one_axis(weights, X.shape[0])
    if None not in (X.shape[0], weights.shape[0]) and weights.shape != X.shape[:1]:
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {X.shape[:1]}!")
    return weights


def _moments_so_far(scaler: StandardScaler) -> ColumnMoments:
    n = scaler.n_features_in_
    weight = np.broadcast_to(np.asarray(scaler.n_samples_seen_, dtype=float), n)
    mean, var = [np.zeros(n) if x is None else x for x in (scaler.mean_, scaler.var_)]
    some = weight != 0  # nothing but NaN so far has the mean NaN
    squares = np.where(some, var * weight, 0)
    return ColumnMoments(0, weight, np.where(some, mean, 0), np.zeros(n), squares)


def _set_fitted(scaler: StandardScaler, moments: ColumnMoments, counted: np.dtype[Any]) -> None:
    weight = np.where(moments.weight != 0, moments.weight, np.nan)
    mean, var = moments.mean + 0 * weight, moments.squares / weight
    seen = moments.weight.astype(counted)
    scaler.n_samples_seen_ = seen[0] if (seen == seen[0]).all() else seen
    scaler.mean_ = mean if scaler.with_mean or scaler.with_std else None
    scaler.var_ = var if scaler.with_std else None
    scaler.scale_ = None
    if scaler.with_std:
        # What rounding alone makes of equal values counts as no deviation.
        eps = np.finfo(np.float64).eps
        constant = var <= moments.weight * eps * var + (moments.weight * mean * eps) ** 2
        scaler.scale_ = np.where(constant, 1.0, np.sqrt(var))
