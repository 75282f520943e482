"""Exponentials: the nearest multiple of log 2 is taken off, the rest goes through a polynomial."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lazyflow.array.kernels.native.elementary.lanes import (
    INFINITY,
    SINGLE,
    Lanes,
    polynomial,
    product,
    quick_sum,
    quotient,
    squared,
    two_sum,
)

LN2 = 0.6931471805599453, 2.3190468138462996e-17  # in parts of 53 bits

#: (exp(r) - 1 - r - r**2 / 2) / r**3 for |r| <= log(2) / 2, within 2**-64 / r**3, 2**-33 / r**3
_EXP = (
    (
        *(0.16666666666666685, 0.04166666666666673, 0.008333333333316656, 0.0013888888888858642),
        *(0.00019841269897284775, 2.4801587373444667e-05, 2.7557233995242588e-06),
        *(2.7557233558662873e-07, 2.5112328435511557e-08, 2.09268936928714e-09),
    ),
    (0.166666672, 0.041666463, 0.00833327696, 0.00139351597, 0.000199125425),
)


class ReducedExponent(NamedTuple):
    """``exp(x) = 2**n * (1 + r + tail)``; the low bits of `bits` are those of n."""

    n: Lanes
    bits: Lanes
    r: Lanes
    tail: Lanes


def _with_tail(n: Lanes, bits: Lanes, r: Lanes, left: Lanes) -> ReducedExponent:
    square, lost = squared(r)
    rest = (r * square).times(polynomial(r, *_EXP), lost.times(0.5, left.times(r, left)))
    return ReducedExponent(n, bits, r, square.times(0.5, rest))


def reduced(x: Lanes, lack: Lanes | None = None) -> ReducedExponent:
    """Take the nearest multiple of log 2 off numbers below 2**20, which lack a little."""
    p = x.f.form
    near = x.times(1 / LN2[0], p.rounder)
    n = near - p.rounder
    high = n.times(-p.ln2[0], x)
    lost = None
    if lack is not None:
        high, lost = two_sum(high, lack)
    multiple = n * p.ln2[1]
    r = high - multiple
    left = x.f.real(0.0) if p is SINGLE else (high - r) - multiple
    return _with_tail(n, near.bits(), r, left if lost is None else left + lost)


def _reduced_power(x: Lanes) -> ReducedExponent:
    """Do so for powers of two."""
    near = x + x.f.form.rounder
    n = near - x.f.form.rounder
    part = x - n
    ln2, rest = x.f.form.parts(*LN2)
    r, left = product(part, ln2)
    return _with_tail(n, near.bits(), r, part.times(rest, left))


def one_and(x: ReducedExponent) -> Lanes:
    """Return ``1 + r + tail``."""
    total, rest = quick_sum(1.0, x.r)
    return total + (rest + x.tail)


def power_of_e(x: Lanes, lack: Lanes) -> tuple[Lanes, Lanes]:
    """Return the exponential of a number that lacks a little, and what it lacks."""
    core = reduced(x, lack)
    total, rest = quick_sum(1.0, core.r)
    high, low = quick_sum(total, rest + core.tail)
    factor = _power_of_two(core.bits)
    return high * factor, low * factor


def shifted(y: Lanes, bits: Lanes) -> Lanes:
    """Return ``y * 2**n``, a normal number, where `bits` are those of n and the rounder."""
    return (y.bits() + (bits << y.f.form.fraction)).real()


def _power_of_two(bits: Lanes) -> Lanes:
    return ((bits << bits.f.form.fraction) + bits.f.form.one).real()


def scaled(y: Lanes, x: ReducedExponent) -> Lanes:
    """Return ``y * 2**n`` for any n, rounded and reported where it leaves the normal numbers."""
    half = x.n.times(0.5, y.f.form.rounder).bits()
    return y * _power_of_two(half) * _power_of_two(x.bits - half)


def _exponential(x: Lanes, reduce: Callable[[Lanes], ReducedExponent], large: float) -> Lanes:
    p = x.f.form
    usual = x.size_below(large)
    core = reduce(x.abs().between(p.tiny, large).pick(x, 0.0))
    y = shifted(one_and(core), core.bits)

    def rare() -> list[Lanes]:
        limited = x.size_below(p.beyond).pick(x, x.f.real(p.beyond).signed_as(x))
        finite = x.size_below(INFINITY)
        core = reduce((finite & ~x.size_below(p.tiny)).pick(limited, 0.0))
        special = finite.pick(0.0, x)  # a large number, doubled, would be reported
        beyond = x.bits().equals(p.sign | p.inf).pick(0.0, special + special)
        return [finite.pick(scaled(one_and(core), core), beyond)]

    return x.f.where_any(~usual, rare, [y])[0]


def exp(x: Lanes) -> Lanes:
    """Return the exponential."""
    return _exponential(x, reduced, x.f.form.large)


def exp2(x: Lanes) -> Lanes:
    """Return the power of two."""
    return _exponential(x, _reduced_power, x.f.form.bias - 1.0)


def _growth(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``exp(x) - 1`` and what it lacks, of numbers whose exponential is normal."""
    core = reduced(x)
    one, lost = two_sum(x.f.real(1.0), -_power_of_two(0 - core.bits))
    total, rest = quick_sum(one, core.r)
    high, low = quick_sum(total, rest + (lost + core.tail))
    factor = _power_of_two(core.bits)
    return high * factor, low * factor


