"""How random arrays are drawn: seeds, calls, and checked parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from lazyflow.api.collection import Collection
from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ChunksLike, new_lengths
from lazyflow.array.kernels.draws.draw import PlacedDraw
from lazyflow.array.nodes.sources import Generated
from lazyflow.array.random.lazy_parameters import checked, drawn, examples
from lazyflow.array.random.streams import BoxedDraw, Stream, Values

#: The shape of an array, or its length; None: the shape of the parameters.
Size = int | Sequence[int] | None

def _as_it_is(x: Array, *params: Any) -> Array:
    return x


def spread(x: Array, loc: Any, scale: Any) -> Array:
    """Return draws of width 1 around 0 with another center and width."""
    wide = x if type(scale) is float and scale == 1 else x * scale
    return wide if type(loc) is float and loc == 0 else wide + loc


_PROBED = 10_000  # elements of array parameters up to which they are checked when a call is made


def _sequence(seed: Any) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, np.random.RandomState | np.random.Generator):
        seed = seed.bytes(32)
        return np.random.SeedSequence(int.from_bytes(seed, "little"))
    if isinstance(seed, type) and issubclass(seed, np.random.BitGenerator):
        seed = None
    if isinstance(seed, np.random.BitGenerator):
        return np.random.SeedSequence(seed.random_raw(4).tolist())
    return np.random.SeedSequence(seed)


class Streams:
    """A seed, a number for each call, and arrays that are drawn of them."""

    def __init__(self, seed: Any = None, calls: int = 0) -> None:
        self._seed = _sequence(seed)
        self._calls = calls
        self._lock = Lock()
        first, second = self._seed.generate_state(2, np.uint64).tolist()
        self._key = first, second

    def __reduce__(self) -> Any:
        return type(self), (self._seed, self._calls)

    def __repr__(self) -> str:
        return f"lazyflow.array.random.{type(self).__name__}(Philox)"

    def _next(self) -> Stream:
        with self._lock:
            call = self._calls
            self._calls += 1
        return Stream(self._key, call)

    def _draw(
        self, name: str, params: tuple[Any, ...], size: Size, chunks: ChunksLike, /, **options: Any
    ) -> Array:
        """Return an array that NumPy draws; its parameters are numbers or arrays."""
        given, shape, dtype = given_of(name, params, size, options)
        return self._made(name, given, shape, dtype, _own_chunks(chunks, given, shape),
                          options=options)

    def _placed(
        self, name: str, formula: str, params: tuple[Any, ...], size: Size, chunks: ChunksLike,
        make: Callable[..., Any] = _as_it_is, /, own: bytes = b"", **options: Any,
    ) -> Array:
        """Return an array whose elements are functions of their places and of parameters.

        make
            Called with the array of a formula and the parameters, floats or arrays of them.
        """
        given, shape, dtype = given_of(name, params, size, options)
        sizes = normalize_chunks(_own_chunks(chunks, given, shape), shape, None, dtype)
        kind = dtype if make is _as_it_is else np.dtype(float)
        x = self._by_place(name, formula, kind, shape, sizes, own)
        with np.errstate(all="ignore"):
            made: Array = make(x, *checked(name, given))
        return made if made.chunks == sizes else made.rechunk(sizes)

    def _gamma(
        self, name: str, params: tuple[Any, ...], size: Size, chunks: ChunksLike,
        make: Callable[..., Any], part: float = 1.0, least: float = 0.0, **options: Any,
    ) -> Array:
        """Return what is made of gamma draws whose shape is a part of the first parameter.

        least
            The smallest shape with which `make` needs no care; NumPy makes it of smaller ones.
        """
        (first, *_), _, dtype = given_of(name, params, size, options)
        shape = 0.0 if isinstance(first, Values | Array) else float(first) * part
        if not least <= shape < np.inf or not shape:
            return self._draw(name, params, size, chunks, **options)

        def of_draws(x: Any, *given: Any) -> Any:
            if shape < 1:  # draws of a shape larger by 1, and a power of uniform ones
                waited = self._placed(
                    "standard_exponential", "exponential", (), x.shape, x.chunks
                )
                x = x * np.exp(waited * (-1 / shape))
            return make(x, *given).astype(dtype)

        own = np.float64(shape + (shape < 1)).tobytes()
        return self._placed(name, "gamma", params, size, chunks, of_draws, own=own, **options)

    def _by_place(
        self, name: str, formula: str, dtype: Any, shape: Any, chunks: ChunksLike, own: bytes
    ) -> Array:
        """Return what a formula of kernels/draws gives."""
        stream = self._next()
        draw = PlacedDraw(name, formula, np.dtype(dtype), shape, stream.words, stream.call, own)
        return Array(Generated(draw, draw.dtype, normalize_chunks(chunks, shape, None, draw.dtype)))

    def _made(
        self, method: str, params: tuple[Any, ...], shape: tuple[int, ...], dtype: Any,
        chunks: ChunksLike, whole: int = 0, options: Any = (),
    ) -> Array:
        sizes = normalize_chunks(chunks, shape, None, dtype)
        pairs = tuple(sorted(dict(options).items()))
        draw = BoxedDraw(method, params, pairs, np.dtype(dtype), shape, whole, self._next())
        if any(isinstance(p, Array) for p in params):
            return Array(drawn(draw, params, sizes))
        return Array(Generated(draw, draw.dtype, sizes))


def _own_chunks(chunks: ChunksLike, params: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return chunks: if they are left out, those of the first lazy parameter of that shape."""
    lazy = [p.chunks for p in params if isinstance(p, Array) and p.shape == shape]
    return lazy[0] if lazy and isinstance(chunks, str) and chunks == "auto" else chunks


