"""Which module has which function: the one table by which they are found by name.

Modules of functions are loaded when one of their functions is first asked for, as ``la.name``, as
a method of an array or by NumPy: most programs need a few of them. A test reads this table.
"""

from __future__ import annotations

#: What is public, as ``la.name``, by module below this package.
PUBLIC: dict[str, str] = {
    "chunks": "normalize_chunks",
    "core": "Array",
    "functions.comparison": "allclose array_equal array_equiv isclose",
    "functions.conversion": "array asanyarray asarray from_dlpack",
    "functions.creation": (
        "empty empty_like eye full full_like identity ones ones_like tri zeros zeros_like"
    ),
    "functions.cumulative": (
        "cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum"
    ),
    "functions.differences": "diff ediff1d gradient trapezoid unwrap",
    "functions.einstein": "einsum einsum_path",
    "functions.elementwise": (
        "angle around astype clip copy imag nan_to_num real round where"
    ),
    "functions.grids": (
        "diag_indices diag_indices_from indices ix_ mask_indices meshgrid ravel_multi_index "
        "tril_indices tril_indices_from triu_indices "
        "triu_indices_from unravel_index"
    ),
    "functions.keywords": "PerformanceWarning",
    "functions.histograms": (
        "bincount digitize histogram histogram2d histogram_bin_edges histogramdd interp"
    ),
    "functions.indexing.nonzero": "argwhere flatnonzero nonzero",
    "functions.indexing.taking": (
        "compress delete diag diagflat diagonal extract insert shuffle take tril triu"
    ),
    "functions.manipulation.axes": (
        "atleast_1d atleast_2d atleast_3d expand_dims matrix_transpose moveaxis permute_dims "
        "rollaxis squeeze swapaxes transpose"
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
        "broadcast_arrays broadcast_to ndim ravel reshape reshape_blockwise shape size"
    ),
    "functions.products": (
        "cross dot inner kron matmul matvec outer tensordot trace vdot vecdot vecmat"
    ),
    "functions.ranges": "arange geomspace linspace logspace",
    "functions.reductions.arg_extremes": "argmax argmin nanargmax nanargmin",
    "functions.reductions.means": "average mean moment std var",
    "functions.reductions.quantiles": (
        "median nanmedian nanpercentile nanquantile percentile quantile"
    ),
    "functions.reductions.totals": "all amax amin any count_nonzero max min prod ptp sum",
    "functions.reductions.without_nan": "nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    "functions.report": "report",
    "functions.searching": "choose searchsorted take_along_axis",
    "functions.sequences.bits": "packbits unpackbits",
    "functions.sequences.convolutions": "convolve correlate",
    "functions.sequences.neighbourhoods": "coarsen push",
    "functions.sequences.polynomials": (
        "polyadd polyder polydiv polyfit polyint polymul polysub polyval vander"
    ),
    "functions.set_operations": (
        "intersect1d setdiff1d setxor1d union1d unique_all unique_counts unique_inverse "
        "unique_values"
    ),
    "functions.sets": "isin unique",
    "functions.sorting": (
        "argpartition argsort argtopk lexsort partition sort sort_complex topk"
    ),
    "functions.special": (
        "busday_count busday_offset datetime_as_string fix i0 is_busday iscomplex isneginf isnull "
        "isposinf isreal notnull select sinc"
    ),
    "functions.statistics": "corrcoef cov",
    "functions.storage.hdf5_files": "to_hdf5",
    "functions.storage.loading": "from_array from_delayed to_delayed",
    "functions.storage.npy_stacks": "from_npy_stack to_npy_stack",
    "functions.storage.storing": "store",
    "functions.storage.zarr_files": "from_zarr to_zarr",
    "other_kinds": "todense",
    "functions.types": (
        "__array_namespace_info__ can_cast common_type iscomplexobj isrealobj min_scalar_type "
        "result_type"
    ),
    "kernels.run": "wait_compiled",
    "overlap": "map_overlap",
    "users.along_axes": "apply_along_axis apply_over_axes frompyfunc piecewise vectorize",
    "users.from_function": "fromfunction",
    "users.gufuncs": "apply_gufunc as_gufunc gufunc",
    "users.map_blocks": "blockwise map_blocks",
    "users.reduction": "reduction",
    "users.windows": "sliding_window_view",
}

#: What only methods of arrays and functions of NumPy call, by module.
HELPERS: dict[str, str] = {
    "functions.computed": "may_share_memory numba_value refuse_function shares_memory",
    "functions.elementwise": "call_ufunc compared conj_of field power_by",
    "functions.indexing.setitem": "set_item",
    "functions.indexing.taking": "compress_method getitem_by_arrays vindex_of",
    "functions.manipulation.layout": "view_as",
    "functions.manipulation.shaping": "reshape_method",
    "functions.mutators": "copyto fill_diagonal place put put_along_axis putmask",
    "functions.reductions.by_ufunc": "ufunc_accumulate ufunc_reduce",
    "functions.storage.hdf5_files": "to_hdf5_method",
    "functions.ufuncs": "ufunc_method",
    "overlap": "map_overlap_of",
    "users.blocks": "Blocks",
    "users.map_blocks": "map_blocks_of",
    "users.gufuncs": "call_gufunc",
}

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
