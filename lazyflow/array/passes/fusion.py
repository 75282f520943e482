"""Fusion: neighbouring elementwise operations, and reductions on top, become one task per block.

Operations are grouped by nodes, not by blocks. A group becomes one `Fused` node: a program of
steps over the inputs that the group reads.

An operation joins the groups of all that read it (`_Fusion._groups`). It begins a group of its own,
and its result is written to memory, where its result is wanted; where a reader stretches it to a
larger shape or needs whole blocks of it; where readers in several groups would repeat more than
`CHEAP` quick steps. Reductions over the same axes of the same source share one program
(`_bundle_key`). `la.report` shows these reasons.

    >>> import lazyflow.array as la
    >>> x = la.arange(6.0, chunks=3)
    >>> y = np.exp(x * 2)
    >>> (made,) = fuse([(y + y.sum()).expr])
    >>> for node in below([made]):  # y is read in both chunks and, by the sum, as a whole
    ...     if isinstance(node, Fused):
    ...         print(node.name, [step.op.__name__ for step in node.program.steps], node.why)
    exp ['multiply', 'exp'] 2 groups use it, and it costs more than 4 quick steps
    sum [] it reduces each block
    add ['add'] its result is wanted
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks, coalesced, in_c_order
from lazyflow.array.kernels.order import CHOSEN, Reduction, reduces
from lazyflow.array.kernels.program import (
    CAST,
    WHERE,
    Program,
    ScanOperation,
    Step,
)
from lazyflow.array.nodes.align import operand_chunks
from lazyflow.array.nodes.elementwise import Elementwise, Fused
from lazyflow.array.nodes.expr import Expr, below, same, same_line, turned_back
from lazyflow.array.nodes.indexing.masks import Masked, MaskedBlocks
from lazyflow.array.nodes.rechunking import Rechunk, in_chunks, in_parts
from lazyflow.array.nodes.reductions import MergePartials, Reduce, Reduced
from lazyflow.array.nodes.scan import BlockEnds, Scan, Scanned, ends_of, expand_scans
from lazyflow.array.nodes.sources import Const, Generated, GeneratedOnce
from lazyflow.array.nodes.views import View, with_axes
from lazyflow.array.passes.words import in_a_line, size_of

# -- the program of a group of operations: its steps, what it reads, in which order and chunks

#: An operand is cut anew if the result has at least so many times its elements; guessed.
_SMALL = 16


class GroupProgram:
    """A program that is being made: the steps of one group, and the nodes that it reads.

    groups
        For each elementwise node the groups that it is computed in; this one is `group`.
    new
        The new nodes for nodes that are rewritten already.
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
        """Compute in the memory order of the inputs of the full shape, if all have the same.

        Sums of rows of an array in Fortran order took 9 times as long in C order.
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
            and reduces(reduction.kind)
            and not reduction.kind.parts
            and reduction.dtype == inner.known_dtype
            and reduction.dtype.kind in "iufc"
            and all(set(inner.chunks[axis]) == {1} for axis in reduction.axes)
        )

    def has_scans(self) -> bool:
        """Tell whether results depend on where blocks begin."""
        return any(isinstance(node, Scanned) for node, _ in self.steps)

    def better_chunks(self) -> Chunks:
        """Return longer chunks if blocks are small and all inputs can be made in other chunks."""
        if self.has_scans():
            return self.chunks  # which the carries are made for
        better = coalesced(self.chunks)
        fit = all(x.free or x.chunks == operand_chunks(x, self.shape, better) for x in self.inputs)
        return better if fit else self.chunks

    def chunks_in_rows(self) -> Chunks:
        """Return better chunks for a result in memory: contiguous blocks of it, if possible.

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


# -- groups of operations -----------------------------------------------------------------


CHEAP = 4  #: Up to so many steps are repeated, rather than their result kept; guessed.

#: Operations that cost about as much as reading their operands.
_QUICK = (
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.fabs, np.square,
    np.maximum, np.minimum, np.greater, np.greater_equal, np.less, np.less_equal, np.equal,
    np.not_equal, np.logical_and, np.logical_or, np.logical_not, np.logical_xor, np.bitwise_and,
    np.bitwise_or, np.bitwise_xor, np.invert, np.isnan, np.isfinite, np.isinf, np.positive,
    np.sqrt, np.reciprocal, np.floor, np.ceil, np.rint, np.trunc, np.sign, np.conjugate,
    WHERE, CAST,
)
_QUICK_IDS = frozenset(map(id, _QUICK))


