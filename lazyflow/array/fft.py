"""Fourier transforms of chunked arrays: ``la.fft``, as ``np.fft`` and ``dask.array.fft``.

    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> x = la.arange(8.0, chunks=3)
    >>> la.fft.rfft(x)
    lazyflow.Array<rfft, shape=(5,), dtype=complex128, chunksize=(5,)>
    >>> np.allclose(np.fft.irfft(np.fft.rfft(x)), x).compute()
    np.True_

Functions of ``np.fft`` of chunked arrays come here and stay lazy. Signatures, dtypes (float32 gives
complex64) and errors are NumPy's; ``scipy.fft`` (pocketfft) computes the blocks, so values are
within a relative ``eps * log2(n)`` of the largest one of a row.

An axis that is transformed becomes one chunk: dask asks for a `rechunk` first, which is done here.
Several axes are transformed one after the other, so what a task needs is some rows of one axis;
axes that are one chunk already share a task. A row must fit in memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.evaluation import resolve_lengths
from lazyflow.array.functions.arguments import (
    ArrayLike,
    Axes,
    ChunksLike,
    DTypeLike,
    as_array,
    as_numpy_tells,
    assign_out,
)
from lazyflow.array.functions.elementwise import where
from lazyflow.array.functions.manipulation.rearranging import roll
from lazyflow.array.functions.ranges import arange
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.reductions import TreeReduction, axis_of, tree, whole_along

#: Of each transform of one axis: the length of the result, and the default of ``n``.
_LENGTHS: dict[str, tuple[Callable[[int], int], Callable[[int], int]]] = {
    "fft": (_same := lambda n: n, _same), "ifft": (_same, _same),
    "rfft": (_half := lambda n: n // 2 + 1, _same), "ihfft": (_half, _same),
    "irfft": (_same, _whole := lambda m: 2 * (m - 1)), "hfft": (_same, _whole),
}

#: Of each transform of several axes: that of the last axis if it comes first, those of the others,
#: and that of the last axis if it comes last.
_SEVERAL = {
    "fft": (None, "fft", None), "ifft": (None, "ifft", None),
    "rfft": ("rfft", "fft", None), "irfft": (None, "ifft", "irfft"),
}

_STRIP = 1 << 20  # bytes of a block that are transformed at a time; a guess

_WORDS = {
    "fft": "the discrete Fourier transform", "rfft": "the Fourier transform of real numbers",
    "ifft": "the inverse of `fft`", "irfft": "the inverse of `rfft`, of real numbers",
    "hfft": "the Fourier transform of what has Hermitian symmetry, of real numbers",
    "ihfft": "the inverse of `hfft`",
}

_WRONG = "is not positive, or there is no such `norm`."


@dataclass(frozen=True)
class Transform(TreeReduction):
    """Functions of a block one after the other, each with the lengths and the axes it is for.

    shape
        Lengths of the axes that it changes.
    apart
        An axis along which the rows have nothing to do with each other; None: there is none.
    keywords
        Of each call, as pairs; of calls after the first, too, that they may overwrite.
    """

    first_takes_out = True

    name: str
    steps: tuple[tuple[Any, Any, Any], ...]
    shape: tuple[tuple[int, int], ...]
    dtype: np.dtype[Any]
    apart: int | None
    keywords: tuple[tuple[str, Any], ...] = ()

    @property
    def __name__(self) -> str:  # type: ignore[override]
        return self.name

    def first(self, block: Any, out: Any = None) -> Any:
        lengths = dict(self.shape)
        shape = [lengths.get(k, n) for k, n in enumerate(block.shape)]
        if not block.size:  # SciPy refuses; NumPy pads axes by zeros
            return np.zeros(shape, self.dtype)
        if self.apart is None:
            return self._strip(block)
        # Strips that stay in the cache, each written once: a result as a whole costs as much
        # again, to get its memory and to copy it.
        out = np.empty(shape, self.dtype) if out is None else out
        step = max(1, _STRIP * shape[self.apart] // max(out.nbytes, block.nbytes))
        before = (slice(None),) * self.apart
        for start in range(0, shape[self.apart], step):
            rows = (*before, slice(start, start + step))
            out[rows] = self._strip(block[rows])
        return out

    def _strip(self, block: Any) -> Any:
        for place, (func, n, axis) in enumerate(self.steps):
            given = {"s": n, "axes": axis} if isinstance(axis, tuple) else {"n": n, "axis": axis}
            own = {"overwrite_x": True} if place else {}
            block = func(block, **given, **dict(self.keywords), **own)
        return np.asarray(block).astype(self.dtype, copy=False)


def _transformed(name: str, node: Expr, steps: list[tuple[str, Any, int]], norm: Any) -> Expr:
    """Return a node transformed by steps: a transform, ``n`` or None, and an axis, each."""
    import scipy.fft

    keywords = (("norm", norm),)
    while steps:
        axes = {steps[0][2]}
        group: list[tuple[Any, Any, Any]] = []
        lengths: dict[int, int] = {}
        dtype = node.dtype
        for kind, n, axis in steps:
            if axis not in axes and len(node.chunks[axis]) > 1:
                break
            axes.add(axis)
            length, default = _LENGTHS[kind]
            now: Any = lengths.get(axis, node.shape[axis])
            n = default(now) if n is None else operator.index(n)
            sample = np.zeros((1,) * node.ndim, dtype)
            dtype = getattr(np.fft, kind)(sample, min(n, 2), axis, norm).dtype  # NumPy's checks
            group.append((getattr(scipy.fft, kind), n, axis))
            lengths[axis] = length(n)
        steps = steps[len(group):]
        layout = tuple([(lengths[k],) if k in lengths else k for k in range(node.ndim)])
        apart = next((k for k in range(node.ndim) if k not in axes), None)
        op = Transform(name, tuple(group), tuple(lengths.items()), dtype, apart, keywords)
        node = tree(op, [whole_along(node, tuple(axes))], layout, dtype)
    return node


def _made(out: Any, node: Expr) -> Array:
    return Array(node) if out is None else assign_out(out, node)


def _of_one_axis(kind: str) -> Callable[..., Array]:
    def transform(
        a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: Any = None
    ) -> Array:
        resolve_lengths(a)
        node = as_array(a).expr
        return _made(out, _transformed(kind, node, [(kind, n, axis_of(axis, node.ndim))], norm))

    return _named(transform, kind, f"{_WORDS[kind]} along an axis", f"`n` {_WRONG}")


def _of_several(kind: str, ending: str, default: Any) -> Callable[..., Array]:
    first, others, last = _SEVERAL[kind]

    def transform(
        a: Any, s: Any = None, axes: Any = default, norm: str | None = None, out: Any = None
    ) -> Array:
        resolve_lengths(a)
        node = as_array(a).expr
        if s is not None:  # without axes, or with None for a length, that is deprecated
            few = [n if n is None else 1 for n in s]
            as_numpy_tells(np.fft.fftn, np.zeros((1,) * node.ndim), few, axes)
        pairs = _lengths_and_axes(node, s, axes)
        kinds = [others] * len(pairs)
        if pairs or first or last:
            kinds[-1] = first or last or others  # without axes, NumPy's error
        steps = [(step_kind, *pair) for step_kind, pair in zip(kinds, pairs, strict=True)][::-1]
        # Only the step of real numbers has a fixed place: whole axes first saves a rechunk.
        steps.sort(key=lambda step: (
            step[0] != first, step[0] == last, len(node.chunks[step[2]]) > 1
        ))
        return _made(out, _transformed(kind + ending, node, steps, norm))

    which = "the last two axes" if ending == "2" else "all axes, or some"
    wrong = f"`s` doesn't have a length for each axis, or one {_WRONG}"
    return _named(transform, kind + ending, f"{_WORDS[kind]} along {which}", wrong)


def _lengths_and_axes(node: Expr, s: Any, axes: Any) -> list[tuple[int | None, int]]:
    if axes is None:
        axes = range(node.ndim) if s is None else range(-len(s), 0)
    found = [axis_of(axis, node.ndim) for axis in axes]
    lengths = [None] * len(found) if s is None else list(s)
    if len(lengths) != len(found):
        raise ValueError("Shape and axes have different lengths.")
    # Here -1 is the whole axis, also of what `irfft` gives.
    return [
        (node.shape[axis] if n == -1 else n, axis) for n, axis in zip(lengths, found, strict=True)
    ]


def _named(
    function: Callable[..., Array], name: str, words: str, wrong: str
) -> Callable[..., Array]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return {words}, as ``np.fft.{name}``.

    Axes that are transformed become one chunk each. `out`, if given, is a chunked array.

    Raises
    ------
    ValueError
        {wrong}

    Examples
    --------
    >>> import numpy as np
    >>> import lazyflow.array as la
    >>> x = la.ones((4, 4), chunks=2)
    >>> found, wanted = la.fft.{name}(x).compute(), np.fft.{name}(x.compute())
    >>> found.dtype == wanted.dtype, np.allclose(found, wanted)
    (True, True)
    """
    return function


