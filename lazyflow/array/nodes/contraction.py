"""Sums of products over shared axes: what matmul, tensordot and einsum do, block by block.

Axes are labels. Each task multiplies the blocks that make a part of one block of the result, as
matrices, and adds up; of large blocks it hands the sum on to the next task. Where the
result has few blocks, each is made of several sums, merged by sixteens. Where sums are large beside
what is read, blocks are joined along the summed axis. The choice depends on the numbers and sizes
of blocks only. The threads of the BLAS library are shared out among the tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.chunks import TASKS, in_steps, together
from lazyflow.array.kernels.order import GROUP
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.blas_threads import share_of_threads
from lazyflow.array.nodes.elementwise import cast
from lazyflow.array.nodes.expr import Expr, Index, MakesTasks, Recipe, same_line, turned_back
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import TreeReduction, merged
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.task_parts import named, writes_out
from lazyflow.array.nodes.views import View, seen, view
from lazyflow.graph.task import Task
from lazyflow.store.sizes import format_bytes

# These three are guesses.
_WIDE = 32 << 20  # bytes of a block that is put together of narrow ones, at most
_FEWEST = 4  # blocks that are left then, at least
_WORTH = 1 << 27  # multiplications that are worth a task of their own: they take some 5 ms

_LARGE_TOGETHER = 4  # large sums that are added by one task; a guess

_AT_ONCE = 32 << 20  # bytes of blocks that a task multiplies, unless two have more; a guess

_LONG = 4096  # products that BLAS adds up for an element of large sums, at most; a guess

_OF_BLAS = "fdFD"  # characters of dtypes

Labels = tuple[int, ...]


class Contraction(Expr):
    """``einsum`` of two nodes with one label for each axis; axes that `out` lacks are summed.

    labels
        Of both inputs and of the result.
    """

    __slots__ = ("labels",)

    def __init__(
        self, inputs: tuple[Expr, ...], labels: tuple[Labels, Labels, Labels],
        dtype: np.dtype[Any],
    ) -> None:
        sizes: dict[int, Any] = {}
        for node, each in zip(inputs, labels[:2], strict=True):
            sizes.update(zip(each, node.chunks, strict=True))
        super().__init__(inputs, dtype, tuple([sizes[label] for label in labels[2]]))
        self.labels = labels

    @property
    def name(self) -> str:
        return "matmul" if len(self.labels[0]) == len(self.labels[1]) == 2 else "tensordot"

    def through(self, selection: Selection) -> Recipe | None:
        picks = dict(zip(self.labels[2], selection.slices().picks, strict=True))
        inner = [
            Selection(tuple([picks.get(label) for label in each]), tuple(range(len(each))))
            for each in self.labels[:2]
        ]
        return seen(
            list(zip(self.inputs, inner, strict=True)),
            lambda found: contraction(found[0], found[1], self.labels, self.dtype),
            selection.rest(),
        )

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        one, other = self.inputs
        sums, count = low.shared(self, "summed", self._summed)
        at = dict(zip(self.labels[2], index, strict=True))
        plan = low.shared(self, "plan", planned, self.labels)
        tasks = prod(self.numblocks) * -(-prod([n for _, n in sums]) // count)
        first, more = [
            low.shared(self, on, named, self.name, multiply, plan, self.dtype, tasks, on)
            for on in (False, True)
        ]
        pairs = []
        for number in product(*[range(n) for _, n in sums]):
            at.update(zip([label for label, _ in sums], number, strict=True))
            pairs.append((
                low.block(one, tuple([at[label] for label in self.labels[0]])),
                low.block(other, tuple([at[label] for label in self.labels[1]])),
            ))
        parts = []
        step = min(low.shared(self, "at once", self._at_once), count)
        for i in range(0, len(pairs), count):
            own = list(chain.from_iterable(pairs[i:i + count]))
            part = low.task(first, own[:2 * step], self)
            for k in range(2 * step, len(own), 2 * step):
                part = low.task(more, [part, *own[k:k + 2 * step]], self)
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        op = low.shared(self, "add", Add, self.name, self._added_together())
        return merged(low, self, parts, op)

    def _added_together(self) -> int:
        """Return how many partial sums one task adds: few, where they are large beside the blocks.

        It holds all of them. 16 sums of 50 MB took 840 MB of memory, 352 so, and 547 with dask.
        """
        one, other, made = [
            prod([1 if None in sizes else max(sizes) for sizes in x.chunks])
            for x in (*self.inputs, self)
        ]
        return _LARGE_TOGETHER if 4 * made > one + other else GROUP

    def _at_once(self) -> int:
        """Return how many pairs of blocks a task multiplies: of large ones not many.

        All of them have to be in one place. Of kept blocks of a matrix times itself a sum of 8 MB
        moves then, from task to task, and not each block of 25 MB.
        """
        sizes = [
            prod([1 if None in each else max(each) for each in x.chunks]) * self.dtype.itemsize
            for x in dict.fromkeys(self.inputs)
        ]
        return max(_AT_ONCE // max(sum(sizes), 1), 1)

    def _summed(self) -> tuple[list[tuple[int, int]], int]:
        """Return the summed labels with their numbers of blocks, and pairs for a task."""
        numbers = dict(zip(self.labels[0], self.inputs[0].numblocks, strict=True))
        sums = [(label, n) for label, n in numbers.items() if label not in self.labels[2]]
        tasks = prod([n for _, n in sums]) * prod(self.numblocks)
        return sums, min(max(tasks // TASKS, 1), GROUP)


def in_wide_blocks(node: Expr) -> Expr:
    """Return a product in wide blocks, where its inputs can be cut so: BLAS is faster on them.

    For products that are computed whole, so that their chunks don't show. 4,000 x 4,000 in blocks
    of 1,000 took 1.13 times NumPy's time, in blocks of 1,000 x 4,000 0.99 times.
    """
    if not isinstance(node, Contraction) or not (count := blocks_of_columns(node)[0]):
        return node
    columns: Any = node.shape[-1]
    wide = in_steps(columns, -(-columns // count))
    inputs = []
    for x, labels in zip(node.inputs, node.labels, strict=False):
        at = [k for k, label in enumerate(labels) if label == node.labels[2][-1]]
        chunks = tuple([wide if k in at else sizes for k, sizes in enumerate(x.chunks)])
        inputs.append(rechunk(x, chunks))
    made = node.with_inputs(tuple(inputs))
    same_line(made, node)
    return made


def blocks_of_columns(node: Contraction) -> tuple[int, str]:
    """Return how many blocks of columns a product gets; 0 and the reason, if they stay.

    They are as wide as possible while tasks remain for many workers, which may be narrower than
    they were.
    """
    if not node.chunks or None in node.shape or not node.size:
        return 0, "it has no columns, or of unknown lengths"
    for x in node.inputs:
        if not x.free:
            size = format_bytes(x.size * x.dtype.itemsize)
            return 0, f"wider ones would copy {size} of {x.name}, which it reads"
    now = len(node.chunks[-1])
    if now < 2:
        return 0, f"a block has all {node.shape[-1]:,} columns"
    rows = prod(node.numblocks[:-1])
    size = prod([max(sizes) for sizes in node.chunks[:-1]]) * node.dtype.itemsize
    columns: Any = node.shape[-1]
    most = max(_WIDE // max(size, 1), max(node.chunks[-1]))
    lengths = {
        label: length
        for x, labels in zip(node.inputs, node.labels, strict=False)
        for label, length in zip(labels, x.shape, strict=True)
    }
    work = prod(lengths.values())  # type: ignore[arg-type]
    fewest = min(max(_FEWEST, work // _WORTH), TASKS)
    count = max(-(-columns // most), -(-fewest // rows))
    if not now <= count < 2 * now:
        return count, ""
    enough = "enough" if count == now else f"best, which is not twice {now:,}"
    return 0, (
        f"with {format_bytes(_WIDE)} a block at most, and {fewest:,} blocks at least, "
        f"{count:,} of columns are {enough}"
    )


class MatrixLayout(NamedTuple):
    """How blocks become stacks of matrices, and how their product becomes a block.

    orders
        In which the axes of both are taken: batch, rows, summed; batch, summed, columns.
    counts
        Of batch axes, of rows' axes, of columns' axes.
    back
        In which the axes of the product are taken.
    """

    orders: tuple[tuple[int, ...], tuple[int, ...]]
    counts: tuple[int, int, int]
    back: tuple[int, ...]


def planned(labels: tuple[Labels, Labels, Labels]) -> MatrixLayout:
    """Return how to multiply blocks with these labels.

    >>> planned(((0, 1), (1, 2), (0, 2)))
    MatrixLayout(orders=((0, 1), (0, 1)), counts=(0, 1, 1), back=(0, 1))
    """
    one, other, out = labels
    batch = [label for label in out if label in one and label in other]
    rows = [label for label in out if label not in other]
    columns = [label for label in out if label not in one]
    summed = [label for label in one if label not in out]
    orders = (
        tuple([one.index(label) for label in (*batch, *rows, *summed)]),
        tuple([other.index(label) for label in (*batch, *summed, *columns)]),
    )
    made = (*batch, *rows, *columns)
    back = tuple([made.index(label) for label in out])
    return MatrixLayout(orders, (len(batch), len(rows), len(columns)), back)


@writes_out
def multiply(
    plan: MatrixLayout, dtype: np.dtype[Any], tasks: int, goes_on: bool, *blocks: Any,
    out: Any = None,
) -> Any:
    """Return the sum, in order, of the products of pairs of blocks; `tasks` share BLAS's threads.

    goes_on
        The first block is the sum before these pairs.
    """
    total: Any = None
    more: Any = None
    with share_of_threads(tasks):
        for one, other in zip(blocks[goes_on::2], blocks[goes_on + 1::2], strict=True):
            a, b, shape = _matrices(plan, one, other)
            if total is not None:
                more = np.matmul(a, b, out=more)
                total += more
                continue
            made = (*a.shape[:-1], b.shape[-1])
            fits = (made, a.dtype, list(plan.back)) == (shape, dtype, sorted(plan.back))
            if goes_on:
                before = blocks[0].transpose(turned_back(plan.back)).reshape(made)
                total = np.add(before, np.matmul(a, b), out=out if fits else None)
            else:
                total = np.matmul(a, b, out=out if fits else None)
    if total is out:
        return out
    return total.reshape(shape).transpose(plan.back).astype(dtype, copy=False)


def _matrices(plan: MatrixLayout, one: Any, other: Any) -> tuple[Any, Any, tuple[int, ...]]:
    (first, second), (batch, rows, columns), _ = plan
    a, b = one.transpose(first), other.transpose(second)
    right = b.ndim - columns
    shape = (*a.shape[: batch + rows], *b.shape[right:])
    stack = a.shape[:batch]
    middle = prod(a.shape[batch + rows:])
    return (
        a.reshape(*stack, prod(a.shape[batch: batch + rows]), middle),
        b.reshape(*stack, middle, prod(b.shape[right:])),
        shape,
    )


class Add(TreeReduction):
    """Adds partial sums, in their order."""

    def __init__(self, name: str, together: int) -> None:
        self.__name__ = self.merge_name = f"{name}-add"
        self.together = together

    takes_out = True

    def merge(self, parts: Sequence[Any], out: Any = None) -> Any:
        total = np.add(parts[0], parts[1], out=out)
        for part in parts[2:]:
            total += part
        return total


def contraction(
    one: Expr, other: Expr, labels: tuple[Labels, Labels, Labels], dtype: np.dtype[Any]
) -> Expr:
    """Return the sum of products of two nodes; each label stands once in each, for equal lengths.

    Raises
    ------
    SizesNeeded
        A shared axis has an unknown length, and other chunks in the other node.
    """
    (one, at_one), (other, at_other) = map(_in_own_order, (one, other), labels[:2])
    labels = (at_one, at_other, labels[2])
    first = dict(zip(labels[0], one.chunks, strict=True))
    second = dict(zip(labels[1], other.chunks, strict=True))
    sizes = first | second
    for label in set(first) & set(second):
        if first[label] != second[label]:
            if None in first[label] or None in second[label]:
                raise SizesNeeded
            sizes[label] = max(first[label], second[label], key=len)  # so that no block grows
        elif None in first[label]:
            raise SizesNeeded
        if dtype.hasobject and label not in labels[2]:  # of which sums depend on the order
            sizes[label] = (sum(first[label]),)
    if dtype.char in _OF_BLAS:
        sizes |= _longer_sums(labels, sizes)
    one, other = [
        rechunk(cast(node, dtype), tuple([sizes[label] for label in own_labels]))
        for node, own_labels in zip((one, other), labels, strict=False)
    ]
    return Contraction((one, other), labels, dtype)


def _longer_sums(
    labels: tuple[Labels, Labels, Labels], sizes: dict[int, tuple[Any, ...]]
) -> dict[int, tuple[int, ...]]:
    """Return chunks of the summed axes: longer ones, where sums are large beside what is read.

    Adding up sums of 500 products each took as long as the products of a matrix with itself did.
    """
    longest = {label: 1 if None in each else max(each) for label, each in sizes.items()}
    one, other, out = [prod([longest[label] for label in each]) for each in labels]
    if 4 * out < one + other:
        return {}
    found: dict[int, tuple[int, ...]] = {}
    most = _LONG if any(len(sizes[label]) > 1 for label in labels[2]) else _LONG // 2
    summed = [label for label in labels[0] if label not in labels[2]]
    for label in summed:
        others = prod([longest[x] for x in summed if x != label])
        found[label] = together(sizes[label], max(most // max(others, 1), 1))
        longest[label] = max(found[label])
    return found


def _in_own_order(node: Expr, labels: Labels) -> tuple[Expr, Labels]:
    """Take what a transposed view is of: a matrix times itself is then known to be symmetric."""
    if not isinstance(node, View) or any(axis < 0 for axis in node.selection.axes):
        return node, labels
    picks, axes = node.selection
    own = dict(zip(axes, labels, strict=True))
    order = tuple(sorted(axes))
    return view(node.inputs[0], Selection(picks, order)), tuple([own[axis] for axis in order])
