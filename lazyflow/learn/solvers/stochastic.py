"""SAGA and SVRG: many small steps, each by the slopes of a few rows.

A block of neighbouring rows counts as one term of the mean, and makes one step. Blocks are drawn
in units of a few neighbours, whose rows come from memory in one go: on 200,000 rows of 50 features
an epoch takes 10.6 ms with units of 32 rows and 12.3 with single blocks of 16, and as many epochs
lead to the same gap.

SAGA keeps, for each row and score, the slope of the loss that it saw last, and the average of
those gradients; a step uses the change since then. It is a pure function from a state and rows to a
new state. The two ways of sampling differ in the rows of a task:

`sampling="global"`
    A task goes through all rows for some epochs, in the order of a permutation of their blocks.
    The coefficients have the same bits for any chunks. All rows must fit in the memory of one
    worker, which reads them without a copy.
`sampling="visits"`
    A task goes through some blocks of one chunk, and an epoch is a chain of such visits in random
    order, over workers whose rows stay where they are. One `persist` at its end keeps all of the
    state (each part persisted alone would run the chain once more). Rows that are made again in
    every pass go by in several chains, each of as many chunks as fit in memory.

A visit takes steps by an average gradient that is out of date for the other chunks. After 1 / (step
* L) steps, where L is the curvature of the whole loss, theta has moved as far as by one gradient
step of the whole loss, and the visit must end: measured on 200,000 rows in 20 chunks, visits of
that length need as many epochs as rows drawn from the whole; visits three times as long half as
many again. The obvious program, whole chunks in a fixed order, never came closer than 1e-3:
`lazyflow.learn.examples.block_cyclic` shows it.

SVRG has all chunks take a pass from the same point at once, and a line search joins them. A round:
the gradient of the whole at theta; from there, in all chunks, a pass of steps whose slopes at theta
are kept fixed, so that they correct the gradient of the whole by what changes in their rows; the
mean of where the chunks ended, less theta, is a direction down, along which the objective is
searched. One round reads the rows three times, on all workers side by side. Where chunks are too
different the direction is poor: then it ends by L-BFGS.

R. Johnson, T. Zhang, "Accelerating stochastic gradient descent using predictive variance
reduction" (2013).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from lazyflow import compute, delayed, persist, wait
from lazyflow.learn.data.inputs import RowChunk, room_for_rows
from lazyflow.learn.data.rows import tree_sum
from lazyflow.learn.kernels.losses import Loss
from lazyflow.learn.kernels.steps import (
    SagaState,
    StepSizes,
    largest_curvature,
    largest_row,
    product_with_gram,
    row_sums,
    take_steps,
)
from lazyflow.learn.kernels.sums import slopes_of
from lazyflow.learn.solvers.lbfgs import finished_by_lbfgs
from lazyflow.learn.solvers.problem import Problem
from lazyflow.learn.solvers.stopping import History, Solution, StopRule

# -- how both go through rows -----------------------------------------------------------------


#: Rows of a dense block. More bear a longer step and cost less a row, but fewer steps are taken.
#: A guess, like the figures below.
BLOCK = 16
_SPAN = 1 << 10  # blocks that one task measures, wherever chunks end
_UNIT = 2  # neighbouring blocks that are drawn together
_POWER_STEPS = 5  # a few per cent below the largest eigenvalue: it lengthens visits by as much


def centred(theta: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return theta for rows less `mean`: the intercepts take what the coefficients lose.

    Shifting rows changes no minimum, and takes away the direction in which all rows agree: on
    handwritten digits the curvature of the whole falls from 2.9 to 0.25, and SAGA needs about a
    twentieth of the epochs.

    Examples
    --------
    >>> centred(np.array([[2.0, 1.0]]), np.array([3.0]))
    array([[2., 7.]])
    """
    out = theta.copy()
    out[:, -1] += theta[:, :-1] @ mean
    return out


