"""Generated kernels give the bits and the reports of NumPy's functions; caching them is safe."""

import gc
import itertools
import math
import os
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from array_checks import same_values
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_tools import F8, SHAPES, B, dtypes_of, random_program, run

import lazyflow.array as la
from lazyflow import config
from lazyflow.array.kernels import run as run_module
from lazyflow.array.kernels.native import compiler, llvm_reductions
from lazyflow.array.kernels.native import kernels as native_kernels
from lazyflow.array.kernels.native.compiler import wait_compiled
from lazyflow.array.kernels.order import KINDS, LAST, MAX, MIN, MOMENTS, PIECE, SUM, Reduction
from lazyflow.array.kernels.program import (
    CAST,
    WHERE,
    BlockFunction,
    Program,
    ScanOperation,
    Step,
)
from lazyflow.array.kernels.run import report, run_program
from lazyflow.recent import Recent
from lazyflow.testing.signals import Gate

I1, U1, I2, U2, I4, U4, I8, U8, F4 = map(
    np.dtype, ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4"]
)


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with config.set(kernel_cache=str(tmp_path / "kernels")):
        yield tmp_path / "kernels"
    assert wait_compiled(60)


REASONS = (
    "(astype from .* is done by NumPy|.* can't be called from a kernel"
    "|there are no kernels for values of dtype (complex128|complex64)"
    "|float16 is reduced by NumPy|the ends of blocks are taken by NumPy)"
)


def both(program, blocks):
    """Return what NumPy's functions and a kernel give; a kernel of None where there is none."""
    with config.set(kernels="numpy"):
        by_numpy = run(program, blocks)
    try:
        with config.set(kernels="native"):
            return by_numpy, run(program, blocks)
    except RuntimeError as error:
        reasons = REASONS
        if any(s.op is CAST and s.loop[0].kind == "f" and s.loop[1] == U8 for s in program.steps):
            # With AVX-512 NumPy's vectors make other numbers of NaN than its rests do; the check
            # of the compiled kernel finds that.
            reasons += "|output .* has other bits than NumPy's"
        assert re.match(f"no kernel for this expression: ({reasons})", str(error))
        return by_numpy, None


def random_outputs(rng, made):
    """Return outputs, reduced and not, of the last value."""
    last, dtype = len(made) - 1, made[-1].dtype
    axes = [
        a for n in range(made[0].ndim + 1) for a in itertools.combinations(range(made[0].ndim), n)
    ]
    axes = axes[rng.integers(len(axes))]
    outputs = [(last, None), (int(rng.integers(len(made))), None)]
    if dtype.kind == "c":
        return outputs
    wide = dtype if dtype.kind == "f" else I8
    for kind, of in (("sum", wide), ("prod", wide), ("max", dtype), ("min", dtype), ("any", B)):
        if rng.random() < 0.3:
            outputs.append((last, Reduction(KINDS[kind], axes, of)))
    if rng.random() < 0.3:
        masks = [n for n, value in enumerate(made) if value.dtype == B]
        mask = masks[0] if masks and rng.random() < 0.5 else None
        of = dtype if dtype.kind == "f" else F8
        outputs.append((last, Reduction(MOMENTS, axes, of, mask)))
    return outputs


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([*(shape for shape in SHAPES if 0 not in shape), (600, 50), (16, 33)]),
)
def test_random_programs_give_the_bits_of_whole_blocks(seed, shape):
    rng = np.random.default_rng(seed)
    blocks, steps, made = random_program(rng, shape)
    program = Program(dtypes_of(blocks), tuple(steps), tuple(random_outputs(rng, made)))
    by_numpy, by_kernel = both(program, blocks)
    if by_kernel is not None:
        for (_, reduction), got, expected in zip(program.outputs, by_kernel, by_numpy, strict=True):
            if reduction is not None and reduction.kind in (MIN, MAX):
                np.testing.assert_array_equal(got, expected)  # zeros may have either sign
                continue
            same_values(got, expected)
            assert got.flags.c_contiguous and got.flags.writeable


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(5000,), (40_003,), (300, 70), (70, 2047), (16, 33), (5, 60, 70)]),
    kind=st.sampled_from(["sum", "prod", "min", "max", "fmin", "fmax", "any", "all"]),
)
def test_one_reduction_of_a_random_program_has_the_bits_of_whole_blocks(seed, shape, kind):
    """What one output reduces is computed where it is reduced: see `reads_in_place`."""
    rng = np.random.default_rng(seed)
    blocks, steps, made = random_program(rng, shape, most=4)
    for at, block in enumerate(blocks):  # rows that lie apart, and what is the same everywhere
        if block.shape == shape and rng.random() < 0.3:
            wide = np.zeros((*shape[:-1], shape[-1] + 3), block.dtype)
            wide[..., : shape[-1]] = block
            blocks[at] = wide[..., : shape[-1]]
        elif at and rng.random() < 0.5:
            blocks[at] = block.reshape(-1)[:1].reshape((1,) * len(shape))
    dtype = made[-1].dtype
    if dtype.kind == "c" or (kind[0] == "f" and dtype.kind != "f"):
        return
    of = B if kind in ("any", "all") else dtype if dtype.kind == "f" or kind[-1] in "nx" else I8
    axes = tuple(np.flatnonzero(rng.random(len(shape)) < 0.6)) or (len(shape) - 1,)
    reduced = Reduction(KINDS[kind], tuple(map(int, axes)), of)
    program = Program(dtypes_of(blocks), tuple(steps), ((len(made) - 1, reduced),))
    by_numpy, by_kernel = both(program, blocks)
    if by_kernel is not None and kind.endswith(("min", "max")):
        np.testing.assert_array_equal(by_kernel[0], by_numpy[0])  # zeros may have either sign
    elif by_kernel is not None:
        same_values(by_kernel[0], by_numpy[0])


