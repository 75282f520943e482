"""Rows to train on: parts of what is in memory or lazy, loaded once, checked, kept."""

from collections import Counter
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_tools import SYNC, numbered, some_rows
from scipy.sparse import coo_array, csc_array, csr_array

import lazyflow.array as la
from lazyflow import compute, delayed, is_lazy
from lazyflow.errors import LazyflowWarning
from lazyflow.learn.data import inputs
from lazyflow.learn.data.inputs import RowChunk, is_chunked, loaded, parts_of, together
from lazyflow.learn.data.rows import ClassTargets, NumberTargets, Place, kept_rows, tree_sum

ONE = NumberTargets(1)


def kept(parts, targets=ONE, **options):
    return kept_rows([RowChunk(*part) for part in parts], targets, SYNC, **options)


def values(rows):
    return compute(*[tuple(chunk) for chunk in rows.chunks], **SYNC)


def parts_in_memory(*given):
    return compute(*[tuple(part) for part in parts_of(*given, SYNC)], **SYNC)


def whole(parts, at):
    return np.concatenate([part[at] for part in parts])


@settings(max_examples=30)
@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 3), st.integers(1, 11), st.booleans())
def test_parts_are_cut_as_the_chunks_of_rows(n, rows, columns, others, known):
    X, y = numbered(n, 3)
    weight = np.arange(1.0, n + 1)
    lazy = la.from_array(X, chunks=(rows, columns))
    if not known:
        lazy = lazy[la.from_array(np.ones(n, bool), chunks=rows)]
    cut = rows if not known else others
    for ys, ws in [(y, weight), (la.from_array(y, chunks=cut), la.from_array(weight, chunks=cut))]:
        parts = parts_in_memory(lazy, ys, ws)
        assert [len(part[1]) for part in parts] == [len(part[0]) for part in parts]
        for at, expected in enumerate((X, y, weight)):
            np.testing.assert_array_equal(whole(parts, at), expected)


def test_rows_in_memory_are_cut_into_views(monkeypatch):
    monkeypatch.setattr(inputs, "PART_BYTES", 100)
    X, y = numbered(10, 4)
    parts = parts_of(X, y, y)
    assert [len(part.X) for part in parts] == [3, 3, 3, 1]
    assert all(np.shares_memory(part.X, X) and np.shares_memory(part.weight, y) for part in parts)
    sparse = parts_of(csr_array(X), y)
    np.testing.assert_array_equal(np.vstack([part.X.toarray() for part in sparse]), X)


def test_only_lazy_rows_are_chunked():
    assert is_chunked(la.ones((2, 2))) and is_chunked((delayed(np.ones)(2),))
    others = [], np.ones((2, 2)), [[1.0]], [delayed(1), 2], csr_array([[1]])
    assert not any(map(is_chunked, others))


def counted(pairs):
    """Lazy (X, y) of one loader each, and how often each was called."""
    calls = Counter()

    def load(k):
        calls[k] += 1
        return pairs[k]

    return [delayed(load, nout=2)(k) for k in range(len(pairs))], calls


def test_chunks_are_loaded_once_also_where_lengths_must_be_known():
    X, y = numbered(10, 2)
    pairs, calls = counted([(X[:3], y[:3]), (X[3:], y[3:])])
    parts = parts_of([rows for rows, _ in pairs], y, run=SYNC)
    rows = kept_rows(parts, ONE, SYNC)
    assert rows.sizes == [10] and calls == {0: 1, 1: 1}
    pairs, calls = counted([(X[:3], y[:3]), (X[3:], y[3:])])
    parts = loaded(parts_of(*zip(*pairs, strict=True), run=SYNC), SYNC, keep=True)
    for _ in range(2):
        kept_rows(parts, ONE, SYNC)
    assert calls == {0: 1, 1: 1}


def test_kept_rows_are_not_made_again():
    X, y = numbered(10, 2)
    pairs, calls = counted([(X[:3], y[:3]), (X[3:], y[3:])])
    rows = kept([(*pair, None) for pair in pairs], join_small=False)
    for _ in range(2):
        values(rows)
    assert calls == {0: 1, 1: 1}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [np.asarray, csr_array, csc_array, coo_array])
@pytest.mark.parametrize("join", [False, True])
def test_what_is_known_of_rows(weighted, form, join):
    X, y = numbered(20, 3)
    X[X < 0] = 0
    weight = np.linspace(0, 2, 20) if weighted else None
    edges = [4, 4, 9]
    cut = [form(part) for part in np.split(X, edges)]
    weights = [None] * 4 if weight is None else np.split(weight, edges)
    rows = kept(zip(cut, np.split(y, edges), weights, strict=True), join_small=join)
    assert rows.sizes == ([20] if join else [4, 0, 5, 11])
    assert (rows.n, rows.n_features) == (20, 3)
    assert rows.total == pytest.approx(20 if weight is None else weight.sum())
    np.testing.assert_allclose(rows.mean, np.average(X, axis=0, weights=weight))
    if form is np.asarray:
        assert rows.present is None and rows.nbytes == X.nbytes
    else:
        np.testing.assert_array_equal(rows.present, (X != 0).sum(axis=0))
    found = values(rows)
    together = [x if form is np.asarray else x.toarray() for x, _, _ in found]
    np.testing.assert_array_equal(np.concatenate(together), X)
    np.testing.assert_array_equal(whole(found, 1)[:, 0], y)


