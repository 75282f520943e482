"""A fit has the same bits on every scheduler, and gets over what happens to it there."""

import pickle
import signal
import threading
from functools import cache, partial
from itertools import count
from os import getpid, kill

import numpy as np
import pytest
from engine_schedulers import LOCAL, SCHEDULERS
from learn_tools import labelled, numbered, theta_of
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import lazyflow.array as la
from lazyflow import compute, config, delayed
from lazyflow.learn import (
    ElasticNet,
    LinearRegression,
    LogisticRegression,
    Ridge,
    StandardScaler,
    log_loss,
)
from lazyflow.learn.data import inputs
from lazyflow.learn.estimators import least_squares
from lazyflow.learn.kernels.losses import SQUARES
from lazyflow.schedulers.registry import scheduler_named

X, Y = labelled(n=90, K=3)
SOLVERS = ["lbfgs", "newton-cholesky", "saga", "svrg"]
CLASSIFIERS = [LogisticRegression(solver=name, tol=1e-3, random_state=3) for name in SOLVERS]
MODELS = [*CLASSIFIERS, Ridge(), LinearRegression(), ElasticNet(0.1)]


@pytest.fixture(autouse=True)
def chunks_stay(monkeypatch):
    """So few rows would be brought together into one chunk."""
    monkeypatch.setattr(inputs, "_SMALL", 0)


def rows():
    return la.from_array(X, chunks=(20, -1)), la.from_array(Y, chunks=20)


@cache
def exact(k):
    return theta_of(clone(MODELS[k]).set_params(scheduler="sync").fit(*rows()))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_same_bits_on_every_scheduler(scheduler):
    for k, model in enumerate(MODELS):
        wanted = exact(k)  # first, so that workers find the kernels on disk
        found = theta_of(clone(model).set_params(scheduler=scheduler).fit(*rows()))
        np.testing.assert_array_equal(found, wanted, str(model))


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_the_same_bits_for_any_number_of_workers(scheduler, workers):
    with config.set(scheduler=scheduler, num_workers=workers):
        for k, model in enumerate(MODELS[:4]):
            wanted = exact(k)
            np.testing.assert_array_equal(theta_of(clone(model).fit(*rows())), wanted, str(model))


def test_workers_fit_without_scikit_learn():
    """Its import takes a worker longer than what numba and lazyflow need together."""
    scheduler_named("processes").shutdown()  # other tests had it imported
    with config.set(scheduler="processes", num_workers=1):
        for model in [*MODELS, LogisticRegression(class_weight="balanced")]:
            clone(model).fit(*rows())
        assert not delayed(eval)("'sklearn' in __import__('sys').modules").compute()


@pytest.mark.parametrize("k", range(4), ids=SOLVERS)
def test_a_worker_that_is_killed_changes_nothing(k):
    killed = []

    def strike(progress):
        if progress.iteration == 1 and not killed:
            killed.extend(compute(delayed(getpid)(), scheduler="processes"))
            kill(killed[0], signal.SIGKILL)

    wanted = exact(k)
    model = clone(MODELS[k]).set_params(scheduler="processes", callback=strike)
    np.testing.assert_array_equal(theta_of(model.fit(*rows())), wanted)
    assert killed and killed[0] != getpid()


def squares_or_death(folder, fatal, scores, y):
    """The loss of squares, whose call of that number kills its process instead."""
    for number in count():
        try:
            (folder / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        break
    if number == fatal:
        (folder / "killed").write_text(str(getpid()))
        kill(getpid(), signal.SIGKILL)
    return SQUARES.residuals(scores, y)


@pytest.mark.parametrize(
    "model", [Ridge(solver="lbfgs"), ElasticNet(0.1, solver="saga", random_state=3)], ids=str
)
def test_a_worker_that_dies_within_a_pass_changes_nothing(model, tmp_path, monkeypatch):
    """In the second pass over five chunks: what it kept of rows and state is gone, too."""
    wanted = theta_of(clone(model).set_params(scheduler="sync").fit(*rows()))
    mortal = SQUARES._replace(residuals=partial(squares_or_death, tmp_path, 7))
    monkeypatch.setattr(least_squares, "SQUARES", mortal)
    found = clone(model).set_params(scheduler="processes").fit(*rows())
    np.testing.assert_array_equal(theta_of(found), wanted)
    assert int((tmp_path / "killed").read_text()) != getpid()


@pytest.mark.parametrize("scheduler", LOCAL)
@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_ends_a_fit_and_the_next_one_is_whole(scheduler, solver):
    """Also in the middle of compiled code, as mostly with "sync": rows enough for it."""
    many, labels = np.tile(X, (400, 8)), np.tile(Y > 0, 400)
    model = LogisticRegression(solver=solver, scheduler=scheduler, tol=0, max_iter=10**9)

    def begun(progress):
        if not progress.iteration:
            signal.setitimer(signal.ITIMER_REAL, 0.02)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            while True:  # a fit may end before
                model.set_params(callback=begun).fit(many, labels)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    again = clone(MODELS[SOLVERS.index(solver)]).set_params(scheduler=scheduler)
    np.testing.assert_array_equal(theta_of(again.fit(*rows())), exact(SOLVERS.index(solver)))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=SOLVERS)
