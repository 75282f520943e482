"""Powers: ``x**y`` is ``exp(y * log(x))``, the logarithm in two parts, right to 68 bits. Roots.

Exponentials take a multiple of log 2 off their argument, logarithms a power of two, and a
polynomial of the rest follows. Where one number has too few digits, a second one holds the
difference (what the first lacks). The usual branch is for ordinary arguments: finite, neither tiny
nor huge. All other lanes get a harmless argument there, so that they raise no floating-point flag.
The branch for those (`rare`) runs only if a lane of the vector needs it. Third and fourth powers of
such arguments are products, without a logarithm.
"""

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

# -- exponentials: the nearest multiple of log 2 is taken off, the rest goes through a polynomial


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


# -- logarithms: powers of two are taken off, the rest, near 1, goes through a polynomial

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


def _times_factor(high: Lanes, low: Lanes, factor: tuple[float, float]) -> tuple[Lanes, Lanes]:
    total, rest = quick_sum(high, low)
    most, left = total.f.form.parts(*factor)
    first, error = product(total, most)
    return first, error + total.times(left, rest * most)


def _binary(k: Lanes, f: Lanes) -> tuple[Lanes, Lanes]:
    high, low = _times_factor(*_near_one(f), _PER_LN2)
    total, rest = quick_sum(k, high)
    return total, rest + low


def _decimal(k: Lanes, f: Lanes) -> tuple[Lanes, Lanes]:
    return _times_factor(*natural(k, f), _PER_LN10)


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
    result = total + (rest + low)

    def rare() -> list[Lanes]:
        same = x.bits().equals(y.bits())
        known = usual | same
        least, most = _ordered(known.pick(0.0, x), known.pick(0.0, y))
        distance = least - most
        far = ~distance.size_below(p.large) & ~(most.bits() << 1).equals(0)
        other = far.pick(most, most + x.f.formula("exp", far.pick(0.0, distance)))
        nan = ~(x.abs().bits().below(p.inf + 1) & y.abs().bits().below(p.inf + 1))
        infinity = nan.pick(INFINITY, 0.0).fenced()  # NumPy reports NaN, too
        return [usual.pick(result, nan.pick(infinity - infinity, same.pick(x, other)))]

    return x.f.where_any(~usual, rare, [result])[0]


#: (2 * atanh(s) / s - 2 - 2 * z / 3 - 2 * z**2 / 5) / z**3 of z = s**2, s <= 0.172, within 2**-77,
#: 2**-42
_ATANH = (
    (
        *(0.2857142857142857, 0.2222222222222948, 0.1818181817894406, 0.1538461588299198),
        *(0.13333286767589111, 0.11767223482412309, 0.10447576110653595, 0.10837259370215269),
    ),
    (0.285715938, 0.221984327, 0.192620814),
)
#: 2 / 5, 2 / 3 and 2 in two parts
_TERMS = ((0.4, -2.2204460492503132e-17), (0.6666666666666666, 3.700743415417188e-17), (2.0, 0.0))
_MOST = 2.0**64  # powers of this, but of one, are infinite or zero


def _times(a: tuple[Lanes, Lanes], b: tuple[Lanes, Lanes]) -> tuple[Lanes, Lanes]:
    high, low = product(a[0], b[0])
    return high, low + a[0].times(b[1], a[1] * b[0])


