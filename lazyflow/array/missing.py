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
    "to_hdf5": "la.store(x, dataset) writes to a dataset of h5py",
    "to_tiledb": "la.store(x, target) writes to what takes slices",
    "to_svg": "x._repr_html_() draws the chunks",
    "name": "the tasks of the blocks have the names: la.to_delayed(x)[0].key",
}


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

    >>> not_there_yet("kron", [])
    ' yet: np.kron takes chunked arrays and gets them computed'
    """
    found = getattr(np, name, None)
    if name == "ma":
        return " yet: chunked arrays have no masks; use NaN and la.nanmean(x)"
    if isinstance(found, ModuleType):
        return f" yet: functions of np.{name} take chunked arrays and get them computed"
    if hasattr(found, "_implementation"):  # of those that NumPy dispatches
        return f" yet: np.{name} takes chunked arrays and gets them computed"
    return config.nearest(name, known)