def size_of(size: Size, least: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return the shape that `size` asks for; None: that of the parameters."""
    if size is None:
        return least
    shape = new_lengths(size)
    try:
        fits = np.broadcast_shapes(least, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"Output size {shape} is not compatible with broadcast dimensions of inputs {least}."
        )
    return shape


def in_memory(value: Any, method: str) -> Any:
    """Return a parameter that is in memory; refuse a lazy one."""
    if isinstance(value, Collection) or hasattr(value, "_lazyflow_kind"):
        raise TypeError(
            f"{method}() takes no lazy {type(value).__name__} here: compute it first, or make an "
            "array of it by la.from_delayed(x, shape, dtype) where a parameter may be chunked"
        )
    return value


def given_of(
    name: str, params: tuple[Any, ...], size: Size, options: dict[str, Any]
) -> tuple[tuple[Any, ...], tuple[int, ...], np.dtype[Any]]:
    """Return the parameters of a distribution, the shape of what is drawn, and its dtype."""
    given = tuple([_parameter(p, name) for p in params])
    shapes = [
        p.array.shape if isinstance(p, Values) else p.shape
        for p in given if isinstance(p, Values | Array)
    ]
    least = np.broadcast_shapes(*shapes)
    return given, size_of(size, least), _checked(name, given, options)


def _parameter(value: Any, method: str) -> Any:
    if isinstance(value, Array):
        return value.with_known_sizes()
    if isinstance(in_memory(value, method), int | float | complex):
        return value
    array = np.asarray(value)
    return Values(array) if array.ndim else array[()]


@cache
def probe() -> np.random.Generator:
    """Return the generator of NumPy that checks parameters and gives dtypes."""
    return np.random.default_rng(0)


def _checked(
    method: str, params: tuple[Any, ...], options: dict[str, Any]
) -> np.dtype[Any]:
    """Return the dtype of a distribution; NumPy refuses wrong parameters with its own errors."""
    arrays = [p.array for p in params if isinstance(p, Values)]
    values = examples(method, params)
    size: Any = 1  # nothing is checked for 0
    if arrays:
        size = None
        if prod(np.broadcast_shapes(*[a.shape for a in arrays])) > _PROBED:
            values = [p.ravel()[:1] if isinstance(p, np.ndarray) else p for p in values]
    dtype: np.dtype[Any] = getattr(probe(), method)(*values, size=size, **options).dtype
    return dtype
