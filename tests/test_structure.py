"""Files are read in one sitting, functions are short, folders small, maps true, classes unique."""

import ast
import re
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


def test_what_decides_by_time_takes_a_clock():
    """`monotonic` is only a default of arguments: code that decides by it could not be tested."""
    found = {
        f"{path.relative_to(ROOT)}:{ast.unparse(node.func)}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("monotonic", "time.monotonic", "sleep", "time.sleep")
    }
    # It waits for a free descriptor, which nothing announces.
    assert found == {"schedulers/actors/handles/exchange.py:sleep"}


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
