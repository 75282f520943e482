"""The functions by name, and the text of LLVM's functions for them.

`FORMULAS` has them by NumPy's ufunc: exponentials, logarithms, powers, roots and hyperbolic
functions (powers.py), and, here, sine, cosine and tangent, which subtract quarter turns from their
argument and compute polynomials of the rest, quotients and remainders. `OWN` has the names of those
that kernels of whole arrays compute, too; ufuncs.py fills it when it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.native.elementary import powers
from lazyflow.array.kernels.native.elementary.lanes import (
    DOUBLE,
    INFINITY,
    SINGLE,
    WIDTH,
    Lanes,
    VectorFunction,
    polynomial,
    product,
    quick_sum,
    quotient,
    squared,
    two_sum,
)
from lazyflow.array.kernels.native.elementary.powers import unit_scale

#: pi / 2 in parts of 53 bits
QUARTER = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_PARTS = "{ i64, double, double }"

#: (sin(r) / r - 1) / z and (cos(r) - 1 + z / 2) / z**2, z = r**2, |r| <= pi / 4, within 2**-58 / z,
#: 2**-33 / z
_SIN = (
    (
        *(-0.16666666666666632, 0.008333333333322512, -0.00019841269829863126),
        *(2.755731370582561e-06, -2.5050759691502256e-08, 1.5896860138726917e-10),
    ),
    (-0.166666672, 0.00833332911, -0.000198393318, 2.71827594e-06),
)
_COS = (
    (
        *(0.041666666666666616, -0.0013888888888876074, 2.480158729053713e-05),
        *(-2.7557314622380855e-07, 2.087575634738269e-09, -1.1361210272002209e-11),
    ),
    (0.0416666456, -0.00138873723, 2.44387647e-05),
)


class Turned(NamedTuple):
    """``x = n * pi / 2 + high + low``; the low bits of `bits` are those of n."""

    bits: Lanes
    high: Lanes
    low: Lanes


def turned(x: Lanes) -> Turned:
    """Take off the nearest multiple of a quarter turn."""
    p, quarter = x.f.form, x.f.form.parts(*QUARTER)
    large = 2.0**17 if p is SINGLE else 2.0**20
    usual = x.size_below(large)
    own = x.abs().between(p.tiny, large).pick(x, 0.0)
    near = own.times(1 / quarter[0], p.rounder)
    n = near - p.rounder
    rest = n.exactly(-quarter[0], own)  # without a rounding
    second, error = product(n, quarter[1])
    high, low = quick_sum(rest, -second)  # `rest` is a multiple of the other's last place
    low = n.times(-quarter[2], low - error)

    def rare() -> list[Lanes]:
        finite = x.size_below(INFINITY)
        quarters, part, least = _by_lane((~usual & finite).pick(x, large))
        first, error = product(part, quarter[0])
        least = error + part.times(quarter[1], least * quarter[0])
        return [
            usual.pick(near.bits(), quarters),
            usual.pick(high, finite.pick(first, x.fenced() - x)),
            usual.pick(low, least),
        ]

    return Turned(*x.f.where_any(~usual, rare, [near.bits(), high, low]))


def _by_lane(x: Lanes) -> list[Lanes]:
    """Return what TURNED_LANE gives of each lane."""
    f, kinds, single = x.f, ("i64", "double", "double"), x.f.form is SINGLE
    made = [Lanes(f, kind, "poison") for kind in kinds]
    if single:
        x = x.to("double", "fpext")
    for lane in range(WIDTH):
        one = f.scalar(f"extractelement {x.type} {x.name}, i64 {lane}")
        found = f.scalar(f"call {_PARTS} @math.turned_lane(double {one})")
        for at, kind in enumerate(kinds):
            part = f.scalar(f"extractvalue {_PARTS} {found}, {at}")
            before = f"{made[at].type} {made[at].name}"
            made[at] = f.let(kind, f"insertelement {before}, {kind} {part}, i64 {lane}")
    if single:
        first = made[1].to("float", "fptrunc")
        again = first.to("double", "fpext")
        rest = f.let("double", f"fsub {again.type} {made[1].name}, {again.name}")
        made = [made[0].to("i32", "trunc"), first, rest.to("float", "fptrunc")]
    return made


def _both(x: Turned, for_quotient: bool) -> tuple[tuple[Lanes, Lanes], tuple[Lanes, Lanes]]:
    """Return the sine and the cosine of what is left of a quarter turn, in two parts each."""
    z, left = product(x.high, x.high) if for_quotient else squared(x.high)
    half = z * -0.5
    rest = x.low.times(half, x.low)
    if for_quotient:
        rest = (left * x.high).times(-1 / 6, rest)
    sine = (x.high * z).times(polynomial(z, *_SIN), rest)
    most, rest = quick_sum(1.0, half)
    rest = x.high.times(-x.low, left.times(-0.5, rest))
    return (x.high, sine), (most, (z * z).times(polynomial(z, *_COS), rest))


def _sine(x: Turned, quarters: int) -> Lanes:
    """Return the sine of an angle and a number of quarter turns."""
    bits = x.bits + quarters if quarters else x.bits
    sine, cosine = _both(x, False)
    even = (bits & 1).equals(0)
    y = even.pick(sine[0], cosine[0]) + even.pick(sine[1], cosine[1])
    return (y.bits() ^ ((bits & 2) << bits.f.form.bits - 2)).real()


def sin(x: Lanes) -> Lanes:
    """Return the sine."""
    return x.size_below(x.f.form.tiny).pick(x, _sine(turned(x), 0))


def cos(x: Lanes) -> Lanes:
    """Return the cosine."""
    return _sine(turned(x), 1)


def tan(x: Lanes) -> Lanes:
    """Return the tangent."""
    angle = turned(x)
    sine, cosine = [quick_sum(*parts) for parts in _both(angle, True)]
    even = (angle.bits & 1).equals(0)
    above = [even.pick(a, -b) for a, b in zip(sine, cosine, strict=True)]
    below = [even.pick(b, a) for a, b in zip(sine, cosine, strict=True)]
    high, low = quotient(*above, *below)
    return x.size_below(x.f.form.tiny).pick(x, high + low)


def _two_by_pi(bits: int) -> int:
    """Return ``2**bits * 2 / pi``, rounded down."""
    one = 1 << bits + 64
    inverses = []
    for n in (5, 239):
        total, term, at = 0, one // n, 1
        while term:
            total += term // at if at % 4 == 1 else -(term // at)
            term //= n * n
            at += 2
        inverses.append(total)
    pi = 16 * inverses[0] - 4 * inverses[1]
    return (1 << 2 * bits + 65) // pi


#: Of numbers from 2**17 on: their product with as many bits of 2 / pi as matter, in integers; the
#: quarter turns, and what is left of one in two parts.
TURNED_LANE = f"""
@math.two_by_pi = internal constant i1408 {_two_by_pi(1280)}
define internal {_PARTS} @math.turned_lane(double %x) noinline {{
  %bits = bitcast double %x to i64
  %field = lshr i64 %bits, 52
  %exponent = and i64 %field, 2047
  %fraction = and i64 %bits, {(1 << 52) - 1}
  %whole = or i64 %fraction, {1 << 52}
  %skip = sub i64 2101, %exponent
  %bytes = lshr i64 %skip, 3
  %from = getelementptr i8, ptr @math.two_by_pi, i64 %bytes
  %words = load i320, ptr %from, align 1
  %skipped = and i64 %skip, 7
  %by = zext i64 %skipped to i320
  %moved = lshr i320 %words, %by
  %window = trunc i320 %moved to i256
  %factor = zext i64 %whole to i256
  %turns = mul i256 %window, %factor
  %rounded = add i256 %turns, {1 << 253}
  %n = lshr i256 %rounded, 254
  %quarters = trunc i256 %n to i64
  %left = shl i256 %turns, 2
  %above = icmp slt i256 %left, 0
  %missing = sub i256 0, %left
  %size = select i1 %above, i256 %missing, i256 %left
  %zeros = call i256 @llvm.ctlz.i256(i256 %size, i1 false)
  %top = shl i256 %size, %zeros
  %upper = lshr i256 %top, 203
  %first = trunc i256 %upper to i64
  %lower = lshr i256 %top, 150
  %both = trunc i256 %lower to i64
  %second = and i64 %both, {(1 << 53) - 1}
  %count = trunc i256 %zeros to i64
  %power = sub i64 970, %count
  %scale = shl i64 %power, 52
  %unit = bitcast i64 %scale to double
  %small = fmul double %unit, {2.0**-53}
  %a = uitofp i64 %first to double
  %b = uitofp i64 %second to double
  %high = fmul double %a, %unit
  %low = fmul double %b, %small
  %minus = icmp slt i64 %bits, 0
  %back = sub i64 0, %quarters
  %turned = select i1 %minus, i64 %back, i64 %quarters
  %opposite = xor i1 %minus, %above
  %high.minus = fneg double %high
  %low.minus = fneg double %low
  %high.end = select i1 %opposite, double %high.minus, double %high
  %low.end = select i1 %opposite, double %low.minus, double %low
  %made.0 = insertvalue {_PARTS} poison, i64 %turned, 0
  %made.1 = insertvalue {_PARTS} %made.0, double %high.end, 1
  %made = insertvalue {_PARTS} %made.1, double %low.end, 2
  ret {_PARTS} %made
}}
"""


# -- the inverse tangent, of a number or of two sides -------------------------------------

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
    result = _within_half_turn(_angle(usual.pick(a, 0.0), usual.pick(b, 1.0)), negative)

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
        return [usual.pick(result, slight.pick(ratio, (finite | infinite).pick(angle, top)))]

    return x.f.where_any(~usual, rare, [result])[0].signed_as(y)


# -- divisions with whole quotients: NumPy's bits, by one division where the quotient is not large


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


Formula = Callable[..., Lanes]

FORMULAS: dict[np.ufunc, Formula] = {
    np.arctan: arctan,
    np.arctan2: arctan2,
    np.cos: cos,
    np.cosh: powers.cosh,
    np.exp: powers.exp,
    np.exp2: powers.exp2,
    np.expm1: powers.expm1,
    np.float_power: powers.power,
    np.floor_divide: floor_divide,
    np.fmod: fmod,
    np.hypot: powers.hypot,
    np.log: powers.log,
    np.log10: powers.log10,
    np.log1p: powers.log1p,
    np.log2: powers.log2,
    np.logaddexp: powers.logaddexp,
    np.power: powers.power,
    np.remainder: remainder,
    np.sin: sin,
    np.sinh: powers.sinh,
    np.tan: tan,
    np.tanh: powers.tanh,
}
#: The functions that ufuncs of ufuncs.py compute.
OWN: dict[Any, str] = {}

_BY_NAME = {ufunc.__name__: formula for ufunc, formula in FORMULAS.items()}


def has_feature(name: str) -> bool:
    """Return whether the processor has a feature, by NumPy's name for it."""
    core: Any = np._core._multiarray_umath  # type: ignore[attr-defined]
    return bool(core.__cpu_features__.get(name))


