"""Nodes of users' functions: bound to their arguments, called once a block, and checked.

A call is bound to its arguments once; one task for each block of the result fills in the blocks.
Arrays of 1 MiB or more among the arguments become inputs of the tasks, so that they are sent once
and not with the function. Nodes of two users' calls are never merged, even of the same function;
those of lazyflow's own functions are (`PerBlock`).

A dtype that nobody declared is found when it is first asked for, by a call with blocks of ones. The
shape is never found so: it follows from the chunks that the caller declares. Each task compares the
block that the function returns with the declared shape and dtype, and raises where they differ;
only another byte order and longer strings are cast. Partial results of reductions are not checked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from lazyflow.api.lazy import Delayed
from lazyflow.array.chunks import Chunks, length
from lazyflow.array.nodes.block_kinds import is_other_kind, joined, made_up
from lazyflow.array.nodes.expr import Expr, Index, LazyDtype, MakesTasks
from lazyflow.array.nodes.task_parts import BlockPosition, named
from lazyflow.graph.arguments import read_only
from lazyflow.graph.binding import bind, new_leaf
from lazyflow.graph.task import VALUE, Task, function_name
from lazyflow.schedulers.core.snapshots import Taken, Watch

# -- the node of a function that gets the blocks at one place of all its inputs -----------


class PerBlock(Expr):
    """The results of a function of the blocks of its inputs, place by place.

    func
        Called with a block of each input. The node is equal to others of the same function.

    Notes
    -----
    An input with fewer axes, or with one block along an axis, gives the same block everywhere. If
    an input has more axes, the first of these are one block each.
    """

    __slots__ = ("func",)

    def __init__(
        self, inputs: tuple[Expr, ...], func: Any, dtype: np.dtype[Any], chunks: Chunks
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.func = func

    @property
    def name(self) -> str:
        return str(self.func.__name__)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        blocks = []
        for x in self.inputs:
            own = ((0,) * x.ndim + index)[len(index):]
            at = [0 if len(c) == 1 else i for c, i in zip(x.chunks, own, strict=True)]
            blocks.append(low.block(x, tuple(at)))
        return low.task(self.func, blocks, self)


# -- A user's function with its arguments other than blocks, and the dtype of its result --

_LARGE = 1 << 20  # bytes of an argument that is no part of the function

#: Stands for a block among the arguments of a function.
BLOCK: Any = type("Block", (), {"__repr__": lambda self: "<block>"})()


#: The parameter that says the dtype, where it isn't called that.
REMEDIES = {"apply_gufunc": "output_dtypes", "vectorize": "otypes"}


class BoundCall:
    """A function to be called for each block.

    Parameters
    ----------
    func
        The function.
    args
        Its arguments in order, BLOCK where a block goes. Lazy values among the others, and
        within, are inputs of each task.
    kwargs
        Its keywords.
    asked_by
        The function of lazyflow that got it, for messages.
    name
        Name of the tasks; None: that of the function.

    Arguments are copied or watched by the rule of `lazyflow.submit`; `watches` has the latter.
    """

    def __init__(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any],
        asked_by: str, name: str | None = None,
    ) -> None:
        if not callable(func):
            raise TypeError(
                f"{asked_by}() calls a function for each block; got a {type(func).__name__}: "
                f"{func!r:.100}"
            )
        self.func = func
        self.asked_by = asked_by
        self.name = name or function_name(func)
        self.places = tuple([i for i, x in enumerate(args) if x is BLOCK])
        taken = Taken()
        plain = [None if x is BLOCK else _apart(taken.part(x)) for x in args]
        named = {k: _apart(taken.part(x)) for k, x in kwargs.items()}
        self.watches = taken.watches
        self.inputs, self._binder = bind(plain, named)
        self.takes_id = takes(func, "block_id") and "block_id" not in kwargs
        self.takes_info = takes(func, "block_info") and "block_info" not in kwargs

    def arguments(
        self, values: Sequence[Any], blocks: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments for some blocks, given the values of the lazy ones."""
        args, kwargs = self._binder.fill(list(values))
        for place, block in zip(self.places, blocks, strict=True):
            args[place] = block
        return args, kwargs

    def __getstate__(self) -> dict[str, Any]:
        # only how many inputs there are
        return {**self.__dict__, "inputs": (None,) * len(self.inputs), "watches": ()}


