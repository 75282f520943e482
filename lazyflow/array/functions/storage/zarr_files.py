"""Arrays that zarr stores, read and written chunk by chunk."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from lazyflow.array.core import Array
from lazyflow.array.functions.arguments import ChunksLike
from lazyflow.array.functions.storage.loading import from_array
from lazyflow.array.functions.storage.store_targets import StoreTarget, identity
from lazyflow.array.functions.storage.storing import store
from lazyflow.array.nodes.block_kinds import check_is_numpy
from lazyflow.array.nodes.expr import below
from lazyflow.array.nodes.sources import Stored


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
        A zarr array or group; or a path, a URL of fsspec's, or a store of zarr's.
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
        url, component = _in_group(_path_of(url, kwargs), component)
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
        A zarr array to write to; or a group, a path, a URL of fsspec's, or a store of zarr's, where
        one is made. What is written has chunks that end where shards, or else chunks, of the zarr
        array do.
    component
        Path of the array in a group.
    region
        What of the zarr array is written to, as of `store`; only if `url` is one.
    compute, return_stored
        As of `store`.
    **kwargs
        Of ``zarr.create_array``, such as ``overwrite=True``, ``shards=(4, 4)``, `compressors`,
        `attributes` or `zarr_format`. ``chunks`` is
        the largest chunk of `arr` unless it is said, ``dtype`` that of `arr`.

    Raises
    ------
    ValueError
        `region` is given with a path, shapes differ, or `arr` is read from what ``overwrite=True``
        would erase.

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
    check_is_numpy(arr.expr, "to_zarr()")
    arr = arr.with_known_sizes()
    if isinstance(url, zarr.Array):
        target = url
    elif region is not None:
        raise ValueError(
            "to_zarr() writes a region of an array that is there: open it by zarr.open_array(url) "
            "and pass it as url"
        )
    else:
        url, component = _in_group(_path_of(url, kwargs), component)
        if kwargs.get("overwrite"):
            _refuse_to_erase(arr, url, component)
        kwargs.setdefault("chunks", tuple([max(n, 1) for n in arr.chunksize]))
        kwargs.setdefault("dtype", arr.dtype)
        target = zarr.create_array(url, name=component, shape=arr.shape, **kwargs)
    part = StoreTarget.of(target, region, None)
    part.check(arr)
    arr = arr.rechunk(part.chunks_for(arr.chunks))
    return store(arr, target, False, region, compute, return_stored)


def _path_of(url: Any, options: dict[str, Any]) -> Any:
    """Return the path of a URL of a local file: by fsspec's, zarr 3.1 makes no folders."""
    if isinstance(url, str) and url.startswith("file:") and "storage_options" not in options:
        from urllib.request import url2pathname  # which imports http, for 0.1 s

        return url2pathname(urlsplit(url).path)
    return url


def _in_group(url: Any, component: str | None) -> tuple[Any, str | None]:
    """Return the store of a group, and the path of an array of it; others as they are."""
    if not isinstance(url, _zarr().Group):
        return url, component
    if not component:
        raise ValueError(
            f"{url.store_path} is a group, which holds {sorted(url.array_keys())}: name an array "
            "of it by component="
        )
    return url.store, f"{url.path}/{component}".lstrip("/")


def _refuse_to_erase(arr: Array, url: Any, component: str | None) -> None:
    """Raise where an array is read from what is erased before it is written."""
    read = [identity(x.store) for x in below([arr.expr]) if isinstance(x, Stored)]
    if not read:
        return
    try:
        erased = identity(_zarr().open(url, path=component or "", mode="r"))
    except FileNotFoundError:  # nothing is there
        return
    for place in read:
        if place == erased or str(place).startswith(f"{str(erased).rstrip('/')}/"):
            raise ValueError(
                f"to_zarr(overwrite=True) would erase {erased}, from which the array is read, "
                "before it is written. Write to another path; or write the values back where "
                "they were: to_zarr(x, zarr.open_array(path))"
            )
