"""Random arrays. Values depend on the seed and the shape, never on chunks or the scheduler.

    >>> import lazyflow.array as la
    >>> rng = la.random.default_rng(1)
    >>> x = rng.normal(size=1000, chunks=300)
    >>> y = la.random.default_rng(1).normal(size=1000, chunks=70)
    >>> bool((x == y).all())
    True

Each call of a method draws other numbers than the calls before it. The functions of this module
are methods of one generator; its seed is a fresh one, or the one given to `seed`.

Elements of many distributions are functions of seed, call and place, by Philox4x32-10: any part is
made directly, and without memory if it is only reduced. These are uniform, normal, exponential and
distributions derived from them; integers with one pair of bounds, and choices with replacement;
with a number as first parameter gamma and chisquare, beta (from 1 on) and standard_t (from 2 on);
with numbers as parameters binomial, negative_binomial, hypergeometric and poisson, if a table of
some thousand counts holds all likely ones. Exponential draws are within 1, normal draws (Box and
Muller) within 4 units in the last place of the exact function of 53 random bits. All are the same
on every processor, except those that use exp or power (lognormal, weibull, pareto, power, gammas
with a shape below 1). NumPy's generators draw other distributions, in boxes; if several operations
read such an array, it is drawn once and kept.

Parameters of distributions may be chunked arrays, ``rng.normal(loc=x)``, which are used, and
checked, block by block. The values are those that parameters in memory give.
"""

# Modules, from the bottom up: generator (calls and checks, and NumPy's generators, for what no
# formula of kernels/draws gives); each a part of one class: continuous and discrete distributions
# (and the chances that tables hold), sampling.

from __future__ import annotations

import builtins
from typing import Any, Self

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ArrayLike, ChunksLike, DTypeLike
from lazyflow.array.random.generator import Size
from lazyflow.array.random.sampling import Sampling

__all__ = ["Generator", "RandomState", "default_rng", "seed"]


class Generator(Sampling):
    """Draws chunked arrays of distributions; made by `default_rng`, or of what that takes.

    Methods are those of ``np.random.Generator``. They have the same parameters except ``out=``, and
    ``chunks=`` as of `normalize_chunks`. The same seed gives other values than in NumPy.

    Raises
    ------
    TypeError
        Of any method: a parameter is lazy, and no chunked array.
    ValueError
        Of any method: a parameter has a value that the distribution does not allow, or `size` is
        not a shape that the parameters broadcast to.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> x = la.random.default_rng(1).poisson(4, size=10_000)
    >>> x.mean().compute().round()
    np.float64(4.0)
    """

    def spawn(self, n_children: int) -> list[Self]:
        """Return independent generators: they draw other numbers than this one and each other.

        Parameters
        ----------
        n_children
            How many.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> a, b = la.random.default_rng(0).spawn(2)
        >>> bool((a.random(100) == b.random(100)).any())
        False
        """
        return [type(self)(seed) for seed in self._seed.spawn(n_children)]

    def bytes(self, length: int) -> builtins.bytes:
        """Return random bytes; they are drawn when this is called.

        Parameters
        ----------
        length
            How many.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> len(la.random.default_rng(0).bytes(5))
        5
        """
        found: builtins.bytes = self.integers(256, size=length, dtype=np.uint8).compute().tobytes()
        return found


class RandomState(Generator):
    """`Generator` with the names of ``np.random.RandomState``; its values differ from NumPy's.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.random.RandomState(1).rand(3).shape
    (3,)
    """

    def randint(
        self, low: ArrayLike, high: ArrayLike | None = None, size: Size = None,
        dtype: DTypeLike = int, *, chunks: ChunksLike = "auto",
    ) -> Array:
        """Return whole numbers from `low` (0, if only one is given) up to, without, `high`.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.RandomState(0).randint(3, size=1000)
        >>> la.unique(x).compute()
        array([0, 1, 2])
        """
        return self.integers(low, high, size, dtype, chunks=chunks)

    def random_integers(
        self, low: ArrayLike, high: ArrayLike | None = None, size: Size = None, *,
        chunks: ChunksLike = "auto",
    ) -> Array:
        """Return whole numbers from `low` (1, if only one is given) up to, with, `high`.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> x = la.random.RandomState(0).random_integers(3, size=1000)
        >>> la.unique(x).compute()
        array([1, 2, 3])
        """
        if high is None:
            low, high = 1, low
        return self.integers(low, high, size, int, endpoint=True, chunks=chunks)

    def tomaxint(self, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return whole numbers from 0 up to the largest of int64.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> la.random.RandomState(0).tomaxint((2, 3)).dtype
        dtype('int64')
        """
        return self.integers(0, np.iinfo(np.int64).max, size, endpoint=True, chunks=chunks)

    def seed(self, seed: Any = None) -> None:
        """Begin again as with a seed, as of `default_rng`.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> state = la.random.RandomState(1)
        >>> x = state.rand(100)
        >>> state.seed(1)
        >>> bool((x == state.rand(100)).all())
        True
        """
        super().__init__(seed)

    def random_sample(self, size: Size = None, *, chunks: ChunksLike = "auto") -> Array:
        """Return floats drawn evenly from 0 up to, without, 1.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> la.random.RandomState(0).random_sample((2, 3)).shape
        (2, 3)
        """
        return self.random(size, chunks=chunks)

    def rand(self, *shape: int, chunks: ChunksLike = "auto") -> Array:
        """Return floats drawn evenly from 0 up to, without, 1; the lengths are parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> la.random.RandomState(0).rand(2, 3).shape
        (2, 3)
        """
        return self.random(shape, chunks=chunks)

    def randn(self, *shape: int, chunks: ChunksLike = "auto") -> Array:
        """Return draws of the standard normal distribution; the lengths are parameters.

        Examples
        --------
        >>> import lazyflow.array as la
        >>> la.random.RandomState(0).randn(2, 3).shape
        (2, 3)
        """
        return self.standard_normal(shape, chunks=chunks)


def default_rng(seed: Any = None) -> Generator:
    """Return a generator.

    Parameters
    ----------
    seed
        An integer or several, or a ``np.random.SeedSequence``; None: another seed at each call.
        From NumPy's generators and bit generators a seed is drawn; the class of a bit generator
        counts as None. A `Generator` is returned itself.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> rng = la.random.default_rng(1)
    >>> rng.normal(size=(4, 3), chunks=2)
    lazyflow.Array<normal, shape=(4, 3), dtype=float64, chunksize=(2, 2)>
    """
    return seed if isinstance(seed, Generator) else Generator(seed)


_default = RandomState()


def seed(seed: Any = None) -> None:
    """Give the generator of this module's functions a seed.

    Parameters
    ----------
    seed
        As of `default_rng`.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> la.random.seed(1)
    >>> x = la.random.random(100)
    >>> la.random.seed(1)
    >>> bool((x == la.random.random(100)).all())
    True
    """
    global _default
    _default = RandomState(seed)


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and hasattr(RandomState, name):
        return getattr(_default, name)
    from lazyflow import config

    hint = config.nearest(name, dir(RandomState))
    raise AttributeError(f"module 'lazyflow.array.random' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *[name for name in dir(RandomState) if name[0] != "_"]})
