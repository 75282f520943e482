"""Reductions of many lazy values as a tree."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from lazyflow.api.decorator import delayed
from lazyflow.api.lazy import Delayed
from lazyflow.graph.building import new_task
from lazyflow.schedulers.core.errors.words import summary

__all__ = ["tree_reduce"]


def tree_reduce(op: Callable[[Any, Any], Any], parts: Iterable[Any], split_every: int = 8) -> Any:
    """Combine values lazily, two by two, in an order that depends only on their number.

    Each task takes `split_every` neighbours and folds them from the left. A sum of gradients then
    has the same bits on every scheduler, and partial sums are computed where their parts are.

    Parameters
    ----------
    op
        An associative function of two values, such as `operator.add`.
    parts
        Futures, lazy and plain values; at least one.
    split_every
        The number of values that one task combines, 2 or more.

    Returns
    -------
    Delayed

    Examples
    --------
    >>> import operator
    >>> from lazyflow import submit, tree_reduce
    >>> tree_reduce(operator.add, [submit(abs, -i) for i in range(100)]).compute()
    4950
    """
    if type(split_every) is not int or split_every < 2:
        raise ValueError(f"split_every must be a whole number, 2 or more; got {split_every!r}")
    if not callable(op):
        raise TypeError(
            f"tree_reduce() takes a function of two values, such as operator.add, and the parts; "
            f"got {summary(op)} as the function"
        )
    level = list(parts)
    if not level:
        raise ValueError("tree_reduce() of no parts has no value; give at least one")
    fold = delayed(functools.partial(_fold, op), name=f"reduce by {_name(op)}")
    if len(level) == 1:
        return delayed(level[0])
    call, options = fold.__wrapped__, fold._called_options
    while len(level) > 1:
        folds = []
        for i in range(0, len(level) - 1, split_every):
            few = tuple(level[i : i + split_every])
            folds.append(new_task(Delayed, call, few, {}, options, depth=2))  # the user's line
        level = [*folds, *level[len(folds) * split_every :]]
    return level[0]


def _fold(op: Callable[[Any, Any], Any], *parts: Any) -> Any:
    return functools.reduce(op, parts)


def _name(op: Any) -> str:
    return str(getattr(op, "__name__", type(op).__name__))
