"""An array before it is computed: an expression of operation, inputs, dtype, shape and chunks.

Operation, inputs and chunks of a node never change once it is made. Building one adds up the
lengths of the chunks of each axis, 10 ns each, and makes no blocks: these exist only in the plan
(lowering.py). Passes (passes/) turn nodes into cheaper equals. Every walk is a loop, so that a
chain of a hundred thousand operations works.

    >>> import lazyflow.array as la
    >>> node = (la.ones((4, 6), chunks=(2, 3)) + 1).expr
    >>> node.name, node.shape, node.chunks, [below.name for below in node.inputs]
    ('add', (4, 6), ((2, 2), (3, 3)), ['full', 'const'])
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from math import prod
from operator import attrgetter, is_
from typing import Any, ClassVar, Protocol

import numpy as np

from lazyflow.array.chunks import Chunks, length
from lazyflow.array.nodes.block_kinds import OtherKind
from lazyflow.array.nodes.selection import Index, Selection
from lazyflow.graph.task import Task
from lazyflow.schedulers.core.snapshots import Watch
from lazyflow.store.exchange_file import Exchange

# -- A dtype that is found on demand, by a call of a user's function


class LazyDtype:
    """A placeholder for the dtype and the kind of an array's blocks until they are asked for.

    find
        Called without arguments, returns the dtype, or an array like a block.
    needs
        Lazy dtypes that `find` asks for: found first, by a loop, so that a long chain of functions
        needs no recursion.
    of_class
        Whether a class of the user's made the blocks, or blocks that these are made of.
    known
        The dtype, if only the kind has to be found.

    Examples
    --------
    >>> lazy = LazyDtype(lambda: np.dtype("f4"))
    >>> lazy.known, lazy.get(), lazy.known
    (None, dtype('float32'), dtype('float32'))
    """

    __slots__ = ("_asked", "_find", "_needs", "known", "meta", "of_class")

    def __init__(
        self, find: Callable[[], Any], needs: Iterable[LazyDtype] = (), of_class: bool = False,
        known: np.dtype[Any] | None = None,
    ) -> None:
        self._find: Callable[[], Any] | None = find
        self._needs = tuple(needs)
        self._asked = False
        known_kinds = [each.of_class or each.meta is not None for each in self._needs]
        self.of_class: bool = of_class or True in known_kinds
        self.known = known
        self.meta: Any = None

    @classmethod
    def like(cls, meta: Any) -> LazyDtype:
        """Return a `LazyDtype` for blocks like an array."""
        made = cls(lambda: meta, of_class=True, known=np.dtype(meta.dtype))
        made.meta = meta
        return made

    def kind(self) -> Any:
        """Return an array like the blocks if they are another library's, else None.

        If unknown, only calls of classes, such as ``csr_array``, are tried to find it.
        """
        if self.meta is None and self.of_class and not self._asked and self._find is not None:
            self._asked = True
            for each in self._needs:
                each.get()
            try:
                found = self._find()
            except TypeError:  # as who asks for the dtype is told
                return None
            if not isinstance(found, np.dtype):
                self.meta = found
        return self.meta

    def get(self) -> np.dtype[Any]:
        """Return the dtype; found at the first call."""
        stack = [self]
        while stack:
            one = stack[-1]
            missing = [each for each in one._needs if each.known is None]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            find = one._find
            if find is not None and one.known is None:
                found = find()
                if not isinstance(found, np.dtype):
                    one.meta, found = found, np.dtype(found.dtype)
                one.known = found
                one._find = None
                one._needs = ()
        assert self.known is not None
        return self.known


def common_dtype(blocks: Iterable[Any]) -> np.dtype[Any]:
    """Return the dtype of an array that is made of these blocks."""
    different = {block.dtype for block in blocks}
    if len(different) == 1:  # result_type would change the order of bytes
        return different.pop()
    found: np.dtype[Any] = np.result_type(*different)
    return found


#: A line of a user's code: a code object, and an offset in its instructions.
Line = tuple[Any, int]


#: A node and how it is wanted, in words of a pass; None: as it is.
Request = tuple["Expr", Any]

#: The requests that have to be answered first, and what makes the node of their answers.
Recipe = tuple[list[Request], Callable[[tuple["Expr", ...]], "Expr"]]


class Unknown(tuple[Any, ...]):
    """The lengths of the chunks of an axis, where some are unknown.

    Two are equal only if they have one origin: then blocks of the same number have the same length.
    Operations pass them on, so that axes of one origin are known to fit.

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


