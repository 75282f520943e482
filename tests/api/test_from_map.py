"""`from_map`: calls of one function for many items; and frames that lazy calls give estimators."""

import numpy as np
import pytest

from lazyflow import compute, delayed, from_map, persist


def test_calls_are_those_of_map_with_more_arguments():
    made = from_map(lambda *args, **kwargs: (args, kwargs), "ab", iter([1, 2]), args=[3], key=4)
    assert compute(made)[0] == [(("a", 1, 3), {"key": 4}), (("b", 2, 3), {"key": 4})]
    assert from_map(abs, []) == []


def test_items_may_be_lazy_and_options_of_a_delayed_function_apply():
    runs = []
    square = delayed(lambda x: runs.append(x) or x * x, pure=True, name="square")
    made = from_map(square, [delayed(abs)(-3), 4, 4])
    assert "square" in repr(made[0])
    assert compute(made)[0] == [9, 16, 16]
    assert sorted(runs) == [3, 4]  # equal calls of a pure function run once


def test_an_error_names_the_line_of_the_call():
    (bad,) = from_map(int, ["three"])
    with pytest.raises(ValueError, match="three") as caught:
        bad.compute()
    assert "test_from_map.py" in caught.value.__notes__[0]


@pytest.mark.parametrize(("iterables", "words"), [
    ((), "got none"), (([1], [1, 2]), "got 1, 2"),
])
def test_lengths_that_differ_are_refused(iterables, words):
    with pytest.raises(ValueError, match=words):
        from_map(pow, *iterables)


def test_a_value_is_no_function():
    with pytest.raises(TypeError, match="takes a function and items"):
        from_map([1, 2], [3])


# -- frames of lazy calls, in estimators -----------------------------------------------------


def rows(library, seed):
    """Return a frame with two columns of features and the labels of its rows."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.normal(size=200) for name in "ab"}
    columns["y"] = (columns["a"] + rng.normal(size=200) / 4 > 0).astype(int)
    if library == "pandas":
        return pytest.importorskip("pandas").DataFrame(columns)
    return pytest.importorskip("polars").DataFrame(columns)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_lazy_frames_are_fitted_as_the_frame_of_all(library, scheduler):
    pytest.importorskip("sklearn")
    from lazyflow.learn import LogisticRegression

    whole = [rows(library, seed) for seed in range(3)]  # a library that is missing skips here
    frames = persist(*from_map(rows, [library] * 3, range(3)))
    X, y = [frame[["a", "b"]] for frame in frames], [frame["y"] for frame in frames]
    lazy = LogisticRegression(gap_tol=1e-8, scheduler=scheduler).fit(X, y)
    eager = LogisticRegression(gap_tol=1e-8).fit(
        np.concatenate([f[["a", "b"]].to_numpy() for f in whole]),
        np.concatenate([f["y"].to_numpy() for f in whole]))
    np.testing.assert_allclose(lazy.coef_, eager.coef_, rtol=1e-5)
    assert list(lazy.feature_names_in_) == ["a", "b"]
    predicted = compute(lazy.predict(X))[0]
    np.testing.assert_array_equal(
        np.concatenate(predicted) if isinstance(predicted, list) else predicted,
        eager.predict(np.concatenate([f[["a", "b"]].to_numpy() for f in whole])))
