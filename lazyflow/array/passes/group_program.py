"""The program of a group of operations: its steps, what it reads, in which order and chunks."""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks, coalesced, in_c_order
from lazyflow.array.kernels.program import Program, ScanOperation, Step
from lazyflow.array.nodes.align import operand_chunks
from lazyflow.array.nodes.elementwise import Elementwise, Fused
from lazyflow.array.nodes.expr import Expr, turned_back
from lazyflow.array.nodes.rechunking import in_parts
from lazyflow.array.nodes.reduce import Reduce
from lazyflow.array.nodes.scan import Scanned, ends_of
from lazyflow.array.nodes.sources import Const
from lazyflow.array.nodes.views import View, with_axes

_SMALL = 16  # how much smaller than a result an operand is that is cut anew


class GroupProgram:
    """A program that is being made: the steps of one group, and the nodes that it reads.

    groups
        For each elementwise node the groups that it is computed in; this one is `group`.
    new
        What nodes have become that are computed already.
    root
        A node of the shape of the program, in its chunks.
    """

    def __init__(
        self, groups: Mapping[Expr, Set[Any]], group: Any, new: Mapping[Expr, Expr], root: Expr
    ) -> None:
        self.groups = groups
        self.group = group
        self.new = new
        self.chunks = root.chunks
        self.shape = root.shape
        self.axes = tuple(range(root.ndim))  # for each axis which one of the program's it is
        self.consts: list[np.ndarray[Any, Any]] = []
        self.inputs: list[Expr] = []
        self.steps: list[Any] = []
        self.carries: dict[int, int] = {}  # inputs that are carries of scans, and their axes
        self._values: dict[Expr, tuple[str, int]] = {}

    def of(self, root: Expr) -> tuple[str, int]:
        """Add the steps that compute a node; return where its value will be."""
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in self._values:
                continue
            if not isinstance(node, Elementwise) or self.group not in self.groups[node]:
                self._values[node] = self._read(node)
            elif not ready:
                stack.append((node, True))
                stack.extend((x, False) for x in reversed(node.inputs))
            else:
                if isinstance(node, Scanned) and node.inputs[1:]:
                    self.carries[self._values[node.inputs[1]][1]] = node.op.axis + node.ndim
                self._values[node] = ("step", len(self.steps))
                self.steps.append((node, [self._values[x] for x in node.inputs]))
        return self._values[root]

    def _read(self, node: Expr) -> tuple[str, int]:
        if isinstance(node, Const):
            self.consts.append(node.value)
            return "const", len(self.consts) - 1
        self.inputs.append(self.new.get(node, node))
        return "input", len(self.inputs) - 1

    def turn(self) -> None:
        """Compute in the order in which all inputs of the full shape lie in memory, if it is one.

        Of an array in Fortran order sums of rows took 9 times as long in C order.
        """
        ndim = len(self.shape)
        orders = {x.memory_order for x in self.inputs if x.shape == self.shape}
        if len(orders) != 1 or None in self.shape or orders == {self.axes}:
            return
        (self.axes,) = orders
        back = turned_back(self.axes)
        self.chunks = tuple([self.chunks[axis] for axis in back])
        self.shape = tuple([self.shape[axis] for axis in back])
        for at, x in enumerate(self.inputs):
            if x.ndim:
                new = ndim - x.ndim
                axes = [axis - new if axis >= new else ~1 for axis in back]
                self.inputs[at] = with_axes(x, axes)

    def kept_axes(self, node: Expr) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return which axes of the program a result of reductions has, and in which order.

        node
            The reduction, or a view that drops axes of it or adds some, ~1.
        """
        axes = node.selection.axes if isinstance(node, View) else range(node.ndim)
        turned = tuple([self.axes[axis] if axis >= 0 else axis for axis in axes])
        own = tuple(sorted([axis for axis in turned if axis >= 0]))
        if own == tuple([axis for axis in turned if axis >= 0]):
            return turned, tuple(range(len(turned)))
        return own, tuple([own.index(axis) if axis >= 0 else axis for axis in turned])

    def is_merged_as_it_is(self, bundle: list[Reduce]) -> bool:
        """Tell whether the blocks of the only input are partial results already."""
        inner, reduction = bundle[0].inputs[0], bundle[0].reduction
        return (
            len(bundle) == 1
            and not self.steps
            and not self.consts
            and reduction.kind in ("sum", "prod", "min", "max", "fmin", "fmax")
            and reduction.dtype == inner.known_dtype
            and reduction.dtype.kind in "iufc"
            and all(set(inner.chunks[axis]) == {1} for axis in reduction.axes)
        )

    def has_scans(self) -> bool:
        """Tell whether results depend on where blocks begin."""
        return any(isinstance(node, Scanned) for node, _ in self.steps)

    def better_chunks(self) -> Chunks:
        """Return longer chunks where blocks are small and all inputs can be had in other chunks."""
        if self.has_scans():
            return self.chunks  # which the carries are made for
        better = coalesced(self.chunks)
        fit = all(x.free or x.chunks == operand_chunks(x, self.shape, better) for x in self.inputs)
        return better if fit else self.chunks

    def chunks_in_rows(self) -> Chunks:
        """Return better chunks for a whole result: those that lie in one piece of it, if they can.

        Blocks of 1,000 x 1,000, whose rows lie apart in the result, took 1.5 times as long.
        """
        better = self.better_chunks()
        if None in self.shape or self.has_scans() or all(len(sizes) == 1 for sizes in better[1:]):
            return better
        shape: Any = self.shape
        small, one = prod(shape) // _SMALL, prod(map(max, better))
        if not one:
            return better
        rows = tuple(range(len(shape)))
        if any(x.size > small and not (x.free and x.memory_order == rows) for x in self.inputs):
            return better
        return in_c_order(shape, one)

    def _turned(self, step: Step) -> Step:
        """Return a step whose axis, if it has one, is the program's."""
        if not isinstance(step.op, ScanOperation):
            return step
        axis = self.axes[step.op.axis] - len(self.axes)
        return step._replace(op=step.op._replace(axis=axis))

    def made(
        self, outputs: tuple[Any, ...], dtype: np.dtype[Any], chunks: Chunks, grid: Chunks,
        label: str, why: str, last: Any = None,
    ) -> Fused:
        """Return the node; `grid` is what its inputs are cut into."""
        first_input = len(self.consts)
        first_step = first_input + len(self.inputs)
        offset = {"const": 0, "input": first_input, "step": first_step}

        def number(value: tuple[str, int]) -> int:
            return offset[value[0]] + value[1]

        inputs = tuple([
            in_parts(x, ends_of(grid, self.axes[self.carries[at]]) if at in self.carries
                     else operand_chunks(x, self.shape, grid))
            for at, x in enumerate(self.inputs)
        ])
        steps: tuple[Step, ...] = tuple([
            self._turned(node.step(tuple(map(number, operands)))) for node, operands in self.steps
        ])
        wanted = tuple([
            (number(value), r._replace(mask=number(r.mask)) if r and r.mask else r)
            for value, r in outputs
        ])
        types = (*[c.dtype for c in self.consts], *[x.dtype for x in inputs])
        program = Program(types, steps, wanted)
        if self.axes != tuple(range(len(self.axes))):
            order = ", ".join(map(str, turned_back(self.axes)))
            why += f"; it is computed as its inputs lie in memory, with the axes {order}"
        return Fused(inputs, program, tuple(self.consts), dtype, chunks, label, why, last)
