"""Operations as LLVM instructions on vectors: only those that give the same bits everywhere.

These are IEEE's own operations, comparisons, integers that wrap, selections, casts whose result is
defined, and the functions of elementary/. All other ufuncs are called at the addresses of their
loops (kernels.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lazyflow.array.kernels.native.elementary.formulas import OWN, has_feature
from lazyflow.array.kernels.native.elementary.lanes import WIDTH
from lazyflow.array.kernels.program import CAST, WHERE

# -- basic blocks of LLVM's text, and the types of values in registers and in memory ------


DType = np.dtype[Any]

FLOATS = {np.dtype("f4"): "float", np.dtype("f8"): "double"}
BOOL = np.dtype(bool)
HALF = np.dtype("f2")  # is computed in f4, and rounded after each operation, as NumPy does
SUPPORTED = {np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)} | {
    BOOL,
    *FLOATS,
}
#: What elements of kernels may be; to round to half precision takes an instruction.
ELEMENTS = SUPPORTED | ({HALF} if has_feature("F16C") else set())


class Body:
    """The lines of a basic block; names are numbered through the whole function.

    apart
        The lanes of a vector are read from and written to places of their own.
    """

    def __init__(
        self, width: int, lines: list[str], names: list[int], apart: bool = False
    ) -> None:
        self.width = width
        self.apart = apart
        self.lines = lines
        self._names = names

    def at(self, width: int) -> Body:
        """Return the block for vectors of another width."""
        return self if width == self.width else Body(width, self.lines, self._names)

    def name(self) -> str:
        """Return a new name."""
        self._names[0] += 1
        return f"%v{self._names[0]}"

    def let(self, text: str) -> str:
        """Add an instruction; return the name of its result."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {text}")

    def wide(self, scalar: str) -> str:
        """Return the type of vectors of this body's width."""
        return scalar if self.width == 1 else f"<{self.width} x {scalar}>"

    def type(self, dtype: DType) -> str:
        """Return the type of values of a dtype in registers."""
        return self.wide(register(dtype))

    def fixed(self, scalar: str, value: str) -> str:
        """Return a constant, the same in all lanes."""
        if self.width == 1:
            return value
        return f"<{', '.join([f'{scalar} {value}'] * self.width)}>"

    def zero(self, dtype: DType) -> str:
        """Return zeros."""
        return self.fixed(register(dtype), "0.0" if dtype.kind == "f" else "0")

    def splat(self, value: str, dtype: DType) -> str:
        """Return a value in all lanes."""
        if self.width == 1:
            return value
        kind = self.type(dtype)
        one = self.let(f"insertelement {kind} poison, {register(dtype)} {value}, i64 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.let(f"shufflevector {kind} {one}, {kind} poison, {zeros}")

    def intrinsic(self, name: str, dtype: DType, *operands: str) -> str:
        """Call an LLVM intrinsic on values of a dtype."""
        kind = self.type(dtype)
        suffix = ("" if self.width == 1 else f"v{self.width}") + f"f{8 * dtype.itemsize}"
        given = ", ".join(f"{kind} {x}" for x in operands)
        return self.let(f"call {kind} @llvm.{name}.{suffix}({given})")


def register(dtype: DType) -> str:
    """Return the LLVM type of one value in a register."""
    if dtype in FLOATS:
        return FLOATS[dtype]
    if dtype == HALF:
        return "half"
    return "i1" if dtype == BOOL else f"i{8 * dtype.itemsize}"


def memory(dtype: DType) -> str:
    """Return the LLVM type of one value in memory."""
    return "i8" if dtype == BOOL else register(dtype)


_I4, _U4, _I8, _U8, _F4 = map(np.dtype, ["i4", "u4", "i8", "u8", "f4"])

Emit = Callable[[Body, DType, list[str]], str]


def _plain(word: str) -> Emit:
    return lambda b, t, x: b.let(f"{word} {b.type(t)} {', '.join(x)}")


def _intrinsic(word: str) -> Emit:
    return lambda b, t, x: b.intrinsic(word, t, *x)


def _compare(word: str) -> Emit:
    return lambda b, t, x: b.let(f"{word} {b.type(t)} {x[0]}, {x[1]}")


def compare_quietly(b: Body, word: str, t: DType, x: list[str]) -> str:
    """Emit an ordered comparison that raises no flag for NaN, which an ``fcmp`` would."""
    suffix = ("" if b.width == 1 else f"v{b.width}") + f"f{8 * t.itemsize}"
    return b.let(
        f"call {b.wide('i1')} @llvm.experimental.constrained.fcmp.{suffix}({b.type(t)} {x[0]}, "
        f'{b.type(t)} {x[1]}, metadata !"{word}", metadata !"fpexcept.strict")'
    )


def _quiet(word: str) -> Emit:
    return lambda b, t, x: compare_quietly(b, word, t, x)


def _bits(b: Body, t: DType, x: str) -> tuple[str, str, str]:
    """Return the type of a float's bits, the bits, and the mask of the exponent."""
    word = f"i{8 * t.itemsize}"
    mask = {4: 0x7F800000, 8: 0x7FF0000000000000}[t.itemsize]
    return word, b.let(f"bitcast {b.type(t)} {x} to {b.wide(word)}"), b.fixed(word, str(mask))


def _isnan(b: Body, t: DType, x: list[str]) -> str:
    return b.let(f"fcmp uno {b.type(t)} {x[0]}, {x[0]}")


def _isfinite(b: Body, t: DType, x: list[str]) -> str:
    word, bits, mask = _bits(b, t, x[0])
    exponent = b.let(f"and {b.wide(word)} {bits}, {mask}")
    return b.let(f"icmp ne {b.wide(word)} {exponent}, {mask}")


def _isinf(b: Body, t: DType, x: list[str]) -> str:
    word, bits, mask = _bits(b, t, b.intrinsic("fabs", t, x[0]))
    return b.let(f"icmp eq {b.wide(word)} {bits}, {mask}")


def _signbit(b: Body, t: DType, x: list[str]) -> str:
    word, bits, _ = _bits(b, t, x[0])
    return b.let(f"icmp slt {b.wide(word)} {bits}, {b.fixed(word, '0')}")


def _reciprocal(b: Body, t: DType, x: list[str]) -> str:
    return b.let(f"fdiv {b.type(t)} {b.fixed(register(t), '1.0')}, {x[0]}")


def _extreme(word: str) -> Emit:
    return lambda b, t, x: _first_or_nan(b, word, t, x, x[0])


def of_numbers(b: Body, word: str, t: DType, x: list[str]) -> str:
    """Emit the first value where a comparison holds or the other is NaN, else the other.

    It is fmax or fmin, except that of two zeros of opposite signs either may be given, as by
    NumPy's loops.
    """
    return _first_or_nan(b, word, t, x, x[1])


def _first_or_nan(b: Body, word: str, t: DType, x: list[str], other: str) -> str:
    """Emit the first value where a comparison holds or `other` is NaN, else the second."""
    first = compare_quietly(b, word, t, x)
    which = b.let(f"or {b.wide('i1')} {first}, {_isnan(b, t, [other])}")
    return _select(b, t, [which, *x])


def _whole_extreme(word: str) -> Emit:
    def emit(b: Body, t: DType, x: list[str]) -> str:
        sign = "u" if t.kind == "u" else "s"
        which = b.let(f"icmp {sign}{word} {b.type(t)} {x[0]}, {x[1]}")
        return _select(b, t, [which, *x])

    return emit


def _select(b: Body, t: DType, x: list[str]) -> str:
    kind = b.type(t)
    return b.let(f"select {b.wide('i1')} {x[0]}, {kind} {x[1]}, {kind} {x[2]}")


def _negative(b: Body, t: DType, x: list[str]) -> str:
    return b.let(f"sub {b.type(t)} {b.zero(t)}, {x[0]}")


def _absolute(b: Body, t: DType, x: list[str]) -> str:
    if t.kind == "u":
        return x[0]
    low = b.let(f"icmp slt {b.type(t)} {x[0]}, {b.zero(t)}")
    return _select(b, t, [low, _negative(b, t, x), x[0]])


def _flipped(b: Body, t: DType, x: list[str]) -> str:
    return b.let(f"xor {b.type(t)} {x[0]}, {b.fixed(register(t), '-1')}")


def _order(word: str) -> Emit:
    def emit(b: Body, t: DType, x: list[str]) -> str:
        sign = "s" if t.kind == "i" else "u"
        return b.let(f"icmp {sign}{word} {b.type(t)} {x[0]}, {x[1]}")

    return emit


def truth(b: Body, t: DType, x: str) -> str:
    """Return whether values are other than zero."""
    if t == BOOL:
        return x
    word = "fcmp une" if t in FLOATS else "icmp ne"
    return b.let(f"{word} {b.type(t)} {x}, {b.zero(t)}")


def _logical(word: str) -> Emit:
    def emit(b: Body, t: DType, x: list[str]) -> str:
        return b.let(f"{word} {b.wide('i1')} {', '.join([truth(b, t, v) for v in x])}")

    return emit


def _logical_not(b: Body, t: DType, x: list[str]) -> str:
    return _flipped(b, BOOL, [truth(b, t, x[0])])


_ANY: dict[Any, Emit] = {
    np.positive: lambda b, t, x: x[0],
    np.logical_and: _logical("and"),
    np.logical_or: _logical("or"),
    np.logical_xor: _logical("xor"),
    np.logical_not: _logical_not,
}

_FLOAT: dict[Any, Emit] = _ANY | {
    np.add: _plain("fadd"),
    np.subtract: _plain("fsub"),
    np.multiply: _plain("fmul"),
    np.divide: _plain("fdiv"),
    np.negative: _plain("fneg"),
    np.absolute: _intrinsic("fabs"),
    np.fabs: _intrinsic("fabs"),
    np.sqrt: _intrinsic("sqrt"),
    np.floor: _intrinsic("floor"),
    np.ceil: _intrinsic("ceil"),
    np.trunc: _intrinsic("trunc"),
    np.rint: _intrinsic("rint"),
    np.copysign: _intrinsic("copysign"),
    np.square: lambda b, t, x: b.let(f"fmul {b.type(t)} {x[0]}, {x[0]}"),
    np.reciprocal: _reciprocal,
    np.maximum: _extreme("ogt"),
    np.minimum: _extreme("olt"),
    np.equal: _compare("fcmp oeq"),
    np.not_equal: _compare("fcmp une"),
    np.less: _quiet("olt"),
    np.less_equal: _quiet("ole"),
    np.greater: _quiet("ogt"),
    np.greater_equal: _quiet("oge"),
    np.isnan: _isnan,
    np.isfinite: _isfinite,
    np.isinf: _isinf,
    np.signbit: _signbit,
}

_COMPARED: dict[Any, Emit] = {
    np.equal: _compare("icmp eq"),
    np.not_equal: _compare("icmp ne"),
    np.less: _order("lt"),
    np.less_equal: _order("le"),
    np.greater: _order("gt"),
    np.greater_equal: _order("ge"),
    np.bitwise_and: _plain("and"),
    np.bitwise_or: _plain("or"),
    np.bitwise_xor: _plain("xor"),
    np.invert: _flipped,
}

_WHOLE: dict[Any, Emit] = (
    _ANY
    | _COMPARED
    | {
        np.add: _plain("add"),
        np.subtract: _plain("sub"),
        np.multiply: _plain("mul"),
        np.negative: _negative,
        np.absolute: _absolute,
        np.square: lambda b, t, x: b.let(f"mul {b.type(t)} {x[0]}, {x[0]}"),
        np.maximum: _whole_extreme("gt"),
        np.minimum: _whole_extreme("lt"),
    }
)

_TRUTH: dict[Any, Emit] = (
    _ANY
    | _COMPARED
    | {
        np.add: _plain("or"),
        np.multiply: _plain("and"),
        np.maximum: _plain("or"),
        np.minimum: _plain("and"),
    }
)


def _table(dtype: DType) -> dict[Any, Emit]:
    return _FLOAT if dtype in FLOATS else _TRUTH if dtype == BOOL else _WHOLE


def cast(b: Body, have: DType, want: DType, x: str) -> str:
    """Emit a cast."""
    if have == want:
        return x
    if have == HALF:
        return cast(b, _F4, want, b.let(f"fpext {b.type(HALF)} {x} to {b.type(_F4)}"))
    if want == HALF:
        single = cast(b, have, _F4, x)
        return b.let(f"fptrunc {b.type(_F4)} {single} to {b.type(HALF)}")
    if want == BOOL:
        return truth(b, have, x)
    if have in FLOATS and want not in FLOATS:
        return _to_whole(b, have, want, x)
    if have in FLOATS:
        word = "fpext" if want.itemsize > 4 else "fptrunc"
    elif want in FLOATS:
        word = "sitofp" if have.kind == "i" else "uitofp"
    elif want.itemsize > have.itemsize or have == BOOL:
        word = "sext" if have.kind == "i" else "zext"
    elif want.itemsize == have.itemsize:
        return x
    else:
        word = "trunc"
    return b.let(f"{word} {b.type(have)} {x} to {b.type(want)}")


def _to_whole(b: Body, have: DType, want: DType, x: str) -> str:
    # as a plain fptosi, there and back would be a truncation: other bits where it overflows
    if want.itemsize < 4:  # what C does: values beyond wrap, if they fit in 32 bits
        return cast(b, _I4, want, _to_whole(b, have, _I4, x))
    if want == _U8:  # the upper half is moved to the lower one, and back
        half = b.fixed(register(have), str(2.0**63))
        large = compare_quietly(b, "oge", have, [x, half])
        less = b.let(f"fsub {b.type(have)} {b.intrinsic('arithmetic.fence', have, x)}, {half}")
        x = _to_whole(b, have, _I8, _select(b, have, [large, less, x]))
        top = _select(b, _I8, [large, b.fixed("i64", str(-(1 << 63))), b.zero(_I8)])
        return b.let(f"xor {b.type(_I8)} {x}, {top}")
    many = "" if b.width == 1 else f"v{b.width}"
    name = f"fptosi.{many}i{8 * want.itemsize}.{many}f{8 * have.itemsize}"
    return b.let(
        f"call {b.type(want)} @llvm.experimental.constrained.{name}({b.type(have)} {x}, "
        f'metadata !"fpexcept.strict")'
    )


def elementary(b: Body, name: str, t: DType, x: list[str]) -> str:
    """Emit a call of an elementary function (see elementary/): of whole vectors."""
    assert b.width == WIDTH
    given = ", ".join(f"{b.type(t)} {v}" for v in x)
    return b.let(f"call {b.type(t)} @math.{name}.{register(t)}({given})")


def is_inline(op: Any, loop: tuple[DType, ...]) -> bool:
    """Return whether an operation is done by instructions, in registers."""
    if any(dtype not in ELEMENTS for dtype in loop):
        return False
    if op is CAST:  # NumPy rounds f8 once; its vectors and rests give floats beyond u4 other bits
        return loop[0].kind != "f" or (loop[1] != _U4 and (loop[0].itemsize < 8 or loop[1] != HALF))
    if op is WHERE or op in OWN:
        return True
    if HALF in loop and op in (np.maximum, np.minimum):  # it takes the other one of two zeros
        return False
    given = _in_single(loop[:-1])
    return op in _table(given[0]) and all(dtype == given[0] for dtype in given)


def _in_single(loop: tuple[DType, ...]) -> tuple[DType, ...]:
    return tuple([_F4 if dtype == HALF else dtype for dtype in loop])


def emit(b: Body, op: Any, loop: tuple[DType, ...], x: list[str]) -> str:
    """Emit an operation for which `is_inline` is true."""
    if op is CAST:
        return cast(b, loop[0], loop[1], x[0])
    if HALF in loop:
        single = _in_single(loop)
        given = [cast(b, *each) for each in zip(loop, single, x, strict=False)]
        return cast(b, single[-1], loop[-1], emit(b, op, single, given))
    if op is WHERE:
        if loop[1] in FLOATS:
            # AVX-512 would divide only where it is selected, and NumPy reports what it divides
            x = [x[0], *(b.intrinsic("arithmetic.fence", loop[1], v) for v in x[1:])]
        return _select(b, loop[1], x)
    if op in OWN:
        return elementary(b, OWN[op], loop[0], x)
    return _table(loop[0])[op](b, loop[0], x)
