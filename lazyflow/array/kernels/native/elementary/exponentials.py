"""Exponentials: the nearest multiple of log 2 is taken off, the rest goes through a polynomial."""

from __future__ import annotations

from typing import NamedTuple

from lazyflow.array.kernels.native.elementary.lanes import (
    INF,
    ONE,
    Lanes,
    polynomial,
    quick_sum,
)

#: Added to a number below 2**51 it leaves the nearest whole number in the low bits of the sum.
ROUNDER = 6755399441055744.0
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # 33 bits, the rest
_PER_LN2 = 1.4426950408889634

#: (exp(r) - 1 - r) / r**2 for |r| <= log(2) / 2, the error times r**2 below 2**-64
_EXP = (
    *(0.5, 0.16666666666666685, 0.04166666666666673, 0.008333333333316656),
    *(0.0013888888888858642, 0.00019841269897284775, 2.4801587373444667e-05),
    *(2.7557233995242588e-06, 2.7557233558662873e-07, 2.5112328435511557e-08),
    2.09268936928714e-09,
)


class ReducedExponent(NamedTuple):
    """``exp(x) = 2**n * (1 + r + tail)``; the low bits of `bits` are those of n."""

    n: Lanes
    bits: Lanes
    r: Lanes
    tail: Lanes


def reduced(x: Lanes) -> ReducedExponent:
    """Take off the nearest multiple of log 2 of numbers below 2**20."""
    near = x.times(_PER_LN2, ROUNDER)
    n = near - ROUNDER
    high = n.times(-LN2_HIGH, x)
    low = n * LN2_LOW
    r = high - low
    left = (high - r) - low
    tail = (r * r).times(polynomial(r, *_EXP), left)
    return ReducedExponent(n, near.bits(), r, tail)


def _one_and(x: ReducedExponent) -> Lanes:
    total, rest = quick_sum(1.0, x.r)
    return total + (rest + x.tail)


def power_of_two(bits: Lanes) -> Lanes:
    """Return 2**n where `bits` are those of n and the rounder."""
    return ((bits << 52) + ONE).real()


def scaled(y: Lanes, x: ReducedExponent) -> Lanes:
    """Return ``y * 2**n`` for any n, rounded and reported where it leaves the normal numbers."""
    half = x.n.times(0.5, ROUNDER).bits()
    return y * power_of_two(half) * power_of_two(x.bits - half)


def exp(x: Lanes) -> Lanes:
    """Return the exponential."""
    size = x.abs().bits()
    usual = size.below(0x4086200000000000)  # 708
    core = reduced(usual.pick(x, 0.0))
    y = (_one_and(core).bits() + (core.bits << 52)).real()

    def rare() -> list[Lanes]:
        finite = size.below(INF)
        limited = size.below(0x4090000000000000).pick(x, x.f.number("double", 1024.0).signed_as(x))
        core = reduced(finite.pick(limited, 0.0))
        beyond = x.bits().equals(INF - (1 << 64) + (1 << 63)).pick(0.0, x + x)
        return [finite.pick(scaled(_one_and(core), core), beyond)]

    return x.f.where_any(~usual, rare, [y])[0]
