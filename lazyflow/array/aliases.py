"""Views that act as NumPy's: a write into one shows in all arrays that share its memory there.

Nothing is shared here: an array is a name for an expression, and a write gives it another one. So a
view remembers its array and how it looks at it. A write into the view is put back into the array,
and a view whose array was written to looks again. Only what is a view in NumPy is one here.

    >>> import lazyflow.array as la
    >>> x = la.arange(6, chunks=3)
    >>> every_second = x[::2]
    >>> every_second[0] = 9
    >>> x.compute()
    array([9, 1, 2, 3, 4, 5])
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyflow.array.dispatch import functions
from lazyflow.array.nodes.expr import Expr, turned_back
from lazyflow.array.nodes.rechunking import Rechunk
from lazyflow.array.nodes.sources import InMemory
from lazyflow.array.nodes.views import transposed

#: Returns the order in which a node's axes are computed in memory, known once it is rewritten.
OrderOf = Callable[[Expr], tuple[int, ...]]


class Lens(NamedTuple):
    """How an array is a view of another.

    base, root
        The array that it was made of, and the first array of the chain, which views none.
    look
        Returns the view of an array like the base, or of NumPy's view of NumPy's.
    put
        Writes values for all that is seen into an array like the base.
    key
        The slices, integers and new axes that it was taken by, if it was.
    """

    base: Any
    root: Any
    look: Callable[[Any], Any]
    put: Callable[[Any, Any], None]
    key: list[Any] | None = None


class Aliased:
    """The part of `Array` that holds its expression: its own, or that of a view."""

    __slots__ = ("_lens", "_node", "_order", "_seen")

    _lens: Lens | None
    _node: Expr
    _order: tuple[int, ...] | None  # of its first expression in memory, once it has another one
    _seen: Expr  # of the root, when the view looked at it

    @property
    def _expr(self) -> Expr:
        if self._lens is not None and self._lens.root._node is not self._seen:
            _look_again(self)
        return self._node

    @_expr.setter
    def _expr(self, node: Expr) -> None:
        if self._lens is not None:
            _put_back(self, node)
        else:
            self._order = _order_of(self)
            self._node = node


def _order_of(x: Any) -> tuple[int, ...]:
    order: tuple[int, ...] = x._order or x._node.memory_order
    return order


def _look_again(x: Any) -> None:
    root, stale = x._lens.root, []
    while x._lens is not None and x._seen is not root._node:
        stale.append(x)
        x = x._lens.base
    for each in reversed(stale):
        each._node = each._lens.look(type(x)(x._node))._node
        each._seen = root._node
        x = each


def _put_back(x: Any, node: Expr) -> None:
    new, lens = [(x, node)], x._lens
    while lens is not None:
        base = type(x)(lens.base._expr)
        lens.put(base, type(x)(node))
        node = base._node
        new.append((lens.base, node))
        lens = lens.base._lens
    x._lens.root._order = _order_of(x._lens.root)
    for each, found in new:
        each._node, each._seen = found, node


def seen(
    base: Any, node: Expr, look: Callable[[Any], Any], put: Callable[[Any, Any], None],
    key: list[Any] | None = None,
) -> Any:
    """Return a view of an array; its other arguments are those of a `Lens`."""
    made = type(base)(node)
    root = root_of(base)
    made._lens = Lens(base, root, look, put, key)
    made._seen = root._node
    return made


def root_of(x: Any) -> Any:
    """Return the array at the end of what an array is a view of: itself, if it is none."""
    return x if x._lens is None else x._lens.root


def item_seen(base: Any, node: Expr, entries: list[Any], key: Any) -> Any:
    """Return the view that slices, integers and new axes give; of one element NumPy has a copy."""
    if not node.shape and node.dtype.kind != "V":
        given = key if isinstance(key, tuple) else (key,)
        if not any(each is Ellipsis for each in given):
            return type(base)(node)
    key = (*entries, Ellipsis)  # then NumPy's is a view, too

    def put(base: Any, new: Any) -> None:
        functions["set_item"](base, key, new)

    return seen(base, node, lambda x: x[key], put, entries)


def field_seen(base: Any, node: Expr, name: Any) -> Any:
    """Return the view that a name of a field, or a list of them, gives."""

    def put(base: Any, new: Any) -> None:
        functions["set_item"](base, name, new)

    return seen(base, node, lambda x: x[name], put)


def transposed_seen(base: Any, axes: Any) -> Any:
    """Return the view that has the axes in another order; reversed, if none is given."""
    node = transposed(base._expr, axes)

    def put(base: Any, new: Any) -> None:
        back = None if axes is None else turned_back([axis % base.ndim for axis in axes])
        base._expr = transposed(new._node, back)

    return seen(base, node, lambda x: x.transpose(axes), put)


def reshaped_seen(base: Any, node: Expr) -> Any:
    """Return the array with the elements of another in another shape: a view, if NumPy has one."""
    shape: Any = node.shape
    if not _is_plain(base):
        try:
            like_numpy(base).reshape(shape, copy=False)
        except ValueError:
            return type(base)(node)

    def put(base: Any, new: Any) -> None:
        base._expr = new.reshape(base.shape)._node

    return seen(base, node, lambda x: x.reshape(shape), put)


def is_contiguous(x: Any, order: str) -> bool:
    """Tell whether NumPy would have the elements in a row in an order of `ravel`."""
    if _is_plain(x) and order != "F":
        return True
    flags = like_numpy(x).flags
    return {"C": flags.c_contiguous, "F": flags.f_contiguous}.get(order, flags.forc)


def is_fortran(x: Any, order_of: OrderOf) -> bool:
    """Tell whether NumPy's array would lie in Fortran's order, without gaps, and not in C's."""
    if x.ndim < 2:
        return False
    flags = like_numpy(x, None, order_of).flags
    return bool(flags.f_contiguous and not flags.c_contiguous)


