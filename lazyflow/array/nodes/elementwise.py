"""Operations on each element: ufuncs, `where`, casts and functions like them; fused groups.

Each operation is a node of its own until the passes fuse neighbours into a program (`Fused`). Its
dtypes are those of the ufunc's loop by NumPy's promotion, Python numbers included, and its chunks
are common to all inputs (align.py). A view moves below it, to each input, unless it repeats
elements, which are computed once instead. A cast of a constant is done at once. Of a ufunc of Numba
the node keeps Numba's object, as the ufunc inside can't be pickled; Numba compiles the loop at the
call.

    >>> import lazyflow.array as la
    >>> node = ((la.ones(4) + 1) * 2).expr
    >>> node.name, [below.name for below in node.inputs]
    ('multiply', ['add', 'const'])
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.chunks import Chunks
from lazyflow.array.kernels.program import CAST, WHERE, BlockFunction, Program, ScanOperation, Step
from lazyflow.array.nodes.align import common_chunks
from lazyflow.array.nodes.expr import Expr, Recipe
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.sources import Const

# -- compiled ufuncs ----------------------------------------------------------------------
#
# Numba's are objects around a NumPy ufunc, which itself can't be pickled. Numba is loaded already
# wherever one of them is met.


def ufunc_for(func: Any, operands: Sequence[Any], **options: Any) -> np.ufunc:
    """Return the ufunc inside a Numba object, with the loop that these operands need.

    If needed, Numba compiles the loop now, as in a call on arrays, and raises its errors.
    """
    func(*operands, **options)
    found: np.ufunc = func.ufunc
    return found


def owner(ufunc: np.ufunc) -> Any:
    """Return the Numba object that a ufunc belongs to, or the ufunc itself.

    Methods of Numba's objects, and calls of generalised ones, pass the ufunc inside.
    """
    registry = sys.modules.get("numba.core.registry")
    if registry is None or getattr(np, ufunc.__name__, None) is ufunc:
        return ufunc
    from numba.np.ufunc.ufunc_base import UfuncBase

    for known in list(registry.cpu_target.typing_context._globals.values()):
        found = getattr(known, "typing_key", None)
        if isinstance(found, UfuncBase) and found.ufunc is ufunc:
            return found
    return ufunc


def takes_results(func: Any) -> bool:
    """Tell whether a Numba object picks its loops by the arrays given for its results."""
    return bool(getattr(func, "is_dynamic", False))


def one_loop(func: Any, types: tuple[np.dtype[Any], ...], *blocks: Any, **options: Any) -> Any:
    """Call one loop of such an object, without arrays for the results."""
    return func.ufunc(*blocks, signature=types, **options)


Loop = tuple[np.dtype[Any], ...]

_NAMED = BlockFunction | ScanOperation


# -- elementwise nodes --------------------------------------------------------------------


class Elementwise(Expr):
    """One operation on nodes that broadcast against each other.

    op, loop, result
        As of a `Step`.
    """

    __slots__ = ("loop", "op", "result")

    def __init__(
        self, inputs: tuple[Expr, ...], op: Any, loop: Loop, result: int = 0, *, fit: bool = False
    ) -> None:
        super().__init__(inputs, loop[len(inputs) + result], common_chunks(inputs, fit))
        self.op = op
        self.loop = loop
        self.result = result

    @property
    def name(self) -> str:
        named = self.op.name if isinstance(self.op, _NAMED) else self.op.__name__
        return str(named).lstrip("_")

    def with_inputs(self, inputs: tuple[Expr, ...]) -> Expr:
        return Elementwise(inputs, self.op, self.loop, self.result, fit=True)

    def through(self, selection: Selection) -> Recipe | None:
        if any(axis < 0 and ~axis != 1 for axis in selection.axes):
            return None  # repeated elements are computed once
        return [(x, _share(x, self, selection)) for x in self.inputs], self.with_inputs

    def step(self, operands: tuple[int, ...]) -> Step:
        """Return the operation on numbered values."""
        return Step(self.op, operands, self.loop, self.result)


class Fused(Expr):
    """A program over nodes whose chunks fit.

    program
        Its inputs are the constants, then the nodes.
    consts
        0-d arrays.
    called
        Its name in messages.
    why
        Why the group ends here, in words.
    last
        Called with the result of each block, where reductions stay within blocks; or None.
    """

    __slots__ = ("called", "consts", "last", "program", "why")

    def __init__(
        self,
        inputs: tuple[Expr, ...],
        program: Program,
        consts: tuple[np.ndarray[Any, Any], ...],
        dtype: np.dtype[Any],
        chunks: Chunks,
        called: str,
        why: str,
        last: Any = None,
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.program = program
        self.consts = consts
        self.called = called
        self.why = why
        self.last = last

    def key(self) -> Any:
        return self.program, *map(id, self.consts), self.chunks


def _share(node: Expr, whole: Expr, selection: Selection) -> Selection:
    """Return the selection of an input that a selection of the result needs."""
    skipped = whole.ndim - node.ndim
    picks: list[Any] = []
    stretched = set()
    for axis, n in enumerate(node.shape):
        pick = selection.picks[axis + skipped]
        if n == 1 and whole.shape[axis + skipped] != 1 and pick is not None:
            picks.append(0)
            stretched.add(axis)
        else:
            picks.append(pick)
    axes = [
        ~1 if axis < skipped or axis - skipped in stretched else axis - skipped
        for axis in selection.axes
    ]
    while skipped and axes and axes[0] == ~1:  # broadcasting puts it there
        del axes[0]
    return Selection(tuple(picks), tuple(axes))


#: Types of Python numbers, which are weak operands: what NumPy finds the type of the result by.
_WEAK = {bool: np.dtype(bool), int: int, float: float, complex: complex}


#: Those that take whole numbers that their other operand's dtype does not have.
_COMPARISONS = {np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal}


def ufunc(
    func: Any, operands: Sequence[Any], dtype: Any = None, casting: str = "same_kind"
) -> tuple[Expr, ...]:
    """Return the results of a ufunc of nodes and numbers, with NumPy's types.

    Raises
    ------
    TypeError
        The ufunc has no loop for these types.
    """
    given: list[Any] = [x.dtype if isinstance(x, Expr) else _WEAK[type(x)] for x in operands]
    wanted = [None] * func.nout
    options: dict[str, Any] = {"casting": casting}
    if dtype is not None:
        options["signature"] = (*[None] * func.nin, *[np.dtype(dtype)] * func.nout)
    resolver: np.ufunc = func
    if not isinstance(func, np.ufunc):
        made_up = [np.empty(0, x.dtype) if isinstance(x, Expr) else x for x in operands]
        resolver = ufunc_for(func, made_up, **({} if dtype is None else {"dtype": dtype}))
    loop: Loop = resolver.resolve_dtypes((*given, *wanted), **options)
    try:
        inputs = tuple([
            x if isinstance(x, Expr) else constant(x, loop[i]) for i, x in enumerate(operands)
        ])
    except OverflowError:
        if func not in _COMPARISONS:
            raise
        exact = [x if isinstance(x, Expr) else constant(x) for x in operands]
        return ufunc(func, exact, dtype, casting)
    return tuple([Elementwise(inputs, func, loop, i) for i in range(func.nout)])


def constant(value: Any, dtype: Any = None) -> Const:
    """Return a node of a number."""
    array = np.asarray(value, dtype=dtype)
    array.setflags(write=False)
    return Const(array)


def wrapped(value: Any, dtype: Any) -> Const:
    """Return a node of a number, which wraps around in a dtype that is too small for it."""
    return constant(np.asarray(value).astype(dtype))


def cast(node: Expr, dtype: Any) -> Expr:
    """Return a node in another dtype, as ``astype(casting="unsafe")``."""
    dtype = np.dtype(dtype)
    if dtype == node.dtype:
        return node
    if isinstance(node, Const):
        return constant(node.value.astype(dtype))
    return Elementwise((node,), CAST, (node.dtype, dtype))


def not_zero(node: Expr) -> Expr:
    """Return which elements are not zero; records are zero if all their fields are."""
    return function(_not_zero, (node,), bool) if node.dtype.kind == "V" else cast(node, bool)


def _not_zero(block: Any) -> Any:
    found = np.zeros(block.shape, bool)
    found.reshape(-1)[np.flatnonzero(block)] = True
    return found


def where(condition: Expr, a: Any, b: Any) -> Expr:
    """Return ``np.where(condition, a, b)``; `a` and `b` may be Python numbers."""
    if condition.dtype != bool:
        condition = cast(condition, bool)
    dtype = np.result_type(*[x.dtype if isinstance(x, Expr) else x for x in (a, b)])
    native = dtype if dtype.kind == "V" else dtype.newbyteorder("=")
    zero = np.zeros((), native)  # beside which NumPy's own function, since 2.5, refuses or wraps
    a, b = [x if isinstance(x, Expr) else constant(np.where(True, x, zero)) for x in (a, b)]
    made = Elementwise((condition, a, b), WHERE, (condition.dtype, native, native, native))
    # beside a Python number NumPy keeps the order of bytes of spans of time
    return cast(made, dtype) if dtype.kind == "m" else made


def function(
    func: Any, operands: tuple[Expr, ...], dtype: Any, **keywords: Any
) -> Expr:
    """Return the result of a function that works element by element on whole blocks."""
    pairs = tuple(sorted(keywords.items()))
    op = BlockFunction(func, pairs, repr(pairs))
    return Elementwise(operands, op, (*[x.dtype for x in operands], np.dtype(dtype)))