def is_quick(op: Any) -> bool:
    """Tell whether an operation costs about as much as reading its operands.

    The object itself decides: a user's slow function may have the name of a quick one.

    Examples
    --------
    >>> import numpy as np
    >>> is_quick(np.sign), is_quick(np.exp), is_quick(np.frompyfunc(np.sign, 1, 1))
    (True, False, False)
    """
    return id(op) in _QUICK_IDS


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
    """Say how many operations run in how many groups, and why results between them are written."""
    nodes = below(after)
    count = sum(isinstance(node, Elementwise | Reduce | Scan) for node in below(before))
    groups = [node for node in nodes if isinstance(node, Fused)]
    if not count:
        return "there is nothing to fuse"
    read: set[Expr] = set()  # by others than views on top
    for node in reversed(nodes):
        if node in read or not isinstance(node, View | Rechunk):
            read.update(node.inputs)
    written = [
        f"{node.name} is written, {size_of(node)}: {node.why}"
        for node in groups if node in read and node.program.outputs[0][1] is None
    ]
    operations = f"{count:,} operation{'s' if count > 1 else ''}"
    runs = "run" if count > 1 else "runs"
    some = f"{operations} {runs} as {len(groups):,} group{'s' if len(groups) > 1 else ''}"
    return in_a_line([some, *written])