fft, ifft, rfft, irfft, hfft, ihfft = [
    _of_one_axis(kind) for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
]
fft2, ifft2, rfft2, irfft2 = [_of_several(kind, "2", (-2, -1)) for kind in _SEVERAL]
fftn, ifftn, rfftn, irfftn = [_of_several(kind, "n", None) for kind in _SEVERAL]


def fft_wrap(
    fft_func: Callable[..., Any], kind: str | None = None, dtype: Any = None,
    allow_fftpack: bool = False,
) -> Callable[..., Array]:
    """Return a function of chunked arrays for another library's transform.

    Parameters
    ----------
    fft_func
        Called in each task as ``fft_func(block, n=n, axis=axis)``, or of several axes as
        ``fft_func(block, s=s, axes=axes)``; each of them is one chunk.
    kind
        The name of the function of ``np.fft`` that it is like; without it, that of `fft_func`.
    dtype
        Of the result; without it, `fft_func` is called with a few ones.
    allow_fftpack
        Changes nothing (dask's keyword): functions of ``scipy.fftpack`` along one axis are always
        taken.

    Raises
    ------
    ValueError
        `np.fft` has no transform of this name.

    Examples
    --------
    >>> import scipy.fft
    >>> import lazyflow.array as la
    >>> la.fft.fft_wrap(scipy.fft.rfft)(la.ones(5, chunks=2)).compute()
    array([5.+0.j, 0.+0.j, 0.+0.j])
    """
    name = kind or fft_func.__name__
    base = name.rstrip("2n")
    if name not in globals() or base not in _LENGTHS:
        raise ValueError(f"Given unknown `kind` {name}: name a transform of np.fft by kind=")

    def of_one_axis(a: Any, n: Any = None, axis: Any = None) -> Array:
        resolve_lengths(a)
        node = as_array(a).expr
        pairs = [(n, axis_of(-1 if axis is None else axis, node.ndim))]
        return Array(_wrapped(fft_func, name, base, node, pairs, dtype))

    def of_several(a: Any, s: Any = None, axes: Any = None) -> Array:
        resolve_lengths(a)
        node = as_array(a).expr
        axes = (-2, -1) if axes is None and name[-1] == "2" else axes
        return Array(
            _wrapped(fft_func, name, base, node, _lengths_and_axes(node, s, axes), dtype)
        )

    transform = of_one_axis if name == base else of_several
    wrong = "The lengths or axes are none that `fft_func` takes."
    return _named(transform, name, f"{_WORDS[base]} by another library", wrong)


