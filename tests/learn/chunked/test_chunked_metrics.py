"""Metrics of chunked arrays: scikit-learn's numbers, warnings and errors."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oldest_versions import sklearn_19
from sklearn import metrics
from sklearn.exceptions import UndefinedMetricWarning

import lazyflow.array as la
from lazyflow.learn.chunked.metrics import (
    accuracy_score,
    log_loss,
    mean_squared_error,
    r2_score,
)

N = 40
DRAW = np.random.default_rng(0)
TEXT = DRAW.choice(np.array(["a", "b", "c"]), N)
PROBABILITIES = DRAW.dirichlet([1, 1, 1], N)
WEIGHTS = DRAW.uniform(size=N)
CLOSE = {"rel": 1e-10, "abs": 1e-12}


@pytest.fixture(autouse=True)
def never_gathered(monkeypatch):
    def fail(*_, **__):
        pytest.fail("an array was gathered")

    monkeypatch.setattr(la.Array, "__array__", fail)
    monkeypatch.setattr(la.Array, "compute", fail)


def cut(x, chunks):
    return x if x is None else la.from_array(np.asarray(x), chunks=(chunks, *np.shape(x)[1:]))


def outcome(function, *args, **given):
    """Return the value, warnings and the error of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value, error = function(*args, **given), None
        except Exception as failure:
            value, error = None, (type(failure), str(failure))
    return value, [(each.category, str(each.message)) for each in caught], error


def assert_same(function, oracle, y_true, y_pred, chunks=7, **given):
    wanted = outcome(oracle, y_true, y_pred, **given)
    for pair in (
        (cut(y_true, chunks), cut(y_pred, chunks)), (cut(y_true, chunks), cut(y_pred, chunks + 4)),
        (cut(y_true, chunks), y_pred), (y_true, cut(y_pred, chunks)), (y_true, y_pred),
    ):
        got = outcome(function, *pair, **given)
        assert got[0] == pytest.approx(wanted[0], **CLOSE) and type(got[0]) is type(wanted[0])
        assert got[1:] == wanted[1:]


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("normalize", [True, False])
def test_accuracy(weights, normalize):
    given = {"sample_weight": weights, "normalize": normalize}
    others = np.roll(TEXT, 1)
    objects = TEXT.astype(object)
    for y_true, y_pred in [
        (TEXT, others), (objects, others), (TEXT.tolist(), others), (TEXT == "a", others == "a"),
        (np.arange(N) % 3, np.arange(N) % 2), (np.arange(N) % 3, (np.arange(N) % 2)[:, None]),
        (np.arange(N) % 2, (np.arange(N) % 3).astype(float)),
        (PROBABILITIES > 0.3, PROBABILITIES[::-1] > 0.3),
    ]:
        assert_same(accuracy_score, metrics.accuracy_score, y_true, y_pred, **given)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("normalize", [True, False])
def test_log_loss(weights, normalize):
    given = {"sample_weight": weights, "normalize": normalize}
    two = np.where(TEXT == "a", "no", "yes")
    sure = np.round(PROBABILITIES[:, 0])
    for y_true, y_pred in [
        (TEXT, PROBABILITIES), (TEXT.astype(object), PROBABILITIES), (two, PROBABILITIES[:, 0]),
        (two, PROBABILITIES[:, :1]), (two == "yes", sure), (np.arange(N) % 3 - 1, PROBABILITIES),
    ]:
        assert_same(log_loss, metrics.log_loss, y_true, y_pred, **given)
        assert_same(log_loss, metrics.log_loss, y_true, y_pred, chunks=N, **given)


def test_log_loss_of_labels_that_are_told():
    few = np.where(TEXT == "a", "c", TEXT)
    for labels in ["a", "b", "c"], np.array(["a", "b", "c"]):
        assert_same(log_loss, metrics.log_loss, few, PROBABILITIES, labels=labels)
    one = np.ones(N, int)
    assert_same(log_loss, metrics.log_loss, one, PROBABILITIES[:, 0], labels=[0, 1])


