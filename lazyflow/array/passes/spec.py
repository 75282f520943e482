"""The rules of expressions: with ``LAZYFLOW_CHECK=1`` they are checked after each pass.

A rule is a sentence, the classes of nodes that it is for, and a function that tells what breaks it
in a node. `check` raises with all that is broken, so that a wrong pass is found where it is made.
Tests always check.

Of each node (`RULES`): shape and chunks agree; the chunks of its inputs fit its own, as its class
needs them; an operation, and a program, gives the dtype that the node says, and reads those of its
inputs; of blocks that are tasks there is one task for each. Of each wanted array, after a pass and
at the end (`check_pass`): shape, dtype and, where they have to stay, chunks are those that it had.

Not checked is what would need values or calls: whether elements are equal (tests compare them), and
dtypes and lengths that are not known yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.chunks import are_parts, length
from lazyflow.array.kernels.program import ScanOperation
from lazyflow.array.nodes.align import common_chunks
from lazyflow.array.nodes.contraction import Contraction
from lazyflow.array.nodes.elementwise import Elementwise, Fused
from lazyflow.array.nodes.expr import Expr, Unknown, below
from lazyflow.array.nodes.halo import Extended, Trimmed
from lazyflow.array.nodes.indexing.assign import Assigned
from lazyflow.array.nodes.indexing.gather import Gather
from lazyflow.array.nodes.indexing.masks import Masked
from lazyflow.array.nodes.joined import Concatenate
from lazyflow.array.nodes.rechunking import Rechunk
from lazyflow.array.nodes.reductions import Reduce, Reduced, Tree
from lazyflow.array.nodes.reshaped import Reshape
from lazyflow.array.nodes.scan import Scan, Scanned, ends_of
from lazyflow.array.nodes.sources import InMemory, TaskBlocks
from lazyflow.array.nodes.user_calls import BlockCalls, PerBlock
from lazyflow.array.nodes.views import View

__all__ = ["RULES", "broken_rules", "check", "check_pass"]

Rule = Callable[[Any], Iterator[str]]

#: Every rule: its sentence, the classes that it is for, and what breaks it.
RULES: dict[str, tuple[tuple[type[Expr], ...], Rule]] = {}

_MOST_SHOWN = 3  # nodes that break one rule in the message


def _rule(sentence: str, *types: type[Expr]) -> Callable[[Rule], Rule]:
    def note(rule: Rule) -> Rule:
        RULES[sentence] = types, rule
        return rule

    return note


def check(nodes: Sequence[Expr]) -> None:
    """Raise AssertionError if expressions break a rule.

    Raises
    ------
    AssertionError
        A rule is broken; the message has each such rule and the nodes that break it.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> from lazyflow.array.nodes.joined import Concatenate
    >>> x, y = la.ones((2, 6), chunks=2), la.ones((2, 6), chunks=3)
    >>> check([la.concatenate([x, y]).expr])
    >>> check([Concatenate((x.expr, y.expr), 0)])
    Traceback (most recent call last):
        ...
    AssertionError: expressions are broken
    what is joined has one dtype and equal chunks on other axes: <concatenate float64 4 x 6>: axis 1
    """
    found = broken_rules(nodes)
    if found:
        raise AssertionError("\n".join(["expressions are broken", *found]))


def check_pass(before: Sequence[Expr], after: Sequence[Expr], keep: bool) -> None:
    """Raise AssertionError where passes gave other arrays, or broken ones.

    Shapes and dtypes stay, and chunks where `keep` says so: those of unknown lengths in number.

    >>> import lazyflow.array as la
    >>> x = la.ones(4, chunks=2)
    >>> check_pass([x.expr], [x.rechunk(4).expr], keep=False)
    >>> check_pass([x.expr], [x.rechunk(4).expr], keep=True)
    Traceback (most recent call last):
        ...
    AssertionError: <full float64 4> has other chunks, ((4,),): ['axis 0']
    """
    check(after)
    assert len(before) == len(after), f"{len(before)} nodes became {len(after)}"
    for old, new in zip(before, after, strict=True):
        assert old.shape == new.shape, f"{old} has another shape than {new}"
        assert _fits_dtype(old, new.known_dtype), f"{old} has another dtype than {new}"
        if keep:
            axes = list(_unequal(new.chunks, old.chunks))
            assert not axes, f"{old} has other chunks, {new.chunks}: {axes}"


def broken_rules(nodes: Sequence[Expr]) -> list[str]:
    """Return a line for each rule that some nodes, or nodes below them, break."""
    broken: dict[str, list[str]] = {}
    for node in below(nodes):
        for sentence, rule in _rules_of(type(node).__mro__):
            for what in rule(node):
                broken.setdefault(sentence, []).append(f"{node}: {what}")
    found = []
    for sentence, nodes_of in broken.items():
        more = len(nodes_of) - _MOST_SHOWN
        shown = "; ".join(nodes_of[:_MOST_SHOWN])
        found.append(f"{sentence}: {shown}" + (f"; and {more} more" if more > 0 else ""))
    return found


@cache
def _rules_of(classes: tuple[type[Any], ...]) -> list[tuple[str, Rule]]:
    """Return the rules for a node that is of these classes."""
    return [
        (sentence, rule) for sentence, (types, rule) in RULES.items()
        if not types or set(types) & set(classes)
    ]


def _fit(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Tell whether chunks of one axis fit others; those of unknown lengths do if they are as many.

    Operations compare their origins when they are made; a pass may give a mask another node.
    """
    return one == other or (None in one and None in other and len(one) == len(other))


