"""Axes of unknown lengths meet others: the result is NumPy's, whatever the chunks are."""

import numpy as np
import pytest

import lazyflow.array as la

BASE = np.random.default_rng(1).integers(0, 3, (6, 3))
LINE = np.array([0, 2, 1, 0, 3, 0, 0, 1, 0])
FULL = BASE[:, 0] + BASE[:, 1] > 1

#: How an axis of unknown length comes about: of the module and its arrays `m` and `v`.
SOURCES = {
    "mask of rows": lambda xp, m, v: m[m[:, 0] + m[:, 1] > 1],
    "mask of all": lambda xp, m, v: m[m > 0],
    "mask of columns": lambda xp, m, v: m[:, m[0] >= 0],
    "argwhere": lambda xp, m, v: xp.argwhere(m),
    "nonzero": lambda xp, m, v: xp.nonzero(m)[0],
    "flatnonzero": lambda xp, m, v: xp.flatnonzero(m),
    "unique": lambda xp, m, v: xp.unique(v),
    "unique rows": lambda xp, m, v: xp.unique(m, axis=0),
    "counts": lambda xp, m, v: xp.unique(v, return_counts=True)[1],
    "compress": lambda xp, m, v: xp.compress(v[:6] < 2, m, axis=0),
    "extract": lambda xp, m, v: xp.extract(m > 1, m),
    "trim_zeros": lambda xp, m, v: xp.trim_zeros(v),
    "mask of a mask": lambda xp, m, v: v[v > 0][v[v > 0] < 3],
}

QUICK = ("mask of rows", "argwhere", "nonzero", "unique rows", "compress", "trim_zeros")