def binary(ufunc, a, b, dtype=F8):
    return Step(ufunc, (a, b), (dtype, dtype, dtype))


@pytest.mark.parametrize("blocks", [1, 2, 7, 8, 9, 128, 129, 300])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "fmin"])
@pytest.mark.parametrize("dtype", [F8, F4, I8])
def test_blocks_of_rows_are_added_up_as_whole_blocks_are(blocks, kind, dtype):
    """What is read in place, and what is computed, with a short last block; and signs of zeros."""
    if kind == "fmin" and dtype == I8:
        return
    rng = np.random.default_rng(blocks)
    for rest, outer in ((0, 1), (5, 3), (PIECE - 1, 2)):
        x = rng.standard_normal((outer, PIECE * blocks - rest)) * 3
        x = (1 + x / 1e6 if kind == "prod" else x).astype(dtype)
        x[0] = -0.0 if dtype.kind == "f" else 0
        reduction = Reduction(KINDS[kind], (1,), dtype)
        for steps, value in (((), 0), ((Step(np.multiply, (0, 0), (dtype,) * 3),), 1)):
            (expected,), (got,) = both(Program((dtype,), steps, ((value, reduction),)), [x])
            same_values(got, expected)


@pytest.mark.parametrize("blocks", [1, 2, 15, 16, 17, 33, 256, 257])
@pytest.mark.parametrize("masked", [False, True])
def test_blocks_of_rows_are_merged_as_whole_blocks_are(blocks, masked):
    rng = np.random.default_rng(blocks)
    for rest, outer in ((0, 1), (5, 3)):
        x = rng.standard_normal((outer, PIECE * blocks - rest)) + 3
        mask = rng.random(x.shape) < 0.7
        mask[0, : 2 * PIECE] = False
        reduction = Reduction(MOMENTS, (1,), F8, 1 if masked else None)
        (expected,), (got,) = both(Program((F8, B), (), ((0, reduction),)), [x, mask])
        same_values(got, expected)


@pytest.mark.parametrize("reduce", [
    *("sum", "mean", "std", "max", "prod", "all"),
    lambda x: la.nanstd(x, axis=0), lambda x: ((x - x.mean(0)) / x.std(0)).max(),
    lambda x: (x > 0).sum(0), lambda x: x.std(), lambda x: x.std(1), lambda x: x.sum(),
    lambda x: x.cumsum(0).max(), lambda x: x.cumsum(1)[:, -1],
])
def test_calls_do_not_grow_with_the_block(reduce):
    """Each lets go of the GIL and takes it again, for which the other threads queue."""
    counts = []
    for rows in (4_000, 64_000):
        x = la.from_array(np.random.default_rng(0).random((rows, 100)), chunks=-1)
        y = getattr(x, reduce)(axis=0) if isinstance(reduce, str) else reduce(x)
        calls = []
        with config.set(scheduler="sync"):
            for _ in range(3):
                y.compute()
                assert wait_compiled(60)
            sys.setprofile(lambda frame, event, what: calls.append(what) if "call" in event else 0)
            try:
                y.compute()
            finally:
                sys.setprofile(None)
        counts.append(len(calls))
    assert counts[1] <= counts[0] + 20


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_scans_of_any_lines_with_what_reads_them(data):
    """Lines of any length, which end anywhere in tiles; with a carry, before and after steps."""
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 40, 130]), min_size=1,
                                     max_size=3)))
    if math.prod(shape) < 10_000:
        shape = (*shape[:-1], shape[-1] * data.draw(st.sampled_from([1, 9, 100])))
    axis = data.draw(st.integers(-len(shape), -1))
    ufunc = data.draw(st.sampled_from([np.add, np.multiply, np.maximum, np.minimum]))
    dtype = data.draw(st.sampled_from([F8, F4, I8, U2]))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x = (rng.standard_normal(shape) * 3).astype(dtype)
    x[rng.random(shape) < 0.05] = -0.0 if dtype.kind == "f" else 0
    if dtype.kind == "f" and data.draw(st.booleans()):
        x[rng.random(shape) < 0.001] = data.draw(st.sampled_from([np.nan, np.inf, 1e38]))
    x = data.draw(st.sampled_from([x, np.asfortranarray(x), np.concatenate([x, x], -1)[..., ::2]]))
    lines = [1 if at == axis else n for at, n in enumerate(x.shape, -x.ndim)]
    carry = (rng.standard_normal(lines) * 3).astype(dtype)
    steps = [Step(np.add, (0, 0), (dtype,) * 3)]
    operands = data.draw(st.sampled_from([(0,), (2,), (0, 1), (2, 1)]))
    steps.append(Step(ScanOperation(ufunc, axis), operands, (dtype,) * (len(operands) + 1)))
    steps.append(Step(np.subtract, (3, 0), (dtype,) * 3))
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, x.ndim - 1)))))
    wide = dtype if dtype.kind == "f" else I8
    ends = Reduction(LAST, (axis + x.ndim,), dtype)  # which are those of the block alone
    outputs = data.draw(st.lists(st.sampled_from([
        (3, ends), (3, None), (4, None), (3, Reduction(SUM, axes, wide)),
        (3, Reduction(MAX, axes, dtype)), (4, Reduction(MOMENTS, axes, F8)),
    ]), min_size=1, max_size=4, unique=True))
    outputs.sort(key=lambda output: output[1] != ends)
    program = Program((dtype, dtype), tuple(steps), tuple(outputs))
    with np.errstate(all="ignore"):
        by_numpy, by_kernel = both(program, [x, carry])
    assert (by_kernel is None) == (1 in operands and outputs[0][1] == ends and x.size > 1)
    for one, other, (_, how) in zip(by_numpy, by_kernel or by_numpy, outputs, strict=True):
        if how is not None and how.kind is MAX:
            np.testing.assert_array_equal(other, one)  # zeros may have either sign
        else:
            same_values(other, one)


