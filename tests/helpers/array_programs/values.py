"""What programs start from: values of all types, as code; and what their code calls."""

import functools

import numpy as np

import lazyflow.array as la

NUMBERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16"]
COMMON = ["?", "i4", "i8", "u1", "f4", "f8", "f8", "c16"]
OTHERS = [
    "M8[D]", "M8[s]", "M8[ns]", "m8[s]", "m8[D]", "m8[ns]", "U3", "S2", "O",
    [("a", "i4"), ("b", "f8")],
]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0]


def random_dtype(rng):
    """Return a type, one in five of them in the other order of bytes."""
    which = rng.random()
    some = COMMON if which < 0.5 else NUMBERS if which < 0.85 else OTHERS
    dtype = np.dtype(some[rng.integers(len(some))])
    return dtype.newbyteorder(">") if rng.random() < 0.2 else dtype


def random_shape(rng):
    """Return lengths, mostly small, now and then 0 or none."""
    ndim = rng.choice(4, p=[0.1, 0.35, 0.4, 0.15])
    weights = np.array([3, 6, 9, 9, 9, 6, 4, 2]) / 48
    return tuple(rng.choice([0, 1, 2, 3, 4, 5, 7, 9], ndim, p=weights).tolist())


def values_of(rng, dtype, shape):
    """Return values: small ones, mostly whole numbers, and some that are special."""
    small = np.asarray(rng.integers(-4, 6, shape))
    kind = dtype.kind
    if dtype.names:
        found = np.empty(shape, dtype)
        for name in dtype.names:
            found[name] = small
        return found
    if kind == "b":
        return np.asarray(small > 0)
    if kind == "u":
        return np.asarray(abs(small)).astype(dtype)
    if kind in "fc":
        found = small.astype("f8")
        if rng.random() < 0.5:
            found = found + rng.integers(0, 8, shape) / 8
        elif rng.random() < 0.4:
            found = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3)
        found = _with_specials(rng, found)
        if kind == "c":
            parts = [found, _with_specials(rng, rng.integers(-3, 4, shape).astype("f8"))]
            found = np.stack(parts, axis=-1).view("c16")[..., 0]
        return np.asarray(found).astype(dtype)
    if kind in "mM":
        found = small.astype("i8")
        if rng.random() < 0.3:
            found = np.where(rng.random(shape) < 0.2, np.iinfo("i8").min, found)
        return np.asarray(found, "i8").astype(dtype)
    if kind in "US":
        return np.asarray(np.array(["", "a", "b", "ab", "B", "12"])[abs(small)]).astype(dtype)
    found = small.astype(object)
    if rng.random() < 0.3:
        found = found + rng.integers(0, 2, shape) / 2
    return np.asarray(found, object)


def _with_specials(rng, found):
    if rng.random() < 0.7:
        return found
    return np.where(rng.random(found.shape) < 0.25, rng.choice(SPECIAL, found.shape), found)


def as_code(a):
    """Return code that makes an array, with `np`, `nan` and `inf`."""
    dtype, native = a.dtype.str, a.dtype.newbyteorder("=")
    kind = a.dtype.kind
    if a.dtype.names:
        return f"np.array({a.ravel().tolist()}, {a.dtype.descr}).reshape({a.shape})"
    if kind == "c":
        parts = np.ascontiguousarray(a.astype(native)).reshape(-1).view(native.char.lower())
        made = f"np.array({parts.tolist()}, '{parts.dtype.str}').view('{native.str}')"
    elif kind in "mM":
        made = f"np.array({a.ravel().astype('i8').tolist()}, 'i8')"
    else:
        made = f"np.array({a.ravel().tolist()}, '{native.str if kind != 'O' else 'O'}')"
    if kind in "mM" or a.dtype != native:
        made += f".astype('{dtype}')"
    return f"{made}.reshape({a.shape})"


