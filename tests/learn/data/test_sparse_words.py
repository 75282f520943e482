"""Sparse data where none can be: words say what it is, and what to type."""

import numpy as np
import pytest
import scipy.sparse as sp

import lazyflow.array as la
from lazyflow import delayed
from lazyflow.learn import ElasticNet, LinearRegression, LogisticRegression, Ridge

DENSE = np.eye(4).repeat(3, 0)
LABELS = np.arange(12) % 2
KINDS = [sp.csr_array, sp.csc_matrix, sp.coo_array]
MODELS = [LogisticRegression(), Ridge(), LinearRegression(), ElasticNet()]


def chunked(kind, chunks):
    return la.from_array(DENSE, chunks=chunks).map_blocks(kind, dtype=float)


ROWS = {
    "dense": lambda: DENSE, "sparse": lambda: sp.csr_array(DENSE),
    "chunked": lambda: la.from_array(DENSE, chunks=(6, 4)),
    "listed": lambda: [delayed(DENSE[:6]), delayed(DENSE[6:])],
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
class TestTargets:
    def test_sparse_ones_in_memory_are_refused(self, kind, rows, model):
        with pytest.raises(TypeError, match=r"Sparse data was passed for y.*Use y\.toarray\(\)"):
            model.fit(ROWS[rows](), kind(LABELS[:, None]))

    def test_sparse_weights_are_refused(self, kind, rows, model):
        weights = kind(1.0 + LABELS[:, None])
        with pytest.raises(TypeError, match=r"Sparse data was passed for sample_weight.*toarray"):
            model.fit(ROWS[rows](), LABELS, sample_weight=weights)


@pytest.mark.filterwarnings("ignore:A column-vector y")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_sparse_chunks_of_targets_are_refused_by_their_place(model):
    y = la.from_array(LABELS[:, None], chunks=(6, 1)).map_blocks(sp.csr_array, dtype=int)
    listed = [delayed(sp.csr_array)(LABELS[:6, None])] * 2
    for rows, targets in (("chunked", y), ("listed", listed)):
        with pytest.raises(TypeError, match=r"Sparse data was passed for y.*: y of chunk \d"):
            model.fit(ROWS[rows](), targets)


@pytest.mark.parametrize("kind", KINDS)
class TestChunksOfColumns:
    def test_are_joined_to_rows(self, kind):
        for model in MODELS:
            expected = model.fit(chunked(kind, (6, 4)), LABELS).coef_
            np.testing.assert_array_equal(model.fit(chunked(kind, (6, 2)), LABELS).coef_, expected)
        model = Ridge().fit(DENSE, LABELS)
        found = model.predict(chunked(kind, (6, 2))).compute()
        np.testing.assert_allclose(found, model.predict(DENSE))

    def test_of_a_function_with_a_dtype_alone_say_what_to_type(self, kind):
        def made(chunks):
            x = la.ones(chunks[0], chunks=chunks[1])
            return x.map_blocks(lambda block: kind(block), dtype=float)

        x = made(((12, 4), (6, 2)))
        big = made(((200_000, 4), (100_000, 2)))
        for each in (x + 1, x.sum(), x[np.array([7, 1, 3])], big):
            with pytest.raises(TypeError, match=r"a chunk is sparse \(\w+\).*meta=.*toarray\(\)"):
                each.compute()

    def test_chunks_of_full_rows_are_fitted(self, kind):
        expected = Ridge().fit(DENSE, LABELS).coef_
        np.testing.assert_allclose(Ridge().fit(chunked(kind, (6, 4)), LABELS).coef_, expected)