@pytest.mark.parametrize("blocks", [1, 2, 15, 16, 17, 32, 255, 256, 257, 273, 4096, 4099])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "fmin", "moments", "masked moments"])
def test_blocks_of_columns_are_merged_as_whole_blocks_are(blocks, kind):
    """By a tree of sixteen: around its powers, with a short last block, outer and inner axes."""
    rng = np.random.default_rng(blocks)
    for rest, outer, inner in ((0, 1, 9), (5, 2, 3)):
        x = rng.standard_normal((outer, 16 * blocks - rest, inner))
        x[rng.random(x.shape) < 0.01] = -0.0
        x[0, :, 0] = 1e300 if kind == "sum" else np.nan  # a column of what is not finite
        mask = rng.random(x.shape) < 0.7
        mask[:, :40, 1] = False
        masked = kind == "masked moments"
        reduction = Reduction(KINDS[kind.removeprefix("masked ")], (1,), F8, 1 if masked else None)
        program = Program((F8, B), (), ((0, reduction),))
        (expected,), (got,) = both(program, [x, mask])
        same_values(got, expected)


@pytest.mark.parametrize(
    "shape", [(5,), (5000,), (70_001,), (3, 30_001), (1001, 30), (5, 60, 70), (19, 5003)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_moments_of_kernels_are_those_of_whole_blocks(shape, masked):
    rng = np.random.default_rng(0)
    x, mask = rng.standard_normal(shape), rng.random(shape) < 0.5
    for count in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            reduced = Reduction(MOMENTS, axes, F8, 1 if masked else None)
            program = Program(
                (F8, B),
                (binary(np.multiply, 0, 0),),
                ((2, reduced), (2, Reduction(SUM, axes, F8)), (2, None)),
            )
            by_numpy, by_kernel = both(program, [x, mask])
            for got, expected in zip(by_kernel, by_numpy, strict=True):
                same_values(got, expected)


@pytest.mark.parametrize("of", [F8, np.dtype("f4")])
@pytest.mark.parametrize("shape", [(20_000,), (7, 3001), (3001, 7), (40, 30, 50)])
@pytest.mark.parametrize("kinds", [("min", "max"), ("fmin", "fmax")])
def test_extremes_that_are_zeros_of_both_signs_do_not_depend_on_the_way(shape, of, kinds):
    some = [0.0, -0.0] if kinds[0] == "min" else [0.0, -0.0, np.nan]
    zeros = np.random.default_rng(0).choice(np.array(some, of), shape)
    steps = (binary(np.subtract, 0, 1, of), Step(np.negative, (2,), (of, of)))
    for count in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            outputs = [(n, Reduction(KINDS[kind], axes, of)) for n in (2, 3) for kind in kinds]
            program = Program((of, of), steps, tuple(outputs))
            by_numpy, by_kernel = both(program, [zeros, np.array(0, of)])
            for got, expected in zip(by_kernel, by_numpy, strict=True):
                same_values(got, expected)
            assert np.signbit(by_kernel[0]).any() and not np.signbit(by_kernel[3]).all()


def test_a_kernel_that_sums_in_another_order_is_not_used(monkeypatch):
    """The check of a new kernel sees it, though some of the made-up values are no numbers."""
    monkeypatch.setattr(native_kernels, "_known", Recent(9))
    monkeypatch.setattr(llvm_reductions, "LEAF", 256)
    steps = (binary(np.subtract, 0, 1), binary(np.multiply, 2, 1), binary(np.divide, 3, 0))
    program = Program((F8, F8), steps, ((4, Reduction(SUM, (1,), F8)),))
    blocks = [np.random.default_rng(at).random((20, 3000)) for at in range(2)]
    with config.set(kernels="native"), pytest.raises(RuntimeError, match="other bits than NumPy's"):
        run(program, blocks)
    with config.set(kernels="numpy"):
        expected = run(program, blocks)
    same_values(run(program, blocks)[0], expected[0])


@pytest.mark.parametrize("of", [F8, np.dtype("f4"), I8, B])
@pytest.mark.parametrize("shape", [(70_001,), (200, 9), (9, 200), (3, 5000), (40, 30, 50)])
@pytest.mark.parametrize("cut", [np.s_[:], np.s_[..., 3:], np.s_[..., ::-1], np.s_[1::2]])
def test_what_is_only_reduced_has_the_same_bits_wherever_it_lies(of, shape, cut):
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 0.0, np.nan if of.kind == "f" else 2.0, 7.0], shape)
    for block in (x.astype(of)[cut], (rng.standard_normal(shape) * 4).astype(of)[cut]):
        kinds = ["any", "all"] if of == B else ["sum", "min", "max", "prod"]
        kinds += ["moments"] * (of == F8)
        for count in range(len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                outputs = tuple((0, Reduction(KINDS[kind], axes, of)) for kind in kinds)
                with np.errstate(all="ignore"):
                    by_numpy, by_kernel = both(Program((of,), (), outputs), [block])
                for got, expected in zip(by_kernel, by_numpy, strict=True):
                    same_values(got, expected)


#: x*x + y in the ways that blocks lie
SQUARED = Program(
    (F8, F8),
    (binary(np.multiply, 0, 0), binary(np.add, 2, 1)),
    ((3, None), (3, Reduction(SUM, (0, 1, 2), F8))),
)


@pytest.mark.parametrize(
    "cut",
    [
        np.s_[:],
        np.s_[::2],
        np.s_[:, ::-1],
        np.s_[..., ::3],
        np.s_[:1],
        np.s_[:, :1],
        np.s_[..., :1],
        np.s_[:1, :, :1],
        np.s_[:1, :1, :1],
    ],
)
def test_blocks_may_lie_in_any_way(cut):
    x = np.random.default_rng(0).standard_normal((20, 30, 100))
    y = x[cut]
    x = x[tuple(slice(n) if n > 1 else slice(None) for n in y.shape)]
    for a, b in ((x, y), (x, y.copy()), (np.asfortranarray(x), y), (x.T, y.T)):
        by_numpy, by_kernel = both(SQUARED, [a, b])
        same_values(by_kernel[0], a * a + b)
        same_values(by_kernel[1], by_numpy[1])


@pytest.mark.parametrize("of", [F8, np.dtype("f4"), I2, B])
def test_results_may_begin_anywhere(of):
    x = np.random.default_rng(0).integers(-5, 5, 1200).astype(of)
    step = Step(np.logical_not, (0,), (B, B)) if of == B else binary(np.add, 0, 0, of)
    expected = ~x if of == B else x + x
    for length in (511, 512, 527, 528, 1100):
        for start in range(1, 18):
            out = np.full(1200, 1, of)
            part = out[start : start + length]
            with config.set(kernels="native"):
                program = Program((of,), (step,), ((1, None),))
                (found,) = run_program(program, [x[:length]], None, {0: part})
            assert found is part and out[:start].all() and out[start + length :].all()
            same_values(part, expected[:length])


def test_one_operation_that_broadcasts_gains_by_a_kernel():
    program = Program((F8, F8), (binary(np.add, 0, 1),), ((2, None),))
    whole = np.ones((200, 100))
    assert "no kernel yet" in report(program, [whole, np.ones((200, 1))])
    assert "no kernel yet" in report(program, [np.ones(100), np.ones((200, 1))])
    assert "as fast" in report(program, [whole, np.ones(())])


@pytest.mark.parametrize("of", [F8, F4])
@pytest.mark.parametrize("to", [U1, U2, U8])
def test_floats_become_unsigned_numbers_as_numpys_do_and_beyond_their_range(of, to):
    beyond = [0.5, -1.0, np.nan, np.inf, 2.0**31, 2.0**63, 1.5 * 2.0**63, 2.0**64, -(2.0**63)]
    x = np.append(np.random.default_rng(0).uniform(0, 2.0**64, 1000), beyond).astype(of)
    program = Program((of,), (Step(CAST, (0,), (of, to)),), ((1, None),))
    for values in (x, x[:1000][x[:1000] < 2.0**63], x[-3:-1]):
        with warnings.catch_warnings(record=True) as by_numpy:
            warnings.simplefilter("always")
            wanted = values.astype(to)
        with warnings.catch_warnings(record=True) as ours, config.set(kernels="native"):
            warnings.simplefilter("always")
            (found,) = run_program(program, [values])
        same_values(found, wanted)
        assert [str(w.message) for w in ours] == [str(w.message) for w in by_numpy]


def test_all_numbers_of_half_precision_are_computed_as_numpy_does():
    x = np.arange(1 << 16, dtype="u2").view("f2")
    y = np.random.default_rng(0).permutation(x)
    f2, whole = x.dtype, np.arange(1 << 16) * 7 - 100_000
    two = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.copysign)
    one = (np.sqrt, np.abs, np.negative, np.rint, np.square, np.reciprocal, np.exp)
    steps = [
        *[Step(op, (0, 1), (f2, f2, f2)) for op in two],
        *[Step(op, (0,), (f2, f2)) for op in one],
        *[Step(np.less, (0, 1), (f2, f2, B)), Step(np.isnan, (0,), (f2, B))],
        *[Step(CAST, (0,), (f2, to)) for to in (F4, F8, I1, I4, U8, B)],
        *[Step(CAST, (2,), (I8, f2)), Step(CAST, (3,), (F4, f2))],
    ]
    steps.append(Step(WHERE, (3 + len(two) + len(one) + 1, 0, 1), (B, f2, f2, f2)))
    outputs = tuple((4 + at, None) for at in range(len(steps)))
    program = Program((f2, f2, I8, F4), tuple(steps), outputs)
    given = [x, y, whole, np.linspace(-7e4, 7e4, 1 << 16, dtype=F4)]
    for wanted, found in zip(*both(program, given), strict=True):
        same_values(found, wanted)


