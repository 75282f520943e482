"""Imports go down only, also inside functions; and a first sum imports little."""

import ast
import pathlib
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from types import ModuleType

import lazyflow
import lazyflow.array as la
from lazyflow.array import dispatch, names
from lazyflow.schedulers.core import sampling
from lazyflow.services import SERVICES

ROOT = pathlib.Path(lazyflow.__file__).parent

#: The first entry that a module's name starts with is its layer.
LAYERS = [
    ("lazyflow.errors", 0),
    ("lazyflow.clock", 0),
    ("lazyflow.logs", 0),
    ("lazyflow.config", 0),
    ("lazyflow.services", 0),
    ("lazyflow.system", 0),
    ("lazyflow.interrupts", 0),
    ("lazyflow.finalizers", 0),
    ("lazyflow.recent", 0),
    ("lazyflow.graph", 1),
    ("lazyflow.store", 2),
    ("lazyflow.schedulers.core", 3),
    ("lazyflow.schedulers.remote", 3.1),
    ("lazyflow.schedulers.actors", 3.2),
    ("lazyflow.schedulers.sync", 3.3),
    ("lazyflow.schedulers.threads", 3.3),
    ("lazyflow.schedulers.executor", 3.3),
    ("lazyflow.schedulers.processes", 3.4),
    ("lazyflow.schedulers.cluster.dask", 3.55),
    ("lazyflow.schedulers.cluster.ray", 3.55),
    ("lazyflow.schedulers.cluster", 3.5),
    ("lazyflow.schedulers", 3.6),  # the registry
    ("lazyflow.api", 4),
    ("lazyflow.array.chunks", 5),
    ("lazyflow.array.kernels", 5),
    ("lazyflow.array.names", 5),
    ("lazyflow.array.nodes", 5.1),
    ("lazyflow.array.passes", 5.2),
    ("lazyflow.array.evaluation", 5.3),
    ("lazyflow.array.core", 5.4),
    ("lazyflow.array.dispatch", 5.4),
    ("lazyflow.array.aliases", 5.4),
    ("lazyflow.array.as_objects", 5.4),
    ("lazyflow.array.foreign", 5.4),
    ("lazyflow.array.numba_type", 5.4),
    ("lazyflow.array.functions", 5.5),
    ("lazyflow.array", 5.6),  # users/, random/, linalg/, fft, ma, ..., and the public face
    ("lazyflow.interop.dask", 6),
    ("lazyflow.interop.dask_collections", 6),
    ("lazyflow.interop.flox", 6),
    ("lazyflow.interop.xarray", 6.1),
    ("lazyflow.interop", 4),
    ("lazyflow.weights", 6),
    ("lazyflow.learn", 6),
    ("lazyflow.tune", 6.5),
    ("lazyflow.diagnostics", 7),
    ("lazyflow.testing", 8),
    ("lazyflow.demo", 8),
    ("lazyflow.__main__", 8),
]

#: Folders that never import each other: back ends, engines, the two sides of a wire.
SIBLINGS = [
    ("lazyflow.schedulers.processes", "lazyflow.schedulers.cluster"),
    ("lazyflow.schedulers.cluster.dask", "lazyflow.schedulers.cluster.ray"),
    ("lazyflow.schedulers.processes.parent", "lazyflow.schedulers.processes.worker"),
]


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


parse = cache(ast.parse)

MODULES = {module_of(path): path for path in ROOT.rglob("*.py")}


def layer_of(module):
    for name, layer in LAYERS:
        if module == name or module.startswith(name + "."):
            return layer
    raise AssertionError(f"{module} has no layer: add it to LAYERS and to the map in __init__.py")


