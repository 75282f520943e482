"""All rows that a solver trains on, kept in chunks where the workers are.

The number of chunks alone decides in which order sums are made, so a result has the same bits
whatever the scheduler, the number of workers and the order in which tasks end.
"""

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow import compute, delayed, persist, tree_reduce
from lazyflow.learn.data.checking import PartSummary, checked
from lazyflow.learn.data.inputs import RowChunk
from lazyflow.learn.data.joining import groups_of, together
from lazyflow.learn.data.places import Place, places_of
from lazyflow.learn.data.targets import Targets

__all__ = ["Rows", "kept_rows", "tree_sum"]


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
    >>> from lazyflow.learn.data.targets import NumberTargets
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
        >>> from lazyflow.learn.data.targets import NumberTargets
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
    """Check all parts and keep them; small chunks are brought together unless told not to.

    `run` has the keywords of `persist` (``scheduler=``, ``num_workers=``). Without `keep` they are
    made and checked again in every pass. `places` is what errors call the parts.

    Raises
    ------
    ValueError
        No model can be trained on a chunk, or on all of them; the message says why.

    Examples
    --------
    >>> from lazyflow.learn.data.targets import NumberTargets
    >>> parts = [RowChunk(np.ones((2, 1)), [0, 1], None), RowChunk(np.ones((2, 2)), [0, 1], None)]
    >>> kept_rows(parts, NumberTargets(1), {})
    Traceback (most recent call last):
    ...
    ValueError: chunk 1 of X has 2 features, chunk 0 has 1
    """
    if places is None:
        places = [each._replace(chunk=k) for k, each in enumerate(places_of(parts, None))]
    kept = [_checked(part, targets, place) for part, place in zip(parts, places, strict=True)]
    if keep:
        (kept,) = persist(kept, **run)
    found = compute(*[each[3] for each in kept], **run)
    kept = [each[:3] for each in kept]
    names = _check(found)
    if len({each.dtype for each in found}) > 1:
        kept = [(_as_double(X), y, weight) for X, y, weight in kept]
        if keep:
            (kept,) = persist(kept, **run)
    chunks, sizes = list(kept), [each.rows for each in found]
    if join_small and keep:
        chunks, sizes = _brought_together(kept, found, run)
    total = math.fsum(part for each in found for part in each.weight)
    present = None
    if found[0].present is not None:
        present = np.sum([each.present for each in found], axis=0)
    return Rows(
        [RowChunk(*chunk) for chunk in chunks], sizes, found[0].features, targets, total,
        np.sum([each.sums for each in found], axis=0) / total, present,
        sum(each.nbytes for each in found), keep, names,
        np.result_type(*[each.dtype for each in found]),
    )


def _checked(part: RowChunk, targets: Targets, place: Place) -> tuple[Any, ...]:
    X, y, weight, summary = checked(*part, targets, place)
    # What is known to be nothing is no input of every task on the chunk.
    return X, y, None if part.weight is None else weight, summary


def _check(found: Sequence[PartSummary]) -> tuple[str, ...] | None:
    """Refuse what no chunk alone shows; return the names of the columns, where any chunk has some.

    Chunks without names go with any."""
    named = next((k for k, each in enumerate(found) if each.names), 0)
    for k, each in enumerate(found):
        if each.names is not None and each.names != found[named].names:
            raise ValueError(
                f"chunk {k} of X has the columns {list(each.names)!r:.200}, chunk {named} has "
                f"{list(found[named].names or ())!r:.200}: bring all chunks in one order first, "
                "as by chunk[names]"
            )
        if each.features != found[0].features:
            raise ValueError(
                f"chunk {k} of X has {each.features} features, chunk 0 has {found[0].features}"
            )
        if (each.present is None) != (found[0].present is None):
            raise TypeError(f"chunks 0 and {k} of X are not both sparse, or both dense")
    rows, d = sum(each.rows for each in found), found[0].features
    if not rows or not d:
        raise ValueError(f"Found array with {rows} sample(s) and {d} feature(s): needed is 1 each")
    if not any(each.weight[0] > 0 for each in found):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return found[named].names


def _brought_together(
    kept: Sequence[Any], found: Sequence[PartSummary], run: dict[str, Any]
) -> tuple[list[Any], list[int]]:
    """Return chunks and their sizes, where small neighbours are one."""
    groups = groups_of([each.nbytes for each in found])
    sizes = [sum(found[k].rows for k in group) for group in groups]
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
