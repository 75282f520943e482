"""Generalised ufuncs: of users' functions, and those of NumPy and other packages.

Each block of the result is one task. The core dimensions are whole in its blocks: several chunks
along one are an error unless ``allow_rechunk=True``, since joining them may need much memory.
(Gufuncs of NumPy and of other packages, which have no such keyword, always join them.) The other
axes are cut alike. A function with several results returns a tuple in one task, of which further
tasks take the items. Gufuncs of NumPy that have a counterpart in lazyflow, such as matmul, go
there.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lazyflow.array.chunks import Chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.dispatch import MODULE_OF, functions, with_lengths
from lazyflow.array.functions.arguments import as_array, assign_out
from lazyflow.array.nodes.align import SizesNeeded
from lazyflow.array.nodes.elementwise import one_loop, owner, takes_results
from lazyflow.array.nodes.expr import Expr, LazyDtype
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.selection import Selection
from lazyflow.array.nodes.task_parts import named
from lazyflow.array.nodes.user_calls import (
    BLOCK,
    BlockCalls,
    BoundCall,
    SingleResult,
    declared,
    dtype_of,
    dtype_or_block,
    made_up_blocks,
    ones,
    tried,
)
from lazyflow.array.nodes.views import view
from lazyflow.array.users.block_layout import Labels, Sizes, aligned, input_blocks

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


# -- signatures of generalised ufuncs, and the axes that are their core dimensions --------

_NAME = r"[^\W\d]\w*|\d+"
_CORE = rf"\(\s*(?:(?:{_NAME})\s*(?:,\s*(?:{_NAME})\s*)*,?\s*)?\)"
_SIDE = rf"{_CORE}(?:\s*,\s*{_CORE})*"
_WHOLE = re.compile(rf"\s*(?:{_SIDE})?\s*->\s*{_SIDE}\s*$")

Core = tuple[str, ...]


class Signature(NamedTuple):
    """The core dimensions of inputs and results, by name."""

    inputs: tuple[Core, ...]
    outputs: tuple[Core, ...]


def parse(signature: str) -> Signature:
    """Return the core dimensions of a signature.

    >>> parse("(i,j),(j)->(i),()")
    Signature(inputs=(('i', 'j'), ('j',)), outputs=(('i',), ()))

    Raises
    ------
    ValueError
        The text is not a signature.
    """
    if not isinstance(signature, str) or not _WHOLE.match(signature):
        raise ValueError(
            f"Not a valid gufunc signature: {signature!r}. One is written like "
            "'(i,j),(j,k)->(i,k)': names of core dimensions for each input and result"
        )
    inputs, outputs = signature.split("->")
    return Signature(_side(inputs), _side(outputs))


def _side(text: str) -> tuple[Core, ...]:
    return tuple([
        tuple(re.findall(rf"{_NAME}", each)) for each in re.findall(_CORE, text)
    ])


def core_axes(
    signature: Signature, axes: Any, axis: Any, keepdims: bool, ndims: Sequence[int]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the core axes of inputs and of results that `axes` or `axis` name, or the last axes.

    Raises
    ------
    ValueError
        The axes don't fit the signature, or an input has too few.
    """
    ins, outs = signature
    if axes is not None and axis is not None:
        raise ValueError("Only one of `axis` or `axes` keyword arguments should be given")
    if keepdims and (len(set(map(len, ins))) > 1 or any(outs)):
        raise ValueError(
            "`keepdims` needs inputs with equal numbers of core dimensions, and results without"
        )
    kept = [ins[0] if keepdims else dims for dims in outs]
    if axis is not None:
        axis = operator.index(axis)
        names = {name for dims in ins for name in dims}
        if len(names) != 1 or any(len(dims) > 1 for dims in (*ins, *outs)):
            raise ValueError("`axis` needs one core dimension, shared by all; use `axes`")
        chosen = [(axis,) * len(dims) for dims in (*ins, *kept)]
    elif axes is not None:
        chosen = _given(axes, ins, kept, outs)
    else:
        chosen = [tuple(range(-len(dims), 0)) for dims in (*ins, *kept)]
    for own, core, ndim in zip(chosen, ins, ndims, strict=False):
        if ndim < len(core):
            raise ValueError(
                f"an input has {ndim} axes, fewer than its core dimensions ({','.join(core)})"
            )
        if len(set(normalize_axis_tuple(own, ndim))) != len(own):
            raise ValueError("Repeated axis in `axes`")
    return chosen[: len(ins)], chosen[len(ins):]


