"""Which module has which function: the one table by which they are found by name.

Modules of functions are loaded when one of their functions is first asked for, as ``la.name``, as
a method of an array or by NumPy: most programs need a few of them. A test reads this table.
"""

from __future__ import annotations

#: What is public, as ``la.name``, by module below this package.
PUBLIC: dict[str, str] = {
    "users.along_axes": "apply_along_axis apply_over_axes frompyfunc piecewise vectorize",
    "users.map_blocks": "blockwise map_blocks",
    "users.reduction": "reduction",
    "chunks": "normalize_chunks",
    "functions.conversion": "array asanyarray asarray from_array from_delayed to_delayed",
    "core": "Array",
    "functions.creation": (
        "arange empty empty_like eye full full_like linspace ones ones_like tri zeros zeros_like"
    ),
    "functions.differences": "diff ediff1d gradient trapezoid",
    "functions.sets": "union1d unique",
    "functions.einstein": "einsum",
    "functions.extremes": "argmax argmin nanargmax nanargmin",
    "functions.grids": (
        "fromfunction identity logspace ravel_multi_index tril_indices tril_indices_from "
        "triu_indices triu_indices_from unravel_index"
    ),
    "users.gufuncs": "apply_gufunc as_gufunc gufunc",
    "functions.histograms": (
        "bincount digitize histogram histogram2d histogram_bin_edges histogramdd interp"
    ),
    "functions.indexing.taking": "compress delete diag diagonal extract insert take tril triu",
    "functions.manipulation.joining": (
        "append block column_stack concat concatenate dstack hstack stack vstack"
    ),
    "kernels.run": "wait_compiled",
    "functions.manipulation.layout": "rechunk unify_chunks",
    "functions.nan_reductions": "nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    "functions.order_statistics": (
        "argpartition argsort argtopk median nanmedian nanpercentile nanquantile partition "
        "percentile quantile sort topk"
    ),
    "overlap": "map_overlap",
    "functions.manipulation.padding": "pad",
    "functions.products": "cross dot inner matmul matvec outer tensordot trace vdot vecdot vecmat",
    "functions.types": "can_cast common_type iscomplexobj isrealobj result_type",
    "functions.manipulation.rearranging": (
        "array_split dsplit flip fliplr flipud hsplit indices meshgrid repeat roll rot90 split "
        "tile trim_zeros vsplit"
    ),
    "functions.reductions": (
        "all amax amin any average count_nonzero max mean min prod ptp std sum var"
    ),
    "functions.report": "report",
    "functions.routines": (
        "allclose angle around astype clip conj copy imag isclose isin nan_to_num real round where"
    ),
    "functions.scans": "cumprod cumsum cumulative_prod cumulative_sum nancumprod nancumsum",
    "functions.searching": "argwhere choose flatnonzero nonzero searchsorted take_along_axis",
    "functions.manipulation.shaping": (
        "atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to expand_dims "
        "matrix_transpose moveaxis ndim permute_dims ravel reshape rollaxis shape size squeeze "
        "swapaxes transpose"
    ),
    "functions.special": (
        "fix i0 iscomplex isneginf isnull isposinf isreal notnull select sinc"
    ),
    "functions.statistics": "array_equal array_equiv corrcoef cov",
    "functions.storing": "store",
    "users.windows": "sliding_window_view",
    "functions.zarr_files": "from_zarr to_zarr",
}

#: What methods of arrays and NumPy's functions call, and nobody else, by module.
HELPERS: dict[str, str] = {
    "users.map_blocks": "map_blocks_of",
    "users.blocks": "blocks_of",
    "functions.computed": "computed_call may_share_memory numba_value",
    "functions.extremes": "ufunc_reduce",
    "functions.indexing.taking": "fancy_item vindex_of",
    "functions.manipulation.layout": "view_as",
    "overlap": "map_overlap_of",
    "functions.mutators": "copyto fill_diagonal place put put_along_axis putmask",
    "functions.routines": "conj_of field",
    "functions.scans": "ufunc_accumulate",
    "functions.indexing.setitem": "set_item",
    "functions.manipulation.shaping": "reshape_method",
    "functions.ufuncs": "compared apply_ufunc power_by",
}

#: Modules that are public themselves.
MODULES = ("overlap", "random")

#: Constants and types that are NumPy's.
OF_NUMPY = (
    "e euler_gamma inf nan newaxis pi bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128 dtype errstate iinfo finfo issubdtype isdtype "
    "promote_types broadcast_shapes"
)


def by_name(table: dict[str, str]) -> dict[str, str]:
    """Return the module of each name.

    >>> by_name({"joining": "block stack"})
    {'block': 'joining', 'stack': 'joining'}
    """
    return {name: module for module, names in table.items() for name in names.split()}
