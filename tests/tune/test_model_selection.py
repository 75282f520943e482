"""The searches of lazyflow.tune against scikit-learn's own, and the fits that they save."""

import inspect
import os
import pickle
import re
from functools import cache

import joblib
import numpy as np
import pandas as pd
import pytest
from engine_schedulers import local_client
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import uniform
from sklearn import config_context, model_selection
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.validation import check_array
from waiting import FakeClock

import lazyflow
import lazyflow.array as la
from lazyflow import learn, tune
from lazyflow.array import Array
from lazyflow.testing.signals import Tally
from lazyflow.tune import GridSearchCV

X, y = load_iris(return_X_y=True)
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"])
TEXTS = np.array(["a bad day", "a good day", "one more good day", "not so bad"] * 6)
SCHEDULERS = ["sync", "threads", "processes"]


class Shift(TransformerMixin, BaseEstimator):
    """Adds `k` to rows, and tells of its fits."""

    def __init__(self, k=0, name="", tally=None):
        self.k = k
        self.name = name
        self.tally = tally

    def fit(self, X, y=None):
        if self.k == "wrong":
            raise ValueError(f"{self.name} can't shift by {self.k!r}")
        if self.tally is not None:
            self.tally.add(self.name)
        self.fitted_ = True
        return self

    def transform(self, X):
        return check_array(X) + self.k


class InPlace(Shift):
    def transform(self, X):
        X += 1.0
        return X


class Nearest(ClassifierMixin, BaseEstimator):
    """Predicts the class whose mean is nearest, with rows of some weight."""

    def __init__(self, p=2):
        self.p = p

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        self.means_ = [np.average(X[y == c], 0, weight[y == c]) for c in self.classes_]
        return self

    def predict(self, X):
        away = [(np.abs(X - mean) ** self.p).sum(axis=1) for mean in self.means_]
        return self.classes_[np.argmin(away, axis=0)]


def refit_and_score(estimator, X, y):
    """A scorer that fits again, on other rows."""
    return clone(estimator).fit(X[::2], y[::2]).score(X[1::2], y[1::2])


def best_of_few_columns(results):
    return int(np.argmax(results["mean_test_score"] - np.arange(len(results["params"]))))


def two_scores(estimator, X, y):
    return {"right": estimator.score(X, y), "columns": X.shape[1]}


def assert_same_results(ours, theirs):
    def but_times(search):
        return {k: v for k, v in search.cv_results_.items() if not k.endswith("_time")}

    np.testing.assert_equal(but_times(ours), but_times(theirs))
    for name in ("best_params_", "best_score_", "best_index_", "n_splits_", "multimetric_"):
        assert getattr(ours, name, None) == getattr(theirs, name, None), name
    assert hasattr(ours, "best_estimator_") == hasattr(theirs, "best_estimator_")


pipeline = make_pipeline(StandardScaler(), PCA(random_state=0), SVC())
nested = Pipeline([
    ("prep", Pipeline([("scale", MinMaxScaler()), ("pca", PCA()), ("last", StandardScaler())])),
    ("none", "passthrough"),
    ("best", SelectKBest(k=1)),
    ("model", make_pipeline(StandardScaler(), SVC())),
])
columns = make_pipeline(
    ColumnTransformer([
        ("one", make_pipeline(StandardScaler(), PCA(1)), ["a", "b"]), ("two", "passthrough", ["d"]),
    ]),
    FeatureUnion([("same", "passthrough"), ("pca", PCA(1))]),
    Nearest(),
)

