"""Files are read in one sitting, functions are short, folders small, maps true, classes unique."""

import ast
import io
import re
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import lazyflow

ROOT = Path(lazyflow.__file__).parent
FILES = {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
#: A loop that is read from top to bottom and that every task goes through: calls would cost it.
LONG = {"schedulers/core/run.py:_loop"}


@cache
def trees():
    return {path: ast.parse(text) for path, text in FILES.items()}


def own_lines(function):
    """Count the lines of a function, its docstring aside."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def test_no_file_has_more_than_900_lines():
    """What is read together stays together: a limit of 400 cut one matter into several files."""
    assert {str(p): n for p, text in FILES.items() if (n := text.count("\n")) > 900} == {}


def test_no_function_has_more_than_50_lines():
    found = {
        f"{path.relative_to(ROOT)}:{node.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and own_lines(node) > 50
    }
    assert found == LONG


def test_no_folder_has_more_than_25_modules():
    modules = Counter(path.parent for path in FILES if path.name != "__init__.py")
    assert {str(folder): n for folder, n in modules.items() if n > 25} == {}


def test_no_class_name_is_used_twice():
    names = Counter(
        node.name
        for tree in trees().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, n in names.items() if n > 1] == []


#: Functions of `time` that read the system's clock, or wait for it.
CLOCKS = {
    name + unit
    for name in ("monotonic", "perf_counter", "process_time", "thread_time", "time", "sleep")
    for unit in ("", "_ns")
}
#: Who calls them, and what for: nothing else does. Decisions by time take a `Clock`.
READS_THE_CLOCK = {
    "array/kernels/native/compiler.py": "measures",  # compilation
    "demo.py": "measures",
    "diagnostics/profiling/recorder.py": "measures",  # a profile's begin and end
    "diagnostics/profiling/recording.py": "measures",  # runs, and the use of the CPU
    "learn/examples/batched_lbfgs.py": "measures",
    "learn/examples/serving.py": "measures",
    "learn/solvers/stopping.py": "measures",  # steps of a solver
    "schedulers/actors/calls.py": "measures",
    "schedulers/actors/handles/exchange.py": "waits",  # for a descriptor, which nothing announces
    "schedulers/cluster/dask/in_worker.py": "measures",
    "schedulers/cluster/dask/workers.py": "measures",
    "schedulers/cluster/work.py": "measures",
    "schedulers/core/observing.py": "measures",
    "schedulers/processes/parent/pool_run.py": "measures",
    "schedulers/processes/worker/parcels.py": "measures",
    "schedulers/processes/worker/task_worker.py": "measures",
    "store/spilling.py": "measures",  # writing
    "testing/failures.py": "measures",  # how long a failure took
    "tune/callbacks.py": "dates",  # the events of a file
    "tune/model_selection.py": "measures",  # a fit
}
#: Those may only be defaults of arguments: code that calls them could not be tested.
DECIDES = {"monotonic", "monotonic_ns", "sleep"}


def calls_of_time(tree):
    """Yield the name of each function of `time` that is called, also under another name."""
    names = {"time." + name: name for name in CLOCKS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [each.asname for each in node.names if each.name == "time" and each.asname]
            names |= {f"{module}.{name}": name for module in modules for name in CLOCKS}
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            names |= {each.asname or each.name: each.name for each in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and names.get(ast.unparse(node.func)) in CLOCKS:
            yield names[ast.unparse(node.func)]


def test_what_decides_by_time_takes_a_clock():
    called = {
        path.relative_to(ROOT).as_posix(): set(calls_of_time(tree))
        for path, tree in trees().items()
    }
    assert {path for path, names in called.items() if names} == set(READS_THE_CLOCK)
    deciding = {path: names & DECIDES for path, names in called.items() if names & DECIDES}
    assert deciding == {
        path: {"sleep"} for path, why in READS_THE_CLOCK.items() if why == "waits"
    }


def test_a_clock_is_seen_under_any_name():
    imports = "import time as t\nfrom time import perf_counter as p, sleep\n"
    text = imports + "t.time(), p(), sleep(1), q()"
    assert list(calls_of_time(ast.parse(text))) == ["time", "perf_counter", "sleep"]


#: Where tests sleep, by file and function; programs that are text aside, which are killed, too.
#: A test waits for what happens, by `until` or an event.
SLEEPS = {
    "conftest.py:pytest_collection": "waits",  # for another process of the suite
    "helpers/waiting.py:until": "waits",
    "helpers/actor_examples.py:end": "killed",
    "helpers/fault_tools.py:strike": "killed",
    "interop/test_joblib.py:endless": "killed",
    "schedulers/processes/test_process_faults.py:end_it": "killed",
    "schedulers/processes/test_process_memory.py:long": "killed",
    "schedulers/processes/test_process_remade.py:endless": "killed",
    "schedulers/processes/test_process_remade.py:slowly": "killed",
    "schedulers/processes/test_process_retries.py:endless": "killed",
    "schedulers/processes/test_process_tasks.py:interrupted": "killed",
    "schedulers/test_stress_workers.py:leaf": "yields",  # sleep(0) lets another thread go on
}


def sleepers(tree, inside=""):
    """Yield the innermost function around each call of `time.sleep`."""
    for node in ast.iter_child_nodes(tree):
        is_call = isinstance(node, ast.Call) and len(node.args) == 1  # two: the sleep of a bell
        if is_call and ast.unparse(node.func) in ("sleep", "time.sleep"):
            yield inside
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from sleepers(node, node.name if is_function else inside)


def test_no_test_sleeps_in_its_body():
    """It would take as long as it sleeps, and fail where the machine is slower."""
    root = Path(__file__).parent
    found = {
        f"{path.relative_to(root).as_posix()}:{name}"
        for path in root.rglob("*.py")
        for name in sleepers(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set(SLEEPS)
    assert not [where for where in found if where.split(":")[1].startswith("test_")]


def test_no_method_is_chosen_by_a_string():
    """`getattr(self, name)` hides what is called from readers, from grep and from mypy."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Call)
        and isinstance(node.func.func, ast.Name)
        and node.func.func.id == "getattr"
        and isinstance(node.func.args[0], ast.Name)
        and node.func.args[0].id == "self"
    ]
    assert found == []


