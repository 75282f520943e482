"""Which module has which function: the one table by which they are found by name.

Modules of functions are loaded when one of their functions is first asked for, as ``la.name``, as
a method of an array or by NumPy: most programs need a few of them. A test reads this table.

Of names that arrays or lazyflow.array do not have, the error says what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import numpy as np

from lazyflow import config

#: What is public, as ``la.name``, by module below this package.
PUBLIC: dict[str, str] = {
    "chunks": "normalize_chunks",
    "core": "Array",
    "functions.arguments": "PerformanceWarning",
    "functions.comparison": "allclose array_equal array_equiv isclose",
    "functions.creation": (
        "array asanyarray asarray empty empty_like eye from_dlpack full full_like identity ones "
        "ones_like tri zeros zeros_like"
    ),
    "functions.differences": (
        "cumprod cumsum cumulative_prod cumulative_sum diff ediff1d gradient nancumprod "
        "nancumsum trapezoid unwrap"
    ),
    "functions.einstein": "einsum einsum_path",
    "functions.elementwise": (
        "angle around astype busday_count busday_offset clip copy datetime_as_string fix i0 "
        "imag is_busday iscomplex isneginf isnull isposinf isreal nan_to_num notnull real round "
        "select sinc where"
    ),
    "functions.histograms": (
        "bincount digitize histogram histogram2d histogram_bin_edges histogramdd interp"
    ),
    "functions.indexing.index_arrays": "argwhere flatnonzero nonzero",
    "functions.indexing.taking": (
        "compress delete diag diagflat diagonal extract insert shuffle take tril triu"
    ),
    "functions.manipulation.joining": (
        "append block column_stack concat concatenate dstack hstack stack vstack"
    ),
    "functions.manipulation.layout": "rechunk unify_chunks",
    "functions.manipulation.padding": "pad",
    "functions.manipulation.rearranging": (
        "array_split dsplit flip fliplr flipud hsplit repeat resize roll rot90 split tile "
        "trim_zeros unstack vsplit"
    ),
    "functions.manipulation.shaping": (
        "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to expand_dims "
        "matrix_transpose moveaxis ndim permute_dims ravel reshape reshape_blockwise rollaxis "
        "shape size squeeze swapaxes transpose"
    ),
    "functions.products": (
        "cross dot inner kron matmul matvec outer tensordot trace vdot vecdot vecmat"
    ),
    "functions.ranges": (
        "arange diag_indices diag_indices_from geomspace indices ix_ linspace logspace "
        "mask_indices meshgrid ravel_multi_index tril_indices tril_indices_from triu_indices "
        "triu_indices_from unravel_index"
    ),
    "functions.reductions.arg_extremes": "argmax argmin nanargmax nanargmin",
    "functions.reductions.means": "average mean moment std var",
    "functions.reductions.quantiles": (
        "median nanmedian nanpercentile nanquantile percentile quantile"
    ),
    "functions.reductions.totals": "all amax amin any count_nonzero max min prod ptp sum",
    "functions.reductions.without_nan": "nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    "functions.report": "report",
    "functions.sequences.bits": "packbits unpackbits",
    "functions.sequences.neighbourhoods": "coarsen push",
    "functions.sequences.polynomials": (
        "convolve correlate polyadd polyder polydiv polyfit polyint polymul polysub polyval "
        "vander"
    ),
    "functions.sets": (
        "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts "
        "unique_inverse unique_values"
    ),
    "functions.sorting": (
        "argpartition argsort argtopk choose lexsort partition searchsorted sort sort_complex "
        "take_along_axis topk"
    ),
    "functions.statistics": "corrcoef cov",
    "functions.storage.files": "from_npy_stack from_zarr to_hdf5 to_npy_stack to_zarr",
    "functions.storage.loading": "from_array from_delayed to_delayed",
    "functions.storage.storing": "store",
    "functions.types": (
        "__array_namespace_info__ can_cast common_type iscomplexobj isrealobj min_scalar_type "
        "result_type"
    ),
    "kernels.native.compiler": "wait_compiled",
    "other_kinds": "todense",
    "overlap": "map_overlap",
    "users.along_axes": (
        "apply_along_axis apply_over_axes frompyfunc piecewise sliding_window_view vectorize"
    ),
    "users.gufuncs": "apply_gufunc as_gufunc gufunc",
    "users.map_blocks": "blockwise fromfunction map_blocks",
    "users.reduction": "reduction",
}

#: What only methods of arrays and functions of NumPy call, by module.
HELPERS: dict[str, str] = {
    "functions.computed": (
        "copyto fill_diagonal may_share_memory numba_value place put put_along_axis putmask "
        "refuse_function shares_memory"
    ),
    "functions.elementwise": "call_ufunc compared conj_of copy_method field power_by",
    "functions.indexing.setitem": "set_item",
    "functions.indexing.taking": "compress_method getitem_by_arrays vindex_of",
    "functions.manipulation.layout": "view_as",
    "functions.manipulation.shaping": "reshape_method",
    "functions.reductions.totals": "ufunc_accumulate ufunc_reduce",
    "functions.storage.files": "to_hdf5_method",
    "functions.ufuncs": "ufunc_method",
    "overlap": "map_overlap_of",
    "users.gufuncs": "call_gufunc",
    "users.map_blocks": "Blocks map_blocks_of",
}

#: NumPy's ufuncs of single elements; other packages put names of theirs into its module.
UFUNCS = frozenset(
    name for name in np.__all__
    if isinstance(found := vars(np).get(name), np.ufunc) and found.signature is None
)

#: Modules that are public themselves.
MODULES = ("fft", "linalg", "ma", "overlap", "random", "stats")

#: Constants and types that are NumPy's.
OF_NUMPY = (
    "e euler_gamma inf nan newaxis pi bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128 dtype errstate iinfo finfo issubdtype isdtype "
    "promote_types broadcast_shapes "
    "byte bytes_ cdouble character clongdouble complexfloating csingle datetime64 double flexible "
    "floating generic half inexact int_ intc integer intp long longdouble longlong number object_ "
    "short signedinteger single str_ timedelta64 ubyte uint uintc uintp ulong ulonglong "
    "unsignedinteger ushort void isscalar iterable ndindex"
)


def by_name(table: dict[str, str]) -> dict[str, str]:
    """Return the module of each name.

    >>> by_name({"joining": "block stack"})
    {'block': 'joining', 'stack': 'joining'}
    """
    return {name: module for module, names in table.items() for name in names.split()}


# -- names that are not there ------------------------------------------------------------------


#: What dask's arrays have under these names.
_OF_DASK = {
    "dask": "x.visualize() draws the graph, la.report(x) says what would run",
    "to_dask_dataframe": "compute first: x.compute()",
    "to_tiledb": "la.store(x, target) writes to what takes slices",
    "to_svg": "x._repr_html_() draws the chunks",
    "name": "the tasks of the blocks have the names: la.to_delayed(x)[0].key",
}

#: What to type for functions of NumPy and dask that there are none of here, several in a row.
_INSTEAD = {name: text for names, text in {
    "save savez savez_compressed": (
        "la.to_npy_stack(folder, x), x.to_zarr(path) and x.to_hdf5(path, name) write chunk by chunk"
    ),
    "savetxt array_repr array_str array2string": "np.{name} of values: pass x.compute() for x",
    "load memmap": "la.from_array(np.load(path, mmap_mode='r'), chunks) reads by chunks",
    "frombuffer fromfile fromiter fromregex fromstring genfromtxt loadtxt": (
        "np.{name} reads into memory: la.from_array(np.{name}(...), chunks)"
    ),
    "asmatrix bmat matrix poly1d recarray": "chunked arrays have no subclasses",
    "flatiter nditer nested_iters ndenumerate broadcast": (
        "x.map_blocks(f) calls a function for each block, la.vectorize(f) for each element"
    ),
    "ascontiguousarray asfortranarray isfortran require": (
        "chunks have no order in memory before they are computed: np.{name}(x.compute())"
    ),
    "asarray_chkfinite": "np.isfinite(x).all() is lazy, too",
    "copyto fill_diagonal place put put_along_axis putmask": (
        "write into an array by x[...] = values, x[mask] = values or "
        "x[...] = la.where(mask, values, x)"
    ),
    "bartlett blackman hamming hanning kaiser": "la.from_array(np.{name}(n), chunks)",
    "poly roots": "whether np.{name} is real depends on the values: pass x.compute() for x",
    "real_if_close": "its type would depend on the values; x.real leaves imaginary parts out",
    "atop": "it is called blockwise",
    "optimize": "la.report(x) says what would run",
    "from_tiledb to_tiledb": "la.from_array(store) and la.store(x, store) take what has slices",
    "assert_eq": "np.testing.assert_array_equal(x.compute(), y)",
    "register_chunk_type": "from_array(x, asarray=False) takes chunks of other types",
}.items() for name in names.split()}


def missing(name: str, known: Iterable[str]) -> str:
    """Return the end of an error for an attribute of arrays that is not there.

    >>> missing("strides", []), missing("summ", ["sum"])
    (': only computed ones have it, x.compute().strides', "; did you mean 'sum'?")
    """
    if name in _OF_DASK:
        return f": {_OF_DASK[name]}"
    if hasattr(np.ndarray, name):
        return f": only computed ones have it, x.compute().{name}"
    return config.nearest(name, known)


def not_there_yet(name: str, known: Iterable[str]) -> str:
    """Return the end of an error for a name that lazyflow.array does not have.

    >>> not_there_yet("shares_memory", [])
    ' yet; for values in memory np.shares_memory(x.compute(), ...)'
    >>> not_there_yet("hanning", [])
    ': la.from_array(np.hanning(n), chunks)'
    """
    found = getattr(np, name, None)
    if name in _INSTEAD:
        return f": {_INSTEAD[name].format(name=name)}"
    if isinstance(found, ModuleType):
        return f" yet; for values in memory np.{name}.f(x.compute(), ...)"
    if hasattr(found, "_implementation"):  # of those that NumPy dispatches
        return f" yet; for values in memory np.{name}(x.compute(), ...)"
    if callable(found):
        return f": np.{name} is NumPy's own, and has nothing to do with chunks"
    return config.nearest(name, known)
