"""Dates and spans of time in arrays."""

import numpy as np
import pytest
from array_checks import check_call

DATES = np.array(["2020-01-01", "2021-03-05", "NaT", "2019-12-31", "2020-06-06"], "M8[D]")
SPANS = np.array([5, -3, "NaT", 7, 100], "m8[s]")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("a", [DATES, SPANS, SPANS[:4].reshape(2, 2)], ids=["M8", "m8", "2-d"])
@pytest.mark.parametrize("call", [
    lambda m, x: m.gradient(x), lambda m, x: m.gradient(x, 2, axis=0),
    lambda m, x: m.gradient(x, np.timedelta64(2, "s")), lambda m, x: m.trapezoid(x),
    lambda m, x: m.trapezoid(x, dx=np.timedelta64(2, "s")),
    lambda m, x: m.max(x[:0, ...].T, axis=-1), lambda m, x: m.max(x.T[..., :0].T, axis=0),
    *[
        lambda m, x, name=name, options=options: getattr(m, name)(x, **options)
        for name in ["sum", "mean", "nansum", "nanmean", "prod", "nanprod", "std", "var", "nanvar"]
        for options in [{}, {"axis": 0}, {"dtype": "f8"}, {"dtype": "m8"}, {"dtype": "m8[ms]"}]
    ],
    *[
        lambda m, x, name=name: getattr(m, name)(x[:0])
        for name in ["sum", "mean", "nansum", "nanmean", "prod", "var"]
    ],
])
def test_functions_of_dates_and_spans(call, a):
    check_call(call, a)


@pytest.mark.parametrize("call", [
    lambda m, x: m.gradient(np.array([1.0, 3, 4, 8, 9]), x), lambda m, x: m.trapezoid(x, x),
    lambda m, x: m.gradient(x, x),
])
def test_slopes_over_spans(call):
    check_call(call, np.array([0, 1, 3, 4, 9], "m8[s]"))
