"""The solvers: gradients, optima, bits, and refusals."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from lazyflow import compute, delayed
from lazyflow.errors import LazyflowWarning
from lazyflow.learn import lbfgs, objective, saga
from lazyflow.learn.chunks import Rows, tree_sum
from lazyflow.learn.curvature import Curvature
from lazyflow.learn.lbfgs import softmax_regression
from lazyflow.learn.saga import one_vs_rest
from lazyflow.learn.visits import step_and_length, visits_of_epoch


def blobs(n=120, d=5, K=3, mean=0.0, seed=0):
    """Rows around K centres, labels 0 to K - 1, in random order."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % K
    random.shuffle(y)
    centres = 0.5 * random.normal(size=(K, d))
    return centres[y] + random.normal(size=(n, d)) + mean, y


def cut(X, y, count=6):
    return list(zip(np.array_split(X, count), np.array_split(y, count), strict=True))


def optimum(loss_and_gradient, X, y, K, C=1.0):
    """The oracle: one function over all rows, no chunks, no graph."""

    def whole(flat):
        theta = flat.reshape(K, -1)
        loss, gradient = loss_and_gradient(theta, X, y)
        W = np.column_stack([theta[:, :-1], np.zeros(K)])
        n = len(X)
        return loss / n + (W**2).sum() / (2 * C * n), (gradient / n + W / (C * n)).ravel()

    start = np.zeros(K * (X.shape[1] + 1))
    options = {"gtol": 1e-10, "ftol": 0.0, "maxiter": 5000, "maxfun": 10_000}
    found = minimize(whole, start, jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(K, -1), found.fun


LOSSES = [lbfgs.loss_and_gradient, objective.logistic_loss_and_gradient]
SOLVERS = [softmax_regression, one_vs_rest]


@cache
def softmax_optimum():
    return optimum(lbfgs.loss_and_gradient, *blobs(), 3)[0]


def theta_of(model):
    return np.column_stack([model.coef, model.intercept])


@pytest.mark.parametrize("function", LOSSES)
def test_gradients_are_those_of_central_differences(function):
    X, y = blobs(n=30)
    theta = np.random.default_rng(1).normal(size=(3, 6))
    _, gradient = function(theta, X, y)
    h = 1e-6
    for k, j in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[k, j] = h
        slope = (function(theta + step, X, y)[0] - function(theta - step, X, y)[0]) / (2 * h)
        assert gradient[k, j] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("function", LOSSES)
@pytest.mark.parametrize("size", [800.0, -800.0])
def test_losses_are_exact_where_exp_overflows(function, size):
    theta = np.array([[size, 0.0], [-size, 0.0]])
    loss, gradient = function(theta, np.array([[1.0]]), np.array([0]))
    assert loss == (0.0 if size > 0 else 1600.0)
    assert np.isfinite(gradient).all()


def test_penalty_leaves_the_intercepts_alone():
    theta = np.array([[3.0, 100.0], [4.0, -100.0]])
    value, gradient = objective.penalised(2.0, np.zeros((2, 2)), theta, n=4, penalty=0.1)
    assert value == 0.5 + 0.1 * 25 / 2
    np.testing.assert_allclose(gradient, [[0.3, 0.0], [0.4, 0.0]], rtol=1e-15)


def test_softmax_finds_scikit_learns_coefficients():
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = blobs()
    model = softmax_regression(cut(X, y), classes=[0, 1, 2], C=0.7)
    theirs = linear_model.LogisticRegression(C=0.7, solver="newton-cholesky", tol=1e-12).fit(X, y)
    assert model.converged
    np.testing.assert_allclose(model.coef, theirs.coef_, atol=1e-6)
    shift = theirs.intercept_.mean() - model.intercept.mean()
    np.testing.assert_allclose(model.intercept + shift, theirs.intercept_, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), theirs.predict(X))


