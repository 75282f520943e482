"""Chunked arrays with NumPy's semantics: whole expressions become one kernel per chunk.

    >>> import lazyflow.array as la
    >>> x = la.arange(10.0, chunks=4)
    >>> ((x - x.mean()) ** 2).sum().compute()
    np.float64(82.5)

Types, shapes and bits equal NumPy's, with the exceptions listed here; any other difference is a
bug. In the bounds, eps is the machine precision of the dtype of the result.

Sums of floats (`sum`, `add.reduce`, `mean`, `average`, `trapezoid`, `nansum`, `pad` by means, ...)
    are added in pairs, in lazyflow's own order. That is NumPy's order too, for sums along the last
    axes where these have up to 2,048 elements in a block. (If all that is added lies in another
    order than C's, the last axes are those that come last in memory.)
    The error is at most 4 eps times the sum of the absolute values, divided by their number for
    means. NumPy's is as small, except along axes other than the last, where it adds one by one. So
    intermediate overflow may come earlier or later.
`var`, `std`, `nanvar`, `nanstd`, `cov`, `corrcoef`
    are merged from those of blocks, in double precision at least: within a relative
    ``eps * (8 + |mean| / deviation)``. If the square of ``eps * |mean|`` overflows, as from
    1e170 on, equal values may give 0 or inf, as with NumPy. float32 and float16, as elements or as
    `dtype`, have no intermediate overflow; NumPy's sum does. An integer `dtype`, or a real `dtype`
    for complex elements, casts the elements first.
`prod`, `cumsum`, `cumprod` and other scans, `reduce` of `hypot`, `subtract` and `logaddexp`
    of n floats: within a relative n * eps; for sums, relative to the sum of the absolute values.
    Intermediate overflow may come earlier or later, and 0 times infinity is NaN. Products of
    complex numbers, and sums and products of objects, take their axes as one chunk, in NumPy's
    order.
`matmul`, `dot`, `inner`, `tensordot`, `vdot`, `einsum`
    of floats: within n * eps of the products of absolute values of n pairs. NumPy's BLAS library
    computes them, for blocks instead of the whole, so these may differ: the sign of a zero, and
    which parts of infinite or NaN complex numbers are NaN. A part of such a product, or of a sum,
    may be computed from other blocks than the whole, within the same bound.
Zeros of both signs
    are equal: `min`, `max`, `fmin`, `clip`, `unique` and sorts may give either, as in NumPy, where
    it depends on the place in a vector. The order of complex NaN is just as undefined.
Casts of floats to unsigned integers that can't hold them, and of NaN to integers
    are undefined in C: the results are NumPy's for contiguous arrays of a block's length, and
    NumPy's for other arrays differ.
Exponentials, logarithms, powers, trigonometric and hyperbolic functions
    (`exp`, `exp2`, `expm1`, `log`, `log2`, `log10`, `log1p`, `logaddexp`, `power`, `float_power`,
    `hypot`, `sin`, `cos`, `tan`, `arctan`, `arctan2`, `sinh`, `cosh`, `tanh`) of float64 and
    float32 are lazyflow's own vectorised functions, within 1 unit in the last place of the true
    value, except `logaddexp` where its value is nearly 0; `sinc` is built on `sin`.
    They have the same bits in any chunks, fused or not, on any scheduler, and on all processors
    that multiply and add in one step. ``lazyflow.config.set(math="numpy")`` selects NumPy's, which
    may differ by some units and between processors; they are also used where no kernel can be
    compiled.
Other functions
    differ by some units in the last place where NumPy itself does: on negative or wide strides.
`arctan2.reduce`, `power.reduce`
    are NumPy's of the block: in NumPy 2.4 they depend on whether one row is reduced or several.
Histograms with weights of floats, or of integers that overflow within 65,536 elements
    are added up by blocks, like sums.
Results in memory
    have the order of their operands if all have the same one, such as Fortran order or
    transposed, and else C order, even where NumPy's would be a view.
NumPy arrays as operands
    (all arrays passed to functions, operators and assignments, and arguments of your own
    functions) are snapshots: a later write into them changes no expression. Arrays of up
    to 64 KiB are copied. Larger ones are read where they are, and a write into one before the
    expression is computed raises `InputMutated`: pass a copy, ``x + b.copy()``. Only `from_array`,
    `asarray` and ``array(copy=False)`` refer to the memory itself: its values count when a task
    reads them. The rule is the same on all schedulers.
Blocks of other kinds than NumPy's arrays
    (of scipy.sparse, pydata's sparse, CuPy) come from `from_array`, and from functions of your own:
    found by ``meta=``, or by trying the function. Slices, joins, transposes, chunks, ufuncs, sums
    and other simple reductions, and products are computed by their own library, and so is the
    result of `compute`. Everything else raises TypeError and names `map_blocks`; only `todense`
    makes NumPy's arrays of them.
Views
    are those of NumPy: a write into ``x[1:3]``, ``x.T``, ``x['field']``, ``x.real`` or a reshape
    without a copy writes into `x`, and they show later writes into `x`. Arrays computed from views,
    or made by index arrays, `copy`, `flatten`, `rechunk` or `persist`, are independent of `x`.
    ``x.flat`` is computed, and refuses writes. Results that are read-only in NumPy (`broadcast_to`,
    `diagonal`, windows) are independent arrays here.
The Array API standard, version 2024.12
    has its names, keywords and types here. Where it and NumPy differ, NumPy's rules hold: `argsort`
    keeps the order of equal elements with ``stable=True`` only, and ``inf // 1`` is NaN. A length
    that depends on values is None in `shape`; for scikit-learn, which counts classes by it, it is
    computed.
Results without axes
    stay arrays without axes until they are computed, and are then scalars of native byte order.
"""