class MakesTasks(Protocol):
    """The part of `Lowering` that nodes use to make their tasks."""

    taken: dict[int, int]

    @property
    def exchange(self) -> Exchange | None:
        """The source of files for blocks that are assembled anew; None: there is none."""

    def block(self, node: Expr, index: Index) -> Task:
        """Return the task of one block of a node."""

    def bounds(self, node: Expr) -> list[list[int]]:
        """Return where the chunks of each axis begin; an empty list for unknown lengths."""

    def shared(self, node: Expr, key: Any, make: Any, *details: Any) -> Any:
        """Return an object shared by all blocks of a node, made once by ``make(*details)``."""

    def task(self, func: Any, args: Sequence[Any], node: Expr) -> Task:
        """Return a task that errors and warnings trace to the user's line of a node."""

    def parts(self, func: Any, args: Sequence[Any], node: Expr, count: int) -> list[Task]:
        """Return the tasks of the items of a tuple that a function returns."""

    def value(self, value: Any) -> Task:
        """Return a task that is a value."""

    def fused_block(self, node: Expr, index: Index) -> Task:
        """Return the task of a block of a program, or of a source that is read by slices."""


class Expr:
    """One operation on arrays.

    The parameters of a subclass's constructor are its inputs, if it has any, and fields: attributes
    of the same names. `params` and `with_inputs` follow from them.

    Attributes
    ----------
    inputs
        Nodes.
    dtype, chunks, shape
        Of the result. Unknown lengths in the shape are None. A dtype may be given as a `LazyDtype`,
        which is found on demand.
    line
        The line of a user that made it, or None: given by `give_line`, once.
    free
        Whether `with_chunks` gives any other chunks at the same cost, because the source is in
        memory or generated.
    of_any_kind
        Whether its inputs may have blocks of other libraries.
    called
        Its name in messages, if other than that of its class.
    watches
        Watches of the large arrays that it reads in the caller's memory, which must not change.
    """

    __slots__ = ("__weakref__", "_line", "chunks", "dtype_or_lazy", "inputs", "shape")

    watches: Sequence[Watch] = ()

    free = False
    of_any_kind = False
    called: str = ""
    _values: ClassVar[Callable[[Expr], tuple[Any, ...]]]

    def __init_subclass__(cls) -> None:
        code = cls.__init__.__code__
        names = code.co_varnames[1:code.co_argcount]
        kept = {"dtype": "dtype_or_lazy"}
        fields = [kept.get(name, name) for name in names if name != "inputs"]
        get: Any = attrgetter(*fields) if fields else lambda node: ()
        cls._values = staticmethod(get if len(fields) != 1 else lambda node: (get(node),))

    def __init__(
        self, inputs: tuple[Expr, ...], dtype: np.dtype[Any] | LazyDtype, chunks: Chunks
    ) -> None:
        self.dtype_or_lazy = dtype
        self.inputs = inputs
        self.shape: tuple[int | None, ...] = tuple(map(length, chunks))
        self.chunks = tuple(map(_of_one_origin, chunks)) if None in self.shape else chunks
        self._line: Line | None = None
        if not self.of_any_kind:
            for x in inputs:
                if type(x.dtype_or_lazy) is LazyDtype and (meta := x.kind) is not None:
                    raise OtherKind(meta, self.called or "this function")

    @property
    def kind(self) -> Any:
        """An array like the blocks, if these are of another library than NumPy; else None."""
        found = self.dtype_or_lazy
        return found.kind() if type(found) is LazyDtype else None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements; may call a user's function to find it."""
        found = self.dtype_or_lazy
        return found.get() if type(found) is LazyDtype else found  # type: ignore[return-value]

    @property
    def known_dtype(self) -> np.dtype[Any] | None:
        """Type of the elements; None if it would have to be found first."""
        found = self.dtype_or_lazy
        return found.known if type(found) is LazyDtype else found  # type: ignore[return-value]

    @property
    def line(self) -> Line | None:
        """The line of a user that made it, if that is known."""
        return self._line

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.called or type(self).__name__.lower()

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

    @property
    def memory_order(self) -> tuple[int, ...]:
        """The position of each axis in the memory of blocks; (0, 1, ...) is C order.

        Views have that of their base; computed blocks are in C order.
        """
        return tuple(range(self.ndim))

    def params(self) -> tuple[Any, ...]:
        """Return the values of its fields, in the order of the constructor."""
        return type(self)._values(self)

    def key(self) -> Any:
        """Return a hashable: nodes with equal keys do the same with equal inputs."""
        return type(self)._values(self)

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        """Return the same operation on equal inputs, which are in the chunks of its own."""
        return type(self)(inputs, *self.params()) if self.inputs else self

    def with_chunks(self, chunks: Chunks) -> Expr:
        """Return the same array in other chunks; only where it is ``free``."""
        raise TypeError(f"{type(self).__name__} can't change its chunks: it is not free")

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        """Return a task whose result is a block; unless a class says how, it reads the inputs."""
        return low.fused_block(self, index)

    def through(self, selection: Selection) -> Recipe | None:
        """Return how a view of this node is made of views of its inputs; None if it can't be.

        It is a list of pairs, of an input and the selection that is taken of it, and a function
        that gets the nodes of these selections as a tuple, and returns the node of the view.
        """
        return None

    def __repr__(self) -> str:
        shown = " x ".join("?" if n is None else str(n) for n in self.shape)
        return f"<{self.name} {self.known_dtype or '?'} {shown}>"