#: What meets it: `x` is of unknown length and `y` an equal one of known, `k` a number for each
#: column, `r` a number for each row, `other` chosen by another mask that chooses as much.
OPERATIONS = {
    "add": lambda xp, x, y, k, r, other: x + y,
    "add columns": lambda xp, x, y, k, r, other: x * k,
    "add rows": lambda xp, x, y, k, r, other: r - x,
    "another choice": lambda xp, x, y, k, r, other: x + other,
    "another choice of rows": lambda xp, x, y, k, r, other: x[:, None] * r + other[:, None] * k[0],
    "in place": lambda xp, x, y, k, r, other: _in_place(x, y),
    "where": lambda xp, x, y, k, r, other: xp.where(x > 1, y, k),
    "where rows": lambda xp, x, y, k, r, other: xp.where(r > 1, x, other),
    "concatenate": lambda xp, x, y, k, r, other: xp.concatenate([x, y]),
    "concatenate along the last": lambda xp, x, y, k, r, other: xp.concatenate([x, y], axis=-1),
    "concatenate choices": lambda xp, x, y, k, r, other: xp.concatenate([x, other], axis=-1),
    "stack": lambda xp, x, y, k, r, other: xp.stack([x, y, other]),
    "vstack": lambda xp, x, y, k, r, other: xp.vstack([y, x]),
    "hstack": lambda xp, x, y, k, r, other: xp.hstack([x, other]),
    "dstack": lambda xp, x, y, k, r, other: xp.dstack([x, y]),
    "column_stack": lambda xp, x, y, k, r, other: xp.column_stack([x, other]),
    "block": lambda xp, x, y, k, r, other: xp.block([[x, y], [y, x]]),
    "append": lambda xp, x, y, k, r, other: xp.append(x, y, axis=0),
    "append all": lambda xp, x, y, k, r, other: xp.append(x, other),
    "insert": lambda xp, x, y, k, r, other: xp.insert(x, 1, y[:1], axis=0),
    "dot": lambda xp, x, y, k, r, other: x.dot(y.T),
    "dot a choice": lambda xp, x, y, k, r, other: other.T.dot(x),
    "matmul": lambda xp, x, y, k, r, other: x.T @ y,
    "tensordot": lambda xp, x, y, k, r, other: xp.tensordot(x, other, axes=([0], [0])),
    "einsum": lambda xp, x, y, k, r, other: xp.einsum("i...,i...->...", x, other),
    "einsum outer": lambda xp, x, y, k, r, other: xp.einsum("i...,j->ij...", x, k),
    "einsum of three": lambda xp, x, y, k, r, other: xp.einsum("i...,i...,i...", x, y, other),
    "outer": lambda xp, x, y, k, r, other: xp.outer(x, k),
    "add.outer": lambda xp, x, y, k, r, other: np.add.outer(x, other),
    "inner": lambda xp, x, y, k, r, other: xp.inner(x, y),
    "vdot": lambda xp, x, y, k, r, other: xp.vdot(x, other),
    "vecdot": lambda xp, x, y, k, r, other: xp.vecdot(x, y),
    "isin": lambda xp, x, y, k, r, other: xp.isin(x, k),
    "isin of it": lambda xp, x, y, k, r, other: xp.isin(k, x),
    "searchsorted": lambda xp, x, y, k, r, other: xp.searchsorted(xp.arange(5), x),
    "searchsorted in it": lambda xp, x, y, k, r, other: xp.searchsorted(
        xp.cumsum(xp.ravel(x)), xp.ravel(other)
    ),
    "digitize": lambda xp, x, y, k, r, other: xp.digitize(x, np.arange(4)),
    "take": lambda xp, x, y, k, r, other: xp.take(k, x, mode="clip"),
    "take of it": lambda xp, x, y, k, r, other: xp.take(x, [0, 0, -1], axis=0),
    "places": lambda xp, x, y, k, r, other: xp.arange(40)[x],
    "mask by it": lambda xp, x, y, k, r, other: x[other > 1],
    "mask of a known": lambda xp, x, y, k, r, other: y[x > 1],
    "set with it": lambda xp, x, y, k, r, other: _set(y, slice(None), x),
    "set in it": lambda xp, x, y, k, r, other: _set(x, x > 1, 7),
    "set a choice": lambda xp, x, y, k, r, other: _set(x, other > 1, xp.ravel(y)[:1]),
    "set where, with a choice": lambda xp, x, y, k, r, other: _set(y, y >= 0, xp.ravel(x)),
    "broadcast_arrays": lambda xp, x, y, k, r, other: sum(xp.broadcast_arrays(x, k, other)),
    "broadcast_to": lambda xp, x, y, k, r, other: xp.broadcast_to(x, (2, *y.shape)),
    "histogram": lambda xp, x, y, k, r, other: xp.histogram(x, 4, (0, 4), weights=other)[0],
    "histogram2d": lambda xp, x, y, k, r, other: xp.histogram2d(
        xp.ravel(x), xp.ravel(y), 3, [(0, 4), (0, 4)]
    )[0],
    "bincount": lambda xp, x, y, k, r, other: xp.bincount(xp.ravel(x), weights=xp.ravel(other)),
    "average": lambda xp, x, y, k, r, other: xp.average(x, weights=y + 1),
    "average of a choice": lambda xp, x, y, k, r, other: xp.average(x, 0, weights=other + 1),
    "cov": lambda xp, x, y, k, r, other: xp.cov(xp.ravel(x), xp.ravel(other)),
    "corrcoef": lambda xp, x, y, k, r, other: xp.corrcoef(xp.ravel(x), xp.arange(x.size)),
    "interp": lambda xp, x, y, k, r, other: xp.interp(x, np.arange(4.0), np.arange(4.0) ** 2),
    "select": lambda xp, x, y, k, r, other: xp.select([x > 1, y == 0], [other, y], 9),
    "choose": lambda xp, x, y, k, r, other: xp.choose(x % 2, [y, other]),
    "piecewise": lambda xp, x, y, k, r, other: xp.piecewise(x, [x > 1], [5, 6]),
    "clip": lambda xp, x, y, k, r, other: xp.clip(x, k.min(), other),
    "sum where": lambda xp, x, y, k, r, other: xp.sum(x, where=other > 1),
    "mean where": lambda xp, x, y, k, r, other: xp.mean(x, 0, where=y >= 0),
    "cumsum": lambda xp, x, y, k, r, other: xp.cumsum(x, axis=0) + other,
    "diff": lambda xp, x, y, k, r, other: xp.diff(x, axis=0, prepend=y[:1], append=other[:1]),
    "gradient": lambda xp, x, y, k, r, other: xp.gradient(x.astype("f8"), axis=-1),
    "trapezoid": lambda xp, x, y, k, r, other: xp.trapezoid(x, y, axis=0),
    "sort": lambda xp, x, y, k, r, other: xp.sort(x, axis=0) - xp.sort(other, axis=-1),
    "take_along_axis": lambda xp, x, y, k, r, other: xp.take_along_axis(
        x, xp.argsort(other, axis=0, stable=True), axis=0
    ),
    "isclose": lambda xp, x, y, k, r, other: xp.isclose(x, other),
    "array_equal": lambda xp, x, y, k, r, other: xp.array_equal(x, other),
    "union1d": lambda xp, x, y, k, r, other: xp.union1d(x, other + 1),
    "ravel": lambda xp, x, y, k, r, other: xp.ravel(x) * xp.ravel(other),
    "transpose": lambda xp, x, y, k, r, other: x.T + other.T,
    "tile": lambda xp, x, y, k, r, other: xp.tile(x, 2) + xp.tile(other, 2),
    "roll": lambda xp, x, y, k, r, other: xp.roll(x, 1, axis=0) + other,
    "pad": lambda xp, x, y, k, r, other: xp.pad(x, 1) + xp.pad(other, 1),
    "repeat": lambda xp, x, y, k, r, other: xp.repeat(x, xp.ravel(other)[:1], axis=0),
}