def imports(source, module, is_package):
    """Yield (line, module) for each import of lazyflow's own modules, wherever it stands."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "lazyflow":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, base]) if base else ".".join(parts)
            if base.split(".")[0] != "lazyflow":
                continue
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield node.lineno, inner if inner in MODULES else base


def violations(source, module, is_package=False):
    own = layer_of(module)
    return [
        f"{module}:{line} (layer {own}) imports {other} (layer {layer_of(other)})"
        for line, other in imports(source, module, is_package)
        if other != "lazyflow" and layer_of(other) > own
    ]


def test_imports_go_down_only():
    found = []
    for module, path in MODULES.items():
        if module != "lazyflow":  # it only gathers the public names
            found += violations(path.read_text(), module, path.name == "__init__.py")
    assert found == []


def test_samples_of_tasks_show_no_frame_of_the_layers_that_call_them():
    callers = [module for module in MODULES if module != "lazyflow" and layer_of(module) < 4]
    assert [m for m in callers if not f"{m}.".startswith(sampling._OURS)] == []


def test_siblings_never_import_each_other():
    found = []
    for pair in SIBLINGS:
        for module, path in MODULES.items():
            for own, other in (pair, pair[::-1]):
                if module.startswith(f"{own}."):
                    found += [
                        f"{module}:{line} imports {name}"
                        for line, name in imports(
                            path.read_text(), module, path.name == "__init__.py")
                        if name.startswith(f"{other}.")
                    ]
    assert found == []


def test_nothing_below_imports_the_package_for_a_higher_name():
    """`from lazyflow import X` inside the package may only name modules, not gathered names."""
    found = []
    for module, path in MODULES.items():
        if module == "lazyflow" or layer_of(module) >= 6:
            continue
        for line, other in imports(path.read_text(), module, path.name == "__init__.py"):
            if other == "lazyflow":
                found.append(f"{module}:{line}")
    assert found == []


def test_the_check_sees_imports_inside_functions_and_relative_ones():
    source = "def f():\n    from lazyflow.learn import fitted\n    from ..api.lazy import Delayed\n"
    assert violations(source, "lazyflow.graph.plan") == [
        "lazyflow.graph.plan:2 (layer 1) imports lazyflow.learn.fitted (layer 6)",
        "lazyflow.graph.plan:3 (layer 1) imports lazyflow.api.lazy (layer 4)",
    ]


def modules_below(graph):
    """Yield the import cycles among modules, by repeated removal of those that import none."""
    left = {m: {x for x in outs if x in graph and x != m} for m, outs in graph.items()}
    while True:
        free = [m for m, outs in left.items() if not outs & left.keys()]
        if not free:
            return left
        for m in free:
            del left[m]


def test_no_import_cycles():
    """Also counting imports inside functions, and those for types only."""
    graph = {
        module: {
            other
            for _, other in imports(path.read_text(), module, path.name == "__init__.py")
            if other != "lazyflow"
        }
        for module, path in MODULES.items()
    }
    assert modules_below(graph) == {}


def test_decisions_of_the_pool_use_no_clock_process_or_socket():
    """Events change its state: the driver has the rest."""
    rest = {"asyncio", "os", "random", "select", "signal", "socket", "subprocess", "threading"}
    rest.add("time")
    for module, path in MODULES.items():
        if ".processes.decisions" in module:
            names = [
                alias.name.split(".")[0] if isinstance(node, ast.Import) else node.module
                for node in ast.walk(parse(path.read_text()))
                if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
            ]
            assert rest.isdisjoint(names), module


def test_modules_of_the_api_import_those_that_stand_above_them():
    """In the order of the docstring of lazyflow.api."""
    order = re.findall(r"^    (\w+) {2,}", import_module("lazyflow.api").__doc__, re.MULTILINE)
    place = {f"lazyflow.api.{name}": at for at, name in enumerate(order)}
    assert set(place) == {m for m in MODULES if m.startswith("lazyflow.api.")}
    found = [
        f"{module}:{line} imports {other}, which stands below it"
        for module in place
        for line, other in imports(MODULES[module].read_text(), module, False)
        if place.get(other, -1) >= place[module]
    ]
    assert found == []


def test_functions_of_arrays_import_those_that_stand_above_them():
    """In the order of the docstring of lazyflow.array.functions."""
    package = "lazyflow.array.functions"
    order = re.findall(r"^    ([\w.]+) {2,}", import_module(package).__doc__, re.MULTILINE)
    place = {f"{package}.{name}": at for at, name in enumerate(order)}
    there = {
        m for m, path in MODULES.items()
        if m.startswith(f"{package}.") and path.name != "__init__.py"
    }
    assert set(place) == there
    found = [
        f"{module}:{line} imports {other}, which stands below it"
        for module in there
        for line, other in imports(MODULES[module].read_text(), module, False)
        if other in place and place[other] >= place[module]
    ]
    assert found == []


def test_the_maps_of_packages_name_every_module():
    """A package's own text, or that of the package around it, names what a reader finds there."""
    missing = []
    for module, path in MODULES.items():
        if path.name in ("__init__.py", "__main__.py"):
            continue
        folders = [path.parent, path.parent.parent]
        maps = [(f / "__init__.py").read_text() for f in folders if (f / "__init__.py").exists()]
        if not any(re.search(rf"\b{path.stem}\b", text) for text in maps):
            missing.append(module)
    assert missing == []


