"""Lazy values as collections of dask: what `dask.compute`, `dask.persist` and others ask them.

The work is done in `lazyflow.interop.dask_collections`; dask is not imported before it asks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from lazyflow.services import service


def _asked_for_arrays() -> bool:
    """Tell whether somebody asks who would take an array for one of dask: by its class's methods.

    Those find ours by NumPy's protocols, and xarray by its chunk manager.
    """
    frame: Any = sys._getframe(2)
    if frame.f_code.co_name == "is_dask_collection" and frame.f_globals["__name__"] == "dask.base":
        frame = frame.f_back
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(("xarray.", "flox.", "dask.array."))


class DaskCollection:
    """The part of lazy values that speaks dask's protocol of collections."""

    __slots__ = ()

    @property
    def __dask_graph__(self) -> Callable[[], Any]:
        if _asked_for_arrays():
            raise AttributeError("lazyflow's lazy values are no arrays of dask")
        return lambda: service("dask_parts")(self).graph

    def __dask_keys__(self) -> list[Any]:
        keys: list[Any] = service("dask_parts")(self).keys
        return keys

    def __dask_postcompute__(self) -> tuple[Any, tuple[Any, ...]]:
        function, *arguments = service("dask_parts")(self).joins(self)
        return function, tuple(arguments)

    def __dask_postpersist__(self) -> tuple[Any, tuple[Any, ...]]:
        function, *arguments = service("dask_parts")(self).rebuilds(self)
        return function, tuple(arguments)

    @property
    def __dask_optimize__(self) -> Any:
        return service("dask_parts")(self).optimize

    @property
    def __dask_scheduler__(self) -> Any:
        return service("dask_parts")(self).get
