"""All rows that a solver trains on, kept in chunks where the workers are.

The number of chunks alone decides in which order sums are made, so a result has the same bits
whatever the scheduler, the number of workers and the order in which tasks end.

::

    parts (inputs.py) --> `checked`, a task each --> `_check` compares their summaries
        --> small neighbours are joined --> `Rows` --> in each pass a task per chunk, and `tree_sum`

Chunks are kept, or checked again in every pass (`Rows.kept`). `Rows` doesn't change.

    >>> parts = [RowChunk(np.array([[1.0], [3.0]]), [0, 1], None), RowChunk([[5.0]], [1], None)]
    >>> rows = kept_rows(parts, NumberTargets(1), {})
    >>> rows.sizes, rows.mean
    ([3], array([3.]))
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from lazyflow import compute, delayed, is_lazy, persist, tree_reduce
from lazyflow.array.core import Array
from lazyflow.learn.data.inputs import (
    RowChunk,
    check_dense,
    groups_of,
    groups_of_chunks,
    is_chunked,
    together,
)
from lazyflow.learn.kernels.primitives import column_sums

# -- where the rows of a part are from: what errors call them -----------------------------


class Place(NamedTuple):
    """One part of the rows.

    chunk
        Its number; None for a part that was cut of rows in memory, which the user does not know.
    first
        The number of rows before it, where that is known.
    sizes
        The rows of the chunks that it was made of, from that number on, if they are several.

    Examples
    --------
    >>> print(Place(2, 40), "|", Place(None, 40), "|", Place(), "|", Place(2, 40, (3, 3)))
    chunk 2 | X from row 40 on | a chunk | chunks 2 to 3
    """

    chunk: int | None = None
    first: int | None = None
    sizes: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.sizes:
            return f"chunks {self.chunk} to {(self.chunk or 0) + len(self.sizes) - 1}"
        if self.chunk is not None:
            return f"chunk {self.chunk}"
        return "a chunk" if self.first is None else f"X from row {self.first} on"

    def row(self, at: int) -> str:
        """Return what a row of the part is called.

        Examples
        --------
        >>> Place(2, 40).row(5), Place(2).row(5), Place(None, 40).row(5)
        ('chunk 2, row 5 of it (row 45 of all)', 'chunk 2, row 5 of it', 'row 45')
        >>> Place(2, 40, (3, 3)).row(5)
        'chunk 3, row 2 of it (row 45 of all)'
        """
        if self.first is None:
            return f"{self}, row {at} of it"
        whole = f"row {self.first + at}"
        if self.chunk is None:
            return whole
        number, own = self.chunk, at
        for size in self.sizes:
            if own < size:
                break
            number, own = number + 1, own - size
        return f"chunk {number}, row {own} of it ({whole} of all)"


def places_of(parts: Sequence[Sequence[Any]], X: Any) -> list[Place]:
    """Return the places of the parts (rows, targets, weights) of X.

    Rows are counted where X is an array, or as long as one of the three is in memory in each part.

    Examples
    --------
    >>> places_of([([[1], [2]], [1, 2], None), ([[3]], [3], None)], [[1], [2], [3]])
    [Place(chunk=None, first=0, sizes=()), Place(chunk=None, first=2, sizes=())]
    """
    if isinstance(X, Array) and None not in X.shape:
        sizes = X.chunks[0]
        firsts = list(accumulate(sizes, initial=0))
        if len(parts) == len(sizes):
            return [Place(k, firsts[k]) for k in range(len(parts))]
        return [
            Place(group[0], firsts[group[0]], tuple([sizes[k] for k in group]))
            for group in groups_of_chunks(X) or ()
        ]
    chunked = is_chunked(X)
    first: int | None = 0
    found = []
    for k, part in enumerate(parts):
        found.append(Place(k if chunked else None, first))
        rows = _known_rows(part)
        first = None if first is None or rows is None else first + rows
    return found


def _known_rows(part: Sequence[Any]) -> int | None:
    """Return the rows of one part, if that needs no computation."""
    for values in part:
        if values is not None and not is_lazy(values):
            shape = getattr(values, "shape", None)
            return len(values) if shape is None else int(shape[0])
    return None


# -- targets: classes or numbers, and how those of a part are encoded


class ClassTargets(NamedTuple):
    """Labels as targets; `classes` has each of them once, ascending.

    Examples
    --------
    >>> ClassTargets(np.array(["no", "yes"])).encoded(np.array(["yes", "no"]), Place()).ravel()
    array([ 1., -1.])
    """

    classes: np.ndarray

    @property
    def outputs(self) -> int:
        """The number of scores of a row.

        Examples
        --------
        >>> ClassTargets(np.arange(2)).outputs, ClassTargets(np.arange(3)).outputs
        (1, 3)
        """
        return 1 if len(self.classes) == 2 else len(self.classes)

    def encoded(self, y: np.ndarray, place: Place) -> np.ndarray:
        """Return -1 and 1 for two classes, else the number of each row's class: (rows, 1).

        Examples
        --------
        >>> ClassTargets(np.array([3, 5, 7])).encoded(np.array([7, 3]), Place()).ravel()
        array([2., 0.])
        """
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(
                f"y should be a 1d array, got an array of shape {y.shape} instead: y of {place}"
            )
        at = np.searchsorted(self.classes, y).astype(np.float64)
        return (at if self.outputs > 1 else 2.0 * at - 1.0)[:, None]


class NumberTargets(NamedTuple):
    """Numbers, `outputs` of them for each row.

    Examples
    --------
    >>> NumberTargets(1).encoded(np.array([1, 2]), Place()).ravel()
    array([1., 2.])
    """

    outputs: int

    def encoded(self, y: np.ndarray, place: Place) -> np.ndarray:
        """Return them as float64 (rows, outputs).

        Examples
        --------
        >>> NumberTargets(1).encoded(np.array([[1.5]]), Place())
        array([[1.5]])
        """
        if y.dtype.kind not in "fiub":
            raise ValueError(f"y of {place} has the dtype {y.dtype}; needed are real numbers")
        numbers = np.ascontiguousarray(y, np.float64)
        if numbers.ndim == 1:
            numbers = numbers[:, None]
        if numbers.ndim != 2:
            raise ValueError(
                f"y of {place} has the shape {y.shape}; needed is one row for each of X"
            )
        if numbers.shape[1] != self.outputs:
            raise ValueError(
                f"y of {place} has {numbers.shape[1]} columns, needed is {self.outputs}; several "
                "targets of lazy chunks come as one chunked array, see lazyflow.array.from_delayed"
            )
        if not np.isfinite(numbers).all():
            row = int(np.argwhere(~np.isfinite(numbers))[0, 0])
            raise ValueError(
                f"Input y contains NaN or infinity: y of {place.row(row)}, is {numbers[row]}"
            )
        return numbers


Targets = ClassTargets | NumberTargets


# -- one part of the rows: brought into the types of the kernels, or an error that names the row


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
    if y.shape[:1] != X.shape[:1]:
        length = len(y) if y.ndim else "one number"
        raise ValueError(f"{place} has {X.shape[0]} rows of X and {length} of y")
    encoded = targets.encoded(y, place)
    if weight is not None:
        weight = checked_weights(weight, X.shape[0], place)
    return X, encoded, weight, summary(X, weight, sums)._replace(names=names)


def names_of(X: Any) -> tuple[str, ...] | None:
    """Return the names of a frame's columns; None for an array, or for names other than texts.

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
    """Return the weights of `rows` rows as float64; errors name the row.

    Examples
    --------
    >>> checked_weights([1, 2], 2, Place(0))
    array([1., 2.])
    """
    check_dense(weight, "sample_weight", f": sample_weight of {place}")
    checked = np.asarray(weight)
    if checked.dtype.kind not in "fiub":
        raise ValueError(
            f"sample_weight of {place} has the dtype {checked.dtype}; needed are real numbers"
        )
    checked = np.ascontiguousarray(checked, np.float64)
    if checked.shape != (rows,):
        raise ValueError(
            f"sample_weight of {place} has the shape {checked.shape}; needed is ({rows},)"
        )
    if not np.isfinite(checked).all():
        row = int(np.argwhere(~np.isfinite(checked))[0, 0])
        name = "NaN" if np.isnan(checked[row]) else "infinity"
        raise ValueError(f"Input sample_weight contains {name}: {place.row(row)}")
    if (checked < 0).any():
        row = int(np.argwhere(checked < 0)[0, 0])
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: {place.row(row)}, has "
            f"{checked[row]}"
        )
    return checked