@settings(max_examples=30)
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.lists(st.integers(0, 40), max_size=5),
)
def test_the_total_weight_has_the_same_bits_for_any_chunks(weights, places):
    weights = np.array([*weights, 0.1])
    X = np.ones((len(weights), 1))
    edges = sorted(min(place, len(weights)) for place in places)
    parts = zip(*[np.split(each, edges) for each in (X, X[:, 0], weights)], strict=True)
    assert kept(parts).total == kept([(X, X[:, 0], weights)]).total


@pytest.mark.parametrize(("given", "kept_as"), [
    ("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i4", "f8"), ("u1", "f8"), ("?", "f8"),
    (">f8", "f8"),
])
def test_rows_get_the_types_of_the_kernels(given, kept_as):
    X = np.asfortranarray(np.eye(4).astype(given))
    ((x, _, _),) = values(kept([(X, np.ones(4), None)]))
    assert x.dtype == kept_as and x.flags.c_contiguous
    np.testing.assert_array_equal(x, np.eye(4))
    if given in ("f4", "f8", "i4"):
        ((x, _, _),) = values(kept([(csr_array(X), np.ones(4), None)]))
        assert x.dtype == kept_as
        np.testing.assert_array_equal(x.toarray(), np.eye(4))


@pytest.mark.parametrize("given", ["O", "U3", "M8[s]", "c16"])
def test_other_types_are_refused(given):
    with pytest.raises(ValueError, match=r"chunk 0 of X (is complex128|has the dtype)"):
        kept([(np.zeros((4, 2), int).astype(given), np.ones(4), None)])


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_chunks_of_several_types_become_one(form, join):
    X, y = numbered(6, 2)
    parts = [(form(X.astype(t)), y, None) for t in ("f4", "f8", "i8")]
    assert {x.dtype for x, _, _ in values(kept(parts, join_small=join))} == {np.dtype(float)}


def test_a_feature_that_a_sparse_row_has_twice_is_their_sum():
    X = csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), (2, 2))
    ((x, _, _),) = values(kept([(X, np.ones(2), None)]))
    np.testing.assert_array_equal(x.toarray(), [[0, 3], [4, 0]])
    assert x.nnz == 2 and X.nnz == 3  # what was given stays as it is


X0, Y0 = np.ones((3, 2)), np.ones(3)


def spoiled(value, row=2, column=1):
    X = X0.copy()
    X[row, column] = value
    return X


@pytest.mark.parametrize(("part", "words"), [
    ((spoiled(np.nan), Y0, None), r"NaN: chunk 1, row 2 of it \(row 5 of all\), column 1"),
    ((csr_array(spoiled(-np.inf)), Y0, None), "Input X contains infinity: chunk 1, row 2 of it"),
    ((X0, np.array([1, np.inf, 0]), None), "Input y contains NaN or infinity: y of chunk 1, row 1"),
    ((X0, np.array(["a", "b", "c"]), None), "y of chunk 1 has the dtype <U1; needed are real"),
    ((X0, np.ones((3, 2)), None), "y of chunk 1 has 2 columns, needed is 1"),
    ((X0, Y0[:2], None), "chunk 1 has 3 rows of X and 2 of y"),
    ((X0[0], Y0, None), r"chunk 1 of X has the shape \(2,\); needed is \(rows, features\)"),
    ((X0[:, :1], Y0, None), "chunk 1 of X has 1 features, chunk 0 has 2"),
    ((X0, Y0, np.array([1, -1, 2])), "Negative values .* `sample_weight`: chunk 1, row 1 of it"),
    ((X0, Y0, np.array([1, np.nan, 2])), "Input sample_weight contains NaN: chunk 1, row 1"),
    ((X0, Y0, np.array([1, 2, np.inf])), "Input sample_weight contains infinity: chunk 1, row 2"),
    ((X0, Y0, np.ones((3, 1))), r"sample_weight of chunk 1 has the shape \(3, 1\); needed is"),
])
def test_errors_name_the_chunk_and_the_row(part, words):
    first = csr_array(X0) if isinstance(part[0], csr_array) else X0
    with pytest.raises(ValueError, match=words):
        kept([(first, Y0, None if part[2] is None else Y0), part])


def test_large_rows_whose_sum_overflows_are_finite():
    assert kept([(np.full((3, 2), 1e308), Y0, None)]).n == 3


