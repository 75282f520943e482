"""Statistical tests of chunked arrays: ``la.stats``, as ``dask.array.stats`` and ``scipy.stats``.

    >>> import lazyflow.array as la
    >>> x = la.arange(10.0, chunks=4)
    >>> found = la.stats.ttest_1samp(x, 4.0).compute()
    >>> found.statistic.round(6), found.pvalue.round(6)
    (np.float64(0.522233), np.float64(0.614117))

All are expressions of means, variances and SciPy's special functions, so blocks are read as by
`mean`. Formulas are those of ``scipy.stats``; values are within the bounds of `la.var`, as ratios
of moments are. Lengths that depend on values are computed first. NaN is propagated.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from lazyflow.api import evaluate
from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import ArrayLike, as_array
from lazyflow.array.functions.elementwise import where
from lazyflow.array.nodes.elementwise import function
from lazyflow.array.nodes.reductions import axis_of


class StatResult(NamedTuple):
    """A statistic and its p-value, of two sides if the distribution has two; both are lazy.

    >>> import lazyflow.array as la
    >>> found = la.stats.ttest_1samp(la.asarray([1.0, 2.0, 4.0]), 2).compute()
    >>> [round(float(each), 4) for each in found]
    [0.378, 0.7418]
    """

    statistic: Any
    pvalue: Any

    def compute(self, **options: Any) -> StatResult:
        """Return both as NumPy's arrays, computed together.

        >>> import lazyflow.array as la
        >>> la.stats.chisquare(la.asarray([4, 6, 2])).compute().statistic
        np.float64(2.0)
        """
        return StatResult(*evaluate.compute(*self, **options))


def _taken(a: Any, axis: int | None, nan_policy: str = "propagate") -> tuple[Array, int, int]:
    """Return an array, the number of the axis, and its length; None: of all elements."""
    if nan_policy != "propagate":
        raise NotImplementedError(
            f"nan_policy={nan_policy!r} is not supported, only 'propagate'. To leave NaN out of an "
            "axis: x[~la.isnan(x)]"
        )
    resolve_lengths(a)
    x = as_array(a)
    if axis is None:
        x, axis = x.ravel(), 0
    axis = axis_of(axis, x.ndim)
    return x, axis, x.shape[axis]


# -- Student's t ----------------------------------------------------------------------------------


def _student(t: Any, df: Any) -> StatResult:
    from scipy import special

    return StatResult(t, 2 * special.stdtr(df, -abs(t)))


def ttest_1samp(
    a: ArrayLike, popmean: Any, axis: int | None = 0, nan_policy: str = "propagate"
) -> StatResult:
    """Test whether the mean along an axis is `popmean`, as ``scipy.stats.ttest_1samp``.

    Raises
    ------
    NotImplementedError
        `nan_policy` is another than "propagate".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> found = la.stats.ttest_1samp(la.asarray([1.0, 2.0, 4.0]), 2).compute()
    >>> [round(float(each), 4) for each in found]
    [0.378, 0.7418]
    """
    x, axis, n = _taken(a, axis, nan_policy)
    return _student((x.mean(axis) - popmean) / np.sqrt(x.var(axis, ddof=1) / n), n - 1)


def ttest_rel(
    a: ArrayLike, b: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate"
) -> StatResult:
    """Test whether means of pairs are equal, as ``scipy.stats.ttest_rel``.

    Raises
    ------
    NotImplementedError
        `nan_policy` is another than "propagate".
    ValueError
        The samples have different lengths.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> found = la.stats.ttest_rel(la.asarray([1.0, 2, 4]), la.asarray([2.0, 2, 3])).compute()
    >>> [round(float(each), 4) for each in found]
    [0.0, 1.0]
    """
    x, at, n = _taken(a, axis, nan_policy)
    y, _, m = _taken(b, axis)
    if n != m:
        raise ValueError("unequal length arrays")
    return ttest_1samp(x - y, 0, at)


def ttest_ind(
    a: ArrayLike, b: ArrayLike, axis: int | None = 0, equal_var: bool = True
) -> StatResult:
    """Test whether means of two samples are equal, as ``scipy.stats.ttest_ind``.

    equal_var
        The samples have one variance; if not, the test is Welch's.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> found = la.stats.ttest_ind(la.asarray([1.0, 2, 4]), la.asarray([5.0, 6])).compute()
    >>> [round(float(each), 4) for each in found]
    [-2.6433, 0.0774]
    """
    x, at, n = _taken(a, axis)
    y, other, m = _taken(b, axis)
    v, w = x.var(at, ddof=1), y.var(other, ddof=1)
    df: Any = n + m - 2
    if equal_var:
        error = ((n - 1) * v + (m - 1) * w) / df * (1 / n + 1 / m)
    else:
        v, w = v / n, w / m
        error = v + w
        df = error ** 2 / (v ** 2 / (n - 1) + w ** 2 / (m - 1))
    return _student((x.mean(at) - y.mean(other)) / np.sqrt(error), df)


# -- frequencies and variances --------------------------------------------------------------------

_LAMBDAS = {
    "pearson": 1, "log-likelihood": 0, "freeman-tukey": -0.5, "mod-log-likelihood": -1,
    "neyman": -2, "cressie-read": 2 / 3,
}


def power_divergence(
    f_obs: ArrayLike, f_exp: ArrayLike | None = None, ddof: int = 0, axis: int | None = 0,
    lambda_: float | str | None = None,
) -> StatResult:
    """Test frequencies by a statistic of Cressie and Read, as ``scipy.stats.power_divergence``.

    The power ``lambda_`` may be a name, such as "log-likelihood"; without one it is "pearson".

    Raises
    ------
    ValueError
        `lambda_` is no name of a statistic; or, once computed, sums of frequencies differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> found = la.stats.power_divergence(la.asarray([4, 6, 2]), lambda_="neyman")
    >>> [round(float(each), 4) for each in found.compute()]
    [2.6667, 0.2636]
    """
    from scipy import special

    power: Any = 1 if lambda_ is None else lambda_
    if isinstance(power, str):
        if power not in _LAMBDAS:
            raise ValueError(f"invalid string for lambda_: {power!r}; one of {[*_LAMBDAS]}")
        power = _LAMBDAS[power]
    x, axis, n = _taken(f_obs, axis)
    e = x.mean(axis, keepdims=True) if f_exp is None else as_array(f_exp)
    if power == 1:
        terms = (x - e) ** 2 / e
    elif power == 0:
        terms = 2 * special.xlogy(x, x / e)
    elif power == -1:
        terms = 2 * special.xlogy(e, e / x)
    else:
        terms = x * ((x / e) ** power - 1) / (power * (power + 1) / 2)
    statistic = terms.sum(axis)
    if f_exp is not None:
        totals = [(y + 0 * terms).sum(axis) for y in (x, e)]
        nodes = tuple([each.expr for each in (statistic, *totals)])
        statistic = Array(function(_of_equal_sums, nodes, statistic.dtype))
    return StatResult(statistic, special.chdtrc(n - 1 - ddof, statistic))


def _of_equal_sums(statistic: Any, observed: Any, expected: Any) -> Any:
    with np.errstate(all="ignore"):
        apart = np.abs(observed - expected) / np.minimum(observed, expected)
    if np.any(apart > np.finfo(np.float64).eps ** 0.5):
        raise ValueError(
            "the sums of observed and expected frequencies differ: scale f_exp by "
            "f_obs.sum() / f_exp.sum()"
        )
    return statistic


def chisquare(
    f_obs: ArrayLike, f_exp: ArrayLike | None = None, ddof: int = 0, axis: int | None = 0
) -> StatResult:
    """Test frequencies by Pearson's chi-squared, as ``scipy.stats.chisquare``.

    Raises
    ------
    ValueError
        The sums of `f_obs` and `f_exp` differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> found = la.stats.chisquare(la.asarray([4, 6, 2])).compute()
    >>> [round(float(each), 4) for each in found]
    [2.0, 0.3679]
    """
    return power_divergence(f_obs, f_exp, ddof, axis)


def f_oneway(*args: ArrayLike) -> StatResult:
    """Test whether samples along the first axis have one mean, as ``scipy.stats.f_oneway``.

    Raises
    ------
    TypeError
        There are fewer than two samples.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> found = la.stats.f_oneway(la.asarray([1.0, 2, 4]), la.asarray([5.0, 6])).compute()
    >>> [round(float(each), 4) for each in found]
    [6.9871, 0.0774]
    """
    from scipy import special

    if len(args) < 2:
        raise TypeError(f"at least two inputs are required; got {len(args)}.")
    samples = [_taken(a, 0) for a in args]
    total = sum(n for *_, n in samples)
    means = [x.mean(0) for x, *_ in samples]
    middle = sum(n * mean for mean, (*_, n) in zip(means, samples, strict=True)) / total
    between = sum(
        n * (mean - middle) ** 2 for mean, (*_, n) in zip(means, samples, strict=True)
    )
    within = sum(n * x.var(0) for x, _, n in samples)
    df, left = len(samples) - 1, total - len(samples)
    found: Any = (between / df) / (within / left)
    return StatResult(found, special.fdtrc(df, left, found))


# -- moments --------------------------------------------------------------------------------------


def moment(
    a: ArrayLike, moment: int = 1, axis: int | None = 0, nan_policy: str = "propagate"
) -> Array:
    """Return the mean power of deviations from the mean, as ``scipy.stats.moment``.

    Raises
    ------
    NotImplementedError
        `nan_policy` is another than "propagate".
    ValueError
        `moment` is no whole number.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.stats.moment(la.arange(4), 2).compute()
    np.float64(1.25)
    """
    if moment % 1:
        raise ValueError(f"moment must be a whole number; got {moment!r}")
    x, axis, _ = _taken(a, axis, nan_policy)
    found: Array = ((x - x.mean(axis, keepdims=True)) ** moment).mean(axis)
    return found


def _standard(x: Array, axis: int, power: int) -> Any:
    """Return a moment of what has a deviation of one; NaN where all elements are equal."""
    spread = moment(x, 2, axis)
    equal = spread <= (np.finfo(spread.dtype).resolution * x.mean(axis)) ** 2
    return moment(x, power, axis) / where(equal, np.nan, spread) ** (power / 2)


def skew(
    a: ArrayLike, axis: int | None = 0, bias: bool = True, nan_policy: str = "propagate"
) -> Any:
    """Return the skewness along an axis, as ``scipy.stats.skew``.

    Raises
    ------
    NotImplementedError
        `nan_policy` is another than "propagate".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> float(la.stats.skew(la.asarray([1.0, 2, 6])).compute().round(4))
    0.5952
    """
    x, axis, n = _taken(a, axis, nan_policy)
    found = _standard(x, axis, 3)
    return found if bias or n < 3 else found * (sqrt(n * (n - 1)) / (n - 2))


def kurtosis(
    a: ArrayLike, axis: int | None = 0, fisher: bool = True, bias: bool = True,
    nan_policy: str = "propagate",
) -> Any:
    """Return the kurtosis along an axis, less 3 if `fisher`, as ``scipy.stats.kurtosis``.

    Raises
    ------
    NotImplementedError
        `nan_policy` is another than "propagate".

    Examples
    --------
    >>> import lazyflow.array as la
    >>> float(la.stats.kurtosis(la.asarray([1.0, 2, 6, 7])).compute().round(4))
    -1.8521
    """
    x, axis, n = _taken(a, axis, nan_policy)
    found = _standard(x, axis, 4)
    if not bias and n > 3:
        found = ((n * n - 1) * found - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3)) + 3
    return found - 3 if fisher else found


def _normal(z: Any) -> StatResult:
    from scipy import special

    return StatResult(z, 2 * special.ndtr(-abs(z)))


def skewtest(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate"
) -> StatResult:
    """Test whether the skewness is a normal distribution's, as ``scipy.stats.skewtest``.

    Raises
    ------
    NotImplementedError
        `nan_policy` is another than "propagate".
    ValueError
        There are fewer than 8 values.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> found = la.stats.skewtest(la.arange(9.0) ** 2).compute()
    >>> [round(float(each), 4) for each in found]
    [1.1584, 0.2467]
    """
    x, axis, n = _taken(a, axis, nan_policy)
    if n < 8:
        raise ValueError(f"skewtest is not valid with less than 8 samples; {n} samples were given.")
    y = skew(x, axis) * sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    beta = (
        3 * (n * n + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9))
    )
    w = sqrt(2 * (beta - 1)) - 1
    return _normal(np.arcsinh(y / sqrt(2 / (w - 1))) / sqrt(log(w) / 2))


def kurtosistest(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate"
) -> StatResult:
    """Test whether the kurtosis is a normal distribution's, as ``scipy.stats.kurtosistest``.

    Raises
    ------
    NotImplementedError
        `nan_policy` is another than "propagate".
    ValueError
        There are fewer than 5 values.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> found = la.stats.kurtosistest(la.arange(9.0) ** 2).compute()
    >>> [round(float(each), 4) for each in found]
    [-0.2285, 0.8192]
    """
    x, axis, n = _taken(a, axis, nan_policy)
    if n < 5:
        raise ValueError(f"kurtosistest needs at least 5 samples; {n} samples were given.")
    spread = 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    y = (kurtosis(x, axis, fisher=False) - 3 * (n - 1) / (n + 1)) / sqrt(spread)
    beta = 6 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9)) * sqrt(
        6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3))
    )
    k = 6 + 8 / beta * (2 / beta + sqrt(1 + 4 / beta ** 2))
    return _normal((1 - 2 / (9 * k) - np.cbrt((1 - 2 / k) / (1 + y * sqrt(2 / (k - 4)))))
                   / sqrt(2 / (9 * k)))


def normaltest(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate"
) -> StatResult:
    """Test for a normal distribution by D'Agostino and Pearson, as ``scipy.stats.normaltest``.

    Raises
    ------
    NotImplementedError
        `nan_policy` is another than "propagate".
    ValueError
        There are fewer than 8 values.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> found = la.stats.normaltest(la.arange(9.0) ** 2).compute()
    >>> [round(float(each), 4) for each in found]
    [1.3941, 0.498]
    """
    from scipy import special

    found = (
        skewtest(a, axis, nan_policy).statistic ** 2
        + kurtosistest(a, axis, nan_policy).statistic ** 2
    )
    return StatResult(found, special.chdtrc(2, found))
