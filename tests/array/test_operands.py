"""What an expression takes in is a snapshot: writes into operands are not seen, or are noticed."""

import operator

import numpy as np
import pytest

import lazyflow.array as la
from lazyflow.errors import InputMutated

N = 12_000  # elements of a large operand, 96 kB


def lazy(n):
    return la.arange(1.0, n + 1, chunks=max(n // 2, 1)) / n


def grid(n):
    return lazy(n).reshape(n // 2, 2)


def _with_out(x, b):
    out = la.zeros(x.shape)
    np.add(x, b, out=out)
    return out


def _in_place(x, b):
    x = x + 0
    x += b
    return x


def _assigned(key, part=slice(None)):
    def assign(x, b):
        x = x + 0
        x[key] = b[part]
        return x

    return assign


def _add(block, **kwargs):
    (value,) = kwargs.values()
    return block + (value[0] if isinstance(value, list) else value)[: block.size].sum()


#: Functions of a lazy array of n elements and of a NumPy array of as many, growing from 0 to 1.
FUNCTIONS = {
    "radd": lambda x, b: b + x,
    "rpow": lambda x, b: b ** x,
    "rmatmul": lambda x, b: b @ x,
    "compare": lambda x, b: x < b,
    "equal": lambda x, b: x == b,
    "in place": _in_place,
    "out=": _with_out,
    "where=": lambda x, b: np.add(x, 1, out=x + 0, where=(b > 0.5)),
    "la.add": lambda x, b: la.add(b, 1),
    "reduce": lambda x, b: la.add.reduce(b),
    "outer": lambda x, b: np.add.outer(x[:3], b[-3:]),
    "where": lambda x, b: la.where(x > 0.5, b, x),
    "where condition": lambda x, b: la.where(b, x, 0),
    "clip": lambda x, b: x.clip(b, 2 * b),
    "clip max": lambda x, b: x.clip(max=b),
    "concatenate": lambda x, b: la.concatenate([x, b]),
    "stack": lambda x, b: np.stack([b, x]),
    "block": lambda x, b: la.block([[x, b]]),
    "append": lambda x, b: la.append(x, b),
    "column_stack": lambda x, b: la.column_stack([x, b]),
    "asarray of a list": lambda x, b: la.asarray([x, b]),
    "asarray of nested lists": lambda x, b: la.asarray([[x, b], [b, x]]),
    "array": lambda x, b: la.array(b) + x,
    "dot": lambda x, b: x.dot(b),
    "dot of two operands": lambda x, b: la.dot(b, b),
    "inner": lambda x, b: la.inner(x, b),
    "vdot": lambda x, b: la.vdot(b, x),
    "tensordot": lambda x, b: la.tensordot(x, b, 1),
    "einsum": lambda x, b: la.einsum("i,i", x, b),
    "outer product": lambda x, b: la.outer(x[:3], b[-3:]),
    "cross": lambda x, b: la.cross(x[:3], b[-3:]),
    "vecdot": lambda x, b: la.vecdot(x, b),
    "sum": lambda x, b: la.sum(b),
    "sum where": lambda x, b: x.sum(where=b > 0.5),
    "average": lambda x, b: la.average(x, weights=b),
    "mean": lambda x, b: la.mean(b),
    "cov": lambda x, b: la.cov(x, b),
    "cov weights": lambda x, b: la.cov(x, aweights=b),
    "quantile": lambda x, b: la.quantile(x, b[::len(b) // 4]),
    "percentile": lambda x, b: la.percentile(x, b[::len(b) // 4] * 100),
    "cumsum": lambda x, b: la.cumsum(b),
    "diff": lambda x, b: la.diff(x, prepend=b, append=b),
    "ediff1d": lambda x, b: la.ediff1d(x, to_begin=b, to_end=b),
    "gradient": lambda x, b: la.gradient(x, b),
    "trapezoid": lambda x, b: la.trapezoid(x, b),
    "insert": lambda x, b: la.insert(x, [0, 2], b[-2:]),
    "insert many": lambda x, b: la.insert(x, 0, b),
    "pad": lambda x, b: la.pad(x, 1, constant_values=b[-2:]),
    "pad ends": lambda x, b: la.pad(x, 1, "linear_ramp", end_values=b[-2:]),
    "select": lambda x, b: la.select([x > 0.9, b > 0.5], [b, x], 0),
    "choose": lambda x, b: la.choose(x > 0.5, [b, x]),
    "piecewise": lambda x, b: la.piecewise(x, [b > 0.5], [1, 2]),
    "searchsorted": lambda x, b: la.searchsorted(x, b),
    "searchsorted in": lambda x, b: la.searchsorted(b, x),
    "digitize": lambda x, b: la.digitize(x, b),
    "isin": lambda x, b: la.isin(x, b[::2]),
    "union1d": lambda x, b: la.union1d(x, b),
    "interp": lambda x, b: la.interp(x, b, b),
    "histogram": lambda x, b: la.histogram(x, b)[0],
    "histogram weights": lambda x, b: la.histogram(x, 3, range=(0, 1), weights=b)[0],
    "bincount": lambda x, b: la.bincount((x * 3).astype(int), weights=b, minlength=4),
    "take": lambda x, b: la.take(b, [0, -1]),
    "take_along_axis": lambda x, b: la.take_along_axis(b, la.argsort(x), 0),
    "indices": lambda x, b: x[(b * 3).astype(int)],
    "compress": lambda x, b: x.compress(b > 0.5),
    "repeat": lambda x, b: la.repeat(b, 2),
    "roll": lambda x, b: la.roll(b, 1),
    "reshape": lambda x, b: la.reshape(b, (-1, 2)),
    "ravel": lambda x, b: la.ravel(b.reshape(-1, 2)),
    "transpose": lambda x, b: la.transpose(b.reshape(-1, 2)),
    "broadcast_to": lambda x, b: la.broadcast_to(b, (2, len(b))),
    "meshgrid": lambda x, b: la.meshgrid(x[:3], b[-3:])[1],
    "sort": lambda x, b: la.sort(b),
    "diag": lambda x, b: la.diag(b[-3:]),
    "nan_to_num": lambda x, b: la.nan_to_num(b),
    "astype": lambda x, b: la.astype(b, "f4"),
    "copy": lambda x, b: la.copy(b),
    "full": lambda x, b: la.full(3, b[-1:].reshape(())),
    "full_like": lambda x, b: la.full_like(x, b[-1:].reshape(())),
    "linspace": lambda x, b: la.linspace(b[0] * 1, b[-1] * 1, 4),
    "setitem": _assigned(slice(None)),
    "setitem part": _assigned(slice(None, None, 2), slice(None, None, 2)),
    "setitem at": _assigned([1, 0], slice(-2, None)),
    "map_blocks": lambda x, b: la.map_blocks(lambda x, b: x + b[-1], x, b, dtype=float),
    "map_blocks keyword": lambda x, b: x.map_blocks(_add, value=b, dtype=float),
    "map_blocks list": lambda x, b: x.map_blocks(_add, value=[b], dtype=float),
    "blockwise": lambda x, b: la.blockwise(np.add, "i", x, "i", b, "i", dtype=float),
    "blockwise keyword": lambda x, b: la.blockwise(_add, "i", x, "i", value=b, dtype=float),
    "map_overlap": lambda x, b: la.map_overlap(_add, x, depth=1, value=b, dtype=float),
    "apply_gufunc": lambda x, b: la.apply_gufunc(
        lambda x, b: x + b, "(),()->()", x, b, output_dtypes=float
    ),
    "gufunc keyword": lambda x, b: la.apply_gufunc(
        lambda x, value: (x, x + value.sum()), "()->(),()", x, value=b, output_dtypes=[float] * 2
    )[1],
    "apply_along_axis": lambda x, b: la.apply_along_axis(lambda x, b: x[:2] + b[-2:], 0, x, b),
    "vectorize": lambda x, b: la.vectorize(lambda x, b: x + b, otypes=[float])(x, b),
    "frompyfunc": lambda x, b: la.frompyfunc(operator.add, 2, 1)(x, b),
    "reduction weights": lambda x, b: la.reduction(
        x, lambda x, w, axis, keepdims: (x * w).sum(axis, keepdims=keepdims),
        lambda x, axis, keepdims: x.sum(axis, keepdims=keepdims), weights=b, dtype=float,
    ),
    "tile": lambda x, b: la.tile(b, 2),
    "fromfunction": lambda x, b: la.fromfunction(_add, shape=(6,), value=b, dtype=float),
    "normal": lambda x, b: la.random.default_rng(1).normal(b, 1, len(b)),
    "choice": lambda x, b: la.random.default_rng(1).choice(b, 5),
    "choice p": lambda x, b: la.random.default_rng(1).choice(len(b), 5, p=b / b.sum()),
    "permutation": lambda x, b: la.random.default_rng(1).permutation(b),
}


def numbers(n):
    return np.linspace(0.0, 1.0, n)


def written(made, b):
    """Write into an operand of what was made already; return its values."""
    b[...] = 0.3
    return made.compute()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_write_into_a_small_operand_is_not_seen(name):
    function, b = FUNCTIONS[name], numbers(8)
    expected = function(lazy(8), numbers(8)).compute()
    found = written(function(lazy(8), b), b)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", [
    name for name in FUNCTIONS if name not in ("vectorize", "frompyfunc")
])
def test_a_write_into_a_large_operand_is_noticed_where_it_could_be_seen(name):
    function, b = FUNCTIONS[name], numbers(N)
    expected = function(lazy(N), numbers(N)).compute()
    try:
        found = written(function(lazy(N), b), b)
    except InputMutated:
        return
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
@pytest.mark.parametrize("how", ["compute", "persist", "dask"])
def test_the_error_says_where_it_was_taken_in_and_what_to_type(scheduler, how):
    b = numbers(N)
    made = lazy(N) - b
    b[:] = 100
    words = (
        r"wrote into an array .float64, shape .12000,.. after an expression .memory. was made of "
        r"it and before that was computed.*up to 65.5 kB.*x \+ b.copy\(\).*from_array\(b\). "
        r"Made at .*test_operands.py:\d+ in test_the_error_says"
    )
    with pytest.raises(InputMutated, match=words):
        if how == "dask":
            made.to_delayed()
        else:
            getattr(made, how)(scheduler=scheduler)


@pytest.mark.parametrize("array", [
    np.array(2.0), np.array([None, "a"]),
    np.array("2020-01-01", "M8[D]"), np.zeros(2, "i4,f8"), np.asfortranarray(np.ones((3, 2))),
    np.ones(8)[::-2], np.broadcast_to(np.ones(1), 9),
], ids=lambda x: f"{type(x).__name__} {x.dtype} {x.shape}")
def test_operands_of_all_kinds_are_snapshots(array):
    expected = np.array(array)
    array = array if array.flags.writeable else array.copy()
    made = la.copy(array)
    array[...] = array[(slice(1),) * array.ndim] if array.dtype.kind == "V" else None if (
        array.dtype == object
    ) else np.zeros((), array.dtype)
    found = np.asarray(made.compute())
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


def test_a_read_only_view_of_what_can_be_written_is_an_operand_like_any():
    b = numbers(8)
    seen = b.view()
    seen.setflags(write=False)
    made = la.ones(8) * seen
    b[:] = 9
    np.testing.assert_array_equal(made.compute(), numbers(8))


@pytest.mark.parametrize("n", [8, N])
@pytest.mark.parametrize("source", [
    la.from_array, la.asarray, lambda b: la.array(b, copy=False),
], ids=["from_array", "asarray", "array"])
def test_what_stands_for_memory_reads_it_as_it_is(source, n):
    b = numbers(n)
    made = source(b) + 1
    b[:] = 9
    np.testing.assert_array_equal(made.compute(), np.full(n, 10.0))


def test_an_operand_may_be_written_once_the_result_is_there():
    b = numbers(N)
    made = (lazy(N) + b).persist()
    made.compute()
    b[:] = 9
    np.testing.assert_array_equal(made.compute(), (lazy(N) + numbers(N)).compute())


class Answering:
    """An operand that wants to be asked before arrays."""

    __array_ufunc__ = None


def answer(self, other):
    return "asked"


BINARY = [
    "eq", "ne", "lt", "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul",
    "lshift", "rshift", "and", "or", "xor",
]
for word in [*BINARY, "gt"]:
    setattr(Answering, f"__r{word}__", answer)
    setattr(Answering, f"__{word}__", answer)


@pytest.mark.parametrize("word", BINARY)
def test_operands_that_have_no_ufuncs_are_asked_first(word):
    operation = divmod if word == "divmod" else getattr(operator, f"__{word}__")
    for x in (la.ones((2, 2), dtype=int), np.ones((2, 2), int), la.ma.masked_equal(la.ones(2), 3)):
        assert operation(x, Answering()) == operation(Answering(), x) == "asked"


def test_products_in_place_take_matrices_only():
    for a, b in ((np.ones((3, 3)), np.ones(3)), (np.ones(3), np.ones(3))):
        for x in (a.copy(), la.from_array(a, chunks=2)):
            with pytest.raises(ValueError, match="inplace matrix multiplication requires"):
                x @= b
    x = la.from_array(np.arange(9.0).reshape(3, 3), chunks=2)
    wanted = x.compute() @ x.compute()
    x @= x
    np.testing.assert_array_equal(x.compute(), wanted)
