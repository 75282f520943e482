"""Fusion: neighbouring elementwise operations, and reductions on top, become one task per block.

Operations are grouped by nodes, not by blocks. A group becomes one `Fused` node: a program of steps
over the inputs that the group reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks, coalesced, in_c_order
from lazyflow.array.kernels.program import Program, Step
from lazyflow.array.nodes.align import operand_chunks
from lazyflow.array.nodes.elementwise import Elementwise, Fused
from lazyflow.array.nodes.expr import Expr, below, same, same_line
from lazyflow.array.nodes.rechunking import in_chunks
from lazyflow.array.nodes.reduce import MergePartials, Reduce, Reduced
from lazyflow.array.nodes.sources import Const, InMemory, Made, MadeOnce
from lazyflow.array.nodes.views import View

_CHEAP = 4  # steps that are repeated rather than kept
_SMALL = 16  # how much smaller than a result an operand is that is cut anew

#: Operations that cost about as much as reading their operands.
QUICK = frozenset({
    "add", "subtract", "multiply", "divide", "negative", "absolute", "fabs", "square", "maximum",
    "minimum", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal",
    "logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or",
    "bitwise_xor", "invert", "isnan", "isfinite", "isinf", "positive", "where", "astype", "sqrt",
    "reciprocal", "floor", "ceil", "rint", "trunc", "sign", "conjugate",
})


def fuse(wanted: Sequence[Expr], keep: bool = True, enabled: bool = True) -> list[Expr]:
    """Return equals of some nodes in which groups of operations are one node each.

    keep
        The chunks of the wanted ones must stay.
    enabled
        False: every operation is a group of its own.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.ones(6, chunks=2)
    >>> (made,) = fuse([(x * 2 + 1).expr])
    >>> [step.op.__name__ for step in made.program.steps], made.inputs[0] is x.expr
    (['multiply', 'add'], True)
    """
    return _Fusion(wanted, keep, enabled).result()


def explain_groups(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> str:
    """Say how many operations run in how many groups."""
    count = sum(isinstance(node, Elementwise | Reduce) for node in below(before))
    groups = sum(isinstance(node, Fused) for node in below(after))
    if not count:
        return "there is nothing to fuse"
    operations = f"{count:,} operation{'s' if count > 1 else ''}"
    runs = "run" if count > 1 else "runs"
    return f"{operations} {runs} as {groups:,} group{'s' if groups > 1 else ''}"


class _Fusion:
    """What is known of the wanted nodes, and what they become."""

    def __init__(self, wanted: Sequence[Expr], keep: bool, enabled: bool) -> None:
        self.wanted = wanted
        self.keep = keep
        self.enabled = enabled
        self.nodes = below(wanted)
        self.consumers: dict[Expr, list[Expr]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for x in node.inputs:
                self.consumers[x].append(node)
        self.levels = self._levels()
        self.anchors = self._anchors()
        self.groups = self._groups()
        self.new: dict[Expr, Expr] = {}
        self.arranged = self._arranged()
        self._bundles: dict[Any, list[Reduce]] = {}
        for node in self.nodes:
            if isinstance(node, Reduce):
                self._bundles.setdefault(self._bundle_key(node), []).append(node)

    def result(self) -> list[Expr]:
        # By level: what reductions of one pass read is there before any of them is made.
        levels = self.levels
        for node in sorted(self.nodes, key=lambda n: (levels[n], isinstance(n, Elementwise))):
            if isinstance(node, Elementwise):
                if node in self.groups[node]:
                    self._add(node, self._fused(node))
            elif isinstance(node, Reduce):
                if node not in self.new:
                    self._reduced(self._bundles[self._bundle_key(node)])
            elif not isinstance(node, Const) and node not in self.new:
                inputs = tuple([self._as_it_was(x) for x in node.inputs])
                made = same(node, inputs)
                is_slow = isinstance(node, Made) and not node.free
                self._add(node, MadeOnce((made,)) if is_slow and self._readers(node) > 1 else made)
        found = []
        for node in self.wanted:
            made = self.new.get(node, node)
            found.append(in_chunks(made, node.chunks) if self.keep else made)
        return found

    def _add(self, node: Expr, made: Expr) -> None:
        same_line(made, node)
        self.new[node] = made

    def _readers(self, node: Expr) -> int:
        """Count the groups, and the nodes outside of groups, that read a node, each part for one.
        """
        found: set[Any] = {node} & set(self.wanted)
        stack = [node]
        while stack:
            read = stack.pop()
            for user in self.consumers[read]:
                if isinstance(user, View):
                    stack.append(user)
                elif isinstance(user, Elementwise):
                    found |= {(read, group) for group in self.groups[user]}
                else:
                    found.add((read, self._bundle_key(user) if isinstance(user, Reduce) else user))
        return len(found)

    def _as_it_was(self, node: Expr) -> Expr:
        """Return the rewritten node in the chunks that the node had."""
        made = in_chunks(self.new.get(node, node), node.chunks)
        same_line(made, node)
        return made

    # -- which nodes make a group --------------------------------------------------------------

    def _levels(self) -> dict[Expr, int]:
        """Count the reductions below each node: those of one level do not need each other."""
        levels: dict[Expr, int] = {}
        for node in self.nodes:
            level = max([levels[x] for x in node.inputs], default=0)
            levels[node] = level + (not isinstance(node, Elementwise) and bool(node.inputs))
        return levels

    def _bundle_key(self, node: Reduce) -> Any:
        inner = node.inputs[0]
        if not self.enabled:
            return id(node)
        return inner.chunks, node.reduction.axes, self.levels[node], id(self.anchors[inner])

    def _anchors(self) -> dict[Expr, Expr]:
        """Return the first source of each node, which reductions of one group have in common."""
        anchors: dict[Expr, Expr] = {}
        for node in self.nodes:
            found = node
            if isinstance(node, Elementwise):
                found = next((anchors[x] for x in node.inputs if x.shape == node.shape), node)
            anchors[node] = found
        return anchors

    def _arranged(self) -> dict[Expr, View]:
        """Return, by reductions, the views that only drop axes of them or add some.

        Such a view becomes a part of the reduction.
        """
        found: dict[Expr, View] = {}
        for node in self.nodes:
            if not isinstance(node, View):
                continue
            (base,), (picks, axes) = node.inputs, node.selection
            if not isinstance(base, Reduce) or base in self.wanted or len(self.consumers[base]) > 1:
                continue
            gone = {axis for axis, pick in enumerate(picks) if pick == 0}
            kept = [axis for axis, pick in enumerate(picks) if pick is None]
            if gone.issubset(base.reduction.axes) and kept == [k for k in axes if k != ~1]:
                found[base] = node
        return found

    def _groups(self) -> dict[Expr, set[Any]]:
        """Return the roots of the groups that each elementwise node is computed in."""
        groups: dict[Expr, set[Any]] = {}
        wanted = set(self.wanted)
        self.why: dict[Expr, str] = {}
        for node in reversed(self.nodes):
            if not isinstance(node, Elementwise):
                continue
            found: set[Any] = set()
            why = "its result is wanted" if node in wanted else ""
            for user in self.consumers[node]:
                if not self.enabled:
                    why = "fusion is off"
                elif isinstance(user, Elementwise) and user.shape == node.shape:
                    found |= groups[user]
                elif isinstance(user, Reduce):
                    found.add(self._bundle_key(user))
                elif isinstance(user, Elementwise):
                    why = f"{user.name} stretches it to a larger shape: computed once"
                else:
                    why = f"{user.name} needs whole blocks of it"
            if not why and len(found) > 1 and not self._is_cheap(node):
                why = f"{len(found)} groups use it, and it costs more than {_CHEAP} quick steps"
            if why:
                self.why[node] = why
                found = {node}
            groups[node] = found
        return groups

    def _is_cheap(self, node: Elementwise) -> bool:
        steps = 0
        stack: list[Expr] = [node]
        while stack:
            one = stack.pop()
            if isinstance(one, Elementwise):
                steps += 1
                if steps > _CHEAP or one.name not in QUICK:
                    return False
                stack.extend(one.inputs)
            elif not one.free:
                return False
        return True

    # -- making them --------------------------------------------------------------------------

    def _fused(self, node: Elementwise) -> Expr:
        steps = _GroupProgram(self, node, node.chunks, node.shape)
        value = steps.of(node)
        keep = self.keep and node in self.wanted
        chunks = node.chunks
        if self.enabled and not keep:
            alone = node in self.wanted and not self.consumers[node]
            chunks = steps.chunks_in_rows() if alone else steps.better_chunks()
        why = self.why[node]
        return steps.made(((value, None),), node.dtype, chunks, chunks, node.name, why)

    def _reduced(self, bundle: list[Reduce]) -> None:
        inner = bundle[0].inputs[0]
        steps = _GroupProgram(self, self._bundle_key(bundle[0]), inner.chunks, inner.shape)
        outputs: list[tuple[Any, Any]] = []
        for node in bundle:
            value = steps.of(node.inputs[0])
            mask: Any = steps.of(node.inputs[1]) if len(node.inputs) > 1 else None
            reduction = node.reduction
            outputs.append((value, reduction._replace(mask=mask) if mask else reduction))
        axes = bundle[0].reduction.axes
        chunks = steps.better_chunks() if self.enabled else inner.chunks
        partial = tuple([
            (1,) * len(sizes) if axis in axes else sizes for axis, sizes in enumerate(chunks)
        ])
        label = "+".join(dict.fromkeys(node.name for node in bundle))
        shown = [self.arranged.get(node, node) for node in bundle]
        kept = [x.selection.axes if isinstance(x, View) else tuple(range(x.ndim)) for x in shown]
        last = None
        if len(bundle) == 1 and all(len(chunks[axis]) == 1 for axis in axes):
            last = MergePartials(bundle[0].reduction, bundle[0].finish, kept[0]).last
        if last is None and steps.is_merged_as_it_is(bundle):
            fused = self._as_it_was(inner)
        else:
            fused = steps.made(
                tuple(outputs), bundle[0].dtype, partial, chunks, label, "it reduces each block",
                last,
            )
            same_line(fused, bundle[0])
        for at, node in enumerate(bundle):
            which = at if len(bundle) > 1 else None
            made = Reduced((fused,), node.reduction, which, node.finish, node.dtype, kept[at])
            self._add(node, made)
            self._add(shown[at], made)


def _is_read_in_rows(node: Expr) -> bool:
    """Tell whether any rows of a node can be had, and lie in memory as rows."""
    if isinstance(node, View):
        kept = [axis for axis in node.selection.axes if axis >= 0]
        return node.free and kept == sorted(kept) and _is_read_in_rows(node.inputs[0])
    if not isinstance(node, InMemory):
        return node.free and not node.inputs
    strides = [abs(step) for n, step in zip(node.shape, node.array.strides, strict=True) if n != 1]
    return strides == sorted(strides, reverse=True)


class _GroupProgram:
    """A program that is being made: the steps of one group, and the nodes that it reads."""

    def __init__(
        self, fusion: _Fusion, group: Any, chunks: Chunks, shape: tuple[int | None, ...]
    ) -> None:
        self.fusion = fusion
        self.group = group
        self.chunks = chunks
        self.shape = shape
        self.consts: list[np.ndarray[Any, Any]] = []
        self.inputs: list[Expr] = []
        self.steps: list[Any] = []
        self._values: dict[Expr, tuple[str, int]] = {}

    def of(self, root: Expr) -> tuple[str, int]:
        """Add the steps that compute a node; return where its value will be."""
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in self._values:
                continue
            if not isinstance(node, Elementwise) or self.group not in self.fusion.groups[node]:
                self._values[node] = self._read(node)
            elif not ready:
                stack.append((node, True))
                stack.extend((x, False) for x in reversed(node.inputs))
            else:
                self._values[node] = ("step", len(self.steps))
                self.steps.append((node, [self._values[x] for x in node.inputs]))
        return self._values[root]

    def _read(self, node: Expr) -> tuple[str, int]:
        if isinstance(node, Const):
            self.consts.append(node.value)
            return "const", len(self.consts) - 1
        self.inputs.append(self.fusion.new.get(node, node))
        return "input", len(self.inputs) - 1

    def is_merged_as_it_is(self, bundle: list[Reduce]) -> bool:
        """Tell whether the blocks of the only input are partial results already."""
        inner, reduction = bundle[0].inputs[0], bundle[0].reduction
        return (
            len(bundle) == 1
            and not self.steps
            and not self.consts
            and reduction.kind in ("sum", "prod", "min", "max")
            and reduction.dtype == inner.known_dtype
            and reduction.dtype.kind in "iufc"
            and all(set(inner.chunks[axis]) == {1} for axis in reduction.axes)
        )

    def better_chunks(self) -> Chunks:
        """Return longer chunks where blocks are small and all inputs can be had in other chunks."""
        better = coalesced(self.chunks)
        fit = all(x.free or x.chunks == operand_chunks(x, self.shape, better) for x in self.inputs)
        return better if fit else self.chunks

    def chunks_in_rows(self) -> Chunks:
        """Return better chunks for a whole result: those that lie in one piece of it, if they can.

        Blocks of 1,000 x 1,000, whose rows lie apart in the result, took 1.5 times as long.
        """
        better = self.better_chunks()
        if None in self.shape or all(len(sizes) == 1 for sizes in better[1:]):
            return better
        shape: Any = self.shape
        small = prod(shape) // _SMALL
        if not all(_is_read_in_rows(x) or x.size <= small for x in self.inputs):
            return better
        return in_c_order(shape, prod(map(max, better)))

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

        inputs = tuple([in_chunks(x, operand_chunks(x, self.shape, grid)) for x in self.inputs])
        steps: tuple[Step, ...] = tuple([
            node.step(tuple(map(number, operands))) for node, operands in self.steps
        ])
        wanted = tuple([
            (number(value), r._replace(mask=number(r.mask)) if r and r.mask else r)
            for value, r in outputs
        ])
        types = (*[c.dtype for c in self.consts], *[x.dtype for x in inputs])
        program = Program(types, steps, wanted)
        return Fused(inputs, program, tuple(self.consts), dtype, chunks, label, why, last)