def axes_in_memory(x: Any, order_of: OrderOf) -> tuple[int, ...]:
    """Return the axes in the order in which NumPy's array would lie in memory."""
    own = tuple(range(x.ndim))
    if x.ndim < 2:
        return own
    steps = like_numpy(x, None, order_of).strides
    return tuple(sorted(own, key=lambda axis: -abs(steps[axis])))


def _steps_of(x: Any) -> tuple[int, ...] | None:
    """Return the strides of the array in memory that an array is, if it is one with gaps."""
    node = x._node
    while isinstance(node, Rechunk):
        (node,) = node.inputs
    return node.strides if x._order is None and isinstance(node, InMemory) else None


def _is_plain(x: Any) -> bool:
    """Tell whether an array is no view and lies in C order."""
    if x._lens is not None or _order_of(x) != tuple(range(x.ndim)):
        return False
    return _steps_of(x) is None or bool(like_numpy(x).flags.c_contiguous)


def like_numpy(x: Any, memory: Any = None, order_of: OrderOf | None = None) -> np.ndarray[Any, Any]:
    """Return an array laid out as NumPy's would be.

    It has no memory but one element, which may be given, and must not be read.
    """
    looks = []
    while x._lens is not None:
        looks.append(x._lens.look)
        x = x._lens.base
    order = order_of(x._node) if order_of is not None and x._order is None else _order_of(x)
    shape = x.with_known_sizes().shape
    memory = np.empty((), x.dtype) if memory is None else memory
    given = _steps_of(x)
    if given is not None:
        return _seen_by(looks, np.lib.stride_tricks.as_strided(memory, shape, given))
    lengths = [shape[axis] for axis in turned_back(order)]
    steps = [x.dtype.itemsize * prod(lengths[k + 1:]) for k in range(x.ndim)]
    found = np.lib.stride_tricks.as_strided(memory, lengths, steps).transpose(order)
    return _seen_by(looks, found)


def _seen_by(looks: list[Any], found: Any) -> Any:
    for look in reversed(looks):
        found = look(found)
    return found
