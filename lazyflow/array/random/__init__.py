"""Random arrays. Values depend on the seed and the shape, never on chunks or the scheduler.

    >>> import lazyflow.array as la
    >>> rng = la.random.default_rng(1)
    >>> x = rng.normal(size=1000, chunks=300)
    >>> y = la.random.default_rng(1).normal(size=1000, chunks=70)
    >>> bool((x == y).all())
    True

Each call of a method draws other numbers than the calls before it. The functions of this module
are methods of one generator with a fresh seed, or of `seed`.
"""

# Modules, from the bottom up: streams (boxes and their generators), generator (calls and checks),
# distributions, sampling.

from typing import Any, Self

import numpy as np

from lazyflow.array.core import Array
from lazyflow.array.random.sampling import Sampling

__all__ = ["Generator", "RandomState", "default_rng", "seed"]


class Generator(Sampling):
    """Draws chunked arrays of distributions; made by `default_rng`.

    Methods are those of ``np.random.Generator``, with the same parameters but ``out=``, and
    ``chunks=`` as of `normalize_chunks`. Seeds give other values than NumPy's do.
    """

    def spawn(self, n_children: int) -> list[Self]:
        """Return generators of their own, which draw other numbers than this one."""
        return [type(self)(seed) for seed in self._seed.spawn(n_children)]


class RandomState(Generator):
    """`Generator` with the names that ``np.random.RandomState`` has; values are not NumPy's."""

    def __init__(self, seed: Any = None, calls: int = 0) -> None:
        super().__init__(_sequence(seed), calls)

    def randint(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = int, *,
        chunks: Any = "auto",
    ) -> Array:
        """Return integers from `low` (0, if only one is given) up to, without, `high`."""
        return self.integers(low, high, size, dtype, chunks=chunks)

    def random_sample(self, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Return floats from 0 up to, without, 1."""
        return self.random(size, chunks=chunks)

    def rand(self, *shape: int, chunks: Any = "auto") -> Array:
        """Return floats from 0 up to, without, 1."""
        return self.random(shape, chunks=chunks)

    def randn(self, *shape: int, chunks: Any = "auto") -> Array:
        """Return draws of the standard normal distribution."""
        return self.standard_normal(shape, chunks=chunks)


def default_rng(seed: Any = None) -> Generator:
    """Return a generator.

    Parameters
    ----------
    seed
        An integer or several, a ``np.random.SeedSequence``, None for a seed of its own each time.
        Of one of NumPy's generators a seed is drawn; a `Generator` is returned as it is.
    """
    return seed if isinstance(seed, Generator) else Generator(_sequence(seed))


def _sequence(seed: Any) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, np.random.RandomState | np.random.Generator):
        seed = seed.bytes(32)
        return np.random.SeedSequence(int.from_bytes(seed, "little"))
    if isinstance(seed, np.random.BitGenerator):
        return np.random.SeedSequence(seed.random_raw(4).tolist())
    return np.random.SeedSequence(seed)


_default = RandomState()


def seed(seed: Any = None) -> None:
    """Give the generator of this module's functions a seed."""
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
