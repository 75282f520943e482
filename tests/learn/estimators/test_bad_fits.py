"""What can't be fitted or predicted is refused in words that say what, where, and what to do."""

import warnings

import numpy as np
import pytest
from learn_tools import labelled, numbered
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

import lazyflow.array as la
from lazyflow import delayed
from lazyflow.errors import WorkerDied
from lazyflow.learn import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Ridge,
    StandardScaler,
)

X, Y = labelled(n=60)
WORDS = np.array(["ant", "bee"], object)[Y]
SYNC = {"scheduler": "sync"}


def chunked(rows):
    return la.from_array(rows, chunks=20)


def listed(rows):
    return [delayed(part) for part in np.split(rows, 3)]


def changed(values, at, to):
    out = values.copy()
    out[at] = to
    return out


@pytest.mark.parametrize(("model", "words"), [
    (LogisticRegression("1"), r"'C' parameter of LogisticRegression must be a float in the range"),
    (LogisticRegression(0), r"'C' .* in the range \(0.0, inf\]. Got 0 instead"),
    (LogisticRegression(np.nan), "Got nan instead"),
    (LogisticRegression(tol=None), "'tol' parameter"),
    (LogisticRegression(max_iter=1.5), "'max_iter' parameter .* must be an int"),
    (LogisticRegression(gap_tol=-1), "'gap_tol' parameter"),
    (LogisticRegression(l1_ratio=2), r"'l1_ratio' .* in the range \[0.0, 1.0\]"),
    (LogisticRegression(solver="liblinear"), "'solver' .* among .*newton-cholesky"),
    (LogisticRegression(solver="lbfgs", l1_ratio=0.5), "solver 'lbfgs' knows no l1 penalty"),
    (LogisticRegression(class_weight="even"), "'class_weight' parameter of LogisticRegression"),
    (LogisticRegression(random_state="a"), "'random_state' parameter"),
    (LogisticRegression(callback=3), "'callback' parameter .* must be a callable or None"),
    (LogisticRegression(fit_intercept="no"), "'fit_intercept' parameter"),
    (LogisticRegression(verbose="a"), "'verbose' parameter"),
    (LinearRegression(fit_intercept="no"), "'fit_intercept' parameter of LinearRegression"),
    (Ridge(-1), "'alpha' parameter of Ridge"),
    (Ridge(np.inf), "'alpha' parameter of Ridge"),
    (Ridge([np.inf]), "alpha must be at least 0 and finite"),
    (Ridge([1.0, 2.0]), "there are 1 targets"),
    (Ridge(solver="svd"), "'solver' parameter of Ridge"),
    (ElasticNet(np.inf), "'alpha' parameter of ElasticNet"),
    (ElasticNet(l1_ratio=np.nan), "'l1_ratio' parameter of ElasticNet"),
    (Lasso("a"), "'alpha' parameter of Lasso"),
    (Lasso(max_iter=None), "'max_iter' parameter of Lasso"),
], ids=repr)
def test_parameters_are_refused_by_their_names(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)


@pytest.mark.parametrize("cut", [chunked, listed])
@pytest.mark.parametrize(("y", "error", "words"), [
    (changed(WORDS, 45, np.nan), ValueError, "Input y contains NaN: chunk 2, row 5 of it"),
    (changed(WORDS, 45, None), ValueError, "Input y contains NaN: chunk 2, row 5 of it"),
    (changed(Y / 1, 45, np.nan), ValueError, "Input y contains NaN: chunk 2, row 5 of it"),
    (changed(Y / 1, 45, np.inf), ValueError, "Input y contains infinity: chunk 2, row 5 of it"),
    (changed(Y / 1, 45, 0.5), ValueError, r"Unknown label type: continuous.* \(y of chunk 2\)"),
    (changed(WORDS, 45, 7), TypeError, r"y of chunk 2 has labels of several types, int and str, .*"
     r"y\.astype\(str\)"),
    (changed(WORDS, slice(40, None), 7), ValueError, r"Unknown label type: .* \(y of chunk 2\)"),
    (Y * 0, ValueError, "at least 2 classes in the data, but the data contains only one class: 0"),
    (np.column_stack([Y, Y]), ValueError, r"y should be a 1d array, got .* \(20, 2\)"),
])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_labels_of_chunks(cut, y, error, words, class_weight):
    with pytest.raises(error, match=words):
        LogisticRegression(class_weight=class_weight, **SYNC).fit(cut(X), cut(y))


