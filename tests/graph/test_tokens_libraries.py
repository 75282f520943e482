"""`tokenize` on NumPy, SciPy and pandas: content counts; layout, padding and caches do not."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from token_examples import FRAME, scale

from lazyflow.graph.tokens.tokenize import tokenize

# NumPy

arrays = hnp.arrays(
    st.one_of(hnp.scalar_dtypes(), hnp.unicode_string_dtypes(), hnp.array_dtypes(max_size=3)),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
)


@given(arrays)
def test_the_layout_in_memory_does_not_count(array):
    token = tokenize(array)
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    backwards = np.flip(np.flip(array).copy())
    for other in (array.copy("F"), array.T.copy().T, wide[..., 0], backwards):
        assert other.dtype == array.dtype
        assert tokenize(other.reshape(array.shape)) == token


@given(hnp.arrays(st.sampled_from(["i4", ">f8", "U3", "M8[s]", "?"]), (3, 4)), st.integers(0, 11))
def test_each_element_counts(array, at):
    changed = array.copy("F")
    changed.flat[at] = np.ones((), array.dtype) if not array.flat[at] else np.zeros((), array.dtype)
    same = tokenize(changed) == tokenize(array)
    assert same == (changed.copy().tobytes() == array.tobytes())


def test_large_strided_arrays_are_read_in_blocks():
    array = np.arange(400_000).reshape(400, 1000)
    strided = np.repeat(array, 2, axis=1)[:, ::2]
    assert tokenize(strided) == tokenize(array) == tokenize(np.asfortranarray(array))
    strided[399, 999] += 1
    assert tokenize(strided) != tokenize(array)


def test_a_memory_map_is_the_array_it_maps(tmp_path):
    array = np.arange(10.0)
    array.tofile(tmp_path / "data")
    assert tokenize(np.memmap(tmp_path / "data")) == tokenize(array.view("u1"))


def test_a_read_only_view_is_the_array():
    array = np.arange(10.0)
    view = array.view()
    view.flags.writeable = False
    assert tokenize(view) == tokenize(array)


@pytest.mark.parametrize(
    ("dtype", "padding"),
    [
        ("g", slice(10, 16)),
        ("G", slice(10, 16)),
        (">g", slice(0, 6)),
        ([("a", "i1"), ("b", "f8")], slice(1, 8)),
    ],
)
@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="long doubles have no padding here")
def test_bytes_that_hold_no_value_do_not_count(dtype, padding):
    dtype = np.dtype(dtype, align=True)

    def filled(byte):
        array = np.zeros(3, dtype)
        raw = array.view("u1").reshape(3, -1, 16)
        for name in dtype.names or [...]:
            array[name] = [1, 2, 3]
        raw[..., padding] = byte
        return array

    assert filled(0).tobytes() != filled(255).tobytes()
    assert tokenize(filled(0)) == tokenize(filled(255))
    assert tokenize(filled(0)[:2]) != tokenize(filled(0)[1:])


def test_values_of_an_object_array_count_by_type():
    made = [np.array(x, object) for x in ([1, 2], [1, True], [1.0, 2], [np.int64(1), 2], [[1], 2])]
    assert len({tokenize(array) for array in made}) == len(made)


def test_asking_a_masked_array_for_its_fill_value_changes_nothing():
    array = np.ma.masked_array([1.0, 2.0], [False, True])
    token = tokenize(array)
    assert array._fill_value is None
    array.fill_value  # stores it
    assert tokenize(array) == token
    array.mask[0] = True
    assert tokenize(array) != token


def test_a_generator_counts_by_its_state():
    rng = np.random.default_rng(0)
    before = tokenize(rng)
    rng.random()
    assert tokenize(rng) != before
    rng = np.random.default_rng(0)
    rng.spawn(1)
    assert tokenize(rng) != before


def test_a_vectorized_function_counts_without_what_it_cached():
    function = np.vectorize(scale, otypes=[float])
    token = tokenize(function)
    function([1, 2])
    assert tokenize(function) == token


# SciPy and pandas


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_what_a_sparse_array_noted_about_itself_does_not_count(kind):
    array = getattr(sp, f"{kind}_array")(np.eye(4))
    token = tokenize(array)
    getattr(array, "has_sorted_indices", None)
    getattr(array, "has_canonical_format", None)
    array.maxprint = 7
    array.sum(), array.T, array.tocsr()
    assert tokenize(array) == token
    assert tokenize(getattr(sp, f"{kind}_array")(2 * np.eye(4))) != token


@pytest.mark.parametrize("kind", [sp.dok_array, sp.lil_array])
def test_how_the_elements_were_inserted_does_not_count(kind):
    one, other = kind(np.diag([1.0, 2.0, 3.0])), kind((3, 3))
    for i in (2, 0, 1):
        other[i, i] = i + 1
    assert tokenize(one) == tokenize(other)
    other[0, 1] = 1
    assert tokenize(one) != tokenize(other)


def test_what_pandas_cached_does_not_count():
    frame, index = pd.DataFrame(FRAME).set_index("b"), pd.Index(list("abc"))
    array = pd.array([1, None], "Int64")
    tokens = tokenize(frame), tokenize(index), tokenize(array)
    frame.index.is_unique, frame.index.get_loc("x"), frame["a"], frame.columns.get_loc("a")
    index.get_indexer(["a"]), index.is_monotonic_increasing, array.dtype
    assert (tokenize(frame), tokenize(index), tokenize(array)) == tokens


def test_how_a_frame_is_cut_into_blocks_does_not_count():
    at_once = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"])
    one_by_one = pd.DataFrame(index=at_once.index)
    for name in at_once:
        one_by_one[name] = at_once[name].copy()
    one_by_one.columns = at_once.columns
    assert tokenize(at_once) == tokenize(one_by_one)
    one_by_one.loc[2, "b"] = 0
    assert tokenize(at_once) != tokenize(one_by_one)


def test_what_lies_under_the_mask_of_a_pandas_array_does_not_count():
    mask = np.array([False, True])
    one = pd.arrays.IntegerArray(np.array([1, 7]), mask)
    other = pd.arrays.IntegerArray(np.array([1, 8]), mask)
    assert tokenize(one) == tokenize(other)
    assert tokenize(one) != tokenize(pd.array([None, 1], "Int64"))
    assert tokenize(pd.array([0, 0], "Int64")) != tokenize(pd.array([0, None], "Int64"))
