"""What a loop computes of the elements from an index on, in registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.kernels.lowering import LoweredStep
from lazyflow.array.kernels.native.blocks import Body
from lazyflow.array.kernels.native.llvm_text import Text
from lazyflow.array.kernels.native.operations import emit
from lazyflow.array.kernels.native.staging import KernelSpec
from lazyflow.array.kernels.planning import CONSTANT


def evaluated(
    b: Body, steps: Sequence[LoweredStep], read: Callable[[int], str]
) -> Callable[[int], str]:
    """Write steps; return a function of a value's number that gives it, read once at most."""
    values: dict[int, str] = {}

    def value(n: int) -> str:
        if n not in values:
            values[n] = read(n)
        return values[n]

    for step in steps:
        given = [value(n) for n in step.operands]
        values[step.results[0]] = emit(b, step.op, step.loop, given)
    return value


class Elements(NamedTuple):
    """What is reduced: a value, and how it is computed of others.

    lying
        The values of which there is one for each element.
    fixed
        Those that are the same for all.
    """

    value: int
    dtypes: tuple[np.dtype[Any], ...]
    steps: tuple[LoweredStep, ...]
    lying: tuple[int, ...]
    fixed: tuple[int, ...]

    def read(self, text: Text, b: Body, pointers: Mapping[int, str], index: str) -> str:
        """Write how the elements from an index on are read, or computed; return them."""

        def load(n: int) -> str:
            if n in self.fixed:
                return text.constants[n, b.width]
            return text.load(b, text.element(b, pointers[n], index, self.dtypes[n]), self.dtypes[n])

        return evaluated(b, self.steps, load)(self.value)


def elements_of(spec: KernelSpec, value: int) -> Elements:
    """Return what the reduction of a value reads: what a tile has, or sources."""
    if not (spec.in_place and spec.steps):
        return Elements(value, spec.dtypes, (), (value,), ())
    fixed = tuple([n for n, (_, layout) in enumerate(spec.sources) if layout == CONSTANT])
    lying = tuple([n for n in range(len(spec.sources)) if n not in fixed])
    return Elements(value, spec.dtypes, spec.steps, lying, fixed)
