"""The one table by which lower layers reach services of higher ones.

Layers import downwards only. A service that a method of a lower layer offers and a higher layer
does (``x.visualize()``, the HTML of an array in a notebook, dask's objects as arguments) is looked
up here by name. There is no other import by string, and a test reads this table.
"""

from typing import Any

SERVICES: dict[str, str] = {
    "visualize": "lazyflow.diagnostics.visualize:visualize",
    "dask_task": "lazyflow.interop.dask:dask_task",
    "array_html": "lazyflow.diagnostics.array_html:array_html",
}


def service(name: str) -> Any:
    """Return the function of a service; its module is imported at the first use.

    >>> service("visualize").__module__
    'lazyflow.diagnostics.visualize'
    """
    from importlib import import_module

    module, _, attribute = SERVICES[name].partition(":")
    return getattr(import_module(module), attribute)
