"""Draws as arithmetic on words: each turns the 128 random bits of a counter into 2 or 4 elements.

The bits come from Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
1, 2, 3, 2011). The key is of the seed. The counter is the element's flat place, divided by the
elements of a counter, then the number of the try, that of the call, and more of the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any, NamedTuple, Protocol

import numpy as np

Step = Callable[[Any], tuple[tuple[Any, ...], tuple[Any, ...]]]

# Of Philox4x32-10, as published: `_LOW` takes the low word of 32 bits.
_LOW = 0xFFFFFFFF
_ROUNDS = 10  # rounds of the generator
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85

#: Places of the parameters of a draw: two keys for each round, the last two words of the counter;
#: then its own ones: for whole numbers the lowest, how many there are, and the bound of what is
#: refused; for a table what is added to a place, a shift, and the first cell of the guide; for
#: equal distances the first, the distance, the place of the last, and the last.
CALL, SEED, LEAST, COUNT, REFUSED = range(2 * _ROUNDS, 2 * _ROUNDS + 5)
_SHIFT, CELLS = COUNT, REFUSED
_LAST, _END = REFUSED, REFUSED + 1


class Machine(Protocol):
    """Arithmetic for formulas: on words of 64 bits, floats and truth values."""

    group: Any  # the numbers of the counters

    def param(self, number: int) -> Any:
        """Return a parameter, a word."""

    def at(self, place: Any) -> Any:
        """Return the parameters at some places, which are words."""

    def number(self, word: Any) -> Any:
        """Return the float that is nearest to a word, read as a signed number."""

    def bits(self, value: Any) -> Any:
        """Return the bits of a float, as a word."""

    def of_bits(self, word: Any) -> Any:
        """Return the float that has these bits."""

    def sqrt(self, value: Any) -> Any:
        """Return a square root."""

    def below(self, one: Any, other: Any) -> Any:
        """Tell whether a word is less than another, without signs."""

    def where(self, which: Any, yes: Any, no: Any) -> Any:
        """Return one of two values."""

    def repeat(self, step: Step) -> tuple[Any, ...]:
        """Return the values of the first try that does not refuse them.

        step
            Called with the number of a try: returns values, and for each whether it is refused.
        """


def parameters(key: tuple[int, int, int], call: int, own: bytes) -> Any:
    """Return the words that a formula reads, of a `PlacedDraw`."""
    words = *schedule(key[:2]), call & _LOW, key[2] ^ call >> 32
    return np.frombuffer(words_of(*words) + own, np.uint64)


def words_of(*numbers: int) -> bytes:
    """Return whole numbers as words of 64 bits."""
    return np.array([n % 2**64 for n in numbers], np.uint64).tobytes()


def schedule(key: tuple[int, int]) -> list[int]:
    """Return the keys of all rounds."""
    return [(k + n * w) & _LOW for n in range(_ROUNDS) for k, w in zip(key, _WEYL, strict=True)]


def philox(m: Machine, counter: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
    """Return four random words of 32 bits; what stands above these bits means nothing."""
    a, b, c, d = counter
    for n in range(_ROUNDS):
        first, second = (a & _LOW) * _MULTIPLIERS[0], (c & _LOW) * _MULTIPLIERS[1]
        a, b, c, d = (
            (second >> 32) ^ b ^ m.param(2 * n), second,
            (first >> 32) ^ d ^ m.param(2 * n + 1), first,
        )
    return a, b, c, d


def _four(m: Machine, attempt: Any = 0) -> tuple[Any, ...]:
    high = (m.group >> 32) | (attempt << 24)
    found = philox(m, (m.group, high, m.param(CALL), m.param(SEED)))
    return tuple([x & _LOW for x in found])


def _two(m: Machine, attempt: Any = 0) -> tuple[Any, Any]:
    a, b, c, d = _four(m, attempt)
    return a | (b << 32), c | (d << 32)


# -- floats ---------------------------------------------------------------------------------------


def _uniform(m: Machine) -> tuple[Any, ...]:
    return tuple([m.number(x >> 11) * 2.0**-53 for x in _two(m)])


def _uniform_single(m: Machine) -> tuple[Any, ...]:
    return tuple([m.number(x >> 8) * 2.0**-24 for x in _four(m)])


def _inside(m: Machine, word: Any) -> Any:
    """Return a float between 0 and 1 that is neither, as likely as its distance from 1."""
    return m.number((word >> 11) | 1) * 2.0**-53


def _log(m: Machine, x: Any) -> Any:
    """Return the logarithm of a normal positive float, within 1 ulp, as fdlibm computes it."""
    shifted = m.bits(x) + (0x3FF0000000000000 - 0x3FE6A09E00000000)
    exponent = m.number((shifted >> 52) - 0x3FF)
    fraction = (shifted & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E00000000
    f = m.of_bits(fraction) - 1.0
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    odd = w * (w * (w * 0.1531383769920937332 + 0.2222219843214978396) + 0.3999999999940941908)
    even = z * (
        w * (w * (w * 0.1479819860511658591 + 0.1818357216161805012) + 0.2857142874366239149)
        + 0.6666666666666735130
    )
    half = f * f * 0.5
    rest = s * (half + (odd + even)) + exponent * 1.90821492927058770002e-10
    return exponent * 6.93147180369123816490e-01 - ((half - rest) - f)


def _turned(m: Machine, word: Any) -> tuple[Any, Any]:
    """Return cosine and sine of an angle drawn evenly: an eighth of a turn, sign, and exchange."""
    x = m.number(word << 2 | 2) * (pi / 2 * 2.0**-64)
    z = x * x
    sine = z * 1.58969099521155010221e-10
    for c in (
        -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
        8.33333333332248946124e-03,
    ):
        sine = (sine + c) * z
    sine = x * z * (sine + -1.66666666666666324348e-01) + x
    cosine = z * -1.13596475577881948265e-11
    for c in (
        2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
        -1.38888888888741095749e-03, 4.16666666666666019037e-02,
    ):
        cosine = (cosine + c) * z
    cosine = 1.0 - (z * 0.5 - z * cosine)
    cosine = m.of_bits(m.bits(cosine) ^ (word & (1 << 63)))
    straight = m.below(word & (1 << 62), 1)
    return m.where(straight, cosine, sine), m.where(straight, sine, cosine)


def _normal(m: Machine, attempt: Any = 0) -> tuple[Any, ...]:
    """Box and Muller (1958)."""
    one, other = _two(m, attempt)
    radius = m.sqrt(_log(m, _inside(m, one)) * -2.0)
    x, y = _turned(m, other)
    return radius * x, radius * y


def _waited(m: Machine, word: Any) -> Any:
    """Return an exponential draw."""
    return _log(m, _inside(m, word)) * -1.0


def _laplace(m: Machine) -> tuple[Any, ...]:
    return tuple([m.of_bits(m.bits(_waited(m, x)) ^ (x << 63)) for x in _two(m)])


def _logistic(m: Machine) -> tuple[Any, ...]:
    drawn = [_inside(m, x) for x in _two(m)]
    return tuple([_log(m, x) - _log(m, 1.0 - x) for x in drawn])


def _gumbel(m: Machine) -> tuple[Any, ...]:
    return tuple([_log(m, _waited(m, x)) * -1.0 for x in _two(m)])


def _cauchy(m: Machine) -> tuple[Any, ...]:
    turned = [_turned(m, x) for x in _two(m)]
    return tuple([x / y for x, y in turned])


def _gamma(m: Machine) -> tuple[Any, ...]:
    """Marsaglia and Tsang (2000), for a shape of 1 or more."""
    shape = m.of_bits(m.param(LEAST)) - 1 / 3
    width = 1.0 / m.sqrt(shape * 9.0)

    def step(attempt: Any) -> Any:
        values, refused = [], []
        words = _two(m, attempt + attempt + 1)
        for x, word in zip(_normal(m, attempt + attempt), words, strict=True):
            side = x * width + 1.0
            cube = side * side * side
            inside = m.below(m.bits(cube) - (1 << 52), (1 << 63) - (1 << 52))  # and normal
            v = m.where(inside, cube, 1.0)
            chance = x * x * 0.5 + shape * (_log(m, v) - (v - 1.0))
            below = (m.bits(chance - _log(m, _inside(m, word))) >> 63) ^ 1
            values.append(v * shape)
            refused.append(m.below(below, 1) | ~inside)
        return tuple(values), tuple(refused)

    return m.repeat(step)


# -- whole numbers (Lemire 2019) ------------------------------------------------------------------


def _short_range(m: Machine) -> tuple[Any, ...]:
    def step(attempt: Any) -> Any:
        found = [x * m.param(COUNT) for x in _four(m, attempt)]
        values = tuple([(x >> 32) + m.param(LEAST) for x in found])
        return values, tuple([m.below(x & _LOW, m.param(REFUSED)) for x in found])

    return m.repeat(step)


def _long_range(m: Machine) -> tuple[Any, ...]:
    def step(attempt: Any) -> Any:
        found = _two(m, attempt)
        values = tuple([_high(x, m.param(COUNT)) + m.param(LEAST) for x in found])
        return values, tuple([m.below(x * m.param(COUNT), m.param(REFUSED)) for x in found])

    return m.repeat(step)


def _high(x: Any, y: Any) -> Any:
    """Return the upper 64 of the 128 bits of a product."""
    a, b, c, d = x & _LOW, x >> 32, y & _LOW, y >> 32
    middle, other = a * d, b * c
    carry = ((a * c) >> 32) + (middle & _LOW) + (other & _LOW)
    return b * d + (middle >> 32) + (other >> 32) + (carry >> 32)


def _listed(m: Machine) -> tuple[Any, ...]:
    """Return places in a table: see draw.py."""
    words = _two(m)
    starts = [m.at((x >> m.param(_SHIFT)) + CELLS) for x in words]

    def step(attempt: Any) -> Any:
        places = [x + attempt for x in starts]
        fit = [m.below(x >> 1, m.at(place)) for x, place in zip(words, places, strict=True)]
        return tuple([x + m.param(LEAST) for x in places]), tuple([~x for x in fit])

    return m.repeat(step)


def _words(m: Machine) -> tuple[Any, ...]:
    return tuple(_two(m))


# -- numbers at equal distances -------------------------------------------------------------------


def _whole_steps(m: Machine) -> tuple[Any, ...]:
    return (m.group * m.param(COUNT) + m.param(LEAST),)


def _steps(m: Machine) -> tuple[Any, ...]:
    return (m.where(m.below(m.group, 1), m.of_bits(m.param(LEAST)), _along(m)),)  # it may be -0.0


def _along(m: Machine) -> Any:
    return m.number(m.group) * m.of_bits(m.param(COUNT)) + m.of_bits(m.param(LEAST))


def _line(m: Machine) -> tuple[Any, ...]:
    """Return floats from the first on, a step apart; the last is given."""
    before = m.below(m.group, m.param(_LAST))
    return (m.where(before, _along(m), m.of_bits(m.param(_END))),)


class Formula(NamedTuple):
    """How many elements a counter gives, and the function of a machine that gives them."""

    elements: int
    compute: Callable[[Machine], tuple[Any, ...]]


FORMULAS = {
    "uniform": Formula(2, _uniform),
    "uniform_single": Formula(4, _uniform_single),
    "inside": Formula(2, lambda m: tuple([_inside(m, x) for x in _two(m)])),
    "normal": Formula(2, _normal),
    "exponential": Formula(2, lambda m: tuple([_waited(m, x) for x in _two(m)])),
    "laplace": Formula(2, _laplace),
    "logistic": Formula(2, _logistic),
    "gumbel": Formula(2, _gumbel),
    "cauchy": Formula(2, _cauchy),
    "gamma": Formula(2, _gamma),
    "short_range": Formula(4, _short_range),
    "long_range": Formula(2, _long_range),
    "listed": Formula(2, _listed),
    "words": Formula(2, _words),
    "whole_steps": Formula(1, _whole_steps),
    "steps": Formula(1, _steps),
    "line": Formula(1, _line),
}