def _log(k: Lanes, f: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``k * log(2) + log(1 + f)`` and what it lacks: by the series of ``f / (2 + f)``."""
    s = quick_sum(*quotient(f, f.f.real(0.0), *quick_sum(2.0, f)))
    z = _times(s, s)
    inner, low = z[0] * polynomial(z[0], *_ATANH), f.f.real(0.0)
    for term, factor in zip(_TERMS, (z, z, s), strict=True):
        coefficient, left = f.f.form.parts(*term)
        inner, rest = quick_sum(coefficient, inner)
        inner, low = _times(factor, (inner, rest + (low + left)))
    high = inner
    high, lost = two_sum(high, k * k.f.form.ln2[1])
    high, rest = quick_sum(k * k.f.form.ln2[0], high)
    return quick_sum(high, rest + (lost + low))


def _raised(log: tuple[Lanes, Lanes], y: Lanes) -> tuple[Lanes, Lanes]:
    high, low = product(log[0], y)
    some = ~high.size_below(y.f.form.tiny)  # squares of other ones would underflow
    return some.pick(high, 0.0), some.pick(low + log[1] * y, 0.0)


def _least(y: Lanes) -> float:
    """Return the least exponent with which a power is not 1."""
    return y.f.form.tiny / 256


def power(x: Lanes, y: Lanes) -> Lanes:
    """Return a number to the power of another."""
    low = 2.0 ** -(x.f.form.bias // 5)
    cube, fourth = (y.bits().equals(x.f.form.bits_of(n)) for n in (3.0, 4.0))
    few = (cube | fourth) & x.abs().between(low, 1 / low)

    def multiplied() -> list[Lanes]:
        base = few.pick(x, 1.0)
        square, left = product(base, base)
        factor, rest = fourth.pick(square, base), fourth.pick(left, 0.0)
        high, low = product(square, factor)
        return [few.pick(high + square.times(rest, left.times(factor, low)), found)]

    def others() -> list[Lanes]:
        return [_power(few.pick(1.0, x), few.pick(1.0, y))]

    (found,) = x.f.where_any(~few, others, [x])
    return x.f.where_any(few, multiplied, [found])[0]


def _power(x: Lanes, y: Lanes) -> Lanes:
    usual = x.between(x.f.form.least, INFINITY) & y.abs().between(_least(y), _MOST)
    core = split(usual.pick(x, 1.0))
    high, low = _raised(_log(core.k, core.f), usual.pick(y, 1.0))
    usual = usual & high.size_below(x.f.form.large)
    grown = reduced(usual.pick(high, 0.0), usual.pick(low, 0.0))
    found = shifted(one_and(grown), grown.bits)
    return x.f.where_any(~usual, lambda: [_any_power(x, y)], [found])[0]


def _whole(y: Lanes) -> tuple[Lanes, Lanes]:
    """Return which numbers are whole, and which are odd."""
    size = y.abs()
    unit = 2.0**y.f.form.fraction
    small = size.size_below(unit)
    moved = small.pick(size, 0.0) + unit
    is_whole = ~small | (moved - unit).bits().equals(size.bits())
    last = small.pick(moved.bits(), size.bits()) & 1
    return is_whole, is_whole & size.size_below(2 * unit) & last.equals(1)


def _finite_power(size: Lanes, y: Lanes, plain: Lanes) -> Lanes:
    """Return the power of positive numbers; 1 where they are not plain."""
    p, up = y.f.form, y.f.form.fraction + 2
    size, y = plain.pick(size, 1.0), plain.pick(y, 0.0)
    y = y.size_below(_MOST).pick(y, y.f.real(_MOST).signed_as(y))
    small = size.size_below(p.least)
    k, f, _ = split(small.pick(small.pick(size, 0.0) * 2.0**up, size))
    high, low = _raised(_log(small.pick(k - up, k), f), y)
    near = high.size_below(p.beyond)
    limited = near.pick(high, high.f.real(p.beyond).signed_as(high))
    core = reduced(limited, near.pick(low, 0.0))
    return scaled(one_and(core), core)


def _any_power(x: Lanes, y: Lanes) -> Lanes:
    """Return the power of any numbers, special ones and beyond the normal numbers."""
    p, size, power_size = x.f.form, x.abs(), y.abs()
    is_whole, odd = _whole(y)
    negative, down = ~x.bits().below(p.sign), ~y.bits().below(p.sign)
    zero, y_finite = size.bits().equals(0), power_size.size_below(INFINITY)
    finite = size.size_below(INFINITY) & y_finite & ~zero
    wrong = finite & negative & ~is_whole
    plain = finite & ~wrong & ~power_size.size_below(_least(y))
    found = _finite_power(size, y, plain)
    extreme = ~finite & ~power_size.bits().equals(0) & ~size.bits().equals(p.one)
    found = extreme.pick((~size.size_below(1.0) ^ down).pick(INFINITY, 0.0), found)
    x_nan, y_nan = ~size.bits().below(p.inf + 1), ~power_size.bits().below(p.inf + 1)
    pole = zero & down & ~(power_size.bits().equals(0) | y_nan)
    raising = pole.pick(1.0, 0.0).fenced() / (pole | wrong).pick(0.0, 1.0).fenced()
    found = (pole | wrong).pick(raising, found)
    found = (found.bits() ^ (negative & odd).pick(p.sign, 0)).real()
    one = power_size.bits().equals(0) | x.bits().equals(p.one)
    return ((x_nan | y_nan) & ~one).pick(x_nan.pick(x, y), one.pick(1.0, found))


def unit_scale(x: Lanes) -> Lanes:
    """Return powers of two whose products with positive numbers, except tiny ones, are near 1."""
    p, exponent = x.f.form, x.bits() >> x.f.form.fraction
    exponent = exponent.below(2).pick(2, exponent)
    return ((2 * p.bias + 1 - exponent) << p.fraction).real()


def _root_of_squares(a: Lanes, b: Lanes) -> Lanes:
    (first, left), (second, more) = product(a, a), product(b, b)
    total, rest = quick_sum(first, second)
    return (total + (rest + (left + more))).sqrt()


def hypot(x: Lanes, y: Lanes) -> Lanes:
    """Return the square root of the sum of squares."""
    p, a, b = x.f.form, x.abs(), y.abs()
    less = a.bits().below(b.bits())
    a, b = less.pick(b, a), less.pick(a, b)
    low = 2.0 ** -(p.bias // 4)
    usual = a.between(low, 1 / low)
    # what is less than that of the larger number does not matter
    least = low * 2.0 ** -(p.fraction // 2 + 3)
    found = _root_of_squares(usual.pick(a, 1.0), (usual & ~b.size_below(least)).pick(b, 0.0))

    def rare() -> list[Lanes]:
        finite = a.size_below(INFINITY) & ~usual
        scale = unit_scale(finite.pick(a, 1.0))
        root = _root_of_squares(finite.pick(a, 1.0) * scale, finite.pick(b, 0.0) * scale) / scale
        infinite = a.bits().equals(p.inf) | b.bits().equals(p.inf)
        return [usual.pick(found, finite.pick(root, infinite.pick(INFINITY, a)))]

    return x.f.where_any(~usual, rare, [found])[0]