# From the bottom up; a test holds imports to it:
#
#   chunks, kernels/    sizes of chunks; programs of steps over blocks, by NumPy or generated code
#   nodes/              expressions, their kinds, and the tasks that each makes
#   passes/             rewrites of expressions before they become tasks; fusion is the last
#   evaluation          from wanted expressions to tasks and results; unknown lengths
#   core, dispatch      Array, and how it finds functions; aliases, as_objects, foreign and
#                       numba_type: what else NumPy, Numba and dask ask of it
#   functions/          functions of arrays, by NumPy's chapters
#   users/, overlap     functions of users' own on blocks, windows and elements
#   random/, linalg/    random arrays; matrices
#   fft, ma, stats      Fourier transforms; arrays with masks; statistical tests
#   other_kinds         arrays whose blocks are sparse matrices or CuPy's arrays
#
# Where to look:
#
#   elementwise steps are fused     passes/fusion.py: `fuse`
#   views and reshapes move down    passes/rewrites.py: `views_down`, `reshapes_down`
#   a reduction is divided, merged  nodes/reductions.py: `Reduced` (ufuncs, moments), `Tree`;
#                                   within a block: kernels/order.py; the arithmetic of merging:
#                                   kernels/run.py: `merge`, kernels/order.py: `merge_parts`
#   chunks are chosen               chunks.py: `normalize_chunks`; for several operands
#                                   nodes/align.py: `common_chunks`; once more where steps are
#                                   fused: passes/fusion.py: `better_chunks`
#   `x[mask]` is taken              functions/indexing/taking.py, which names.py gives to core.py;
#                                   then functions/indexing/index_arrays.py: `take_by_mask` and
#                                   nodes/indexing/masks.py
#   `x[mask]` gets its length       evaluation.py: `resolve_lengths`
#   a kernel or NumPy runs a step   kernels/native/kernels.py: `PlanKernels.decide`
#   a call finds its function       dispatch.py: `functions`, by the table in names.py
#
# The modules of functions, and those that make and run kernels, are loaded on first use.

import builtins
from importlib.util import find_spec
from typing import Any

import numpy as np

from lazyflow.api.evaluate import compute as compute
from lazyflow.api.evaluate import persist as persist
from lazyflow.array.core import Array as Array
from lazyflow.array.dispatch import functions as _functions
from lazyflow.array.names import MODULES, OF_NUMPY, PUBLIC, UFUNCS, by_name

__array_api_version__ = "2024.12"

_BY_NAME = by_name(PUBLIC)
_PUBLIC = {"compute", "persist", *_BY_NAME, *UFUNCS, *MODULES, *OF_NUMPY.split()}

#: A star gets all but what Python has under the same name: ``sum`` stays Python's.
__all__ = sorted(name for name in _PUBLIC if not (hasattr(builtins, name) or name[0] == "_"))


def __getattr__(name: str) -> Any:
    if name in UFUNCS:
        from lazyflow.array.functions.ufuncs import BY_NAME

        found: Any = BY_NAME[name]
    elif name in _BY_NAME:
        found = _functions[name]
    elif name in _PUBLIC and name not in MODULES:
        found = getattr(np, name)
    elif name == "lib":  # where xarray looks for windows; its functions dispatch to ours
        found = np.lib
    elif name == "random":
        import lazyflow.array.random as found
    elif name == "fft":
        import lazyflow.array.fft as found
    elif name == "ma":
        import lazyflow.array.ma as found
    elif name == "stats":
        import lazyflow.array.stats as found
    elif name == "overlap":
        import lazyflow.array.overlap as found
    elif name == "linalg":
        import lazyflow.array.linalg as found
    else:
        hint = "."
        if find_spec(f"{__name__}.{name}") is None:  # else Python asks, before it imports a module
            from lazyflow.array.names import not_there_yet

            hint = not_there_yet(name, _PUBLIC)
        raise AttributeError(f"module 'lazyflow.array' has no attribute {name!r}{hint}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*_PUBLIC, *(name for name in globals() if name.startswith("__"))})