def expm1(x: Lanes) -> Lanes:
    """Return the exponential less one."""
    p = x.f.form
    usual = x.size_below(p.large)
    high, low = _growth(x.abs().between(p.tiny, p.large).pick(x, 0.0))

    def rare() -> list[Lanes]:
        negative = (x.bits() + p.sign).below(p.inf + 1)
        grown = x.f.formula("exp", (usual | negative).pick(0.0, x))
        return [usual.pick(high + low, negative.pick(-1.0, grown))]

    y = x.f.where_any(~usual, rare, [high + low])[0]
    return x.size_below(x.f.form.tiny).pick(x, y)


def _half_sum(x: Lanes, of_even: bool) -> Lanes:
    """Return the hyperbolic cosine, or the sine of numbers that are not negative."""
    p = x.f.form
    usual = x.size_below(p.large)
    high, low = _growth(x.between(p.tiny, p.large).pick(x, 0.0))
    one, rest = two_sum(high, x.f.real(1.0))
    rest = rest + low
    if of_even:
        high, low = one, rest
        some = one.size_below(2.0**60)  # beside larger ones their inverse does not count
        inverted = some.pick(one, 2.0**60), some.pick(rest, 0.0)
        other, left = quotient(x.f.real(1.0), x.f.real(0.0), *inverted)
    else:
        other, left = quotient(high, low, one, rest)
    total, lost = quick_sum(high, other)
    y = (total + (lost + (low + left))) * 0.5

    def rare() -> list[Lanes]:
        finite = x.size_below(INFINITY)
        core = reduced((finite & ~usual).pick(x.size_below(p.beyond).pick(x, p.beyond), 0.0))
        return [usual.pick(y, finite.pick(scaled(one_and(core) * 0.5, core), x))]

    return x.f.where_any(~usual, rare, [y])[0]


def sinh(x: Lanes) -> Lanes:
    """Return the hyperbolic sine."""
    return x.size_below(x.f.form.tiny).pick(x, _half_sum(x.abs(), False).signed_as(x))


def cosh(x: Lanes) -> Lanes:
    """Return the hyperbolic cosine."""
    return _half_sum(x.abs(), True)


def tanh(x: Lanes) -> Lanes:
    """Return the hyperbolic tangent."""
    size = x.abs()
    some = size.between(x.f.form.tiny, 22.0)
    half = some.pick(size, 0.5)  # first: the double of a large number would be reported
    high, low = _growth(half + half)
    two, rest = two_sum(high, x.f.real(2.0))
    y, left = quotient(high, low, two, rest + low)
    y = some.pick(y + left, 1.0).signed_as(x)
    return x.size_below(x.f.form.tiny).pick(x, x.unless_nan(y))