def _wrapped(
    func: Any, name: str, base: str, node: Expr, pairs: list[tuple[Any, int]], dtype: Any
) -> Expr:
    length, default = _LENGTHS[base]
    axes = tuple([axis for _, axis in pairs])
    given: list[int] = []
    lengths = {}
    for place, (n, axis) in enumerate(pairs, 1):
        now: Any = node.shape[axis]
        at_end = place == len(pairs)
        given.append((default(now) if at_end else now) if n is None else operator.index(n))
        lengths[axis] = length(given[-1]) if at_end else given[-1]
    step = (func, tuple(given), axes) if name != base else (func, given[0], axes[0])
    if dtype is None:
        dtype = func(np.ones((8,) * node.ndim, node.dtype)).dtype
    op = Transform(name, (step,), tuple(lengths.items()), np.dtype(dtype), None)
    layout = tuple([(lengths[k],) if k in lengths else k for k in range(node.ndim)])
    return tree(op, [whole_along(node, axes)], layout, dtype)


def fftfreq(
    n: int, d: float = 1.0, chunks: ChunksLike = "auto", *, dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Array:
    """Return the frequencies of `fft` of `n` samples with distance `d`, as ``np.fft.fftfreq``.

    Raises
    ------
    ValueError
        `n` is no whole number.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.fft.fftfreq(4, 0.5).compute()
    array([ 0. ,  0.5, -1. , -0.5])
    """
    return _frequencies(np.fft.fftfreq, n, d, chunks, dtype, device)


def rfftfreq(
    n: int, d: float = 1.0, chunks: ChunksLike = "auto", *, dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Array:
    """Return the frequencies of `rfft` of `n` samples with distance `d`, as ``np.fft.rfftfreq``.

    Raises
    ------
    ValueError
        `n` is no whole number.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.fft.rfftfreq(4, 0.5).compute()
    array([0. , 0.5, 1. ])
    """
    return _frequencies(np.fft.rfftfreq, n, d, chunks, dtype, device)


def _frequencies(
    numpys: Callable[..., Any], n: int, d: float, chunks: Any, dtype: Any, device: Any
) -> Array:
    if not isinstance(n, int | np.integer):
        raise ValueError("n should be an integer")
    numpys(1, d, device=device)  # NumPy's checks
    each = 1.0 / (n * d)
    if numpys is np.fft.rfftfreq:
        found = arange(n // 2 + 1, chunks=chunks)
    else:
        i = arange(n, chunks=chunks)
        found = where(i < (n + 1) // 2, i, i - n)
    found = found * each
    return found if dtype is None else found.astype(dtype)


def fftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """Return the array with the zero frequency in the middle, as ``np.fft.fftshift``.

    >>> import lazyflow.array as la
    >>> la.fft.fftshift(la.fft.fftfreq(4, 0.25)).compute()
    array([-2., -1.,  0.,  1.])
    """
    return _shifted(x, axes, 1)


def ifftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """Return the inverse of `fftshift`, as ``np.fft.ifftshift``.

    >>> import lazyflow.array as la
    >>> la.fft.ifftshift(la.fft.fftshift(la.arange(3))).compute()
    array([0, 1, 2])
    """
    return _shifted(x, axes, -1)


def _shifted(x: Any, axes: Any, sign: int) -> Array:
    resolve_lengths(x)
    x = as_array(x)
    if axes is None:
        axes = tuple(range(x.ndim))
    axes = [axis_of(axis, x.ndim) for axis in (axes if np.ndim(axes) else [axes])]
    shifts = [sign * (x.shape[axis] // 2) for axis in axes]
    return roll(x, shifts, axes)
