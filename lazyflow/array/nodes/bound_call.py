"""A user's function with its arguments other than blocks, and the dtype of its result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyflow.api.lazy import Delayed
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.lazy_dtype import LazyDtype
from lazyflow.graph.arguments import read_only
from lazyflow.graph.binding import bind
from lazyflow.graph.building import new_leaf
from lazyflow.graph.task import VALUE, function_name
from lazyflow.schedulers.core.snapshots import Taken

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
        The function of lazyflow that it was given to, for messages.
    name
        What tasks are called; else as the function.

    Arguments are taken in by the rule of `lazyflow.submit`; `watches` are those of large arrays.
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


def declared(dtype: Any, meta: Any) -> np.dtype[Any] | None:
    """Return the dtype that a user gave by `dtype` or by an array like the result, if any.

    >>> declared("f4", None), declared(None, np.empty(0, "i2"))
    (dtype('float32'), dtype('int16'))
    """
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
        For each input a function of its dtype that makes what stands for a block of it.
    extra
        Returns keywords that the function gets.
    """
    known = declared(dtype, meta)
    if known is not None:
        return known
    made_up, needs = made_up_blocks(inputs, fakes)
    return LazyDtype(lambda: np.asarray(tried(call, made_up(), extra())).dtype, needs)


def made_up_blocks(
    inputs: Sequence[Expr], fakes: Sequence[Callable[[np.dtype[Any]], Any]]
) -> tuple[Callable[[], list[Any]], list[LazyDtype]]:
    """Return a function that makes up a block of each input, and the dtypes that it asks for.

    fakes
        For each input a function of its dtype that makes the block.
    """
    types = [x.dtype_or_lazy for x in inputs]

    def made_up() -> list[Any]:
        return [
            fake(t.get() if isinstance(t, LazyDtype) else t)
            for fake, t in zip(fakes, types, strict=True)
        ]

    return made_up, [t for t in types if isinstance(t, LazyDtype)]


def tried(call: BoundCall, blocks: Sequence[Any], extra: dict[str, Any]) -> Any:
    """Return what a function returns for made-up blocks.

    Raises
    ------
    TypeError
        It raised, or returned no array; or it needs values that have to be computed.
    """
    remedy = f"Pass {REMEDIES.get(call.asked_by, 'dtype')}= to {call.asked_by}()"
    unknown = f"the dtype of {call.asked_by}({call.name}, ...) is not known: {call.name}"
    if any(task._func is not VALUE for task in call.inputs):
        raise TypeError(
            f"{unknown} gets lazy values, so that it can't be tried without computing them. "
            f"{remedy}."
        )
    args, kwargs = call.arguments([task._args[0] for task in call.inputs], blocks)
    shown = ", ".join(map(_shown, blocks))
    was_tried = f"{unknown} was tried on made-up blocks of ones ({shown}), not on your data, and"
    try:
        with np.errstate(all="ignore"):
            found = call.func(*args, **kwargs, **extra)
    except Exception as error:
        raise TypeError(
            f"{was_tried} raised {type(error).__name__}: {error!s:.200}. {remedy}, then it is not "
            "tried."
        ) from error
    if found is None or isinstance(found, str | dict | set):
        raise TypeError(
            f"{was_tried} returned {found!r:.100} instead of an array. {remedy}, then it is not "
            "tried."
        )
    return found


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