def uncentred(theta: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return theta for the rows themselves, given one for rows less `mean`.

    Examples
    --------
    >>> uncentred(np.array([[2.0, 7.0]]), np.array([3.0]))
    array([[2., 1.]])
    """
    return centred(theta, -mean)


Spans = list[list[tuple[int, int, int]]]
"""Neighbouring rows that one task measures: for each (chunk, first row, row after the last)."""


def even_spans(sizes: Sequence[int], block: int) -> Spans:
    """Return spans of equally many blocks, which don't depend on where chunks end.

    So sums over them have the same bits for any chunks.

    Examples
    --------
    >>> even_spans([1000, 40], 1)
    [[(0, 0, 1000), (1, 0, 24)], [(1, 24, 40)]]
    """
    length = _SPAN * block
    spans: Spans = []
    room = 0
    for chunk, size in enumerate(sizes):
        low = 0
        while low < size:
            if not room:
                spans.append([])
                room = length
            high = min(low + room, size)
            spans[-1].append((chunk, low, high))
            room -= high - low
            low = high
    return spans


@delayed
def _of_span(
    function: Callable[..., Any], pieces: list[tuple[RowChunk, int, int]], *rest: Any
) -> Any:
    """Return a function of the rows and weights of one span, which are not brought together."""
    cut = [(X[a:b], None if s is None else s[a:b]) for (X, _, s), a, b in pieces]
    return function(cut, *rest)


def _pieces(problem: Problem, spans: Spans) -> list[list[Any]]:
    chunks = [tuple(chunk) for chunk in problem.rows.chunks]
    return [[(chunks[k], a, b) for k, a, b in span] for span in spans]


def mean_of_spans(problem: Problem, spans: Spans) -> np.ndarray:
    """Return the mean of dense rows, added up in spans.

    Examples
    --------
    >>> mean_of_spans(Problem.of_squares([[1.0], [3.0]], [2, 0]), [[(0, 0, 1)], [(0, 1, 2)]])
    array([2.])
    """
    (total,) = compute(
        tree_sum([_of_span(row_sums, pieces) for pieces in _pieces(problem, spans)]),
        **problem.run,
    )[0]
    mean: np.ndarray = total / problem.rows.total
    return mean


class Curvature(NamedTuple):
    """Bounds of the curvature of a loss, with intercepts and without penalties.

    term
        The largest curvature of one term of the mean: a block of dense rows, or one sparse row.
    terms
        The number of terms.

    Examples
    --------
    >>> Curvature(term=6.0, terms=100).terms
    100
    """

    term: float
    terms: int


def curvature(
    problem: Problem, block: int, mean: np.ndarray, spans: Spans | None = None
) -> Curvature:
    """Measure the rows in blocks of `block` rows, less `mean`: one pass.

    Blocks of dense rows are counted from the begin of each of the `spans`, or of each chunk.

    Examples
    --------
    >>> curvature(Problem.of_squares([[1.0], [-1.0]], [2, 0]), 1, np.zeros(1))
    Curvature(term=2.0, terms=2)
    """
    rows = problem.rows
    if rows.present is not None:
        row = delayed(largest_row)
        bounds = [row(chunk.X, chunk.weight, problem.free) for chunk in rows.chunks]
        terms = rows.n
    else:
        spans = spans or [[(k, 0, size)] for k, size in enumerate(rows.sizes)]
        bounds = [
            _of_span(largest_curvature, pieces, block, mean, problem.free)
            for pieces in _pieces(problem, spans)
        ]
        terms = -(-rows.n // block)
    largest = max(compute(*bounds, **problem.run))
    return Curvature(problem.loss.bound * largest * terms / rows.total, terms)


def step_length(problem: Problem, bounds: Curvature) -> float:
    """Return the length of SAGA's steps.

    Dense: 1 / (2 (mu n + L)) of A. Defazio, F. Bach, S. Lacoste-Julien, "SAGA: a fast incremental
    gradient method with support for non-strongly convex composite objectives" (2014), with mu n set
    to L / 2 at most; n counts terms. Sparse: 1 / (5 L), as proved by Leblond, Pedregosa,
    Lacoste-Julien (2017), for the largest factor of the penalty in a step.
    """
    present = problem.rows.present
    if present is not None:
        rarest = problem.rows.n / max(int(present[present > 0].min(initial=problem.rows.n)), 1)
        L = 5 * (bounds.term + problem.l2) + rarest * problem.l2
        return 1 / L if L else 1.0
    L = bounds.term + problem.l2
    if not L:  # nothing is curved, so that there is nowhere to go
        return 1.0
    return 1 / (2 * L + min(2 * bounds.terms * problem.l2, L))


def longest_visit(problem: Problem, step: float, mean: np.ndarray) -> int:
    """Return the number of steps of a visit, by the curvature of the whole loss."""
    part = delayed(product_with_gram)
    vector = np.random.Generator(np.random.Philox(key=0)).normal(size=problem.shape[1])
    largest = 1.0
    for _ in range(_POWER_STEPS):
        vector /= np.linalg.norm(vector)
        (product,) = compute(tree_sum([
            part(chunk.X, chunk.weight, mean, vector) for chunk in problem.rows.chunks
        ]), **problem.run)[0]
        vector = product / problem.rows.total
        largest = float(np.linalg.norm(vector))
    return max(1, int(1 / (step * problem.loss.bound * max(largest, 1e-300))))


def epoch_order(n: int, block: int, key: tuple[int, int]) -> np.ndarray:
    """Return the first rows of all blocks of n rows, in the order of one epoch.

    It depends on `key` (seed, epoch) alone: not on chunks, schedulers, earlier epochs or global
    state.

    Examples
    --------
    >>> epoch_order(10, 2, (0, 0))
    array([4, 6, 8, 0, 2])
    """
    random = np.random.Generator(np.random.Philox(key=key))
    units = random.permutation(np.arange(0, n, _UNIT * block))
    starts: np.ndarray = (units[:, None] + np.arange(0, _UNIT * block, block)).ravel()
    return starts[starts < n]


def visits_of_epoch(
    sizes: Sequence[int], block: int, longest: int, key: tuple[int, int]
) -> list[tuple[int, np.ndarray]]:
    """Return one epoch as (chunk, first rows of the blocks to visit there), every block once.

    `key` as in `epoch_order`; `longest` counts blocks.

    Examples
    --------
    >>> [(k, starts.tolist()) for k, starts in visits_of_epoch([4, 3], 2, 1, (0, 0))]
    [(0, [0]), (1, [0]), (0, [2]), (1, [2])]
    """
    random = np.random.Generator(np.random.Philox(key=key))
    visits = []
    for chunk, size in enumerate(sizes):
        starts = random.permutation(np.arange(0, size, block))
        visits += [(chunk, starts[i : i + longest]) for i in range(0, len(starts), longest)]
    random.shuffle(visits)
    return visits


def groups_of_visits(
    visits: list[tuple[int, np.ndarray]], at_once: int
) -> list[list[tuple[int, np.ndarray]]]:
    """Return the visits of an epoch in groups that need at most `at_once` chunks each.

    Visits in random order would need all rows in memory at once; rows that are made again in every
    pass may not fit. Within the epoch, chunks are in the random order of their first visits.

    Examples
    --------
    >>> visits = [(0, [0]), (1, [0]), (2, [0]), (0, [2]), (2, [2])]
    >>> groups_of_visits(visits, 2)
    [[(0, [0]), (1, [0]), (0, [2])], [(2, [0]), (2, [2])]]
    """
    place = {k: at // at_once for at, k in enumerate(dict.fromkeys(k for k, _ in visits))}
    groups: list[list[tuple[int, np.ndarray]]] = [[] for _ in range(max(place.values()) + 1)]
    for visit in visits:
        groups[place[visit[0]]].append(visit)
    return groups


# -- SAGA -------------------------------------------------------------------------------------


Sampling = Literal["global", "visits"]

_IN_ONE_TASK = 1 << 30  # bytes of rows that one worker gets if `sampling` is not given
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
        An iteration of the rule is an epoch: each row once. The gradient over all rows is checked
        after the first epoch, then after every second one.
    sampling
        None: "global" for up to 1 GB of rows that are kept, else "visits".
    seed
        Same seed, same bits: on every scheduler and for any number of workers.
    block
        The number of neighbouring dense rows that make one step.

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
    chunks = [tuple(chunk) for chunk in problem.rows.chunks]
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
        until = min(epoch + (_CHECKS if epoch else _FIRST_CHECK), rule.max_iter)
        for at in range(epoch, until):
            if longest is None:
                state = tuple(_epoch_of_all(*state, chunks, walk, (seed, at)))
            else:
                state = _epoch_of_visits(problem, walk, state, longest, (seed, at))
        history.passes += until - epoch
        epoch = until
    return history.solution("raise max_iter or tol, or scale the features")


def _mean(problem: Problem, spans: Spans | None) -> np.ndarray:
    """Return the vector to subtract from rows: 0 for sparse rows and without intercepts."""
    rows = problem.rows
    if not problem.free or rows.present is not None:
        return np.zeros(rows.n_features)
    return rows.mean if spans is None else mean_of_spans(problem, spans)


def _planned(
    problem: Problem, block: int, mean: np.ndarray, spans: Spans | None
) -> tuple[_Walk, int | None]:
    """Return the constants of the epochs, and the longest visit; None for spans."""
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
def _epoch_of_all(
    theta: np.ndarray, table: np.ndarray, average: np.ndarray, chunks: list[Any], walk: _Walk,
    key: tuple[int, int],
) -> SagaState:
    """Go through all rows once."""
    starts = epoch_order(len(table), walk.block, key)
    return take_steps(walk.loss, theta, table, average, chunks, starts, *walk[1:])


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


# -- SVRG -------------------------------------------------------------------------------------


_SUFFICIENT = 1e-4  # Armijo's part of the decrease that the gradient promises
_SHORTEST = 1e-3  # part of a whole step, below which none is tried; guessed
#: It is given up where so many rounds leave more than this part of the gradient; guessed.
_ROUNDS, _SLOW = 3, 0.5


def svrg(
    problem: Problem, start: np.ndarray, rule: StopRule, *, seed: int = 0, block: int = BLOCK
) -> Solution:
    """Minimise a problem of dense rows without l1 penalty; `start` is theta (K, d + 1).

    Same seed, same bits: on every scheduler and for any number of workers. Other chunks give other
    points on the way to the same minimum.

    Examples
    --------
    >>> found = svrg(Problem.of_squares([[1.0], [-1.0]], [2, 0]), np.zeros((1, 2)), StopRule(1e-9))
    >>> found.theta.round(6), found.converged
    (array([[0.5, 1. ]]), True)
    """
    history = History(problem, rule)
    mean = problem.rows.mean if problem.free else np.zeros(problem.rows.n_features)
    bounds = curvature(problem, block, mean)
    history.passes += 1
    step = step_length(problem, bounds)
    theta, length = start, 0.0
    value, gradient = history.evaluate(theta)
    for iteration in range(rule.max_iter + 1):
        if history.record(iteration, theta, value, gradient, length) or iteration == rule.max_iter:
            break
        if not step:  # squares of the rows overflow
            break
        if _is_slow(history):
            return finished_by_lbfgs(history, gradient)
        to = _joined_passes(problem, theta, gradient, (step, block, mean), (seed, iteration))
        history.passes += 2
        direction = to - theta
        slope = float((gradient * direction).sum())
        length = 1.0
        while np.isfinite(slope) and slope < 0 and length >= _SHORTEST:
            found = history.evaluate(theta + length * direction)
            if found[0] <= value + _SUFFICIENT * length * slope:
                break
            length /= 2
        else:
            return finished_by_lbfgs(history, gradient)
        theta, (value, gradient) = theta + length * direction, found
    return history.solution("raise max_iter or tol, or scale the features")


def _is_slow(history: History) -> bool:
    """Whether the last rounds left most of the gradient."""
    norms = [each.gradient_norm for each in history.trace]
    return len(norms) > _ROUNDS and norms[-1] > _SLOW * norms[-1 - _ROUNDS]


@delayed
def _pass(
    loss: Loss, theta: np.ndarray, gradient: np.ndarray, X: np.ndarray, y: np.ndarray,
    weight: np.ndarray | None, how: tuple[StepSizes, int, np.ndarray], key: tuple[int, int, int],
) -> tuple[np.ndarray]:
    """Return the total weight of one chunk times where a pass through it ends."""
    sizes, block, mean = how
    total = float(len(X) if weight is None else weight.sum())
    if not total:
        return (np.zeros_like(theta),)
    seed, iteration, number = key
    starts = epoch_order(len(X), block, (seed, (iteration << 32) + number))
    sizes = sizes._replace(per_block=len(starts) / total)
    table = slopes_of(loss, theta, X, y)
    ended, _, _ = take_steps(
        loss, centred(theta, mean), table, gradient, [(X, y, weight)], starts, block, mean, sizes,
        fixed=True,
    )
    return (total * ended,)


def _joined_passes(
    problem: Problem, theta: np.ndarray, gradient: np.ndarray,
    how: tuple[float, int, np.ndarray], key: tuple[int, int],
) -> np.ndarray:
    """Return the mean of where the chunks' passes end."""
    step, block, mean = how
    rows = problem.rows
    sizes = StepSizes(step, 0.0, float(problem.l2), 0.0, 0.0, float(problem.free))
    fixed = gradient.copy()
    fixed[:, :-1] -= problem.l2 * theta[:, :-1]  # the penalty's is added where the step is
    fixed[:, :-1] -= np.outer(gradient[:, -1], mean)  # as of rows less their mean
    (total,) = compute(tree_sum([
        _pass(problem.loss, theta, fixed, *chunk, (sizes, block, mean), (*key, number))
        for number, chunk in enumerate(rows.chunks)
    ]), **problem.run)[0]
    return uncentred(np.asarray(total) / rows.total, mean)
