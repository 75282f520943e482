"""Formulas computed by NumPy: where no kernel can be compiled, and for small parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.kernels.draws.formulas import Formula, Step

_MOST = 1 << 14  # elements at a time, so that what lies between stays in the cache


class _NumpyMachine:
    def __init__(self, group: Any, params: Any) -> None:
        self.group = group
        self._params = params

    def param(self, number: int) -> Any:
        return self._params[number]

    def at(self, place: Any) -> Any:
        return self._params[place]

    def number(self, word: Any) -> Any:
        return word.view(np.int64).astype(np.float64)

    def bits(self, value: Any) -> Any:
        return value.view(np.uint64)

    def of_bits(self, word: Any) -> Any:
        return word.view(np.float64)

    def sqrt(self, value: Any) -> Any:
        return np.sqrt(value)

    def below(self, one: Any, other: Any) -> Any:
        return one < other

    def where(self, which: Any, yes: Any, no: Any) -> Any:
        return np.where(which, yes, no)

    def repeat(self, step: Step) -> tuple[Any, ...]:
        values, refused = step(0)
        attempt = 0
        while any(x.any() for x in refused):
            attempt += 1
            others, again = step(attempt)
            trio = zip(refused, others, values, strict=True)
            values = tuple([np.where(which, new, old) for which, new, old in trio])
            refused = tuple([x & y for x, y in zip(refused, again, strict=True)])
        return values


def draw_rows(formula: Formula, params: Any, place: int, across: int, out: Any) -> None:
    """Write rows of elements: the first of them from a place on, each `across` places further."""
    rows, n = out.shape
    for low in range(0, n, _MOST):
        high = min(low + _MOST, n)
        many = max(1, _MOST // (high - low))
        for row in range(0, rows, many):
            some = out[row:row + many, low:high]
            some[...] = _rows(formula, params, place + row * across + low, across, some.shape)


def _rows(formula: Formula, params: Any, place: int, across: int, shape: Any) -> Any:
    each, (rows, n) = formula.elements, shape
    places = place + across * np.arange(rows)
    counters = (places // each)[:, None] + np.arange((n + each - 2) // each + 1)
    machine = _NumpyMachine(counters.reshape(-1).astype(np.uint64), params)
    found = np.stack(formula.compute(machine), axis=1).reshape(rows, -1)
    return np.take_along_axis(found, (places % each)[:, None] + np.arange(n), axis=1)
