"""What is surveyed: expressions as people write them, and the arrays that they are over.

An expression is read with `la`, the library (NumPy, lazyflow.array or dask.array), `rng`, a
generator of the library, `kw`, the keywords that give chunks where the library has them, and

    x, y    float64, rows of 2,500        b       booleans of the shape of x
    v, w    float64, one axis             i       int64 in [0, 100,000), one axis
    c       float64 (days, 50, 250)       f       float32 of the shape of x
    z       complex128, one axis          s       few labels, int64 in [0, 64), one axis
    q       a square, float64             t       a table of 50 columns, float64
    small   float64, 5 x 4, one chunk     S, N    the shape of x, the length of v
    k       a square in square chunks of one size, heavy on its diagonal, float64

`rows` is the length of x and `days` that of c; `thin` makes NumPy's factors as small as others'.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from math import isqrt
from typing import Any

import numpy as np

WIDE = 2_500

EXPRESSIONS: dict[str, str] = {
    "reductions": """
        x.sum() | x.sum(axis=0) | x.sum(axis=1) | x.reshape(rows, 50, 50).sum(2) | x.prod(axis=1)
        x.max() | x.max(axis=0) | x.max(axis=1) | x.min() | x.min(axis=1) | f.sum()
        f.max(axis=0) | i.sum() | i.max() | b.any() | b.all(axis=1) | b.sum() | x.argmax(axis=1)
        x.argmin(axis=0) | v.argmax() | x.mean() | x.mean(axis=0) | x.mean(axis=1) | x.std()
        x.var(axis=0) | x.std(axis=1) | c.mean(0) | c.var(0) | (c - c.mean(0)).std(0)
        la.ptp(x, axis=1) | la.count_nonzero(x > 0.5) | la.nansum(x, axis=0)
        la.nanmean(x, axis=1) | la.nanmax(x) | la.nanstd(x, axis=0)
        la.average(x, axis=1, weights=w[:2500]) | (x * y).sum() | (x[:, 1:] * 2).sum()
        la.median(x, axis=1) | la.percentile(v, 50) | z.sum() | la.quantile(x, 0.5, axis=1)
    """,
    "elementwise": """
        x + y | x * 2 | x - 0.5 | -x | x / y | x // 0.3 | x % 0.3 | x ** 2 | x ** 3 | x ** 1.5
        i * 2 | i // 7 | i % 7 | i ** 2 | i + v | i / 3 | f + f | f * 2 | z * z | z + 1 | abs(z)
        z.real | x > 0.5 | (x > 0.2) & (x < 0.8) | ~b | b & b | x == y | la.where(x > 0.5, x, y)
        la.clip(x, 0.2, 0.8) | ((x * 3 + 2) * x + 1) * x + 0.5 | la.maximum(x, y) | abs(x - 0.5)
        la.sqrt(x) | la.exp(x) | la.log(x) | la.sin(x) | la.cos(x) | la.sin(x) + la.cos(x)
        la.tanh(x) | la.log1p(x) | la.expm1(x) | la.log2(x) | la.exp2(x) | la.arctan(x)
        la.arctan2(x, y) | la.hypot(x, y) | la.tan(x) | la.cosh(x) | la.exp(f) | la.log(f)
        la.sin(f) | la.tanh(f) | la.floor(x) | la.round(x, 2) | la.sign(x) | la.isnan(x)
        la.isfinite(x) | la.square(x) | la.reciprocal(x) | la.logaddexp(x, y) | x.astype("f4")
        x.astype("i4") | i.astype("f8") | f.astype("f8") | la.nan_to_num(x) | la.isclose(x, y)
        la.divmod(x, 0.3)[1] | la.sinc(x) | la.angle(z) | la.deg2rad(x) | la.fmin(x, y)
        la.copysign(x, y) | la.floor(x).astype("i8") | i & 255 | i << 2 | la.logical_not(b)
    """,
    "broadcast": """
        x - x.mean(0) | x - x.mean(1, keepdims=True) | x / x.sum(axis=1, keepdims=True)
        (lambda e: e / e.sum(1, keepdims=True))(la.exp(x - x.max(1, keepdims=True)))
        (t - t.mean(0)) / t.std(0) | ((t - t.mean(0)) / t.std(0)).max() | x - x.min(0)
        x + v[:2500] | x * v[:rows, None] | la.outer(q[0], q[1]) | q + q.T | c - c.mean(0)
        x - x.mean() | la.broadcast_to(v[:2500], S) + 0 | (x - x.mean(0)).std(0)
        v[:, None][:rows] + v[:2500]
    """,
    "layout": """
        x.reshape(-1) + 0 | x.reshape(rows * 50, 50) | v.reshape(-1, 50) | x.ravel() | x.T
        q.T + 1 | la.flip(x, 0) | x[::-1] | x[:, ::-1] | v[::-1] | x[::2] | x[:, ::2] | x[:, 3:-3]
        v[1:] - v[:-1] | la.roll(v, 1000) | la.roll(x, 1, axis=1) | la.roll(x, 1, axis=0)
        la.concatenate([x, y]) | la.concatenate([x, y], axis=1) | la.stack([v, w])
        la.stack([v, w]).sum(0) | la.stack([x, y, x]).mean(0) | la.vstack([x, y])
        la.hstack([x, y]) | la.tile(v, 2) | la.repeat(v, 2) | la.pad(x, 1)
        la.pad(x, 1, mode="edge") | x[b] | v[v > 0.9] | x[5] | x[:, 5]
        la.take(x, q[0].astype("i8") % 5, axis=1) | la.diff(x, axis=1) | la.diff(v)
        la.gradient(v) | la.moveaxis(c, 0, 2) | la.swapaxes(c, 0, 1) | la.transpose(c, (1, 0, 2))
        la.rot90(x) | la.triu(q) | la.tril(q) | la.diag(q) | la.squeeze(x[None])
        la.expand_dims(v, 1) + 0 | la.insert(v, 5, 1.0) | la.delete(v, 5) | la.append(v, w)
        la.block([[x, y], [y, x]]) | la.ediff1d(v) | la.compress(v > 0.5, v)
        la.trapezoid(x, axis=1) | la.argwhere(v > 0.99) | la.nonzero(v > 0.99)
        la.flatnonzero(v > 0.5) | la.extract(b, x) | la.array_split(v, 3)[1] + 1
    """,
    "fft": """
        la.fft.fft(x) | la.fft.rfft(x) | la.fft.rfft(f) | la.fft.ifft(la.fft.fft(x))
        (abs(la.fft.rfft(x)) ** 2).mean(0) | la.fft.fftshift(x) | la.fft.fftfreq(N) * 2
    """,
    "creation": """
        la.ones(S, **kw) | la.zeros(S, **kw) | la.full(S, 2.5, **kw) | la.arange(N)
        la.ones_like(x) | la.linspace(0, 1, N) | la.eye(len(q)) | la.arange(N) * 2.0
        la.arange(N).sum() | la.fromfunction(lambda i, j: i * 2.0 + j, shape=S, dtype="f8", **kw)
        la.tri(len(q)) | la.ones(S, **kw) + x | la.indices((rows, 50))[0]
        la.meshgrid(v[:2500], v[:rows])[0] + 0
    """,
    "random": """
        rng.random(S, **kw) | rng.uniform(-1, 1, S, **kw) | rng.standard_normal(S, **kw)
        rng.normal(2, 3, S, **kw).mean() | rng.integers(0, 100, S, **kw)
        rng.integers(0, 100, S, **kw).sum() | rng.random(S, **kw).sum()
        rng.exponential(2.0, S, **kw) | rng.standard_normal(S, **kw).std(0)
        (lambda r: (r - r.mean(0)).std(0))(rng.normal(size=S, **kw)) | rng.poisson(3.0, S, **kw)
        rng.binomial(10, 0.3, S, **kw) | rng.gamma(2.0, 1.0, S, **kw) | rng.permutation(v)
        rng.choice(1000, S, **kw) | rng.lognormal(0.0, 1.0, S, **kw)
    """,
    "sets and sorting": """
        la.unique(i) | la.unique(s) | la.unique(s, return_counts=True) | la.isin(i, s[:100])
        la.unique(i, return_counts=True) | la.union1d(i, s)
        la.histogram(v, bins=100, range=(0, 1)) | la.histogram(v, bins=20, range=(0.2, 0.7))
        la.histogram2d(v, w, bins=(20, 20), range=((0, 1), (0, 1)))[0]
        la.bincount(s, minlength=64) | la.bincount(s, weights=v, minlength=64)
        la.searchsorted(v[:1000].cumsum(axis=0), w) | la.digitize(v, np.linspace(0, 1, 11))
        la.topk(v, 10) | la.argtopk(v, 10) | la.sort(v) | la.sort(x, axis=1)
        la.argsort(x, axis=1) | la.partition(x, 10, axis=1)
        la.interp(v, np.linspace(0, 1, 11), np.linspace(0, 2, 11))
    """,
    "scans": """
        v.cumsum(axis=0) | x.cumsum(axis=0) | x.cumsum(axis=1) | la.cumprod(x, axis=1)
        la.nancumsum(v, axis=0) | la.maximum.accumulate(v)
    """,
    "products": """
        x.T @ x | q @ q | x @ w[:2500] | la.dot(v, w) | la.vdot(v, w)
        la.tensordot(x, y, axes=((0, 1), (0, 1))) | la.tensordot(x, y[:50], axes=(1, 1))
        la.cov(t.T) | la.corrcoef(t.T) | la.inner(v, w) | la.einsum("ij,ij->i", x, y)
        la.einsum("ij,kj->ik", x, y[:50]) | la.trace(q) | la.matmul(c, c[0].T) | t.T @ t
        la.cross(c[..., :3], c[..., 1:4])
    """,
    "linalg": """
        (lambda q, r: (abs(q), abs(r)))(*la.linalg.qr(t)) | la.linalg.norm(x)
        (lambda u, s, v: (abs(u), s, abs(v)))(*la.linalg.svd(t, **thin))
        la.linalg.norm(x, axis=1) | la.linalg.solve(k, k[0])
        la.linalg.lstsq(t, v[:len(t)])[0]
    """,
    "windows": """
        q[1:-1, 1:-1] * -4 + q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2]
        v[2:] + v[1:-1] + v[:-2] | (v[1:] * v[:-1]).sum()
        la.map_overlap(lambda a: a * 2 + 1, x, depth=1, boundary="reflect", dtype="f8")
        la.map_blocks(lambda a: a * 2 + 1, x, dtype="f8")
    """,
    "several": """
        (x.min(), x.max(), x.mean(), x.std()) | (x.sum(axis=0), x.sum(axis=1)) | (x + 1, x * 2)
        (la.exp(-x * x) * y + la.tanh(y)).sum() | ((x - 0.5) * y + x * 2 - y / 3).sum()
    """,
    "tiny": """
        small.sum() | small + 1 | (small - small.mean(0)) / small.std(0) | small.T @ small
        small[1:3]
    """,
}

# Sides that take minutes for a turn: dask 43 s for a tenth of the elements of 80 MB.
LEFT_OUT = {"la.unique(i, return_counts=True)": "dask"}


def expressions() -> list[tuple[str, str]]:
    """Return pairs of a group and an expression.

    >>> expressions()[:2]
    [('reductions', 'x.sum()'), ('reductions', 'x.sum(axis=0)')]
    """
    return [
        (group, piece.strip())
        for group, lines in EXPRESSIONS.items()
        for line in lines.strip().splitlines()
        for piece in line.split(" | ")
    ]


def arrays(size: int, wanted: Container[str] | None = None) -> dict[str, np.ndarray]:
    """Return the arrays, or those that are wanted, x being of `size` bytes."""
    rng = np.random.default_rng(0)
    rows = max(8, size // 8 // WIDE)
    length = rows * WIDE
    side, days = isqrt(length), max(4, length // 12_500)
    makers: dict[str, Callable[[], np.ndarray]] = {
        "x": lambda: rng.random((rows, WIDE)), "y": lambda: rng.random((rows, WIDE)),
        "b": lambda: rng.random((rows, WIDE)) > 0.5,
        "f": lambda: rng.random((rows, WIDE), dtype="f4"), "v": lambda: rng.random(length),
        "w": lambda: rng.random(length), "i": lambda: rng.integers(0, 100_000, length),
        "s": lambda: rng.integers(0, 64, length), "z": lambda: rng.random(length // 2) + 0.5j,
        "c": lambda: rng.random((days, 50, 250)), "q": lambda: rng.random((side, side)),
        "t": lambda: rng.random((length // 50, 50)), "small": lambda: rng.random((5, 4)),
        "k": lambda: rng.random((side // 16 * 16,) * 2) + side * np.eye(side // 16 * 16),
    }  # fmt: skip
    return {name: make() for name, make in makers.items() if wanted is None or name in wanted}


def namespace(la: Any, given: dict[str, np.ndarray], parts: int) -> dict[str, Any]:
    """Return what expressions are read with, for a library; its chunks are parts of first axes."""
    names: dict[str, Any] = {"la": la, "np": np, "kw": {}, "rng": la.random.default_rng(0)}
    for name, array in given.items():
        names[name] = array
        if la is not np:
            whole = name == "small"
            first = len(array) if whole else -(-len(array) // parts)
            others = (first,) if name == "k" else array.shape[1:]
            names[name] = la.from_array(array, chunks=(first, *others))
    names["thin"] = {"full_matrices": False} if la is np else {}
    if "x" in given:
        rows = len(given["x"])
        names |= {"S": given["x"].shape, "rows": rows}
        names["kw"] = {} if la is np else {"chunks": (-(-rows // parts), WIDE)}
    if "v" in given:
        names["N"] = given["v"].size
    if "c" in given:
        names["days"] = len(given["c"])
    return names