def test_saga_finds_scikit_learns_coefficients():
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = blobs(mean=2.0)
    model = one_vs_rest(cut(X, y), classes=[0, 1, 2], C=0.7)
    assert model.converged
    for k in range(3):
        theirs = linear_model.LogisticRegression(C=0.7, solver="newton-cholesky", tol=1e-12)
        theirs.fit(X, y == k)
        np.testing.assert_allclose(model.coef[k], theirs.coef_[0], atol=1e-4)
        assert model.intercept[k] == pytest.approx(theirs.intercept_[0], abs=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_bits_on_every_scheduler_and_for_any_number_of_workers(solver):
    X, y = blobs()
    runs = [
        solver(cut(X, y, 12), classes=[0, 1, 2], scheduler=scheduler, num_workers=workers)
        for scheduler, workers in [("sync", None), ("threads", 1), ("threads", 2), ("threads", 4)]
    ]
    for model in runs[1:]:
        np.testing.assert_array_equal(theta_of(model), theta_of(runs[0]))
        assert [p[:3] for p in model.trace] == [p[:3] for p in runs[0].trace]


@pytest.mark.parametrize("block", [1, 4, 16])
@pytest.mark.parametrize("count", [1, 7, 60])
def test_saga_reaches_the_optimum_whatever_the_blocks_and_chunks(block, count):
    X, y = blobs()
    exact, value = optimum(objective.logistic_loss_and_gradient, X, y, 3)
    model = one_vs_rest(cut(X, y, count), classes=[0, 1, 2], block=block, scheduler="sync")
    assert model.trace[-1].gradient_norm <= 1e-7
    assert model.trace[-1].objective == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(theta_of(model), exact, atol=1e-4)


def test_saga_converges_on_many_chunks_where_a_fixed_order_stalls():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(400, 5)) + 1.0, random.integers(0, 2, 400)
    chunks, same = cut(X, y, 40), {"classes": [0, 1], "block": 1, "center": False}
    short = one_vs_rest(chunks, max_epochs=60, **same)
    with pytest.warns(LazyflowWarning, match="no convergence: after 60 steps"):
        stalled = one_vs_rest(chunks, max_epochs=60, order="cyclic", **same)
    assert short.converged
    assert min(point.gradient_norm for point in stalled.trace) > 1e-3


def test_centring_changes_the_way_and_not_the_optimum():
    X, y = blobs(mean=1.0)
    near = one_vs_rest(cut(X, y), classes=[0, 1, 2])
    far = one_vs_rest(cut(X, y), classes=[0, 1, 2], center=False, max_epochs=2000)
    np.testing.assert_allclose(theta_of(near), theta_of(far), atol=1e-4)
    assert near.trace[-1].step < far.trace[-1].step / 2
    assert near.trace[0].gradient_norm == pytest.approx(far.trace[0].gradient_norm, rel=1e-12)


def test_a_seed_decides_the_bits_and_not_the_optimum():
    X, y = blobs()
    before = np.random.get_state()[1].copy()
    one, again, two = (one_vs_rest(cut(X, y), classes=[0, 1, 2], seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(theta_of(one), theta_of(again))
    assert (theta_of(one) != theta_of(two)).any()
    np.testing.assert_allclose(theta_of(one), theta_of(two), atol=1e-4)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("solver", SOLVERS)
def test_inputs_may_be_read_only_and_are_left_as_they_are(solver):
    X, y = blobs()
    kept = X.copy()
    free = solver(cut(X, y), classes=[0, 1, 2])
    X.flags.writeable = y.flags.writeable = False
    bound = solver(cut(X, y), classes=[0, 1, 2])
    np.testing.assert_array_equal(theta_of(bound), theta_of(free))
    np.testing.assert_array_equal(X, kept)


def test_the_kernel_is_compiled_for_one_signature():
    X, y = blobs()
    one_vs_rest(cut(X, y), classes=[0, 1, 2])
    one_vs_rest(cut(np.asfortranarray(X, dtype=np.float32), y.astype(float)), classes=[0, 1, 2])
    assert len(saga.visit_blocks.signatures) == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_chunks_may_be_lazy_and_are_loaded_once(solver):
    X, y = blobs()
    loaded = []

    def load(k, pair):
        loaded.append(k)
        return pair

    pairs = [delayed(load, nout=2)(k, pair) for k, pair in enumerate(cut(X, y))]
    lazy = solver([(rows, labels) for rows, labels in pairs], classes=[0, 1, 2])
    assert sorted(loaded) == list(range(6))
    np.testing.assert_array_equal(theta_of(lazy), theta_of(solver(cut(X, y), classes=[0, 1, 2])))


@given(st.lists(st.integers(0, 120), max_size=8))
@settings(max_examples=10, deadline=None)
def test_softmax_does_not_depend_on_how_rows_are_cut(places):
    X, y = blobs()
    exact = softmax_optimum()
    places = sorted(places)
    chunks = list(zip(np.split(X, places), np.split(y, places), strict=True))
    model = softmax_regression(chunks, classes=[0, 1, 2], scheduler="sync")
    np.testing.assert_allclose(model.coef, exact[:, :-1], atol=1e-6)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=200), st.integers(2, 9))
@settings(max_examples=30, deadline=None)
def test_tree_sum_adds_every_part_once(numbers, fan_in):
    pair = delayed(lambda x: (x, 2.0 * x))
    (found,) = compute(tree_sum([pair(x) for x in numbers], fan_in), scheduler="sync")
    assert found == (sum(numbers), 2.0 * sum(numbers))


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=6),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_an_epoch_visits_every_block_once(sizes, block, longest, seed):
    for order in ("random", "cyclic"):
        visits = visits_of_epoch(sizes, block, longest, order, (seed, 3))
        blocks = [(k, int(start)) for k, starts in visits for start in starts]
        assert sorted(blocks) == [(k, i) for k, n in enumerate(sizes) for i in range(0, n, block)]
        assert all(1 <= len(starts) <= longest for _, starts in visits)
        if order == "cyclic":
            assert [k for k, _ in visits] == sorted(k for k, _ in visits)


