"""L-BFGS, Newton, SAGA and SVRG: one minimum whatever the chunks, and hostile rows."""

import math
import threading
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learn_tools import cuts, labelled, numbered, objective_of, problem_of, quiet, some_rows
from scipy.sparse import csr_array, vstack

from lazyflow.learn.data.inputs import RowChunk
from lazyflow.learn.data.rows import ClassTargets, kept_rows
from lazyflow.learn.kernels.losses import LOGISTIC, SOFTMAX, SQUARES
from lazyflow.learn.solvers import stopping
from lazyflow.learn.solvers.lbfgs import lbfgs
from lazyflow.learn.solvers.newton import newton
from lazyflow.learn.solvers.problem import Problem
from lazyflow.learn.solvers.stochastic import even_spans, saga, svrg, visits_of_epoch
from lazyflow.learn.solvers.stopping import StopRule

SOLVERS = [lbfgs, newton, saga, svrg]
TIGHT = StopRule(1e-11, None, 500)


def solved(solver, problem, rule=TIGHT, **options):
    return solver(problem, np.zeros(problem.shape), rule, **options)


@pytest.mark.parametrize("solver", [lbfgs, newton])
@pytest.mark.parametrize("K", [2, 3])
def test_second_order_solvers_find_the_same_coefficients_for_any_chunks(solver, K):
    X, y = labelled(K=K)
    loss = LOGISTIC if K == 2 else SOFTMAX
    found = [
        solved(solver, problem_of(loss, X, y, l2=0.01, sizes=sizes)).theta
        for sizes in cuts(len(X))
    ]
    for theta in found[1:]:
        np.testing.assert_allclose(theta, found[0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("K", [2, 3])
def test_saga_finds_the_same_bits_for_any_chunks(form, free, K):
    X, y = labelled(n=70, K=K)
    X[X < 0] = 0
    weight = np.random.default_rng(0).uniform(0, 2, 70)
    problems = []
    for sizes in cuts(len(X)):
        edges = np.cumsum(sizes)[:-1]
        parts = zip(*[np.split(each, edges) for each in (X, y, weight)], strict=True)
        rows = kept_rows(
            [RowChunk(form(x), labels, s) for x, labels, s in parts], ClassTargets(np.arange(K)),
            {"scheduler": "sync"}, join_small=False,
        )
        assert len(rows.chunks) == len(sizes)
        loss = LOGISTIC if K == 2 else SOFTMAX
        problems.append(Problem(rows, loss, 0.01, 1 / rows.total, free, {"scheduler": "sync"}))
    found = [
        quiet(solved, saga, each, StopRule(0.0, None, 6), sampling="global") for each in problems
    ]
    for each in found[1:]:
        np.testing.assert_array_equal(each.theta[:, :-1], found[0].theta[:, :-1])
        np.testing.assert_allclose(each.theta, found[0].theta, rtol=0, atol=1e-12)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=9), st.integers(1, 5))
def test_spans_are_all_rows_in_order_whatever_the_chunks(sizes, block):
    spans = even_spans(sizes, block)
    rows = [(k, i) for span in spans for k, a, b in span for i in range(a, b)]
    assert rows == [(k, i) for k, size in enumerate(sizes) for i in range(size)]
    lengths = [sum(b - a for _, a, b in span) for span in spans]
    assert lengths[:-1] == [1024 * block] * (len(lengths) - 1)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 9), st.integers(1, 9),
    st.integers(0, 99),
)
def test_an_epoch_visits_every_block_once(sizes, block, longest, seed):
    visits = visits_of_epoch(sizes, block, longest, (seed, 3))
    blocks = [(k, int(start)) for k, starts in visits for start in starts]
    assert sorted(blocks) == [(k, i) for k, n in enumerate(sizes) for i in range(0, n, block)]
    assert all(1 <= len(starts) <= longest for _, starts in visits)


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("sampling", ["global", "visits"])
@pytest.mark.parametrize("order", [None, "label", "feature"])
def test_saga_converges_on_sorted_rows(sampling, order, form):
    X, y = labelled(n=120, K=2)
    if order:
        at = np.argsort(y if order == "label" else X[:, 1], kind="stable")
        X, y = X[at], y[at]
    parts = zip(np.split(X, 6), np.split(y, 6), strict=True)
    rows = kept_rows(
        [RowChunk(form(x), labels, None) for x, labels in parts], ClassTargets(np.arange(2)),
        {"scheduler": "sync"}, join_small=False,
    )
    problem = Problem(rows, LOGISTIC, 0.01, 0.01, True, {"scheduler": "sync"})
    found = solved(saga, problem, StopRule(1e-8, None, 1000), sampling=sampling)
    assert found.converged and found.gap < 1e-10
    assert found.history["passes"][-1] == found.n_passes