#: Exact numbers that their names explain: kinds that are only compared.
EXPLAINED = {
    f"graph/kinds.py:{name}"
    for name in (
        "LIST", "TUPLE", "DICT", "SET", "FROZENSET", "SLICE", "NAMEDTUPLE", "DATACLASS", "DICTVIEW"
    )
}


def is_number(node):
    """Tell whether an expression is made of whole numbers and floats only."""
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def bare_numbers(text):
    """Yield the upper-case numbers of a module without a comment beside or directly above them."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    comments = {t.start[0]: t.line.lstrip()[0] for t in tokens if t.type == tokenize.COMMENT}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_number(node.value):
            lines = range(node.lineno, node.end_lineno + 1)
            if comments.get(node.lineno - 1) != "#" and not any(n in comments for n in lines):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name) and target.id.isupper():
                        yield target.id


def test_numbers_are_explained():
    """A reader has to know a number's unit, and whether it was measured or is a guess."""
    found = {
        f"{path.relative_to(ROOT).as_posix()}:{name}"
        for path, text in FILES.items()
        for name in bare_numbers(text)
    }
    assert found == EXPLAINED


def test_a_comment_of_the_line_before_explains_another_number():
    text = "A = 1  # byte\nB = 2\n# bytes\nC = -3\nD: int = 1 << 4\n"
    assert list(bare_numbers(text)) == ["B", "D"]


def places_to_look():
    """Yield each "file.py: `name`" below "Where to look" in the map of a package."""
    for path, text in FILES.items():
        if path.name == "__init__.py" and "Where to look" in text:
            part = text.partition("Where to look")[2].partition('"""')[0].replace("#", " ")
            for file, names in re.findall(r"([\w/]+\.py): ((?:`[\w.]+`[\s,]*)+)", part):
                for name in re.findall(r"`([\w.]+)`", names):
                    yield path.parent, file, name


def test_maps_name_what_is_there():
    places = list(places_to_look())
    wrong = []
    for folder, file, name in places:
        path = next((p for p in (folder / file, ROOT / file) if p.exists()), None)
        *owner, last = name.split(".")
        nodes = list(ast.walk(trees()[path])) if path is not None else []
        for cls in owner:
            nodes = [n for node in nodes if getattr(node, "name", "") == cls for n in node.body]
        here = {getattr(node, "name", getattr(node, "id", "")) for node in nodes}
        if last not in here:
            wrong.append((str(folder.relative_to(ROOT)), file, name))
    assert len(places) > 15 and wrong == []
