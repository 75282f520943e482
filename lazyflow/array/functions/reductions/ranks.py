"""Elements at some ranks of what is in no order, exactly, where no task should see whole axes.

Few ranks, of numbers: only what lies near them is sorted. A sample gives bounds that a wanted
element lies between, but once in many millions of times. Blocks count what is below and up to them,
then give what is between. Where the counts show that the element is elsewhere, they give
everything.

More ranks, or other types: all is put in order by many tasks (sample_sort.py), of whose chunks the
elements are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lazyflow import config
from lazyflow.array.chunks import normalize_chunks
from lazyflow.array.core import Array
from lazyflow.array.functions.manipulation.joining import stack
from lazyflow.array.functions.manipulation.shaping import flat, reshape
from lazyflow.array.functions.reductions import totals
from lazyflow.array.nodes.elementwise import constant
from lazyflow.array.nodes.expr import Expr
from lazyflow.array.nodes.rechunking import rechunk
from lazyflow.array.nodes.reductions import TreeReduction, tree
from lazyflow.array.nodes.sample_sort import is_long, sample_sorted

_PAYS = 1 << 18  # elements of an array from which selection is faster than sorting; a guess
MOST = 8  # quantiles that are selected: each reads all blocks twice; a guess
_SAMPLE = 1 << 15  # elements of a sample at least, about; a guess
_FAR = 3.0  # bounds from a place, in roots of the sample's size: six standard deviations or more


@dataclass(frozen=True)
class Median:
    """Which elements a median is made of, by their ranks among all that are sorted, and how."""

    is_several = False

    def ranks(self, n: int) -> Sequence[int]:
        """Return the ranks in `n` elements, in order."""
        return (n // 2,) if n % 2 else (n // 2 - 1, n // 2)

    def value(self, n: int, found: Any) -> Any:
        """Return what NumPy makes of the elements at these ranks."""
        return np.median(found)


@dataclass(frozen=True)
class Quantile(Median):
    """Quantiles as NumPy's function makes them, whose rules of ranks are followed to the bit.

    q
        A number, or a tuple of what an array has.
    dtype
        Of the elements: in that type NumPy reckons where `q` is a Python number.
    """

    func: Any
    q: Any
    method: str
    dtype: np.dtype[Any]

    @property
    def is_several(self) -> bool:  # type: ignore[override]
        return type(self.q) is tuple and len(self.q) > 1

    def _of(self, x: InOrder) -> Any:
        q = np.array(self.q) if type(self.q) is tuple else self.q
        return self.func(x, q, axis=0, method=self.method, overwrite_input=True)

    def ranks(self, n: int) -> Sequence[int]:
        x = in_order(n, np.zeros((), self.dtype))
        with np.errstate(all="ignore"):
            self._of(x)
        return np.unique(np.concatenate(x.asked))  # type: ignore[return-value]

    def value(self, n: int, found: Any) -> Any:
        x = in_order(n, found[0])
        x.ranks, x.elements = self.ranks(n), found
        return self._of(x)


class InOrder(np.ndarray[Any, Any]):
    """An array in order, of which few elements are there: what NumPy's quantiles are made of.

    NumPy partitions an array by the ranks that it needs, which does nothing here, and takes the
    elements at these. It also looks whether the last one is NaN, which is known elsewhere.

    Attributes
    ----------
    ranks, elements
        What is there; none at first, to find out which are asked for.
    """

    ranks: Any
    elements: Any
    asked: list[Any]

    def partition(self, kth: Any, *_: Any, **__: Any) -> None:
        n = len(self)
        for each in kth[(kth < -n) | (kth >= n)]:  # of a type in which n is no number
            raise ValueError(f"kth(={each}) out of bounds ({n})")

    def take(self, indices: Any, *_: Any, **__: Any) -> Any:
        return self[indices]

    def __getitem__(self, key: Any) -> Any:
        if type(key) is tuple:
            return np.zeros((), self.dtype)[()]
        at = np.asarray(key) % len(self)
        self.asked.append(at.ravel())
        if self.ranks is None:
            return np.zeros(at.shape, self.dtype)[()]
        return self.elements[np.searchsorted(self.ranks, at)]


def in_order(n: int, like: Any) -> InOrder:
    """Return an array of so many elements, of which none is there yet."""
    found = np.broadcast_to(like, n).view(InOrder)
    found.ranks, found.asked = None, []
    return found


@dataclass(frozen=True)
class _Step(TreeReduction):
    """A step towards the elements that are wanted.

    size
        How many elements there are.
    skips
        NaN are left out; otherwise all that is wanted is NaN if there is one.
    """

    __name__ = "quantiles"
    wanted: tuple[Median, ...]
    size: int
    skips: bool

    def count(self, missing: Any) -> int:
        """Return how many elements count; 0 if the result is NaN."""
        return 0 if missing and not self.skips else self.size - int(missing)


class _Bounds(_Step):
    """Pairs of elements that those that are wanted lie between, probably."""

    placed = True

    def first(self, where: Any, block: Any) -> Any:
        rng = np.random.default_rng(where.index)  # other places in blocks that are alike
        # what is sampled, and what is between bounds, are least together
        sample = max(_SAMPLE, int((3 * self.size) ** (2 / 3)))
        count = -(-sample * block.size // self.size)
        found = block[tuple([rng.integers(n, size=count) for n in block.shape])]
        return found[found == found]

    def merge(self, parts: Sequence[Any]) -> Any:
        return np.concatenate(parts)

    def last(self, part: Any) -> Any:
        sample, n = np.sort(part), len(part)
        bounds = np.array([_everything(part.dtype)] * len(self.wanted), part.dtype)
        for each, pair in zip(self.wanted if n else (), bounds, strict=False):
            ranks, far = each.ranks(n), int(_FAR * n**0.5) + 1
            if ranks[0] >= far:
                pair[0] = sample[ranks[0] - far]
            if ranks[-1] + far < n:
                pair[1] = sample[ranks[-1] + far]
        return bounds


class _Counts(_Step):
    """How many elements are below bounds; last how many are NaN.

    It is -1 where what is wanted does not lie between the bounds. Parts also have how many elements
    there are up to them.
    """

    def first(self, block: Any, bounds: Any) -> Any:
        count = np.count_nonzero
        missing = count(block != block) if block.dtype.kind == "f" else 0
        found = [(count(block < low), count(block <= high)) for low, high in bounds]
        return np.array([*found, (missing, 0)])

    def merge(self, parts: Sequence[Any]) -> Any:
        return np.sum(parts, axis=0)

    def last(self, part: Any) -> Any:
        n, found = self.count(part[-1, 0]), part[:, 0].copy()
        for k, each in enumerate(self.wanted):
            below, upto = part[k]
            ranks = each.ranks(n) if n else ()
            if not n or below > ranks[0] or ranks[-1] >= upto:
                found[k] = -1
        return found


@dataclass(frozen=True)
class _Last(_Step):
    """The result: a value for each place of `shape`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def result(self, n: int, values: Sequence[Any]) -> Any:
        """Return what was made of `n` elements, or NaN of none."""
        if not n and self.skips:
            np.nanmedian(np.full(1, np.nan))  # warns
        found = np.empty(prod(self.shape), self.dtype)
        found[:] = np.concatenate([np.atleast_1d(each) for each in values])
        return found.reshape(self.shape)


