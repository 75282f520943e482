"""Functions of NumPy and of scikit-learn that look at the values of arrays."""

import numpy as np
import pytest

import lazyflow.array as la
from lazyflow.array.functions import computed
from lazyflow.errors import LazyflowWarning


@pytest.mark.parametrize("call", [
    lambda x: np.roots(x[0]), lambda x: np.fft.fft(x),
    lambda x: np.poly(x[x[:, 0] > 1][:, :2]), lambda x: np.array2string(x),
])
def test_functions_of_numpy_that_look_at_values_get_them(call, monkeypatch):
    monkeypatch.setattr(computed, "_warned", set())
    a = np.arange(9.0).reshape(3, 3) ** 2 + 1
    x = la.from_array(a, chunks=2)
    with pytest.warns(LazyflowWarning, match=r"needs values.* pass x\.compute\(\)") as told:
        found = call(x)
    assert [w.filename for w in told] == [__file__]
    assert type(found) is type(call(a))
    np.testing.assert_array_equal(found, call(a))


def test_a_function_that_computes_says_so_once(monkeypatch):
    monkeypatch.setattr(computed, "_warned", set())
    x = la.ones((2, 2), chunks=1)
    with pytest.warns(LazyflowWarning) as told:
        np.poly(x)
        np.poly(x)
        np.roots(x[0])
    names = [str(w.message).split(" ", 1)[0] for w in told]
    assert names == ["numpy.poly", "numpy.roots"]
    assert str(told[0].message) == (
        "numpy.poly needs values, so chunked arrays of 32 bytes are computed for it now, and "
        "its result is in memory. To call it for each block: x.map_blocks(f). If that is what you "
        "want, pass x.compute() for x. This warning comes once for each function."
    )


def test_functions_of_numpy_that_write_files(tmp_path, monkeypatch):
    monkeypatch.setattr(computed, "_warned", set())
    a = np.arange(6.0).reshape(3, 2)
    x = la.from_array(a, chunks=2)
    with pytest.warns(LazyflowWarning, match=r"x\.to_zarr\(path\) or la\.store"):
        np.save(tmp_path / "x.npy", x)
        np.savetxt(tmp_path / "x.txt", x)
        np.savez(tmp_path / "x.npz", x=x, y=x[0])
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), a)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "x.txt"), a)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["y"], a[0])


def test_a_function_that_computes_does_not_write_into_chunked_arrays():
    out = la.zeros(3, dtype=bool)
    with pytest.raises(TypeError, match=r"can't write into a chunked one.*numpy\.is_busday\(x"):
        np.is_busday(la.arange(3).astype("M8[D]"), out=out)
    assert out.compute().tolist() == [False, False, False]


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
