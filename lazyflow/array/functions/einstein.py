"""``einsum``: subscripts, and products of two arrays at a time in a good order.

Operands are multiplied two at a time in the order of ``np.einsum_path``; the greedy order holds
unless `optimize` names another one. Each product sums over the labels that nothing needs later, and
an operand is summed first over labels of its own, so that intermediate arrays stay small. A product
is a contraction by blocks (nodes/contraction.py) if it sums and some labels are in one operand
only, else an elementwise product and a sum. Repeated labels of one operand become its diagonal.
Objects are summed along axes in one chunk, as their sums depend on the order.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import Casting, DTypeLike, as_array, as_result, check_order
from lazyflow.array.functions.indexing.taking import diagonal
from lazyflow.array.kernels.order import ANY, SUM
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.contraction import Labels, contraction
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import reduced, takes_split_every, whole_along
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.views import view

# -- products of two nodes whose axes have labels, summed over some of them ---------------


def product(
    one: Expr, first: Labels, other: Expr, second: Labels, out: Labels, dtype: Any
) -> Expr:
    """Return the product of two nodes, summed over labels that are not in `out`.

    Each node has a label once; lengths are equal, or 1 in one of the nodes.
    """
    dtype = np.dtype(dtype)
    of_one = dict(zip(first, one.shape, strict=True))
    of_other = dict(zip(second, other.shape, strict=True))
    one, first = _narrow(one, first, of_other)
    other, second = _narrow(other, second, of_one)
    one, first = summed(one, first, (*second, *out), dtype)
    other, second = summed(other, second, (*first, *out), dtype)
    away = [label for label in first if label not in out]
    shared = set(first) & set(second)
    if away and not shared.issuperset({*first, *second}):
        return contraction(one, other, (first, second, out), dtype)
    whole = (*out, *away)
    (made,) = elementwise.ufunc(np.multiply, (
        elementwise.cast(_laid_out(one, first, whole), dtype),
        elementwise.cast(_laid_out(other, second, whole), dtype),
    ))
    return summed(made, whole, out, dtype)[0]


def summed(node: Expr, labels: Labels, kept: Labels, dtype: np.dtype[Any]) -> tuple[Expr, Labels]:
    """Return a node without the labels that are not kept, summed over them."""
    axes = tuple([k for k, label in enumerate(labels) if label not in kept])
    if not axes:
        return node, labels
    kind = ANY if dtype.kind == "b" else SUM
    if dtype.hasobject:  # of which sums depend on the order
        node = whole_along(node, axes)
    return reduced(node, kind, axes, False, dtype), tuple([x for x in labels if x in kept])


def _narrow(node: Expr, labels: Labels, others: dict[int, Any]) -> tuple[Expr, Labels]:
    """Leave out axes of length 1 along which the other node is longer."""
    gone = [
        n == 1 and others.get(label, 1) != 1 for label, n in zip(labels, node.shape, strict=True)
    ]
    if not any(gone):
        return node, labels
    selection = Selection(
        tuple([0 if each else None for each in gone]),
        tuple([k for k, each in enumerate(gone) if not each]),
    )
    left = tuple([x for x, each in zip(labels, gone, strict=True) if not each])
    return view(node, selection), left


def _laid_out(node: Expr, labels: Labels, whole: Labels) -> Expr:
    axes = tuple([labels.index(label) if label in labels else ~1 for label in whole])
    return view(node, Selection((None,) * node.ndim, axes))


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

#: One operand with its labels.
Term = tuple[Expr, Labels]


# -- einsum -------------------------------------------------------------------------------


@takes_split_every
def einsum(
    *operands: Any, out: Array | None = None, dtype: DTypeLike | None = None, order: str = "K",
    casting: Casting = "safe", optimize: Any = False
) -> Array:
    """Return sums of products by subscripts; parameters are those of ``np.einsum``.

    Operands are multiplied two at a time, in the order of ``np.einsum_path`` (`optimize`; the
    greedy one if that is False).

    Raises
    ------
    TypeError
        An operand can't be cast to `dtype` as `casting` says.
    ValueError
        The subscripts don't fit the operands.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.ones((2, 3), chunks=2)
    >>> la.einsum("ij,kj->ik", x, x).compute()
    array([[3., 3.],
           [3., 3.]])
    """
    check_order(order)
    if len(operands) < 2:
        raise ValueError("must specify the einstein sum subscripts string and at least one "
                         "operand, or at least one operand and its corresponding subscripts list")
    inputs, arrays, out_labels = _parsed(operands)
    kind = np.result_type(*[x.dtype for x in arrays])
    if dtype is not None:
        kind = np.empty(0, dtype).dtype  # with a length, if it is of texts
    if dtype is None and out is None and len(arrays) == 1 and {*inputs[0]} == {*out_labels}:
        kind = arrays[0].dtype  # a view, in NumPy, too, which keeps the order of bytes
    for at, x in enumerate(arrays):
        if not np.can_cast(x.dtype, kind, casting):
            raise TypeError(
                f"Iterator operand {at} dtype could not be cast from {x.dtype!r} to {kind!r} "
                f"according to the rule {casting!r}"
            )
    return as_result(_contracted(_terms(arrays, inputs), out_labels, kind, optimize), out, casting)


def einsum_path(*operands: Any, optimize: Any = "greedy", **options: Any) -> Any:
    """Return the order of products, and a table of it; only shapes are read.

    Parameters are those of ``np.einsum_path``.

    >>> import lazyflow.array as la
    >>> x = la.ones((20, 30), chunks=10)
    >>> la.einsum_path("ij,kj,kl->il", x, x, x)[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    resolve_lengths(*operands)
    shapes: Any = [
        np.broadcast_to(np.empty((), x.dtype), x.shape) if isinstance(x, Array) else x
        for x in operands
    ]
    return np.einsum_path(*shapes, optimize=optimize, **options)


# -- subscripts ---------------------------------------------------------------------------------


def _parsed(operands: tuple[Any, ...]) -> tuple[list[Labels], list[Array], Labels]:
    """Return the labels of the operands, the operands, and the labels of the result."""
    if isinstance(operands[0], str):
        text, given = operands[0].replace(" ", ""), operands[1:]
        left, arrow, right = text.partition("->")
        subscripts = [_letters(labels) for labels in left.split(",")]
        out_labels = _letters(right) if arrow else None
    else:
        given = operands[: len(operands) // 2 * 2: 2]
        subscripts = [_numbers(labels) for labels in operands[1::2]]
        out_labels = _numbers(operands[-1]) if len(operands) % 2 else None
    arrays = [as_array(x) for x in given]
    if len(subscripts) != len(arrays):
        raise ValueError(
            f"einsum() got subscripts for {len(subscripts)} operands, and {len(arrays)} operands"
        )
    longest = 0
    for labels, x in zip(subscripts, arrays, strict=True):
        extra = x.ndim - (len(labels) - (Ellipsis in labels))
        if extra < 0:
            raise ValueError("einstein sum subscripts string contains too many subscripts for an "
                             f"operand of shape {x.shape}")
        if extra and Ellipsis not in labels:
            raise ValueError("operand has more dimensions than subscripts given in einstein sum, "
                             "but no '...' ellipsis provided to broadcast the extra dimensions.")
        longest = max(longest, extra)
    inputs = [_spread(labels, x.ndim) for labels, x in zip(subscripts, arrays, strict=True)]
    return inputs, arrays, _result_labels(subscripts, out_labels, longest)


def _letters(text: str) -> list[Any]:
    before, dots, after = text.partition("...")
    wrong = set(before + after) - set(_LETTERS)
    if wrong:
        raise ValueError(
            f"invalid subscript {min(wrong)!r} in einstein sum subscripts string, subscripts must "
            "be letters"
        )
    middle = [Ellipsis] if dots else []
    return [*map(_LETTERS.index, before), *middle, *map(_LETTERS.index, after)]


def _numbers(given: Any) -> list[Any]:
    return [each if each is Ellipsis else operator.index(each) for each in given]


def _spread(subscripts: Sequence[Any], ndim: int) -> Labels:
    """Put labels in the place of an ellipsis: -1 for the last axis in it, -2, ..."""
    if Ellipsis not in subscripts:
        return tuple(subscripts)
    at = subscripts.index(Ellipsis)
    count = ndim - len(subscripts) + 1
    return (*subscripts[:at], *range(-count, 0), *subscripts[at + 1:])


def _result_labels(subscripts: list[list[Any]], out_labels: Any, longest: int) -> Labels:
    seen = [label for operand in subscripts for label in operand if label is not Ellipsis]
    if out_labels is None:
        once = sorted({label for label in seen if seen.count(label) == 1})
        return (*range(-longest, 0), *once)
    ndim = len(out_labels) + (longest - 1 if Ellipsis in out_labels else 0)
    labels = _spread(out_labels, ndim)
    if longest and Ellipsis not in out_labels:
        raise ValueError("output has ellipsis subscripts missing: einstein sum subscripts string "
                         "must contain '...' in the output as it has in an input")
    for label in labels:
        name = _LETTERS[label] if 0 <= label < len(_LETTERS) else label
        if labels.count(label) > 1:
            raise ValueError(
                f"einstein sum subscripts string includes output subscript {name!r} multiple times"
            )
        if label >= 0 and label not in seen:
            raise ValueError(
                f"einstein sum subscripts string included output subscript {name!r} which never "
                "appeared in an input"
            )
    return labels


# -- products -----------------------------------------------------------------------------------


def _terms(arrays: list[Array], inputs: list[Labels]) -> list[Term]:
    """Return operands with each label once; checks the lengths."""
    lengths: dict[int, Any] = {}
    terms = []
    for at, (x, labels) in enumerate(zip(arrays, inputs, strict=True)):
        for label in [label for label in labels if labels.count(label) > 1]:
            while labels.count(label) > 1:
                x, labels = _on_diagonal(x, labels, label, at)
        for label, n in zip(labels, x.shape, strict=True):
            before = lengths.setdefault(label, n)
            if before in (1, n):
                lengths[label] = n
            elif n != 1:
                if None in (n, before):
                    raise SizesNeeded
                name = _LETTERS[label] if 0 <= label < len(_LETTERS) else "..."
                raise ValueError(
                    f"operands could not be broadcast together: subscript {name!r} is for axes of "
                    f"lengths {before} and {n}"
                )
        terms.append((x.expr, labels))
    return terms


def _on_diagonal(x: Array, labels: Labels, label: int, at: int) -> tuple[Array, Labels]:
    first = labels.index(label)
    second = labels.index(label, first + 1)
    if None in (x.shape[first], x.shape[second]):
        raise SizesNeeded
    if x.shape[first] != x.shape[second]:
        raise ValueError(
            f"dimensions in operand {at} for collapsing index "
            f"{_LETTERS[label % len(_LETTERS)]!r} don't match "
            f"({x.shape[first]} != {x.shape[second]})"
        )
    rest = tuple([each for k, each in enumerate(labels) if k not in (first, second)])
    return diagonal(x, 0, first, second), (*rest, label)


def _contracted(terms: list[Term], out: Labels, dtype: np.dtype[Any], optimize: Any) -> Expr:
    for places in _path(terms, out, optimize):
        chosen = [terms[i] for i in places]
        terms = [term for i, term in enumerate(terms) if i not in places]
        while len(chosen) > 1:
            (one, first), (other, second), *rest = chosen
            needed = {*out, *[label for _, labels in (*rest, *terms) for label in labels]}
            made = tuple([x for x in dict.fromkeys((*first, *second)) if x in needed])
            if not rest and not terms:
                made = out
            chosen = [(product(one, first, other, second, made, dtype), made), *rest]
        terms += chosen
    ((node, labels),) = terms
    node, labels = summed(node, labels, out, dtype)
    axes = tuple([labels.index(label) for label in out])
    return elementwise.cast(view(node, Selection((None,) * node.ndim, axes)), dtype)


def _path(terms: list[Term], out: Labels, optimize: Any) -> list[tuple[int, ...]]:
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    used = sorted({label for _, labels in terms for label in labels})
    letter = dict(zip(used, _LETTERS, strict=False))
    text = ",".join("".join(letter[label] for label in labels) for _, labels in terms)
    text += "->" + "".join(letter[label] for label in out)
    if any(None in node.shape for node, _ in terms):
        raise SizesNeeded
    shapes: list[Any] = [node.shape for node, _ in terms]
    given = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
    path, _ = np.einsum_path(text, *given, optimize=optimize or "greedy")
    return [tuple(each) for each in path[1:]]
