"""Coefficients are scikit-learn's, to 1e-6, on real data, with all penalties and weights."""

import itertools
import warnings
from functools import cache

import numpy as np
import pytest
from learn_tools import labelled, numbered, theta_of
from oldest_versions import sklearn_19
from scipy.linalg import lstsq
from scipy.sparse import csr_array
from sklearn import datasets, linear_model
from sklearn.model_selection import train_test_split

import lazyflow.array as la
from lazyflow import delayed
from lazyflow.learn import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge

NAMES = ["iris", "wine", "breast_cancer"]


@cache
def real(name):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = X / 16 if name == "digits" else (X - X.mean(axis=0)) / X.std(axis=0)
    return X, y


def ours(model, X, y, weight=None):
    """A fit on 3 chunks without a warning."""
    n = len(y)
    sizes = (n // 3, 1, n - n // 3 - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.set_params(scheduler="sync").fit(la.from_array(X, (sizes, -1)), y, weight)


def assert_near(model, oracle, atol=1e-6):
    """Compare; intercepts of several classes may all be shifted by as much."""
    theirs, mine = theta_of(oracle), theta_of(model)
    if len(mine) > 1 and hasattr(model, "classes_"):
        mine[:, -1] += theirs[:, -1].mean() - mine[:, -1].mean()
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol)
    assert model.coef_.shape == oracle.coef_.shape
    assert np.size(model.intercept_) == np.size(oracle.intercept_)


def logistic_oracle(X, y, weight=None, **options):
    options = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 1000, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return linear_model.LogisticRegression(**options).fit(X, y, weight)


@pytest.mark.parametrize(("name", "solver"), [
    *itertools.product(NAMES, ["lbfgs", "newton-cholesky", "svrg"]), ("iris", "saga"),
    pytest.param("wine", "saga", marks=pytest.mark.slow),
    pytest.param("breast_cancer", "saga", marks=pytest.mark.slow),
])
def test_logistic_regression_on_real_data(name, solver):
    X, y = real(name)
    model = ours(LogisticRegression(solver=solver, tol=1e-9, max_iter=9000), X, y)
    oracle = logistic_oracle(X, y)
    assert_near(model, oracle)
    np.testing.assert_array_equal(model.predict(X), oracle.predict(X))
    for method in "predict_proba", "decision_function", "predict_log_proba":
        found = getattr(model, method)(X)
        wanted = getattr(oracle, method)(X)
        shift = (found - wanted).mean(axis=1, keepdims=True) if method == "decision_function" and (
            found.ndim == 2) else 0.0
        np.testing.assert_allclose(found - shift, wanted, atol=1e-5)


def test_digits():
    X, y = real("digits")
    X, more, y, labels = train_test_split(X, y, stratify=y, random_state=0)
    model = ours(LogisticRegression(tol=1e-11), X, y)
    assert_near(model, logistic_oracle(X, y))
    assert model.score(more, labels) >= 0.968


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky"])
def test_strengths_of_the_penalty(C, fit_intercept, solver):
    X, y = labelled(n=120, K=2)
    options = {"C": C, "fit_intercept": fit_intercept}
    model = ours(LogisticRegression(solver=solver, tol=1e-10, **options), X, y)
    assert_near(model, logistic_oracle(X, y, tol=1e-12, **options))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.5}])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_rows_and_classes(K, class_weight, weighted):
    X, y = labelled(n=120, K=K)
    weight = np.random.default_rng(0).integers(0, 4, 120) * 0.7 if weighted else None
    model = ours(LogisticRegression(tol=1e-10, class_weight=class_weight), X, y, weight)
    assert_near(model, logistic_oracle(X, y, weight, class_weight=class_weight))


