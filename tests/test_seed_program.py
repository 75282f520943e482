"""SAGA on chunks, as it was written for dask in 2017: only the import says lazyflow here.

A Numba kernel under `delayed(nout=3)`, a state handed from chunk to chunk, and one `persist` of
nested lists and tuples at the end of each epoch. The oracle goes through the same rows in the same
order in plain NumPy.
"""

from contextlib import contextmanager
from itertools import pairwise
from math import exp

import numpy as np
import pytest
from numba import njit, types

from lazyflow import config, delayed, persist
from lazyflow.api.evaluate import observers
from lazyflow.schedulers.core.base import Observer

try:  # scikit-learn's own step where it still has this private function, else the same by hand
    from sklearn.linear_model._sag import get_auto_step_size
except ImportError:

    def get_auto_step_size(max_squared_sum, alpha_scaled, loss, fit_intercept):
        return 1 / (0.25 * max_squared_sum)


SCHEDULERS = ["sync", "threads"]
SIZES = [40, 40, 25]  # rows of the chunks
N_FEATURES = 6


# -- the program ----------------------------------------------------------------------------


@njit
def logistic_derivative(p, y):
    """Derivative of log(1 + exp(-y p)) by p."""
    margin = y * p
    if margin > 0:
        e = exp(-margin)
        return -y * e / (1.0 + e)
    return -y / (1.0 + exp(margin))


# The last argument is the tests' and not the program's. np.random inside njit has a state per
# thread that np.random.seed outside does not reach, so a run can be repeated only by seeding in
# the kernel. Left out, the shuffle is the program's: a different one each time.
@delayed(nout=3)
@njit
def saga_chunk(
    A, b, n_samples, f_deriv, x, memory_gradient, gradient_average, step_size, seed=None
):
    x = x.copy()
    memory_gradient = memory_gradient.copy()
    gradient_average = gradient_average.copy()
    if seed is not None:
        np.random.seed(seed)
    rows = np.arange(A.shape[0])
    np.random.shuffle(rows)
    for i in rows:
        slope = f_deriv(np.dot(A[i], x), b[i])
        change = slope - memory_gradient[i]
        x -= step_size * (change * A[i] + gradient_average)
        gradient_average += change / n_samples * A[i]
        memory_gradient[i] = slope
    return x, memory_gradient, gradient_average


def row_norms(A):
    return (A**2).sum(axis=1)


def saga(data, n_samples, n_features, epochs, smallest=np.min, seed_of=None):
    """Train on `data`, pairs (A, b) of lazy arrays; return x, an ndarray."""
    data = persist(*data)
    longest = [delayed(max)(delayed(row_norms)(A)) for A, b in data]
    steps = [delayed(get_auto_step_size)(norm, 0, "log", False) for norm in longest]
    step_size = 0.3 * delayed(smallest)(steps)
    x = delayed(np.zeros)(n_features)
    gradient_average = delayed(np.zeros)(n_features)
    memory_gradients = [delayed(np.zeros)(A.shape[0]) for A, b in data]
    for epoch in range(epochs):
        for k, (A, b) in enumerate(data):
            seed = () if seed_of is None else (seed_of(epoch, k),)
            x, memory_gradients[k], gradient_average = saga_chunk(
                A, b, n_samples, logistic_derivative,
                x, memory_gradients[k], gradient_average, step_size, *seed,
            )
        x, memory_gradients, gradient_average, step_size, data = persist(
            x, memory_gradients, gradient_average, step_size, data
        )
    return x.compute()


# -- what the tests need beside it ----------------------------------------------------------


def arrays(sizes=SIZES, seed=0):
    """Return chunks (A, b): rows of two classes, -1.0 and 1.0, that no plane parts."""
    random = np.random.default_rng(seed)
    normal = random.normal(size=N_FEATURES)
    chunks = []
    for size in sizes:
        A = random.normal(size=(size, N_FEATURES))
        chunks.append((A, np.where(A @ normal + random.normal(size=size) > 0, 1.0, -1.0)))
    return chunks


def load(chunk):
    return chunk


def seed_of(epoch, k):
    return 100 * epoch + k