def multiplies_and_adds() -> bool:
    """Return whether the processor rounds once when it multiplies and adds."""
    return has_feature("FMA3")


@cache
def _lines(name: str, fused: bool) -> tuple[str, ...]:
    if name == "turned_lane":
        return tuple(TURNED_LANE.splitlines())
    ufunc, _, real = name.partition(".")
    function = VectorFunction(fused, {form.real: form for form in (DOUBLE, SINGLE)}[real])
    formula = _BY_NAME[ufunc]
    count = formula.__code__.co_argcount
    given = [Lanes(function, real, f"%x{at}") for at in range(count)]
    result = formula(*given)
    function.do(f"ret {result.type} {result.name}")
    named = ", ".join(f"{x.type} {x.name}" for x in given)
    return (f"define internal {result.type} @math.{name}({named}) {{", *function.lines, "}")


def definitions(lines: Iterable[str], fused: bool | None = None) -> list[str]:
    """Return the text of the functions that lines call."""
    fused = multiplies_and_adds() if fused is None else fused
    known: dict[str, tuple[str, ...]] = {}
    new = list(lines)
    while new:
        called = {name for line in new for name in re.findall(r"call .* @math\.([\w.]+)", line)}
        made = {name: _lines(name, fused) for name in sorted(called - known.keys())}
        known |= made
        new = [line for each in made.values() for line in each]
    found = [line for each in known.values() for line in each]
    return [*found, '!0 = !{!"branch_weights", i32 1, i32 2000}'] if found else []