def _in_place(x, y):
    x = x * 1
    x += y
    x *= x
    return x


def _set(x, key, value):
    x = x * 1
    x[key] = value
    return x


def _outcome(function, *args):
    """Return what a function gives, or what it raises."""
    with np.errstate(all="ignore"):
        try:
            return function(*args)
        except Exception as error:
            return error


def _computed(function, *args):
    found = function(*args)
    return found.compute() if isinstance(found, la.Array) else found


def _chunks(n, pieces):
    return np.diff(np.linspace(0, n, pieces + 1).astype(int)).tolist() if n else 0


def _operands(source, blocks, chunked):
    """Return what operations get of NumPy, and of a few chunkings of the same."""
    m, v = BASE, LINE
    wanted = source(np, m, v)
    y = np.arange(wanted.size).reshape(wanted.shape) % 4
    k = np.arange(wanted.shape[-1]) + 2
    r = (np.arange(len(wanted)) % 3).reshape(-1, *[1] * (wanted.ndim - 1))
    # chosen by a mask whose blocks choose other numbers than those of the first
    long = np.concatenate([np.repeat(y[:1], 4, axis=0), y])
    mask = np.r_[np.zeros(4, bool), np.ones(len(y), bool)]
    if not chunked:
        return wanted, y, k, r, long[mask]
    cut = [_chunks(n, min(blocks, n)) for n in m.shape]
    x = source(la, la.from_array(m, chunks=tuple(cut)), la.from_array(v, chunks=_chunks(9, blocks)))
    lazy = la.from_array(mask, chunks=_chunks(len(mask), blocks)) | False
    pieces = tuple([_chunks(n, min(2, n)) for n in long.shape])
    return (
        x, la.from_array(y, chunks=1), la.from_array(k, chunks=1), la.from_array(r, chunks=1),
        la.from_array(long, chunks=pieces)[lazy],
    )


def _pairs():
    """Return each operation with each source: at each commit with half of the quick ones."""
    for i, operation in enumerate(OPERATIONS):
        quick = QUICK[i % 2::2]
        for source in SOURCES:
            yield pytest.param(source, operation, marks=() if source in quick else pytest.mark.slow)


@pytest.mark.parametrize(("source", "operation"), list(_pairs()))
def test_what_meets_an_axis_of_unknown_length(source, operation):
    function = OPERATIONS[operation]
    wanted = _outcome(function, np, *_operands(SOURCES[source], 1, False))
    for blocks in (1, 3):
        found = _outcome(_computed, function, la, *_operands(SOURCES[source], blocks, True))
        if isinstance(wanted, Exception):
            assert isinstance(found, Exception)
        elif isinstance(found, Exception):
            raise found
        else:
            assert np.shape(found) == np.shape(wanted)
            np.testing.assert_allclose(found, wanted)


