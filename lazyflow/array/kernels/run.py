"""`run_program`: what fused tasks call; `merge`: what the tasks above them call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.kernels import moments
from lazyflow.array.kernels.lowering import Lowered, lower
from lazyflow.array.kernels.order import merge_reduced
from lazyflow.array.kernels.planning import Plan, Shape, make_plan
from lazyflow.array.kernels.program import Program, Reduction
from lazyflow.array.kernels.tiles import run_tiles

_MOST = 1024  # programs and plans that are remembered

#: By identity, because hashing a program costs as much as running a small one; the entry holds
#: the program, so that its id is not another's.
_known: dict[int, tuple[Program, Lowered, dict[tuple[Shape, ...], Plan]]] = {}


def _plan_for(program: Program, shapes: tuple[Shape, ...]) -> Plan:
    entry = _known.get(id(program))
    if entry is None or entry[0] is not program:
        if len(_known) >= _MOST:
            _known.clear()
        entry = _known[id(program)] = (program, lower(program), {})
    plans = entry[2]
    plan = plans.get(shapes)
    if plan is None:
        if len(plans) >= _MOST:
            plans.clear()
        plan = plans[shapes] = make_plan(entry[1], shapes)
    return plan


def run_program(program: Program, blocks: Sequence[np.ndarray | np.generic]) -> list[np.ndarray]:
    """Run a program over blocks that broadcast against each other.

    Parameters
    ----------
    program
        What is computed.
    blocks
        One for each input, with its dtype, any shape and any strides.

    Returns
    -------
    For each output a new contiguous array: of the shape that the blocks broadcast to, or, reduced,
    with reduced axes of length 1. Moments have a new first axis: count, mean, sum of squares.

    Examples
    --------
    >>> from lazyflow.array.kernels.program import Step
    >>> f8 = np.dtype("f8")
    >>> square = Step(np.multiply, (0, 0), (f8, f8, f8))
    >>> total = Reduction("sum", (0,), f8)
    >>> program = Program((f8,), (square,), ((1, None), (1, total)))
    >>> run_program(program, [np.arange(4.0)])
    [array([0., 1., 4., 9.]), array([14.])]
    """
    arrays: list[Any] = [x if type(x) is np.ndarray else np.asarray(x) for x in blocks]
    return run_tiles(_plan_for(program, tuple([x.shape for x in arrays])), arrays)


def merge(reduction: Reduction, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Merge partial results of neighbouring blocks, given in order; all have one shape.

    >>> total = Reduction("sum", (0,), np.dtype("f8"))
    >>> merge(total, [np.array([1.0]), np.array([2.0]), np.array([4.0])])
    array([7.])
    """
    if reduction.kind == "moments":
        return moments.merge_moments(parts)
    return merge_reduced(reduction, parts)