class _Fusion:
    """The groups of the wanted nodes, and the nodes that replace them."""

    def __init__(self, wanted: Sequence[Expr], keep: bool, enabled: bool) -> None:
        self.wanted = wanted
        self.keep = keep
        self.enabled = enabled
        if any(isinstance(node, Scan) for node in below(wanted)):
            self.wanted = wanted = expand_scans(wanted)
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
            if isinstance(node, Reduce) and not isinstance(node, BlockEnds):
                self._bundles.setdefault(self._bundle_key(node), []).append(node)

    def result(self) -> list[Expr]:
        # By level: what reductions of one pass read is there before any of them is made.
        levels = self.levels
        for node in sorted(self.nodes, key=lambda n: (levels[n], isinstance(n, Elementwise))):
            if isinstance(node, Elementwise):
                if node in self.groups[node]:
                    self._add(node, self._fused(node))
            elif isinstance(node, BlockEnds):
                self._ends(node)
            elif isinstance(node, Masked) and self._is_fused(node):
                self._chosen(node)
            elif isinstance(node, Reduce):
                if node not in self.new:
                    self._reduced(self._bundles[self._bundle_key(node)])
            elif not isinstance(node, Const) and node not in self.new:
                inputs = tuple([self._as_it_was(x) for x in node.inputs])
                made = same(node, inputs)
                is_slow = isinstance(node, Generated) and not node.free
                is_shared = is_slow and self._readers(node) > 1
                self._add(node, GeneratedOnce((made,)) if is_shared else made)
        results = []
        for node in self.wanted:
            made = self.new.get(node, node)
            results.append(in_chunks(made, node.chunks) if self.keep else made)
        return results

    def _add(self, node: Expr, made: Expr) -> None:
        same_line(made, node)
        self.new[node] = made

    def _readers(self, node: Expr) -> int:
        """Count the groups, and the nodes outside of groups, that read a node or views of it."""
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
                    key = self._bundle_key(user) if self._is_fused(user) else user
                    found.add((read, key))
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

    def _is_fused(self, node: Expr) -> bool:
        """Tell whether a node can take the operations on its inputs into its program."""
        if not isinstance(node, Masked):
            return isinstance(node, Reduce)
        elements = self.enabled and node.is_of_elements()
        return elements and any(isinstance(x, Elementwise) for x in node.inputs)

    def _bundle_key(self, node: Expr) -> Any:
        """Return the group of a node that reduces its input or chooses of it."""
        inner = node.inputs[0]
        if not self.enabled or isinstance(node, BlockEnds) or not isinstance(node, Reduce):
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
        chunks: dict[Any, Any] = {}  # that groups are computed in
        self.why: dict[Expr, str] = {}
        for node in reversed(self.nodes):
            if not isinstance(node, Elementwise):
                continue
            roots: set[Any] = set()
            why = "its result is wanted" if node in wanted else ""
            for user in self.consumers[node]:
                if not self.enabled:
                    why = "fusion is off"
                elif isinstance(user, Elementwise) and user.shape == node.shape:
                    roots |= groups[user]
                elif self._is_fused(user):
                    key = self._bundle_key(user)
                    roots.add(key)
                    chunks[key] = user.inputs[0].chunks
                elif isinstance(user, Elementwise):
                    why = f"{user.name} stretches it to a larger shape: computed once"
                else:
                    why = f"{user.name} needs whole blocks of it"
            if not why and len(roots) > 1 and not self._is_cheap(node):
                why = f"{len(roots)} groups use it, and it costs more than {CHEAP} quick steps"
            if isinstance(node, Scanned) and any(chunks[key] != node.chunks for key in roots):
                why = "what uses it has other chunks"
            if why:
                self.why[node] = why
                roots = {node}
                chunks[node] = node.chunks
            groups[node] = roots
        return groups

    def _is_cheap(self, node: Elementwise) -> bool:
        steps = 0
        stack: list[Expr] = [node]
        while stack:
            one = stack.pop()
            if isinstance(one, Elementwise):
                steps += 1
                if steps > CHEAP or not is_quick(one.op):
                    return False
                stack.extend(one.inputs)
            elif not one.free:
                return False
        return True

    # -- making them --------------------------------------------------------------------------

    def _fused(self, node: Elementwise) -> Expr:
        steps = GroupProgram(self.groups, node, self.new, node)
        value = steps.of(node)
        keep = self.keep and node in self.wanted
        if self.enabled:
            steps.turn()
        chunks = steps.chunks
        if self.enabled and not keep:
            alone = node in self.wanted and not self.consumers[node]
            chunks = steps.chunks_in_rows() if alone else steps.better_chunks()
        why = self.why[node]
        made = steps.made(((value, None),), node.dtype, chunks, chunks, node.name, why)
        same_line(made, node)
        return with_axes(made, steps.axes)

    def _ends(self, node: BlockEnds) -> None:
        steps = GroupProgram(self.groups, self._bundle_key(node), self.new, node.inputs[0])
        value = steps.of(node.inputs[0])
        if self.enabled:
            steps.turn()
        axis = steps.axes[node.reduction.axes[0]]
        output = value, node.reduction._replace(axes=(axis,))
        chunks, why = ends_of(steps.chunks, axis), "only the ends of blocks are kept"
        name = f"end of {node.inputs[0].name}"
        made = steps.made((output,), node.dtype, chunks, steps.chunks, name, why)
        same_line(made, node)
        self._add(node, with_axes(made, steps.axes))

    def _chosen(self, node: Masked) -> None:
        inner = node.inputs[0]
        steps = GroupProgram(self.groups, self._bundle_key(node), self.new, inner)
        value, mask = map(steps.of, node.inputs)
        reduction: Any = Reduction(CHOSEN, tuple(range(inner.ndim)), inner.dtype)
        output, why = (value, reduction._replace(mask=mask)), "it chooses elements of each block"
        made = steps.made((output,), node.dtype, steps.chunks, steps.chunks, "getitem", why)
        same_line(made, node)
        self._add(node, MaskedBlocks((made,), node.chunks[0]))

    def _reduced(self, bundle: list[Reduce]) -> None:
        inner = bundle[0].inputs[0]
        steps = GroupProgram(self.groups, self._bundle_key(bundle[0]), self.new, inner)
        values: list[tuple[Any, Any]] = []
        for node in bundle:
            mask: Any = steps.of(node.inputs[1]) if len(node.inputs) > 1 else None
            values.append((steps.of(node.inputs[0]), mask))
        as_it_is = steps.is_merged_as_it_is(bundle)
        if self.enabled and not as_it_is:
            steps.turn()
        axes = tuple(sorted([steps.axes[axis] for axis in bundle[0].reduction.axes]))
        reductions = [node.reduction._replace(axes=axes) for node in bundle]
        chunks = steps.better_chunks() if self.enabled else steps.chunks
        partial = tuple([
            (1,) * len(sizes) if axis in axes else sizes for axis, sizes in enumerate(chunks)
        ])
        shown = [self.arranged.get(node, node) for node in bundle]
        kept = list(map(steps.kept_axes, shown))
        last = None
        if len(bundle) == 1 and all(len(chunks[axis]) == 1 for axis in axes):
            last = MergePartials(reductions[0], bundle[0].finish, kept[0][0]).last
        if last is None and as_it_is:
            fused = self._as_it_was(inner)
        else:
            outputs = tuple([
                (value, reduction._replace(mask=mask) if mask else reduction)
                for (value, mask), reduction in zip(values, reductions, strict=True)
            ])
            label = "+".join(dict.fromkeys(node.name for node in bundle))
            why = "it reduces each block"
            fused = steps.made(outputs, bundle[0].dtype, partial, chunks, label, why, last)
            same_line(fused, bundle[0])
        for at, (node, reduction, (own, order)) in enumerate(
            zip(bundle, reductions, kept, strict=True)
        ):
            which = at if len(bundle) > 1 else None
            made = Reduced((fused,), reduction, which, node.finish, node.dtype, own)
            same_line(made, node)
            for replaced in (node, shown[at]):
                self._add(replaced, with_axes(made, order))