def test_without_penalty():
    X, y = labelled(n=200, K=3)
    model = ours(LogisticRegression(C=np.inf, tol=1e-10), X, y)
    assert_near(model, logistic_oracle(X, y, C=np.inf, solver="lbfgs", tol=1e-11), 1e-5)
    assert np.isnan(model.gap_)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_elastic_net_penalties_of_classes(l1_ratio, K, form):
    X, y = labelled(n=120, K=K)
    X[abs(X) < 0.3] = 0
    options = {"l1_ratio": l1_ratio, "C": 0.1}
    model = LogisticRegression(solver="saga", tol=1e-10, max_iter=20_000, **options)
    model.set_params(scheduler="sync").fit(form(X), y)
    assert model.converged_
    oracle = logistic_oracle(X, y, solver="saga", tol=1e-14, max_iter=20_000, **options)
    assert_near(model, oracle)
    np.testing.assert_array_equal(model.coef_ == 0, oracle.coef_ == 0)


@pytest.mark.parametrize("solver", ["auto", "cholesky", "lbfgs", "saga"])
@pytest.mark.parametrize("t", [None, 1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_ridge(solver, t, weighted, fit_intercept):
    X, y = numbered(n=120, t=t)
    weight = np.linspace(0, 2, 120) if weighted else None
    model = Ridge(2.0, solver=solver, tol=1e-10, fit_intercept=fit_intercept)
    oracle = linear_model.Ridge(2.0, fit_intercept=fit_intercept).fit(X, y, weight)
    assert_near(ours(model, X, y, weight), oracle)
    np.testing.assert_allclose(model.predict(X), oracle.predict(X), atol=1e-5)
    assert model.score(X, y, weight) == pytest.approx(oracle.score(X, y, weight))


def test_ridge_with_a_penalty_for_each_target():
    X, y = numbered(t=3)
    for alpha in ([0.1, 1.0, 10.0], np.zeros(3)):
        model = ours(Ridge(np.array(alpha)), X, y)
        assert_near(model, linear_model.Ridge(np.array(alpha)).fit(X, y))


def test_diabetes():
    X, y = datasets.load_diabetes(return_X_y=True)
    for model, oracle in [
        (Ridge(0.5), linear_model.Ridge(0.5)),
        (LinearRegression(), linear_model.LinearRegression()),
        (Lasso(0.1, tol=1e-14), linear_model.Lasso(0.1, tol=1e-14, max_iter=10**5)),
        (ElasticNet(0.01, tol=1e-14), linear_model.ElasticNet(0.01, tol=1e-14, max_iter=10**5)),
    ]:
        assert_near(ours(model, X, y), oracle.fit(X, y), 1e-6 * abs(y).max())


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("solver", ["cd", "saga"])
@pytest.mark.parametrize("t", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_elastic_net(l1_ratio, solver, t, weighted):
    X, y = numbered(n=120, t=t)
    weight = np.linspace(0, 2, 120) if weighted else None
    model = ElasticNet(0.2, l1_ratio=l1_ratio, max_iter=10_000, solver=solver)
    model.set_params(tol=1e-14 if solver == "cd" else 1e-11)
    ours(model, X, y, weight)
    for k in range(t or 1):
        oracle = linear_model.ElasticNet(0.2, l1_ratio=l1_ratio, tol=1e-13, max_iter=10**6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            oracle.fit(X, y[:, k] if t else y, weight)
        np.testing.assert_allclose(theta_of(model)[k], theta_of(oracle)[0], atol=1e-6)
    assert np.max(model.dual_gap_) == model.gap_ <= 1e-9
    if solver == "cd":
        assert np.shape(model.n_iter_) == np.shape(model.dual_gap_) == (() if t is None else (t,))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_least_squares_of_bad_condition_are_those_of_lstsq(weighted, fit_intercept):
    random = np.random.default_rng(0)
    U = np.linalg.qr(random.normal(size=(200, 6)))[0]
    V = np.linalg.qr(random.normal(size=(6, 6)))[0]
    X = U * np.logspace(0, -7, 6) @ V + fit_intercept * 1.0
    y = X @ np.ones(6)
    weight = random.uniform(0.5, 2, 200) if weighted else None
    model = ours(LinearRegression(fit_intercept=fit_intercept), X, y, weight)
    root = np.ones(200) if weight is None else np.sqrt(weight)
    columns = np.column_stack([X, np.ones(200)]) if fit_intercept else X
    exact = lstsq(columns * root[:, None], y * root)[0]
    limit = 20 * max(abs(exact[:6] - 1).max(), 1e-9)
    assert abs(model.coef_ - 1).max() < limit < 1e-4
    normal = abs(ours(Ridge(1e-300, fit_intercept=fit_intercept), X, y, weight).coef_ - 1).max()
    assert normal > 100 * abs(model.coef_ - 1).max()  # what normal equations leave


@pytest.mark.parametrize("n", [1, 3, 40])
@pytest.mark.parametrize("t", [None, 2])
def test_of_several_minima_the_shortest(n, t):
    X, y = numbered(n=n, d=5, t=t)
    X[:, 4] = X[:, 0] + X[:, 1]
    model = LinearRegression().fit(X, y)
    oracle = linear_model.LinearRegression().fit(X, y)
    assert_near(model, oracle, 1e-8)
    assert model.rank_ == oracle.rank_ == min(n - 1, 4)


@pytest.mark.parametrize("n", [60, 5000])
@pytest.mark.parametrize("constant", [0.1, 3.0, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
def test_constant_features_have_no_coefficient(n, constant, weighted):
    """Also where rounding leaves as much of them as other features have."""
    X, y = numbered(n=n)
    X[:, 1] = constant
    weight = np.linspace(0.1, 3, n) if weighted else None
    for model in LinearRegression(), Ridge(0.0), ElasticNet(0.0):
        oracle = linear_model.LinearRegression().fit(X, y, weight)
        assert_near(ours(model, X, y, weight), oracle, 1e-7)
        assert abs(model.coef_[1]) < 1e-14
    X[:] = constant
    assert not ours(LinearRegression(), X, y, weight).coef_.any()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_products_that_overflow_are_refused():
    X, y = numbered()
    X[13] = 1e200
    for model in Ridge(), Lasso():
        with pytest.raises(ValueError, match="products of the features and of y overflow float64"):
            model.fit(la.from_array(X, chunks=20), y)
    assert np.isfinite(LinearRegression().fit(X, y).coef_).all()


@pytest.mark.parametrize("model", [
    Ridge(1.0), LinearRegression(), ElasticNet(0.1, tol=1e-10), LogisticRegression(tol=1e-9),
    Ridge(1.0, solver="saga", tol=1e-9), LogisticRegression(solver="lbfgs", tol=1e-9),
])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_rows_are_the_same_rows(model, weighted):
    X, y = labelled(n=90, K=3)
    X[abs(X) < 0.5] = 0
    weight = np.linspace(0, 1, 90) if weighted else None
    dense = theta_of(model.set_params(scheduler="sync").fit(X, y, weight))
    np.testing.assert_allclose(theta_of(model.fit(csr_array(X), y, weight)), dense, atol=1e-6)


def test_single_precision_rows():
    X, y = labelled(n=200)
    for model in LogisticRegression(tol=1e-6), Ridge(), LinearRegression(), Lasso(0.01):
        double = theta_of(model.fit(X, y)).copy()
        assert model.coef_.dtype == float
        np.testing.assert_allclose(theta_of(model.fit(X.astype("f4"), y)), double, atol=1e-4)
        assert model.coef_.dtype == "f4"


@pytest.mark.parametrize("model", [
    *(pytest.param(model, marks=sklearn_19("has double precision of any rows"))
      for model in (LogisticRegression(), LogisticRegression(solver="lbfgs"))),
    Ridge(), Ridge(solver="lbfgs"), LinearRegression(), Lasso(0.01),
    ElasticNet(0.01, solver="saga", tol=0.1),
], ids=repr)
def test_coefficients_have_the_precision_of_the_rows(model):
    X, y = labelled(n=60)
    narrow = X.astype("f4")
    oracle = getattr(linear_model, type(model).__name__)()
    mixed = [delayed(narrow[:30]), delayed(X[30:])]
    for rows in (narrow, csr_array(narrow), la.from_array(narrow, chunks=(20, -1)), X, mixed,
                 narrow.astype(int)):
        model.fit(rows, y)
        if rows is not mixed:
            expected = oracle.fit(np.asarray(rows) if isinstance(rows, la.Array) else rows, y)
            assert model.coef_.dtype == expected.coef_.dtype
        intercept = np.asarray(model.intercept_)
        assert (intercept == intercept.astype(model.coef_.dtype)).all()
        assert model.predict(rows[:1] if rows is mixed else rows) is not None
    assert model.fit(mixed, y).coef_.dtype == "f8"


@pytest.mark.parametrize("l1_ratio", [0.3, 1.0])
@pytest.mark.parametrize(("fit_intercept", "weighted"), [(True, False), (False, True)])
def test_coefficients_that_are_at_least_0(l1_ratio, fit_intercept, weighted):
    X, y = numbered(60, 6, seed=3)
    weight = np.linspace(0.1, 2, 60) if weighted else None
    options = {"l1_ratio": l1_ratio, "fit_intercept": fit_intercept, "tol": 1e-12,
               "max_iter": 10**5, "positive": True}
    for alpha in (0.01, 0.3):
        oracle = linear_model.ElasticNet(alpha, **options).fit(X, y, weight)
        model = ours(ElasticNet(alpha, **options), X, y, weight)
        assert_near(model, oracle, 1e-5)
        assert model.coef_.min() == 0 and model.converged_
    lasso = Lasso(0.01, tol=1e-12, warm_start=True).fit(X, -y)  # from coefficients below 0
    oracle = linear_model.Lasso(0.01, tol=1e-12, positive=True).fit(X, y)
    np.testing.assert_allclose(
        lasso.set_params(positive=True).fit(X, y).coef_, oracle.coef_, atol=1e-5
    )


@pytest.mark.parametrize(("options", "words"), [
    ({"solver": "saga"}, r"does not support positive=True: take solver='cd'"),
    ({"alpha": 0}, r"positive=True without penalty \(alpha=0\)"),
])
def test_positive_coefficients_that_no_solver_finds(options, words):
    with pytest.raises(ValueError, match=words):
        Lasso(positive=True).set_params(**options).fit(np.ones((3, 1)), [1.0, 2.0, 3.0])


@pytest.mark.parametrize(("penalty", "options", "written"), [
    ("l1", {}, "C=1, l1_ratio=1 instead of penalty='l1'$"), ("l2", {}, "C=1, l1_ratio=0"),
    ("elasticnet", {"l1_ratio": 0.4}, "C=1, l1_ratio=0.4 instead of penalty='elasticnet'$"),
    (None, {}, "C=inf, l1_ratio=0 instead of penalty=None$"),
    (None, {"C": 3.0}, "C=inf.*, beside which C=3 is ignored"),
    ("l2", {"l1_ratio": 0.4}, "l1_ratio=0 .*, beside which l1_ratio=0.4 is ignored"),
])
def test_the_penalty_by_its_older_name(penalty, options, written):
    X, y = labelled(n=200)
    model = LogisticRegression(penalty=penalty, tol=1e-8, **options)
    with pytest.warns(FutureWarning, match=written):
        model.fit(X, y)
    assert_near(model, logistic_oracle(
        X, y, penalty=penalty, solver="saga", max_iter=10**5, **options
    ), 1e-5)


def test_no_penalty_of_that_name():
    with pytest.raises(ValueError, match=r"The 'penalty' parameter .* must be a str among"):
        LogisticRegression(penalty="l3").fit([[0.0], [1.0]], [0, 1])


def test_an_older_name_of_l1_is_refused_by_the_solvers_that_do_not_know_it():
    with (
        pytest.warns(FutureWarning),
        pytest.raises(ValueError, match=r"'lbfgs' knows no l1 penalty \(l1_ratio=1"),
    ):
        LogisticRegression(penalty="l1", solver="lbfgs").fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(("alpha", "solver", "found"), [
    (1.0, "auto", "cholesky"), (0.0, "auto", "qr"), (0.0, "cholesky", "qr"),
    (1.0, "lbfgs", "lbfgs"), (1.0, "saga", "saga"),
])
def test_ridge_says_what_solved_it(alpha, solver, found):
    assert ours(Ridge(alpha, solver=solver, tol=1e-3), *numbered(n=60)).solver_ == found
