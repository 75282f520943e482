"""Arrays that zarr stores, read and written chunk by chunk."""

from __future__ import annotations

from typing import Any

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ChunksLike
from lazyflow.array.functions.storage.loading import from_array
from lazyflow.array.functions.storage.storing import store


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            "from_zarr() and to_zarr() need zarr, which is not installed: pip install zarr"
        ) from error
    return zarr


def from_zarr(
    url: Any, component: str | None = None, chunks: ChunksLike = "auto", **kwargs: Any
) -> Array:
    """Return a chunked array of one that zarr stores.

    Parameters
    ----------
    url
        A zarr array; or a path, a URL or a store of zarr's.
    component
        Path of the array in a group.
    chunks
        As of `normalize_chunks`; automatic ones are multiples of the stored ones.
    **kwargs
        Of ``zarr.open_array``.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> import tempfile, zarr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = la.to_zarr(la.arange(6, chunks=3), f"{folder}/numbers.zarr")
    ...     la.from_zarr(f"{folder}/numbers.zarr").sum().compute()
    np.int64(15)
    """
    zarr = _zarr()
    if isinstance(url, zarr.Array):
        found = url
    else:
        found = zarr.open_array(url, path=component or "", mode="r", **kwargs)
    return from_array(found, chunks)


def to_zarr(
    arr: Array, url: Any, component: str | None = None, region: Any = None, compute: bool = True,
    return_stored: bool = False, **kwargs: Any,
) -> Any:
    """Write an array to one that zarr stores, chunk by chunk.

    Parameters
    ----------
    arr
        A chunked array.
    url
        A zarr array to write to; or a path, a URL or a store of zarr's, where one is made with the
        largest chunk of `arr`.
    component
        Path of the array in a group.
    region
        Slices of the zarr array that are written to; only if `url` is one.
    compute, return_stored
        As of `store`.
    **kwargs
        Of ``zarr.create_array``, such as ``overwrite=True``.

    Raises
    ------
    ValueError
        `region` is given with a path, or shapes differ.

    Examples
    --------
    >>> import lazyflow.array as la
    >>> import tempfile, zarr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     la.ones((4, 6), chunks=(2, 6)).to_zarr(f"{folder}/ones.zarr")
    ...     zarr.open_array(f"{folder}/ones.zarr", mode="r").chunks
    (2, 6)
    """
    zarr = _zarr()
    arr = arr.with_known_sizes()
    if isinstance(url, zarr.Array):
        target = url
        if region is None:
            arr = arr.rechunk(_multiples(arr, target.chunks))
            return store(arr, target, False, None, compute, return_stored)
        return store(arr, target, True, region, compute, return_stored)
    if region is not None:
        raise ValueError(
            "to_zarr() writes a region of an array that is there: open it by zarr.open_array(url) "
            "and pass it as url"
        )
    sizes = tuple([max(n, 1) for n in arr.chunksize])
    target = zarr.create_array(
        url, name=component, shape=arr.shape, chunks=sizes, dtype=arr.dtype, **kwargs
    )
    return store(arr.rechunk(sizes), target, False, None, compute, return_stored)


def _multiples(arr: Array, stored: tuple[int, ...]) -> tuple[int, ...]:
    """Return chunks near those of an array of which no two share a stored chunk."""
    return tuple([
        max(round(n / each), 1) * each for n, each in zip(arr.chunksize, stored, strict=True)
    ])
