"""Formulae on vectors, written in Python and kept as LLVM's instructions.

`a * b + 1.0` of two `Lanes` adds a multiplication and an addition to their function. All values
of a function are vectors of WIDTH floating-point numbers of its format, integers of as many bits,
or truth values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

WIDTH = 16  # lanes of all values: those of the vectors in kernels

Number = float | int


INFINITY = float("inf")


class Format(NamedTuple):
    """A format of floating-point numbers.

    real
        LLVM's type.
    code
        The format for `struct`.
    bits, fraction
        How many bits a number has, and how many of them are its fraction.
    ln2
        The logarithm of 2 in two parts; products of the first with exponents are exact.
    """

    real: str
    code: str
    bits: int
    fraction: int
    ln2: tuple[float, float]

    def bits_of(self, value: float) -> int:
        """Return the bits of a positive number."""
        return int.from_bytes(struct.pack(self.code, value))

    def nearest(self, value: float) -> float:
        """Return the nearest number of this format."""
        return float(struct.unpack(self.code, struct.pack(self.code, value))[0])

    def parts(self, *value: float) -> tuple[float, ...]:
        """Return the sum of some doubles as that of as many numbers of this format."""
        found, left = [], value[0]
        for following in (*value[1:], 0.0):
            found.append(self.nearest(left))
            left = left - found[-1] + following
        return tuple(found)

    @property
    def whole(self) -> str:
        """LLVM's type of integers of as many bits."""
        return f"i{self.bits}"

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return -1 << self.bits - 1

    @property
    def one(self) -> int:
        """The bits of 1."""
        return self.bits_of(1.0)

    @property
    def inf(self) -> int:
        """The bits of infinity."""
        return self.bits_of(INFINITY)

    @property
    def bias(self) -> int:
        """What is added to exponents."""
        return self.one >> self.fraction

    @property
    def least(self) -> float:
        """The least normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def tiny(self) -> float:
        """Below which numbers are their own sine, and one and they are one."""
        return 2.0 ** -(self.fraction + 4)

    @property
    def rounder(self) -> float:
        """Added to a number it leaves the nearest whole number in the low bits of the sum."""
        return 1.5 * 2.0**self.fraction

    @property
    def large(self) -> float:
        """Up to which exponentials are normal numbers."""
        return (self.bias - 1) * 0.69

    @property
    def beyond(self) -> float:
        """From which they are infinite or 0, also those of 2."""
        return self.bias + self.fraction + 1.0


DOUBLE = Format("double", ">d", 64, 52, (6.93147180369123816490e-01, 1.90821492927058770002e-10))
SINGLE = Format("float", ">f", 32, 23, (0.693359375, -0.00021219444005469057))


class VectorFunction:
    """The lines of an LLVM function.

    fused
        The processor multiplies and adds in one step.
    """

    def __init__(self, fused: bool, form: Format = DOUBLE) -> None:
        self.fused = fused
        self.form = form
        self.lines = ["entry:"]
        self.block = "entry"
        self._names = 0

    def name(self) -> str:
        """Return a new name, of a value or a label."""
        self._names += 1
        return f"v{self._names}"

    def do(self, text: str) -> None:
        """Add a line."""
        self.lines.append(f"  {text}")

    def let(self, kind: str, text: str) -> Lanes:
        """Add an instruction whose result is a vector of a kind."""
        return Lanes(self, kind, self.scalar(text))

    def scalar(self, text: str) -> str:
        """Add an instruction whose result is one value; return its name."""
        name = f"%{self.name()}"
        self.do(f"{name} = {text}")
        return name

    def number(self, kind: str, value: Number | Lanes) -> Lanes:
        """Return a constant, the same in all lanes; lanes as they are."""
        if isinstance(value, Lanes):
            assert value.kind == kind
            return value
        if kind == self.form.real:  # LLVM writes all formats as doubles
            text = "0x" + struct.pack(">d", self.form.nearest(value)).hex().upper()
        else:
            text = str(int(value))
        return Lanes(self, kind, f"splat ({kind} {text})")

    def real(self, value: float | Lanes) -> Lanes:
        """Return a constant number."""
        return self.number(self.form.real, value)

    def start(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def formula(self, name: str, *given: Lanes) -> Lanes:
        """Call another of the formulae."""
        return self.call(f"math.{name}.{self.form.real}", *given)

    def call(self, name: str, *given: Lanes) -> Lanes:
        """Call a function of vectors."""
        many = ", ".join(f"{x.type} {x.name}" for x in given)
        kind = self.form.real
        return self.let(kind, f"call <{WIDTH} x {kind}> @{name}({many})")

    def any_of(self, mask: Lanes) -> str:
        """Tell whether a mask holds in any lane."""
        return self.scalar(f"call i1 @llvm.vector.reduce.or.v{WIDTH}i1({mask.type} {mask.name})")

    def where_any(
        self, mask: Lanes, rare: Callable[[], Sequence[Lanes]], usual: Sequence[Lanes]
    ) -> list[Lanes]:
        """Return what `rare` gives if the mask holds in any lane, else the `usual` values."""
        some, before, join = f"some{self.name()}", self.block, f"join{self.name()}"
        self.do(f"br i1 {self.any_of(mask)}, label %{some}, label %{join}, !prof !0")
        self.start(some)
        found = rare()
        after = self.block
        self.do(f"br label %{join}")
        self.start(join)
        return [
            self.let(a.kind, f"phi {a.type} [ {a.name}, %{after} ], [ {b.name}, %{before} ]")
            for a, b in zip(found, usual, strict=True)
        ]


class Lanes:
    """A vector in a register; operators add instructions to its function."""

    __slots__ = ("f", "kind", "name")

    def __init__(self, f: VectorFunction, kind: str, name: str) -> None:
        self.f = f
        self.kind = kind
        self.name = name

    @property
    def type(self) -> str:
        """LLVM's type."""
        return f"<{WIDTH} x {self.kind}>"

    @property
    def is_zero(self) -> bool:
        """Whether these are a constant 0.0: nothing is added or multiplied then."""
        return self.name.endswith(" 0x0000000000000000)")

    def _do(self, real: str, whole: str, other: Number | Lanes) -> Lanes:
        word = real if self.kind == self.f.form.real else whole
        y = self.f.number(self.kind, other)
        if word == "fmul" and (self.is_zero or y.is_zero):
            return self if self.is_zero else y
        if y.is_zero and word in ("fadd", "fsub"):
            return self
        if self.is_zero and word in ("fadd", "fsub"):
            return y if word == "fadd" else -y
        return self.f.let(self.kind, f"{word} {self.type} {self.name}, {y.name}")

    def __add__(self, other: Number | Lanes) -> Lanes:
        return self._do("fadd", "add", other)

    def __sub__(self, other: Number | Lanes) -> Lanes:
        return self._do("fsub", "sub", other)

    def __rsub__(self, other: Number) -> Lanes:
        return self.f.number(self.kind, other) - self

    def __mul__(self, other: Number | Lanes) -> Lanes:
        return self._do("fmul", "mul", other)

    def __truediv__(self, other: Number | Lanes) -> Lanes:
        return self._do("fdiv", "", other)

    def __rtruediv__(self, other: Number) -> Lanes:
        return self.f.number(self.kind, other) / self

    def __and__(self, other: Number | Lanes) -> Lanes:
        return self._do("", "and", other)

    def __or__(self, other: Number | Lanes) -> Lanes:
        return self._do("", "or", other)

    def __xor__(self, other: Number | Lanes) -> Lanes:
        return self._do("", "xor", other)

    def __lshift__(self, count: int) -> Lanes:
        return self._do("", "shl", count)

    def __rshift__(self, count: int) -> Lanes:
        return self._do("", "lshr", count)

    def __neg__(self) -> Lanes:
        return self if self.is_zero else self.f.let(self.kind, f"fneg {self.type} {self.name}")

    def __invert__(self) -> Lanes:
        return self ^ -1

    def _compare(self, word: str, other: Number | Lanes) -> Lanes:
        y = self.f.number(self.kind, other)
        return self.f.let("i1", f"icmp {word} {self.type} {self.name}, {y.name}")

    def below(self, other: Number | Lanes) -> Lanes:
        """Compare integers without sign."""
        return self._compare("ult", other)

    def equals(self, other: Number | Lanes) -> Lanes:
        """Compare integers."""
        return self._compare("eq", other)

    def bits(self) -> Lanes:
        """Return the bits of numbers as integers."""
        return self.to(self.f.form.whole, "bitcast")

    def real(self) -> Lanes:
        """Return the numbers that have these bits."""
        return self.to(self.f.form.real, "bitcast")

    def to(self, kind: str, word: str) -> Lanes:
        """Return these values converted to another type by an instruction."""
        return self.f.let(kind, f"{word} {self.type} {self.name} to <{WIDTH} x {kind}>")

    def pick(self, a: Number | Lanes, b: Number | Lanes) -> Lanes:
        """Return `a` where these truth values hold, else `b`."""
        whole = type(a) is int or any(isinstance(x, Lanes) and x.kind[0] == "i" for x in (a, b))
        kind = self.f.form.whole if whole else self.f.form.real
        x, y = self.f.number(kind, a), self.f.number(kind, b)
        return self.f.let(
            kind, f"select {self.type} {self.name}, {x.type} {x.name}, {y.type} {y.name}"
        )

    def _intrinsic(self, word: str, *others: Number | Lanes) -> Lanes:
        given = [self, *map(self.f.real, others)]
        return self.f.call(f"llvm.{word}.v{WIDTH}f{self.f.form.bits}", *given)

    def abs(self) -> Lanes:
        """Return the absolute value."""
        return self._intrinsic("fabs")

    def size_below(self, limit: float) -> Lanes:
        """Tell whether the absolute value is below a limit (that of NaN is not), silently."""
        return self.abs().bits().below(self.f.form.bits_of(limit))

    def unless_nan(self, other: Lanes) -> Lanes:
        """Return the other number where this is one."""
        return self.abs().bits().below(self.f.form.inf + 1).pick(other, self)

    def between(self, low: float, high: float) -> Lanes:
        """Tell whether ``low <= self < high``, of positive limits."""
        first, last = map(self.f.form.bits_of, (low, high))
        return (self.bits() - first).below(last - first)

    def signed_as(self, other: Number | Lanes) -> Lanes:
        """Return this magnitude with the other's sign."""
        return self._intrinsic("copysign", other)

    def rounded(self, way: str) -> Lanes:
        """Return the whole number that LLVM's `floor` or `trunc` gives."""
        return self._intrinsic(way)

    def sqrt(self) -> Lanes:
        """Return the square root."""
        return self._intrinsic("sqrt")

    def fenced(self) -> Lanes:
        """Return the value; nothing is known of it, so that what follows raises its flags."""
        return self._intrinsic("arithmetic.fence")

    def times(self, factor: Number | Lanes, summand: Number | Lanes) -> Lanes:
        """Return ``self * factor + summand``, rounded once where the processor can, else twice."""
        zero = [self.f.real(x).is_zero for x in (self, factor, summand)]
        if self.f.fused and not any(zero):
            return self.exactly(factor, summand)
        return self * factor + summand

    def exactly(self, factor: Number | Lanes, summand: Number | Lanes) -> Lanes:
        """Return ``self * factor + summand`` rounded once, or nearly so."""
        if self.f.fused:
            return self._intrinsic("fma", factor, summand)
        y = self.f.real(factor)
        high = self * y
        (a, b), (c, d) = self.halves(), y.halves()
        low = b * d + (b * c + (a * d + (a * c - high)))
        total, rest = two_sum(high, self.f.real(summand))
        return total + (rest + low)

    def halves(self) -> tuple[Lanes, Lanes]:
        """Return two numbers of half as many bits that this is the sum of."""
        high = (self.bits() & (-1 << (self.f.form.fraction + 2) // 2)).real()
        return high, self - high


def two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Return the sum and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def quick_sum(a: Lanes | float, b: Lanes) -> tuple[Lanes, Lanes]:
    """Return the sum and its error, where ``a`` is not the smaller one."""
    total = b + a
    return total, b - (total - a)


def product(a: Lanes, b: Lanes | float) -> tuple[Lanes, Lanes]:
    """Return the product and its error."""
    high = a * b
    return high, a.exactly(b, -high)


def squared(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return the square and its error, which is left out in single precision."""
    return (x * x, x.f.real(0.0)) if x.f.form is SINGLE else product(x, x)


def quotient(a: Lanes, a_low: Lanes, b: Lanes, b_low: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``(a + a_low) / (b + b_low)`` and what it lacks."""
    inverse = 1.0 / b
    high = a * inverse
    rest = high.exactly(-b, a) + high.times(-b_low, a_low)
    return high, rest * inverse


def polynomial(x: Lanes, double: Sequence[float], single: Sequence[float] = ()) -> Lanes:
    """Return ``c[0] + c[1] * x + c[2] * x * x + ...``, in pairs, so that few steps wait.

    In single precision it may have coefficients of its own.
    """
    terms: list[float | Lanes] = list((x.f.form is SINGLE and single) or double)
    power = x
    while len(terms) > 1:
        pairs = [power.times(terms[at + 1], terms[at]) for at in range(0, len(terms) - 1, 2)]
        terms = [*pairs, *terms[len(pairs) * 2 :]]
        if len(terms) > 1:
            small = x.f.form is SINGLE and power is x  # whose higher powers would underflow
            power = (x.size_below(2.0**-15).pick(0.0, x) if small else power) * power
    assert isinstance(terms[0], Lanes)
    return terms[0]