def test_one_operation_on_halves_gains_by_a_kernel():
    f2 = np.dtype("f2")
    program = Program((f2, f2), (binary(np.add, 0, 1, f2),), ((2, None),))
    assert "no kernel yet" in report(program, [np.ones(100_000, "f2")] * 2)
    exp = Program((f2,), (Step(np.exp, (0,), (f2, f2)),), ((1, None),))
    assert "as fast" in report(exp, [np.ones(100_000, "f2")])
    total = Program((f2,), (binary(np.add, 0, 0, f2),), ((1, Reduction(SUM, (0,), f2)),))
    assert "float16 is reduced by NumPy" in report(total, [np.ones(100_000, "f2")])


def test_a_choice_alone_gains_by_a_kernel():
    program = Program((B, F8, F8), (Step(WHERE, (0, 1, 2), (B, F8, F8, F8)),), ((3, None),))
    assert "no kernel yet" in report(program, [np.ones(100_000, bool), *[np.ones(100_000)] * 2])


@pytest.mark.parametrize("n", [1, 3, 10, 15, 16, 17, 31, 50])
def test_functions_take_short_rows_and_rests_as_whole_vectors(n):
    exp, f4 = Step(np.exp, (0,), (F4, F4)), Step(CAST, (1,), (I1, F4))
    less = Step(np.less, (2, 4), (F4, F4, B))
    mixed = Step(np.add, (3, 4), (F4, F4, F4))
    outputs = (6, None), (5, None), (6, Reduction(SUM, (0,), F4))
    program = Program((F4, I1, F4), (exp, f4, less, mixed), outputs)
    rng = np.random.default_rng(n)
    x = rng.normal(size=(70, 2 * n)).astype(F4)[:, ::2]
    blocks = [x, rng.integers(-9, 9, (70, n), I1), rng.normal(size=n).astype(F4)]
    for wanted, found in zip(*both(program, blocks), strict=True):
        same_values(found, wanted)


