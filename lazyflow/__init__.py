"""Lazy task graphs of plain Python functions.

Mark functions with `delayed`, call them to build a graph, and `compute` it: on threads, in the
caller's own thread, in processes, or on any executor, without changing the program.
"""

# Layers; imports go down only, also inside functions (tests/test_layers.py):
#
#   0  errors, config              exceptions; settings
#      services                    imports by text, for methods that higher layers implement
#      clock, logs                 time as an argument, and deadlines; lines in the log
#      system                      calls of Linux, and portable ones in their place
#      interrupts, finalizers      Ctrl-C; actions when an object is freed
#      recent                      a table for caches of a fixed size
#   1  graph/                      tasks, their inputs and names; plans
#   2  store/                      how values are kept and handed over
#   3  schedulers/                 run plans; its docstring says where each decision is made
#   4  api/                        compute, persist, wait, Delayed, futures, actors, ...
#      interop/                    lazy objects of other libraries (those with arrays: above array/)
#   5  array/                      chunked arrays
#   6  learn/, weights             solvers written as graphs; the weights of models
#      tune/                       searches of hyperparameters
#   7  diagnostics/                progress, drawings, profiles
#   8  demo, testing/, __main__    the demo, the contract of schedulers, the command line
#
# numpy, numba, scipy, pandas and every engine are loaded on first use, never by this import.

from os import environ as _environ
from typing import TYPE_CHECKING, Any

from lazyflow import config
from lazyflow.api.collection import Collection
from lazyflow.api.decorator import delayed
from lazyflow.api.evaluate import compute, is_lazy, optimize, persist
from lazyflow.api.lazy import Delayed
from lazyflow.api.waiting import gather, wait
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
from lazyflow.graph.options import annotate
from lazyflow.schedulers.registry import info, shutdown

if TYPE_CHECKING:
    from lazyflow.api.actor_pool import ActorPool
    from lazyflow.api.actors import actor, get_actor
    from lazyflow.api.decorator import from_map, tree_reduce
    from lazyflow.api.executors import Executor
    from lazyflow.api.futures import Future, put, submit
    from lazyflow.api.futures import map as map
    from lazyflow.api.rerunning import rerun, trace
    from lazyflow.api.waiting import as_completed
    from lazyflow.api.worker_states import worker_state
    from lazyflow.diagnostics.dashboard.server import dashboard
    from lazyflow.diagnostics.profiling.recorder import profile
    from lazyflow.diagnostics.progress import ProgressBar
    from lazyflow.diagnostics.visualize import visualize
    from lazyflow.graph.tokens.tokenize import tokenize

if _environ.get("LAZYFLOW_CHECK", "0").lower() not in ("", "0", "false", "no"):
    from lazyflow.graph import spec as _spec

    _spec.check_always()

__version__ = "0.1.0"

__all__ = [
    "ActorPool",
    "Cancelled",
    "Collection",
    "CycleError",
    "Delayed",
    "Executor",
    "Future",
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
    "actor",
    "annotate",
    "as_completed",
    "compute",
    "config",
    "dashboard",
    "delayed",
    "from_map",
    "gather",
    "get_actor",
    "info",
    "is_lazy",
    "optimize",
    "persist",
    "profile",
    "put",
    "rerun",
    "shutdown",
    "submit",
    "tokenize",
    "trace",
    "tree_reduce",
    "visualize",
    "wait",
    "worker_state",
]

#: Names that cost an import which most programs do not need.
_ON_FIRST_USE = {
    "ActorPool": "lazyflow.api.actor_pool",
    "Executor": "lazyflow.api.executors",
    "Future": "lazyflow.api.futures",  # concurrent.futures: 6 ms
    "map": "lazyflow.api.futures",  # not in __all__: a star must not hide the builtin
    "put": "lazyflow.api.futures",
    "submit": "lazyflow.api.futures",
    "ProgressBar": "lazyflow.diagnostics.progress",
    "dashboard": "lazyflow.diagnostics.dashboard.server",
    "profile": "lazyflow.diagnostics.profiling.recorder",
    "actor": "lazyflow.api.actors",
    "get_actor": "lazyflow.api.actors",
    "as_completed": "lazyflow.api.waiting",
    "from_map": "lazyflow.api.decorator",
    "rerun": "lazyflow.api.rerunning",
    "tokenize": "lazyflow.graph.tokens.tokenize",
    "trace": "lazyflow.api.rerunning",
    "tree_reduce": "lazyflow.api.decorator",
    "visualize": "lazyflow.diagnostics.visualize",
    "worker_state": "lazyflow.api.worker_states",
}


#: Modules that most programs do not need either; some load numpy.
_MODULES = ("array", "diagnostics", "learn", "testing", "tune", "weights")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"lazyflow.{name}")
    if name in _ON_FIRST_USE:
        from importlib import import_module

        found = globals()[name] = getattr(import_module(_ON_FIRST_USE[name]), name)
        return found
    from lazyflow.api.hints import words_for

    hint = words_for(name) or config.nearest(name, [*__all__, *_MODULES])
    raise AttributeError(f"module 'lazyflow' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ON_FIRST_USE, *_MODULES})
