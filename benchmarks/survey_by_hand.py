"""The loops that a person would write by hand for some of the surveyed expressions.

Two threads, each with its half or its blocks of rows; NumPy's functions write straight into the
result, and Numba's loops, without the GIL, do in one pass what NumPy does in several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.shapes import WORKERS

_PIECES = 8  # of the first axis, shared by the threads

pool = ThreadPoolExecutor(WORKERS)


def pieces(length: int, count: int = _PIECES) -> Iterator[slice]:
    """Yield slices that cover a length."""
    step = -(-length // count)
    for low in range(0, length, step):
        yield slice(low, min(low + step, length))


def each(work: Callable[[slice], Any], length: int, count: int = _PIECES) -> list[Any]:
    """Return what `work` returns for the slices of a length, on the threads."""
    return list(pool.map(work, pieces(length, count)))


def into(shape: Any, work: Callable[[Any, slice], Any], dtype: Any = "f8") -> np.ndarray:
    """Return a new array after `work` has written each of its slices."""
    out = np.empty(shape, dtype)
    each(lambda s: work(out[s], s), len(out))
    return out


@cache
def loops() -> SimpleNamespace:
    """Return the compiled loops; Numba is imported here."""
    import numba

    compiled = numba.njit(nogil=True, fastmath={"reassoc", "nsz", "contract"})

    @compiled
    def total(x: Any) -> float:
        s = 0.0
        for k in range(x.size):
            s += x[k]
        return s

    @compiled
    def row_sums(x: Any, out: Any) -> None:
        for r in range(x.shape[0]):
            s = 0.0
            for k in range(x.shape[1]):
                s += x[r, k]
            out[r] = s

    @compiled
    def where(x: Any, y: Any, out: Any) -> None:
        for k in range(x.size):
            out[k] = x[k] if x[k] > 0.5 else y[k]

    @compiled
    def poly(x: Any, out: Any) -> None:
        for k in range(x.size):
            out[k] = ((x[k] * 3 + 2) * x[k] + 1) * x[k] + 0.5

    @compiled
    def centre_rows(x: Any, out: Any) -> None:
        for r in range(x.shape[0]):
            s = 0.0
            for k in range(x.shape[1]):
                s += x[r, k]
            s /= x.shape[1]
            for k in range(x.shape[1]):
                out[r, k] = x[r, k] - s

    @compiled
    def column_variances(x: Any, low: int, high: int, out: Any) -> None:
        mean = np.zeros(high - low)
        for r in range(x.shape[0]):
            for k in range(low, high):
                mean[k - low] += x[r, k]
        mean /= x.shape[0]
        for r in range(x.shape[0]):
            for k in range(low, high):
                d = x[r, k] - mean[k - low]
                out[k] += d * d

    @compiled
    def histogram(v: Any, low: float, high: float, counts: Any) -> None:
        scale = counts.size / (high - low)
        for k in range(v.size):
            if low <= v[k] <= high:
                counts[min(int((v[k] - low) * scale), counts.size - 1)] += 1

    @compiled
    def bincount(s: Any, counts: Any) -> None:
        for k in range(s.size):
            counts[s[k]] += 1

    return SimpleNamespace(**{k: v for k, v in locals().items() if k not in ("numba", "compiled")})


def _flat_sum(x: np.ndarray) -> float:
    flat = x.reshape(-1)
    return float(sum(each(lambda s: loops().total(flat[s]), flat.size)))


def _row_sums(x: np.ndarray) -> np.ndarray:
    return into(len(x), lambda out, s: loops().row_sums(x[s], out))


def _flat(x: np.ndarray, loop: Callable[..., None], *more: np.ndarray) -> np.ndarray:
    given = [a.reshape(-1) for a in (x, *more)]
    out = into(x.size, lambda part, s: loop(*[a[s] for a in given], part))
    return out.reshape(x.shape)


def _variances(c: np.ndarray) -> np.ndarray:
    flat = c.reshape(len(c), -1)
    out = np.zeros(flat.shape[1])
    each(lambda s: loops().column_variances(flat, s.start, s.stop, out), out.size, WORKERS * 4)
    return (out / len(c)).reshape(c.shape[1:])


def _random(shape: Any, draw: Callable[[Any, Any], Any]) -> list[Any]:
    streams = iter(np.random.default_rng(0).spawn(_PIECES))
    given = {s.start: next(streams) for s in pieces(shape[0])}
    return each(lambda s: draw(given[s.start], s), shape[0])


def _uniform(shape: Any) -> np.ndarray:
    out = np.empty(shape)
    _random(shape, lambda rng, s: rng.random(out=out[s]))
    return out


def _normal_mean(shape: Any) -> float:
    width = shape[1]
    parts = _random(
        shape, lambda rng, s: rng.normal(2, 3, (s.stop - s.start, width)).sum()
    )
    return float(sum(parts)) / (shape[0] * width)


def _integers_sum(shape: Any) -> int:
    return int(sum(_random(
        shape, lambda rng, s: rng.integers(0, 100, (s.stop - s.start, shape[1])).sum()
    )))  # fmt: skip


def _counted(
    values: np.ndarray, bins: int, loop: Callable[..., None], *bounds: float
) -> np.ndarray:
    def one(s: slice) -> np.ndarray:
        counts = np.zeros(bins, np.int64)
        loop(values[s], *bounds, counts)
        return counts

    return np.sum(each(one, values.size), axis=0)


def _roll(v: np.ndarray, by: int) -> np.ndarray:
    out = np.empty_like(v)
    out[:by] = v[-by:]
    each(lambda s: np.copyto(out[by:][s], v[:-by][s]), v.size - by)
    return out


def _unique(i: np.ndarray) -> np.ndarray:
    return np.unique(np.concatenate(each(lambda s: np.unique(i[s]), i.size)))


def _cov(t: np.ndarray) -> np.ndarray:
    mean = np.sum(each(lambda s: t[s].sum(0), len(t)), axis=0) / len(t)
    parts = each(lambda s: (t[s] - mean).T @ (t[s] - mean), len(t))
    return np.sum(parts, axis=0) / (len(t) - 1)


def _tensordot(x: np.ndarray, y: np.ndarray) -> float:
    a, b = x.reshape(-1), y.reshape(-1)
    return float(sum(each(lambda s: a[s] @ b[s], a.size)))


#: By expression (survey_cases.py): a function of the arrays.
BY_HAND: dict[str, Callable[[Any], Any]] = {
    "x.sum()": lambda d: _flat_sum(d.x),
    "x.max(axis=1)": lambda d: into(len(d.x), lambda o, s: np.max(d.x[s], axis=1, out=o)),
    "x.sum(axis=1)": lambda d: _row_sums(d.x),
    "x.reshape(rows, 50, 50).sum(2)": lambda d: _row_sums(d.x.reshape(-1, 50)).reshape(-1, 50),
    "x + y": lambda d: into(d.x.shape, lambda o, s: np.add(d.x[s], d.y[s], out=o)),
    "la.clip(x, 0.2, 0.8)": lambda d: into(
        d.x.shape, lambda o, s: np.clip(d.x[s], 0.2, 0.8, out=o)
    ),
    "la.where(x > 0.5, x, y)": lambda d: _flat(d.x, loops().where, d.y),
    "((x * 3 + 2) * x + 1) * x + 0.5": lambda d: _flat(d.x, loops().poly),
    "la.diff(x, axis=1)": lambda d: into(
        (len(d.x), d.x.shape[1] - 1), lambda o, s: np.subtract(d.x[s, 1:], d.x[s, :-1], out=o)
    ),
    "la.outer(q[0], q[1])": lambda d: into(
        d.q.shape, lambda o, s: np.multiply(d.q[0][s, None], d.q[1], out=o)
    ),
    "la.flip(x, 0)": lambda d: into(d.x.shape, lambda o, s: np.copyto(o, d.x[::-1][s])),
    "v[::-1]": lambda d: into(d.v.shape, lambda o, s: np.copyto(o, d.v[::-1][s])),
    "la.ones(S, **kw)": lambda d: into(d.x.shape, lambda o, s: o.fill(1.0)),
    "la.roll(v, 1000)": lambda d: _roll(d.v, 1000),
    "la.exp(x)": lambda d: into(d.x.shape, lambda o, s: np.exp(d.x[s], out=o)),
    "la.sin(x) + la.cos(x)": lambda d: into(
        d.x.shape, lambda o, s: np.add(np.sin(d.x[s]), np.cos(d.x[s]), out=o)
    ),
    "x - x.mean(1, keepdims=True)": lambda d: into(
        d.x.shape, lambda o, s: loops().centre_rows(d.x[s], o)
    ),
    "(c - c.mean(0)).std(0)": lambda d: np.sqrt(_variances(d.c)),
    "c.var(0)": lambda d: _variances(d.c),
    "rng.random(S, **kw)": lambda d: _uniform(d.x.shape),
    "rng.normal(2, 3, S, **kw).mean()": lambda d: _normal_mean(d.x.shape),
    "rng.integers(0, 100, S, **kw).sum()": lambda d: _integers_sum(d.x.shape),
    "la.unique(i)": lambda d: _unique(d.i),
    "la.isin(i, s[:100])": lambda d: into(
        d.i.shape, lambda o, s: np.copyto(o, np.isin(d.i[s], d.s[:100])), "?"
    ),
    "la.histogram(v, bins=100, range=(0, 1))": lambda d: (
        _counted(d.v, 100, loops().histogram, 0.0, 1.0), np.linspace(0, 1, 101)
    ),
    "la.bincount(s, minlength=64)": lambda d: _counted(d.s, 64, loops().bincount),
    "la.stack([v, w]).sum(0)": lambda d: into(
        d.v.shape, lambda o, s: np.add(d.v[s], d.w[s], out=o)
    ),
    "la.tensordot(x, y, axes=((0, 1), (0, 1)))": lambda d: _tensordot(d.x, d.y),
    "la.cov(t.T)": lambda d: _cov(d.t),
    "x.T @ x": lambda d: d.x.T @ d.x,
}
