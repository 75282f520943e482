"""`environment`: the text that ``python -m lazyflow info`` prints, for bug reports.

Each section of the text is a generator of pairs, name and text, that finds out what it can; a size
that the system does not tell is ``?``. The text has no names of users and machines: the home folder
is written ``~``.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any

import lazyflow
from lazyflow import config, system
from lazyflow.array.kernels.native import compiler
from lazyflow.schedulers.registry import info
from lazyflow.store.private_files import private_folder

#: What lazyflow needs, and what it can use: those of ``setup.cfg`` that programs meet.
NEEDED = ("numpy", "scipy", "numba", "llvmlite", "toolz", "cloudpickle")
ENGINES = ("distributed", "ray")
OPTIONAL = (
    "bokeh", "dask", "joblib", "keras", "optuna", "pandas", "polars", "pyarrow",
    "scikit-learn", "threadpoolctl", "torch", "tqdm", "xarray", "zarr",
)
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Facts = Iterator[tuple[str, str]]


def environment() -> str:
    """Return what a bug report should say about this process and its machine, as text.

    It has versions, cores, memory and limits, control groups, the settings that differ from their
    defaults, the engines that are installed, whether kernels can be compiled and are kept, and
    `lazyflow.info`. It has no names of users or machines: the home folder is written ``~``.
    ``python -m lazyflow info`` prints it for a new process.

    Examples
    --------
    >>> from lazyflow.diagnostics import environment
    >>> environment().splitlines()[0], "numpy" in environment()
    ('versions', True)
    """
    sections: dict[str, Facts] = {
        "versions": _versions(),
        "machine": _machine(),
        "limits of the process": system.resource_limits(),
        "settings": _settings(),
        "schedulers": _schedulers(),
        "kernels of arrays": _kernels(),
        "in use": ((name, _facts(state)) for name, state in info().items()),
    }
    lines = []
    for title, facts in sections.items():
        lines += [title, *(f"  {name:15} {text}".rstrip() for name, text in facts)]
    home = os.path.expanduser("~")
    text = "\n".join(lines)
    return text if len(home) < 2 else text.replace(home, "~")


def _versions() -> Facts:
    yield "lazyflow", f"{lazyflow.__version__} in {os.path.dirname(lazyflow.__file__)}"
    yield "python", f"{platform.python_implementation()} {sys.version}"
    for name in NEEDED:
        yield name, _version(name)
    found = {name: _version(name) for name in OPTIONAL}
    yield "also here", ", ".join(f"{n} {v}" for n, v in found.items() if v != _MISSING) or "nothing"


_MISSING = "not installed"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return _MISSING


def _machine() -> Facts:
    yield "system", f"{platform.system()} {platform.release()} on {platform.machine()}"
    yield "cores", f"{system.core_count()} for this process, of {os.cpu_count()}"
    yield "memory", (
        f"{_size(system.free_memory())} free of {_size(system.total_memory())}; "
        f"this process has {_size(system.process_usage(os.getpid())[0])}"
    )
    groups = dict(system.group_limits())
    yield "control groups", _facts(groups) if groups else "no limit that can be read"
    left = system.group_memory()
    if left is not None:
        yield "", f"which leave {_size(left)} of memory"
    folder = tempfile.gettempdir()
    where = "in memory" if system.is_in_memory(folder) else "on a disk, as far as that is known"
    yield "temporary files", f"{folder}, {where}"


def _settings() -> Facts:
    kept = config.values()
    yield "runs on", f"{kept['scheduler'] or 'threads'}, {_workers(kept['num_workers'])}"
    for name, value in kept.items():
        if value != config.default(name):
            yield name, repr(value)
    for name in sorted(os.environ):
        if name in _THREADS or name.startswith("LAZYFLOW_"):
            yield name, f"{os.environ[name]!r} in the environment"


def _workers(given: int | None) -> str:
    return f"{config.default_workers() if given is None else given} workers"


def _schedulers() -> Facts:
    lacking = system.lacks_processes()
    yield "processes", f"none: {lacking} is missing here" if lacking else "can be started"
    for name in ENGINES:
        yield name, _version(name)
    for entry in entry_points(group="lazyflow.schedulers"):
        yield entry.name, f"registered by {entry.value}"


def _kernels() -> Facts:
    why = compiler.trial()
    yield "compiler", f"none: {why}" if why else "compiles"
    if not why:
        yield "cache", _cache(compiler.folder())


def _cache(folder: str | None) -> str:
    if folder is None:
        return "switched off" if config.get("kernel_cache") is False else "no home folder for it"
    if not os.path.lexists(folder):
        return f"{folder}, not made yet"
    try:
        with private_folder(folder) as opened:
            sizes = []
            for name in os.listdir(opened):
                with suppress(OSError):  # another process removed it
                    sizes.append(os.stat(name, dir_fd=opened, follow_symlinks=False).st_size)
    except (OSError, AttributeError) as error:  # not private, or not on Unix
        return f"{folder}, not used: {error}"
    return f"{folder}, {len(sizes)} files of {_size(sum(sizes))}"


def _facts(state: Any) -> str:
    if not isinstance(state, Mapping):
        return str(state)
    return ", ".join(f"{name}: {_facts(value)}" for name, value in state.items())


def _size(count: int | None) -> str:
    """Return a number of bytes as text.

    >>> _size(3 << 30), _size(1 << 20), _size(None)
    ('3.0 GiB', '1.0 MiB', '?')
    """
    if count is None:
        return "?"
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count / 2**20:.1f} MiB"