@given(st.floats(0.01, 100), st.floats(0.01, 1), st.integers(1, 20), st.floats(0, 10))
def test_a_visit_moves_no_farther_than_one_gradient_step_of_the_whole(top, part, block, penalty):
    rows = Rows([], [60, 41], 3, np.arange(2), penalty)
    step, longest = step_and_length(Curvature(top, part * top), rows, block, "random")
    smooth = top / 4 + penalty
    slack = 1 + 1e-12
    assert 1 / (3 * smooth) <= step * slack <= slack**2 / (2 * smooth)
    assert longest == 1 or longest * step * part * top / 4 <= slack
    assert (longest + 1) * step * part * top / 4 > 1 / slack


def test_labels_are_what_the_classes_say():
    X, y = blobs()
    names = np.array(["wolf", "ant", "bee"])
    by_name = softmax_regression(cut(X, names[y]), classes=names)
    by_number = softmax_regression(cut(X, y), classes=[0, 1, 2])
    np.testing.assert_array_equal(by_name.coef, by_number.coef)
    np.testing.assert_array_equal(by_name.predict(X), names[by_number.predict(X)])


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_true_answer_of_the_callback_stops_without_a_warning(solver):
    X, y = blobs()
    points = []

    def third(point):
        points.append(point)
        return len(points) == 3

    model = solver(cut(X, y), classes=[0, 1, 2], callback=third)
    stopped = [point for point in model.trace if point in points]
    assert not model.converged
    assert stopped[-1] == model.trace[-1]
    assert all(a.step < b.step and a.seconds <= b.seconds for a, b in pairwise(points))


@pytest.mark.parametrize("solver", SOLVERS)
def test_running_out_of_steps_warns_with_the_gradient_norm(solver):
    X, y = blobs()
    limit = {"max_iter" if solver is softmax_regression else "max_epochs": 2}
    with pytest.warns(LazyflowWarning, match=r"after 2 steps .* above tol=\S+; raise max_") as seen:
        model = solver(cut(X, y), classes=[0, 1, 2], **limit)
    assert seen[0].filename == __file__
    assert not model.converged
    assert model.trace[-1].step == 2


def test_an_optimum_at_the_start_is_found_without_a_step():
    X, y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
    for solver in (softmax_regression, one_vs_rest):
        model = solver([(X, y)], classes=[0, 1])
        assert model.converged
        assert [p.step for p in model.trace] == [0]
        assert not theta_of(model).any()


X0, Y0 = np.ones((2, 3)), np.array([0, 1])


@pytest.mark.parametrize(
    ("chunks", "options", "words"),
    [
        ([], {}, "there are no chunks"),
        ([(X0, Y0)], {"C": 0.0}, "C must be positive, not 0.0"),
        ([(X0, Y0)], {"C": float("nan")}, "C must be positive, not nan"),
        ([(X0, Y0)], {"classes": [0]}, "at least two different labels"),
        ([(X0, Y0)], {"classes": [0, 1, 1]}, "at least two different labels"),
        ([(X0, Y0)], {"classes": [0, 1, 2]}, "no row has the label 2"),
        ([(X0, Y0), (X0, Y0 + 1)], {}, "chunk 1 has the label 2, which is not in classes"),
        ([(X0, Y0), (X0[0], Y0)], {}, r"chunk 1 has X of shape \(3,\) and y of shape \(2,\)"),
        ([(X0, Y0), (X0, Y0[:1])], {}, r"chunk 1 has X of shape \(2, 3\) and y of shape \(1,\)"),
        ([(X0, Y0), (X0[:, :2], Y0)], {}, "chunk 1 has 2 features, chunk 0 has 3"),
        ([(X0, Y0), (X0 * [1, 1, np.inf], Y0)], {}, "chunk 1 has inf at row 0, column 2"),
        ([(X0 * 1j, Y0)], {}, "chunk 0 has X of dtype complex128"),
        ([(X0.astype(object), Y0)], {}, "chunk 0 has X of dtype object"),
    ],
)
@pytest.mark.parametrize("solver", SOLVERS)
def test_what_cannot_be_right_is_refused_in_words(solver, chunks, options, words):
    with pytest.raises(ValueError, match=words):
        solver(chunks, **{"classes": [0, 1], **options})


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match='order must be "random" or "cyclic", not \'any\''):
        one_vs_rest([(X0, Y0)], classes=[0, 1], order="any")


@pytest.mark.parametrize("options", [{"block": 0}, {"check_every": 0}, {"max_epochs": -1}])
def test_counts_that_cannot_be_meant_are_refused(options):
    with pytest.raises(ValueError, match="{}={}".format(*next(iter(options.items())))):
        one_vs_rest([(X0, Y0)], classes=[0, 1], **options)
