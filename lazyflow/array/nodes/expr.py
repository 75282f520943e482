"""What an array is before it runs: an expression of shape, dtype, chunks, operation and inputs.

Nodes never change once they are made. Building one costs a step for each axis and none for its
chunks' number: chunks exist as tuples of lengths, blocks only in the plan (lowering.py). Passes
(pipeline.py, fuse.py) turn nodes into cheaper equals; every walk is a loop, so that a chain of a
hundred thousand operations works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.nodes.lazy_dtype import LazyDtype

if TYPE_CHECKING:
    from lazyflow.array.nodes.lowering import Lowering
    from lazyflow.array.nodes.views import Spec
    from lazyflow.graph.task import Task

Index = tuple[int, ...]


class Unknown(tuple[Any, ...]):
    """Lengths of an axis' chunks, of which some are not known.

    Two of them are equal if they come of one origin: then blocks of one number are of one length,
    whatever that is. Operations pass them on, and so axes of one origin are known to fit.

    >>> one, other = Unknown((None, None)), Unknown((None, None))
    >>> one == one, one == other, one == (None, None)
    (True, False, True)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is not Unknown and super().__eq__(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class Expr:
    """One operation. Subclasses say what makes them differ (`params`) and how a block is made.

    dtype, chunks, shape
        Of the result; a shape is None where a length of the axis is. A dtype may be given as a
        `LazyDtype`: it is found out when somebody asks.
    inputs
        Nodes.
    place
        The line that made it, as code object and offset; set by the array that shows it.

    Notes
    -----
    ``free``: blocks of any other chunks could be made as cheaply, because what is below is in
    memory or made from nothing; then there is ``with_chunks``.
    """

    __slots__ = ("__weakref__", "chunks", "dtype_or_lazy", "inputs", "place", "shape")

    free = False

    def __init__(
        self, dtype: np.dtype[Any] | LazyDtype, chunks: Chunks, inputs: tuple[Expr, ...] = ()
    ) -> None:
        self.dtype_or_lazy = dtype
        self.inputs = inputs
        self.shape: tuple[int | None, ...] = tuple(map(length, chunks))
        self.chunks = tuple(map(_of_one_origin, chunks)) if None in self.shape else chunks
        self.place: tuple[Any, int] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements; may have to be found out, by calling a user's function."""
        found = self.dtype_or_lazy
        return found.get() if type(found) is LazyDtype else found  # type: ignore[return-value]

    @property
    def known_dtype(self) -> np.dtype[Any] | None:
        """Type of the elements; None where that would have to be found out."""
        found = self.dtype_or_lazy
        return found.known if type(found) is LazyDtype else found  # type: ignore[return-value]

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__.lower()

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.chunks)

    @property
    def numblocks(self) -> Index:
        """Number of chunks of each axis."""
        return tuple(map(len, self.chunks))

    @property
    def size(self) -> int:
        """Number of elements; raises TypeError where a length is not known."""
        return prod(self.shape)  # type: ignore[arg-type]

    def params(self) -> tuple[Any, ...]:
        """Return what makes it differ from another of its class with equal inputs: hashable."""
        raise TypeError(f"{type(self).__name__} does not say what makes it differ: params()")

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        """Return the same operation of equal inputs."""
        raise TypeError(f"{type(self).__name__} can't be had of other inputs: with_inputs()")

    def with_chunks(self, chunks: Chunks) -> Expr:
        """Return the same in other chunks; only where it is ``free``."""
        raise TypeError(f"{type(self).__name__} can't be had in other chunks: it is not free")

    def make_block(self, low: Lowering, index: Index) -> Task:
        """Return a task whose result is a block."""
        raise TypeError(f"{type(self).__name__} has no blocks of its own: it is fused first")

    def through(self, spec: Spec) -> tuple[list[tuple[Expr, Any]], Any] | None:
        """Tell how a view of this node is made of views of its inputs; None: it is not.

        Returns pairs of an input and a view of it, and what makes the node of what these are.
        """
        return None

    def __repr__(self) -> str:
        shown = " x ".join("?" if n is None else str(n) for n in self.shape)
        return f"<{self.name} {self.known_dtype or '?'} {shown}>"


def length(chunks: tuple[Any, ...]) -> int | None:
    """Return the length of an axis.

    >>> length((2, 3)), length((2, None))
    (5, None)
    """
    return None if None in chunks else sum(chunks)


def _of_one_origin(chunks: tuple[Any, ...]) -> tuple[Any, ...]:
    return Unknown(chunks) if None in chunks and type(chunks) is not Unknown else chunks


def in_order(roots: Iterable[Expr], inputs_of: Callable[[Expr], Sequence[Expr]]) -> list[Expr]:
    """Return all nodes below some, each after its inputs, without recursion."""
    done: dict[Expr, None] = {}
    stack = [(root, False) for root in roots]
    stack.reverse()
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if ready:
            done[node] = None
            continue
        stack.append((node, True))
        stack.extend((x, False) for x in reversed(inputs_of(node)) if x not in done)
    return list(done)


def below(roots: Iterable[Expr]) -> list[Expr]:
    """Return all nodes of some expressions, each after its inputs."""
    return in_order(roots, lambda node: node.inputs)


def rebuilt(
    roots: Sequence[Expr], change: Callable[[Expr, tuple[Expr, ...]], Expr]
) -> list[Expr]:
    """Return equals of some expressions: `change` gets each node and its new inputs."""
    new: dict[Expr, Expr] = {}
    for node in below(roots):
        made = change(node, tuple([new[x] for x in node.inputs]))
        if made.place is None:
            made.place = node.place
        new[node] = made
    return [new[root] for root in roots]


def same(node: Expr, inputs: tuple[Expr, ...]) -> Expr:
    """Return a node with these inputs: itself, if they are its own."""
    if len(inputs) == len(node.inputs) and all(map(_is, inputs, node.inputs)):
        return node
    return node.with_inputs(inputs)


def _is(a: Any, b: Any) -> bool:
    return a is b