def test_log_loss_of_single_precision():
    y_pred = np.round(PROBABILITIES, 1).astype(np.float32)
    got = log_loss(cut(TEXT, 7), cut(y_pred / y_pred.sum(axis=1, keepdims=True), 7))
    wanted = metrics.log_loss(TEXT, y_pred / y_pred.sum(axis=1, keepdims=True))
    assert got == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize(
    ("function", "oracle"),
    [(mean_squared_error, metrics.mean_squared_error), (r2_score, metrics.r2_score)],
)
def test_metrics_of_numbers(function, oracle, weights):
    y, other = PROBABILITIES, PROBABILITIES[::-1]
    half = np.full(N, 0.5)  # of others, scikit-learn's mean is not always exact
    for y_true, y_pred in [
        (y, other), (y[:, 0], y[:, 1]), (y[:, 0], y[:, 1:2]), (y[:, 0] + 1e6, y[:, 1] + 1e6),
        (half, half), (half, half + 0.1), (y, y), (np.arange(N), np.arange(N) // 2),
        (y[:, 0] > 0.2, y[:, 0]),
    ]:
        assert_same(function, oracle, y_true, y_pred, sample_weight=weights)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-9, 9)] * 3), min_size=2, max_size=12), st.integers(1, 5))
def test_any_chunks_give_the_same(rows, chunks):
    y_true, y_pred, weights = np.array(rows, float).T
    weights = abs(weights) + 1
    given = {"sample_weight": weights}
    chunked = [cut(x, chunks) for x in (y_true, y_pred)]
    for function, oracle in [
        (mean_squared_error, metrics.mean_squared_error), (r2_score, metrics.r2_score),
        (accuracy_score, metrics.accuracy_score),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scikit-learn, on many labels
            wanted = oracle(y_true, y_pred, **given)
        got = function(*chunked, sample_weight=cut(weights, chunks + 1))
        assert got == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_chunks_are_read_once_and_by_themselves():
    loads = []

    def load(block):
        loads.append(len(block))
        return block

    y_pred = la.map_blocks(load, cut(PROBABILITIES, 7), dtype=float)
    both = y_pred, y_pred * 0.5
    for call in (
        lambda: log_loss(TEXT, y_pred), lambda: mean_squared_error(*both),
        lambda: r2_score(*both), lambda: accuracy_score(y_pred > 0.5, y_pred > 0.4),
    ):
        loads.clear()
        call()
        assert sorted(loads) == [5, 7, 7, 7, 7, 7]


def test_lengths_need_not_be_known():
    y = cut(PROBABILITIES, 7)
    few = y[y[:, 0] > 0.3]
    rows = PROBABILITIES[PROBABILITIES[:, 0] > 0.3]
    assert few.shape[0] is None
    got = r2_score(few[:, 0], few[:, 1], sample_weight=few[:, 2])
    assert few.shape[0] is None, "counting the rows would compute them twice"
    wanted = metrics.r2_score(rows[:, 0], rows[:, 1], sample_weight=rows[:, 2])
    assert got == pytest.approx(wanted)
    wanted = metrics.mean_squared_error(rows[:, 0], rows[:, 1])
    assert mean_squared_error(few[:, 0], rows[:, 1]) == pytest.approx(wanted)
    wanted = metrics.accuracy_score(rows[:, 0] > 0.5, rows[:, 1] > 0.2)
    assert accuracy_score(rows[:, 0] > 0.5, few[:, 1] > 0.2) == wanted
    y_true = cut(TEXT, 7)[y[:, 0] > 0.3]
    wanted = metrics.log_loss(TEXT[PROBABILITIES[:, 0] > 0.3], rows)
    assert log_loss(y_true, few) == pytest.approx(wanted)


@pytest.mark.parametrize(("y_true", "y_pred", "labels"), [
    (TEXT, PROBABILITIES[:, :2] / PROBABILITIES[:, :2].sum(axis=1, keepdims=True), None),
    (TEXT, PROBABILITIES * 2, None), (TEXT, PROBABILITIES - 0.1, None), (TEXT, TEXT, None),
    (TEXT, PROBABILITIES * 0.9, None), (np.full(N, "a"), PROBABILITIES[:, 0], None),
    (TEXT[:30], PROBABILITIES, None), (TEXT, PROBABILITIES, ["a", "b"]),
    (TEXT, PROBABILITIES, ["a", "b", "c", "d"]), (TEXT, PROBABILITIES, ["c", "b", "a"]),
    (np.sort(PROBABILITIES[:, 0]), PROBABILITIES, None),
])
def test_errors_and_warnings_of_log_loss(y_true, y_pred, labels):
    wanted = outcome(metrics.log_loss, y_true, y_pred, labels=labels)
    got = outcome(log_loss, cut(y_true, N), cut(y_pred, N), labels=labels)
    assert wanted[1] or wanted[2]
    assert got[0] == pytest.approx(wanted[0]) and got[1:] == wanted[1:]


@pytest.mark.parametrize(("y_true", "y_pred"), [
    (TEXT, PROBABILITIES[:, 0]), (TEXT[:30], TEXT),
    pytest.param(TEXT, np.arange(N) % 3, marks=sklearn_19("compares texts with numbers")),
    (TEXT == "a", PROBABILITIES > 0.3), (np.arange(N) % 2 * np.nan, np.arange(N) % 2),
])
def test_errors_of_accuracy(y_true, y_pred):
    wanted = outcome(metrics.accuracy_score, y_true, y_pred)
    assert wanted[2]
    assert outcome(accuracy_score, cut(y_true, N), cut(y_pred, N)) == wanted


@pytest.mark.parametrize(
    ("function", "oracle"),
    [(mean_squared_error, metrics.mean_squared_error), (r2_score, metrics.r2_score)],
)
@pytest.mark.parametrize(("y_true", "y_pred"), [
    (PROBABILITIES, PROBABILITIES[:, :2]), (PROBABILITIES[:30], PROBABILITIES),
    (PROBABILITIES * np.nan, PROBABILITIES), (TEXT, PROBABILITIES[:, 0]),
])
def test_errors_of_metrics_of_numbers(function, oracle, y_true, y_pred):
    wanted = outcome(oracle, y_true, y_pred)
    assert wanted[2]
    assert outcome(function, cut(y_true, N), cut(y_pred, N)) == wanted


def test_one_row_has_no_r2():
    with pytest.warns(UndefinedMetricWarning, match="not well-defined with less than two samples"):
        assert np.isnan(r2_score(la.ones(1), [2.0]))


def test_probabilities_that_are_nan_are_refused():
    with pytest.raises(ValueError, match="Input y_pred contains NaN"):
        log_loss(cut(TEXT, 7), PROBABILITIES * np.nan)


def test_numbers_to_fit_are_no_labels():
    y_true = np.arange(300.0) / 7
    words = "different number of classes: .* or more vs 2. Are the values of y_true labels?"
    with pytest.raises(ValueError, match=words):
        log_loss(cut(y_true, 30), np.full(300, 0.5))


@pytest.mark.parametrize("function", [accuracy_score, log_loss, mean_squared_error, r2_score])
def test_weights_are_checked(function):
    y_true, y_pred = np.arange(4) % 2, la.full(4, 0.5, chunks=2)
    y_pred = y_pred > 1 if function is accuracy_score else y_pred
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[4, 4, 3\]"):
        function(y_true, y_pred, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="Sample weights must be 1D array or scalar, got 2D"):
        function(y_true, y_pred, sample_weight=np.ones((4, 1)))
    with pytest.raises(ValueError, match="Input sample_weight contains NaN"):
        function(y_true, y_pred, sample_weight=[1, 2, 3, np.nan])
    if function is not r2_score:
        with pytest.raises(ValueError, match="must contain at least one non-zero number"):
            function(y_true, y_pred, sample_weight=la.zeros(4, chunks=2))
