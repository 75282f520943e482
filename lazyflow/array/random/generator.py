"""How random arrays are drawn: seeds, calls, checked parameters, and draws by NumPy's generators.

For distributions without a formula of kernels/draws an array is laid out in boxes of about 8 K
elements that depend on its shape alone. Each box has a generator of its own, SFC64 with a seed by
Philox, so that values do not depend on chunks, regions or the scheduler.
Distributions take different numbers of draws for an element, so every part of a box is drawn from
the beginning of the box.

Parameters that are chunked arrays are checked and used block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, product
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from lazyflow.api.collection import Collection
from lazyflow.array.chunks import Chunks, normalize_chunks
from lazyflow.array.core import Array, as_node
from lazyflow.array.functions.arguments import ChunksLike, new_lengths
from lazyflow.array.kernels.draws.draw import PlacedDraw
from lazyflow.array.nodes import elementwise
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.sources import Generated, InMemory, Region
from lazyflow.array.nodes.user_calls import PerBlock

# -- draws by NumPy's generators ---------------------------------------------------------------


#: Elements of a box, about. Setting the state was measured to take 2 µs, drawing 8 K normals about
#: 110; chunks that end inside boxes draw elements that they don't need, more in larger boxes.
_BOX = 1 << 13


class Values:
    """A parameter that is an array: a copy of it, equal to others by content."""

    __slots__ = ("_hash", "array")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = np.array(array, order="C")
        self.array.setflags(write=False)
        self._hash: int | None = None

    def _content(self) -> tuple[Any, ...]:
        return (self.array.dtype, self.array.shape, self.array.tobytes())

    def __eq__(self, other: Any) -> bool:
        return type(other) is Values and self._content() == other._content()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._content())
        return self._hash

    def __reduce__(self) -> Any:
        return Values, (self.array,)

    def part(self, box: Region) -> np.ndarray[Any, Any]:
        """Return the part for a box of the array to which this one broadcasts."""
        spans = box[len(box) - self.array.ndim:]
        return self.array[tuple([
            slice(None) if n == 1 else span
            for n, span in zip(self.array.shape, spans, strict=True)
        ])]


@dataclass(frozen=True)
class Stream:
    """A part of the sequence of Philox: a generator's key, and the number of a call of it."""

    key: tuple[int, int]
    call: int

    @property
    def words(self) -> tuple[int, int, int]:
        """Three words of the key, for draws by place."""
        first, second = self.key
        return first & 0xFFFFFFFF, first >> 32, second & 0xFFFFFFFF

    def generators(self) -> Callable[[int], np.random.Generator]:
        """Return a function of a box's number that gives its generator, until the next call."""
        seeds = np.random.Philox(key=np.array(self.key, np.uint64))
        place: Any = seeds.state
        place["state"]["counter"] = counter = np.array([0, 0, 0, self.call], np.uint64)
        bits = np.random.SFC64(0)
        found = np.random.Generator(bits)
        state: Any = bits.state
        words = state["state"]["state"]

        def at(number: int) -> np.random.Generator:
            counter[2] = number
            seeds.state = place
            words[:] = *seeds.random_raw(3), 1
            bits.state = state
            bits.random_raw(12, output=False)  # as NumPy starts it
            return found

        return at