def _fits_dtype(node: Expr, dtype: np.dtype[Any] | None) -> bool:
    """Tell whether a node has a dtype; nothing is found out for it."""
    return dtype is None or node.known_dtype is None or node.known_dtype == dtype


def _unequal(found: Any, wanted: Any) -> Iterator[str]:
    """Yield the axes whose chunks are not those that are wanted."""
    if len(found) != len(wanted):
        yield f"{len(found)} axes instead of {len(wanted)}"
        return
    for axis, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if not _fit(one, other):
            yield f"axis {axis}"


@_rule("a shape is the sum of the chunks")
def _shape(node: Expr) -> Iterator[str]:
    if node.shape != tuple(map(length, node.chunks)):
        yield f"{node.shape} of {node.chunks}"


@_rule("every axis has chunks, none of them of a negative length")
def _lengths(node: Expr) -> Iterator[str]:
    for axis, sizes in enumerate(node.chunks):
        if not sizes or any(n is not None and n < 0 for n in sizes):
            yield f"axis {axis} has {sizes}"


@_rule("lengths that are not known say what they are equal to")
def _origins(node: Expr) -> Iterator[str]:
    for axis, sizes in enumerate(node.chunks):
        if None in sizes and type(sizes) is not Unknown:
            yield f"axis {axis}"


@_rule("an array in memory is as large as its chunks", InMemory)
def _memory(node: InMemory) -> Iterator[str]:
    if node.array.shape != node.shape or node.array.dtype != node.dtype:
        yield f"it is {node.array.dtype}, {node.array.shape}"


@_rule("there is a task for each block, and an element of them for each of the whole", TaskBlocks)
def _tasks(node: TaskBlocks) -> Iterator[str]:
    if len(node.tasks) != prod(node.numblocks):
        yield f"{len(node.tasks)} tasks for {prod(node.numblocks)} blocks"
    if node.whole is not None and prod(node.whole) != node.size:
        yield f"{node.size} elements for a shape of {node.whole}"


@_rule("a view has the chunks of what it takes, or parts of them, or any of a source", View)
def _views(node: View) -> Iterator[str]:
    made = View((node.inputs[0],), node.selection)
    if made.shape != node.shape:
        yield f"{made.shape} is taken"
    elif not node.free:
        for axis, (own, taken) in enumerate(zip(node.chunks, made.chunks, strict=True)):
            if not _fit(own, taken) and not are_parts(own, taken):
                yield f"axis {axis}"


@_rule("operations on elements have the dtype of their loop, and chunks that fit", Elementwise)
def _elementwise(node: Elementwise) -> Iterator[str]:
    if isinstance(node, Scanned):
        for carries in node.inputs[1:]:
            yield from _unequal(carries.chunks, ends_of(node.chunks, node.op.axis + node.ndim))
    else:
        yield from _unequal(node.chunks, common_chunks(node.inputs, fit=True))
    if len(node.loop) <= len(node.inputs) + node.result:
        yield f"its loop has {len(node.loop)} dtypes"
    elif not _fits_dtype(node, node.loop[len(node.inputs) + node.result]):
        yield f"its loop gives {node.loop[len(node.inputs) + node.result]}"


@_rule("what a program reads is cut as its result, where it does not broadcast", Fused)
def _fused(node: Fused) -> Iterator[str]:
    if len(node.program.inputs) != len(node.consts) + len(node.inputs):
        yield f"its program has {len(node.program.inputs)} inputs"
    axes = {axis for _, r in node.program.outputs if r is not None for axis in r.axes}
    carries = {
        step.operands[1] - len(node.consts) for step in node.program.steps
        if isinstance(step.op, ScanOperation) and step.operands[1:]
    }
    for at, x in enumerate(node.inputs):
        skipped = node.ndim - x.ndim
        for axis, sizes in enumerate(x.chunks):
            own = node.chunks[axis + skipped]
            is_one = axis + skipped in axes or (at in carries and set(sizes) == {1})
            if not (_fit(sizes, own) or sizes == (1,) or (is_one and len(sizes) == len(own))):
                yield f"axis {axis} of {x}"


@_rule("a program reads the dtypes of its inputs, and gives the dtype of its result", Fused)
def _fused_dtypes(node: Fused) -> Iterator[str]:
    dtypes = node.program.inputs[len(node.consts):]
    for x, dtype in zip(node.inputs, dtypes, strict=False):
        if not _fits_dtype(x, dtype):
            yield f"it reads {dtype} of {x}"
    for value, reduction in node.program.outputs:
        if reduction is None and not _fits_dtype(node, node.program.dtype_of(value)):
            yield f"it gives {node.program.dtype_of(value)}"


