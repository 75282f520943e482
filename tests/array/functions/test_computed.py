"""Functions of NumPy and of scikit-learn that look at the values of arrays."""

import numpy as np
import pytest

import lazyflow.array as la


@pytest.mark.parametrize(("call", "words"), [
    (lambda x: np.poly(x), r"np\.poly takes no chunked arrays"),
    (lambda x: np.array2string(x), r"array2string of values: pass x\.compute\(\)"),
    (lambda x: np.roots(x[0]), r"pass x\.compute\(\) for x"),
    (lambda x: np.linspace(x[0, 0], 3), "np.linspace takes no"),
    (lambda x: np.save("x.npy", x), r"x\.to_zarr\(path\)"),
    (lambda x: np.savetxt("x.txt", x), r"pass x\.compute\(\) for x"),
])
def test_functions_of_numpy_without_one_here_raise_at_once(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = la.map_blocks(lambda: 1 / 0, chunks=(2, 2), dtype=float)  # which can't be computed
    with pytest.raises(TypeError, match=words):
        call(x)
    assert not list(tmp_path.iterdir())


def test_values_are_there_where_they_are_asked_for():
    x = la.from_array(np.arange(4.0), chunks=2)
    assert type(np.asarray(x)) is np.ndarray
    assert np.roots(x.compute()).shape == (2,)
    assert isinstance(np.zeros(3, like=x), la.Array)


@pytest.mark.parametrize("ask", [np.may_share_memory, np.shares_memory])
def test_arrays_share_memory_with_their_views_alone(ask):
    a = np.ones(3)
    x = la.from_array(a, chunks=2)
    assert ask(x, x)
    assert not ask(x, a)
    assert not ask(np.asarray(x), x)
    assert ask(x, x[1:]) and not ask(x[:1], x[1:])


@pytest.mark.parametrize("work", [
    lambda pre, x: pre.StandardScaler().fit_transform(x), lambda pre, x: pre.scale(x),
    lambda pre, x: pre.normalize(x), lambda pre, x: pre.MinMaxScaler().fit(x).transform(x),
])
def test_scikit_learn_takes_arrays(work):
    pre = pytest.importorskip("sklearn.preprocessing")
    a = np.random.default_rng(0).normal(size=(40, 3))
    np.testing.assert_array_equal(work(pre, la.from_array(a, chunks=(10, 2))), work(pre, a))


def test_estimators_of_scikit_learn_take_arrays():
    cluster = pytest.importorskip("sklearn.cluster")
    a = np.random.default_rng(0).normal(size=(40, 3))
    found = [
        cluster.KMeans(2, random_state=0, n_init=1).fit(x).cluster_centers_
        for x in (a, la.from_array(a, chunks=10))
    ]
    np.testing.assert_array_equal(*found)
