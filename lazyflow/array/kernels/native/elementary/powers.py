"""Powers: ``x**y`` is ``exp(y * log(x))``, the logarithm in two parts, right to 68 bits. Roots."""

from __future__ import annotations

from lazyflow.array.kernels.native.elementary.exponentials import (
    one_and,
    reduced,
    scaled,
    shifted,
)
from lazyflow.array.kernels.native.elementary.lanes import (
    INFINITY,
    Lanes,
    polynomial,
    product,
    quick_sum,
    quotient,
    two_sum,
)
from lazyflow.array.kernels.native.elementary.logarithms import split

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
    """Return powers of two whose products with positive numbers are near 1, but for tiny ones."""
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
