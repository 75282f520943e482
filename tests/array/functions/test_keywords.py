"""Keywords that dask's users type: they do what they mean, or say once that they do nothing."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyflow
import lazyflow.array as la
from lazyflow.array.functions import arguments
from lazyflow.errors import LazyflowWarning


class Store:
    """What is read by slices, and counts how often."""

    def __init__(self, a):
        self.a, self.shape, self.dtype, self.read = a, a.shape, a.dtype, 0

    def __getitem__(self, key):
        self.read += 1
        return self.a[key]


@pytest.fixture
def nothing_told(monkeypatch):
    monkeypatch.setattr(arguments, "_told", set())


@given(st.sampled_from([
    "sum", "prod", "min", "max", "any", "all", "mean", "std", "var", "argmin", "argmax", "nansum",
    "nanmax", "nanmean", "nanargmin", "count_nonzero", "ptp", "average",
]), st.sampled_from([2, 3, {0: 2}, {0: 2, 1: 3}, False, None]), st.sampled_from([None, 0, 1]))
def test_reductions_have_the_same_result_whatever_is_merged_at_a_time(name, split_every, axis):
    a = np.random.default_rng(3).integers(1, 4, (9, 10)).astype(float)
    x = la.from_array(a, chunks=(1, 3))
    found = getattr(la, name)(x, axis=axis, split_every=split_every).compute()
    np.testing.assert_allclose(found, getattr(np, name)(a, axis=axis), rtol=1e-13)


@pytest.mark.parametrize("reduce", [
    la.sum, la.argmax, lambda x, **given: la.bincount(x.astype(int), minlength=30, **given),
    lambda x, **given: la.einsum("i,i", x, x, **given), lambda x, **given: x.mean(**given),
])
def test_so_many_parts_are_merged_by_one_task(reduce):
    x = la.from_array(Store(np.arange(30.0)), chunks=1).map_blocks(np.negative, dtype=float)
    x = -x
    with lazyflow.profile() as whole:
        expected = reduce(x).compute()
    with lazyflow.profile() as parts:
        assert reduce(x, split_every=2).compute() == pytest.approx(expected)
    assert len(parts.tasks) > len(whole.tasks) + 10


def test_a_number_of_parts_that_is_none():
    with pytest.raises(ValueError, match="split_every must be 2 or more; got 1"):
        la.ones(3).sum(split_every=1)


def test_from_array_takes_dasks_keywords(nothing_told):
    store = Store(np.arange(6.0))
    seen = []

    def getitem(x, region):
        seen.append(region)
        return x[region]

    x = la.from_array(
        store, chunks=3, name="mine", getitem=getitem, fancy=False, meta=np.empty(0)
    )
    assert "mine" in repr(x)
    assert x.sum().compute() == 15
    assert {s.start for (s,) in seen} == {0, 3}
    with pytest.warns(LazyflowWarning, match=r"inline_array=True changes nothing here: .*once"):
        la.from_array(store, inline_array=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        la.from_array(store, inline_array=True)


def test_any_lock_is_held_that_can_be_acquired():
    class Lock:
        held = count = 0

        def acquire(self):
            self.held += 1
            self.count += 1

        def release(self):
            self.held -= 1

    lock = Lock()
    la.from_array(Store(np.ones(4)), chunks=1, lock=lock).sum().compute(scheduler="sync")
    assert lock.count and not lock.held


def test_like_makes_chunks_of_numpys_arrays(nothing_told):
    for like in (np.ones(2), la.ones(2)):
        for make in (la.asarray, la.array, la.arange, la.ones, la.tri):
            assert isinstance(make(2, like=like), la.Array)
    with pytest.raises(TypeError, match="like= a Store, but chunks are made as NumPy's"):
        la.zeros(3, like=Store(np.ones(2)))
    with pytest.warns(LazyflowWarning, match="name= changes nothing"):
        la.ones(3, name="ones")
    assert la.asarray([1, 2, 3], chunks=2).chunks == ((2, 1),)


def test_unknown_lengths_are_refused_where_it_is_asked_for():
    x = la.arange(6, chunks=2)
    unknown = x[x > 2]
    for join in (la.concatenate, la.stack):
        with pytest.raises(ValueError, match="the array at index 1 has lengths that are not known"):
            join([x[:3], unknown], allow_unknown_chunksizes=False)
    assert la.stack([x[:3], unknown], allow_unknown_chunksizes=True).shape == (2, 3)


@pytest.mark.parametrize("axis", [3, "lat", 1.5])
def test_rechunk_of_an_axis_that_is_not_there(axis):
    with pytest.raises(ValueError, match=f"chunks for axis {axis!r}, but the array has 2 axes"):
        la.ones((4, 6)).rechunk({axis: 2})


def test_rechunk_balances(nothing_told):
    x = la.arange(220, chunks=50)
    assert x.rechunk(100, balance=True).chunks == ((110, 110),)
    assert x.rechunk("auto", block_size_limit=800).chunks[0][0] == 100
    with pytest.warns(UserWarning, match="Try increasing the chunk size"):
        assert la.arange(100).rechunk(9, balance=True).chunks == ((9,) * 11 + (1,),)
    with pytest.raises(NotImplementedError, match="'tasks' and 'p2p'; got 'x'"):
        x.rechunk(10, method="x")
    with pytest.warns(LazyflowWarning, match="there is one way to rechunk"):
        assert x.rechunk(110, method="p2p").numblocks == (2,)


def test_names_of_methods_of_quantiles(nothing_told):
    a = np.arange(10.0)
    x = la.from_array(a, chunks=3)
    assert la.percentile(x, 33, interpolation="lower").compute() == 2
    assert la.percentile(x, 33, internal_method="default").compute() == np.percentile(a, 33)
    with pytest.warns(LazyflowWarning, match="internal_method= changes nothing"):
        la.percentile(x, 33, internal_method="tdigest")
    with pytest.raises(TypeError, match="its old name"):
        la.percentile(x, 33, method="lower", interpolation="lower")
    with pytest.raises(ValueError, match="internal_method must be"):
        la.percentile(x, 33, internal_method="x")


def test_bytes_in_fortrans_order():
    a = np.arange(24, dtype="i4").reshape(4, 6)
    found = la.from_array(a, chunks=2).view("i8", order="F").compute()
    np.testing.assert_array_equal(found, a.T.copy().view("i8").T)


@pytest.mark.parametrize("given", [la.ones(3), [la.ones(3), la.ones(3)], [1, 2]])
@pytest.mark.parametrize("make", [la.asarray, la.array])
def test_a_wrong_keyword_is_refused_whatever_becomes_an_array(make, given):
    with pytest.raises(TypeError, match=r"^asarray\(\) got an unexpected .* 'chunkss'"):
        make(given, chunkss=2)
    assert make(given, chunks=1).ndim