#: name: estimator, grid, other parameters of the search, arguments of fit
CASES = {
    "no pipeline": (SVC(), {"C": [0.001, 1.0]}, {"cv": 2}, (X, y), {}),
    "grids": (pipeline, [
        {"pca__n_components": [1, 3], "svc__C": [0.01, 1.0]},
        {"pca": [SelectKBest()], "pca__k": [1, 2], "svc": [SVC(C=3.0), Nearest()]},
        {"standardscaler": ["passthrough", MinMaxScaler()], "svc__C": [0.1, 1.0]},
        {"steps": [pipeline.steps[1:]], "svc__gamma": [0.1, 1.0]},
    ], {"cv": 2, "return_train_score": True}, (X, y), {}),
    "nested": (nested, {
        "prep__pca__n_components": [1], "prep__last": ["passthrough", StandardScaler()],
        "best__k": [1, "all"], "model__svc__C": [0.1, 1.0],
    }, {"cv": 2}, (X, y), {}),
    "nested set as a whole": (nested, {
        "prep": [make_pipeline(MinMaxScaler(), PCA(2)), make_pipeline(PCA(3)), None],
        "best__k": [1, 2],
    }, {"cv": 2}, (X, y), {}),
    "columns of a frame": (columns, {
        "columntransformer__one__pca__n_components": [1, 2], "nearest__p": [1, 2],
    }, {"cv": 2}, (FRAME, y), {}),
    "sparse": (make_pipeline(SelectKBest(), SVC()), {
        "selectkbest__k": [1, 2], "svc__C": [0.1, 1.0],
    }, {"cv": 2}, (sparse.csr_matrix(X), y), {}),
    "texts": (make_pipeline(TfidfVectorizer(), SVC()), {
        "tfidfvectorizer__ngram_range": [(1, 1), (1, 2)], "svc__C": [0.1, 1.0],
    }, {"cv": 2}, (list(TEXTS), np.arange(24) % 4), {}),
    "rows that are changed in place": (make_pipeline(Shift(), InPlace(), Nearest()), {
        "inplace__k": [0, 1], "nearest__p": [1, 2],
    }, {"cv": 2}, (X, y), {}),
    "a random state": (make_pipeline(PCA(2, svd_solver="randomized"), SVC()), {
        "pca__random_state": [np.random.RandomState(0)], "svc__C": [0.1, 1.0],
    }, {"cv": 2}, (X, y), {}),
    "weights": (make_pipeline(StandardScaler(), Nearest()), {"nearest__p": [1, 2]},
                {"cv": 2}, (X, y), {
                    "nearest__sample_weight": y + 1.0, "standardscaler__sample_weight": y + 2.0}),
    "groups": (pipeline, {"svc__C": [0.01, 1.0]}, {"cv": GroupKFold(2)}, (X, y),
               {"groups": np.arange(150) % 4}),
    "several scores": (pipeline, {"svc__C": [0.01, 1.0]}, {
        "cv": 2, "scoring": ["accuracy", "f1_macro"], "refit": "f1_macro",
        "return_train_score": True}, (X, y), {}),
    "a function of scores": (pipeline, {"svc__C": [0.01, 1.0]},
                             {"cv": 2, "scoring": two_scores, "refit": "right"}, (X, y), {}),
    "no refit": (pipeline, {"svc__C": [0.01, 1.0]}, {"cv": 2, "refit": False}, (X, y), {}),
    "a function for the refit": (pipeline, {"svc__C": [0.01, 1.0]},
                                 {"cv": 2, "refit": best_of_few_columns}, (X, y), {}),
    "a scorer that fits": (nested, {"model__svc__C": [0.01, 1.0], "best__k": [1, 2]},
                           {"cv": 2, "scoring": refit_and_score}, (X, y), {}),
    "no targets": (make_pipeline(PCA(2), KernelDensity()), {
        "pca__whiten": [True, False], "kerneldensity__bandwidth": [0.5, 1.0],
    }, {"cv": KFold(2, shuffle=True, random_state=0)}, (X,), {}),
    "numbers to predict": (make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 9.0]},
                           {"cv": 2, "scoring": "r2"}, (X[:, :3], X[:, 3]), {}),
}


@cache
def searched_by_scikit_learn(case):
    estimator, grid, options, rows, more = CASES[case]
    return model_selection.GridSearchCV(estimator, grid, **options).fit(*rows, **more)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("case", CASES)
def test_the_results_are_those_of_scikit_learn(case, scheduler):
    estimator, grid, options, rows, more = CASES[case]
    ours = GridSearchCV(estimator, grid, **options, scheduler=scheduler, num_workers=2)
    assert_same_results(ours.fit(*rows, **more), searched_by_scikit_learn(case))


def test_the_results_on_a_cluster_are_those_of_scikit_learn(cluster):
    ours = GridSearchCV(*CASES["nested"][:2], cv=2, scheduler=cluster).fit(X, y)
    assert_same_results(ours, searched_by_scikit_learn("nested"))


