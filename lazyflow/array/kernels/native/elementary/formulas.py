"""The functions by name, and the text of LLVM's functions for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from lazyflow.array.kernels.native.elementary import powers, trigonometric
from lazyflow.array.kernels.native.elementary.lanes import DOUBLE, SINGLE, Lanes, VectorFunction

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
    np.arctan: trigonometric.arctan,
    np.arctan2: trigonometric.arctan2,
    np.cos: trigonometric.cos,
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
    np.sin: trigonometric.sin,
    np.sinh: powers.sinh,
    np.tan: trigonometric.tan,
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
        return tuple(trigonometric.TURNED_LANE.splitlines())
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