def test_a_callback_that_raises_leaves_what_was_found(model):
    def fail(progress):
        if progress.iteration >= 2:
            raise RuntimeError("enough")

    model = clone(model).set_params(callback=fail, warm_start=True)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(*rows())
    seen = [0, 1, 3] if model.solver == "saga" else [0, 1, 2]
    assert not model.converged_ and model.history_["iteration"].tolist() == seen
    reached = model.history_["objective"][-1]
    model.set_params(callback=None).fit(*rows())
    assert model.converged_ and model.history_["objective"][0] == pytest.approx(reached)


def test_fits_in_several_threads_at_once():
    found = {}

    def fit(at):
        found[at] = theta_of(clone(MODELS[at % 4]).fit(*rows()))

    threads = [threading.Thread(target=fit, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at in range(8):
        np.testing.assert_array_equal(found[at], exact(at % 4))


def fitted(model, *given):
    return theta_of(model.fit(*given))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_fits_inside_of_tasks(scheduler):
    tasks = [delayed(fitted)(clone(model), *rows()) for model in CLASSIFIERS]
    in_memory = [delayed(fitted)(clone(model), X, Y) for model in CLASSIFIERS]
    found = compute(*tasks, *in_memory, scheduler=scheduler)
    for k in range(4):
        np.testing.assert_allclose(found[k], exact(k), atol=0.05)
        np.testing.assert_allclose(found[4 + k], exact(k), atol=0.05)


@pytest.mark.parametrize("model", [LogisticRegression(scheduler="sync"), Ridge(scheduler="sync")])
def test_scores_are_computed_where_the_model_is(model):
    ran = set()

    def load(part):
        ran.add(threading.get_ident())
        return part

    parts = [delayed(load)(part) for part in np.split(X, 3)]
    lazy = la.concatenate([la.from_delayed(part, (30, 4), float) for part in parts])
    model.fit(X, Y).score(lazy, Y)
    model.score(parts, Y)
    assert ran == {threading.get_ident()}


def test_tools_of_scikit_learn_take_chunks(monkeypatch):
    whole = la.Array.__array__

    def labels_only(self, *given, **options):
        assert self.ndim == 1, "rows were gathered"
        return whole(self, *given, **options)

    monkeypatch.setattr(la.Array, "__array__", labels_only)
    lazy, labels = rows()
    model = LogisticRegression(scheduler="sync")
    scores = cross_val_score(model, X, Y, cv=3)
    np.testing.assert_allclose(cross_val_score(model, lazy, labels, cv=3), scores)
    search = GridSearchCV(model, {"C": [1e-6, 1.0]}, cv=3).fit(lazy, labels)
    assert search.best_params_ == {"C": 1.0}
    pipeline = make_pipeline(StandardScaler(), model).fit(lazy, labels)
    again = pickle.loads(pickle.dumps(pipeline))
    assert again.predict(lazy).chunks == labels.chunks
    np.testing.assert_array_equal(again.predict(X), pipeline.predict(lazy).compute())
    assert again.score(lazy, labels) == pipeline.score(X, Y)
    assert log_loss(labels, again.predict_proba(lazy)) < 1


def test_a_pickle_of_a_fitted_model_has_no_rows():
    for model in MODELS:
        small = len(pickle.dumps(clone(model).fit(X, Y)))
        large = len(pickle.dumps(clone(model).fit(np.tile(X, (50, 1)), np.tile(Y, 50))))
        assert large < small + 1000  # but for a longer trace


def test_what_scikit_learn_has_is_there():
    from sklearn import linear_model

    for ours, options in [
        (LogisticRegression, {}), (Ridge, {}), (LinearRegression, {}), (ElasticNet, {}),
    ]:
        for y in (Y, Y > 0):
            theirs = getattr(linear_model, ours.__name__)(**options).fit(X, y)
            mine = ours().fit(X, y)
            for name in [name for name in vars(theirs) if name.endswith("_") and name != "solver_"]:
                assert np.shape(getattr(mine, name)) == np.shape(getattr(theirs, name)), name
    _, several = numbered(n=90, t=2)
    assert Ridge(fit_intercept=False).fit(X, several).intercept_ == 0.0