def test_rows_that_are_shorter_than_a_vector_go_through_numpys_functions_where_others_are_called():
    rows, row = np.ones((20_000, 10)), np.ones(10)
    for op, words in ((np.exp, "runs of 10 elements are too short"), (np.sqrt, "no kernel yet")):
        program = Program((F8, F8), (binary(np.add, 0, 1), Step(op, (2,), (F8, F8))), ((3, None),))
        assert words in report(program, [rows, row])
        assert "no kernel yet" in report(program, [rows, rows])


def test_a_chain_may_be_long():
    steps = tuple(binary(np.add, n, 0) for n in range(2000))
    program = Program((F8,), steps, ((2000, None), (2000, Reduction(MOMENTS, (0,), F8))))
    x = np.arange(1000.0)
    for values, moments in both(program, [x]):
        same_values(values, x * 2001)
        np.testing.assert_allclose(moments[1], values.mean(), rtol=1e-14)


def test_unaligned_blocks_are_read_too():
    raw = np.random.default_rng(0).standard_normal((2, 3, 401)).tobytes()
    x = np.frombuffer(b"1" + raw, F8, offset=1).reshape(2, 3, 401)
    assert not x.flags.aligned
    by_numpy, by_kernel = both(SQUARED, [x, x])
    same_values(by_kernel[0], x * x + x)
    same_values(by_kernel[1], by_numpy[1])


def said(program, blocks, **errstate):
    """Return the warnings of a program run by NumPy's functions and by a kernel."""
    found = []
    for kernels in ("numpy", "native"):
        with warnings.catch_warnings(record=True) as seen, config.set(kernels=kernels):
            warnings.simplefilter("always")
            with np.errstate(**errstate):
                run_program(program, blocks)
        found.append([str(w.message) for w in seen])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("exponent", [2.0, 0.5, -1.0, 3.0, 1 / 3])
def test_powers_are_numpys(exponent):
    x = np.random.default_rng(0).standard_normal(50_000)
    x[:3] = -np.inf, -0.0, np.nan
    step = binary(np.power, 0, 1)
    program = Program((F8, F8), (step, binary(np.add, 2, 0)), ((2, None), (3, None)))
    for exponents in (np.array(exponent), np.full(50_000, exponent)):
        with np.errstate(all="ignore"):
            powers = x**exponents
            sums = powers + x
        with config.set(math="numpy"):
            all_found = both(program, [x, exponents])
        for found in all_found:
            same_values(found[0], powers)
            same_values(found[1], sums)


def test_casts_there_and_back_are_not_a_truncation():
    x = np.array([-0.3, -0.0, 1e300, -1e300, np.nan, np.inf, 7.9, 300.5, -1e5] * 10)
    for whole in (I1, U1, I2, U2, I4, I8):
        steps = (Step(CAST, (0,), (F8, whole)), Step(CAST, (1,), (whole, F8)))
        for found in both(Program((F8,), steps, ((2, None),)), [x]):
            with np.errstate(invalid="ignore"):
                same_values(found[0], x.astype(whole).astype(F8))


ONE = np.ones(1000)
HOLED = np.where(np.arange(1000) == 500, 0.0, 1.0)
MISSING = np.where(np.arange(1000) == 500, np.nan, 1.0)
SELECTED = Program(  # where(b != 0, a / b, 0)
    (F8, F8, F8),
    (
        binary(np.divide, 0, 1),
        Step(np.not_equal, (1, 2), (F8, F8, B)),
        Step(WHERE, (4, 3, 2), (B, F8, F8, F8)),
    ),
    ((5, None),),
)


def test_a_division_that_is_not_selected_is_reported_as_numpy_reports_it():
    zero = np.array(0.0)
    assert said(SELECTED, [ONE, HOLED, zero]) == ["divide by zero encountered in divide"]
    assert said(SELECTED, [ONE, ONE, zero]) == []
    assert said(SELECTED, [ONE, HOLED, zero], divide="ignore") == []
    with config.set(kernels="native"), np.errstate(divide="raise"):
        with pytest.raises(FloatingPointError, match="^divide by zero encountered in divide$"):
            run_program(SELECTED, [ONE, HOLED, zero])


@pytest.mark.parametrize(
    "ufunc", [np.less, np.greater_equal, np.equal, np.maximum, np.minimum, np.isnan]
)
def test_comparisons_with_nan_are_silent_and_need_no_second_run(ufunc, monkeypatch):
    count = ufunc.nin
    of = F8 if ufunc in (np.maximum, np.minimum) else B
    step = Step(ufunc, tuple(range(count)), (F8,) * count + (of,))
    program = Program((F8,) * count, (step,), ((count, None), (count, Reduction(MAX, (0,), of))))
    from lazyflow.array.kernels import run as module

    def refused(*given):
        raise AssertionError("the kernel raised a flag")

    blocks = [MISSING, np.array(0.5)][:count]
    with config.set(kernels="native"), monkeypatch.context() as patched:
        patched.setattr(module, "find_reports", refused)
        run_program(program, blocks)
    assert said(program, blocks) == []


