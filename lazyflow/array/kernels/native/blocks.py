"""Basic blocks of LLVM's text, and the types of values in registers and in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.kernels.native.elementary.formulas import has_feature

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
