"""What is drawn: a formula, a stream, and the shape of the array that places are counted in."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.kernels.draws.block import DrawnBlock
from lazyflow.array.kernels.draws.formulas import PAYS, parameters
from lazyflow.array.kernels.draws.tables import CHECKED


@dataclass(frozen=True)
class PlacedDraw:
    """An array each of whose elements is a function of its place.

    method
        What messages call it.
    formula
        A name in formulas.py.
    key, call
        Of the stream: three words of 32 bits, and the number of a call.
    own
        Words of 64 bits: parameters of the formula.
    few
        Called with a region of few elements, gives the same values sooner; or None.
    """

    method: str
    formula: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    key: tuple[int, int, int]
    call: int
    own: bytes = b""
    few: Any = None
    takes_out = True

    @property
    def __name__(self) -> str:
        return self.method

    @property
    def params(self) -> Any:
        """The words that the formula reads."""
        return parameters(self.key, self.call, self.own)

    def later(self, region: tuple[slice, ...]) -> DrawnBlock:
        """Return a region that is not made yet."""
        return DrawnBlock(self, region)

    def __call__(self, region: tuple[slice, ...], out: Any = None) -> np.ndarray[Any, Any]:
        shape = [span.stop - span.start for span in region]
        if self.few is not None and prod(shape) < PAYS:
            return copied(self.few(region), out)
        from lazyflow.array.kernels.draws.fill import fill

        if out is None:
            out = np.empty(shape, self.dtype)
        fill(self.formula, self.params, self.shape, region, out)
        return out


def copied(values: Any, out: Any) -> Any:
    """Return values, or what they are copied into."""
    if out is None:
        return values
    out[...] = values
    return out


def made_up_draw(formula: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> PlacedDraw:
    """Return a draw for checks of kernels."""
    return PlacedDraw("check", formula, dtype, shape, (1, 2, 3), 4, CHECKED.get(formula, b""))