class _Selected(_Last):
    """The result, of what lies between bounds, of all where these were missed.

    A part is the bounds, the counts, and for each pair of bounds how many elements equal the lower
    one, and what lies between them: of elements that are there many times no task holds all.
    """

    def first(self, block: Any, bounds: Any, seen: Any) -> Any:
        used, parts = bounds.copy(), []
        for pair, below in zip(used, seen[:-1], strict=True):
            if below < 0:
                pair[:] = _everything(block.dtype)
            near = block[(block >= pair[0]) & (block <= pair[1])]
            inner = near[(near != pair[0]) & (near != pair[1])]
            parts.append((np.count_nonzero(near == pair[0]), inner))
        return used, seen, parts

    def merge(self, parts: Sequence[Any]) -> Any:
        used, seen, _ = parts[0]
        columns = zip(*[each for _, _, each in parts], strict=True)
        return used, seen, [
            (sum([n for n, _ in column]), np.concatenate([inner for _, inner in column]))
            for column in columns
        ]

    def last(self, part: Any) -> Any:
        used, seen, parts = part
        n, values = self.count(seen[-1]), []
        every = zip(self.wanted if n else (), used, seen[:-1], parts, strict=False)
        for each, (low, high), below, (lowest, inner) in every:
            at = np.array(each.ranks(n)) - max(below, 0) - lowest
            kth = at[(at >= 0) & (at < len(inner))]
            inner = np.partition(inner, kth) if len(kth) else inner
            found = [low if k < 0 else inner[k] if k < len(inner) else high for k in at]
            values.append(each.value(n, np.array(found, used.dtype)))
        return self.result(n, values or [np.nan])


