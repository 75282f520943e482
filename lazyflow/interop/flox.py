"""flox's reductions of groups, of chunked arrays: `groupby` and `resample` of xarray.

flox recognises lazy arrays by type, dask's and cubed's, and computes others.
One function of flox reduces an array in memory; for lazyflow's arrays its steps are used here: each
block is reduced by groups, and the results of blocks are combined in a tree. Reductions without
such steps, such as medians, are done with the grouped axes in one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import flox.aggregations
import flox.core
import flox.scan
import numpy as np

import lazyflow.array as la
from lazyflow.array.core import Array


def register() -> None:
    """Have flox reduce chunked arrays of lazyflow lazily; others as before."""
    theirs = flox.core._reduce_blockwise
    if not isinstance(theirs, _Reduce):
        flox.core._reduce_blockwise = _Reduce(theirs)
        flox.scan.chunk_scan = _Scan(flox.scan.chunk_scan)


class _Reduce:
    """Reduces an array by groups: one of lazyflow lazily, any other by flox."""

    def __init__(self, theirs: Callable[..., Any]) -> None:
        self.theirs = theirs

    def __call__(self, array: Any, by: Any, agg: Any, *, axis: Any, **options: Any) -> Any:
        if not isinstance(array, Array):
            return self.theirs(array, by, agg, axis=axis, **options)
        groups = options["expected_groups"]
        by = np.broadcast_to(by, array.shape[array.ndim - by.ndim:])
        if len(axis) > 1:
            array = array.reshape(*array.shape[:-len(axis)], -1)
            by = by.reshape(*by.shape[:-len(axis)], -1)
        by_blocks = (
            agg.chunk[0] is not None and agg.reduction_type == "reduce"
            and options["reindex"].blockwise
        )
        reduce = _by_blocks if by_blocks else _by_whole_axes
        return {"groups": groups, agg.name: reduce(array, by, agg, options, self.theirs)}


class _Scan:
    """Scans an array by groups, along an axis in one chunk if it is lazyflow's."""

    def __init__(self, theirs: Callable[..., Any]) -> None:
        self.theirs = theirs

    def __call__(self, inp: Any, *, axis: int, agg: Any, **options: Any) -> Any:
        if not isinstance(inp.array, Array):
            return self.theirs(inp, axis=axis, agg=agg, **options)

        def scan(block: Any, groups: Any) -> Any:
            given = replace(inp, array=block, group_idx=groups)
            return self.theirs(given, axis=block.ndim - 1, agg=agg, **options).result.array

        made = la.apply_gufunc(
            scan, "(r),(r)->(r)", inp.array, inp.group_idx, output_dtypes=agg.dtype,
            allow_rechunk=True,
        )
        result = replace(inp, array=made)
        return flox.aggregations.ScanState(result=result, state=None)


def _by_blocks(array: Any, by: Any, agg: Any, options: Any, theirs: Any) -> Array:
    groups, axis = options["expected_groups"], (array.ndim - 1,)

    def chunk(block: Any, by_block: Any, **_: Any) -> Any:
        own = by_block[(0,) * (block.ndim - by.ndim)]
        reduced = flox.core.chunk_reduce(
            block, own, func=agg.chunk, axis=axis, expected_groups=groups,
            fill_value=agg.fill_value["intermediate"], dtype=agg.dtype["intermediate"],
            reindex=True, user_dtype=agg.dtype["user"], engine=options["engine"],
            sort=options["sort"],
        )
        return reduced["intermediates"]

    def combine(parts: Any, **_: Any) -> Any:
        combined = []
        for k, together in enumerate(agg.simple_combine):
            stacked = np.concatenate([np.expand_dims(part[k], -2) for part in parts], axis=-2)
            with np.errstate(all="ignore"):
                combined.append(together(stacked, axis=(-2,), keepdims=True)[..., 0, :])
        return combined

    def aggregate(parts: Any, **_: Any) -> Any:
        results = {"groups": np.asarray(groups), "intermediates": combine(parts)}
        return flox.core._finalize_results(results, agg, axis, groups, options["reindex"])[agg.name]

    return la.reduction(
        array, chunk, aggregate, array.ndim - 1, True, agg.dtype["final"], combine=combine,
        name=agg.name, concatenate=False, output_size=len(groups), weights=by,
    )


def _by_whole_axes(array: Any, by: Any, agg: Any, options: Any, theirs: Any) -> Array:
    added = agg.num_new_vector_dims

    def reduce(block: Any, by_block: Any) -> Any:
        found = theirs(block, by_block, deepcopy(agg), axis=(block.ndim - 1,), **options)
        return np.moveaxis(found[agg.name], range(added), range(-1 - added, -1))

    sizes = {"g": len(options["expected_groups"])}
    if added:
        sizes["q"] = len(np.atleast_1d(agg.finalize_kwargs["q"]))
    made: Any = la.apply_gufunc(
        reduce, f"(r),(r)->({'q,' * added}g)", array, by, output_dtypes=agg.dtype["final"],
        output_sizes=sizes, allow_rechunk=True,
    )
    return la.moveaxis(made, -2, 0) if added else made