@pytest.mark.parametrize("X", [np.ones((0, 2)), np.ones((3, 0))])
def test_no_rows_and_no_features_are_refused(X):
    with pytest.raises(ValueError, match=r"Found array with \d sample\(s\) and \d feature\(s\)"):
        kept([(X, np.ones(len(X)), None)])


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(ValueError, match="at least one non-zero number"):
        kept([(X0, Y0, 0 * Y0)])


def test_sparse_and_dense_chunks_do_not_mix():
    with pytest.raises(TypeError, match="chunks 0 and 1 of X are not both sparse, or both dense"):
        kept([(X0, Y0, None), (csr_array(X0), Y0, None)])


@pytest.mark.parametrize(("y", "weight", "words"), [
    (np.ones(5), None, "X has 6 rows, y has 5"),
    (la.ones(7), None, "X has 6 rows, y has 7"),
    (np.ones(6), np.ones(2), "X has 6 rows, sample_weight has 2"),
    (np.ones(6), 2.0, "sample_weight is one number"),
    ([delayed(np.ones)(3)] * 3, None, "y has 3 chunks, X has 2: cut both the same way"),
])
def test_lengths_that_differ_are_refused(y, weight, words):
    with pytest.raises(ValueError, match=words):
        parts_of(la.ones((6, 2), chunks=(3, -1)), y, weight, SYNC)


def test_one_lazy_value_is_no_rows():
    with pytest.raises(TypeError, match=r"X is one lazy value \(Delayed\).*\[X\]"):
        parts_of(delayed(X0), Y0)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        parts_of(la.ones(3), Y0)


def test_moving_much_to_bring_rows_together_warns(monkeypatch):
    monkeypatch.setattr(inputs, "_LARGE", 100)
    with pytest.warns(LazyflowWarning, match=r"chunked over its columns.*chunks=\(3, -1\)"):
        parts_of(la.ones((6, 4), chunks=(3, 2)), np.ones(6))


@settings(max_examples=30)
@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=99))
def test_tree_sum_adds_every_part_once(numbers):
    pair = delayed(lambda x: (x, 2.0 * x))
    (found,) = compute(tree_sum([pair(x) for x in numbers]), **SYNC)
    assert found == (sum(numbers), 2.0 * sum(numbers))


@pytest.mark.parametrize("classes", [["a", "b"], ["a", "b", "c"], [-1.5, 2.0, 7.0], [False, True]])
def test_labels_are_encoded_by_their_places(classes):
    classes = np.array(classes)
    _, random = some_rows()
    places = random.integers(0, len(classes), 20)
    targets = ClassTargets(classes)
    for y in classes[places], classes[places][:, None], classes[places].astype(object):
        found = targets.encoded(y, Place())
        assert found.shape == (20, 1) and found.dtype == float
        wanted = 2 * places - 1 if len(classes) == 2 else places
        np.testing.assert_array_equal(found[:, 0], wanted)
    assert targets.outputs == (1 if len(classes) == 2 else len(classes))


def test_small_neighbours_are_brought_together_in_order():
    sizes = [1, 3, 2, 300_000, 1, 1]
    numbers = count()
    parts = [(np.full((n, 1), next(numbers)), np.ones(n), None) for n in sizes]
    rows = kept(parts)
    assert rows.sizes == [6, 300_002]
    firsts = [np.unique(x).tolist() for x, _, _ in values(rows)]
    assert firsts == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("join", [True, False])
def test_no_weights_are_no_input_of_a_task(join):
    X, y = numbered(6, 2)
    unweighted = kept([(X[:3], y[:3], None), (X[3:], y[3:], None)], join_small=join)
    ones = np.ones(3)
    weighted = kept([(X[:3], y[:3], ones), (X[3:], y[3:], ones)], join_small=join)
    assert [is_lazy(chunk.weight) for chunk in unweighted.chunks] == [False] * (2 - join)
    assert [is_lazy(chunk.weight) for chunk in weighted.chunks] == [True] * (2 - join)


def test_views_of_one_array_are_joined_without_a_copy():
    rows = np.arange(24.0).reshape(12, 2)
    joined = together([rows[:5], rows[5:6], rows[6:]])
    assert np.shares_memory(joined, rows) and not joined.flags.writeable
    np.testing.assert_array_equal(joined, rows)


@pytest.mark.parametrize("parts", [
    lambda rows: [rows[6:], rows[:6]],
    lambda rows: [rows[:5], rows[6:]],
    lambda rows: [rows[::3][:1], rows[1:3]],  # of one row, with the strides of others
    lambda rows: [rows[:6].copy(), rows[6:]],
    lambda rows: [rows[:6], rows[6:].astype("f4")],
    lambda rows: [rows[:6, :1], rows[6:, :1]],
    lambda rows: np.split(np.frombuffer(bytearray(rows.tobytes())).reshape(12, 2), 3),
], ids=["other order", "gap", "strides", "copy", "dtype", "columns", "memory of no array"])
def test_what_is_joined_is_what_it_was(parts):
    given = parts(np.arange(24.0).reshape(12, 2))
    np.testing.assert_array_equal(together(given), np.concatenate(given))