def test_an_axis_of_unknown_length_stays_so_while_others_are_cut():
    x = la.from_array(BASE, chunks=3)
    chosen = x[x[:, 0] > 0]
    made = chosen * la.from_array(np.arange(3), chunks=1)
    assert made.shape == (None, 3) and made.numblocks == (2, 3)
    np.testing.assert_array_equal(made, BASE[BASE[:, 0] > 0] * np.arange(3))
    empty = chosen * la.from_array(np.arange(3), chunks=((1, 0, 2),))
    assert empty.shape == (None, 3)
    np.testing.assert_array_equal(empty, made)


def test_what_comes_of_one_mask_fits_without_being_counted():
    x = la.from_array(BASE, chunks=(2, 3))
    mask = x[:, 0] > 0
    assert (x[mask] + (2 * x)[mask]).shape == (None, 3)
    assert (x[mask] + x[x[:, 1] >= 0][:4]).shape == (4, 3)


@pytest.mark.parametrize("boundary", ["periodic", "reflect", "nearest"])
def test_neighbours_of_what_a_mask_chose(boundary):
    x = la.from_array(LINE, chunks=4)
    known = la.from_array(LINE[LINE > 0], chunks=4)
    made, wanted = [
        la.map_overlap(lambda b: b + np.roll(b, 1), y, depth=1, boundary=boundary)
        for y in (x[x > 0], known)
    ]
    np.testing.assert_array_equal(made.compute(), wanted.compute())


def test_products_compare_lengths_that_were_found_out():
    x = la.from_array(np.arange(4.0), chunks=2)
    two, three = x[x > 1], la.from_array(np.ones((3, 2)), chunks=1)
    for product in (la.matmul, la.vecmat, la.dot, la.inner, la.vecdot):
        with pytest.raises(ValueError, match="different|not aligned|mismatch|shapes"):
            product(two, la.transpose(three) if product in (la.inner, la.vecdot) else three)
    for one in (la.ones((1, 1)), la.ones(1), two[:, None]):
        with pytest.raises(ValueError, match="not aligned"):
            la.dot(la.bincount(la.from_array(np.arange(3), chunks=2)), one)
    with pytest.raises(ValueError, match="non-broadcastable|broadcast"):
        np.add(two, two, out=la.zeros((2, 3)))
    out = la.zeros(2)
    np.add(two, 1, out=out)
    np.testing.assert_array_equal(out, [3, 4])
    flag = la.from_array(np.array([True]), chunks=1)
    assert la.sum(x[x > 1], where=flag).compute() == 5
    np.testing.assert_array_equal(la.einsum("ii->i", la.outer(two, two)), [4, 9])


def test_chunks_of_no_elements_beside_one_of_length_one():
    a = np.arange(5.0)[None]
    x = la.from_array(a, chunks=((0, 1), (3, 2)))
    y = la.from_array(a, chunks=((1,), (2, 3)))
    np.testing.assert_array_equal(la.piecewise(y, [x > 2], [1, 2]), np.where(a > 2, 1, 2))
    np.testing.assert_array_equal(la.blockwise(np.add, "ij", x, "ij", y, "ij"), a + a)
    found = la.nanquantile(la.from_array(a.T, chunks=((0, 5), 1)), [0.25, 0.5], axis=1)
    np.testing.assert_array_equal(found, np.nanquantile(a.T, [0.25, 0.5], axis=1))


def test_lengths_that_a_mask_tells_beside_those_that_only_blocks_tell():
    x = la.from_array(np.arange(6), chunks=4)
    chosen = x[x % 2 > 0]
    both = la.map_blocks(np.negative, chosen) + chosen  # of one origin, until one of them is known
    assert la.divmod(both, la.ones(3, dtype=int, chunks=2))[1].compute().tolist() == [0, 0, 0]
    assert (both - la.zeros_like(chosen)).compute().tolist() == [0, 0, 0]