def _apart(x: Any) -> Any:
    """Make a large array an input of its own, which is sent once and not with the function."""
    if isinstance(x, np.ndarray) and x.nbytes >= _LARGE:
        return new_leaf(Delayed, VALUE, read_only(x))
    return x


def takes(func: Any, keyword: str) -> bool:
    """Tell whether a function has a parameter of that name."""
    try:
        return keyword in inspect.signature(func).parameters
    except (ValueError, TypeError):  # built in, and doesn't say
        return False


def declared(dtype: Any, meta: Any) -> Any:
    """Return the dtype that a user gave by `dtype` or by an array like the result, if any.

    For an array of another library it is a `LazyDtype` that is known already.

    >>> declared("f4", None), declared(None, np.empty(0, "i2"))
    (dtype('float32'), dtype('int16'))
    """
    if is_other_kind(meta):
        return LazyDtype.like(meta if dtype is None else meta.astype(dtype))
    if dtype is None:
        if meta is None:
            return None
        dtype = getattr(meta, "dtype", None)
        if dtype is None:
            raise TypeError(
                f"meta must be an array like the result, of any length; got {meta!r:.100}. To give "
                "only the type of the elements, use dtype="
            )
    found = np.dtype(dtype)
    if found.itemsize == 0 and found.names is None:
        raise TypeError(
            f"dtype={dtype!r:.50} does not say how long the strings are; give the length, as in "
            f"'{found.kind}10'"
        )
    return found


def dtype_of(
    call: BoundCall, dtype: Any, meta: Any, inputs: Sequence[Expr],
    fakes: Sequence[Callable[[np.dtype[Any]], Any]],
    extra: Callable[[], dict[str, Any]] = dict,
) -> np.dtype[Any] | LazyDtype:
    """Return the dtype of a call's result: the declared one, or a lazy one that tries the call.

    fakes
        For each input a function from its dtype to a made-up block.
    extra
        Returns further keywords of the function.
    """
    known = declared(dtype, meta)
    of_class = meta is None and isinstance(call.func, type)
    if known is not None and not of_class:
        found: np.dtype[Any] | LazyDtype = known
        return found
    blocks, needs = made_up_blocks(inputs, fakes)
    return LazyDtype(
        lambda: dtype_or_block(tried(call, blocks(), extra())), needs, of_class, known
    )


def dtype_or_block(found: Any) -> Any:
    """Return the dtype of a function's result; of another library's block, the block itself."""
    return found if is_other_kind(found) else np.asarray(found).dtype


def made_up_blocks(
    inputs: Sequence[Expr], fakes: Sequence[Callable[[np.dtype[Any]], Any]]
) -> tuple[Callable[[], list[Any]], list[LazyDtype]]:
    """Return a function that makes up a block of each input, and the dtypes that it needs.

    fakes
        For each input a function from its dtype to the block.
    """
    types = [x.dtype_or_lazy for x in inputs]

    def blocks() -> list[Any]:
        return [
            _of_kind(t.meta, fake(t.get())) if isinstance(t, LazyDtype) else fake(t)
            for fake, t in zip(fakes, types, strict=True)
        ]

    return blocks, [t for t in types if isinstance(t, LazyDtype)]


def _of_kind(meta: Any, fake: Any) -> Any:
    if isinstance(fake, list):
        return [_of_kind(meta, each) for each in fake]
    return fake if meta is None else made_up(meta, fake)


def tried(call: BoundCall, blocks: Sequence[Any], extra: dict[str, Any]) -> Any:
    """Return the result of a function for made-up blocks.

    Raises
    ------
    TypeError
        It raised, returned something other than an array, or needs computed values.
    """
    remedy = f"Pass {REMEDIES.get(call.asked_by, 'dtype')}= to {call.asked_by}()"
    unknown = f"the dtype of {call.asked_by}({call.name}, ...) is not known: {call.name}"
    if any(task._func is not VALUE for task in call.inputs):
        raise TypeError(
            f"{unknown} gets lazy values, so it can't be tried before they are computed. {remedy}."
        )
    args, kwargs = call.arguments([task._args[0] for task in call.inputs], blocks)
    shown = ", ".join(map(_shown, blocks))
    was_tried = f"{unknown} was tried on made-up blocks of ones ({shown}), not on your data, and"
    try:
        with np.errstate(all="ignore"):
            result = call.func(*args, **kwargs, **extra)
    except Exception as error:
        raise TypeError(
            f"{was_tried} raised {type(error).__name__}: {error!s:.200}. {remedy}, then it is not "
            "tried."
        ) from error
    if result is None or isinstance(result, str | dict | set):
        raise TypeError(
            f"{was_tried} returned {result!r:.100} instead of an array. {remedy}, then it is not "
            "tried."
        )
    return result


