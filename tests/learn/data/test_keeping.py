"""Rows that do not fit in memory are read again in every pass, with the same result."""

import threading
import weakref
from collections import Counter

import numpy as np
import pytest

import lazyflow.array as la
from lazyflow import config, delayed

pytest.importorskip("sklearn")

from lazyflow.learn import LogisticRegression, Ridge

CHUNKS, ROWS, FEATURES = 8, 50, 4


class Source:
    """Chunks of rows that count how often each is read, and how many are there at once."""

    def __init__(self):
        random = np.random.default_rng(0)
        self.X = random.normal(size=(CHUNKS, ROWS, FEATURES))
        self.y = (self.X.sum(axis=2) + random.normal(size=(CHUNKS, ROWS)) > 0).astype(int)
        self.reads = Counter()
        self.there = self.most = 0
        self.lock = threading.Lock()

    def read(self, k):
        with self.lock:
            self.reads[k] += 1
            self.there += 1
            self.most = max(self.most, self.there)
        rows = self.X[k].copy()
        weakref.finalize(rows, self.dropped)
        return rows

    def dropped(self):
        with self.lock:
            self.there -= 1

    def lazy(self):
        return [delayed(self.read)(k) for k in range(CHUNKS)], list(map(delayed, self.y))


@pytest.mark.parametrize("model", [
    LogisticRegression(solver="lbfgs"), LogisticRegression(solver="saga", random_state=0),
    LogisticRegression(solver="newton-cholesky"), Ridge(), Ridge(solver="lbfgs"),
], ids=str)
def test_what_does_not_fit_is_read_in_every_pass(model):
    source = Source()
    whole = source.X.nbytes
    with config.set(scheduler="threads", num_workers=2, store_limit=whole // 4):
        model.fit(*source.lazy())
    found, reads = model.coef_, source.reads
    assert min(reads.values()) > 1
    assert source.most <= CHUNKS // 2  # one for each worker, and those that it still lets go
    source = Source()
    with config.set(scheduler="threads", store_limit=2 * whole):
        model.fit(*source.lazy())
    assert set(source.reads.values()) == {1}
    np.testing.assert_allclose(found, model.coef_, rtol=1e-2 if "saga" in str(model) else 1e-10)


def test_lengths_of_what_does_not_fit_are_found_without_keeping_it():
    source = Source()
    with config.set(scheduler="threads", store_limit=source.X.nbytes // 4):
        model = Ridge().fit(source.lazy()[0], source.y.ravel())
    assert model.coef_.shape == (FEATURES,)
    assert min(source.reads.values()) > 2


def test_empty_chunks_do_not_tell_what_fits():
    source = Source()
    chunks, labels = source.lazy()
    chunks.insert(0, delayed(np.zeros)((0, FEATURES)))
    labels.insert(0, delayed(np.zeros)(0, int))
    with config.set(scheduler="threads", store_limit=source.X.nbytes // 4):
        Ridge().fit(chunks, labels)
    assert min(source.reads.values()) > 1


def test_chunks_that_grow_are_seen_before_all_are_there():
    source = Source()
    source.X = [rows[:1] if k < 2 else rows for k, rows in enumerate(source.X)]
    source.y = [labels[: len(rows)] for labels, rows in zip(source.y, source.X, strict=True)]
    most = sum(rows.nbytes for rows in source.X)
    with config.set(scheduler="threads", num_workers=2, store_limit=most // 2):
        Ridge().fit(*source.lazy())
    assert source.reads[CHUNKS - 1] > 1 and source.most < CHUNKS


def test_what_is_known_to_fit_is_not_made_to_find_that_out():
    source = Source()
    whole = np.concatenate(source.X)
    rows = la.from_delayed(delayed(source.read)(0), (ROWS, FEATURES), float)
    for limit, reads in [(whole.nbytes, 1), (10, 2)]:
        source.reads.clear()
        with config.set(scheduler="sync", store_limit=limit):
            Ridge(solver="lbfgs", max_iter=1, tol=1e9).fit(rows, source.y[0])
        assert source.reads[0] >= reads and (reads > 1 or source.reads[0] == 1)