def test_words_in_some_chunks_and_numbers_in_others():
    parts = [delayed(Y[:20]), delayed(WORDS[20:40].astype(str)), delayed(Y[40:])]
    with pytest.raises(TypeError, match="y has labels of several types, int and str"):
        LogisticRegression(**SYNC).fit(listed(X), parts)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}])
def test_weights_of_another_length_in_one_chunk(class_weight):
    weights = [delayed(np.ones)(n) for n in (20, 19, 20)]
    with pytest.raises(ValueError, match=r"sample_weight of chunk 1 has the shape \(19,\); needed"):
        LogisticRegression(class_weight=class_weight, **SYNC).fit(listed(X), listed(Y), weights)


@pytest.mark.parametrize("class_weight", [None, {0: 2.0}])
@pytest.mark.parametrize("weight", [["a"] * 60, np.ones(60) + 1j, [None] * 60])
def test_weights_that_are_no_numbers(weight, class_weight):
    model = LogisticRegression(class_weight=class_weight, **SYNC)
    with pytest.raises(ValueError, match="sample_weight of chunk 0 has the dtype .*; needed are"):
        model.fit(chunked(X), Y, weight)


def test_one_lazy_value_is_called_by_its_name():
    with pytest.raises(TypeError, match=r"^X is one lazy value \(Delayed\)"):
        LogisticRegression(**SYNC).fit(X, Y).predict(delayed(X))
    for y, weight, name in [(delayed(Y), None, "y"), (Y, delayed(Y), "sample_weight")]:
        with pytest.raises(TypeError, match=rf"^{name} is one lazy value \(Delayed\).*\[{name}\]"):
            LogisticRegression(**SYNC).fit(chunked(X), y, weight)


def test_a_column_of_labels_is_taken_with_a_warning():
    exact = LogisticRegression(**SYNC).fit(X, Y).coef_
    for y in Y[:, None], chunked(Y[:, None]):
        with pytest.warns(DataConversionWarning, match=r"A column-vector y .* y\[:, 0\]"):
            found = LogisticRegression(**SYNC).fit(chunked(X), y).coef_
        np.testing.assert_allclose(found, exact, atol=1e-8)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("model", [LogisticRegression(), Ridge()])
def test_rows_that_are_not_finite_are_not_predicted(model, value):
    bad = changed(X, (50, 2), value)
    name = "NaN" if np.isnan(value) else "infinity"
    model.set_params(**SYNC).fit(X, Y)
    for rows in chunked(bad), listed(bad):
        with pytest.raises(ValueError, match=f"Input X contains {name}: .* row 10 of it, column 2"):
            model.score(rows, Y)
    with pytest.raises(ValueError, match="block \\(2,\\)|contains") as caught:
        model.predict(chunked(bad)).compute(**SYNC)
    assert any("block (2,)" in note for note in caught.value.__notes__)
    sparse = [delayed(csr_array(bad))]
    with pytest.raises(ValueError, match=f"Input X contains {name}: .* row 50 of it, column 2"):
        model.predict(sparse)[0].compute(**SYNC)


def test_rows_to_predict_need_two_axes_and_as_many_features():
    model = LogisticRegression(**SYNC)
    with pytest.raises(NotFittedError):
        model.predict(chunked(X))
    model.fit(X, Y)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array of shape .60,. instead"):
        model.predict(chunked(X)[:, 0])
    with pytest.raises(ValueError, match="X has 2 features, but LogisticRegression is expecting 4"):
        model.predict(chunked(X)[:, :2])
    unknown = la.from_delayed(delayed(X), (None, None), float)
    np.testing.assert_array_equal(model.predict(unknown).compute(**SYNC), model.predict(X))
    with pytest.raises(ValueError, match="X has 2 features, but the model is expecting 4"):
        model.predict(la.from_delayed(delayed(X[:, :2]), (None, None), float)).compute(**SYNC)


def test_targets_and_weights_may_be_lazy_where_rows_are_in_memory():
    weight = np.linspace(0, 2, 60)
    for model in LogisticRegression(**SYNC), Ridge(**SYNC):
        exact = model.fit(X, Y, weight).coef_.copy()
        for lazy in delayed, listed, chunked:
            np.testing.assert_array_equal(model.fit(X, lazy(Y), lazy(weight)).coef_, exact)
    _, several = numbered(t=2)
    assert Ridge(**SYNC).fit(X, delayed(several)).coef_.shape == (2, 4)


