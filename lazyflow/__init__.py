"""Lazy task graphs of plain Python functions.

Mark functions with `delayed`, call them to build a graph, and `compute` it: on threads, in the
caller's own thread, in processes, or on any executor, without changing the program.
"""

# Layers; imports go down only, also inside functions (tests/test_layers.py):
#
#   0  errors, config, sizes, services     words
#   1  graph/                              what a task is, its inputs and its name; the plan
#   2  store/                              how values are kept and handed over
#   3  schedulers/                         what runs plans; base.py is the page to read first
#   4  collection, wanted, evaluate,       compute, persist, wait, Delayed, @delayed, trace
#      waiting, wire, lazy, decorator, tracing
#   6  learn/                              solvers written as graphs
#   7  diagnostics/                        progress, drawings
#   8  demo, testing/, __main__            what is run
#
# numpy, numba, scipy, pandas and every engine are loaded on first use, never by this import.

from typing import Any

from lazyflow import config
from lazyflow.collection import Collection
from lazyflow.decorator import delayed
from lazyflow.errors import (
    Cancelled,
    CycleError,
    InputMutated,
    KeyConflict,
    LazyflowError,
    LazyflowWarning,
    RemoteTaskError,
    SchedulerLost,
    SerializationError,
    StoreFull,
    TaskTimeout,
    WorkerDied,
)
from lazyflow.evaluate import compute, is_lazy, optimize, persist
from lazyflow.graph.options import annotate
from lazyflow.lazy import Delayed
from lazyflow.schedulers.registry import shutdown
from lazyflow.tracing import trace
from lazyflow.waiting import wait

__version__ = "0.1.0"

__all__ = [
    "Cancelled",
    "Collection",
    "CycleError",
    "Delayed",
    "InputMutated",
    "KeyConflict",
    "LazyflowError",
    "LazyflowWarning",
    "ProgressBar",
    "RemoteTaskError",
    "SchedulerLost",
    "SerializationError",
    "StoreFull",
    "TaskTimeout",
    "WorkerDied",
    "annotate",
    "compute",
    "config",
    "delayed",
    "is_lazy",
    "optimize",
    "persist",
    "shutdown",
    "tokenize",
    "trace",
    "visualize",
    "wait",
]

#: Names that cost an import which most programs do not need.
_ON_FIRST_USE = {
    "ProgressBar": "lazyflow.diagnostics.progress",
    "tokenize": "lazyflow.graph.tokens",
    "visualize": "lazyflow.diagnostics.visualize",
}


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        from importlib import import_module

        found = globals()[name] = getattr(import_module(_ON_FIRST_USE[name]), name)
        return found
    hint = config.nearest(name, __all__)
    raise AttributeError(f"module 'lazyflow' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