@pytest.mark.parametrize("sizes", [[120], [20] * 6, [7] * 17 + [1]])
@pytest.mark.parametrize("order", [None, "label"])
def test_svrg_converges_or_ends_by_lbfgs(sizes, order):
    X, y = labelled(n=120, K=3)
    if order:
        at = np.argsort(y, kind="stable")
        X, y = X[at], y[at]
    problem = problem_of(SOFTMAX, X, y, l2=0.01, sizes=sizes)
    found = solved(svrg, problem, StopRule(1e-8))
    exact = solved(newton, problem)
    assert found.converged
    np.testing.assert_allclose(found.theta[:, :-1], exact.theta[:, :-1], atol=1e-5)


def hostile(kind):
    X, y = labelled(n=60, K=2)
    if kind == "duplicated":
        X, y = X[:10].repeat(6, 0), y[:10].repeat(6)
    elif kind == "constant":
        X[:, 1] = 7.0
    elif kind == "zero rows":
        X[::2] = 0.0
    elif kind == "zero":
        X[:] = 0.0
    elif kind == "giant row":
        X[13] *= 1e4
    elif kind == "scales":
        X *= np.logspace(-4, 3, 4)
    elif kind == "overflow":
        X[13] = 1e200
    elif kind == "one row of a class":
        y[:] = 0
        y[5] = 1
    elif kind == "wide":
        X = np.random.default_rng(0).normal(size=(60, 90))
    return X, y


KINDS = [
    "duplicated", "constant", "zero rows", "zero", "giant row", "scales", "overflow",
    "one row of a class", "wide",
]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("l2", [0.0, 1 / 60])
def test_on_hostile_rows_solvers_converge_or_say_so(solver, kind, free, l2):
    X, y = hostile(kind)
    problem = problem_of(LOGISTIC, X, y, l2=l2, free=free, sizes=[20, 20, 20])
    found = solved(solver, problem, StopRule(1e-6, None, 60))
    assert np.isfinite(found.theta).all()
    assert found.converged == (found.message == "")
    gradient = quiet(problem.value_and_gradient, found.theta)[1]
    if found.converged:
        assert abs(gradient).max() <= 1e-6 * (1 + 1e-6)
    else:
        assert "no convergence: after" in found.message
    start = quiet(objective_of, LOGISTIC, np.zeros(problem.shape), X, y, l2=l2)
    assert quiet(objective_of, LOGISTIC, found.theta, X, y, l2=l2) <= start + 1e-12
    if not free:
        assert not found.theta[:, -1].any()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", [LOGISTIC, SQUARES], ids=["logistic", "squares"])
