"""Every estimator of scikit-learn: its weights make another one predict alike, or words say no."""

import warnings

import numpy as np
import pytest

from lazyflow.weights import get_flat, get_weights, mean_weights, set_flat, set_weights

sklearn = pytest.importorskip("sklearn")

from sklearn import linear_model, preprocessing, svm  # noqa: E402
from sklearn.cluster import KMeans  # noqa: E402
from sklearn.decomposition import PCA, IncrementalPCA  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.neural_network import MLPClassifier, MLPRegressor  # noqa: E402
from sklearn.utils import all_estimators  # noqa: E402

SGD = linear_model.SGDClassifier
METHODS = (
    "predict", "predict_proba", "decision_function", "transform", "inverse_transform",
    "score_samples",
)
OTHERS = [
    SGD(average=True), SGD(early_stopping=True), linear_model.SGDRegressor(average=5),
    linear_model.TweedieRegressor(power=1, link="log"), linear_model.LogisticRegression(C=0.01),
    MLPClassifier((4,), early_stopping=True), MLPRegressor((4,), solver="lbfgs"),
    PCA(n_components=0.9), svm.SVC(kernel="linear"), svm.SVC(kernel="precomputed"),
]


def made():
    for name, kind in all_estimators():
        if kind.__module__.startswith("sklearn.ensemble"):
            continue  # of trees, which are tested elsewhere
        try:
            model = kind()
        except (TypeError, FutureWarning):  # made of others, or about to be removed
            continue
        yield pytest.param(model, id=name)
    for model in OTHERS:
        yield pytest.param(model, id=repr(model))


def rows(number, seed):
    random = np.random.default_rng(seed)
    classes = random.permutation(np.arange(number) % 3)
    X = random.integers(0, 3, size=(number, 4)) + random.random((number, 4)) + classes[:, None]
    return X, classes


def seeded(model, seed=0):
    twin = sklearn.clone(model)
    wanted = {"random_state": seed, "max_iter": 20, "n_init": 1, "Cs": 2, "cv": 2,
              "max_subpopulation": 50, "n_jobs": 1}
    return twin.set_params(**{k: v for k, v in wanted.items() if k in twin.get_params()
                              and not (k == "max_iter" and hasattr(twin, "kernel"))})


def fitted(model, number, seed, change=lambda classes: classes):
    """Fit to the first kind of targets that the estimator takes; skip it if to none."""
    X, classes = rows(number, seed)
    floats = X @ [1.0, 2.0, 0.5, 1.0] + 0.1
    if getattr(model, "kernel", None) == "precomputed":
        X = X @ X.T
    for y in (change(classes), floats, np.stack([floats, -X[:, 0]], 1)):
        try:
            if y.ndim == 1 and y.dtype != float and sklearn.base.is_regressor(model):
                continue
            return seeded(model, seed).fit(X, y)
        except (ValueError, TypeError, AttributeError):
            continue
    pytest.skip("takes no rows of numbers")


def outputs(model, X):
    found = {}
    for name in METHODS:
        if (method := getattr(model, name, None)) is not None:
            try:
                value = method(X)
            except ValueError as error:
                value = str(error)
            found[name] = value.toarray() if hasattr(value, "toarray") else value
    return found


def assert_alike(one, other, X):
    expected, got = outputs(one, X), outputs(other, X)
    assert list(expected) == list(got)
    for name in expected:
        np.testing.assert_array_equal(expected[name], got[name], err_msg=name)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("model", list(made()))
def test_others_predict_alike_or_are_refused(model):
    one = fitted(model, 40, 0)
    try:
        weights = get_weights(one)
    except (ValueError, TypeError) as error:
        assert any(w in str(error) for w in ("no array", "no fitted arrays", "sparse")), error
        return
    X = rows(40, 7)[0]
    if getattr(model, "kernel", None) == "precomputed":
        X = X @ X.T
    for twin in (seeded(model), fitted(model, 30, 1, np.array(["a", "b", "c"], object).take),
                 fitted(model, 40, 1, lambda classes: classes + 10)):
        before = dict(vars(twin))
        try:
            set_weights(twin, weights)
        except ValueError as error:
            words = "unfitted", "another form", "same form", "arrays in one", "not the same"
            assert any(w in str(error) for w in words), error
            assert list(vars(twin)) == list(before)
            assert all(vars(twin)[name] is value for name, value in before.items())
        else:
            if type(model).__name__ != "BernoulliRBM":  # its scores are drawn anew
                assert_alike(one, twin, X)


