"""Arguments that NumPy refuses, or takes as arrays: here alike."""

import numpy as np
import pytest
from array_checks import same_values

import lazyflow.array as la

A = np.array([[np.nan, 1, np.inf], [-np.inf, 2, np.nan]])

REFUSED = {
    "choose": lambda m, x: m.choose(m.asarray([0, 1]), [[1, 2], [3, 4]], mode="x"),
    "take": lambda m, x: m.take(x, [0], mode="x"),
    "sort": lambda m, x: m.sort(x, kind="x"),
    "searchsorted": lambda m, x: m.searchsorted(x[0], 2, side="x"),
    "pad": lambda m, x: m.pad(x, 1, mode="x"),
    "convolve": lambda m, x: m.convolve(x[0], x[0], mode="x"),
    "quantile": lambda m, x: m.quantile(x, 0.5, method="x"),
    "astype": lambda m, x: x.astype(int, casting="x"),
    "ravel": lambda m, x: x.ravel("x"),
    "fft": lambda m, x: m.fft.fft(x, norm="x"),
    "qr": lambda m, x: m.linalg.qr(x, mode="x"),
    **{f"keepdims {k!r} of {name}": lambda m, x, name=name, k=k: getattr(m, name)(x, keepdims=k)
       for name in ("sum", "max", "all", "mean", "var", "nansum", "ptp") for k in ("x", 1.0)},
    "out of dot": lambda m, x: m.dot(x, x.T, out=m.zeros((2, 2), dtype="f4")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(name):
    kinds = []
    for m, x in ((np, A), (la, la.from_array(A, chunks=2))):
        with pytest.raises(Exception) as raised:
            REFUSED[name](m, x)
        kinds.append(raised.type)
    assert kinds[0] is kinds[1]


@pytest.mark.parametrize("values", [
    {"nan": np.array(1.0)}, {"nan": np.ones(3)}, {"neginf": np.array(3)},
    {"nan": 7, "posinf": np.array([[1.0], [2]])}, {"nan": la.ones(3, chunks=2)},
], ids=str)  # fmt: skip
def test_values_instead_of_nan_may_be_arrays(values):
    known = {name: np.asarray(each) for name, each in values.items()}
    found = la.nan_to_num(la.from_array(A, chunks=1), **values).compute()
    same_values(found, np.nan_to_num(A, **known))
    with pytest.raises(ValueError, match="broadcast"):
        la.nan_to_num(la.from_array(A, chunks=1), nan=np.ones(6))


@pytest.mark.parametrize("rtol", [np.array(0.1), [0.1, 0.2, 0.3]], ids=str)
def test_tolerances_may_be_arrays(rtol):
    x = la.from_array(A, chunks=1)
    same_values(la.isclose(x, x + 0.1, rtol=rtol).compute(), np.isclose(A, A + 0.1, rtol=rtol))