def test_nothing_to_do_takes_no_step(solver, loss):
    y = np.array([0, 1, 0, 1]) if loss is LOGISTIC else np.zeros(4)
    problem = problem_of(loss, np.zeros((4, 2)), y, l2=0.0, free=False)
    found = solved(solver, problem)
    assert found.converged and not found.theta.any() and found.n_iter <= 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_trace_is_exact(solver):
    X, y = labelled(K=3)
    problem = problem_of(SOFTMAX, X, y, l2=0.02, sizes=[20, 40])
    points = []
    found = solved(solver, problem, StopRule(1e-6, None, 50, points.append))
    for point in points:
        value, gradient = problem.value_and_gradient(point.theta)
        assert point.objective == pytest.approx(value, rel=1e-12)
        assert point.gradient_norm == pytest.approx(abs(gradient).max(), rel=1e-6, abs=1e-12)
        assert point.objective == pytest.approx(objective_of(SOFTMAX, point.theta, X, y, l2=0.02))
    assert [point.iteration for point in points] == found.history["iteration"].tolist()
    for name in ("passes", "seconds", "iteration"):
        assert all(a <= b for a, b in pairwise(found.history[name]))
    assert found.history["objective"][-1] == min(found.history["objective"])
    assert len({len(values) for values in found.history.values()}) == 1


def test_epochs_end_at_the_limit():
    problem = problem_of(LOGISTIC, *labelled())
    for limit in (1, 2, 3, 4):
        found = solved(saga, problem, StopRule(0.0, None, limit))
        assert found.n_iter == limit and f"after {limit} iterations" in found.message
    with pytest.raises(ValueError, match='sampling must be "global" or "visits", not \'all\''):
        solved(saga, problem, sampling="all")


def test_a_gap_that_is_small_enough_ends_it():
    problem = problem_of(LOGISTIC, *labelled(n=200), l2=0.01, sizes=[50, 150])
    for solver in SOLVERS:
        found = solved(solver, problem, StopRule(0.0, 1e-3, 200))
        assert found.converged and found.gap <= 1e-3 * found.history["objective"][-1]
        assert found.history["gradient_norm"][-1] > 1e-12
        assert solved(solver, problem, StopRule(0.0, 1e-9, 200)).n_iter >= found.n_iter


def test_a_gap_is_asked_for_also_with_an_l1_penalty_alone():
    problem = problem_of(LOGISTIC, *labelled(n=200), l1=0.05, l2=0.0)
    found = solved(saga, problem, StopRule(0.0, 1e-6, 500))
    assert found.converged and 0 <= found.gap <= 1e-6 * found.history["objective"][-1]
    assert math.isnan(found.history["gap"][-1])  # each point's is not worth a pass


def test_the_best_point_is_returned_where_the_last_is_not_finite():
    problem = problem_of(LOGISTIC, *labelled())
    trace = stopping.History(problem, StopRule(0.0))
    good, bad = np.ones(problem.shape), np.full(problem.shape, np.nan)
    assert not trace.record(0, good, *trace.evaluate(good), 0.0)
    with np.errstate(invalid="ignore"):
        assert trace.record(1, bad, math.nan, bad, 0.0)
    found = trace.solution("try this")
    assert np.isfinite(found.theta).all() and not found.converged
    assert found.message.endswith("try this")


def test_seeds_decide_the_bits_and_not_the_minimum():
    problem = problem_of(LOGISTIC, *labelled(n=200), l2=0.01, sizes=[50] * 4)
    before = np.random.get_state()[1].copy()
    for solver, options in [(saga, {"sampling": "global"}), (saga, {"sampling": "visits"}),
                            (svrg, {})]:
        one, again, other = (solved(solver, problem, seed=s, **options).theta for s in (1, 1, 2))
        np.testing.assert_array_equal(one, again)
        assert (one != other).any()
        np.testing.assert_allclose(one, other, atol=1e-8)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_read_only_and_writeable_chunks_mix():
    X, y = labelled(n=60)
    cut = [part.copy() for part in np.split(X, 3)]
    cut[1].flags.writeable = False
    parts = [RowChunk(x, t, None) for x, t in zip(cut, np.split(y, 3), strict=True)]
    for chunks in parts, parts[1:] + parts[:1]:
        rows = kept_rows(chunks, ClassTargets(np.arange(2)), {}, join_small=False)
        for sampling in ("global", "visits"):
            assert solved(saga, Problem(rows, LOGISTIC, 0, 0.1, True), sampling=sampling).converged