def _given(axes: Any, ins: Any, kept: Any, outs: Any) -> list[tuple[int, ...]]:
    if not isinstance(axes, list | tuple):
        raise ValueError("`axes` has to be of type list")
    found = [tuple(each) if isinstance(each, tuple | list) else (each,) for each in axes]
    if len(found) == len(ins) and not any(outs):
        found += [found[0] if any(kept) else ()] * len(kept)
    wanted = [*ins, *kept]
    if len(found) != len(wanted):
        raise ValueError(
            f"`axes` has to have {len(wanted)} entries, for all inputs and results; got "
            f"{len(found)}"
        )
    for each, core in zip(found, wanted, strict=True):
        if len(each) != len(core):
            raise ValueError(
                f"`axes` entry {each} does not fit the core dimensions ({','.join(core)})"
            )
    return found


@with_lengths
def apply_gufunc(
    func: Callable[..., Any],
    signature: str,
    *args: Any,
    axes: Sequence[Any] | None = None,
    axis: int | None = None,
    keepdims: bool = False,
    output_dtypes: DTypeLike | Sequence[DTypeLike] | None = None,
    output_sizes: dict[str, int] | None = None,
    vectorize: bool | None = None,
    allow_rechunk: bool = False,
    meta: Any = None,
    **kwargs: Any,
) -> Any:
    """Return the results of a function of the last axes that broadcasts over the other axes.

    Parameters
    ----------
    func
        Called with a block of each array. The core dimensions are whole in it and come last.
    signature
        Core dimensions of inputs and results, as ``"(i,j),(j)->(i)"``.
    *args
        Arrays.
    axes, axis
        The axes that are the core dimensions, for each input and result, as of NumPy's gufuncs;
        `axis` where each has one core dimension.
    keepdims
        Results without core dimensions keep those of the inputs, with length 1.
    output_dtypes, meta
        The dtype of each result, or an example array; one, or a list of them. Without either,
        `func` is tried on made-up blocks when a dtype is first asked for.
    output_sizes
        Lengths of core dimensions that only results have, or that differ in the results.
    vectorize
        `func` works on core dimensions only: call it in a loop over the others (`np.vectorize`).
    allow_rechunk
        Core dimensions in several chunks are put together; otherwise they are an error.
    **kwargs
        Keywords of `func`.

    Returns
    -------
    Array, or a tuple of them where the signature has several results

    Raises
    ------
    ValueError
        Signature, axes or lengths don't fit, or a core dimension has several chunks.

    Examples
    --------
    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> def extent(x):
    ...     return x.min(axis=-1), x.max(axis=-1)
    >>> x = la.arange(6, chunks=2).rechunk(6)
    >>> low, high = la.apply_gufunc(extent, "(i)->(),()", x, output_dtypes=[int, int])
    >>> low.compute(), high.compute()
    (np.int64(0), np.int64(5))
    """
    parsed = parse(signature)
    if len(parsed.inputs) != len(args):
        raise ValueError(
            f"According to `signature`, `func` requires {len(parsed.inputs)} arguments, but "
            f"{len(args)} are given"
        )
    arrays = [as_array(x) for x in args]
    first, last = core_axes(parsed, axes, axis, keepdims, [x.ndim for x in arrays])
    arrays = [_core_last(x, own) for x, own in zip(arrays, first, strict=True)]
    labels = _labels(parsed, arrays)
    nodes, sizes = _fitting(parsed, arrays, labels, allow_rechunk)
    lengths = _lengths(parsed, sizes, output_sizes or {})
    name = getattr(func, "__name__", None)
    if vectorize:
        types = None if output_dtypes is None else _listed(
            output_dtypes, len(parsed.outputs), "output_dtypes"
        )
        func = np.vectorize(func, types, signature=signature.replace(" ", ""))
    call = BoundCall(func, [BLOCK] * len(nodes), kwargs, "apply_gufunc", name)
    made = _results(call, parsed, nodes, labels, sizes, lengths, output_dtypes, meta)
    results = [
        _axes_back(x, core, own, keepdims, parsed)
        for x, core, own in zip(made, parsed.outputs, last, strict=True)
    ]
    return results[0] if len(results) == 1 else tuple(results)


def _core_last(x: Array, axes: tuple[int, ...]) -> Array:
    core = [axis % x.ndim for axis in axes]
    order = [axis for axis in range(x.ndim) if axis not in core] + core
    return x if order == list(range(x.ndim)) else x.transpose(order)


def _labels(parsed: Signature, arrays: Sequence[Array]) -> list[Labels]:
    """Return labels of the axes: loop dimensions by number, counted from the last; core names."""
    found: list[Labels] = []
    for x, core in zip(arrays, parsed.inputs, strict=True):
        loops = x.ndim - len(core)
        found.append((*range(-loops, 0), *[("core", name) for name in core]))
    return found


