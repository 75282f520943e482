"""What to write instead of attributes that arrays, or lazyflow.array, do not have."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import numpy as np

from lazyflow import config

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
    "PerformanceWarning": "it is lazyflow.LazyflowWarning",
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
