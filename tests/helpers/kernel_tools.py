"""Random fused programs, and what NumPy makes of them."""

import warnings

import numpy as np

from lazyflow.array.kernels.program import CAST, WHERE, Step
from lazyflow.array.kernels.run import run_program

B, F8 = np.dtype(bool), np.dtype("f8")
DTYPES = [
    np.dtype(name) for name in ["bool", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c16"]
]
#: Not power: what it gives depends on the strides of exponents.
BINARY = [
    *(np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.floor_divide),
    *(np.less, np.greater_equal, np.equal, np.remainder, np.logical_and, np.bitwise_xor),
    *(np.arctan2, np.left_shift, np.copysign, np.hypot, np.fmax, np.not_equal),
]
UNARY = [
    *(np.negative, np.abs, np.sqrt, np.exp, np.tanh, np.sin, np.isnan, np.square, np.floor),
    *(np.sign, np.logical_not, np.reciprocal, np.invert, np.signbit, np.isfinite, np.rint),
]
SHAPES = [(), (0,), (3, 0), (7, 3), (1000,), (70_000,), (300, 400), (3, 40_000), (30, 50, 60)]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0]


def values(rng, dtype, shape):
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(-100 if dtype.kind == "i" else 0, 100, shape).astype(dtype)
    found = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)
    if dtype.kind == "c":
        found = found + 1j * rng.standard_normal(shape)
    special = rng.choice(np.array(SPECIAL, dtype), shape)
    return np.where(rng.random(shape) < 0.02, special, found).astype(dtype)


def laid_out(rng, dtype, shape):
    """Return values that broadcast to the shape, in one of the ways that arrays lie in memory."""
    way = rng.integers(8)
    if way == 0:
        return values(rng, dtype, ())
    if way == 1:
        return values(rng, dtype, (1, *shape[1:]) if shape else ())
    if way == 2:
        return values(rng, dtype, (*shape[:-1], 1) if shape else ())
    if way == 3:
        return values(rng, dtype, [2 * n for n in shape])[tuple([np.s_[::2]] * len(shape))]
    if way == 4:
        return values(rng, dtype, shape)[tuple([np.s_[::-1]] * len(shape))]
    if way == 5:
        return values(rng, dtype, shape[::-1]).T
    return values(rng, dtype, shape)


def random_step(rng, made):
    """Return a step and its value as NumPy computes it, or None where NumPy refuses."""
    which = rng.random()
    count = 2 if which < 0.5 else 3 if which < 0.6 else 1
    numbers = tuple(int(n) for n in rng.integers(len(made), size=count))
    operands = [made[n] for n in numbers]
    dtypes = [x.dtype for x in operands]
    if count == 3:
        common = np.result_type(*dtypes[1:])
        loop = (B, common, common, common)
        found = np.where(*(x.astype(d) for x, d in zip(operands, loop, strict=False)))
        return Step(WHERE, numbers, loop), found
    if which > 0.9:
        loop = (dtypes[0], DTYPES[rng.integers(len(DTYPES))])
        return Step(CAST, numbers, loop), operands[0].astype(loop[1])
    ufunc = rng.choice(BINARY if count == 2 else UNARY)
    try:
        loop = ufunc.resolve_dtypes((*dtypes, None))
        return Step(ufunc, numbers, loop), np.asarray(ufunc(*operands))
    except (TypeError, ValueError):  # no loop; integers to negative powers
        return None


def random_program(rng, shape, most=12):
    """Return inputs, steps, and all values."""
    first = values(rng, DTYPES[rng.integers(len(DTYPES))], shape)
    others = [
        laid_out(rng, DTYPES[rng.integers(len(DTYPES))], shape) for _ in range(rng.integers(3))
    ]
    made, steps = [first, *others], []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        for _ in range(rng.integers(most + 1)):
            step = random_step(rng, made)
            if step is not None:
                steps.append(step[0])
                made.append(step[1])
    return [first, *others], steps, made


def run(program, blocks):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        return run_program(program, blocks)


def dtypes_of(blocks):
    return tuple(x.dtype for x in blocks)
