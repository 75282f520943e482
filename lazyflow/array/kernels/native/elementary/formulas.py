"""The functions by name, and the text of LLVM's functions for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from lazyflow.array.kernels.native.elementary import (
    division,
    exponentials,
    inverses,
    logarithms,
    powers,
    trigonometric,
)
from lazyflow.array.kernels.native.elementary.lanes import (
    DOUBLE,
    SINGLE,
    Lanes,
    VectorFunction,
)

Formula = Callable[..., Lanes]

FORMULAS: dict[np.ufunc, Formula] = {
    np.arctan: inverses.arctan,
    np.arctan2: inverses.arctan2,
    np.cos: trigonometric.cos,
    np.cosh: exponentials.cosh,
    np.exp: exponentials.exp,
    np.exp2: exponentials.exp2,
    np.expm1: exponentials.expm1,
    np.float_power: powers.power,
    np.floor_divide: division.floor_divide,
    np.fmod: division.fmod,
    np.hypot: powers.hypot,
    np.log: logarithms.log,
    np.log10: logarithms.log10,
    np.log1p: logarithms.log1p,
    np.log2: logarithms.log2,
    np.logaddexp: logarithms.logaddexp,
    np.power: powers.power,
    np.remainder: division.remainder,
    np.sin: trigonometric.sin,
    np.sinh: exponentials.sinh,
    np.tan: trigonometric.tan,
    np.tanh: exponentials.tanh,
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
