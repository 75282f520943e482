"""`train_test_split` within the chunks of arrays.

The call decides how many rows of each chunk go to which part; the rounding is random and goes
through the chunks in a random order, so that the totals are scikit-learn's. A task draws the rows
of its chunk by a generator whose key is a number that the call has drawn, and the number of the
chunk. All arrays use the same draws, so that their rows stay together. For arrays in memory the
draws are computed at once. Arrays whose rows are cut in other places are refused, and not
rechunked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn import model_selection
from sklearn.model_selection._split import _validate_shuffle_split
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state, indexable
from sklearn.utils._param_validation import validate_parameter_constraints

from lazyflow import array as la
from lazyflow.array import Array
from lazyflow.learn.chunked.rows import any_chunked, in_chunks


def train_test_split(
    *arrays: Any,
    test_size: float | int | None = None,
    train_size: float | int | None = None,
    random_state: Any = None,
    shuffle: bool = True,
    stratify: Any = None,
) -> list[Any]:
    """Split arrays into rows to train with and rows to test with.

    Without chunked arrays it is scikit-learn's function. Chunked arrays are split **within each
    chunk**: each chunk gives its share of both parts, chosen at random, and its rows are shuffled
    among themselves. Rows stay in their chunk, so nothing is gathered; the chunks keep their order,
    while scikit-learn shuffles all rows. The total sizes are scikit-learn's. The result depends on
    `random_state` and the chunks of rows only.

    Parameters
    ----------
    *arrays
        Arrays with the same number of rows. Chunked arrays, which must have the same chunks, give
        lazy chunked arrays; others (lists, frames, ...) are split at once.
    test_size, train_size : float, int or None
        A share of the rows, or a number of rows; by default a quarter is for tests.
    random_state : int, RandomState or None
        The source of random numbers; None: NumPy's global state.
    shuffle : bool
        False: the first rows are for training, and the rows after them for tests.
    stratify : array of labels, or None
        Each chunk gives each class's share of its rows, rounded at random so that
        classes have about their share in total. Classes may be as small as you like.

    Returns
    -------
    list
        The train and test part of the first array, of the second, ...

    Raises
    ------
    ValueError
        Arrays are missing, their lengths or chunks differ, or a size is invalid.

    Examples
    --------
    >>> X, y = la.arange(16, chunks=8).reshape(8, 2), la.arange(8, chunks=4)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> X_train.chunks, X_test.chunks
    (((3, 3), (2,)), ((1, 1), (2,)))
    >>> bool((X_test.compute()[:, 0] == 2 * y_test.compute()).all())
    True
    """
    if not any_chunked(*arrays, stratify):
        return list(model_selection.train_test_split(
            *arrays, test_size=test_size, train_size=train_size, random_state=random_state,
            shuffle=shuffle, stratify=stratify,
        ))
    _check_options(test_size=test_size, train_size=train_size, random_state=random_state,
                   shuffle=shuffle)
    if not arrays:
        raise ValueError("At least one array required as input")
    rows = _rows_of_chunks([*arrays, stratify])
    arrays = tuple(indexable(*arrays))
    sizes = _validate_shuffle_split(sum(rows), test_size, train_size, default_test_size=0.25)
    n_train, n_test = map(int, sizes)
    if not shuffle:
        if stratify is not None:
            raise ValueError(
                "Stratified train/test split is not implemented for shuffle=False"
            )
        parts = slice(n_train), slice(n_train, n_train + n_test)
        return [_sliced(x, part) for x in arrays for part in parts]
    draws = _Draws.made(check_random_state(random_state), rows, n_train, n_test)
    return _shuffled(arrays, draws, stratify)


def shares(sizes: Sequence[int], total: int, start: float) -> list[int]:
    """Return how many of `total` items belong to each group, in proportion to the groups' sizes.

    Parameters
    ----------
    sizes
        The sizes of the groups, whose sum is at least `total`.
    total
        The sum of the result.
    start
        From 0 up to 1: where rounding starts. If it is uniformly distributed, the mean of a share
        is the exact proportion.

    Examples
    --------
    >>> shares([4, 4, 2], 5, 0.0), shares([5, 5, 5], 4, 0.4), shares([5, 5, 5], 4, 0.7)
    ([2, 2, 1], [1, 2, 1], [2, 1, 1])
    """
    n = max(sum(sizes), 1)
    offset = min(int(start * n), n - 1)  # whole numbers: sums are exact
    ends = [(total * end + offset) // n for end in accumulate(sizes, initial=0)]
    return [end - begin for begin, end in pairwise(ends)]


class _Draws(NamedTuple):
    """How many rows of each chunk are for what, and the key of its random numbers."""

    rows: tuple[int, ...]
    train: tuple[int, ...]
    test: tuple[int, ...]
    key: int
    start: float

    @classmethod
    def made(cls, state: Any, rows: tuple[int, ...], n_train: int, n_test: int) -> _Draws:
        # In a random order, so that not only neighbours share what rounding leaves.
        order = state.permutation(len(rows))
        used = shares([rows[k] for k in order], n_train + n_test, state.uniform())
        test = shares(used, n_test, state.uniform())
        back = np.argsort(order)
        tests = tuple([test[k] for k in back])
        trains = tuple([used[k] - test[k] for k in back])
        key = int.from_bytes(state.bytes(8), "little")
        return cls(rows, trains, tests, key, state.uniform())

    def by_chunk(self) -> Array:
        """Return a row (number, rows, for tests, to train with) for each chunk.

        Tasks so get what they need of their own chunk, not of all.
        """
        columns = range(len(self.rows)), self.rows, self.test, self.train
        return la.from_array(np.column_stack([np.array(c, int) for c in columns]), chunks=(1, 4))


def _check_options(**options: Any) -> None:
    """Refuse what scikit-learn refuses, in its words."""
    allowed = model_selection.train_test_split._skl_parameter_constraints
    validate_parameter_constraints(
        {name: allowed[name] for name in options}, options, "train_test_split"
    )


def _rows_of_chunks(arrays: Sequence[Any]) -> tuple[int, ...]:
    """Return how the rows of the chunked arrays are cut, which must be alike."""
    chunked = [x.with_known_sizes() for x in arrays if isinstance(x, Array)]
    check_consistent_length(*arrays)
    rows: tuple[int, ...] = chunked[0].chunks[0]
    for x in chunked:
        if x.chunks[0] != rows:
            raise ValueError(
                f"train_test_split() splits within chunks, but rows are cut into {rows} in one "
                f"array and {x.chunks[0]} in another. Cut them alike: "
                f"y = y.rechunk({{0: X.chunks[0]}})"
            )
    return rows


def _sliced(x: Any, rows: slice) -> Any:
    if isinstance(x, Array):
        return x[rows]
    return _safe_indexing(x, np.arange(*rows.indices(rows.stop)))


def _shuffled(arrays: Sequence[Any], draws: _Draws, stratify: Any) -> list[Any]:
    """Split arrays by picks that all of them have in common."""
    counts = draws.by_chunk()
    used = tuple([a + b for a, b in zip(draws.test, draws.train, strict=True)])
    labels = () if stratify is None else (_labels(stratify, draws.rows), "i")
    picks = la.blockwise(
        partial(_picks, draws.key, draws.start), "i", counts, "ic", *labels, dtype=np.intp,
        adjust_chunks={"i": used}, align_arrays=False, concatenate=True, name="draw rows",
    )
    places = None
    split: list[Any] = []
    for x in arrays:
        if isinstance(x, Array):
            split.append(_taken(x, _train_rows, picks, counts, draws.train))
            split.append(_taken(x, _test_rows, picks, counts, draws.test))
            continue
        if places is None:
            places = _places(picks.compute(), draws)
        split += [_safe_indexing(x, place) for place in places]
    return split


def _picks(key: int, start: float, counts: Any, labels: Any = None) -> np.ndarray[Any, Any]:
    """Return the rows of a chunk that are for tests, then those to train with."""
    k, rows, n_test, n_train = counts[0].tolist()
    draw = np.random.Generator(np.random.Philox(key=np.array([key, k], dtype=np.uint64)))
    picks = draw.permutation(rows)
    if labels is None or not rows:
        return picks[:n_test + n_train]
    _, classes = np.unique(labels[picks], return_inverse=True)
    picks, sizes = picks[np.argsort(classes, kind="stable")], np.bincount(classes).tolist()
    # Steps of the golden ratio: over chunks, classes are rounded up as often as is right.
    start = (start + k * 0.6180339887498949) % 1
    used = shares(sizes, n_test + n_train, start)
    tests = shares(used, n_test, start)
    ends = list(accumulate(sizes, initial=0))[:-1]
    test = [picks[i:i + n] for i, n in zip(ends, tests, strict=True)]
    train = [picks[i + n:i + m] for i, n, m in zip(ends, tests, used, strict=True)]
    return np.concatenate([draw.permutation(np.concatenate(part)) for part in (test, train)])


def _taken(x: Array, take: Callable[..., Any], picks: Array, counts: Array, rows: Any) -> Array:
    axes = ("i", *range(1, x.ndim))
    return la.blockwise(
        take, axes, x, axes, picks, "i", counts, "ic", dtype=x.dtype, adjust_chunks={"i": rows},
        align_arrays=False, concatenate=True,
    )


def _train_rows(x: Any, picks: Any, counts: Any) -> Any:
    return x[picks[counts[0, 2]:]]


def _test_rows(x: Any, picks: Any, counts: Any) -> Any:
    return x[picks[:counts[0, 2]]]


def _labels(stratify: Any, rows: tuple[int, ...]) -> Array:
    """Return labels with one axis: those in several columns as text, as in scikit-learn."""
    labels = in_chunks(stratify if isinstance(stratify, Array) else np.asarray(stratify), rows)
    if labels.ndim == 1:
        return labels
    return la.blockwise(_joined, "i", labels, "ij", dtype=object, concatenate=True)


def _joined(labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array([" ".join(row.astype(str)) for row in labels], dtype=object)


def _places(picks: Any, draws: _Draws) -> tuple[Any, Any]:
    """Return the numbers of the rows to train with and for tests, of an array in memory."""
    train, test, begin, start = [], [], 0, 0
    for rows, n_train, n_test in zip(draws.rows, draws.train, draws.test, strict=True):
        of_chunk = picks[begin:begin + n_test + n_train] + start
        test.append(of_chunk[:n_test])
        train.append(of_chunk[n_test:])
        begin, start = begin + n_test + n_train, start + rows
    return np.concatenate(train), np.concatenate(test)