class _Taken(_Last):
    """The result, of chunks of elements in order."""

    placed = True

    def _ranks(self, missing: Any) -> Any:
        """Return all ranks that are wanted, and that of the last element, which may be NaN."""
        n = self.count(missing)
        ranks = [each.ranks(n) for each in self.wanted] if n else []
        return np.unique(np.concatenate([*ranks, [self.size - 1]]).astype(np.intp))

    def first(self, where: Any, block: Any, missing: Any) -> Any:
        (start,) = where.regions
        ranks = self._ranks(missing) - start
        return missing, block[ranks[(ranks >= 0) & (ranks < len(block))]]

    def merge(self, parts: Sequence[Any]) -> Any:
        return parts[0][0], np.concatenate([found for _, found in parts])

    def last(self, part: Any) -> Any:
        missing, found = part
        n, ranks = self.count(missing), self._ranks(missing)
        if not n:
            return self.result(0, [found[-1]])
        return self.result(n, [
            each.value(n, found[np.searchsorted(ranks, each.ranks(n))]) for each in self.wanted
        ])


def _everything(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return bounds that all elements lie between."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def by_rank(
    node: Expr, axes: tuple[int, ...], wanted: Sequence[Median], skips: bool,
    shape: tuple[Any, ...], dtype: Any,
) -> Expr | None:
    """Return what is made of elements along axes; None where tasks had better see whole axes.

    shape
        Of the result: what `wanted` has, and lengths of the other axes.
    """
    lengths: Any = node.shape
    if not is_long(node, *axes) and not (
        len(axes) == node.ndim and _are_selected(node, wanted) and prod(node.numblocks) > 1
        and prod(lengths) >= _PAYS
    ):
        return None
    rest: list[Any] = [[slice(None)] if k in axes else range(n) for k, n in enumerate(lengths)]
    if len(axes) == node.ndim:
        return _of_all(node, wanted, skips, shape, dtype)
    count = prod(map(len, rest))
    each = (prod(shape) // count,)
    lines = Array(_in_lines(node, axes))
    found = [Array(_of_all(lines[key].expr, wanted, skips, each, dtype)) for key in product(*rest)]
    return reshape(stack(found, axis=1, dtype=dtype), shape).expr


def _are_selected(node: Expr, wanted: Sequence[Median]) -> bool:
    return node.dtype.kind in "iuf" and not any(each.is_several for each in wanted)


def _in_lines(node: Expr, axes: tuple[int, ...]) -> Expr:
    """Return a node whose blocks are of length 1 along other axes."""
    if all(k in axes or max(sizes) == 1 for k, sizes in enumerate(node.chunks)):
        return node
    limit, most = config.memory_limit(), config.get("chunk_bytes")
    wanted = {k: "auto" if k in axes else 1 for k in range(node.ndim)}
    size = most if limit is None else max(min(most, limit // 32), 1)
    lengths: Any = node.shape
    return rechunk(node, normalize_chunks(wanted, lengths, size, node.dtype))


def _of_all(
    node: Expr, wanted: Sequence[Median], skips: bool, shape: tuple[int, ...], dtype: Any
) -> Expr:
    """Return what is made of all elements of a node."""
    size: Any = node.size
    step = tuple(wanted), size, skips
    layout = tuple([(n,) for n in shape])
    if _are_selected(node, wanted):
        count = len(wanted)
        pairs, counts = ((count,), (2,)), ((count + 1,),)
        bounds = tree(_Bounds(*step), [node], pairs, node.dtype.newbyteorder("="))
        seen = tree(_Counts(*step), [node], counts, np.intp, [bounds])
        last = _Selected(*step, shape, np.dtype(dtype))
        return tree(last, [node], layout, dtype, [bounds, seen])
    missing: Expr = constant(np.zeros((), np.intp))
    if node.dtype.kind in "fcmM":
        x = Array(node)
        missing = totals.sum(x != x).expr
    ordered = sample_sorted(flat(Array(node)).expr, 0, None, False)
    return tree(_Taken(*step, shape, np.dtype(dtype)), [ordered], layout, dtype, [missing])
