"""Warnings of arrays: NumPy's words, at the user's line, once."""

import sys
import warnings

import numpy as np
import pytest

import lazyflow
import lazyflow.array as la

WARNING = {
    "mean where": lambda m, x: m.mean(x, axis=0, where=x < 0),
    "nanmean": lambda m, x: m.nanmean(x, axis=0),
    "nanmean of infinities": lambda m, x: m.nanmean(x * np.inf, axis=1),
    "var": lambda m, x: m.var(x, axis=0, ddof=9),
    "nanvar": lambda m, x: m.nanvar(x, axis=0, ddof=9),
    "nanmax": lambda m, x: m.nanmax(x, axis=0),
    "nanmin of complex": lambda m, x: m.nanmin(x.astype(complex), axis=0),
}


@pytest.mark.parametrize("name", WARNING)
def test_warnings_as_numpys(name, noticed):
    array = np.array([[1.0, np.nan, 2.0], [3.0, np.nan, 5.0]])
    told = []
    for m, x in ((np, array), (la, la.from_array(array, chunks=(1, 2)))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = WARNING[name](m, x)
            if m is la:
                found = found.compute()
        # NumPy 2.3 ends the sentence of `mean` with a full stop
        told.append({(w.category, str(w.message).removesuffix(".")) for w in caught})
    assert told[0] == told[1]


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@pytest.mark.parametrize("kernels", ["numpy", "native"])
def test_each_line_warns_once_of_each_thing_and_is_named(scheduler, kernels):
    x = la.from_array(np.zeros(400_000), chunks=100_000)
    with warnings.catch_warnings(record=True) as caught, lazyflow.config.set(kernels=kernels):
        warnings.simplefilter("always")
        for _ in range(2):
            line = sys._getframe().f_lineno + 1
            (1 / x + x * np.inf).compute(scheduler=scheduler)
    told = [(str(w.message), w.filename, w.lineno) for w in caught]
    words = ["divide by zero encountered in divide", "invalid value encountered in multiply"]
    assert sorted(told) == sorted([(each, __file__, line) for each in words] * 2)


def test_lines_that_warned_are_quiet_by_pythons_own_filter(noticed):
    def at(x):
        return (1 / x).compute()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            at(la.zeros(3))
        (1 / la.zeros(3)).compute()
    assert len(caught) == 2