@pytest.fixture(scope="module")
def cluster():
    with local_client(workers=1) as client:
        yield client


@pytest.mark.parametrize(("search", "options"), [
    ("RandomizedSearchCV", {"n_iter": 3, "cv": 2}),
    ("HalvingRandomSearchCV", {"factor": 2, "cv": 2, "min_resources": 40}),
    ("HalvingGridSearchCV", {"factor": 2, "cv": 2, "min_resources": 40}),
    ("HalvingGridSearchCV", {"resource": "pca__n_components", "max_resources": 4, "cv": 2}),
])
@pytest.mark.parametrize("scheduler", ["sync", "processes"])
def test_the_other_searches_are_those_of_scikit_learn(search, options, scheduler):
    grid = {"svc__C": [0.1, 1.0]}
    if "resource" not in options:
        grid["pca__n_components"] = [1, 3]
    if "Random" in search:
        grid["svc__C"] = uniform(0.1, 10.0)
    parameters = (pipeline, grid), options | {"random_state": 3}
    theirs = getattr(model_selection, search)(*parameters[0], **parameters[1]).fit(X, y)
    ours = getattr(tune, search)(*parameters[0], **parameters[1], scheduler=scheduler).fit(X, y)
    assert_same_results(ours, theirs)
    for name in ("n_resources_", "n_candidates_", "n_iterations_"):
        assert getattr(ours, name, None) == getattr(theirs, name, None)


def test_metadata_are_routed_as_by_scikit_learn():
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        model = LogisticRegression(tol=0.1).set_fit_request(sample_weight=True)
        score = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        found = [
            search(make_pipeline(scaler, model.set_score_request(sample_weight=True)),
                   {"logisticregression__C": [0.1, 1.0]}, cv=2, scoring=score,
                   ).fit(X, y, sample_weight=y + 1.0)
            for search in (GridSearchCV, model_selection.GridSearchCV)
        ]
    assert_same_results(*found)


# -- chunked arrays -------------------------------------------------------------------------------

OURS = make_pipeline(learn.StandardScaler(), learn.LogisticRegression())
C = {"logisticregression__C": [0.01, 1.0]}


@pytest.fixture
def gathered(monkeypatch):
    """The numbers of axes of chunked arrays that are made NumPy's."""
    axes = []
    gather = Array.__array__

    def counted(array, *args, **kwargs):
        axes.append(array.ndim)
        return gather(array, *args, **kwargs)

    monkeypatch.setattr(Array, "__array__", counted)
    return axes


@pytest.mark.parametrize(("scheduler", "known"), [
    (None, True), ("sync", True), ("threads", False), ("processes", True),
])
def test_chunked_rows_are_not_gathered_for_our_estimators(scheduler, known, gathered):
    rows, targets = la.from_array(X, chunks=(40, -1)), la.from_array(y > 1, chunks=40)
    some = np.full(150, True)
    if not known:
        some = X[:, 0] > 5
        rows, targets = rows[rows[:, 0] > 5], targets[rows[:, 0] > 5]
    ours = GridSearchCV(OURS, C, cv=3, scheduler=scheduler, num_workers=2).fit(rows, targets)
    assert 2 not in gathered
    theirs = model_selection.GridSearchCV(OURS, C, cv=3).fit(X[some], y[some] > 1)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    assert isinstance(ours.predict(rows), Array)


def read(chunk, tally):
    tally.add(os.getpid())
    return chunk


def test_chunks_are_read_on_the_scheduler_of_the_search():
    tally = Tally()
    rows = la.from_array(X, chunks=(75, -1)).map_blocks(read, tally=tally, dtype=X.dtype)
    targets = la.from_array(y > 1, chunks=75)
    GridSearchCV(OURS, C, cv=2, scheduler="processes", num_workers=2).fit(rows, targets)
    assert os.getpid() not in tally.items()


def test_steps_are_shared_between_fits_of_chunked_rows():
    scaler = learn.StandardScaler()
    fits = Tally()

    class Told(type(scaler)):
        def partial_fit(self, *args):
            fits.add([type(args[0]).__name__, os.getpid()])
            return super().partial_fit(*args)

    rows = la.from_array(X, chunks=(75, -1))
    estimator = make_pipeline(Told(), learn.LogisticRegression())
    GridSearchCV(estimator, C, cv=3, refit=False, scheduler="processes").fit(rows, y > 1)
    assert fits.items() == [["Array", os.getpid()]] * 3