@dataclass(frozen=True)
class Rows:
    """Rows that were checked.

    Attributes
    ----------
    chunks : list of RowChunk
        Lazy and kept: X in C order or CSR format, encoded targets (rows, columns), weights or
        None.
    sizes : list of int
        The number of rows of each chunk.
    n_features : int
    targets : ClassTargets or NumberTargets
    total : float
        The sum of the weights; without weights the number of rows.
    mean : ndarray, shape (d,)
        The mean of the rows, with weights.
    present : ndarray, shape (d,), or None
        How many rows have each feature, of sparse rows.
    nbytes : int
        What the chunks of X take.
    kept : bool
        Whether X is kept, or made again in every pass.
    names : tuple of str, or None
        Of the columns, where chunks came as frames.
    dtype : dtype
        float32 where all chunks of X are, else float64.

    Examples
    --------
    >>> from lazyflow.learn.data.rows import NumberTargets
    >>> rows = kept_rows([RowChunk(np.array([[1.0], [3.0]]), [0, 1], None)], NumberTargets(1), {})
    >>> rows.sizes, rows.n_features, rows.mean
    ([2], 1, array([2.]))
    """

    chunks: list[RowChunk]
    sizes: list[int]
    n_features: int
    targets: Targets
    total: float
    mean: np.ndarray
    present: np.ndarray | None
    nbytes: int
    kept: bool
    names: tuple[str, ...] | None = None
    dtype: Any = np.float64

    @property
    def n(self) -> int:
        """The number of rows in all chunks.

        Examples
        --------
        >>> from lazyflow.learn.data.rows import NumberTargets
        >>> kept_rows([RowChunk(np.ones((2, 1)), [0, 1], None)], NumberTargets(1), {}).n
        2
        """
        return sum(self.sizes)


