"""StandardScaler of chunked arrays: as scikit-learn's of the same rows in memory."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn import preprocessing, set_config
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import lazyflow.array as la
from lazyflow.learn.chunked.scaling import StandardScaler

ATTRIBUTES = ["mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_"]
VALUES = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))


@pytest.fixture(autouse=True)
def never_gathered(monkeypatch):
    def fail(*_, **__):
        pytest.fail("an array was gathered")

    monkeypatch.setattr(la.Array, "__array__", fail)


def assert_same(scaler, oracle, counted=True):
    for name in ATTRIBUTES:
        got, wanted = getattr(scaler, name), getattr(oracle, name)
        if name == "n_samples_seen_" and counted:  # documented as int; some versions have floats
            wanted = np.asarray(wanted).astype(int)[()]
        assert type(got) is type(wanted), name
        if wanted is not None:
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12, err_msg=name)
            assert np.asarray(got).dtype == np.asarray(wanted).dtype, name


def some_rows(n=23, features=4, seed=0):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(n, features)) * draw.uniform(1, 9, features) + np.arange(features)


@parametrize_with_checks([StandardScaler()])
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)


@settings(max_examples=25, deadline=None)
@given(
    arrays(float, st.tuples(st.integers(1, 9), st.integers(1, 3)), elements=VALUES),
    st.integers(1, 4), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans(),
)
def test_fit_is_that_of_the_rows_in_memory(x, rows, columns, with_mean, with_std, weighted):
    weights = np.arange(1.0, len(x) + 1) if weighted else None
    given = {"with_mean": with_mean, "with_std": with_std}
    chunked = la.from_array(x, chunks=(rows, columns))
    scaler = StandardScaler(**given).fit(chunked, sample_weight=weights)
    oracle = preprocessing.StandardScaler(**given).fit(x, sample_weight=weights)
    for name in ["mean_", "n_samples_seen_"]:
        got, wanted = getattr(scaler, name), getattr(oracle, name)
        assert (got is None) == (wanted is None)
        if wanted is not None:
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)
    if with_std:
        np.testing.assert_allclose(scaler.var_, oracle.var_, rtol=1e-7, atol=1e-9)
    back = scaler.inverse_transform(scaler.transform(chunked)).compute()
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32, bool])
def test_types_are_those_of_scikit_learn(dtype):
    x = (some_rows() * 3).astype(dtype)
    scaler = StandardScaler().fit(la.from_array(x, chunks=(5, 3)))
    oracle = preprocessing.StandardScaler().fit(x)
    if dtype is not np.float32:  # there scikit-learn's sums are coarser
        assert_same(scaler, oracle)
    got = scaler.transform(la.from_array(x, chunks=5))
    assert got.dtype == oracle.transform(x).dtype
    np.testing.assert_allclose(got.compute(), oracle.transform(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weights", [None, np.linspace(0, 2, 23), 1.5])
@pytest.mark.parametrize("with_std", [True, False])
def test_nan_are_left_out(weights, with_std):
    x = some_rows()
    x[::3, 0] = x[:7, 1] = x[:, 2] = np.nan
    chunked = la.from_array(x, chunks=(5, 3))
    with np.errstate(all="ignore"):
        oracle = preprocessing.StandardScaler(with_std=with_std).fit(x, sample_weight=weights)
    scaler = StandardScaler(with_std=with_std).fit(chunked, sample_weight=weights)
    assert_same(scaler, oracle, counted=weights is None)
    np.testing.assert_allclose(scaler.transform(chunked).compute(), oracle.transform(x), rtol=1e-9)


def test_counts_of_nan_alone():
    x = some_rows()
    x[:3, 1] = np.nan
    given = {"with_mean": False, "with_std": False}
    for weights in None, np.arange(23.0):
        assert_same(
            StandardScaler(**given).fit(la.from_array(x, chunks=4), sample_weight=weights),
            preprocessing.StandardScaler(**given).fit(x, sample_weight=weights),
            counted=weights is None,
        )


def test_variances_far_from_zero_are_right():
    x = some_rows() + 1e9
    var = StandardScaler().fit(la.from_array(x, chunks=3)).var_
    np.testing.assert_allclose(var, np.var(x.astype(np.longdouble), axis=0).astype(float), 1e-13)


def test_constant_columns_have_the_scale_1():
    x = np.full((9, 2), 0.1)
    x[:, 1] = 1e10 + 1 / 3
    scaler = StandardScaler().fit(la.from_array(x, chunks=2))
    assert scaler.scale_.tolist() == [1, 1] and scaler.var_.tolist() == [0, 0]
    assert scaler.transform(la.from_array(x, chunks=2)).compute().tolist() == [[0, 0]] * 9


def test_rows_can_be_added_in_parts_of_any_kind():
    x = some_rows()
    for options in {}, {"with_std": False}, {"with_mean": False, "with_std": False}:
        scaler = StandardScaler(**options)
        oracle = preprocessing.StandardScaler(**options)
        for part in x[:9], x[9:10], x[10:]:
            oracle.partial_fit(part)
        scaler.partial_fit(la.from_array(x[:9], chunks=4)).partial_fit(x[9:10])
        assert_same(scaler.partial_fit(la.from_array(x[10:], chunks=(6, 2))), oracle)
    assert_same(scaler.fit(la.from_array(x[:4], chunks=2)), oracle.fit(x[:4]))


def test_lengths_need_not_be_known():
    x, weights = some_rows(), np.linspace(1, 2, 23)
    chunked = la.from_array(x, chunks=(5, 3))
    few = chunked[:, 0] > 0
    rows = chunked[few]
    assert rows.shape[0] is None
    scaler = StandardScaler().fit(rows)
    assert rows.shape[0] is None, "counting the rows would compute them twice"
    assert_same(scaler, preprocessing.StandardScaler().fit(x[x[:, 0] > 0]))
    assert scaler.transform(rows).numblocks == rows.numblocks
    oracle = preprocessing.StandardScaler().fit(x[x[:, 0] > 0], None, weights[x[:, 0] > 0])
    both = la.from_array(weights, chunks=5)[few], weights[x[:, 0] > 0]
    for each in both:
        assert_same(StandardScaler().fit(chunked[few], sample_weight=each), oracle, counted=False)


def test_transform_is_lazy_and_keeps_chunks():
    loads = []

    def load(block):
        loads.append(block.shape)
        return block

    x = la.map_blocks(load, la.from_array(some_rows(), chunks=(5, 3)), dtype=float)
    scaler = StandardScaler().fit(x)
    assert sorted(loads) == sorted([(n, k) for n in (5, 5, 5, 5, 3) for k in (3, 1)])
    scaled = scaler.transform(x)
    assert scaled.chunks == scaler.inverse_transform(scaled).chunks == x.chunks
    assert len(loads) == 10


def test_whole_numbers_of_weights_are_repeated_rows():
    x, weights = some_rows(), np.arange(23) % 4
    scaler = StandardScaler().fit(la.from_array(x, chunks=5), sample_weight=weights.tolist())
    repeated = StandardScaler().fit(la.from_array(np.repeat(x, weights, axis=0), chunks=4))
    np.testing.assert_allclose(scaler.var_, repeated.var_)
    chunked = la.from_array(weights, chunks=7)
    again = StandardScaler().fit(la.from_array(x, chunks=5), sample_weight=chunked)
    assert_same(again, scaler, counted=False)


def test_it_goes_through_pipelines_clones_and_pickles():
    x = some_rows()
    pipeline = clone(make_pipeline(StandardScaler(), StandardScaler(with_std=False)))
    got = pipeline.fit_transform(la.from_array(x, chunks=5))
    np.testing.assert_allclose(got.compute(), preprocessing.scale(x), atol=1e-12)
    again = pickle.loads(pickle.dumps(pipeline[0]))
    assert_same(again, pipeline[0])
    assert again.get_feature_names_out().tolist() == ["x0", "x1", "x2", "x3"]


def test_what_is_in_memory_goes_to_scikit_learn():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(some_rows(), columns=list("abcd"))
    scaler = StandardScaler().set_output(transform="pandas").fit(frame)
    assert scaler.feature_names_in_.tolist() == list("abcd")
    pd.testing.assert_frame_equal(
        scaler.transform(frame),
        preprocessing.StandardScaler().set_output(transform="pandas").fit_transform(frame),
    )
    matrix = sparse.random_array((9, 3), density=0.5, format="csr", random_state=0)
    assert sparse.issparse(StandardScaler(with_mean=False).fit_transform(matrix))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        scaler.set_output(transform="default").transform(la.ones((2, 4)))


def test_frames_of_chunked_arrays_are_refused():
    pytest.importorskip("pandas")
    x = la.ones((4, 2), chunks=2)
    scaler = StandardScaler().fit(x)
    set_config(transform_output="pandas")
    try:
        with pytest.raises(ValueError, match=r"return 'pandas' frames.*set_output\("):
            scaler.transform(x)
    finally:
        set_config(transform_output="default")


@pytest.mark.parametrize("x", [
    np.ones((0, 3)), np.array([[1, np.inf]]), np.array([[1j]]), np.ones(3), np.array([["a"]]),
])
def test_errors_of_rows_are_those_of_scikit_learn(x):
    chunked = la.from_array(x)
    with pytest.raises(ValueError) as wanted:
        preprocessing.StandardScaler().fit(x)
    with pytest.raises(ValueError) as got:
        StandardScaler().fit(chunked)
    assert str(got.value).split(":")[0].split(".")[0] in str(wanted.value)


@pytest.mark.parametrize("weights", [np.ones(3), np.ones((4, 1)), np.array([1, 2, 3, np.nan])])
def test_errors_of_weights_are_those_of_scikit_learn(weights):
    x = some_rows(4)
    with pytest.raises(ValueError) as wanted:
        preprocessing.StandardScaler().fit(x, sample_weight=weights)
    for each in weights, la.from_array(weights):
        with pytest.raises(ValueError) as got:
            StandardScaler().fit(la.from_array(x, chunks=2), sample_weight=each)
        assert str(got.value).split("\n")[0] == str(wanted.value).split("\n")[0]


def test_other_features_and_unfitted_scalers_are_refused():
    x = la.ones((4, 2), chunks=2)
    with pytest.raises(NotFittedError):
        StandardScaler().transform(x)
    with pytest.raises(NotFittedError):
        StandardScaler().inverse_transform(x)
    scaler = StandardScaler().fit(x)
    words = "X has 3 features, but StandardScaler is expecting 2 features as input"
    for method in scaler.transform, scaler.partial_fit:
        with pytest.raises(ValueError, match=words):
            method(la.ones((4, 3), chunks=2))
    with pytest.raises(ValueError, match="The 'with_std' parameter of StandardScaler must be"):
        StandardScaler(with_std="yes").fit(x)


@pytest.mark.parametrize("weights", [0.0, np.zeros(10), la.zeros(10, chunks=3)])
@pytest.mark.parametrize("on", [True, False])
def test_no_weight_at_all_is_refused_as_by_scikit_learn(weights, on):
    scaler = StandardScaler(with_mean=on, with_std=on)
    with pytest.raises(ValueError, match="must contain at least one non-zero number"):
        scaler.fit(la.ones((10, 2), chunks=5), sample_weight=weights)
    assert not hasattr(scaler, "mean_")


def test_weights_of_nothing_but_nan_are_fitted_as_by_scikit_learn():
    x = np.full((4, 2), np.nan)
    scaler = StandardScaler().fit(la.from_array(x, chunks=2), sample_weight=np.ones(4))
    assert np.isnan(scaler.mean_).all()
