"""NumPy's ufuncs on chunked arrays, called by their own names or by NumPy's."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from lazyflow.array.core import Array, as_node, known
from lazyflow.array.dispatch import functions, helper, helpers
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.align import SizesNeeded, broadcast_shape
from lazyflow.array.nodes.compiled import OneLoop, owner, takes_results
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.views import Spec, view
from lazyflow.graph.kinds import FOREIGN, kinds

_NUMBERS = (bool, int, float, complex)

#: What the reduce method of a ufunc is called when it has a name of its own.
_REDUCTIONS: dict[Any, str] = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min",
    np.logical_and: "all", np.logical_or: "any",
}


@helper()
def apply_ufunc(ufunc: np.ufunc, how: str, *inputs: Any, **kwargs: Any) -> Any:
    """Do what a ufunc, or one of its methods, does with arrays."""
    if how == "__call__":
        if ufunc.signature is not None:
            return _generalised(ufunc, inputs, **kwargs)
        return _call(ufunc, inputs, **kwargs)
    name = _REDUCTIONS.get(ufunc) if how == "reduce" else None
    kwargs = {"axis": 0, **kwargs} if how == "reduce" else kwargs
    if name in ("all", "any") and not kwargs.keys() <= {"axis", "out", "keepdims", "where"}:
        name = None
    if name is not None:
        return functions[name](*inputs, **kwargs)
    ufunc = owner(ufunc)
    if how == "outer":
        return _outer(ufunc, *inputs, **kwargs)
    if how == "reduce":
        return helpers["ufunc_reduce"](ufunc, *inputs, **kwargs)
    if how == "accumulate":
        return helpers["ufunc_accumulate"](ufunc, *inputs, **kwargs)
    raise TypeError(
        f"np.{ufunc.__name__}.{how} does not work on chunked arrays. Compute them first, or apply "
        "it to each block by x.map_blocks(...)"
    )


def _generalised(
    ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any = None, **kwargs: Any
) -> Any:
    found = functions.get(ufunc.__name__) if getattr(np, ufunc.__name__, None) is ufunc else None
    if found is not None:
        return found(*inputs, **kwargs) if out is None else found(*inputs, out=out, **kwargs)
    func = owner(ufunc)
    targets = out if isinstance(out, tuple) else (out,) * ufunc.nout
    if takes_results(func):
        types = tuple([as_node(x).dtype for x in (*inputs, *targets)])
        func = OneLoop(func, types)
        kwargs["output_dtypes"] = list(types[len(inputs):])
    made = functions["apply_gufunc"](
        func, ufunc.signature, *inputs, allow_rechunk=True, **kwargs
    )
    results = made if isinstance(made, tuple) else (made,)
    given = [
        one if target is None else into(target, one.expr)
        for one, target in zip(results, targets, strict=True)
    ]
    return given[0] if len(given) == 1 else tuple(given)


def _call(
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    out: Any = None,
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
) -> Any:
    if order not in ("K", "C", "A") or not subok:
        raise TypeError("chunked arrays take neither order= nor subok= of a ufunc")
    operands = [_operand(x) for x in inputs]
    if any(x is NotImplemented for x in operands):
        return NotImplemented
    given = out if isinstance(out, tuple) else (out,) * ufunc.nout
    if ufunc is np.multiply and given[0] is not None and as_node(given[0]).dtype.kind in "SU":
        nodes = _repeated_texts(operands, as_node(given[0]).dtype)
    else:
        nodes = elementwise.ufunc(ufunc, operands, dtype, casting)
    found = []
    for node, target in zip(nodes, given, strict=True):
        if where is not True:
            before = as_node(target) if target is not None else 0
            node = elementwise.where(as_node(where), node, before)
        found.append(Array(node) if target is None else into(target, node, casting))
    return found[0] if len(found) == 1 else tuple(found)


def _repeated_texts(operands: list[Any], dtype: np.dtype[Any]) -> tuple[Expr, ...]:
    """Return texts as often as numbers say, cut to the type of what they are written to."""
    nodes = tuple([x if isinstance(x, Expr) else elementwise.constant(x) for x in operands])
    np.multiply.resolve_dtypes((*[x.dtype for x in nodes], dtype))  # says what is no number
    return (elementwise.function(_repeat, nodes, dtype, kind=dtype),)


def _repeat(a: Any, b: Any, kind: Any) -> Any:
    return np.multiply(a, b, out=np.empty(np.broadcast_shapes(a.shape, b.shape), kind))


def _operand(x: Any) -> Any:
    if type(x) in _NUMBERS:
        return x
    if isinstance(x, Array):
        return x.expr
    if isinstance(x, (np.ndarray, np.generic, list, tuple, *_NUMBERS)):
        return as_node(x)
    if kinds[type(x)] == FOREIGN:
        return as_node(x)
    if hasattr(x, "_lazyflow_kind") or getattr(type(x), "__array_ufunc__", 0) != 0:
        return NotImplemented
    return as_node(x)


def into(target: Any, node: Expr, casting: str = "same_kind") -> Any:
    """Make an array be what was computed for it by ``out=`` or in place."""
    if not isinstance(target, Array):
        raise TypeError(
            f"out= must be a chunked array; got {type(target).__name__}. To write into memory that "
            "is there, use la.store(result, target)"
        )
    if not np.can_cast(node.dtype, target.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast ufunc output from {node.dtype!r} to {target.dtype!r} with casting rule "
            f"{casting!r}"
        )
    if None in (*node.shape, *target.shape) and node.chunks != target.chunks:
        raise SizesNeeded
    if broadcast_shape([node.shape, target.shape]) != target.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {target.shape} doesn't match the "
            f"broadcast shape {node.shape}"
        )
    if node.shape != target.shape:
        node = stretched(node, target.shape)
    target._expr = elementwise.cast(node, target.dtype)
    return target


def stretched(node: Expr, shape: tuple[Any, ...]) -> Expr:
    """Return a node broadcast to a shape."""
    if node.shape == tuple(shape):
        return node
    skipped = len(shape) - node.ndim
    if any(n is None and m == 1 for n, m in zip(
        shape, (1,) * skipped + node.shape, strict=True
    )):
        raise SizesNeeded  # nothing can be repeated as often as nobody knows
    picks: list[Any] = []
    axes: list[int] = [~n for n in shape[:skipped]]
    for axis, n in enumerate(node.shape):
        if n == 1 and shape[skipped + axis] != 1:
            picks.append(0)
            axes.append(~shape[skipped + axis])
        else:
            picks.append(None)
            axes.append(axis)
    return view(node, Spec(tuple(picks), tuple(axes)))


def counting(where: Any, shape: tuple[Any, ...]) -> Expr:
    """Return the mask of a reduction's ``where=``, of the shape of what is reduced."""
    given = where if isinstance(where, Array | np.ndarray) else np.asarray(where, bool)
    mask = as_node(given)
    if mask.dtype != bool:
        raise TypeError(
            f"where= must say by booleans what counts; got {mask.dtype}. Write where=(mask != 0)"
        )
    fits = mask.ndim <= len(shape) and all(
        n in (1, m) or n is None or m is None
        for n, m in zip(mask.shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ValueError(
            f"where= of shape {mask.shape} does not broadcast to the shape {shape} of what is "
            "reduced. Stretch that first: la.broadcast_to(x, where.shape)"
        )
    return stretched(mask, shape)


def _outer(ufunc: np.ufunc, a: Any, b: Any, **kwargs: Any) -> Any:
    if ufunc.nin != 2:
        raise ValueError("outer product only supported for binary functions")
    one, other = as_node(a), as_node(b)
    spec = Spec((None,) * one.ndim, (*range(one.ndim), *[~1] * other.ndim))
    return _call(ufunc, (Array(view(one, spec)), Array(other)), **kwargs)


#: Exponents for which ``**``, unlike np.power, calls a ufunc of its own, as in NumPy.
_POWERS = {-1: np.reciprocal, 0.5: np.sqrt, 2: np.square}


@helper()
def power_by(x: Array, exponent: Any) -> Any:
    """Return ``x ** exponent`` as NumPy's operator does it."""
    if type(exponent) in (int, float) and x.dtype.kind in "fc" and exponent in _POWERS:
        return _call(_POWERS[exponent], (x,))
    if type(exponent) is int and exponent == 2 and x.dtype.kind in "biu":
        return _call(np.square, (x,))
    return _call(np.power, (x, exponent))


_COMPARE: dict[np.ufunc, Any] = {np.equal: operator.eq, np.not_equal: operator.ne}


@helper()
def compared(ufunc: np.ufunc, x: Array, other: Any) -> Any:
    """Return ``x == other`` or ``x != other``: what has nothing in common is not equal."""
    try:
        return _call(ufunc, (x, other))
    except TypeError:
        known(x, other)
        given = _operand(other)
        nodes = x.expr, given if isinstance(given, Expr) else elementwise.constant(given)
        return Array(elementwise.function(_COMPARE[ufunc], nodes, bool))


class UFunc:
    """A ufunc of NumPy by the name ``la.name``: gives chunked arrays whatever it gets."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc = ufunc
        self.__name__ = ufunc.__name__
        self.__doc__ = f"As ``np.{ufunc.__name__}``, of chunked arrays or what makes one."
        self.nin = ufunc.nin
        self.nout = ufunc.nout
        self.nargs = ufunc.nargs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs, outputs = args[: self.nin], args[self.nin:]
        if len(inputs) != self.nin or len(outputs) > self.nout:
            raise TypeError(
                f"{self.__name__}() takes from {self.nin} to {self.nin + self.nout} positional "
                f"arguments but {len(args)} were given"
            )
        if outputs:
            kwargs["out"] = (*outputs, *[None] * (self.nout - len(outputs)))
        found = apply_ufunc(self.ufunc, "__call__", *inputs, **kwargs)
        if found is NotImplemented:
            for x in inputs:
                as_node(x)  # says what is lazy
            raise TypeError(f"{self.__name__}() takes arrays; got {inputs!r:.100}")
        return found

    def reduce(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As ``np.ufunc.reduce``."""
        kwargs.update(zip(("axis", "dtype", "out", "keepdims", "initial", "where"), args,
                          strict=False))
        return apply_ufunc(self.ufunc, "reduce", Array(as_node(x)), **kwargs)

    def accumulate(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As ``np.ufunc.accumulate``."""
        return apply_ufunc(self.ufunc, "accumulate", Array(as_node(x)), *args, **kwargs)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        """As ``np.ufunc.outer``."""
        return apply_ufunc(self.ufunc, "outer", a, b, **kwargs)

    def __repr__(self) -> str:
        return f"<lazyflow.array ufunc {self.__name__!r}>"


#: All ufuncs of NumPy that work element by element, by name.
UFUNCS: dict[str, UFunc] = {
    name: UFunc(found)
    for name, found in vars(np).items()
    if isinstance(found, np.ufunc) and found.signature is None
}