def _fitting(
    parsed: Signature, arrays: Sequence[Array], labels: Sequence[Labels], allow_rechunk: bool
) -> tuple[list[Expr], Sizes]:
    lengths: dict[Hashable, Any] = {}
    nodes = []
    for x, own in zip(arrays, labels, strict=True):
        chunks: list[tuple[Any, ...]] = []
        for label, n, sizes in zip(own, x.shape, x.chunks, strict=True):
            if not isinstance(label, tuple):
                chunks.append(sizes)
                continue
            name = label[1]
            if lengths.setdefault(label, n) != n or (name.isdigit() and int(name) != n):
                raise ValueError(
                    f"Dimension `'{name}'` with different lengths in arrays: {lengths[label]} "
                    f"and {n}" if not name.isdigit() else
                    f"core dimension {name} must have length {name}, but an array has {n}"
                )
            if len(sizes) > 1 and not allow_rechunk:
                raise ValueError(
                    f"Core dimension `'{name}'` consists of multiple chunks. To fix, rechunk into "
                    "a single array chunk along this dimension or set `allow_rechunk=True`, but "
                    "beware that this may increase memory usage significantly."
                )
            if n is None and len(sizes) > 1:
                raise SizesNeeded
            chunks.append((n,))
        nodes.append(rechunk(x.expr, tuple(chunks)))
    return _loops_fit(nodes, labels)


def _loops_fit(nodes: list[Expr], labels: Sequence[Labels]) -> tuple[list[Expr], Sizes]:
    """Return nodes whose loop dimensions are cut alike; core dimensions have one chunk already."""
    distinct: list[Labels] = [
        tuple([(label, i) if isinstance(label, tuple) else label for label in own])
        for i, own in enumerate(labels)
    ]
    made, sizes = aligned(nodes, distinct)
    for own, kept in zip(labels, distinct, strict=True):
        for label, other in zip(own, kept, strict=True):
            sizes[label] = sizes[other]
    return made, sizes


def _lengths(parsed: Signature, sizes: Sizes, output_sizes: dict[str, int]) -> dict[str, Any]:
    """Return the length of each core dimension of the results."""
    found: dict[str, Any] = {}
    for name in {name for core in parsed.outputs for name in core}:
        if name in output_sizes:
            found[name] = output_sizes[name]
        elif ("core", name) in sizes:
            (found[name],) = sizes["core", name]
        elif name.isdigit():
            found[name] = int(name)
        else:
            raise ValueError(
                f"Core dimension `'{name}'` of a result is in no input; give its length by "
                f"output_sizes={{'{name}': ...}}"
            )
    return found


def _results(
    call: BoundCall, parsed: Signature, nodes: Sequence[Expr], labels: Sequence[Labels],
    sizes: Sizes, lengths: dict[str, Any], output_dtypes: Any, meta: Any,
) -> list[Array]:
    most = max([len([x for x in own if not isinstance(x, tuple)]) for own in labels], default=0)
    out: Labels = tuple(range(-most, 0))
    loops: Chunks = tuple([sizes[label] for label in out])
    shares = tuple([
        input_blocks(own, node, out, sizes, True) for own, node in zip(labels, nodes, strict=True)
    ])
    types = _dtypes(call, parsed, nodes, labels, output_dtypes, meta)
    whole = [
        (*loops, *[(lengths[name],) for name in core]) for core in parsed.outputs
    ]
    if len(parsed.outputs) == 1:
        return [Array(BlockCalls(tuple(nodes), call, shares, types[0], whole[0]))]
    several = Array(
        BlockCalls(tuple(nodes), call, shares, np.dtype(object), loops, checked=False)
    ).expr
    return [
        Array(SingleResult((several,), k, dtype, chunks, call, len(whole)))
        for k, (dtype, chunks) in enumerate(zip(types, whole, strict=True))
    ]


def _dtypes(
    call: BoundCall, parsed: Signature, nodes: Sequence[Expr], labels: Sequence[Labels],
    output_dtypes: Any, meta: Any,
) -> list[Any]:
    count = len(parsed.outputs)
    given = _listed(output_dtypes, count, "output_dtypes")
    metas = _listed(meta, count, "meta")
    if all(declared(*each) is not None for each in zip(given, metas, strict=True)):
        return [declared(*each) for each in zip(given, metas, strict=True)]
    fakes = [partial(ones, _core_lengths(own)) for own in labels]
    if count == 1:
        return [dtype_of(call, None, None, nodes, fakes)]
    made_up, needs = made_up_blocks(nodes, fakes)

    def find(k: int) -> Any:
        return dtype_or_block(tried(call, made_up(), {})[k])

    return [LazyDtype(partial(find, k), needs) for k in range(count)]


def _core_lengths(labels: Labels) -> tuple[int, ...]:
    """Return the shape of a made-up block: ones, but for core dimensions whose name is a number."""
    return tuple([
        int(label[1]) if isinstance(label, tuple) and label[1].isdigit() else 1 for label in labels
    ])