def test_chunked_rows_are_computed_once_for_other_estimators():
    tally = Tally()
    rows = la.from_array(X, chunks=(75, -1)).map_blocks(read, tally=tally, dtype=X.dtype)
    ours = GridSearchCV(pipeline, {"svc__C": [0.1, 1.0]}, cv=2, scheduler="threads").fit(rows, y)
    assert len(tally) == 2
    assert_same_results(
        ours, model_selection.GridSearchCV(pipeline, {"svc__C": [0.1, 1.0]}, cv=2).fit(X, y))


def test_lazy_rows_that_are_no_array_are_refused():
    with pytest.raises(TypeError, match="a lazy value other than a chunked array"):
        GridSearchCV(OURS, C).fit(lazyflow.delayed(X), y)


# -- what a search is -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in tune.__all__ if name.endswith("CV")])
def test_a_search_has_the_parameters_of_scikit_learn_and_two_more(name):
    theirs, ours = getattr(model_selection, name), getattr(tune, name)
    grid = {"C": [1.0]}
    names = [*inspect.signature(theirs).parameters, "scheduler", "num_workers"]
    assert list(inspect.signature(ours).parameters) == names
    search = ours(SVC(), grid, cv=4, scheduler="sync", num_workers=3)
    own = {"scheduler": "sync", "num_workers": 3}
    assert search.get_params(deep=False) == (
        theirs(SVC(), grid, cv=4).get_params(deep=False) | own | {"estimator": search.estimator})
    for copy in (clone(search), pickle.loads(pickle.dumps(search))):
        assert type(copy) is ours
        assert str(copy.get_params()) == str(search.get_params())
    assert search.set_params(scheduler="threads", estimator__C=3.0).estimator.C == 3.0
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'workers'"):
        ours(SVC(), grid, workers=3)


def test_a_subclass_has_parameters_of_its_own():
    class Quick(GridSearchCV):
        def __init__(self, estimator, param_grid, folds=2):
            super().__init__(estimator, param_grid, cv=folds, scheduler="sync")
            self.folds = folds

    search = clone(Quick(SVC(), {"C": [1.0]}, folds=4)).fit(X, y)
    assert (search.n_splits_, search.scheduler) == (4, "sync")
    assert search.get_params(deep=False).keys() == {"estimator", "param_grid", "folds"}


def test_a_fitted_search_is_pickled_and_searched_in_a_search():
    inner = GridSearchCV(SVC(), {"C": [0.1, 1.0]}, cv=2)
    outer = GridSearchCV(make_pipeline(StandardScaler(), inner), {
        "gridsearchcv__estimator__gamma": [0.1, 1.0]}, cv=2, scheduler="threads").fit(X, y)
    assert outer.best_estimator_[-1].best_params_ == {"C": 1.0}
    again = pickle.loads(pickle.dumps(outer))
    assert (again.predict(X) == outer.predict(X)).all()


@pytest.mark.parametrize(("options", "workers"), [
    ({"n_jobs": 3}, 3), ({"n_jobs": 3, "num_workers": 2}, 2), ({}, None),
    ({"n_jobs": -1}, joblib.cpu_count()),
])
def test_the_number_of_workers_is_that_of_either_library(options, workers, monkeypatch):
    seen = []

    def compute(*tasks, scheduler, num_workers=None):
        seen.append((scheduler, num_workers))
        return lazyflow.compute(*tasks, scheduler="sync")

    monkeypatch.setattr("lazyflow.tune.model_selection.compute", compute)
    GridSearchCV(SVC(), {"C": [1.0]}, scheduler="threads", **options).fit(X, y)
    assert seen == [("threads", workers)]


def test_the_refit_has_the_backend_of_joblib_that_the_caller_has():
    seen = []

    class Parallel(Nearest):
        def fit(self, X, y):
            seen.append(joblib.parallel.get_active_backend())
            return super().fit(X, y)

    with joblib.parallel_config("threading", n_jobs=2):
        before = joblib.parallel.get_active_backend()
        GridSearchCV(Parallel(), {"p": [2]}, cv=2, scheduler="processes", num_workers=1).fit(X, y)
        assert joblib.parallel.get_active_backend() == before
    assert seen == [before]


