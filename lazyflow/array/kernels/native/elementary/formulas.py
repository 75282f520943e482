"""The functions by name, and the text of LLVM's functions for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from lazyflow.array.kernels.native.elementary.exponentials import exp
from lazyflow.array.kernels.native.elementary.lanes import WIDTH, Lanes, VectorFunction
from lazyflow.array.kernels.native.elementary.logarithms import log

Formula = Callable[..., Lanes]

FORMULAS: dict[np.ufunc, Formula] = {
    np.exp: exp,
    np.log: log,
}
#: The functions that ufuncs of ufuncs.py compute.
OWN: dict[Any, str] = {}

_BY_NAME = {ufunc.__name__: formula for ufunc, formula in FORMULAS.items()}
_VECTOR = f"<{WIDTH} x double>"


def multiplies_and_adds() -> bool:
    """Return whether the processor rounds once when it multiplies and adds."""
    core: Any = np._core._multiarray_umath  # type: ignore[attr-defined]
    return bool(core.__cpu_features__.get("FMA3"))


@cache
def _lines(name: str, fused: bool) -> tuple[str, ...]:
    function = VectorFunction(fused)
    formula = _BY_NAME[name]
    count = formula.__code__.co_argcount
    given = [Lanes(function, "double", f"%x{at}") for at in range(count)]
    result = formula(*given)
    function.do(f"ret {_VECTOR} {result.name}")
    named = ", ".join(f"{_VECTOR} {x.name}" for x in given)
    return (f"define internal {_VECTOR} @math.{name}({named}) {{", *function.lines, "}")


def definitions(lines: Iterable[str], fused: bool | None = None) -> list[str]:
    """Return the text of the functions that lines call."""
    fused = multiplies_and_adds() if fused is None else fused
    names = sorted({name for line in lines for name in re.findall(r"@math\.(\w+)", line)})
    found = [line for name in names for line in _lines(name, fused)]
    return [*found, '!0 = !{!"branch_weights", i32 1, i32 2000}'] if found else []