@delayed
def _as_double(X: Any) -> Any:
    """Return rows as float64: kernels that get several chunks take one type."""
    return X.astype(np.float64, copy=False)


@delayed(nout=3)
def _joined(parts: list[tuple[Any, Any, Any]]) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return several chunks as one."""
    X, y, weight = zip(*parts, strict=True)
    return together(X), np.concatenate(y), None if weight[0] is None else np.concatenate(weight)


def kept_rows(
    parts: Sequence[RowChunk], targets: Targets, run: dict[str, Any], *, join_small: bool = True,
    keep: bool = True, places: Sequence[Place] | None = None,
) -> Rows:
    """Check all parts and keep them; `join_small` joins small neighbours first.

    `run` has the keywords of `persist` (``scheduler=``, ``num_workers=``). Without `keep` they are
    made and checked again in every pass. `places` names the parts in errors.

    Raises
    ------
    ValueError
        No model can be trained on a chunk, or on all of them; the message says why.

    Examples
    --------
    >>> from lazyflow.learn.data.rows import NumberTargets
    >>> parts = [RowChunk(np.ones((2, 1)), [0, 1], None), RowChunk(np.ones((2, 2)), [0, 1], None)]
    >>> kept_rows(parts, NumberTargets(1), {})
    Traceback (most recent call last):
    ...
    ValueError: chunk 1 of X has 2 features, chunk 0 has 1
    """
    if places is None:
        places = [place._replace(chunk=k) for k, place in enumerate(places_of(parts, None))]
    kept = [_checked(part, targets, place) for part, place in zip(parts, places, strict=True)]
    if keep:
        (kept,) = persist(kept, **run)
    summaries = compute(*[part[3] for part in kept], **run)
    kept = [part[:3] for part in kept]
    names = _check(summaries)
    if len({summary.dtype for summary in summaries}) > 1:
        kept = [(_as_double(X), y, weight) for X, y, weight in kept]
        if keep:
            (kept,) = persist(kept, **run)
    chunks, sizes = list(kept), [summary.rows for summary in summaries]
    if join_small and keep:
        chunks, sizes = _brought_together(kept, summaries, run)
    total = math.fsum(weight for summary in summaries for weight in summary.weight)
    present = None
    if summaries[0].present is not None:
        present = np.sum([summary.present for summary in summaries], axis=0)
    return Rows(
        [RowChunk(*chunk) for chunk in chunks], sizes, summaries[0].features, targets, total,
        np.sum([summary.sums for summary in summaries], axis=0) / total, present,
        sum(summary.nbytes for summary in summaries), keep, names,
        np.result_type(*[summary.dtype for summary in summaries]),
    )


def _checked(part: RowChunk, targets: Targets, place: Place) -> tuple[Any, ...]:
    X, y, weight, summary = checked(*part, targets, place)
    # What is known to be nothing is no input of every task on the chunk.
    return X, y, None if part.weight is None else weight, summary


def _check(summaries: Sequence[PartSummary]) -> tuple[str, ...] | None:
    """Refuse what no chunk alone shows; return the names of the columns, where any chunk has some.

    Chunks without names go with any."""
    named = next((k for k, summary in enumerate(summaries) if summary.names), 0)
    for k, summary in enumerate(summaries):
        if summary.names is not None and summary.names != summaries[named].names:
            raise ValueError(
                f"chunk {k} of X has the columns {list(summary.names)!r:.200}, chunk {named} has "
                f"{list(summaries[named].names or ())!r:.200}: bring all chunks in one order "
                "first, as by chunk[names]"
            )
        if summary.features != summaries[0].features:
            raise ValueError(
                f"chunk {k} of X has {summary.features} features, chunk 0 has "
                f"{summaries[0].features}"
            )
        if (summary.present is None) != (summaries[0].present is None):
            raise TypeError(f"chunks 0 and {k} of X are not both sparse, or both dense")
    rows, d = sum(summary.rows for summary in summaries), summaries[0].features
    if not rows or not d:
        raise ValueError(f"Found array with {rows} sample(s) and {d} feature(s): needed is 1 each")
    if not any(summary.weight[0] > 0 for summary in summaries):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return summaries[named].names


def _brought_together(
    kept: Sequence[Any], summaries: Sequence[PartSummary], run: dict[str, Any]
) -> tuple[list[Any], list[int]]:
    """Return chunks and their sizes, where small neighbours are one."""
    groups = groups_of([summary.nbytes for summary in summaries])
    sizes = [sum(summaries[k].rows for k in group) for group in groups]
    if len(groups) == len(kept):
        return list(kept), sizes
    chunks = []
    for group in groups:
        chunk = kept[group[0]]
        if len(group) > 1:
            X, y, weight = _joined([tuple(kept[k]) for k in group])
            chunk = X, y, None if chunk[2] is None else weight
        chunks.append(chunk)
    (chunks,) = persist(chunks, **run)
    return chunks, sizes


def _added(one: Iterable[Any], other: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(map(operator.add, one, other))


def tree_sum(parts: Sequence[Any]) -> Any:
    """Return the sum of lazy tuples, place by place, as a tree of tasks with eight inputs each.

    Examples
    --------
    >>> from lazyflow import compute, delayed
    >>> pair = delayed(lambda i: (i, i * i))
    >>> compute(tree_sum([pair(i) for i in range(100)]))
    ((4950, 328350),)
    """
    return tree_reduce(_added, parts, split_every=8)