@pytest.mark.parametrize("model", [
    SGD(average=True, random_state=0), SGD(average=30, random_state=0), SGD(random_state=0),
    linear_model.SGDRegressor(average=True, random_state=0), GaussianNB(), IncrementalPCA(2),
    preprocessing.StandardScaler(), preprocessing.MinMaxScaler(), preprocessing.MaxAbsScaler(),
], ids=repr)
@pytest.mark.parametrize("was_fitted", [True, False])
def test_training_goes_on_from_the_weights(model, was_fitted):
    X, y = rows(40, 0)
    one = sklearn.clone(model).fit(X, y)
    twin = sklearn.clone(model)
    if was_fitted:
        twin.fit(*rows(40, 1))
    set_weights(twin, get_weights(one))
    for each in (one, twin):
        for seed in (2, 3):
            each.partial_fit(*rows(20, seed))
    assert_alike(one, twin, rows(40, 7)[0])


@pytest.mark.parametrize(("model", "change"), [
    (MLPClassifier((3,), max_iter=5), {"max_iter": 8}),
    (MLPClassifier((3,), max_iter=5, early_stopping=True), {"max_iter": 8}),
    (linear_model.LassoLars(0.01), {}), (linear_model.LassoLarsCV(cv=2), {}),
    (linear_model.HuberRegressor(), {}), (KMeans(3, n_init=1), {}),
    (linear_model.LassoCV(cv=2, alphas=5), {"cv": 3}),
], ids=lambda x: type(x).__name__)
def test_curves_and_paths_of_the_training_hinder_nothing(model, change):
    one = sklearn.clone(model).fit(*rows(40, 0))
    other = sklearn.clone(model).set_params(**change).fit(*rows(50, 1))
    mean = mean_weights([get_weights(one), get_weights(other)])
    set_weights(other, get_weights(one))
    assert_alike(one, other, rows(40, 7)[0])
    set_weights(one, mean)
    set_flat(one, get_flat(one) + 1)


@pytest.mark.parametrize("model", [
    linear_model.RidgeClassifier(), MLPClassifier((3,), max_iter=5), svm.SVC(kernel="linear"),
    linear_model.TweedieRegressor(),
], ids=lambda model: type(model).__name__)
def test_what_has_to_be_fitted_first_says_so_and_stays_as_it_was(model):
    weights = get_weights(sklearn.clone(model).fit(*rows(40, 0)))
    clone = sklearn.clone(model)
    before = dict(vars(clone))
    with pytest.raises(ValueError, match=r"an unfitted .* by arrays alone \(.*\)\. Fit it"):
        set_weights(clone, weights)
    assert vars(clone) == before


@pytest.mark.parametrize("model", [
    linear_model.RidgeClassifier(), MLPClassifier((3,), max_iter=5), SGD(),
], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("names", [("a", "b", "c"), (10, 20, 30), (-1, 7, 300)])
def test_labels_are_those_of_the_weights_and_have_no_mean(model, names):
    X, y = rows(40, 0)
    one = sklearn.clone(model).fit(X, np.array(names, object if "a" in names else None)[y])
    twin = sklearn.clone(model).fit(X, y)
    with pytest.raises(ValueError, match="has no mean.*same labels"):
        mean_weights([get_weights(one), get_weights(twin)])
    set_weights(twin, get_weights(one))
    assert twin.predict(X).tolist() == one.predict(X).tolist()


def test_a_model_of_other_columns_is_said_to_be_one():
    X, y = rows(40, 0)
    one, other = GaussianNB().fit(X, y), GaussianNB().fit(X[:, :3], y)
    with pytest.raises(ValueError, match="are of a GaussianNB of 4 features, and this one was fi"):
        set_weights(other, get_weights(one))


def test_the_flat_vector_has_all_that_a_fit_moves():
    X, y = rows(40, 0)
    path = linear_model.LassoLars(0.01).fit(X, y)
    assert get_flat(path).size == 4 + 1
    assert get_flat(linear_model.SGDOneClassSVM().fit(X)).size == 4 + 1
    model = svm.SVC().fit(X, y)
    before = model.decision_function(X)
    set_flat(model, get_flat(model) * 2)
    assert not np.allclose(model.decision_function(X), before)


def test_rows_that_were_counted_by_their_weights():
    X = rows(40, 0)[0]
    one = preprocessing.StandardScaler().fit(X, sample_weight=np.full(40, 0.3))
    twin = preprocessing.StandardScaler().fit(X[:20])
    set_weights(twin, get_weights(one))
    assert twin.n_samples_seen_ == one.n_samples_seen_ == pytest.approx(12)
    assert_alike(one, twin, X)