def _shown(block: Any) -> str:
    if isinstance(block, list):
        return f"[{_shown(block[0])}]"
    return f"shape {block.shape}, {block.dtype}"


def ones(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a made-up block, read-only as real ones are."""
    try:
        found = np.ones(shape, dtype)
    except (TypeError, ValueError):  # a dtype without a one
        found = np.zeros(shape, dtype)
    found.setflags(write=False)
    return found


# -- checks of what a user's function returns for a block: it must be as the array declares

#: What to type, by the function of lazyflow that was called.
_SHAPES = {
    "map_blocks": "chunks= (and drop_axis=, new_axis= where axes go or come)",
    "blockwise": "adjust_chunks= and new_axes=",
    "reduction": "output_size= and keepdims=",
    "apply_gufunc": "the signature and output_sizes=",
    "apply_along_axis": "shape=",
    "from_delayed": "shape=",
}


class ReturnCheck:
    """Checks a function's result for a block.

    name, asked_by
        The function, and the function of lazyflow that got it.
    chunks, dtype
        Of the array of the blocks; unknown lengths or an unknown dtype are None.
    """

    def __init__(
        self, name: str, asked_by: str, chunks: Chunks, dtype: np.dtype[Any] | None
    ) -> None:
        self.name = name
        self.asked_by = asked_by
        self.chunks = chunks
        self.dtype = dtype

    def of(self, found: Any, index: Index) -> Any:
        """Return the block.

        Raises
        ------
        ValueError
            It has another shape than the array declares.
        TypeError
            It is not an array, or one of another dtype.
        """
        if not (hasattr(found, "shape") and hasattr(found, "dtype")):
            found = self._array(found, index)
        elif isinstance(found, np.generic):
            found = np.asarray(found)
        wanted = tuple([sizes[i] for sizes, i in zip(self.chunks, index, strict=True)])
        if found.shape != wanted and (
            len(found.shape) != len(wanted)
            or any(n is not None and n != m for n, m in zip(wanted, found.shape, strict=True))
        ):
            raise ValueError(
                f"{self.name} returned an array of shape {found.shape} for block {index}, but "
                f"{_shape_text(wanted)} was expected. Declare the shape by "
                f"{_SHAPES.get(self.asked_by, 'the shape')} of {self.asked_by}()."
            )
        if self.dtype is None or found.dtype == self.dtype:
            return found
        return self._cast(found, index)

    def _array(self, found: Any, index: Index) -> Any:
        if isinstance(found, bool | int | float | complex):
            return np.asarray(found)
        if found is None:
            raise TypeError(
                f"{self.name} returned None for block {index}, but an array was expected. Is its "
                "return missing, or does it return the result of an in-place method such as sort()?"
            )
        raise TypeError(
            f"{self.name} returned a {type(found).__name__} for block {index}, but an array was "
            f"expected. For blocks of other kinds use lazyflow.delayed on x.to_delayed()."
        )

    def _cast(self, found: Any, index: Index) -> Any:
        """Cast where no value changes: to another byte order, or to longer strings."""
        assert self.dtype is not None
        how = "safe" if found.dtype.kind == self.dtype.kind and self.dtype.kind in "SU" else "equiv"
        if np.can_cast(found.dtype, self.dtype, how):  # type: ignore[arg-type]
            return found.astype(self.dtype)
        raise TypeError(
            f"{self.name} returned {found.dtype} for block {index}, but {self.dtype} was "
            f"expected. Pass {REMEDIES.get(self.asked_by, 'dtype')}={str(found.dtype)!r} to "
            f"{self.asked_by}(), or have "
            f"{self.name} return .astype({str(self.dtype)!r})."
        )


def _shape_text(shape: tuple[int | None, ...]) -> str:
    text = ", ".join("any" if n is None else str(n) for n in shape)
    return f"({text},)" if len(shape) == 1 else f"({text})"


class SingleResult(Expr):
    """One of several results of a function.

    inputs
        A node whose blocks are tuples; further axes of it, or of the result, are one chunk.
    which
        The number of the result.
    call, count
        The user's function, whose results are checked, and their number; None: lazyflow's own
        function, without a check.
    """

    __slots__ = ("call", "count", "which")
    of_any_kind = True

    def __init__(
        self, inputs: tuple[Expr, ...], which: int, dtype: np.dtype[Any] | LazyDtype,
        chunks: Chunks, call: BoundCall | None = None, count: int = 0,
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.which = which
        self.call = call
        self.count = count

    @property
    def name(self) -> str:
        return self.inputs[0].name

    def key(self) -> Any:
        return self.which

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        (several,) = self.inputs
        func = low.shared(self, "which", self._take)
        at = (*index, *[0] * several.ndim)[: several.ndim]
        return low.task(func, (index, low.block(several, at)), self)

    def _take(self) -> Any:
        check = None if self.call is None else ReturnCheck(
            self.name, self.call.asked_by, self.chunks, self.known_dtype
        )
        return named(self.name, take_result, check, self.which, self.count)


def take_result(
    check: ReturnCheck | None, which: int, count: int, index: Index, found: Any
) -> Any:
    """Return one of several results of a block, checked if a user's function returned it."""
    if check is None:
        return found[which]
    if not isinstance(found, tuple | list) or len(found) != count:
        what = f"{len(found)} results" if isinstance(found, tuple | list) else (
            f"a {type(found).__name__}"
        )
        raise ValueError(
            f"{check.name} returned {what} for block {index}, but the signature says a "
            f"tuple of {count}"
        )
    return check.of(found[which], index)


# -- the node of a user's function that is called once for each block, and its tasks ------


class AxisBlocks(NamedTuple):
    """The blocks of an input's axis that a function gets for a block of the result.

    axis
        The axis of the result whose block has the same number; None: all blocks of this one.
    together
        The number of neighbours in a list; None: one block without a list.
    total
        The number of blocks of the axis; if it has one block for all, that of the other inputs.
    alone
        It has one block.
    """

    axis: int | None
    together: int | None
    total: int
    alone: bool

    @property
    def is_list(self) -> bool:
        """Whether several blocks are given."""
        return self.axis is None or self.together is not None

    def numbers(self, index: Index) -> range:
        """Return the numbers of the blocks."""
        if self.axis is None:
            return range(self.total)
        at = index[self.axis]
        if self.together is None:
            return range(at, at + 1)
        return range(at * self.together, min((at + 1) * self.together, self.total))


class InputBlocks(NamedTuple):
    """The blocks of one input that a function gets: in nested lists, or concatenated."""

    axes: tuple[AxisBlocks, ...]
    concatenate: bool

    def of(self, low: MakesTasks, node: Expr, index: Index, before: Index = ()) -> Any:
        """Return the task of a block, or nested lists of such tasks.

        before
            The numbers of the block along the first axes, which are already chosen.
        """
        if len(before) == len(self.axes):
            return low.block(node, before)
        along = self.axes[len(before)]
        numbers: Sequence[int] = along.numbers(index)
        if along.alone:
            again = along.is_list and not self.concatenate
            numbers = [0] * (len(numbers) if again else 1)
        found = [self.of(low, node, index, (*before, i)) for i in numbers]
        return found if along.is_list else found[0]

    def given(self, blocks: Any) -> Any:
        """Return the argument of the function, in a task."""
        lists = [axis for axis, along in enumerate(self.axes) if along.is_list]
        if not lists or not self.concatenate:
            return blocks
        found = joined(blocks, lists)
        return read_only(found) if isinstance(found, np.ndarray) else found

    def fake(self, dtype: np.dtype[Any]) -> Any:
        """Return made-up blocks for a trial of the function, which tells the dtype."""
        found: Any = ones((1,) * len(self.axes), dtype)
        if not self.concatenate:
            for along in self.axes:
                if along.is_list:
                    found = [found]
        return found


class BlockCalls(Expr):
    """A user's function, called for each block.

    shares
        For each input the blocks that the function gets.
    checked
        Results must have the array's shape and dtype; otherwise they may be anything.
    """

    __slots__ = ("call", "checked", "shares")
    of_any_kind = True

    def __init__(
        self,
        inputs: tuple[Expr, ...],
        call: BoundCall,
        shares: tuple[InputBlocks, ...],
        dtype: np.dtype[Any] | LazyDtype,
        chunks: Chunks,
        checked: bool = True,
    ) -> None:
        super().__init__(inputs, dtype, chunks)
        self.call = call
        self.shares = shares
        self.checked = checked

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def watches(self) -> Sequence[Watch]:  # type: ignore[override]
        return self.call.watches

    def key(self) -> Any:
        return id(self.call)

    def make_block(self, low: MakesTasks, index: Index) -> Task:
        func = low.shared(self, "call", BlockCall, self)
        shares = [
            share.of(low, node, index)
            for share, node in zip(self.shares, self.inputs, strict=True)
        ]
        return low.task(func, (BlockPosition(index, ()), *self.call.inputs, *shares), self)


class BlockCall:
    """The function of the tasks: calls the user's function for one block."""

    def __init__(self, node: BlockCalls) -> None:
        self.call = node.call
        self.__name__ = node.name
        self.shares = node.shares
        self.outcome = None
        if node.checked:
            self.outcome = ReturnCheck(node.name, node.call.asked_by, node.chunks, node.known_dtype)
        self.infos = None
        if node.call.takes_info:
            taken = tuple([x.chunks for x in node.inputs])
            self.infos = BlockInfos(node.call, node.shares, taken, node.chunks, node.known_dtype)

    def __call__(self, where: BlockPosition, *given: Any) -> Any:
        __tracebackhide__ = True  # for IPython and pytest
        count = len(self.call.inputs)
        blocks = [
            share.given(each) for share, each in zip(self.shares, given[count:], strict=True)
        ]
        args, kwargs = self.call.arguments(given[:count], blocks)
        if self.call.takes_id:
            kwargs["block_id"] = where.index
        if self.infos is not None:
            kwargs["block_info"] = self.infos.at(where.index)
        try:
            found = self.call.func(*args, **kwargs)
        except BaseException as error:
            BaseException.add_note(
                error, f"lazyflow: {self.call.name} was called for block {where.index}"
            )
            raise
        return found if self.outcome is None else self.outcome.of(found, where.index)


class BlockInfos:
    """The argument block_info of functions that have this parameter."""

    def __init__(
        self, call: BoundCall, shares: tuple[InputBlocks, ...], taken: tuple[Chunks, ...],
        chunks: Chunks, dtype: np.dtype[Any] | None,
    ) -> None:
        self.places = call.places
        self.shares = shares
        self.taken = taken
        self.chunks = chunks
        self.dtype = dtype
        self.bounds = [_bounds(each) for each in taken]
        self.out_bounds = _bounds(chunks)

    def at(self, index: Index) -> dict[int | None, dict[str, Any]]:
        """Return block_info for a block."""
        infos: dict[int | None, dict[str, Any]] = {}
        for place, share, chunks, bounds in zip(
            self.places, self.shares, self.taken, self.bounds, strict=True
        ):
            spans = [
                range(1) if along.alone else along.numbers(index) for along in share.axes
            ]
            infos[place] = {
                **_whole(chunks),
                # Along axes of which the function gets all blocks as one, that is the only one.
                "num-chunks": tuple([
                    1 if len(span) == len(sizes) else len(sizes)
                    for span, sizes in zip(spans, chunks, strict=True)
                ]),
                "array-location": [
                    (edge[span.start], edge[span.stop])
                    for edge, span in zip(bounds, spans, strict=True)
                ],
                "chunk-location": tuple([span.start for span in spans]),
            }
        infos[None] = {
            **_whole(self.chunks),
            "array-location": [
                (edge[i], edge[i + 1]) for edge, i in zip(self.out_bounds, index, strict=True)
            ],
            "chunk-location": index,
            "chunk-shape": tuple(
                [sizes[i] for sizes, i in zip(self.chunks, index, strict=True)]
            ),
            "dtype": self.dtype,
        }
        return infos


def _whole(chunks: Chunks) -> dict[str, Any]:
    return {
        "shape": tuple(map(length, chunks)),
        "num-chunks": tuple(map(len, chunks)),
    }


def _bounds(chunks: Chunks) -> list[list[int | None]]:
    return [
        [None] * (len(sizes) + 1) if None in sizes else [0, *accumulate(sizes)]
        for sizes in chunks
    ]


@dataclass(frozen=True)
class OfPairs:
    """Calls a function with NumPy's masked arrays for pairs of blocks of values and masks."""

    func: Callable[..., Any]
    paired: tuple[bool, ...]

    @property
    def __name__(self) -> str:
        return getattr(self.func, "__name__", "map_blocks")

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.func)  # which may have a block_id

    def __call__(self, *blocks: Any, **kwargs: Any) -> Any:
        given = iter(blocks)
        args = [np.ma.MaskedArray(next(given), next(given)) if two else next(given)
                for two in self.paired]
        return self.func(*args, **kwargs)
