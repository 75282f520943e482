"""Names of columns where frames come lazily, part by part."""

import itertools

import numpy as np
import pytest

from lazyflow import compute, delayed
from lazyflow.learn import ElasticNet, Lasso, LinearRegression, LogisticRegression, Ridge

pd = pytest.importorskip("pandas")

MODELS = [LogisticRegression, LinearRegression, Ridge, Lasso, ElasticNet]
METHODS = ["predict", "predict_proba", "predict_log_proba", "decision_function"]


@pytest.fixture
def frame():
    x = np.random.default_rng(0).normal(size=(30, 4))
    return pd.DataFrame(x, columns=list("abcd"))


def parts(*frames):
    return [delayed(each) for each in frames]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lazily", [True, False])
def test_frames_in_another_order_are_refused_wherever_they_are_read(model, lazily, frame):
    y = (frame["a"] > frame["d"]).to_numpy().astype(int)
    fitted = model().fit(parts(frame[:10], frame[10:]) if lazily else frame, y)
    assert fitted.feature_names_in_.tolist() == list("abcd")
    other = frame[list("dcba")]
    right = np.concatenate(compute(*fitted.predict(parts(frame[:7], frame[7:]))))
    np.testing.assert_array_equal(right, fitted.predict(frame))
    for name in METHODS:
        if hasattr(fitted, name):
            with pytest.raises(ValueError, match="feature names should match"):
                compute(*getattr(fitted, name)(parts(frame[:7], other[7:])))
    with pytest.raises(ValueError, match=r"\['d', 'c', 'b', 'a'\].*fitted on \['a', 'b'"):
        fitted.score(parts(other), y)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_fit_compares_each_part(model, wrong, frame):
    y = (frame["a"] > frame["d"]).to_numpy().astype(int)
    frames = [frame[:10], frame[10:20], frame[20:]]
    frames[wrong] = frames[wrong][list("bacd")]
    with pytest.raises(ValueError, match=r"of X has the columns .* in one order"):
        model().fit(parts(*frames), y)


def test_parts_without_names_go_with_any_and_leave_none_behind(frame):
    y = frame["a"].to_numpy()
    for first, second in itertools.permutations([frame[:10], frame[10:].to_numpy()]):
        rows = np.concatenate([np.asarray(first), np.asarray(second)])
        model = Ridge().fit(parts(first, second), rows[:, 0])
        assert model.feature_names_in_.tolist() == list("abcd")
    model.fit(parts(frame.to_numpy()), y)
    assert not hasattr(model, "feature_names_in_")
    numbered = frame.set_axis(range(4), axis=1)
    assert not hasattr(model.fit(parts(numbered), y), "feature_names_in_")
    with pytest.raises(TypeError, match="all input features have string names"):
        model.fit(parts(frame.set_axis(["a", 1, "c", "d"], axis=1)), y)