@dataclass(frozen=True)
class BoxedDraw:
    """An array of a distribution.

    method
        The name of a method of NumPy's generator, or of a function in `OWN`.
    params
        Numbers, and `Values` that broadcast to the shape without the axes of a draw.
    options
        Pairs of a keyword and its value.
    whole
        How many of the last axes one draw fills: 1 for distributions like multinomial, where each
        draw needs all elements of the parameters.
    """

    method: str
    params: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    whole: int
    stream: Stream
    takes_out = True
    slow = True

    @property
    def __name__(self) -> str:
        return self.method

    def __call__(self, region: Region, out: Any = None) -> np.ndarray[Any, Any]:
        if out is None:
            out = np.empty([span.stop - span.start for span in region], self.dtype)
        if not out.size:
            return out
        sides = boxes(self.shape, self.whole)
        grid = [-(-n // side) for n, side in zip(self.shape, sides, strict=True)]
        ranges = [
            range(span.start // side, -(-span.stop // side))
            for span, side in zip(region, sides, strict=True)
        ]
        generator_of = self.stream.generators()
        for at in product(*ranges):
            number = 0
            for i, count in zip(at, grid, strict=True):
                number = number * count + i
            box = self._drawn(at, sides, region)
            values = self._values(generator_of(number), box)
            if values.shape == out.shape and all(map(_same, box, region)):
                return values
            to, of = [], []
            for span, b in zip(region, box, strict=True):
                first, last = max(span.start, b.start), min(span.stop, b.stop)
                to.append(slice(first - span.start, last - span.start))
                of.append(slice(first - b.start, last - b.start))
            out[tuple(to)] = values[tuple(of)]
        return out

    def _drawn(self, at: tuple[int, ...], sides: tuple[int, ...], region: Region) -> Region:
        """Return a box, without the rows after the last one that the region needs.

        Draws that fill several elements may depend on how many there are: BLAS, einsum.
        """
        box = [
            slice(i * side, min((i + 1) * side, n))
            for i, side, n in zip(at, sides, self.shape, strict=True)
        ]
        for axis, side in enumerate(sides if not self.whole else ()):
            if side > 1:
                box[axis] = slice(box[axis].start, min(box[axis].stop, region[axis].stop))
                break
        return tuple(box)

    def _values(self, generator: np.random.Generator, box: Region) -> Any:
        outer = box[: len(box) - self.whole]
        params = [
            p if not isinstance(p, Values) else p.array if self.whole else p.part(outer)
            for p in self.params
        ]
        size = tuple([span.stop - span.start for span in outer])
        own = OWN.get(self.method)
        if own is not None:
            return own(generator, *params, size=size, **dict(self.options))
        found = getattr(generator, self.method)(*params, size=size, **dict(self.options))
        return np.asarray(found)


def _same(a: slice, b: slice) -> bool:
    return a.start == b.start and a.stop == b.stop


def boxes(shape: tuple[int, ...], whole: int = 0) -> tuple[int, ...]:
    """Return the lengths of the boxes of an array: about equal ones, or short axes whole.

    >>> boxes((1_000_000,)), boxes((1000, 1000)), boxes((400_000, 50))
    ((8192,), (64, 128), (128, 50))
    """
    sides = list(shape)
    outer = len(shape) - whole
    room = max(_BOX // max(prod(shape[outer:]), 1), 1)
    even = room ** (1 / max(outer, 1))
    for done, axis in enumerate(sorted(range(outer), key=lambda k: min(shape[k], even))):
        share = room ** (1 / (outer - done))
        side = shape[axis]
        if side > share:
            side = 1 << int(np.log2(share + 0.5))
        sides[axis] = max(side, 1)
        room = max(room // sides[axis], 1)
    return tuple([max(side, 1) for side in sides])


# -- distributions that NumPy's generators don't draw by parts ------------------------------------


@dataclass(frozen=True)
class Correlated:
    """Mean and factor of a multivariate normal distribution."""

    mean: Values
    factor: Values


def _correlated(generator: Any, of: Correlated, size: tuple[int, ...]) -> Any:
    mean, factor = of.mean.array, of.factor.array
    found = generator.standard_normal((*size, len(mean)))
    # not `found @ factor.T`: how BLAS rounds depends on how many threads it has
    return mean + np.einsum("...j,ij->...i", found, factor)


OWN: dict[str, Callable[..., Any]] = {"multivariate_normal": _correlated}


# -- parameters that are chunked arrays --------------------------------------------------------


#: What stands for the parameters where ones may be none that NumPy draws with, or fit no others.
_EXAMPLES: dict[str, tuple[Any, ...]] = {
    "hypergeometric": (1, 1, 1), "integers": (0, 1), "logseries": (0.5,),
    "triangular": (0.0, 1.0, 2.0), "uniform": (0.0, 1.0), "zipf": (2.0,),
}

#: Distributions whose parameters have to fit each other, besides being in bounds of their own.
_RELATED = ("triangular", "uniform")


def examples(name: str, params: Sequence[Any]) -> list[Any]:
    """Return parameters to ask NumPy for errors and the dtype, with examples for lazy ones."""
    if not any(isinstance(p, Array) for p in params):
        return [p.array if isinstance(p, Values) else p for p in params]
    if name in _EXAMPLES:
        return list(_EXAMPLES[name])
    return [
        np.ones(1, p.dtype) if isinstance(p, Array)
        else p.array.ravel()[:1] if isinstance(p, Values) else p for p in params
    ]


@dataclass(frozen=True)
class Checked:
    """Checks blocks of parameters as NumPy does; returns the parameter number `which` as floats."""

    method: str
    which: int
    __name__ = "parameters"

    def __call__(self, *params: Any) -> Any:
        given = params
        if self.method not in _RELATED:  # a bound holds for all if it does for the extremes
            extremes: Any = (np.fmin.reduce, np.fmax.reduce, np.max)
            given = tuple([
                np.array([f(p) for f in extremes]) for p in map(np.ravel, params)
            ]) if all(p.size for p in params) else ()
        if given:
            getattr(np.random.default_rng(0), self.method)(*given)
        found = np.asarray(params[self.which], float)
        return np.broadcast_to(found, np.broadcast_shapes(*[p.shape for p in params]))


def checked(name: str, params: Sequence[Any]) -> list[Any]:
    """Return parameters as floats or arrays of them; lazy ones are checked when computed."""
    nodes = tuple([
        as_node(p.array if isinstance(p, Values) else p) for p in params
    ])
    return [
        Array(elementwise.function(Checked(name, k), nodes, float)) if isinstance(p, Array)
        else np.array(p.array, float) if isinstance(p, Values) else float(p)
        for k, p in enumerate(params)
    ]


class BlockValues(Values):
    """A block of a parameter, which begins at some place of the array that is drawn."""

    __slots__ = ("starts",)

    def __init__(self, array: np.ndarray[Any, Any], starts: tuple[int, ...]) -> None:
        self.array = array
        self.starts = starts[len(starts) - array.ndim:]
        self._hash = None

    def part(self, box: Region) -> np.ndarray[Any, Any]:
        """Return the part for a box of the array that is drawn."""
        return super().part(tuple([
            slice(span.start - start, span.stop - start) for span, start in zip(
                box[len(box) - len(self.starts):], self.starts, strict=True
            )
        ]))


@dataclass(frozen=True)
class DrawOfBlocks:
    """Draws a block: called with where it begins along each axis, then with lazy parameters."""

    draw: BoxedDraw

    @property
    def __name__(self) -> str:
        return self.draw.method

    def __call__(self, *blocks: Any) -> Any:
        shape = self.draw.shape
        starts = tuple([int(block.flat[0]) for block in blocks[:len(shape)]])
        ends = [int(block.flat[1]) for block in blocks[:len(shape)]]
        lazy = iter(blocks[len(shape):])
        params = tuple([
            BlockValues(next(lazy), starts) if p is None else p for p in self.draw.params
        ])
        region = tuple([slice(a, b) for a, b in zip(starts, ends, strict=True)])
        return replace(self.draw, params=params)(region)


def drawn(draw: BoxedDraw, params: Sequence[Any], chunks: Chunks) -> Expr:
    """Return draws with lazy parameters, in blocks that end where boxes do.

    So every element has the same parameters and random bits as in other chunks.
    """
    sides = boxes(draw.shape)
    whole = tuple([
        _at_boxes(sizes, side) for sizes, side in zip(chunks, sides, strict=True)
    ])
    lazy = [_in_chunks(p.expr, whole) for p in params if isinstance(p, Array)]
    rest = tuple([None if isinstance(p, Array) else p for p in params])
    places = [_places(whole, axis) for axis in range(len(whole))]
    func = DrawOfBlocks(replace(draw, params=rest))
    return rechunk(PerBlock((*places, *lazy), func, draw.dtype, whole), chunks)


def _at_boxes(sizes: Sequence[int], side: int) -> tuple[int, ...]:
    """Return chunks that end where boxes do, or where the axis does.

    >>> _at_boxes((5, 5, 5), 4)
    (8, 4, 3)
    """
    ends = list(accumulate(sizes))
    cuts = sorted({0, *[min(-(-end // side) * side, ends[-1]) for end in ends]})
    return tuple(np.diff(cuts).tolist()) or (0,)


def _in_chunks(node: Expr, chunks: Chunks) -> Expr:
    own = chunks[len(chunks) - node.ndim:]
    return rechunk(node, tuple([
        (n,) if n == 1 else sizes for n, sizes in zip(node.shape, own, strict=True)
    ]))


def _places(chunks: Chunks, axis: int) -> Expr:
    """Return an array that has in each block where blocks begin and end along an axis."""
    ends = np.cumsum(chunks[axis])
    spans = np.stack([ends - chunks[axis], ends], axis=1).ravel()
    shape = [1] * len(chunks)
    shape[axis] = len(spans)
    own = tuple([(2,) * len(ends) if k == axis else (1,) for k in range(len(chunks))])
    return InMemory(spans.reshape(shape), own)


# -- seeds, calls and checks -------------------------------------------------------------------


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
    """Return `size` as a shape; None: the shape of the parameters."""
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
