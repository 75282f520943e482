"""Logarithms: powers of two are taken off, the rest, near 1, goes through a polynomial."""

from __future__ import annotations

from lazyflow.array.kernels.native.elementary.exponentials import LN2_HIGH, LN2_LOW
from lazyflow.array.kernels.native.elementary.lanes import (
    INF,
    Lanes,
    polynomial,
    product,
    quick_sum,
)

_LEAST = 1 << 52  # the bits of the least normal number
_MIDDLE = 0x3FE6A09E667F3BCD  # the bits of sqrt(0.5)

#: (log(1 + f) - f + f**2 / 2) / f**3 for sqrt(0.5) <= 1 + f <= sqrt(2), within 2**-59 / f**2
_LOG = (
    *(0.33333333333333437, -0.24999999999999373, 0.1999999999994967, -0.16666666666808594),
    *(0.14285714293511872, -0.12499999991524753, 0.11111110535838199, -0.09999999940775821),
    *(0.09090932650205556, -0.08333357648788531, 0.07691739684643088, -0.07141810570838987),
    *(0.06674675293464505, -0.0627151666265728, 0.05823103154344367, -0.053195587466266035),
    *(0.0538336226719264, -0.06274966453475428, 0.0578029844902694, -0.024988058757971752),
)


def split(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return k and f of normal positive numbers: ``x = 2**k * (1 + f)``."""
    above = x.bits() - _MIDDLE
    whole = ((above + (1023 << 52)) >> 52) | 0x4330000000000000
    k = whole.real() - (2.0**52 + 1023)
    return k, (x.bits() - (above & (-1 << 52))).real() - 1.0


def _log(k: Lanes, f: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``k * log(2) + log(1 + f)`` and what it lacks."""
    square, left = product(f, f)
    high, low = quick_sum(f, square * -0.5)
    tail = (f * square).times(polynomial(f, *_LOG), left.times(-0.5, low))
    total, rest = quick_sum(k * LN2_HIGH, high)
    return total, rest + k.times(LN2_LOW, tail)


def log(x: Lanes) -> Lanes:
    """Return the natural logarithm."""
    bits = x.bits()
    usual = (bits - _LEAST).below(INF - _LEAST)
    high, low = _log(*split(usual.pick(x, 1.0)))

    def rare() -> list[Lanes]:
        small = bits.below(_LEAST)
        zero = (bits << 1).equals(0)
        negative = (bits - ((1 << 63) + 1 - (1 << 64))).below(INF)
        none = zero | negative
        k, f = split((usual | small & ~zero).pick(small.pick(x * 2.0**54, x), 1.0))
        high, low = _log(small.pick(k - 54.0, k), f)
        pole = zero.pick(-1.0, negative.pick(0.0, 1.0)).fenced() / none.pick(0.0, 1.0).fenced()
        finite = (usual | small).pick(high + low, x + x)
        return [none.pick(pole, finite)]

    return x.f.where_any(~usual, rare, [high + low])[0]
