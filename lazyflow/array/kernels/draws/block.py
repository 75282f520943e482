"""Blocks of draws that are not made yet: kernels make them as they go, and keep nothing of them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np


class DrawnBlock:
    """A region of a draw, for kernels an array whose addresses are places.

    draw
        Called with a region, returns its values.
    strides
        Places from one index to the next, for each axis.
    first
        The place of the first element.
    """

    nbytes = 0  # that are read

    def __init__(self, draw: Any, region: tuple[slice, ...]) -> None:
        self.draw = draw
        self.region = region
        self.dtype: np.dtype[Any] = draw.dtype
        self.shape = tuple([span.stop - span.start for span in region])
        self.size = prod(self.shape)
        whole: tuple[int, ...] = draw.shape
        self.strides = tuple([prod(whole[axis + 1:]) for axis in range(len(whole))])
        pairs = zip(region, self.strides, strict=True)
        self.first = sum([span.start * stride for span, stride in pairs])

    def array(self) -> np.ndarray[Any, Any]:
        """Return the values."""
        found: np.ndarray[Any, Any] = self.draw(self.region)
        return found


def is_drawn_in(block: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether kernels over a shape can make a block: rows of neighbours."""
    if type(block) is not DrawnBlock or block.shape != shape:
        return False
    return [stride for n, stride in zip(shape, block.strides, strict=True) if n > 1][-1:] == [1]


def made(block: Any) -> Any:
    """Return the array of a block."""
    return block.array() if type(block) is DrawnBlock else block
