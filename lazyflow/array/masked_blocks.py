"""NumPy's masked arrays, made of blocks of values and blocks of masks: what tasks of `ma` do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def joined(data: Any, mask: Any, fill: Any) -> Any:
    if not isinstance(data, np.ndarray):
        return np.ma.masked if mask else data
    return np.ma.MaskedArray(data, mask, fill_value=fill)


@dataclass(frozen=True)
class OfPairs:
    """Calls a function with NumPy's masked arrays for pairs of blocks of values and masks."""

    func: Callable[..., Any]
    paired: tuple[bool, ...]

    @property
    def __name__(self) -> str:
        return getattr(self.func, "__name__", "map_blocks")

    def __call__(self, *blocks: Any, **kwargs: Any) -> Any:
        given = iter(blocks)
        args = [np.ma.MaskedArray(next(given), next(given)) if two else next(given)
                for two in self.paired]
        return self.func(*args, **kwargs)
