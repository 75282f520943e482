"""From wanted expressions to nodes of tasks: all passes, and the tasks of what they give.

It also tells whether these tasks are so short that one thread is faster than several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, prod
from typing import Any

from lazyflow import config
from lazyflow.api.works import watching
from lazyflow.array.nodes.elementwise import Fused
from lazyflow.array.nodes.expr import Expr, below, same_line, turned_back
from lazyflow.array.nodes.lowering import Lowering
from lazyflow.array.nodes.rechunking import Rechunk
from lazyflow.array.nodes.reduce import Reduced
from lazyflow.array.nodes.reshaped import Reshape
from lazyflow.array.nodes.sources import Const, InMemory, Made, Tasks
from lazyflow.array.nodes.views import View, with_axes
from lazyflow.array.passes.fuse import QUICK
from lazyflow.array.passes.pipeline import optimize

_LIGHT = 50e-6  # seconds of a task; two threads were slower than one below about that
_CALL = 12e-6  # seconds of a task without its elements
_ELEMENT = 0.4e-9  # seconds of one operation on an element that is in a cache
_BYTE = 0.25e-9  # seconds of writing a byte of a result, which is new memory

_CHEAP = {"full", "arange", "eye", "tri", "linspace"}


def as_tasks(wanted: Sequence[Expr], keep: bool = True) -> list[Tasks]:
    """Return the tasks of some expressions that are computed together.

    keep
        Their chunks must stay as they are.

    >>> import lazyflow.array as la
    >>> (made,) = as_tasks([(la.ones(4, chunks=2) + 1).expr])
    >>> len(made.tasks)
    2
    """
    nodes = optimize(wanted, keep, config.get("array_fusion"))
    light = _are_light(nodes)
    found = []
    low = Lowering()
    turned = [(node, None) if keep else _in_memory_order(node) for node in nodes]
    bare = [seen if keep else _in_any_shape(seen) for seen, _ in turned]
    lowered = low.lower(bare)
    who = watching()
    if who is not None:
        who.arrays_planned(list(_seen(low)))
    for node, (seen, axes), made, tasks in zip(
        wanted, turned, bare, lowered, strict=True
    ):
        whole = None if seen is made else seen.shape
        found.append(Tasks(
            tasks, made.dtype_or_lazy, made.chunks, light, low.readers, whole, axes,
            made.memory_order,
        ))
        same_line(found[-1], node)
    return found


def _seen(low: Lowering) -> Iterator[tuple[Any, ...]]:
    """Yield what observers hear of the nodes whose blocks are made: see `ProgramObserver`."""
    for node, blocks in low.counts().items():
        if node.line is not None and None not in node.shape:
            known = [x.known_dtype for x in (node, *node.inputs)]
            itemsize = next((dtype.itemsize for dtype in known if dtype is not None), 8)
            yield node.line, node.name, blocks, prod(map(max, node.chunks)) * itemsize


def order_of(node: Expr) -> tuple[int, ...]:
    """Return the `memory_order` in which a node is computed."""
    (made,) = optimize([node], False, config.get("array_fusion"))
    return _in_memory_order(made)[1] or tuple(range(node.ndim))


def _in_memory_order(node: Expr) -> tuple[Expr, tuple[int, ...] | None]:
    """Return what a node is with its axes in another order, and that order: it is read in a row.

    As of NumPy, the transpose of an array in C order is one in Fortran order.
    """
    while isinstance(node, Rechunk):
        node = node.inputs[0]
    axes = node.memory_order
    if axes == tuple(range(node.ndim)):
        return node, None
    return with_axes(node, turned_back(axes)), axes


def _in_any_shape(node: Expr) -> Expr:
    """Return what has the elements of a node in the same order, in any chunks and any shape."""
    while isinstance(node, Rechunk | Reshape):
        node = node.inputs[0]
    return node


def _are_light(wanted: Sequence[Expr]) -> bool:
    """Tell whether all tasks of some wanted nodes take under about 50 µs, as far as is known.

    A task of a few microseconds holds the interpreter lock for most of its time, so that threads
    only wait for each other.
    """
    return all(_writing(node) < _LIGHT for node in wanted) and all(
        _seconds(node) < _LIGHT for node in below(wanted)
    )


def _writing(node: Expr) -> float:
    """Return an estimate of the seconds that it takes to write a block of a node."""
    dtype = node.known_dtype
    if dtype is None or None in node.shape:
        return inf
    return prod(map(max, node.chunks)) * dtype.itemsize * _BYTE


def _seconds(node: Expr) -> float:
    """Return an estimate of the seconds of one task of a node; infinity if there is none."""
    if isinstance(node, Const | InMemory | View):
        return 0.0
    if isinstance(node, Made):
        return _writing(node) if node.name in _CHEAP else inf
    if isinstance(node, Tasks):
        return 0.0 if node.held else inf
    if isinstance(node, Fused):
        program, steps = node.program, node.program.steps
        quick = all(getattr(step.op, "__name__", None) in QUICK for step in steps)
        quick = quick and not any(dtype.hasobject for dtype in program.inputs)
        if quick and not any(None in x.shape for x in node.inputs):
            elements = max([prod(map(max, x.chunks)) for x in (node, *node.inputs)])
            written = sum([program.dtype_of(n).itemsize for n, r in program.outputs if r is None])
            operations = len(steps) + len(program.outputs) + 1
            return _CALL + elements * (operations * _ELEMENT + written * _BYTE)
    elif isinstance(node, Reduced | Rechunk) and None not in node.shape:
        return _CALL + 16 * prod(map(max, node.chunks)) * _ELEMENT
    return inf
