"""Statistical tests of chunked arrays against SciPy's."""

import numpy as np
import pytest
import scipy.stats

import lazyflow.array as la

A, B = np.random.default_rng(0).gamma(3.0, size=(2, 41, 3))
COUNTS = np.random.default_rng(1).integers(1, 20, (12, 3))


@pytest.mark.parametrize(("name", "arrays", "keywords"), [
    ("ttest_ind", (A, B), {}), ("ttest_ind", (A, B[:30]), {"equal_var": False}),
    ("ttest_ind", (A, B), {"axis": 1}), ("ttest_1samp", (A,), {"popmean": 3.1}),
    ("ttest_1samp", (A,), {"popmean": 3.1, "axis": None}), ("ttest_rel", (A, B), {}),
    ("ttest_rel", (A, B), {"axis": None}), ("chisquare", (COUNTS,), {"ddof": 1}),
    *[("power_divergence", (COUNTS,), {"lambda_": each, "axis": axis}) for each, axis in [
        ("log-likelihood", 0), ("mod-log-likelihood", 1), (1.5, None), ("neyman", -1), (None, 0)]],
    ("chisquare", (COUNTS, COUNTS[::-1].copy()), {}), ("f_oneway", (A, B, A[:20] + 1), {}),
    ("skew", (A,), {"axis": 1}), ("skew", (A,), {"bias": False}), ("skew", (A * 0 + 1,), {}),
    ("kurtosis", (A,), {"fisher": False}), ("kurtosis", (A,), {"bias": False, "axis": None}),
    ("skewtest", (A,), {}), ("kurtosistest", (A,), {}), ("normaltest", (A,), {"axis": None}),
])
@pytest.mark.filterwarnings("ignore:Precision loss")
def test_statistics_are_those_of_scipy(name, arrays, keywords):
    wanted = getattr(scipy.stats, name)(*arrays, **keywords)
    got = getattr(la.stats, name)(*[la.from_array(a, chunks=(7, 2)) for a in arrays], **keywords)
    if isinstance(got, tuple):
        found = got.compute()
        np.testing.assert_allclose(found.statistic, wanted.statistic, rtol=1e-10)
        np.testing.assert_allclose(found.pvalue, wanted.pvalue, rtol=1e-8)
    else:
        np.testing.assert_allclose(got.compute(), wanted, rtol=1e-10)


def test_moments_and_refusals():
    x = la.from_array(A, chunks=(7, 2))
    for k in 1, 2, 5:
        wanted = scipy.stats.moment(A, k)
        np.testing.assert_allclose(la.stats.moment(x, k).compute(), wanted, rtol=1e-10, atol=1e-12)
    with pytest.raises(NotImplementedError, match="nan_policy='omit'"):
        la.stats.skew(x, nan_policy="omit")
    with pytest.raises(ValueError, match="unequal length"):
        la.stats.ttest_rel(x, x[1:])
    with pytest.raises(ValueError, match="less than 8"):
        la.stats.skewtest(x[:5])
    with pytest.raises(ValueError, match="invalid string"):
        la.stats.power_divergence(x, lambda_="no")


@pytest.mark.parametrize("f_exp", [[5, 6], [1, 2], [1.5, 1.5], [1.0, 2 + 1e-6], [1.0, 2 + 1e-9]])
@pytest.mark.parametrize("name", ["chisquare", "power_divergence"])
def test_frequencies_have_equal_sums_as_of_scipy(name, f_exp):
    stats = pytest.importorskip("scipy.stats")
    try:
        right = getattr(stats, name)([1.0, 2], f_exp=f_exp)
    except ValueError:
        with pytest.raises(ValueError, match="sums"):
            getattr(la.stats, name)([1.0, 2], f_exp=f_exp).compute()
    else:
        found = getattr(la.stats, name)([1.0, 2], f_exp=f_exp).compute()
        np.testing.assert_allclose(found, right, rtol=1e-12)


def test_moments_are_of_whole_powers():
    with pytest.raises(ValueError, match="whole"):
        la.stats.moment(la.arange(4), 1.5)