@pytest.mark.parametrize("axis", [0, 1])
def test_moments_of_no_elements_are_silent_and_need_no_second_run(axis, monkeypatch):
    from lazyflow.array.kernels import run as module

    mask = np.random.default_rng(0).random((500, 250)) < 0.3  # in parts of it, none of a column
    mask[:, 3] = mask[7] = False
    program = Program((F8, B), (), ((0, Reduction(MOMENTS, (axis,), F8, 1)),))

    def refused(*given):
        raise AssertionError("the kernel raised a flag")

    blocks = [np.ones(mask.shape), mask]
    with config.set(kernels="native"), monkeypatch.context() as patched:
        patched.setattr(module, "find_reports", refused)
        (found,) = run_program(program, blocks)
    np.testing.assert_array_equal(found[0], mask.sum(axis, keepdims=True))


@pytest.mark.parametrize(
    ("step", "value", "words"),
    [
        (Step(np.exp, (0,), (F8, F8)), 1e3, "overflow encountered in exp"),
        (Step(np.log, (0,), (F8, F8)), 0.0, "divide by zero encountered in log"),
        (Step(np.sqrt, (0,), (F8, F8)), -1.0, "invalid value encountered in sqrt"),
        (Step(np.square, (0,), (F8, F8)), 1e200, "overflow encountered in square"),
        (Step(CAST, (0,), (F8, I4)), np.nan, "invalid value encountered in cast"),
        (binary(np.floor_divide, 0, 0), 0.0, "invalid value encountered in floor_divide"),
    ],
)
def test_what_one_element_raises_is_reported(step, value, words):
    x = np.where(np.arange(1000) == 777, value, 1.0)
    assert said(Program((F8,), (step,), ((1, None),)), [x]) == [words]


@pytest.mark.parametrize("shape", [(90_000,), (1, 90_000), (300, 300), (3, 1, 30_000)])
def test_a_block_that_raises_is_not_run_again_whole(shape, monkeypatch):
    from lazyflow.array.kernels import run as module

    x = np.full(shape, 2.0)
    x.flat[x.size // 200], x.flat[x.size // 100] = 0, -1
    y = np.full(shape[-1:], 3.0)
    steps = (binary(np.divide, 1, 0), Step(np.sqrt, (2,), (F8, F8)), binary(np.add, 3, 2))
    program = Program((F8, F8), steps, ((4, None), (3, Reduction(MAX, (0,), F8))))
    words = ["divide by zero encountered in divide", "invalid value encountered in sqrt"]
    assert said(program, [x, y]) == words
    calls = []
    original, whole = module.find_reports, module.run_whole
    with config.set(kernels="native"), monkeypatch.context() as patched:
        patched.setattr(module, "find_reports", lambda *given: calls.append(1) or original(*given))
        patched.setattr(module, "run_whole", lambda *given: calls.append(2) or whole(*given))
        with np.errstate(all="call", call=lambda text, _: calls.append(text)):
            found = run_program(program, [x, y])
        assert calls == [1, *[text.partition(" encountered")[0] for text in words]]
        with np.errstate(invalid="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(FloatingPointError, match="^invalid value encountered in sqrt$"):
                run_program(program, [x, y])
    with np.errstate(all="ignore"):
        same_values(found[0], np.sqrt(y / x) + y / x)


def test_what_only_reductions_raise_is_reported():
    x = np.full(90_000, 1e306)
    steps = (binary(np.add, 0, 0), binary(np.divide, 2, 1))
    program = Program((F8, F8), steps, ((2, Reduction(SUM, (0,), F8)), (3, None)))
    zero = np.where(np.arange(x.size) == 9, 0.0, 1.0)
    assert said(program, [x, zero]) == ["divide by zero encountered in divide",
                                        "overflow encountered in reduce"]


def test_overflow_of_a_sum_is_reported_once():
    program = Program((F8,), (binary(np.add, 0, 0),), ((1, Reduction(SUM, (0,), F8)),))
    assert said(program, [np.full(200_000, 1e305)]) == ["overflow encountered in reduce"]


SIX = Program(
    (F8,) * 4,
    (
        binary(np.subtract, 0, 2),
        binary(np.multiply, 4, 1),
        binary(np.divide, 0, 3),
        binary(np.add, 5, 6),
    ),
    ((7, Reduction(SUM, (0,), F8)),),
)
BLOCKS = [*np.random.default_rng(1).standard_normal((2, 1_000_000)), *map(np.array, (0.5, 3.0))]


_made = itertools.count(1)


def fresh():
    """Return a program unlike all before, which no kernel was compiled for."""
    steps = list(SIX.steps)
    for _ in range(next(_made)):
        steps.append(binary(np.multiply, 3 + len(steps), 2))
    return SIX._replace(steps=tuple(steps), outputs=((3 + len(steps), Reduction(SUM, (0,), F8)),))


def test_kernels_are_compiled_behind_blocks_that_go_on_by_numpy():
    program = fresh()
    assert "no kernel yet" in report(program, BLOCKS)
    first = run_program(program, BLOCKS)
    assert wait_compiled(60)
    assert "by a kernel" in report(program, BLOCKS)
    same_values(run_program(program, BLOCKS)[0], first[0])
    with config.set(kernels="numpy"):
        same_values(run_program(program, BLOCKS)[0], first[0])


def test_a_large_block_waits_for_its_kernel():
    steps = list(fresh().steps)
    while len(steps) < 10:
        steps.append(binary(np.multiply, 3 + len(steps), 2))
    outputs = ((3 + len(steps), Reduction(SUM, (0,), F8)),)
    program = SIX._replace(steps=tuple(steps), outputs=outputs)
    x = np.random.default_rng(0).random(4_000_000)
    run_program(program, [x, x, *BLOCKS[2:]])
    assert "by a kernel, compiled" in report(program, BLOCKS)


def test_threads_that_meet_a_new_kernel_all_get_the_same_values():
    program = fresh()
    with config.set(kernels="numpy"):
        expected = run_program(program, BLOCKS)[0]
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(run_program(program, BLOCKS)[0]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for got in found:
        same_values(got, expected)


def test_waiting_says_when_the_time_was_too_short(monkeypatch):
    gate = Gate()

    def compile_at_the_gate(kernel, folder):
        gate.wait()
        compile_now(kernel, folder)

    compile_now = compiler.compile_now
    monkeypatch.setattr(compiler, "compile_now", compile_at_the_gate)
    run_program(fresh(), BLOCKS)
    assert wait_compiled(0) is False
    gate.open()
    assert wait_compiled(60) is True


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Step(CAST, (0,), (F8, U4)), "astype from float64 to uint32 is done by NumPy"),
        (Step(np.fmax, (0, 0), (F8,) * 3), "fmax of float64, float64 can't be called from a ker"),
        (Step(BlockFunction(np.copy), (0,), (F8, F8)), "copy is a function of whole blocks"),
    ],
)
def test_where_there_is_no_kernel_the_report_and_the_error_say_why(step, words):
    program = Program((F8,), (step,), ((1, None),))
    with config.set(kernels="native"):
        with pytest.raises(RuntimeError, match=f"^no kernel for this expression: {words}"):
            run_program(program, [ONE])
    assert words in report(program, [np.ones(100_000)])