def train(chunks, epochs, load=load, **how):
    """Run the program on pairs of lazy arrays: a tuple and lists, as programs mix them."""
    n_samples = sum(len(b) for A, b in chunks)
    first, *others = [delayed(load, nout=2)(chunk) for chunk in chunks]
    data = [tuple(first), *[list(pair) for pair in others]]
    return saga(data, n_samples, N_FEATURES, epochs, **how)


def objective(x, chunks):
    return np.mean(np.concatenate([np.logaddexp(0.0, -b * (A @ x)) for A, b in chunks]))


@njit
def shuffled(n, seed):
    """The rows in the kernel's order: Numba's shuffle is not NumPy's."""
    np.random.seed(seed)
    rows = np.arange(n)
    np.random.shuffle(rows)
    return rows


def oracle(chunks, epochs):
    """The same updates with no tasks, no chunks of state, and a table of gradients, not slopes."""
    n_samples = sum(len(b) for A, b in chunks)
    step = 0.3 / (0.25 * max((A * A).sum(axis=1).max() for A, b in chunks))
    x = np.zeros(N_FEATURES)
    table = [np.zeros_like(A) for A, b in chunks]
    for epoch in range(epochs):
        for k, (A, b) in enumerate(chunks):
            for i in shuffled(len(b), seed_of(epoch, k)):
                gradient = -b[i] / (1.0 + np.exp(b[i] * (A[i] @ x))) * A[i]
                average = sum(seen.sum(axis=0) for seen in table) / n_samples
                x = x - step * (gradient - table[k][i] + average)
                table[k][i] = gradient
    return x


class Lengths(Observer):
    """How many tasks each run plans, leaves included."""

    def __init__(self):
        self.of_runs = []

    def run_started(self, run):
        self.of_runs.append(len(run.plan))


@contextmanager
def observed():
    lengths = Lengths()
    token = observers.set((*observers.get(), lengths))
    try:
        yield lengths.of_runs
    finally:
        observers.reset(token)


# -- tests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("smallest", [min, np.min])
def test_the_program_runs_unchanged(scheduler, smallest):
    chunks = arrays()
    with config.set(scheduler=scheduler):
        x = train(chunks, 5, smallest=smallest)
    assert type(x) is np.ndarray
    assert x.shape == (N_FEATURES,)
    assert objective(x, chunks) < 0.8 * objective(np.zeros(N_FEATURES), chunks)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_it_makes_the_updates_of_a_serial_loop(scheduler):
    chunks = arrays()
    with config.set(scheduler=scheduler):
        x = train(chunks, 4, seed_of=seed_of)
    np.testing.assert_allclose(x, oracle(chunks, 4), rtol=1e-10)


def test_schedulers_and_workers_give_the_same_bits():
    found = set()
    for how in [{"scheduler": "sync"}, {"scheduler": "threads"}, {"num_workers": 1}]:
        with config.set(**how):
            found.add(train(arrays(), 4, seed_of=seed_of).tobytes())
    assert len(found) == 1


def test_the_kernel_is_compiled_once_and_for_read_only_arrays():
    for scheduler in SCHEDULERS:
        with config.set(scheduler=scheduler):
            train(arrays(), 2)
    compiled = saga_chunk.__wrapped__.signatures
    (signature,) = [s for s in compiled if isinstance(s[-1], types.Omitted)]  # not the tests' own
    assert [t.mutable for t in signature if isinstance(t, types.Array)] == [False] * 5
    assert len(logistic_derivative.signatures) == 1


def test_what_was_persisted_is_not_computed_again_and_the_graph_does_not_grow():
    loaded = []

    def load(chunk):
        loaded.append(len(chunk[1]))
        return chunk

    with config.set(scheduler="sync"), observed() as lengths:
        train(arrays(), 6, load=load)
    assert sorted(loaded) == sorted(SIZES)
    _load, first, *epochs, result = lengths
    assert len(epochs) == 5
    assert len(set(epochs)) == 1
    assert epochs[0] < first  # which makes the zeros and the step as well
    assert result == 1


def test_the_objective_falls_on_one_chunk():
    chunks = arrays([80])
    fall = [objective(train(chunks, epochs, seed_of=seed_of), chunks) for epochs in range(5)]
    assert fall[0] == pytest.approx(np.log(2))
    assert all(after < before for before, after in pairwise(fall))
