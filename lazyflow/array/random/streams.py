"""Draws by NumPy's generators as a formula, which gives any region, always with the same values.

An array is laid out in boxes of about 8 K elements that depend on its shape alone. Each box has
a generator of its own, SFC64 with a seed by Philox, so that values depend on no chunks and on no
scheduler. Distributions take different numbers of draws for an element, so every part of a
box is drawn from the beginning of the box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lazyflow.array.nodes.sources import Region

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
        How many of the last axes one draw fills: 1 for multinomial and the like, of which each
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