@_rule("what is reduced is cut as what counts of it", Reduce)
def _reduce(node: Reduce) -> Iterator[str]:
    for x in node.inputs[1:]:
        yield from _unequal(x.chunks, node.inputs[0].chunks)


@_rule("merged reductions are made of partial results", Reduced)
def _reduced(node: Reduced) -> Iterator[str]:
    (partials,) = node.inputs
    lengths = {n for axis in node.reduction.axes for n in partials.chunks[axis]}
    if not isinstance(partials, Fused) and lengths != {1}:
        yield f"of {partials}"


@_rule("nodes that a tree reduces have equal chunks, and those that all tasks get one", Tree)
def _tree(node: Tree) -> Iterator[str]:
    for x in node.inputs[1:node.count]:
        yield from _unequal(x.chunks, node.inputs[0].chunks)
    for x in node.inputs[node.count:]:
        if prod(x.numblocks) != 1:
            yield f"{x} has {prod(x.numblocks)} blocks"


@_rule("what is joined has one dtype and equal chunks on other axes", Concatenate)
def _joined(node: Concatenate) -> Iterator[str]:
    for x in node.inputs:
        if not _fits_dtype(x, node.known_dtype):
            yield f"{x} is joined"
        yield from _unequal(
            (*x.chunks[:node.axis], node.chunks[node.axis], *x.chunks[node.axis + 1:]), node.chunks
        )


@_rule("axes that are multiplied have equal chunks", Contraction)
def _contraction(node: Contraction) -> Iterator[str]:
    sizes: dict[int, Any] = {}
    for x, labels in zip((*node.inputs, node), node.labels, strict=True):
        for axis, label in enumerate(labels):
            if not _fit(sizes.setdefault(label, x.chunks[axis]), x.chunks[axis]):
                yield f"axis {axis} of {x}"


@_rule("these have the chunks of their input", Scan, Scanned, Assigned)
def _same_chunks(node: Expr) -> Iterator[str]:
    yield from _unequal(node.chunks, node.inputs[0].chunks)


@_rule("other chunks are of the same lengths", Rechunk)
def _rechunk(node: Rechunk) -> Iterator[str]:
    if node.shape != node.inputs[0].shape:
        yield f"of {node.inputs[0]}"


@_rule("groups of axes have as many blocks in both shapes, and as many elements", Reshape)
def _reshape(node: Reshape) -> Iterator[str]:
    (x,) = node.inputs
    for first, last, to_first, to_last in node.groups:
        own, other = node.chunks[to_first:to_last], x.chunks[first:last]
        if prod(map(len, own)) != prod(map(len, other)):
            yield f"{prod(map(len, own))} blocks of {prod(map(len, other))}"
        elif None not in (*node.shape, *x.shape) and (
            prod(map(sum, own)) != prod(map(sum, other))
        ):
            yield f"{own} of {other}"


@_rule("a mask is cut as what it is of, and has a count for each block", Masked)
def _masked(node: Masked) -> Iterator[str]:
    x, mask = node.inputs
    if mask.known_dtype is not None and mask.known_dtype.kind != "b":
        yield f"its mask is {mask.known_dtype}"
    yield from _unequal(x.chunks[node.first:node.first + mask.ndim], mask.chunks)
    if len(node.chunks[node.first]) != prod(mask.numblocks):
        yield f"{len(node.chunks[node.first])} counts of {prod(mask.numblocks)} blocks"


@_rule("the axes beside index arrays are cut as in the input", Gather)
def _gather(node: Gather) -> Iterator[str]:
    if node.free:
        return
    axes, points = node.indices.axes, node.indices.points
    rest = [sizes for axis, sizes in enumerate(node.inputs[0].chunks) if axis not in axes]
    yield from _unequal((*node.chunks[:points.start], *node.chunks[points.stop:]), rest)


@_rule("each input of a function has a block at each place, or one for all", PerBlock)
def _per_block(node: PerBlock) -> Iterator[str]:
    for x in node.inputs:
        for axis in range(-min(x.ndim, node.ndim), 0):
            if len(x.chunks[axis]) not in (1, len(node.chunks[axis])):
                yield f"axis {axis} of {x}"


@_rule("a user's function gets the blocks that were said when it was given", BlockCalls)
def _block_calls(node: BlockCalls) -> Iterator[str]:
    for x, share in zip(node.inputs, node.shares, strict=True):
        for axis, (sizes, own) in enumerate(zip(x.chunks, share.axes, strict=True)):
            if len(sizes) != (1 if own.alone else own.total):
                yield f"axis {axis} of {x} has {len(sizes)} blocks"


@_rule("each axis says how its blocks are extended or trimmed", Extended, Trimmed)
def _edges(node: Extended | Trimmed) -> Iterator[str]:
    if isinstance(node, Extended):
        counts = [len(margin.grid) for margin in node.margins]
    else:
        counts = [len(each) for each in node.cuts]
    if list(node.numblocks) != counts or node.ndim != node.inputs[0].ndim:
        yield f"{counts} blocks of {list(node.numblocks)}"