# -- errors ---------------------------------------------------------------------------------------


def failing(step, wrong, search, **options):
    estimator = Pipeline([("one", Shift(1, "one")), ("two", Shift(1, "two")), ("svc", SVC())])
    grid = {step: [1.0, wrong], "svc__gamma": [0.1, 1.0]}
    return search(estimator, grid, cv=2, refit=False, **options)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(("step", "wrong"), [
    ("one__k", "wrong"), ("two__k", "wrong"), ("svc__C", -1.0),
])
def test_a_candidate_that_fails_gets_the_error_score_and_words_of_scikit_learn(
    step, wrong, scheduler
):
    searches, words = [], []
    for search, options in ((GridSearchCV, {"scheduler": scheduler}),
                            (model_selection.GridSearchCV, {})):
        with pytest.warns(FitFailedWarning) as warned:
            searches.append(failing(step, wrong, search, error_score=-1.0, **options).fit(X, y))
        lines = str(warned[0].message).splitlines()
        words.append([line for line in lines if line and line[0] not in " "])
        assert len(warned) == 1
    assert_same_results(*searches)
    assert words[0] == words[1]


def test_a_candidate_whose_steps_are_none_fails_as_in_scikit_learn():
    searches = []
    for search in (GridSearchCV, model_selection.GridSearchCV):
        with pytest.warns(FitFailedWarning, match="2 fits failed out of a total of 4"):
            searches.append(search(
                pipeline, {"steps": [pipeline.steps, [1, 2]]}, cv=2, error_score=0.0).fit(X, y))
    scores = [search.cv_results_["mean_test_score"] for search in searches]
    assert (scores[0] == scores[1]).all()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_candidate_that_fails_raises_where_that_is_wanted(scheduler):
    with pytest.raises(ValueError) as caught:
        failing("two__k", "wrong", GridSearchCV, error_score="raise", scheduler=scheduler).fit(X, y)
    assert str(caught.value) == "two can't shift by 'wrong'"


@pytest.mark.parametrize(("options", "grid"), [
    ({}, {"svc__K": [1]}), ({}, {"none__k": [1]}), ({}, {"svc__C": []}),
    ({"cv": 1}, {"svc__C": [1]}),
    ({"scoring": "right"}, {"svc__C": [1]}), ({"scoring": ["accuracy"]}, {"svc__C": [1]}),
    ({"error_score": "none"}, {"svc__C": [1]}), ({"n_jobs": 0}, {"svc__C": [1]}),
    ({"scoring": lambda *args: "high"}, {"svc__C": [1]}),
])
def test_errors_are_those_of_scikit_learn(options, grid):
    errors = []
    for search in (GridSearchCV, model_selection.GridSearchCV):
        with pytest.raises(Exception) as caught:
            search(pipeline, grid, **options).fit(X, y)
        errors.append((type(caught.value), re.sub("0x[0-9a-f]+", "", str(caught.value))))
    assert errors[0] == errors[1]


def test_a_scheduler_that_is_none_is_refused():
    with pytest.raises(ValueError, match="unknown scheduler 'thread'"):
        GridSearchCV(SVC(), {"C": [1.0]}, scheduler="thread").fit(X, y)


def test_messages_are_those_of_scikit_learn(capsys):
    written = []
    for search, options in ((GridSearchCV, {"scheduler": "sync"}),
                            (model_selection.GridSearchCV, {})):
        estimator = make_pipeline(StandardScaler(), SVC())
        search(estimator, {"svc__C": [0.1, 1.0]}, cv=2, verbose=10, refit=False,
               **options).fit(X, y)
        lines = re.sub(r"[.]{2,}|time=.*", "", capsys.readouterr().out).splitlines()
        written.append(sorted(lines))  # calls that share steps come one after the other
    assert written[0] == written[1]
    assert "[CV 1/2; 2/2] END svc__C=1.0;, score=0.960 total " in written[0]


# -- fits that candidates share -------------------------------------------------------------------


