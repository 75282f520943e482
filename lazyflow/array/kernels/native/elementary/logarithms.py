"""Logarithms: powers of two are taken off, the rest, near 1, goes through a polynomial."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lazyflow.array.kernels.native.elementary.exponentials import power_of_e
from lazyflow.array.kernels.native.elementary.lanes import (
    INFINITY,
    Lanes,
    polynomial,
    product,
    quick_sum,
    squared,
    two_sum,
)

#: 1 / log(2) and 1 / log(10) in two parts of 53 bits
_PER_LN2 = (1.4426950408889634, 2.0355273740931033e-17)
_PER_LN10 = (0.4342944819032518, 1.098319650216765e-17)

#: 2 * atanh(s) / s - 2 in powers of s**2, for sqrt(0.5) <= 1 + f <= sqrt(2) and s = f / (2 + f),
#: within 2**-58, 2**-34
_LOG = (
    (
        *(0.6666666666666735, 0.3999999999940942, 0.2857142874366239, 0.22222198432149784),
        *(0.1818357216161805, 0.15313837699209373, 0.14798198605116586),
    ),
    (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841),
)


class SplitNumber(NamedTuple):
    """``x = 2**k * (1 + f)``; `shift` has the bits of k at the place of exponents."""

    k: Lanes
    f: Lanes
    shift: Lanes


def split(x: Lanes) -> SplitNumber:
    """Split normal positive numbers, so that ``sqrt(0.5) <= 1 + f < sqrt(2)``."""
    p = x.f.form
    above = x.bits() - p.bits_of(0.5**0.5)
    whole = ((above + p.one) >> p.fraction) | p.bits_of(2.0**p.fraction)
    shift = above & (-1 << p.fraction)
    k = whole.real() - (2.0**p.fraction + p.bias)
    return SplitNumber(k, (x.bits() - shift).real() - 1.0, shift)


def _near_one(f: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``log(1 + f)`` and what it lacks."""
    square, left = squared(f)
    half = square * 0.5
    s = f / (f + 2.0)
    z = s * s
    high, low = quick_sum(f, -half)
    return high, s.times(z.times(polynomial(z, *_LOG), half), left.times(-0.5, low))


def natural(k: Lanes, f: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``k * log(2) + log(1 + f)`` and what it lacks."""
    high, low = _near_one(f)
    total, rest = quick_sum(k * k.f.form.ln2[0], high)
    return total, rest + k.times(k.f.form.ln2[1], low)


def _times(high: Lanes, low: Lanes, factor: tuple[float, float]) -> tuple[Lanes, Lanes]:
    total, rest = quick_sum(high, low)
    most, left = total.f.form.parts(*factor)
    first, error = product(total, most)
    return first, error + total.times(left, rest * most)


def _binary(k: Lanes, f: Lanes) -> tuple[Lanes, Lanes]:
    high, low = _times(*_near_one(f), _PER_LN2)
    total, rest = quick_sum(k, high)
    return total, rest + low


def _decimal(k: Lanes, f: Lanes) -> tuple[Lanes, Lanes]:
    return _times(*natural(k, f), _PER_LN10)


def _logarithm(x: Lanes, kind: Callable[[Lanes, Lanes], tuple[Lanes, Lanes]]) -> Lanes:
    p, bits = x.f.form, x.bits()
    usual = x.between(p.least, INFINITY)
    core = split(usual.pick(x, 1.0))
    high, low = kind(core.k, core.f)

    def rare() -> list[Lanes]:
        small = bits.below(p.bits_of(p.least))
        zero = (bits << 1).equals(0)
        none = zero | (bits + (p.sign - 1)).below(p.inf)  # or negative
        raised = small.pick(x, 0.0) * 2.0 ** (p.fraction + 2)
        k, f, _ = split(usual.pick(x, (small & ~zero).pick(raised, 1.0)))
        high, low = kind(small.pick(k - (p.fraction + 2), k), f)
        pole = zero.pick(-1.0, 0.0).fenced() / none.pick(0.0, 1.0).fenced()
        return [none.pick(pole, (usual | small).pick(high + low, x))]

    return x.f.where_any(~usual, rare, [high + low])[0]


def log(x: Lanes) -> Lanes:
    """Return the natural logarithm."""
    return _logarithm(x, natural)


def log2(x: Lanes) -> Lanes:
    """Return the logarithm to the base 2."""
    return _logarithm(x, _binary)


def log10(x: Lanes) -> Lanes:
    """Return the logarithm to the base 10."""
    return _logarithm(x, _decimal)


def _of_sum(one: Lanes, lost: Lanes) -> tuple[Lanes, Lanes]:
    """Return the logarithm of a sum with its error, and what it lacks."""
    k, f, shift = split(one)
    high, low = natural(k, f)
    lost = lost * (one.f.form.one - shift).real()
    return high, lost.times(polynomial(f, (1.0, -1.0, 1.0, -1.0, 1.0)), low)


def log1p(x: Lanes) -> Lanes:
    """Return the natural logarithm of one and a number."""
    p = x.f.form
    usual = x.size_below(2.0**100)
    one, lost = two_sum(usual.pick(x, 0.0), x.f.real(1.0))
    usual = usual & one.between(p.least, INFINITY)
    high, low = _of_sum(usual.pick(one, 1.0), lost)

    def rare() -> list[Lanes]:
        other = x.f.formula("log", usual.pick(1.0, x.size_below(2.0**100).pick(one, x)))
        return [usual.pick(high + low, other)]

    y = x.f.where_any(~usual, rare, [high + low])[0]
    return x.size_below(p.tiny).pick(x, y)


def _ordered(x: Lanes, y: Lanes) -> tuple[Lanes, Lanes]:
    less = ~(x - y).bits().below(x.f.form.sign)
    return less.pick(x, y), less.pick(y, x)


def logaddexp(x: Lanes, y: Lanes) -> Lanes:
    """Return the logarithm of the sum of two exponentials."""
    p = x.f.form
    usual = x.size_below(2.0**50) & y.size_below(2.0**50)
    least, most = _ordered(usual.pick(x, 0.0), usual.pick(y, 0.0))
    distance, lack = two_sum(least, -most)
    usual = usual & distance.size_below(p.large / 2)
    near = distance.abs().between(p.tiny, p.large / 2)
    counts = near & ~lack.size_below(p.tiny**2)
    high, low = power_of_e(near.pick(distance, 0.0), counts.pick(lack, 0.0))
    one, lost = quick_sum(1.0, high)
    high, low = _of_sum(one, lost + low)
    total, rest = two_sum(most, high)
    found = total + (rest + low)

    def rare() -> list[Lanes]:
        same = x.bits().equals(y.bits())
        known = usual | same
        least, most = _ordered(known.pick(0.0, x), known.pick(0.0, y))
        distance = least - most
        far = ~distance.size_below(p.large) & ~(most.bits() << 1).equals(0)
        other = far.pick(most, most + x.f.formula("exp", far.pick(0.0, distance)))
        nan = ~(x.abs().bits().below(p.inf + 1) & y.abs().bits().below(p.inf + 1))
        infinity = nan.pick(INFINITY, 0.0).fenced()  # NumPy reports NaN, too
        return [usual.pick(found, nan.pick(infinity - infinity, same.pick(x, other)))]

    return x.f.where_any(~usual, rare, [found])[0]