def _listed(given: Any, count: int, parameter: str) -> list[Any]:
    if not isinstance(given, list | tuple):
        given = [given] * (1 if given is not None else count)
    if len(given) != count:
        raise ValueError(
            f"{parameter} must have {count} entries, one for each result in the signature; got "
            f"{len(given)}"
        )
    return list(given)


def _axes_back(
    x: Array, core: Core, axes: tuple[int, ...], keepdims: bool, parsed: Signature
) -> Array:
    """Move the core dimensions, which are last, to their axes."""
    if keepdims:
        count = len(parsed.inputs[0])
        x = Array(view(x.expr, Selection((None,) * x.ndim, (*range(x.ndim), *[~1] * count))))
    else:
        count = len(core)
    places = [axis % x.ndim for axis in axes]
    if places == list(range(x.ndim - count, x.ndim)):
        return x
    order: list[Any] = [None] * x.ndim
    for k, place in enumerate(places):
        order[place] = x.ndim - count + k
    loops = iter(range(x.ndim - count))
    return x.transpose([next(loops) if axis is None else axis for axis in order])


class gufunc:
    """A function with a signature, to be called with arrays.

    Parameters
    ----------
    pyfunc
        The function.
    signature
        Core dimensions of inputs and results, as ``"(i,j),(j)->(i)"``.
    **options
        Parameters of `apply_gufunc`.

    Raises
    ------
    TypeError
        There is no `signature`.
    ValueError
        The text is not a signature.

    Examples
    --------
    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> norm = la.gufunc(np.linalg.norm, signature="(i)->()", vectorize=True, output_dtypes=float)
    >>> norm(la.ones((2, 4), chunks=(1, 4))).compute()
    array([2., 2.])
    """

    def __init__(
        self, pyfunc: Callable[..., Any], *, signature: str | None = None,
        vectorize: bool = False, axes: Sequence[Any] | None = None, axis: int | None = None,
        keepdims: bool = False, output_sizes: dict[str, int] | None = None,
        output_dtypes: DTypeLike | Sequence[DTypeLike] | None = None, allow_rechunk: bool = False,
        meta: Any = None,
    ) -> None:
        if signature is None:
            raise TypeError("gufunc() needs signature=, as in '(i),(i)->()'")
        parse(signature)
        self.pyfunc = pyfunc
        self.signature = signature
        self.options = {
            "vectorize": vectorize, "axes": axes, "axis": axis, "keepdims": keepdims,
            "output_sizes": output_sizes, "output_dtypes": output_dtypes,
            "allow_rechunk": allow_rechunk, "meta": meta,
        }
        self.__name__ = getattr(pyfunc, "__name__", type(pyfunc).__name__)
        self.__doc__ = pyfunc.__doc__

    def __call__(self, *args: Any, allow_rechunk: bool | None = None, **kwargs: Any) -> Any:
        options = dict(self.options)
        if allow_rechunk is not None:
            options["allow_rechunk"] = allow_rechunk
        return apply_gufunc(self.pyfunc, self.signature, *args, **options, **kwargs)


def as_gufunc(signature: str | None = None, **options: Any) -> Callable[[Any], gufunc]:
    """Return a decorator that makes a `gufunc` of a function.

    Parameters
    ----------
    signature, **options
        Parameters of `gufunc`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> @la.as_gufunc("(i)->()", output_dtypes=float)
    ... def middle(x):
    ...     return (x.min(axis=-1) + x.max(axis=-1)) / 2
    >>> middle(la.arange(4.0, chunks=4)).compute()
    np.float64(1.5)
    """
    return partial(gufunc, signature=signature, **options)


def call_gufunc(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any = None, **kwargs: Any) -> Any:
    """Return the result of a generalised ufunc, by our function of its name if there is one.

    Otherwise the ufunc sees blocks in which its core dimensions are whole.
    """
    name = ufunc.__name__
    if name in MODULE_OF and getattr(np, name, None) is ufunc:
        found = functions[name]
        return found(*inputs, **kwargs) if out is None else found(*inputs, out=out, **kwargs)
    func = owner(ufunc)
    signature: Any = ufunc.signature
    targets = out if isinstance(out, tuple) else (out,) * ufunc.nout
    if takes_results(func):
        types = tuple([as_node(x).dtype for x in (*inputs, *targets)])
        func = named(func.__name__, one_loop, func, types)
        kwargs["output_dtypes"] = list(types[len(inputs):])
    made = apply_gufunc(func, signature, *inputs, allow_rechunk=True, **kwargs)
    results = made if isinstance(made, tuple) else (made,)
    given = [
        one if target is None else assign_out(target, one.expr)
        for one, target in zip(results, targets, strict=True)
    ]
    return given[0] if len(given) == 1 else tuple(given)
