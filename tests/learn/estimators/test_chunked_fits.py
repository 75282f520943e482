"""Fits of chunks: nothing is gathered, each is loaded once, and predictions are lazy."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from learn_tools import cuts, labelled, numbered, theta_of
from scipy.sparse import csc_matrix, csr_array
from sklearn.base import is_classifier

import lazyflow.array as la
from lazyflow import compute, delayed
from lazyflow.learn import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge

SYNC = {"scheduler": "sync"}
MODELS = [
    LogisticRegression(tol=1e-10, **SYNC), LogisticRegression(solver="lbfgs", tol=1e-10, **SYNC),
    LogisticRegression(class_weight="balanced", tol=1e-10, **SYNC),
    Ridge(**SYNC), Ridge(solver="lbfgs", tol=1e-10, **SYNC), LinearRegression(**SYNC),
    ElasticNet(0.1, tol=1e-12, **SYNC), Lasso(0.1, tol=1e-12, **SYNC),
]


@pytest.fixture(params=MODELS, ids=repr)
def model(request):
    return request.param


@pytest.fixture
def never_gathered(monkeypatch):
    def fail(*_, **__):
        pytest.fail("an array was gathered")

    monkeypatch.setattr(la.Array, "__array__", fail)


def rows_for(model, n=60, t=None):
    if is_classifier(model):
        X, y = labelled(n=n, K=3)
        return X, np.array(["wolf", "ant", "bee"])[y]
    return numbered(n=n, t=t)


@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_give_the_coefficients_of_rows_in_memory(model, never_gathered, weighted):
    X, y = rows_for(model)
    weight = np.linspace(0, 2, 60) if weighted else None
    exact = theta_of(model.fit(X, y, weight))
    for sizes in cuts(60):
        lazy = la.from_array(X, (tuple(sizes), 2))
        model.fit(lazy, la.from_array(y, 9), weight)
        np.testing.assert_allclose(theta_of(model), exact, rtol=0, atol=1e-8)
        assert model.n_features_in_ == 4


def loaders(X, y, edges):
    """Lazy chunks of X and y, of one loader each, and how often each was called."""
    calls = Counter()

    def load(k):
        calls[k] += 1
        return np.split(X, edges)[k], np.split(y, edges)[k]

    pairs = [delayed(load, nout=2)(k) for k in range(len(edges) + 1)]
    return [x for x, _ in pairs], [t for _, t in pairs], calls


def test_each_chunk_is_loaded_once(model, never_gathered):
    X, y = rows_for(model)
    exact = theta_of(model.fit(X, y))
    Xs, ys, calls = loaders(X, y, [20, 50])
    np.testing.assert_allclose(theta_of(model.fit(Xs, ys)), exact, atol=1e-8)
    assert calls == {0: 1, 1: 1, 2: 1}
    calls.clear()
    model.fit(Xs, y)  # lengths are not known before
    assert calls == {0: 1, 1: 1, 2: 1}
    calls.clear()
    rows = la.concatenate([la.from_delayed(x, (None, 4), float) for x in Xs])
    targets = la.concatenate([la.from_delayed(t, (None,), y.dtype) for t in ys])
    for given in targets, ys, y:
        calls.clear()
        np.testing.assert_allclose(theta_of(model.fit(rows, given)), exact, atol=1e-8)
        assert calls == {0: 1, 1: 1, 2: 1}


def test_targets_may_be_computed_of_the_rows(never_gathered):
    X, _ = labelled(n=200)
    Xs, _, calls = loaders(X, X, [70])
    rows = la.concatenate([la.from_delayed(x, (n, 4), float) for x, n in zip(
        Xs, (70, 130), strict=True)])
    LogisticRegression(class_weight="balanced", **SYNC).fit(rows, rows.sum(axis=1) > 3)
    assert calls == {0: 1, 1: 1}


def methods_of(model):
    names = ["predict"]
    if is_classifier(model):
        names += ["predict_proba", "predict_log_proba", "decision_function"]
    return [getattr(model, name) for name in names]


@pytest.mark.parametrize("K", [2, 3])
def test_predictions_of_chunks_are_lazy_in_their_chunks(model, never_gathered, K):
    X, y = (labelled(K=K) if is_classifier(model) else numbered(t=None if K == 2 else 2))
    model.fit(X, y)
    lazy = la.from_array(X, chunks=(13, 3))
    unknown = lazy[la.from_array(np.ones(60, bool), chunks=13)]
    parts = [delayed(part) for part in np.split(X, [13, 20])]
    for method in methods_of(model):
        wanted = method(X)
        for rows in lazy, unknown:
            found = method(rows)
            assert isinstance(found, la.Array) and found.chunks[0] == rows.chunks[0]
            assert found.dtype == wanted.dtype and found.ndim == wanted.ndim
            values = found.compute(**SYNC)
            assert values.dtype == wanted.dtype
            np.testing.assert_allclose(values, wanted, atol=1e-12)
        found = method(parts)
        assert isinstance(found, list) and len(found) == 3
        np.testing.assert_allclose(np.concatenate(compute(*found, **SYNC)), wanted, atol=1e-12)


def test_nothing_is_computed_before_it_is_asked_for():
    X, y = labelled()
    model = LogisticRegression(**SYNC).fit(X, y)
    Xs, _, calls = loaders(X, y, [20])
    found = model.predict(la.concatenate([la.from_delayed(x, (None, 4), float) for x in Xs]))
    assert not calls
    found.compute(**SYNC)
    assert calls == {0: 1, 1: 1}


@pytest.mark.parametrize("dtype", ["i8", "i2", "u1", "?", "f2", "f4"])
def test_chunks_of_other_types_are_scored_as_rows_in_memory(model, dtype):
    """Weights must not be rounded to the type of the rows."""
    X, y = rows_for(model)
    X = (3 * abs(X)).astype(dtype)
    model.fit(X.astype(float), y)
    wanted = model.predict(X.astype(float))
    for rows in la.from_array(X, chunks=(7, -1)), [delayed(X)]:
        found = model.predict(rows)
        found = found.compute(**SYNC) if isinstance(found, la.Array) else found[0].compute()
        if is_classifier(model):
            assert (found == wanted).mean() > 0.95
        else:
            np.testing.assert_allclose(found, wanted, atol=1e-4 * abs(wanted).max())


@pytest.mark.parametrize("form", [csr_array, csc_matrix])
def test_sparse_chunks(model, form):
    X, y = rows_for(model)
    X[abs(X) < 0.5] = 0
    exact = theta_of(model.fit(X, y))
    wanted = model.predict(X)
    parts = [delayed(form)(part) for part in np.split(X, [20, 50])]
    for targets in y, [delayed(part) for part in np.split(y, [20, 50])]:
        np.testing.assert_allclose(theta_of(model.fit(parts, targets)), exact, atol=1e-6)
    found = np.concatenate(compute(*model.predict(parts), **SYNC))
    if is_classifier(model):
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert model.score(parts, y) == pytest.approx(model.score(X, y))


def test_frames(model):
    X, y = rows_for(model)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    exact = theta_of(model.fit(X, y)).copy()
    model.fit(frame, pd.Series(y, index=frame.index[::-1]))
    np.testing.assert_array_equal(theta_of(model), exact)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a", "c", "d"]])
    parts = [delayed(frame[:20]), delayed(frame[20:])]
    model.fit(parts, [delayed(pd.Series(y[:20])), delayed(pd.Series(y[20:]))])
    np.testing.assert_allclose(theta_of(model), exact, atol=1e-8)
    assert hasattr(model, "feature_names_in_")  # of the chunks
    found = np.concatenate(compute(*model.predict(parts), **SYNC))
    assert len(found) == 60


def test_scores(model):
    X, y = rows_for(model)
    weight = np.linspace(0, 2, 60)
    wanted = model.fit(X, y).score(X, y), model.score(X, y, weight)
    lazy, targets, s = (la.from_array(each, chunks=13) for each in (X, y, weight))
    Xs, ys, ws = ([delayed(part) for part in np.split(each, [20])] for each in (X, y, weight))
    for rows, labels, weights in [
        (lazy, targets, s), (lazy, y, weight), (Xs, ys, ws), (Xs, y, weight),
    ]:
        found = model.score(rows, labels), model.score(rows, labels, weights)
        assert found == pytest.approx(wanted) and type(found[0]) is float


def test_empty_chunks_and_classes_of_few_chunks():
    X, y = labelled(K=3)
    at = np.argsort(y)
    X, y = X[at], np.array(["a", "bb", "ccc"])[y[at]]
    edges = [0, 20, 20, 40]
    model = LogisticRegression(tol=1e-10, **SYNC)
    exact = theta_of(model.fit(X, y))
    parts = [[delayed(part) for part in np.split(each, edges)] for each in (X, y)]
    np.testing.assert_allclose(theta_of(model.fit(*parts)), exact, atol=1e-8)
    assert model.classes_.tolist() == ["a", "bb", "ccc"]
    X, y = numbered()
    parts = [[delayed(part) for part in np.split(each, edges)] for each in (X, y)]
    for model in Ridge(**SYNC), LinearRegression(**SYNC):
        exact = theta_of(model.fit(X, y))
        np.testing.assert_allclose(theta_of(model.fit(*parts)), exact, atol=1e-10)


def test_several_targets_in_chunks():
    X, y = numbered(t=3)
    lazy = la.from_array(X, chunks=(20, 2)), la.from_array(y, chunks=(7, 2))
    for model in Ridge(**SYNC), LinearRegression(**SYNC), ElasticNet(0.1, **SYNC):
        exact = theta_of(model.fit(X, y))
        np.testing.assert_allclose(theta_of(model.fit(*lazy)), exact, atol=1e-10)
        assert model.predict(lazy[0]).compute(**SYNC).shape == (60, 3)
        assert model.score(*lazy) == pytest.approx(model.score(X, y))


def test_chunks_that_are_kept_between_fits_are_the_users():
    X, y = labelled()
    before = X.copy(), y.copy()
    X.flags.writeable = y.flags.writeable = False
    for solver in ("lbfgs", "newton-cholesky", "saga", "svrg"):
        model = LogisticRegression(solver=solver, **SYNC)
        one = theta_of(model.fit([delayed(X)], [delayed(y)]))
        np.testing.assert_array_equal(theta_of(model.fit(X, y)), one)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
