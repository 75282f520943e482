"""``x[key] = value`` for all kinds of keys: what is written, and where, in terms of `Assigned`.

An assignment writes into no block: the array gets another expression. Views of it show the change,
as in NumPy; everything else that was made of it keeps the old values. A mask alone, with values
that do not depend on how many elements it chooses, becomes a `where` and stays lazy. All other keys
need places: lazy indices and masks, and unknown lengths, are computed at the call, and the values
are laid out so that a task reads one block of them (nodes/indexing/assign.py). Values are cast as
by NumPy's assignment; lazy values other than arrays are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.foreign import refuse_lazy
from lazyflow.array.functions.arguments import broadcast_node
from lazyflow.array.functions.indexing.index_arrays import (
    Key,
    as_indices,
    broadcast_indices,
    compute_integers,
    split_key,
)
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.align import operand_chunks
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.indexing import keys
from lazyflow.array.nodes.indexing.assign import WrittenPoints, assigned, by_blocks
from lazyflow.array.nodes.indexing.masks import check_lengths
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.selection import Pick, Selection
from lazyflow.array.nodes.sources import Const, InMemory
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.user_calls import PerBlock
from lazyflow.array.nodes.views import view, with_axes


def set_item(x: Array, key: Any, value: Any) -> None:
    """Change some elements of an array, and of its views; else what was made of it stays."""
    if keys.is_field(key):
        x._expr = _with_field(x, key, value)
        return
    entries = compute_integers(keys.parse(key, x.shape))
    basic = keys.is_basic(entries)
    lens = value._lens if isinstance(value, Array) else None
    if basic and lens is not None and lens.base is x and lens.key == entries:
        return  # the view that x[key] += 1 has written into
    if all(isinstance(entry, int) for entry in entries) and (
        x.dtype.kind in "OV" or not _has_ellipsis(key)
    ):
        node = _element(value, x.dtype)
    else:
        node = _values(value, x, basic)
    if not basic:
        _only_a_line(node, entries, key, x)
        key_parts = split_key(entries)
        mask = _only_mask(key_parts, entries)
        if mask is not None and _is_same_for_all(node, mask, x):
            x._expr = _where(x, mask, node)
            return
    else:
        key_parts = Key(entries, [], 0)
    resolve_lengths(x)
    x._expr = _written(x, key_parts, elementwise.cast(node, x.dtype))


def _has_ellipsis(key: Any) -> bool:
    return any(each is Ellipsis for each in (key if isinstance(key, tuple) else (key,)))


def _element(value: Any, dtype: np.dtype[Any]) -> Expr:
    """Return a value as the one element that NumPy makes of it at one place."""
    if isinstance(value, Array):
        resolve_lengths(value)
        if value.ndim and dtype.kind not in "bOV":
            if dtype.kind == "c" or dtype.char == "g":  # their elements are converted by Python
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
            raise ValueError("setting an array element with a sequence.")
        return elementwise.cast(value.expr, dtype)
    if not dtype.hasobject:
        refuse_lazy(value)
    made = np.empty(1, dtype)
    made[0] = value
    return elementwise.constant(made.reshape(()))


def _values(value: Any, x: Array, basic: bool) -> Expr:
    """Return values as elements of the array, cast as NumPy's assignment does it.

    Objects that are lazy stay objects: a mask decides which of them can be elements.
    """
    if isinstance(value, Array):
        resolve_lengths(value)
        if not np.can_cast(value.dtype, x.dtype, "unsafe"):
            raise TypeError(
                f"Cannot cast array data from {value.dtype!r} to {x.dtype!r} according to the rule "
                "'unsafe'"
            )
        return value.expr if value.dtype == object else elementwise.cast(value.expr, x.dtype)
    if x.dtype.hasobject or x.dtype.names:
        made = np.array(value, dtype=x.dtype)  # of records a tuple is one element
    else:
        as_node(value)  # what is lazy and no array is refused
        made = np.empty(np.shape(value), x.dtype)
        if not basic and isinstance(value, np.generic):
            value = np.asarray(value)  # for index arrays NumPy casts these, for others it refuses
        made[...] = value
    made.setflags(write=False)
    return InMemory(made, tuple([(n,) for n in made.shape])) if made.ndim else Const(made)


def _with_field(x: Array, key: Any, value: Any) -> Expr:
    """Return records of which a field, or several, are replaced."""
    resolve_lengths(x)
    node, old = x.expr, x[key]
    new = elementwise.cast(_values(value, old, True), old.dtype)
    new = _fitted(new, old.shape, Key([], [], 0), old)
    inner, missing = old.ndim - node.ndim, old.ndim - new.ndim
    order = (*range(node.ndim, old.ndim), *range(node.ndim))  # those of the field's arrays first
    new = with_axes(new, [k - missing if k >= missing else ~1 for k in order])
    new = rechunk(new, operand_chunks(
        new, (*old.shape[node.ndim:], *node.shape), (*old.chunks[node.ndim:], *node.chunks)
    ))
    write = named("setitem", _field_written, key if isinstance(key, str) else [*key], inner)
    return PerBlock((node, new), write, node.dtype, node.chunks)


def _field_written(key: Any, inner: int, block: Any, values: Any) -> Any:
    found = np.array(block)
    found[key][...] = np.moveaxis(values, range(inner), range(-inner, 0))
    return found


# -- masks --------------------------------------------------------------------------------------


def _only_mask(key: Key, entries: list[Any]) -> tuple[int, Any] | None:
    """Return a mask and its first axis, if beside it there are only whole axes."""
    if len(key.arrays) != 1:
        return None
    ((axis, mask),) = key.arrays
    others = [each for each in entries if each is not mask]
    if mask.dtype != bool or not mask.ndim:
        return None
    if not all(isinstance(each, slice) and each == slice(None) for each in others):
        return None
    return axis, mask


def _only_a_line(node: Expr, entries: list[Any], key: Any, x: Array) -> None:
    """Raise for values of several axes where a mask of the whole array chooses along one."""
    masks = [each for each in entries if getattr(getattr(each, "dtype", None), "kind", "") == "b"]
    alone = len(key) == 1 if isinstance(key, tuple) else True
    if alone and len(masks) == 1 and masks[0].ndim == x.ndim and node.ndim > 1:
        raise TypeError(
            "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input "
            f"has {node.ndim} dimensions"
        )


def _is_same_for_all(node: Expr, found: tuple[int, Any], x: Array) -> bool:
    """Tell whether what is written does not depend on how much the mask chooses."""
    axis, mask = found
    check_lengths(mask.shape, x.shape, axis)
    after = x.ndim - axis - mask.ndim
    if node.ndim > axis + 1 + after:
        return False
    shape = (1,) * (axis + 1 + after - node.ndim) + node.shape
    fits = (*x.shape[:axis], 1, *x.shape[axis + mask.ndim:])
    return all(n in (1, m) for n, m in zip(shape, fits, strict=True))


def _where(x: Array, found: tuple[int, Any], value: Expr) -> Expr:
    axis, mask = found
    if not isinstance(mask, Array):
        mask = Array(InMemory(np.array(mask), tuple([(n,) for n in mask.shape])))
    of_mask = slice(axis, axis + mask.ndim)
    if mask.chunks != x.chunks[of_mask]:
        resolve_lengths(x, mask)
        check_lengths(mask.shape, x.shape, axis)
    node = x.expr
    after = node.ndim - axis - mask.ndim
    condition = rechunk(mask.expr, node.chunks[of_mask])
    condition = view(condition, Selection(
        (None,) * mask.ndim, (*range(mask.ndim), *[~1] * after)
    ))
    if value.ndim > after:  # the axis of what the mask chooses becomes those of the mask
        spot = value.ndim - after - 1
        picks = [0 if k == spot else None for k in range(value.ndim)]
        axes = [*range(spot), *[~1] * mask.ndim, *range(spot + 1, value.ndim)]
        value = view(value, Selection(tuple(picks), tuple(axes)))
    value = rechunk(value, operand_chunks(value, node.shape, node.chunks))
    if value.dtype == object:
        return elementwise.function(_chosen, (condition, value, node), node.dtype)
    return elementwise.cast(elementwise.where(condition, value, node), node.dtype)


def _chosen(condition: Any, value: Any, x: Any) -> Any:
    found = np.broadcast_to(x, np.broadcast_shapes(condition.shape, value.shape, x.shape)).copy()
    np.copyto(found, value, where=condition, casting="unsafe")  # casts no others
    return found


# -- places -------------------------------------------------------------------------------------


def _written(x: Array, key: Key, value: Expr) -> Expr:
    node = x.expr
    selection = keys.basic_spec(node.shape, key.basic)
    places: dict[int, Any] = {}
    points: tuple[int, ...] = ()
    stands: list[int | None] = list(selection.axes)  # axes of the node; negative: new; None: points
    if key.arrays:
        base = x[tuple(key.basic)]
        places = as_indices(base, key.arrays)
        shared = broadcast_indices(places)
        points = shared[0].shape
        rest = [axis for k, axis in enumerate(selection.axes) if k not in places]
        stands = [*rest[:key.first], *[None] * len(points), *rest[key.first:]]
        places = {
            selection.axes[k]: index for k, index in zip(places, shared, strict=True)
            if selection.axes[k] >= 0
        }
    picks = tuple([
        None if axis in places else _pick(pick, node.shape[axis])
        for axis, pick in enumerate(selection.picks)
    ])
    at_points = iter(points)
    shape = tuple([
        next(at_points) if axis is None else 1 if axis < 0 else picks[axis].length  # type: ignore
        for axis in stands
    ])
    value = _fitted(value, shape, key, x)
    if 0 in shape:
        return node
    return _put(node, value, stands, picks, places, points)


def _pick(pick: Pick | int | None, n: int | None) -> Pick:
    assert n is not None
    if pick is None:
        return Pick(0, 1, n)
    return Pick(pick, 1, 1) if isinstance(pick, int) else pick


def _fitted(value: Expr, shape: tuple[int, ...], key: Key, x: Array) -> Expr:
    """Return values without leading axes of length 1 that are too many; checks that they fit."""
    given = value.shape
    full = len(key.arrays) == 1 and key.arrays[0][1].dtype == bool and (
        key.arrays[0][1].ndim == x.ndim
    )
    if full and value.ndim == 1 and value.shape[0] not in (1, shape[0]):
        raise ValueError(
            f"NumPy boolean array indexing assignment cannot assign {value.shape[0]} input values "
            f"to the {shape[0]} output values where the mask is true"
        )
    extra = value.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in given[:extra]):
        selection = Selection((0,) * extra + (None,) * len(shape), tuple(range(extra, value.ndim)))
        value = view(value, selection)
    # By index arrays no elements are taken whatever the axes before those that fit.
    fits = (value.ndim <= len(shape) or (bool(key.arrays) and 0 in given[extra:])) and all(
        n in (1, m) for n, m in zip(value.shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        shown, taken_shape = (str(lengths).replace(" ", "") for lengths in (given, shape))
        if key.arrays:
            raise ValueError(
                f"shape mismatch: value array of shape {shown} could not be broadcast to indexing "
                f"result of shape {taken_shape}"
            )
        raise ValueError(
            f"could not broadcast input array from shape {shown} into shape {taken_shape}"
        )
    return value


def _put(
    node: Expr,
    value: Expr,
    stands: list[int | None],
    picks: tuple[Pick | None, ...],
    places: dict[int, Any],
    points: tuple[int, ...],
) -> Expr:
    """Lay values out as `Assigned` wants them."""
    missing = len(stands) - value.ndim
    at = {axis: k - missing for k, axis in enumerate(stands) if axis is not None and axis >= 0}
    of_points = [k - missing for k, axis in enumerate(stands) if axis is None]
    taken: list[Pick | int | None] = [0] * value.ndim
    axes = []
    for k in of_points:
        axes.append(k if k >= 0 else ~1)
        if k >= 0:
            taken[k] = None
    forward: list[Pick | None] = []
    for axis, pick in enumerate(picks):
        if pick is None:
            forward.append(None)
            continue
        k = at.get(axis, -1)
        axes.append(k if k >= 0 else ~1)
        n = value.shape[k] if k >= 0 else 1
        if k >= 0:
            taken[k] = Pick(n - 1, -1, n) if pick.step < 0 and n != 1 else None  # type: ignore
        if pick.step < 0:
            pick = Pick(pick.start + (pick.length - 1) * pick.step, -pick.step, pick.length)
        forward.append(pick)
    laid = view(value, Selection(tuple(taken), tuple(axes)))
    if not places:  # perhaps new axes that x[True] stands for
        laid = view(laid, Selection(
            (0,) * len(points) + (None,) * len(forward), tuple(range(len(points), laid.ndim))
        ))
        return assigned(node, laid, tuple(forward), None)
    order = tuple(sorted(places))
    targets = WrittenPoints(node, order, tuple([places[axis] for axis in order]))
    count = len(points)
    if all(n == 1 for n in laid.shape[:count]):
        firsts = Selection(
            (0,) * count + (None,) * (laid.ndim - count), (~1, *range(count, laid.ndim))
        )
        laid = view(laid, firsts)
    else:
        laid = broadcast_node(laid, (*points, *laid.shape[count:]))
        laid = by_blocks(laid, count, targets, points)
    return assigned(node, laid, tuple(forward), targets)