def test_a_chunk_that_can_not_be_loaded_is_told_by_its_loader():
    def load(k):
        if k == 2:
            raise OSError("the disk is gone")
        return X[20 * k:20 * k + 20]

    for model in LogisticRegression(**SYNC), Ridge(**SYNC):
        with pytest.raises(OSError, match="the disk is gone") as caught:
            model.fit([delayed(load)(k) for k in range(3)], Y)
        assert any("load(2)" in note for note in caught.value.__notes__)


def test_warnings_have_figures_that_are_known():
    with pytest.warns(ConvergenceWarning, match=r"2 iterations and 4 passes .* \(tol=0.0001\) and "
                      r"the duality gap 0\.\d+, of an objective of 0\.\d+; raise max_iter or tol"):
        LogisticRegression(max_iter=2, solver="lbfgs", **SYNC).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match=r"\(tol=0.0001\) and half the squared "
                      r"Newton decrement 0\.\d+, of an objective"):
        LogisticRegression(np.inf, max_iter=2, solver="lbfgs", **SYNC).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="a plane separates the classes.*Take a finite C"):
        LogisticRegression(np.inf, solver="newton-cholesky", **SYNC).fit(chunked(X), X[:, 0] > 0)


@pytest.mark.parametrize("model", [LogisticRegression(**SYNC), Ridge(**SYNC)])
def test_rows_in_memory_are_named_by_their_numbers(model):
    with pytest.raises(ValueError, match="Input X contains NaN: row 45, column 2; fill such"):
        model.fit(changed(X, (45, 2), np.nan), Y)
    with pytest.raises(ValueError, match=r"chunk 2, row 5 of it \(row 45 of all\), column 2"):
        model.fit(chunked(changed(X, (45, 2), np.nan)), Y)
    with pytest.raises(ValueError, match="chunk 2, row 5 of it, column 2"):
        model.fit(listed(changed(X, (45, 2), np.nan)), listed(Y))


def test_many_small_chunks_are_named_as_they_were():
    rows = la.from_array(changed(np.tile(X, (4, 1)), (45, 2), np.inf), chunks=(2, -1))
    with pytest.raises(ValueError, match=r"chunk 22, row 1 of it \(row 45 of all\), column 2"):
        Ridge(**SYNC).fit(rows, np.tile(Y, 4))
    with pytest.raises(ValueError, match=r"\(y of chunks 0 to 119\)"):
        LogisticRegression(**SYNC).fit(rows, la.from_array(np.tile(Y, 4) + 0.5, chunks=7))


def test_a_fit_of_rows_in_memory_begins_again_when_a_worker_dies():
    deaths = []

    def dying(progress):
        if len(deaths) < often:
            deaths.append(progress.iteration)
            raise WorkerDied("worker 3 died")

    exact = Ridge(solver="lbfgs", **SYNC).fit(X, Y).coef_
    model = Ridge(solver="lbfgs", callback=dying, **SYNC)
    often = 1
    np.testing.assert_array_equal(model.fit(X, Y).coef_, exact)
    often = 3
    with pytest.raises(WorkerDied, match="worker 3 died"):
        model.fit(X, Y)
    assert len(deaths) == 3
    often = 4
    with pytest.raises(WorkerDied, match="worker 3 died"):
        model.fit(chunked(X), Y)


def test_a_scaler_refuses_sparse_chunks():
    rows = la.from_delayed(delayed(csr_array)(X), (60, 4), float)
    with pytest.raises(TypeError, match=r"Cannot center sparse matrices.*chunk\.toarray"):
        StandardScaler().fit(rows)
    dense = rows.map_blocks(lambda chunk: chunk.toarray(), dtype=rows.dtype)
    np.testing.assert_allclose(StandardScaler().fit(dense).mean_, X.mean(axis=0))


def test_warm_starts_leave_intercepts_that_are_not_free_at_zero():
    for model in LogisticRegression(**SYNC), Ridge(solver="lbfgs", **SYNC), Ridge(solver="saga"):
        model.set_params(warm_start=True, tol=1e-9).fit(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.set_params(fit_intercept=False).fit(X, Y)
        assert not np.any(model.intercept_)
        exact = model.set_params(warm_start=False).coef_.copy()
        np.testing.assert_allclose(exact, model.fit(X, Y).coef_, atol=1e-6)
