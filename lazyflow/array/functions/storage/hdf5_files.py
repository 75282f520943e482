"""Arrays written to HDF5 files by h5py."""

from __future__ import annotations

from typing import Any

from lazyflow.array.core import Array
from lazyflow.array.evaluation import known
from lazyflow.array.functions.storage.storing import store
from lazyflow.array.nodes.block_kinds import check_is_numpy


def to_hdf5(filename: Any, *args: Any, chunks: Any = True, **kwargs: Any) -> None:
    """Write arrays to datasets of an HDF5 file, chunk by chunk, in one compute.

    Parameters
    ----------
    filename
        Of the file, which is made if it is not there.
    *args
        The path of a dataset in it and an array, or a dict of arrays by path. A dataset that is
        there must have the shape and dtype of the array, and is written over.
    chunks
        Of new datasets; True: the first chunk of the array along each axis; None: in one piece.
    **kwargs
        Of ``h5py.File.create_dataset``, such as ``compression="gzip"``.

    Raises
    ------
    ValueError
        Neither a path and an array, nor a dict of arrays is given.
    TypeError
        A dataset that is there has another shape or dtype.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> import h5py, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     la.to_hdf5(f"{folder}/numbers.h5", "/x", la.arange(6, chunks=4))
    ...     with h5py.File(f"{folder}/numbers.h5") as file:
    ...         la.from_array(file["x"]).sum().compute()
    np.int64(15)
    """
    if len(args) == 1 and isinstance(args[0], dict):
        data = args[0]
    elif len(args) == 2 and isinstance(args[0], str) and isinstance(args[1], Array):
        data = {args[0]: args[1]}
    else:
        raise ValueError(
            "to_hdf5() takes a path in the file and a chunked array, to_hdf5('a.h5', '/x', x), or "
            "a dict of them, to_hdf5('a.h5', {'/x': x})"
        )
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            "to_hdf5() needs h5py, which is not installed: pip install h5py"
        ) from error
    arrays = list(data.values())
    for x in arrays:
        check_is_numpy(x.expr, "to_hdf5()")
    known(*arrays)
    with h5py.File(filename, mode="a") as file:
        targets = [
            file.require_dataset(
                path, shape=x.shape, dtype=x.dtype, chunks=_chunks(x) if chunks is True else chunks,
                **kwargs,
            )
            for path, x in data.items()
        ]
        store(arrays, targets)


def _chunks(x: Array) -> Any:
    """Return the chunks of a dataset; of no axes or no elements it has none."""
    return tuple([sizes[0] for sizes in x.chunks]) if x.ndim and x.size else None


def to_hdf5_method(x: Array, filename: Any, datapath: str, **kwargs: Any) -> None:
    """Write an array to a dataset of an HDF5 file."""
    to_hdf5(filename, datapath, x, **kwargs)
