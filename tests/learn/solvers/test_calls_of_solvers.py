"""Solvers read a chunk in a few compiled calls, however many rows it has.

Each call of Python or NumPy takes the GIL, for which the threads of a large machine queue. Calls
for every row, tile or leaf of a sum would be thousands here.
"""

import sys
import warnings

import numpy as np
import pytest

import lazyflow
import lazyflow.array as la
from lazyflow.learn import Lasso, LinearRegression, LogisticRegression, Ridge

CHUNKS, FEATURES = 3, 50


def problem(rows, classes):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows * CHUNKS, FEATURES))
    y = x @ rng.standard_normal(FEATURES) + rng.standard_normal(len(x))
    if classes:
        y = np.where(y > 0, 1, -1)
    return la.from_array(x, chunks=(rows, FEATURES)), la.from_array(y, chunks=rows)


def calls_into_c(work):
    """Count the calls of functions of C, NumPy's and Python's own alike, in this thread."""
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event == "c_call"

    work()  # what is compiled and imported once
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def logistic(solver):
    return lambda: LogisticRegression(solver=solver, max_iter=3, tol=0.0, random_state=0)


SOLVERS = {
    "lbfgs": (logistic("lbfgs"), True),
    "newton-cholesky": (logistic("newton-cholesky"), True),
    "saga": (logistic("saga"), True),
    "svrg": (logistic("svrg"), True),
    "least squares": (LinearRegression, False),
    "ridge": (Ridge, False),
    "coordinate descent": (lambda: Lasso(alpha=0.1, max_iter=3, tol=0.0), False),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_calls_hardly_grow_with_the_rows_of_a_chunk(name):
    make, classes = SOLVERS[name]
    with lazyflow.config.set(scheduler="sync"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that so few iterations do not converge
        given, more = [problem(rows, classes) for rows in (6_000, 24_000)]
        few = calls_into_c(lambda: make().fit(*given))
        many = calls_into_c(lambda: make().fit(*more))
    assert many - few <= 0.02 * CHUNKS * (24_000 - 6_000)
    assert few <= 20_000