@pytest.mark.parametrize("sampling", ["global", "visits"])
def test_sparse_chunks_with_places_of_several_types_mix(sampling):
    X, y = labelled(n=60)
    cut = [csr_array(part) for part in np.split(X, 3)]
    cut[1].indices, cut[1].indptr = (a.astype(np.int64) for a in (cut[1].indices, cut[1].indptr))
    for values in cut[2].data, cut[2].indices:
        values.flags.writeable = False
    parts = [RowChunk(x, t, None) for x, t in zip(cut, np.split(y, 3), strict=True)]
    for chunks in parts, parts[1:] + parts[:1], parts[2:] + parts[:2]:
        rows = kept_rows(chunks, ClassTargets(np.arange(2)), {}, join_small=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert solved(saga, Problem(rows, LOGISTIC, 0, 0.1, True), sampling=sampling).converged


def test_sparse_and_dense_rows_have_one_minimum():
    X, y = labelled(n=90, K=3)
    X[abs(X) < 0.5] = 0
    dense = problem_of(SOFTMAX, X, y, l2=0.02)
    parts = [RowChunk(csr_array(x), t, None) for x, t in zip(
        np.split(X, 3), np.split(y, 3), strict=True)]
    rows = kept_rows(parts, ClassTargets(np.arange(3)), {}, join_small=False)
    assert vstack([chunk.X.compute() for chunk in rows.chunks]).shape == X.shape
    sparse = Problem(rows, SOFTMAX, 0.0, 0.02, True)
    exact = solved(newton, dense).theta
    for solver in lbfgs, newton, saga:
        found = solved(solver, sparse, StopRule(1e-9))
        assert found.converged
        np.testing.assert_allclose(found.theta[:, :-1], exact[:, :-1], atol=1e-6)


def test_one_graph_serves_all_evaluations_and_rows_are_read_once_in_each(monkeypatch):
    reads = []
    from lazyflow.learn.solvers import problem as module

    original = module.loss_sums

    def counted(loss, theta, X, y, weight):
        reads.append((len(X), threading.get_ident()))
        return original(loss, theta, X, y, weight)

    monkeypatch.setattr(module, "loss_sums", counted)
    problem = problem_of(LOGISTIC, *labelled(n=60), sizes=[20, 30, 10])
    found = solved(lbfgs, problem, StopRule(1e-6))
    sizes = [size for size, _ in reads]
    curvature = 1  # the pass that makes the coordinates, of other sums
    exact = 1  # the pass that certifies what was found
    assert sorted(sizes[:3]) == [10, 20, 30]
    assert len(sizes) / 3 == found.n_passes - curvature + exact


def test_more_outputs_are_solved_side_by_side():
    X, y = numbered(t=3)
    together = solved(lbfgs, problem_of(SQUARES, X, y, l2=0.1)).theta
    for k in range(3):
        alone = solved(lbfgs, problem_of(SQUARES, X, y[:, k], l2=0.1)).theta
        np.testing.assert_allclose(together[k], alone[0], atol=1e-8)


def test_what_converges_by_its_best_intercepts_has_converged():
    X, y = labelled(K=2)
    problem = problem_of(LOGISTIC, X, y)
    start = solved(newton, problem, StopRule(1e-12)).theta.copy()
    start[:, -1] += 1.0
    found = newton(problem, start, StopRule(1e-8, None, 0))
    assert found.converged and not found.message
    assert abs(problem.value_and_gradient(found.theta)[1]).max() <= 1e-8


def test_newton_goes_on_to_the_last_digits():
    X, _ = some_rows()
    y = (X[:, 0] + np.sin(9 * X[:, 1]) > 0.5).astype(int)
    found = solved(newton, problem_of(LOGISTIC, X, y, l2=0.01), StopRule(1e-15, None, 50))
    assert found.history["gradient_norm"][-1] < 1e-14 and found.n_iter < 12