def test_a_report_says_what_a_run_does_that_asks_for_kernels(monkeypatch):
    monkeypatch.setattr(native_kernels, "_known", Recent(9))  # no test before has compiled it
    program = Program((F8, F8), (binary(np.hypot, 0, 1),), ((2, None),))
    blocks = [ONE[:100], ONE[:100]]
    with config.set(kernels="native"):
        assert report(program, blocks).endswith("by a kernel, which the first run compiles")
        run_program(program, blocks)
        assert re.search(r"by a kernel, compiled in \d+ ms$", report(program, blocks))
    assert "by NumPy's functions: kernels gain from 16,384" in report(program, blocks)
    assert "by NumPy's functions: there is one op" in report(program, [np.ones(100_000)] * 2)


def test_the_report_has_numbers():
    with config.set(kernels="native"):
        run_program(SIX, BLOCKS)
    words = report(SIX, BLOCKS)
    assert words.startswith("4 operations and sum over 1,000,000 elements, 16 MB read: by a kern")
    assert report(SIX, [x[:10] if x.ndim else x for x in BLOCKS]) == (
        "4 operations and sum over 10 elements, 160 bytes read: by NumPy's functions: kernels "
        "gain from 16,384 elements on"
    )


RUN = """
import numpy as np
import lazyflow.array as la
from lazyflow import config
from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native import kernels as native_kernels
from lazyflow.array.kernels.order import SUM, Reduction
from lazyflow.array.kernels.program import Program, Step
from lazyflow.array.kernels.run import run_program
F8 = np.dtype("f8")
steps = (Step(np.multiply, (0, 0), (F8,) * 3), Step(np.arcsinh, (1,), (F8, F8)))
program = Program((F8,), steps, ((2, Reduction(SUM, (0,), F8)),))
kernels = []
make = compiler._make
def seen(engine, kernel, folder):
    kernels.append(kernel)
    make(engine, kernel, folder)
compiler._make = seen
with config.set(kernels="native"):
    print(run_program(program, [np.arange(1000.0) / 1000])[0][0].hex())
print(kernels[0].state, kernels[0].from_disk)
"""


