"""SAGA: a state of coefficients, slopes and their average, carried through blocks of rows.

SAGA keeps, for each row and score, the slope of the loss that it saw last, and the average of
those gradients; a step uses what changed since. It is a pure function: a state goes in with rows,
and a new one comes out. What differs is which rows a task gets:

`sampling="global"`
    A task goes through all rows for some epochs, in the order of a permutation of their blocks.
    The coefficients have the same bits for any chunks. All rows must be in the memory of one
    worker; there they are read where they are.
`sampling="visits"`
    A task goes through some blocks of one chunk, and an epoch is a chain of such visits in random
    order, over workers whose rows stay where they are. One `persist` at its end keeps all of the
    state (each part persisted alone would run the chain once more). Rows that are made again in
    every pass go by in several chains, each of as many chunks as fit in memory.

The third way, passes over all chunks at once, is `lazyflow.learn.solvers.svrg`.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

from lazyflow import compute, delayed, persist, wait
from lazyflow.learn.data.inputs import room_for_rows
from lazyflow.learn.kernels.losses import Loss
from lazyflow.learn.kernels.steps import SagaState, StepSizes, take_steps
from lazyflow.learn.solvers.problem import Problem
from lazyflow.learn.solvers.schedule import (
    BLOCK,
    Spans,
    centred,
    curvature,
    epoch_order,
    even_spans,
    groups_of_visits,
    longest_visit,
    mean_of_spans,
    step_length,
    uncentred,
    visits_of_epoch,
)
from lazyflow.learn.solvers.stopping import History, Solution, StopRule

__all__ = ["Sampling", "check_every", "saga"]

Sampling = Literal["global", "visits"]

_IN_ONE_TASK = 1 << 30  # bytes of rows that one worker is given, if nobody says how to sample
_FIRST_CHECK, _CHECKS = 1, 2  # epochs before the first check, and between others


class _Walk(NamedTuple):
    """What stays the same from epoch to epoch; the last are arguments of `take_steps`."""

    loss: Loss
    block: int
    feature: np.ndarray
    sizes: StepSizes


def saga(
    problem: Problem, start: np.ndarray, rule: StopRule, *,
    sampling: Sampling | None = None, seed: int = 0, block: int = BLOCK,
) -> Solution:
    """Minimise a problem, with or without l1 penalty; `start` is theta (K, d + 1).

    Parameters
    ----------
    problem, start, rule
        An iteration of the rule is an epoch: each row once. The gradient over all rows is looked
        at after the first one, and after every second one then.
    sampling
        None: "global" for up to 1 GB of rows that are kept, else "visits".
    seed
        Same seed, same bits: on every scheduler and for any number of workers.
    block
        Neighbouring rows that make one step, of dense rows.

    Examples
    --------
    >>> found = saga(Problem.of_squares([[1.0], [-1.0]], [2, 0]), np.zeros((1, 2)), StopRule(1e-9))
    >>> found.theta.round(6), found.converged
    (array([[0.5, 1. ]]), True)
    """
    if sampling is None:
        in_one = problem.rows.kept and problem.rows.nbytes <= _IN_ONE_TASK
        sampling = "global" if in_one else "visits"
    if sampling not in ("global", "visits"):
        raise ValueError(f'sampling must be "global" or "visits", not {sampling!r}')
    history = History(problem, rule)
    spans = even_spans(problem.rows.sizes, block) if sampling == "global" else None
    mean = _mean(problem, spans)
    walk, longest = _planned(problem, block, mean, spans)
    history.passes += 1
    state: Any = _started(problem, centred(start, mean), sampling == "visits")
    epoch = 0
    while True:
        if epoch:
            state = persist(*state, **problem.run)
        theta = uncentred(compute(state[0], **problem.run)[0], mean) if epoch else start
        value, gradient = history.evaluate(theta)
        if history.record(epoch, theta, value, gradient, walk.sizes.step):
            break
        if epoch >= rule.max_iter or not walk.sizes.step:
            break
        until = min(epoch + check_every(epoch), rule.max_iter)
        for at in range(epoch, until):
            if longest is None:
                state = _epoch_of_all(problem, walk, state, (seed, at))
            else:
                state = _epoch_of_visits(problem, walk, state, longest, (seed, at))
        history.passes += until - epoch
        epoch = until
    return history.solution("raise max_iter or tol, or scale the features")


def check_every(epoch: int) -> int:
    """Return how many epochs go by before the gradient over all rows is looked at again.

    Examples
    --------
    >>> [check_every(epoch) for epoch in range(5)]
    [1, 2, 2, 2, 2]
    """
    return _CHECKS if epoch else _FIRST_CHECK


def _mean(problem: Problem, spans: Spans | None) -> np.ndarray:
    """Return what is taken from rows; sparse ones would not be sparse, without intercepts not."""
    rows = problem.rows
    if not problem.free or rows.present is not None:
        return np.zeros(rows.n_features)
    return rows.mean if spans is None else mean_of_spans(problem, spans)


def _planned(
    problem: Problem, block: int, mean: np.ndarray, spans: Spans | None
) -> tuple[_Walk, int | None]:
    """Return what stays the same, and the longest visit; there are none of spans."""
    rows = problem.rows
    bounds = curvature(problem, block, mean, spans)
    step = step_length(problem, bounds)
    sizes = StepSizes(
        step, float(problem.l1), float(problem.l2), bounds.terms / rows.total, 1 / rows.total,
        float(problem.free),
    )
    longest = None
    if spans is None and step:
        longest = max(longest_visit(problem, step, mean), 1)
    if rows.present is None:
        return _Walk(problem.loss, block, mean, sizes), longest
    rarity = rows.n / np.maximum(rows.present, 1)
    longest = None if longest is None else -(-longest // block)  # a step for each row there
    return _Walk(problem.loss, block, rarity, sizes), longest


def _started(problem: Problem, start: np.ndarray, visits: bool) -> tuple[Any, Any, Any]:
    """Return the state at the start: all slopes 0, so that any theta may begin."""
    K = problem.shape[0]
    tables: Any = np.zeros((problem.rows.n, K))
    if visits:
        tables = [np.zeros((size, K)) for size in problem.rows.sizes]
    return start, tables, np.zeros(problem.shape)


# -- global ---------------------------------------------------------------------------------------


@delayed(nout=3)
def _steps_of_all(
    theta: np.ndarray, table: np.ndarray, average: np.ndarray, chunks: list[Any], walk: _Walk,
    key: tuple[int, int],
) -> SagaState:
    """Go through all rows once."""
    starts = epoch_order(len(table), walk.block, key)
    return take_steps(walk.loss, theta, table, average, chunks, starts, *walk[1:])


def _epoch_of_all(problem: Problem, walk: _Walk, state: Any, key: tuple[int, int]) -> Any:
    chunks = [tuple(chunk) for chunk in problem.rows.chunks]
    return tuple(_steps_of_all(*state, chunks, walk, key))


# -- visits ---------------------------------------------------------------------------------------


@delayed(nout=3)
def _visit(
    theta: np.ndarray, table: np.ndarray, average: np.ndarray, X: Any, y: np.ndarray,
    weight: np.ndarray | None, starts: np.ndarray, walk: _Walk,
) -> SagaState:
    """Go through some blocks of one chunk."""
    return take_steps(walk.loss, theta, table, average, [(X, y, weight)], starts, *walk[1:])


def _epoch_of_visits(
    problem: Problem, walk: _Walk, state: Any, longest: int, key: tuple[int, int]
) -> Any:
    theta, tables, average = state
    tables = list(tables)
    visits = visits_of_epoch(problem.rows.sizes, walk.block, longest, key)
    for group in groups_of_visits(visits, _chunks_at_once(problem)):
        for k, starts in group:
            chunk = problem.rows.chunks[k]
            theta, tables[k], average = _visit(theta, tables[k], average, *chunk, starts, walk)
        theta, tables, average = persist(theta, tables, average, **problem.run)
        if not problem.rows.kept:
            wait(theta)  # or idle workers would make the next rows ahead, and all would be there
    return theta, tables, average


def _chunks_at_once(problem: Problem) -> int:
    """Return how many chunks may be in memory: of those that are made again, a few."""
    rows = problem.rows
    room = None if rows.kept else room_for_rows(problem.run)
    if room is None:
        return len(rows.chunks)
    return max(room * len(rows.chunks) // (2 * max(rows.nbytes, 1)), 1)  # as made, and as checked