def test_functions_of_arrays_take_each_other_as_plain_names():
    """The table of names is for methods of arrays and NumPy's dispatch."""
    by_name = re.compile(r"\bfunctions\[")
    users = [m for m, path in MODULES.items() if by_name.search(path.read_text())]
    assert not [m for m in users if m.startswith("lazyflow.array.functions.")]


def test_imports_by_string_are_those_of_the_table():
    """Only services.py and the tables of public names look modules up by text."""
    users = [m for m, path in MODULES.items() if "import_module(" in path.read_text()]
    assert sorted(users) == [
        "lazyflow", "lazyflow.array.dispatch", "lazyflow.services",
    ]
    assert SERVICES == {
        "visualize": "lazyflow.diagnostics.visualize:visualize",
        "array_html": "lazyflow.diagnostics.array_html:array_html",
        "dask_task": "lazyflow.interop.dask:dask_task",
        "dask_parts": "lazyflow.interop.dask_collections:dask_parts",
    }
    for target in SERVICES.values():
        assert target.partition(":")[0] in MODULES


def test_the_tables_of_array_functions_name_what_is_there():
    """They stay inside lazyflow.array: what they import by text is of the same layer."""
    for table in names.PUBLIC, names.HELPERS:
        for name, module in names.by_name(table).items():
            path = MODULES[f"lazyflow.array.{module}"]
            assert hasattr(import_module(f"lazyflow.array.{module}"), name), (path, name)
    counted = [len(each.split()) for t in (names.PUBLIC, names.HELPERS) for each in t.values()]
    assert sum(counted) == len({**names.by_name(names.PUBLIC), **names.by_name(names.HELPERS)})


def test_no_module_of_arrays_shares_its_name_with_a_function():
    modules = {m.split(".")[2] for m in MODULES if m.startswith("lazyflow.array.")}
    public = {"fft", "linalg", "ma", "overlap", "random", "stats"}
    assert modules & set(dir(la)) == public == set(names.MODULES)
    for name in names.MODULES:
        assert isinstance(getattr(la, name), ModuleType)
        assert name not in dispatch.functions


def test_a_first_sum_imports_little():
    code = (
        "import sys, lazyflow.array as la; la.asarray([1.0, 2.0]).sum().compute(); "
        "heavy = ['numba', 'llvmlite', 'numpy.ma', 'numpy.random', 'tempfile', 'subprocess', "
        "'dask', 'ray', 'distributed', 'lazyflow.diagnostics']; "
        "print([m for m in heavy if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_no_module_shares_its_name_with_a_public_name():
    tops = {m.split(".")[1] for m in MODULES if m.count(".") == 1}
    public = set(lazyflow.__all__) - {"config"}
    assert tops & public == set()


def test_every_public_name_is_there_and_documented():
    for name in lazyflow.__all__:
        assert getattr(lazyflow, name).__doc__, name
    assert set(lazyflow.__all__) <= set(dir(lazyflow))


def test_public_packages_are_there_without_an_import_of_their_own():
    packages = ["array", "diagnostics", "learn", "testing", "weights"]
    code = (
        "import sys, lazyflow; dir(lazyflow); heavy = ['numpy', 'numba', 'llvmlite', 'dask', "
        "'ray', 'distributed', 'lazyflow.diagnostics']; "
        "assert [m for m in heavy if m in sys.modules] == []; "
        f"print([getattr(lazyflow, name).__name__ for name in {packages}])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == str([f"lazyflow.{name}" for name in packages])