def started(folder):
    return subprocess.Popen(
        [sys.executable, "-c", RUN],
        env={**os.environ, "XDG_CACHE_HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process):
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.split()


def test_kernels_on_disk_serve_the_next_process_and_damaged_ones_are_made_again(tmp_path):
    files = tmp_path / "lazyflow" / "kernels"
    value, *how = ended(started(tmp_path))
    assert how == ["ready", "False"]
    (name,) = os.listdir(files)
    kept = (files / name).read_bytes()
    assert ended(started(tmp_path)) == [value, "ready", "True"]
    for damage in (b"", kept[:-1], kept[:-1] + b"?", b"?" + kept[1:]):
        (files / name).write_bytes(damage)
        assert ended(started(tmp_path)) == [value, "ready", "False"]
        assert (files / name).read_bytes() == kept
        assert os.listdir(files) == [name]


def test_what_others_could_have_written_is_not_run(tmp_path):
    files = tmp_path / "lazyflow" / "kernels"
    value, *_ = ended(started(tmp_path))
    (name,) = os.listdir(files)
    os.chmod(files / name, 0o622)
    assert ended(started(tmp_path)) == [value, "ready", "False"]
    assert ended(started(tmp_path)) == [value, "ready", "True"]


@pytest.mark.parametrize("what", ["link to a folder", "link to a file", "pipe", "another's kernel"])
def test_what_is_no_kernel_of_that_name_is_not_run(tmp_path, what):
    """Nor waited for. Where others may write, they can put it there."""
    files = tmp_path / "lazyflow" / "kernels"
    value, *_ = ended(started(tmp_path))
    (name,) = os.listdir(files)
    aside = tmp_path / "aside"
    if what == "link to a folder":
        files.rename(aside)
        files.symlink_to(aside)
    else:
        (files / name).rename(aside)
        if what == "link to a file":
            (files / name).symlink_to(aside)
        elif what == "pipe":
            os.mkfifo(files / name)
        else:  # whole, and of this user, but it has no function of this name
            compiler.write(str(files), "k" + "0" * 48, b"other code")
            (files / ("k" + "0" * 48)).rename(files / name)
    assert ended(started(tmp_path)) == [value, "ready", "False"]


@pytest.mark.parametrize("home", [{}, {"XDG_CACHE_HOME": "relative"}])
def test_a_user_without_a_home_has_no_kernels_on_disk(tmp_path, monkeypatch, home):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, found in home.items():
        monkeypatch.setenv(name, found)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with config.set(kernel_cache=None):
        assert compiler.folder() is None


def test_the_files_that_were_used_last_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(compiler, "_MOST", 20)
    folder = str(tmp_path / "kernels")
    for k in range(100):
        compiler.write(folder, f"k{k}", b"code %d" % k)
        os.utime(os.path.join(folder, f"k{k}"), (k, k))
        assert compiler.read(folder, "k0") == b"code 0"
        assert len(os.listdir(folder)) <= 20
    assert compiler.read(folder, "k99") == b"code 99"
    assert compiler.read(folder, "k50") is None


def test_kernels_that_nobody_uses_are_freed(monkeypatch):
    """The code of 8 to 16 is kept; what runs is never freed."""
    monkeypatch.setattr(native_kernels, "_known", Recent(8))
    monkeypatch.setattr(run_module, "_known", Recent(8))
    block = np.linspace(0, 1, 1000)
    gc.collect()
    before = len(compiler._loaded)
    with config.set(kernels="native", kernel_cache=False):
        for k in range(40):
            ops = [np.add if k >> n & 1 else np.multiply for n in range(6)]
            steps = tuple(Step(op, (n, 0), (F8,) * 3) for n, op in enumerate(ops))
            (found,) = run(Program((F8,), steps, ((6, None),)), [block])
            expected = block
            for op in ops:
                expected = op(expected, block)
            same_values(found, expected)
            gc.collect()
            assert len(compiler._loaded) - before <= 16
            assert len(compiler._dropped) <= 9


def test_processes_at_once_do_not_disturb_each_other(tmp_path):
    found = [ended(process)[:2] for process in [started(tmp_path) for _ in range(3)]]
    assert found == [[found[0][0], "ready"]] * 3
    assert len(os.listdir(tmp_path / "lazyflow" / "kernels")) == 1


def test_a_folder_that_cannot_be_made_is_as_none(tmp_path):
    (tmp_path / "lazyflow").write_text("in the way")
    assert ended(started(tmp_path))[1:] == ["ready", "False"]


ENDING = """
import atexit
import numpy as np
from lazyflow.array.kernels.native import compiler
from lazyflow.array.kernels.native import kernels as native_kernels
from lazyflow.array.kernels.order import MAX, Reduction
from lazyflow.array.kernels.program import Program, Step
from lazyflow.array.kernels.native.compiler import wait_compiled
from lazyflow.array.kernels.run import run_program
F8 = np.dtype("f8")
x = np.arange(100_000.0)
def run(times):
    operands = [(n, 0) for n in range(times)]
    steps = tuple(Step(np.add, pair, (F8,) * 3) for pair in operands)
    program = Program((F8,), steps, ((times, Reduction(MAX, (0,), F8)),))
    for _ in range(30):
        found = run_program(program, [x])
    return found[0][0] == (times + 1) * x[-1]
atexit.register(lambda: print(run(4), run(5), end=" "))
print(run(2), end=" ")
if WAIT:
    wait_compiled()
print(run(3), end=" ")
"""


@pytest.mark.parametrize("wait", [False, True])
def test_a_program_may_end_at_any_time(wait, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ENDING.replace("WAIT", str(wait))],
        env={
            **os.environ,
            "XDG_CACHE_HOME": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True True True ", "")


def test_a_forked_child_compiles_and_runs():
    programs = [fresh() for _ in range(5)]
    for program in programs[1:]:  # the first of these is being compiled while the process forks
        run_program(program, BLOCKS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads are there, that's it
        child = os.fork()
    if not child:
        good = False
        try:
            good = all(runs_by_a_kernel(program) for program in programs)
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert all(map(runs_by_a_kernel, programs[1:]))


def runs_by_a_kernel(program):
    first = run_program(program, BLOCKS)[0]
    wait_compiled(30)
    return "by a kernel" in report(program, BLOCKS) and run_program(program, BLOCKS)[0] == first


WITHOUT_POINTERS = """
import warnings
import llvmlite.binding as llvm
import numpy as np
parse = llvm.parse_assembly
def of_llvm_14(text):
    if "ptr" in text:
        raise RuntimeError("LLVM IR parsing error\\n<string>:1:20: error: expected type")
    return parse(text)
llvm.parse_assembly = of_llvm_14
import lazyflow.array as la
from lazyflow import LazyflowWarning
x = np.arange(1e6)
a = la.from_array(x, chunks=10**5)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    sums = [float((np.exp(-a) * i).max().compute()) for i in range(3)]
    la.wait_compiled(30)
    counts = la.histogram(a, bins=3, range=(0, 1e6))[0].compute()
print(sums, counts.tolist(), [each.category is LazyflowWarning for each in said])
print(said[0].message)
"""


def test_an_llvm_that_compiles_no_kernel_is_reported_once():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POINTERS], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, said = done.stdout.splitlines()
    assert first == "[0.0, 1.0, 2.0] [333334, 333333, 333333] [True]"
    assert said.startswith("no kernel for arrays can be compiled here (RuntimeError: LLVM IR")
    assert "type: pip install 'llvmlite>=0.45' 'numba>=0.62'; or lazyflow.config.set(" in said