class Source(Expr):
    """A node without inputs."""

    __slots__ = ()

    def __init__(self, dtype: np.dtype[Any] | LazyDtype, chunks: Chunks) -> None:
        super().__init__((), dtype, chunks)


def _of_one_origin(chunks: tuple[Any, ...]) -> tuple[Any, ...]:
    return Unknown(chunks) if None in chunks and type(chunks) is not Unknown else chunks


# -- lines of users' code -----------------------------------------------------------------------


_PASSED_ON = ("lazyflow.", "numpy.", "numba.")  # modules that call lazyflow on behalf of the user


def give_line(node: Expr) -> None:
    """Set the user's line of a node, and of all nodes below it, that have none.

    To be called by ``Array.__init__``.
    """
    if node._line is not None:
        return
    line = _users_line()
    stack = [node]
    while stack:
        one = stack.pop()
        if one._line is None:
            one._line = line
            stack.extend(one.inputs)


def _users_line() -> Line:
    """Return the line outside of lazyflow that is making an array."""
    frame = sys._getframe(3)  # above this, `give_line` and `Array.__init__`
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(_PASSED_ON) or name.startswith("lazyflow.testing"):
            break
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def same_line(made: Expr, node: Expr) -> None:
    """Give a node the line of the one that it replaces, if it has none."""
    if made._line is None:
        made._line = node._line


def hand_down(nodes: list[Expr]) -> None:
    """Give nodes that passes made the line of the node that uses them; inputs come first."""
    for node in reversed(nodes):
        for x in node.inputs:
            same_line(x, node)


# -- walks --------------------------------------------------------------------------------------


class Roots(tuple[Expr, ...]):
    """Wanted nodes, which remember the order of all nodes below them."""

    @cached_property
    def order(self) -> list[Expr]:
        """All nodes below, each after its inputs, without recursion."""
        done: dict[Expr, None] = {}
        stack = list(self)
        stack.reverse()
        while stack:
            missing = [x for x in stack[-1].inputs if x not in done]
            if missing:
                missing.reverse()
                stack += missing
            else:
                done[stack.pop()] = None
        return list(done)


def below(roots: Iterable[Expr]) -> list[Expr]:
    """Return all nodes of some expressions, each after its inputs; not to be changed."""
    return (roots if isinstance(roots, Roots) else Roots(roots)).order


def rebuilt(
    roots: Sequence[Expr], change: Callable[[Expr, tuple[Expr, ...]], Expr]
) -> list[Expr]:
    """Return equals of some expressions: `change` gets each node and its new inputs."""
    new: dict[Expr, Expr] = {}
    for node in below(roots):
        made = change(node, tuple([new[x] for x in node.inputs]))
        same_line(made, node)
        new[node] = made
    return [new[root] for root in roots]


def answered(
    wanted: Iterable[Expr], recipe: Callable[[Expr, Any], Recipe],
    give_lines: Callable[[Expr, Expr, Any], None],
) -> dict[Request, Expr]:
    """Return the nodes for requests of some nodes themselves, and for all requests below.

    recipe
        Returns how to answer a request, given as two arguments: a `Recipe`.
    give_lines
        Called with each answer and its request.
    """
    found: dict[Request, Expr] = {}
    stack: list[Request] = [(node, None) for node in wanted]
    while stack:
        request = stack[-1]
        if request in found:
            stack.pop()
            continue
        needed, make = recipe(*request)
        missing = [each for each in needed if each not in found]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        made = found[request] = make(tuple([found[each] for each in needed]))
        give_lines(made, *request)
    return found


def same(node: Expr, inputs: tuple[Expr, ...]) -> Expr:
    """Return a node with these inputs: the node itself if it has them."""
    return node if are_same(inputs, node.inputs) else node.with_inputs(inputs)


def are_same(some: Sequence[Expr], others: Sequence[Expr]) -> bool:
    """Tell whether nodes are the very same ones."""
    return len(some) == len(others) and all(map(is_, some, others))


def turned_back(order: Sequence[int]) -> tuple[int, ...]:
    """Return the order of axes that undoes another one.

    >>> turned_back((1, 2, 0))
    (2, 0, 1)
    """
    return tuple(sorted(range(len(order)), key=order.__getitem__))
