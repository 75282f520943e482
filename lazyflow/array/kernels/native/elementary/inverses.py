"""The inverse tangent, of a number or of two sides."""

from __future__ import annotations

from lazyflow.array.kernels.native.elementary.lanes import (
    INFINITY,
    Lanes,
    polynomial,
    quick_sum,
    quotient,
    two_sum,
)
from lazyflow.array.kernels.native.elementary.powers import unit_scale
from lazyflow.array.kernels.native.elementary.trigonometric import QUARTER

#: (atan(t) / t - 1) / z of z = t**2, t <= sqrt(2) - 1, within 2**-59 / z, 2**-30 / z
_ATAN = (
    (
        *(-0.33333333333333204, 0.19999999999954465, -0.14285714280270081, 0.11111110786630547),
        *(-0.09090897838100238, 0.07692061491816045, -0.06663117113452134, 0.05847975238166847),
        *(-0.050396555815560844, 0.03807264892554271, -0.017915247438134534),
    ),
    (-0.333333164, 0.199984893, -0.142438114, 0.105955996, -0.0608218946),
)


def _angle(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Return the angle opposite to `a` in two parts: by a / b, (a - b) / (a + b) or -b / a."""
    low = a.bits().below((b * (2**0.5 - 1)).bits())
    high = ~(a.bits().below((b * (2**0.5 + 1)).bits()) | low)
    less, less_rest = two_sum(a, -b)
    more, more_rest = two_sum(a, b)
    middle = ~(low | high)
    above = low.pick(a, high.pick(-b, less)), middle.pick(less_rest, 0.0)
    below = low.pick(b, high.pick(a, more)), middle.pick(more_rest, 0.0)
    t, lost = quotient(*above, *below)
    z = t * t
    quarter = a.f.form.parts(*QUARTER[:2])
    start, start_rest = [low.pick(0.0, high.pick(part, part / 2)) for part in quarter]
    total, rest = quick_sum(start, t)
    return total, rest + (t * z).times(polynomial(z, *_ATAN), lost + start_rest)


def _within_half_turn(angle: tuple[Lanes, Lanes], negative: Lanes) -> Lanes:
    """Return an angle, or what it lacks of half a turn."""
    half, left = [2 * part for part in negative.f.form.parts(*QUARTER[:2])]
    total, rest = quick_sum(half, -angle[0])
    return negative.pick(total + (rest + (left - angle[1])), angle[0] + angle[1])


def arctan(x: Lanes) -> Lanes:
    """Return the inverse tangent."""
    size, tiny = x.abs(), x.f.form.tiny
    size = size.between(tiny, 1 / tiny).pick(size, size.size_below(1.0).pick(0.0, 1 / tiny))
    high, low = _angle(size, x.f.real(1.0))
    return x.size_below(tiny).pick(x, x.unless_nan((high + low).signed_as(x)))


def arctan2(y: Lanes, x: Lanes) -> Lanes:
    """Return the angle of a point."""
    p, a, b = x.f.form, y.abs(), x.abs()
    negative, less = ~x.bits().below(p.sign), a.bits().below(b.bits())
    top, bottom = less.pick(b, a), less.pick(a, b)
    bound, apart = 2.0 ** (p.bias // 6), (p.fraction + 3) << p.fraction
    near = (top.bits() - bottom.bits()).below(apart)  # else the smaller side does not count
    usual = top.between(1 / bound, bound) & (near | bottom.bits().equals(0))
    found = _within_half_turn(_angle(usual.pick(a, 0.0), usual.pick(b, 1.0)), negative)

    def rare() -> list[Lanes]:
        finite, infinite = top.size_below(INFINITY), top.bits().equals(p.inf)
        scale = unit_scale(finite.pick(top, 1.0))
        longer = finite.pick(finite.pick(top, 0.0) * scale, 1.0)
        shorter = finite.pick((finite & near).pick(bottom, 0.0) * scale, 0.0)
        shorter = shorter.size_below(p.tiny).pick(0.0, shorter)
        shorter = bottom.bits().equals(p.inf).pick(1.0, shorter)
        opposite, adjacent = less.pick(shorter, longer), less.pick(longer, shorter)
        adjacent = (opposite.bits() | adjacent.bits()).equals(0).pick(1.0, adjacent)
        angle = _within_half_turn(_angle(opposite, adjacent), negative)
        slight = finite & less & ~negative & shorter.bits().equals(0)
        ratio = slight.pick(a, 0.0) / slight.pick(b, 1.0)
        return [usual.pick(found, slight.pick(ratio, (finite | infinite).pick(angle, top)))]

    return x.f.where_any(~usual, rare, [found])[0].signed_as(y)
