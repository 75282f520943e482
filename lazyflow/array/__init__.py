"""Chunked arrays with NumPy's semantics: whole expressions become one kernel per chunk.

    >>> import lazyflow.array as la
    >>> x = la.arange(10.0, chunks=4)
    >>> ((x - x.mean()) ** 2).sum().compute()
    np.float64(82.5)

Types, shapes and bits are those of NumPy but for what is listed here; any other difference is a
bug. In the bounds, eps is the machine precision of the dtype of the result.

Sums of floats (`sum`, `add.reduce`, `mean`, `average`, `trapezoid`, `nansum`, `pad` by means, ...)
    are added in pairs, in an order of their own (along the last axes of up to 2,048 elements of a
    block it is NumPy's; the last in memory, where all that is added up lies in another order than
    C's). They are within 4 eps of the sum of the absolute values, divided by their number for
    means. NumPy's are as near, except along axes other than the last, where it adds one by one. So
    overflow on the way may come earlier or later.
`var`, `std`, `nanvar`, `nanstd`, `cov`, `corrcoef`
    are merged from those of blocks, in double precision at least: within
    ``eps * (8 + |mean| / deviation)``, relatively. Where the square of ``eps * |mean|`` overflows,
    as from 1e170 on, equal values may give 0 or inf, as with NumPy. float32 and float16, of
    elements or as `dtype`, do not overflow on the way, as NumPy's sum does. A `dtype` of whole
    numbers, or a real one of complex numbers, casts the elements first.
`prod`, `cumsum`, `cumprod` and other scans, `reduce` of `hypot`, `subtract` and `logaddexp`
    of floats: within n * eps, relatively, of n elements; for sums, of the absolute values. Overflow
    on the way may come earlier or later, and 0 times infinity is NaN. Products of complex numbers,
    and sums and products of objects, take their axes as one chunk, in NumPy's order.
`matmul`, `dot`, `inner`, `tensordot`, `vdot`, `einsum`
    of floats: within n * eps of the products of absolute values of n pairs. They are computed by
    NumPy's BLAS library, but for other shapes, so the sign of a zero may differ, and which parts of
    infinite or NaN complex numbers are NaN. A part of such a product, or of a sum, may be computed
    from other blocks than the whole, and is within the same bound.
Zeros of both signs
    are equal: `min`, `max`, `fmin`, `clip`, `unique` and sorts may give either, as in NumPy, where
    it depends on the place in a vector. The order of complex NaN is as open.
Casts of floats to unsigned numbers that they are too large for, NaN to whole numbers
    are undefined in C: they are those of NumPy for contiguous arrays as long as a block, which
    differ from those of other arrays.
Exponentials, logarithms, powers, trigonometric and hyperbolic functions
    (`exp`, `exp2`, `expm1`, `log`, `log2`, `log10`, `log1p`, `logaddexp`, `power`, `float_power`,
    `hypot`, `sin`, `cos`, `tan`, `arctan`, `arctan2`, `sinh`, `cosh`, `tanh`) of float64 and
    float32 are vectorised functions of our own, within 1 unit in the last place of the true value,
    but for `logaddexp` where it is nearly 0; `sinc` is made of `sin`. They have the same bits in
    any chunks, fused or not, on any scheduler, and on all processors that multiply and add in one
    step. NumPy's, which may differ by some units and from processor to processor, are used with
    ``lazyflow.config.set(math="numpy")``, and where no kernel can be compiled.
Other functions
    differ by some units in the last place where NumPy itself does: on negative or wide strides.
`arctan2.reduce`, `power.reduce`
    are NumPy's of the block: in NumPy 2.4 they depend on whether one row is reduced or several.
Histograms with weights of floats, or of whole numbers that overflow within 65,536 elements
    are added up by blocks, as sums.
Results in memory
    lie in the order of their operands where these have one and the same, as in Fortran order or
    transposed, and else in C order, also where NumPy's would be a view.
Operands that are NumPy's
    (all arrays that functions, operators and assignments take in, and those among the arguments of
    one's own functions) are snapshots: a later write into them changes no expression. Arrays of up
    to 64 KiB are copied, larger ones are read where they are, and a write into one before the
    expression is computed raises `InputMutated`: give it a copy, ``x + b.copy()``. `from_array`,
    `asarray` and ``array(copy=False)`` alone stand for the memory that they are given, as it is
    when it is read. The rule is the same on all schedulers.
Views
    are those of NumPy: a write into ``x[1:3]``, ``x.T``, ``x['field']``, ``x.real`` or a reshape
    that copies nothing is one into `x`, and they show what is written into `x`. What was computed
    of them, or is made by index arrays, `copy`, `flatten`, `rechunk` or `persist`, is an array of
    its own. ``x.flat`` is computed, and refuses writes. What is read-only in NumPy (`broadcast_to`,
    `diagonal`, windows) is an array of its own here.
Results without axes
    are arrays without axes until they are computed, and elements of native byte order then.
"""

# From the bottom up; a test holds imports to it:
#
#   chunks, kernels/    sizes of chunks; programs of steps over blocks, by NumPy or generated code
#   nodes/              expressions, their kinds, and the tasks that each makes
#   passes/             cheaper equals of expressions
#   evaluation/         from wanted expressions to results
#   core, dispatch      Array, and how it finds functions
#   functions/          functions of arrays, by NumPy's chapters
#   users/, overlap     functions of users' own on blocks, windows and elements
#   random/             random arrays
#
# Functions are found by the table in names.py; their modules, and what makes and runs kernels, are
# loaded when they are first needed.

import builtins
from importlib.util import find_spec
from typing import Any

import numpy as np

from lazyflow.api.evaluate import compute as compute
from lazyflow.api.evaluate import persist as persist
from lazyflow.array.core import Array as Array
from lazyflow.array.dispatch import functions as _functions
from lazyflow.array.names import MODULES, OF_NUMPY, PUBLIC, by_name

_UFUNCS = {
    name for name, found in vars(np).items()
    if isinstance(found, np.ufunc) and found.signature is None
}

_BY_NAME = by_name(PUBLIC)
_PUBLIC = {"compute", "persist", *_BY_NAME, *_UFUNCS, *MODULES, *OF_NUMPY.split()}

#: A star gets all but what Python has under the same name: ``sum`` stays Python's.
__all__ = sorted(name for name in _PUBLIC if not hasattr(builtins, name))


def __getattr__(name: str) -> Any:
    if name in _UFUNCS:
        from lazyflow.array.functions.ufuncs import UFUNCS

        found: Any = UFUNCS[name]
    elif name in _BY_NAME:
        found = _functions[name]
    elif name in _PUBLIC and name not in MODULES:
        found = getattr(np, name)
    elif name == "random":
        import lazyflow.array.random as found
    elif name == "overlap":
        import lazyflow.array.overlap as found
    else:
        hint = "."
        if find_spec(f"{__name__}.{name}") is None:  # else Python asks, before it imports a module
            from lazyflow.array.missing import not_there_yet

            hint = not_there_yet(name, _PUBLIC)
        raise AttributeError(f"module 'lazyflow.array' has no attribute {name!r}{hint}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*_PUBLIC, *(name for name in globals() if name.startswith("__"))})