def random_chunks(rng, shape):
    """Return lengths of chunks that fit, some of them 0 or 1."""
    found = []
    for n in shape:
        cuts = np.sort(rng.integers(0, n + 1, rng.choice(4, p=[0.3, 0.4, 0.2, 0.1])))
        if rng.random() < 0.7:
            cuts = np.unique(cuts[(cuts > 0) & (cuts < n)])
        found.append(tuple(np.diff([0, *cuts, n]).tolist()))
    return tuple(found)


def flags(seed, shape):
    """Return a mask, of which some have no True."""
    rng = np.random.default_rng(seed)
    return rng.random(shape) < rng.choice([0, 0.3, 0.7, 1], p=[0.1, 0.4, 0.4, 0.1])


def ints(seed, shape, low, high):
    """Return whole numbers of a range, for places."""
    return np.random.default_rng(seed).integers(low, max(high, low + 1), shape)


def lazy(function):
    """Return what makes a chunked array of what a function makes, half the time."""

    @functools.wraps(function)
    def call(seed, shape, *more):
        made = function(seed, shape, *more)
        rng = np.random.default_rng(seed + 1)
        return la.from_array(made, random_chunks(rng, made.shape)) if rng.random() < 0.6 else made

    return call


# -- functions of one's own -----------------------------------------------------------------------


def double(x):
    return x + x


def spread(x):
    return x.max(axis=-1) - x.min(axis=-1)


def neighbours(x):
    return x + np.roll(x, 1, 0) - np.roll(x, -1, 0)


def _of_type(function, options):
    """Return a function whose results are of the type that is declared for them."""
    return lambda *arrays: np.asarray(function(*arrays)).astype(options["output_dtypes"][0])


class Reference:
    """NumPy, and what `lazyflow.array` has besides, done by NumPy."""

    def __getattr__(self, name):
        return getattr(np, name)

    sliding_window_view = staticmethod(np.lib.stride_tricks.sliding_window_view)
    isnull = staticmethod(np.isnan)

    @staticmethod
    def notnull(x):
        return ~np.isnan(x)

    @staticmethod
    def map_blocks(function, *arrays, **options):
        return function(*arrays)

    @staticmethod
    def blockwise(function, out, *pairs, **options):
        return function(*pairs[::2])

    @staticmethod
    def map_overlap(function, x, depth, boundary):
        mode = {"reflect": "symmetric", "periodic": "wrap", "nearest": "edge"}[boundary]
        widths = [(depth, depth), *[(0, 0)] * (x.ndim - 1)]
        return function(np.pad(x, widths, mode=mode))[depth:-depth]

    @staticmethod
    def apply_gufunc(function, signature, *arrays, **options):
        return _of_type(function, options)(*arrays)

    @staticmethod
    def gufunc(function, **options):
        return _of_type(function, options)

    @staticmethod
    def as_gufunc(**options):
        return lambda function: _of_type(function, options)

    @staticmethod
    def reduction(x, chunk, aggregate, axis=None, keepdims=False, dtype=None):
        return chunk(x, axis=axis, keepdims=keepdims).astype(dtype)

    @staticmethod
    def topk(x, k, axis=-1):
        found = np.sort(x, axis=axis)
        n = x.shape[axis]
        at = range(n - 1, max(n - 1 - k, -1), -1) if k > 0 else range(min(-k, n))
        return np.take(found, list(at), axis=axis)

    @staticmethod
    def argtopk(x, k, axis):
        places = np.argsort(x, axis, kind="stable")
        return np.take(places, range(-1, -1 - min(k, x.shape[axis]), -1), axis) if k > 0 else (
            np.take(places, range(min(-k, x.shape[axis])), axis)
        )

    @staticmethod
    def rechunk(x, chunks):
        return x

    @staticmethod
    def unify_chunks(*pairs):
        return {}, list(pairs[::2])

    @staticmethod
    def from_array(x, chunks=None):
        return x
