"""Imports by text: services of higher layers, and names that a package imports on first use.

Layers import downwards only. A method of a lower layer that a higher layer implements
(``x.visualize()``, the HTML of an array in a notebook, dask's objects as arguments) finds the
function here by name. A test reads this table.
"""

from collections.abc import Mapping
from typing import Any

from lazyflow import config

SERVICES: dict[str, str] = {
    "visualize": "lazyflow.diagnostics.visualize:visualize",
    "dask_task": "lazyflow.interop.dask:dask_task",
    "dask_parts": "lazyflow.interop.dask_collections:dask_parts",
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


def public_name(package: str, modules: Mapping[str, str], name: str) -> Any:
    """Import a public name of a package; `modules` has all its names, by module.

    >>> public_name("lazyflow.learn", {"solvers.minimize": "minimize"}, "minimise")
    Traceback (most recent call last):
    ...
    AttributeError: module 'lazyflow.learn' has no attribute 'minimise'; did you mean 'minimize'?
    """
    from importlib import import_module

    module_of = {each: module for module, names in modules.items() for each in names.split()}
    if name not in module_of:
        hint = config.nearest(name, module_of)
        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
    try:
        return getattr(import_module(f"{package}.{module_of[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise ModuleNotFoundError(
            f'{package}.{name} needs scikit-learn: pip install "lazyflow[learn]"', name=error.name
        ) from None