def test_a_cache_of_the_user_is_used(tmp_path):
    tally = Tally()
    inner = Pipeline([("a", Shift(0, "a", tally)), ("b", Shift(1, "b", tally))])
    estimator = Pipeline(
        [("prep", inner), ("c", Shift(2, "c", tally)), ("svc", SVC())], memory=str(tmp_path))
    grid = {"c__k": [1, 2], "svc__C": [0.1, 1.0]}
    theirs = model_selection.GridSearchCV(estimator, grid, cv=2, refit=False).fit(X, y)
    fits = sorted(tally.items())
    for _ in range(2):
        ours = GridSearchCV(estimator, grid, cv=2, refit=False, scheduler="threads").fit(X, y)
        assert_same_results(ours, theirs)
    with_memory_in_grid = GridSearchCV(
        clone(estimator).set_params(memory=None), grid | {"memory": [str(tmp_path)]}, cv=2,
        refit=False, scheduler="sync").fit(X, y)
    assert with_memory_in_grid.best_score_ == theirs.best_score_
    assert sorted(tally.items())[len(fits):] == []


def test_a_refit_chooses_by_times_that_count_shared_steps(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr("lazyflow.tune.model_selection.perf_counter", clock)

    class Slow(Shift):
        def fit(self, X, y=None):
            clock.now += 7
            return super().fit(X, y)

    search = GridSearchCV(
        make_pipeline(Slow(), Nearest()), {"nearest__p": [1, 2]}, cv=2, scheduler="sync").fit(X, y)
    assert (search.cv_results_["mean_fit_time"] >= 7).all()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_steps_that_candidates_share_are_fitted_once_for_each_fold(scheduler):
    tally = Tally()
    shifts = [(name, Shift(name=name, tally=tally)) for name in "abc"]
    estimator = Pipeline([("prep", Pipeline(shifts)), ("d", Shift(0, "d", tally)), ("svc", SVC())])
    grid = {"prep__b__k": [1, 2], "d__k": [3, 4, 5], "svc__C": [0.1, 1.0]}
    GridSearchCV(estimator, grid, cv=3, refit=False, scheduler=scheduler, num_workers=2).fit(X, y)
    fits = tally.items()
    assert {name: fits.count(name) / 3 for name in "abcd"} == {"a": 1, "b": 2, "c": 2, "d": 6}


@st.composite
def searches(draw):
    """A pipeline of pipelines, and candidates for it: at each place a number of a step."""
    shape = draw(st.recursive(
        st.none(), lambda part: st.lists(part, min_size=1, max_size=3), max_leaves=5))
    names = []

    def built(part, prefix):
        steps = []
        for at, each in enumerate(part or [None]):
            name = f"{prefix}s{at}"
            if each is None:
                names.append(f"{name}__k")
                steps.append((f"s{at}", ("shift", name)))
            else:
                steps.append((f"s{at}", built(each, f"{name}__")))
        return steps

    steps = built(shape, "")
    values = draw(st.lists(
        st.fixed_dictionaries({name: st.integers(0, 1) for name in names}), min_size=1, max_size=4))
    return steps, names, values


@settings(max_examples=10, deadline=None)
@given(searches())
def test_a_step_is_fitted_once_for_each_way_to_it(search):
    steps, names, candidates = search
    tally = Tally()

    def made(steps):
        return Pipeline([
            (name, made(step) if isinstance(step, list) else Shift(0, f"{step[1]}__k", tally))
            for name, step in steps
        ])

    estimator = Pipeline([("all", made(steps)), ("last", Nearest())])
    candidates = [{f"all__{name}": [value] for name, value in each.items()} for each in candidates]
    found = GridSearchCV(estimator, candidates, cv=2, refit=False, scheduler="sync")
    found.fit(X[::5], y[::5])
    ways = [tuple(each[f"all__{name}"][0] for name in names) for each in candidates]
    fits = tally.items()
    assert {name: fits.count(name) for name in names} == {
        name: 2 * len({way[:at + 1] for way in ways}) for at, name in enumerate(names)
    }
    theirs = model_selection.GridSearchCV(estimator, candidates, cv=2, refit=False)
    assert_same_results(found, theirs.fit(X[::5], y[::5]))
