"""Divisions with whole quotients: NumPy's bits, by one division where the quotient is not large."""

from __future__ import annotations

from lazyflow.array.kernels.native.elementary.lanes import Lanes


def _is_zero(x: Lanes) -> Lanes:
    return (x.bits() << 1).equals(0)


def _opposite(x: Lanes, y: Lanes) -> Lanes:
    """Return where a number is not zero, and its sign is not the other's."""
    return ~_is_zero(x) & ~(x.bits() ^ y.bits()).below(x.f.form.sign)


def _divided(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return which quotients are small, their whole parts towards zero, and exact rests."""
    p = a.f.form
    bound = 2.0 ** (p.bias // 4)
    small = b.abs().between(1 / bound, bound) & a.size_below(bound)
    x, y = small.pick(a, 0.0), small.pick(b, 1.0)
    quotient = x / y
    whole = quotient.rounded("trunc")
    rest = whole.exactly(-y, x)
    over = _opposite(rest, x)  # the quotient was rounded to the next whole number
    rest = over.pick(rest + y.abs().signed_as(x), rest)
    whole = over.pick(whole - x.f.real(1.0).signed_as(whole), whole)
    return small & quotient.size_below(2.0 ** (p.fraction - 2)), whole, rest


def _modulo(a: Lanes, b: Lanes) -> Lanes:
    return a.f.let(a.kind, f"frem {a.type} {a.name}, {b.name}")


def _with_sign_of(b: Lanes, rest: Lanes) -> Lanes:
    signed = _opposite(rest, b).pick(rest + b, rest)
    return _is_zero(rest).pick(b.f.real(0.0).signed_as(b), signed)


def _rest(a: Lanes, b: Lanes) -> Lanes:
    """Return what is left of a number after a division, with its own sign if it is not zero."""
    small, _, rest = _divided(a, b)

    def rare() -> list[Lanes]:
        return [small.pick(rest, _modulo(small.pick(0.0, a), small.pick(1.0, b)))]

    return a.f.where_any(~small, rare, [rest])[0]


def fmod(a: Lanes, b: Lanes) -> Lanes:
    """Return what is left of a number after a division, with the sign of the number."""
    return _rest(a, b).signed_as(a)


def remainder(a: Lanes, b: Lanes) -> Lanes:
    """Return what is left of a number after a division, with the sign of the divisor."""
    return _with_sign_of(b, _rest(a, b))


def floor_divide(a: Lanes, b: Lanes) -> Lanes:
    """Return the quotient, rounded down."""
    small, whole, rest = _divided(a, b)
    usual = _opposite(rest, b).pick(whole - 1.0, whole)

    def rare() -> list[Lanes]:
        none = _is_zero(b)
        x, y = (small | none).pick(0.0, a), (small | none).pick(1.0, b)
        rest = _modulo(x, y)
        quotient = (x - rest) / y
        quotient = _opposite(rest, y).pick(quotient - 1.0, quotient)
        floor = quotient.rounded("floor")
        above = quotient - floor
        above = above.between(0.5, 1.5) & ~above.bits().equals(a.f.form.bits_of(0.5))
        found = above.pick(floor + 1.0, floor)
        sign = (a.bits() ^ b.bits()).real()
        found = _is_zero(quotient).pick(a.f.real(0.0).signed_as(sign), found)
        found = none.pick(none.pick(a, 1.0).fenced() / none.pick(b, 1.0).fenced(), found)
        return [small.pick(usual, found)]

    return a.f.where_any(~small, rare, [usual])[0]
