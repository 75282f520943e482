"""Fused programs give NumPy's bits, whichever way they run, and reductions their one order."""

import itertools
import math
import warnings

import numpy as np
import pytest
from array_checks import same_values
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_tools import F8, SHAPES, B, dtypes_of, random_program, run

from lazyflow import config
from lazyflow.array.kernels.order import ALL, KINDS, MAX, MOMENTS, SUM, Reduction
from lazyflow.array.kernels.program import WHERE, BlockFunction, Program, Step
from lazyflow.array.kernels.run import merge, run_program


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from(SHAPES))
def test_random_programs_give_numpys_bits(seed, shape):
    blocks, steps, made = random_program(np.random.default_rng(seed), shape)
    negative = any(min(x.strides, default=0) < 0 for x in blocks)
    wanted = {len(made) - 1, len(made) // 2}
    outputs = tuple((n, None) for n in wanted)
    with config.set(math="numpy"):
        found = run(Program(dtypes_of(blocks), tuple(steps), outputs), blocks)
    for (number, _), got in zip(outputs, found, strict=True):
        expected = np.broadcast_to(made[number], shape)
        assert got.flags.c_contiguous and got.flags.writeable
        assert not any(np.shares_memory(got, x) for x in blocks)
        if not negative:
            same_values(got, expected)
        else:  # NumPy itself takes other paths there, which differ by ulps and what follows
            assert got.dtype == expected.dtype and got.shape == expected.shape


REDUCED = [(5,), (100,), (5000,), (70_000,), (3, 30_001), (30_001, 3), (40, 50, 60), (17, 5000)]


def axes_of(shape):
    for count in range(len(shape) + 1):
        yield from itertools.combinations(range(len(shape)), count)


@pytest.mark.parametrize("shape", [*REDUCED, (2, 5, 100, 80), (5, 1, 20_000), (1,), ()])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16", "bool"])
def test_reductions_over_all_axes_are_numpys_but_for_rounding(shape, dtype):
    drawn = (np.random.default_rng(1).standard_normal(shape) * 100).astype(dtype)
    for axes in axes_of(shape):
        for kind in ("sum", "prod", "min", "max", "any", "all"):
            values = drawn
            if kind == "prod" and dtype != "bool":  # nothing overflows
                values = np.where(drawn.real > 90, -1, 1 + drawn / 1e8).astype(dtype)
            dtype_of = B if kind in ("any", "all") else values.dtype
            if kind in ("sum", "prod"):
                dtype_of = np.sum(values).dtype
            with np.errstate(all="ignore"):
                expected = getattr(np, kind)(values, axis=axes, keepdims=True)
                reduction = Reduction(KINDS[kind], axes, dtype_of)
                got, same = run_program(
                    Program((values.dtype,), (), ((0, reduction), (0, None))), [values]
                )
            same_values(same, values)
            assert got.dtype == expected.dtype and got.shape == expected.shape
            if kind == "sum" and dtype != "i4":
                eps = np.finfo(dtype).eps if dtype != "bool" else 0
                bound = 8 * eps * np.abs(values).sum(axis=axes, keepdims=True)
                assert (np.abs(got - expected) <= bound).all()
            elif kind == "prod":
                np.testing.assert_allclose(got, expected, rtol=1e-3 if dtype == "f4" else 1e-9)
            else:
                same_values(got, expected)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("n", [1, 17, 4095, 4097, 65_536, 65_537, 300_001])
def test_sums_are_as_exact_as_numpys(n, dtype):
    rng = np.random.default_rng(n)
    for kind in (rng.standard_normal(n), 1e8 + rng.standard_normal(n), rng.random(n)):
        x = kind.astype(dtype)
        program = Program((x.dtype,), (), ((0, Reduction(SUM, (0,), x.dtype)),))
        got = float(run_program(program, [x])[0][0])
        bound = 4 * np.finfo(dtype).eps * float(np.abs(x).sum(dtype="f8"))
        assert abs(got - math.fsum(x.tolist())) <= bound


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
@pytest.mark.parametrize("n", [1, 7, 8, 129, 2048])
def test_sums_of_short_rows_are_numpys(n, dtype):
    x = (np.random.default_rng(n).standard_normal((50, 3, n)) * 100).astype(dtype)
    program = Program((x.dtype,), (), ((0, Reduction(SUM, (2,), x.dtype)),))
    same_values(run_program(program, [x])[0], x.sum(axis=2, keepdims=True))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_along_an_axis_are_as_exact(axis, dtype):
    shape = (100_000, 3) if axis == 0 else (3, 100_000)
    x = (np.random.default_rng(0).random(shape) + 100).astype(dtype)
    program = Program((x.dtype,), (), ((0, Reduction(SUM, (axis,), x.dtype)),))
    got = run_program(program, [x])[0].reshape(3)
    for n, column in enumerate(np.moveaxis(x, axis, 0).T):
        exact = math.fsum(column.tolist())
        assert abs(float(got[n]) - exact) <= 4 * np.finfo(dtype).eps * exact


@pytest.mark.parametrize("shape", [*REDUCED, (20, 6000), (9, 3, 5000), (1,), (0,), (0, 4)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "c16", "i4"])
def test_moments_are_count_mean_and_squares(shape, masked, dtype):
    rng = np.random.default_rng(3)
    values = (rng.standard_normal(shape) * 100 + 1000).astype(dtype)
    mask = rng.random(shape) < 0.5 if masked else np.ones(shape, bool)
    wide = values.astype(np.result_type(dtype, "f8"))
    for axes in axes_of(shape):
        reduction = Reduction(MOMENTS, axes, wide.dtype, 1 if masked else None)
        program = Program((values.dtype, B), (), ((0, reduction),))
        got = run_program(program, [values, mask])[0]
        count = mask.sum(axis=axes, keepdims=True)
        some = np.maximum(count, 1)
        mean = np.where(mask, wide, 0).sum(axis=axes, keepdims=True) / some
        squares = np.where(mask, np.abs(wide - mean) ** 2, 0).sum(axis=axes, keepdims=True)
        assert got.shape == (3, *count.shape) and got.dtype == wide.dtype
        np.testing.assert_array_equal(got[0], count)
        np.testing.assert_allclose(got[1], mean, rtol=1e-12)
        np.testing.assert_allclose(got[2], squares, rtol=1e-10, atol=1e-9)


def test_moments_of_infinite_and_missing_values_are_as_numpys_var():
    x = np.ones((300, 3))
    x[7, 1], x[5, 2] = np.inf, np.nan
    program = Program((F8,), (), ((0, Reduction(MOMENTS, (0,), F8)),))
    with np.errstate(invalid="ignore"):
        got = run_program(program, [x])[0][:, 0]
        np.testing.assert_array_equal(got[1], x.mean(0))
        np.testing.assert_array_equal(got[2] / got[0], x.var(0))


@pytest.mark.parametrize("kind", ["sum", "min", "all", "moments"])
def test_merged_parts_are_the_whole(kind):
    x = np.random.default_rng(0).integers(0, 9, (101, 7)).astype(F8)
    dtype = B if kind == "all" else F8
    reduction = Reduction(KINDS[kind], (0,), dtype)
    program = Program((F8,), (), ((0, reduction),))
    parts = [run_program(program, [x[n : n + 10]])[0] for n in range(0, 101, 10)]
    np.testing.assert_allclose(merge(reduction, parts), run_program(program, [x])[0], rtol=1e-13)
    same_values(merge(reduction, parts[:1]), parts[0])


def test_moments_of_nothing_change_nothing():
    reduction = Reduction(MOMENTS, (0,), F8)
    program = Program((F8,), (), ((0, reduction),))
    with pytest.warns(RuntimeWarning, match="^invalid value encountered in subtract$"):
        some, none = (run_program(program, [np.full(n, np.inf)])[0] for n in (1, 0))
    assert some[0] == 1
    same_values(merge(reduction, [none, some, none]), some)


ZEROS = Program(
    (F8,),
    (
        Step(np.divide, (0, 0), (F8, F8, F8)),
        Step(np.log, (0,), (F8, F8)),
        Step(np.log2, (0,), (F8, F8)),
    ),
    ((1, None), (2, None), (3, None)),
)


@pytest.mark.parametrize("n", [10, 200_000])
def test_each_kind_of_warning_comes_once(n):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run_program(ZEROS, [np.zeros(n)])
    assert [(w.category, str(w.message)) for w in found] == [
        (RuntimeWarning, "invalid value encountered in divide"),
        (RuntimeWarning, "divide by zero encountered in log"),
    ]


@pytest.mark.parametrize("n", [10, 200_000])
def test_errstate_decides_what_is_reported(n, capsys):
    zeros = np.zeros(n)
    with np.errstate(all="ignore"):
        run_program(ZEROS, [zeros])
    with np.errstate(divide="raise", invalid="ignore"):
        with pytest.raises(FloatingPointError, match="^divide by zero encountered in log$"):
            run_program(ZEROS, [zeros])
    called = []
    with np.errstate(divide="call", invalid="print", call=lambda *said: called.append(said)):
        run_program(ZEROS, [zeros])
    assert called == [("divide by zero", 1)]
    assert capsys.readouterr().out == "Warning: invalid value encountered in divide\n"


def test_overflow_of_a_reduction_is_reported_as_numpys():
    program = Program((F8,), (), ((0, Reduction(SUM, (0,), F8)),))
    with pytest.warns(RuntimeWarning, match="^overflow encountered in reduce$"):
        assert run_program(program, [np.full(200_000, 1e308)])[0] == np.inf


def test_every_other_dtype_runs_too():
    n = 100_000
    days = np.arange(n).astype("M8[s]")
    spans = days - days[0]
    text = np.array(["a", "bcd"] * (n // 2))
    objects = np.arange(n).astype(object)
    records = np.zeros(n, [("a", "i4"), ("b", "f8")])
    t, m, u, o, r = (x.dtype for x in (spans, days, text, objects, records))
    program = Program(
        (m, t, u, o, r, B),
        (
            Step(np.add, (0, 1), (m, t, m)),
            Step(np.add, (2, 2), (u, u, np.dtype("U6"))),
            Step(np.multiply, (3, 3), (o, o, o)),
            Step(WHERE, (5, 4, 4), (B, r, r, r)),
            Step(np.equal, (2, 2), (u, u, B)),
        ),
        (
            *((number, None) for number in range(6, 10)),
            (6, Reduction(MAX, (0,), m)),
            (1, Reduction(SUM, (0,), t)),
            (8, Reduction(SUM, (0,), o)),
            (10, Reduction(ALL, (0,), B)),
        ),
    )
    found = run_program(program, [days, spans, text, objects, records, objects % 2 == 0])
    expected = [days + spans, np.strings.add(text, text), objects * objects, records]
    for got, wanted in zip(found, expected, strict=False):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    assert found[4] == (days + spans).max() and found[5] == spans.sum()
    assert found[6] == sum(i * i for i in range(n)) and found[7]


def test_ufuncs_with_two_results_run_once():
    ran = []
    both = BlockFunction(lambda x: ran.append(len(x)) or x)
    steps = (
        Step(both, (0,), (F8, F8)),
        Step(np.divmod, (2, 1), (F8, F8, F8, F8)),
        Step(np.divmod, (2, 1), (F8, F8, F8, F8), 1),
        Step(both, (0,), (F8, F8)),
    )
    program = Program((F8, F8), steps, ((3, None), (4, None), (5, None)))
    x = np.arange(100_000.0)
    quotient, rest, same = run_program(program, [x, np.array(7.0)])
    np.testing.assert_array_equal(quotient, x // 7)
    np.testing.assert_array_equal(rest, x % 7)
    np.testing.assert_array_equal(same, x)
    assert sum(ran) == len(x)


def test_a_function_that_changes_the_shape_is_refused():
    def first(x):
        return x[:1]

    program = Program((F8,), (Step(BlockFunction(first), (0,), (F8, F8)),), ((1, None),))
    with pytest.raises(ValueError, match=r"^first gave an array of shape \(1,\) for blocks of s"):
        run_program(program, [np.arange(5.0)])


@pytest.mark.parametrize("n", [10, 100_000])
def test_blocks_that_are_not_what_was_said_are_refused(n):
    x = np.ones(n)
    program = Program((F8, F8), (Step(np.add, (0, 1), (F8, F8, F8)),), ((2, None),))
    with pytest.raises(
        TypeError,
        match="^the block for input 1 has dtype float32, the program was made for float64",
    ):
        run_program(program, [x, x.astype("f4")])
    with pytest.raises(TypeError, match="^a program of 2 inputs was given 1 blocks$"):
        run_program(program, [x])
    with pytest.raises(ValueError, match="shape mismatch"):
        run_program(program, [x, x[1:]])
